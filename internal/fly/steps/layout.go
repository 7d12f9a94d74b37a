package steps

import (
	"sort"

	"github.com/windtunnel/windtunnel/scenario"
)

// layout numbers the objects of a create step, so that no list of them is
// kept. An object belongs to a space (each namespace by itself with
// perNamespace, else there is but one), an index, and is one of those that are
// made for that index: an item, and a replica of it.
//
// Within a space objects are numbered by index, then by item and replica; over
// all spaces they are sent one space after another.
type layout struct {
	items  []scenario.Item
	number []int // of each item among all that the step makes
	spaces int
	plain  int // objects of each index where all have as many; else 0
}

// ordinal is the place of one object in the order of a create step.
type ordinal struct {
	space   int
	index   int // in its space
	item    int // among all that the step makes
	replica int // from 1
}

// newLayout returns the layout of a create step; spaces is in how many
// namespaces the index begins anew.
func newLayout(c *scenario.Create, spaces int) layout {
	items := c.Objects
	if len(items) == 0 {
		items = []scenario.Item{{Body: c.Body, Name: c.Name}}
	}
	l := layout{spaces: max(1, spaces)}
	for i, item := range items {
		l.addItem(item, i)
	}
	return l
}

func (l *layout) addItem(item scenario.Item, number int) {
	l.items, l.number, l.plain = append(l.items, item), append(l.number, number), 0
	for _, item := range l.items {
		if every(item) > 1 {
			l.plain = 0
			return
		}
		l.plain += replicas(item)
	}
}

// filter returns the layout with a part of the items.
func (l layout) filter(keep func(scenario.Item) bool) layout {
	out := layout{spaces: l.spaces}
	for k, item := range l.items {
		if keep(item) {
			out.addItem(item, l.number[k])
		}
	}
	return out
}

func replicas(i scenario.Item) int { return max(1, i.Replicas) }
func every(i scenario.Item) int    { return max(1, i.Every) }

// countBelow is how many objects of a space have an index below n.
func (l layout) countBelow(n int) int {
	out := 0
	for _, item := range l.items {
		out += replicas(item) * ((n + every(item) - 1) / every(item))
	}
	return out
}

// ordinal returns the i-th object of those with an index of at least from and below
// to, in the order in which they are sent.
func (l layout) ordinal(i, from, to int) ordinal {
	first := l.countBelow(from)
	each := l.countBelow(to) - first
	s := l.inSpace(first + i%each)
	s.space = i / each
	return s
}

// inSpace returns the n-th object of a space.
func (l layout) inSpace(n int) ordinal {
	index := 0
	if l.plain > 0 {
		index = n / l.plain
	} else {
		most := 0
		for _, item := range l.items {
			most = max(most, every(item))
		}
		index = sort.Search((n+1)*most, func(i int) bool { return l.countBelow(i+1) > n })
	}
	rest := n - l.countBelow(index)
	for k, item := range l.items {
		switch r := replicas(item); {
		case index%every(item) != 0:
		case rest < r:
			return ordinal{index: index, item: l.number[k], replica: rest + 1}
		default:
			rest -= r
		}
	}
	return ordinal{}
}

// count is how many objects there are with an index of at least from and below
// to, in all spaces.
func (l layout) count(from, to int) int { return l.spaces * (l.countBelow(to) - l.countBelow(from)) }

// numberOf numbers an object for good: it does not change when indices are added. It
// is for the layout of all items.
func (l layout) numberOf(s ordinal) int {
	n := l.countBelow(s.index)
	for k := range s.item {
		if s.index%every(l.items[k]) == 0 {
			n += replicas(l.items[k])
		}
	}
	return (n+s.replica-1)*l.spaces + s.space
}
