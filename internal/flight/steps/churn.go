package steps

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
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/scenario"
)

// Churn deletes a share of what a create step made and makes it again, cycle by
// cycle.
type Churn struct {
	Step string
	Spec *scenario.Churn
}

// Do churns; of a step that was not reached there is nothing.
func (x Churn) Do(ctx context.Context, s *Session) error {
	o, err := s.Created.usable(x.Spec.Step)
	if o == nil || err != nil {
		return err
	}
	rest := time.Duration(x.Spec.Rest)
	if rest == 0 {
		rest = time.Duration(x.Spec.Delay)
	}
	begin := s.Clock.Now()
	for cycle := 0; x.Spec.Cycles == 0 || cycle < x.Spec.Cycles; cycle++ {
		if cycle > 0 {
			if err := clock.Sleep(ctx, rest); err != nil {
				return err
			}
		}
		if x.Spec.For > 0 && s.Clock.Now().Sub(begin) > time.Duration(x.Spec.For) {
			return nil
		}
		if err := x.cycle(ctx, s, o, cycle); err != nil {
			return fmt.Errorf("cycle %d: %w", cycle+1, err)
		}
	}
	return nil
}

func (x Churn) cycle(ctx context.Context, s *Session, o *Objects, cycle int) error {
	random := x.random(s.Workload, cycle)
	var err error
	if x.Spec.Namespaces != "" {
		err = x.churnNamespaces(ctx, s, o, random)
	} else {
		err = x.churnObjects(ctx, s, o, cycle)
	}
	if err != nil {
		return err
	}
	for i := range x.Spec.Wait {
		if err := (Wait{x.Step, &x.Spec.Wait[i]}).Do(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// random is the chance of a cycle.
func (x Churn) random(w *Workload, cycle int) *rand.Rand {
	return rand.New(rand.NewPCG(w.seed(x.Step), uint64(cycle)))
}

// share is how many of n a cycle takes.
func share(n int, percent float64) int { return min(n, int(math.Ceil(float64(n)*percent/100))) }

// scattered returns which of n a cycle takes, in order.
func scattered(n int, percent float64, random *rand.Rand) []int {
	moved := map[int]int{} // of a shuffle that goes no further than it has to
	at := func(i int) int {
		if v, ok := moved[i]; ok {
			return v
		}
		return i
	}
	out := make([]int, share(n, percent))
	for i := range out {
		j := i + random.IntN(n-i)
		out[i] = at(j)
		moved[j] = at(i)
	}
	slices.Sort(out)
	return out
}

// adjacent returns which of n a cycle takes that are to lie side by side.
func adjacent(n int, percent float64, random *rand.Rand) []int {
	out := make([]int, share(n, percent))
	if len(out) == 0 {
		return nil
	}
	first := random.IntN(n - len(out) + 1)
	for i := range out {
		out[i] = first + i
	}
	return out
}

// ofUnits lists the objects of some units, those of the bodies that are meant.
func (o *Objects) ofUnits(units []int, bodies []string) batch {
	l := o.layout
	if len(bodies) > 0 {
		l = l.filter(func(i scenario.Item) bool { return slices.Contains(bodies, i.Body) })
	}
	to := o.upTo()
	var ordinals []ordinal
	var order []int
	for k, unit := range units {
		space, index := unit/to, unit%to
		for i := l.countBelow(index); i < l.countBelow(index+1); i++ {
			n := l.inSpace(i)
			n.space = space
			ordinals, order = append(ordinals, n), append(order, k)
		}
	}
	b := o.listed(ordinals, order)
	b.units = len(units)
	return b
}

// chosen are the objects that a cycle takes.
func (x Churn) chosen(w *Workload, o *Objects, cycle int) batch {
	units := scattered(o.layout.spaces*o.upTo(), x.Spec.Percent, x.random(w, cycle))
	return o.ofUnits(units, x.Spec.Objects)
}

func (x Churn) churnObjects(ctx context.Context, s *Session, o *Objects, cycle int) error {
	part := Part{Step: x.Step, Cycle: cycle}
	return x.replace(ctx, s, x.chosen(s.Workload, o, cycle), part, func() error { return clock.Sleep(ctx, time.Duration(x.Spec.Delay)) })
}

// replace deletes a batch, does something, and makes it again. Part is the deletion;
// without a step it cannot be shared among workers.
func (x Churn) replace(ctx context.Context, s *Session, b batch, part Part, between func() error) error {
	known := s.known()
	p, err := x.deletion(s, b)
	if err != nil {
		return err
	}
	if err := s.send(ctx, planned{Plan: p, part: part, known: known}); err != nil {
		return err
	}
	if err := between(); err != nil {
		return err
	}
	part.Again = true
	return x.create(ctx, s, b, part)
}

func (x Churn) deletion(s *Session, b batch) (load.Plan, error) {
	p, err := b.deletion(x.Step, "", time.Duration(x.Spec.Timeout))
	p.Pace = s.Workload.pacing(x.Step, b, x.Spec.Pace)
	return p, err
}

func (x Churn) creation(s *Session, b batch) (load.Plan, error) {
	p, err := b.creation(x.Step, time.Duration(x.Spec.Timeout))
	p.Pace = s.Workload.pacing(x.Step, b, x.Spec.Pace)
	return p, err
}

// create makes a batch, and then finds out which of those are there whose creation
// was not answered.
func (x Churn) create(ctx context.Context, s *Session, b batch, part Part) error {
	known := s.known()
	p, err := x.creation(s, b)
	if err != nil {
		return err
	}
	return s.send(ctx, planned{Plan: p, after: s.settling(b.objects), part: part, known: known})
}

// churnNamespaces deletes namespaces with all that is in them, and makes them
// and their objects again.
func (x Churn) churnNamespaces(ctx context.Context, s *Session, o *Objects, random *rand.Rand) error {
	spaces := s.Created.of(x.Spec.Namespaces)
	if spaces == nil {
		return nil
	}
	b := spaces.ofUnits(adjacent(spaces.layout.spaces*spaces.upTo(), x.Spec.Percent, random), nil)
	deleted := map[string]bool{}
	for i := range b.count {
		_, name, err := spaces.address(b.ordinal(i))
		if err != nil {
			return err
		}
		deleted[name] = true
	}
	inside := o.deletedWith(deleted)
	err := x.replace(ctx, s, b, Part{}, func() error {
		for name := range deleted {
			if err := s.awaitNamespaceGone(ctx, name); err != nil {
				return err
			}
		}
		return clock.Sleep(ctx, time.Duration(x.Spec.Delay))
	})
	if err != nil {
		return err
	}
	return x.create(ctx, s, inside, Part{})
}

// deletedWith lists the objects of some namespaces, and remembers that they are
// deleted.
func (o *Objects) deletedWith(namespaces map[string]bool) batch {
	to := o.upTo()
	var ordinals []ordinal
	var order []int
	units := map[int]int{}
	for i := range o.layout.count(0, to) {
		n := o.layout.ordinal(i, 0, to)
		if !namespaces[o.namespace(n)] {
			continue
		}
		unit, ok := units[n.space*to+n.index]
		if !ok {
			unit = len(units)
			units[n.space*to+n.index] = unit
		}
		o.setThere(n, false)
		ordinals, order = append(ordinals, n), append(order, unit)
	}
	return o.listed(ordinals, order)
}

// awaitNamespaceGone waits until a namespace is gone; the plane's own controller
// takes it away.
func (s *Session) awaitNamespaceGone(ctx context.Context, namespace string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, scenario.DefaultWaitWithin, fmt.Errorf("%w within %v", ErrStep, scenario.DefaultWaitWithin))
	defer cancel()
	for {
		answer, err := s.Client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: "/api/v1/namespaces/" + namespace})
		if err == nil && answer.Code == http.StatusNotFound {
			return nil
		}
		if err := clock.Sleep(ctx, 4*pollEvery); err != nil {
			return fmt.Errorf("namespace %s did not go: %w", namespace, err)
		}
	}
}
