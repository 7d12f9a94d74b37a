// Package inventory knows the objects of a create step by number: where each one stands
// in the order in which they are made, and which of them are there. Workers send it to
// each other as changes.
//
// It sends no requests and has no clock.
package inventory

import (
	"sort"

	"github.com/windtunnel/windtunnel/scenario"
)

// Layout numbers the objects of a create step, so that no list of them is
// kept. An object belongs to a space (each namespace by itself with
// perNamespace, else there is but one), an index, and is one of those that are
// made for that index: an item, and a replica of it.
//
// Within a space objects are numbered by index, then by item and replica; over
// all spaces they are sent one space after another.
type Layout struct {
	Items    []scenario.Item
	Numbers  []int // of each item among all that the step makes
	Spaces   int
	perIndex int // objects of each index where all have as many; else 0
}

// Ordinal is the place of one object in the order of a create step.
type Ordinal struct {
	Space   int `json:"space,omitempty"`
	Index   int `json:"index,omitempty"`   // in its space
	Item    int `json:"item,omitempty"`    // among all that the step makes
	Replica int `json:"replica,omitempty"` // from 1
}

// NewLayout returns the layout of a create step; spaces is in how many
// namespaces the index begins anew.
func NewLayout(c *scenario.Create, spaces int) Layout {
	items := c.Objects
	if len(items) == 0 {
		items = []scenario.Item{{Body: c.Body, Name: c.Name}}
	}
	l := Layout{Spaces: max(1, spaces)}
	for i, item := range items {
		l.AddItem(item, i)
	}
	return l
}

// AddItem adds an item, whose number is its place among all that the step makes.
func (l *Layout) AddItem(item scenario.Item, number int) {
	l.Items, l.Numbers, l.perIndex = append(l.Items, item), append(l.Numbers, number), 0
	for _, item := range l.Items {
		if Every(item) > 1 {
			l.perIndex = 0
			return
		}
		l.perIndex += Replicas(item)
	}
}

// Filter returns the layout with a part of the items.
func (l Layout) Filter(keep func(scenario.Item) bool) Layout {
	out := Layout{Spaces: l.Spaces}
	for k, item := range l.Items {
		if keep(item) {
			out.AddItem(item, l.Numbers[k])
		}
	}
	return out
}

// Replicas is how many objects of an item there are for each index.
func Replicas(i scenario.Item) int { return max(1, i.Replicas) }

// Every is of how many indices one has objects of the item.
func Every(i scenario.Item) int { return max(1, i.Every) }

// countBelow is how many objects of a space have an index below n.
func (l Layout) countBelow(n int) int {
	out := 0
	for _, item := range l.Items {
		out += Replicas(item) * ((n + Every(item) - 1) / Every(item))
	}
	return out
}

// Ordinal returns the i-th object of those with an index of at least from and below
// to, in the order in which they are sent.
func (l Layout) Ordinal(i, from, to int) Ordinal {
	first := l.countBelow(from)
	each := l.countBelow(to) - first
	s := l.inSpace(first + i%each)
	s.Space = i / each
	return s
}

// OfIndex returns the objects of an index of a space.
func (l Layout) OfIndex(space, index int) (out []Ordinal) {
	for i := l.countBelow(index); i < l.countBelow(index+1); i++ {
		n := l.inSpace(i)
		n.Space = space
		out = append(out, n)
	}
	return out
}

// inSpace returns the n-th object of a space.
func (l Layout) inSpace(n int) Ordinal {
	index := 0
	if l.perIndex > 0 {
		index = n / l.perIndex
	} else {
		most := 0
		for _, item := range l.Items {
			most = max(most, Every(item))
		}
		index = sort.Search((n+1)*most, func(i int) bool { return l.countBelow(i+1) > n })
	}
	rest := n - l.countBelow(index)
	for k, item := range l.Items {
		switch r := Replicas(item); {
		case index%Every(item) != 0:
		case rest < r:
			return Ordinal{Index: index, Item: l.Numbers[k], Replica: rest + 1}
		default:
			rest -= r
		}
	}
	return Ordinal{}
}

// Count is how many objects there are with an index of at least from and below
// to, in all spaces.
func (l Layout) Count(from, to int) int { return l.Spaces * (l.countBelow(to) - l.countBelow(from)) }

// NumberOf numbers an object for good: it does not change when indices are added. It
// is for the layout of all items.
func (l Layout) NumberOf(s Ordinal) int {
	n := l.countBelow(s.Index)
	for k := range s.Item {
		if s.Index%Every(l.Items[k]) == 0 {
			n += Replicas(l.Items[k])
		}
	}
	return (n+s.Replica-1)*l.Spaces + s.Space
}
