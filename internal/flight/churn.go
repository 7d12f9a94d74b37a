package flight

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/scenario"
)

// churn deletes a share of what a create step made and makes it again, cycle
// by cycle.
func (r *run) churn(ctx context.Context, step string, x *scenario.Churn) error {
	m := r.known(x.Step)
	if m == nil {
		return nil
	}
	rest := time.Duration(x.Rest)
	if rest == 0 {
		rest = time.Duration(x.Delay)
	}
	begin := r.clock.Now()
	for cycle := 0; x.Cycles == 0 || cycle < x.Cycles; cycle++ {
		if cycle > 0 {
			if err := clock.Sleep(ctx, rest); err != nil {
				return err
			}
		}
		if x.For > 0 && r.clock.Now().Sub(begin) > time.Duration(x.For) {
			return nil
		}
		random := rand.New(rand.NewPCG(r.seed(step), uint64(cycle)))
		cycleOf := r.churnObjects
		if x.Namespaces != "" {
			cycleOf = r.churnNamespaces
		}
		if err := cycleOf(ctx, step, x, random); err != nil {
			return fmt.Errorf("cycle %d: %w", cycle+1, err)
		}
		for i := range x.Wait {
			if err := r.wait(ctx, step, &x.Wait[i]); err != nil {
				return fmt.Errorf("cycle %d: %w", cycle+1, err)
			}
		}
	}
	return nil
}

// victims returns which of n a cycle takes, in order.
func victims(n int, percent float64, random *rand.Rand) []int {
	count := min(n, int(math.Ceil(float64(n)*percent/100)))
	moved := map[int]int{} // of a shuffle that goes no further than it has to
	at := func(i int) int {
		if v, ok := moved[i]; ok {
			return v
		}
		return i
	}
	out := make([]int, count)
	for i := range out {
		j := i + random.IntN(n-i)
		out[i] = at(j)
		moved[j] = at(i)
	}
	slices.Sort(out)
	return out
}

// neighbours returns a stretch of n that a cycle takes.
func neighbours(n int, percent float64, random *rand.Rand) []int {
	count := min(n, int(math.Ceil(float64(n)*percent/100)))
	if count == 0 {
		return nil
	}
	out := make([]int, count)
	first := random.IntN(n - count + 1)
	for i := range out {
		out[i] = first + i
	}
	return out
}

// units lists the objects of some units, those of the bodies that are meant.
func (m *made) units(units []int, bodies []string) batch {
	l := m.layout
	if len(bodies) > 0 {
		l = l.only(func(i scenario.Item) bool { return slices.Contains(bodies, i.Body) })
	}
	to := m.upTo()
	var spots []spot
	var order []int
	for k, unit := range units {
		space, index := unit/to, unit%to
		for n := l.before(index); n < l.before(index+1); n++ {
			s := l.local(n)
			s.space = space
			spots, order = append(spots, s), append(order, k)
		}
	}
	b := m.listed(spots, order)
	b.units = len(units)
	return b
}

func (r *run) churnObjects(ctx context.Context, step string, x *scenario.Churn, random *rand.Rand) error {
	m := r.known(x.Step)
	chosen := victims(m.layout.spaces*m.upTo(), x.Percent, random)
	return r.renew(ctx, step, x, m.units(chosen, x.Objects), func() error { return clock.Sleep(ctx, time.Duration(x.Delay)) })
}

// renew deletes a batch, does something, and makes it again.
func (r *run) renew(ctx context.Context, step string, x *scenario.Churn, b batch, between func() error) error {
	away, err := r.deletion(step, b, "", time.Duration(x.Timeout))
	if err != nil {
		return err
	}
	away.Pace = r.paced(step, b, x.Pace)
	if err := r.send(ctx, away); err != nil {
		return err
	}
	if err := between(); err != nil {
		return err
	}
	return r.make(ctx, step, x, b)
}

func (r *run) make(ctx context.Context, step string, x *scenario.Churn, b batch) error {
	p, err := r.creation(step, b, time.Duration(x.Timeout))
	if err != nil {
		return err
	}
	p.Pace = r.paced(step, b, x.Pace)
	return r.send(ctx, p)
}

// churnNamespaces deletes namespaces with all that is in them, and makes them
// and their objects again.
func (r *run) churnNamespaces(ctx context.Context, step string, x *scenario.Churn, random *rand.Rand) error {
	spaces, m := r.known(x.Namespaces), r.known(x.Step)
	if spaces == nil {
		return nil
	}
	b := spaces.units(neighbours(spaces.layout.spaces*spaces.upTo(), x.Percent, random), nil)
	gone := map[string]bool{}
	for i := range b.count {
		_, name, err := spaces.address(b.at(i))
		if err != nil {
			return err
		}
		gone[name] = true
	}
	objects := m.inside(gone)
	err := r.renew(ctx, step, x, b, func() error {
		for name := range gone {
			if err := r.untilGone(ctx, name); err != nil {
				return err
			}
		}
		return clock.Sleep(ctx, time.Duration(x.Delay))
	})
	if err != nil {
		return err
	}
	return r.make(ctx, step, x, objects)
}

// inside lists the objects of some namespaces. They count as deleted.
func (m *made) inside(namespaces map[string]bool) batch {
	to := m.upTo()
	var spots []spot
	var order []int
	units := map[int]int{}
	for i := range m.layout.count(0, to) {
		s := m.layout.at(i, 0, to)
		if !namespaces[m.namespace(s)] {
			continue
		}
		unit, ok := units[s.space*to+s.index]
		if !ok {
			unit = len(units)
			units[s.space*to+s.index] = unit
		}
		m.set(s, false)
		spots, order = append(spots, s), append(order, unit)
	}
	return m.listed(spots, order)
}

// untilGone waits until a namespace is gone; the plane's own controller takes
// it away.
func (r *run) untilGone(ctx context.Context, namespace string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, scenario.DefaultWaitWithin, fmt.Errorf("%w within %v", ErrStep, scenario.DefaultWaitWithin))
	defer cancel()
	for {
		answer, err := r.watcher.Do(ctx, &wire.Request{Method: http.MethodGet, Path: "/api/v1/namespaces/" + namespace})
		if err == nil && answer.Code == http.StatusNotFound {
			return nil
		}
		if err := clock.Sleep(ctx, 4*waitPoll); err != nil {
			return fmt.Errorf("namespace %s did not go: %w", namespace, err)
		}
	}
}
