package steps

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/steps/inventory"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
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
	c := churning{Churn: x, session: s}
	if err := c.addCluster(s); err != nil || len(c.clusters) == 0 {
		return err
	}
	return c.runCycles(ctx)
}

// inMembers churns in members, cycle by cycle in all of them: their calls are one plan,
// whose pace is that of all together.
func (x Churn) inMembers(ctx context.Context, s *Session, members []*Member) error {
	c := churning{Churn: x, session: s}
	for _, m := range members {
		before := len(c.clusters)
		if err := c.addCluster(s.sessionOf(m)); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		if len(c.clusters) > before {
			c.members = append(c.members, m)
		}
	}
	if len(c.clusters) == 0 {
		return nil
	}
	return c.runCycles(ctx)
}

// churning is a churn under way: on the plane, or in several members of which each has
// objects of its own.
type churning struct {
	Churn
	session  *Session
	clusters []churned
	members  []*Member     // of clusters; nil: it is the plane
	clients  *load.Clients // that send the calls of all cycles; nil: the load generator does
}

// churned is what is churned of one cluster.
type churned struct {
	*Session
	objects *Objects
}

// addCluster adds what there is in a cluster.
func (c *churning) addCluster(s *Session) error {
	o, err := s.Created.findUsable(c.Spec.Step)
	if o != nil && err == nil {
		s.noteLacks(c.Step, o.lacks("churned", o.batchBetween(o.layoutOf(c.Spec.Objects), 0, o.UpTo())))
	}
	if o != nil && err == nil {
		c.clusters = append(c.clusters, churned{s, o})
	}
	return err
}

func (c *churning) runCycles(ctx context.Context) (err error) {
	if c.clients = c.session.Workload.ClientsOf(c.Step); c.clients != nil {
		end, failed := c.session.Load.OpenClients(ctx, c.clients)
		if failed != nil {
			return failed
		}
		defer func() {
			if failed := end(); err == nil {
				err = failed
			}
		}()
	}
	for _, one := range c.clusters {
		one.objects.BeginChurn()
		defer one.objects.EndChurn()
	}
	rest := time.Duration(c.Spec.Rest)
	if rest == 0 {
		rest = time.Duration(c.Spec.Delay)
	}
	begin := c.session.Clock.Now()
	for cycle := 0; c.Spec.Cycles == 0 || cycle < c.Spec.Cycles; cycle++ {
		if cycle > 0 {
			if err := clock.Sleep(ctx, rest); err != nil {
				return err
			}
		}
		if c.Spec.For > 0 && c.session.Clock.Now().Sub(begin) > time.Duration(c.Spec.For) {
			return nil
		}
		if err := c.runCycle(ctx, cycle); err != nil {
			return fmt.Errorf("cycle %d: %w", cycle+1, err)
		}
	}
	return nil
}

func (c *churning) runCycle(ctx context.Context, cycle int) error {
	do := c.churnObjects
	if c.Spec.Namespaces != "" {
		do = c.churnNamespaces
	}
	if err := do(ctx, cycle); err != nil {
		return err
	}
	for i := range c.Spec.Wait {
		wait := Wait{Step: c.Step, Spec: &c.Spec.Wait[i]}
		var err error
		if c.members != nil {
			err = wait.inMembers(ctx, c.session, c.members)
		} else {
			err = wait.Do(ctx, c.session)
		}
		if err != nil && ctx.Err() == nil && c.Spec.Wait[i].Unmet == scenario.FailRun {
			return unmetError{err}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unmetError is a wait of a churn that was not met, which fails the run. Whatever else ends
// the step does not.
type unmetError struct{ error }

// Refuted says that the answer was no.
func (unmetError) Refuted() bool { return true }

// Unwrap is why.
func (e unmetError) Unwrap() error { return e.error }

// takeBatches are what a cycle takes of each cluster.
func (c *churning) takeBatches(take func(churned) batch) []batch {
	out := make([]batch, len(c.clusters))
	for i, one := range c.clusters {
		out[i] = take(one)
	}
	return out
}

// sendPlans sends a plan for each cluster.
func (c *churning) sendPlans(ctx context.Context, plans []planned) error {
	if c.members == nil {
		plans[0].Clients = c.clients
		return c.session.sendPlan(ctx, plans[0])
	}
	return c.session.sendPlan(ctx, newJoint(c.members, plans).planAll(c.session.Workload, c.Step, c.Spec.Pace))
}

// randomOf is the chance of a cycle.
func (x Churn) randomOf(w *workload.Workload, cycle int) *rand.Rand {
	return rand.New(rand.NewPCG(w.SeedOf(x.Step), uint64(cycle)))
}

// layoutOf is the layout of the objects of some bodies; none: of all.
func (o *Objects) layoutOf(bodies []string) inventory.Layout {
	return o.layout.Filter(func(i scenario.Item) bool { return len(bodies) == 0 || slices.Contains(bodies, i.Body) })
}

// ofUnits lists the objects of some units, those of the bodies that are meant.
func (o *Objects) ofUnits(units []int, bodies []string) batch {
	l, to := o.layoutOf(bodies), o.UpTo()
	var ordinals []inventory.Ordinal
	var order []int
	for k, unit := range units {
		for _, n := range l.OfIndex(unit/to, unit%to) {
			ordinals, order = append(ordinals, n), append(order, k)
		}
	}
	b := o.batchOfListed(ordinals, order)
	b.units = len(units)
	return b
}

// chooseBatch are the objects that a cycle takes.
func (x Churn) chooseBatch(w *workload.Workload, o *Objects, cycle int) batch {
	if x.Spec.PerObject {
		return x.chosenObjects(w, o, cycle)
	}
	units := o.layout.Spaces * o.UpTo()
	return o.ofUnits(inventory.PickScattered(units, inventory.PercentOf(units, x.Spec.Percent), x.randomOf(w, cycle)), x.Spec.Objects)
}

// chosenObjects are the objects that a cycle takes of each body.
func (x Churn) chosenObjects(w *workload.Workload, o *Objects, cycle int) batch {
	var ordinals []inventory.Ordinal
	random := x.randomOf(w, cycle)
	for k, item := range o.layout.Items {
		if len(x.Spec.Objects) > 0 && !slices.Contains(x.Spec.Objects, item.Body) {
			continue
		}
		of := inventory.Layout{Spaces: o.layout.Spaces}
		of.AddItem(item, o.layout.Numbers[k])
		n := of.Count(0, o.UpTo())
		for _, i := range inventory.PickScattered(n, scenario.ChurnedObjects(n, x.Spec.Percent), random) {
			ordinals = append(ordinals, of.Ordinal(i, 0, o.UpTo()))
		}
	}
	return o.batchOfListed(ordinals, make([]int, len(ordinals))).perObject()
}

func (c *churning) churnObjects(ctx context.Context, cycle int) error {
	all := c.takeBatches(func(one churned) batch { return c.chooseBatch(one.Workload, one.objects, cycle) })
	return c.replaceBatches(ctx, all, Part{Step: c.Step, Cycle: cycle}, func() error {
		if err := clock.Sleep(ctx, time.Duration(c.Spec.Delay)); err != nil {
			return err
		}
		return c.awaitEnded(ctx, all)
	})
}

// awaitEnded waits until what a cycle deleted is gone: a pod ends in its own time and has
// its name until then. Each object is asked for once at least.
func (c *churning) awaitEnded(ctx context.Context, all []batch) error {
	within, cancel := context.WithTimeoutCause(ctx, scenario.DefaultWaitWithin, fmt.Errorf("%w within %v", ErrStep, scenario.DefaultWaitWithin))
	defer cancel()
	for i, b := range all {
		errs := runTimes(ctx, churnAsks, b.count, func(k int) error { return c.clusters[i].awaitEnded(within, b.objects, b.ordinal(k)) })
		if first := slices.IndexFunc(errs, func(err error) bool { return err != nil }); first >= 0 {
			return errs[first] // it names an object
		}
	}
	return nil
}

// churnAsks is how many objects are asked for at the same time.
const churnAsks = 16

// awaitEnded waits while an object is there and ends. What is there and does not end was
// not deleted, or somebody made it again: its creation says so.
func (s *Session) awaitEnded(ctx context.Context, o *Objects, n inventory.Ordinal) error {
	namespace, name, err := o.addressOf(n)
	if err != nil || name == "" {
		return nil // the server named it, and gives it another name now
	}
	path := o.items[n.Item].resource.Object(namespace, name)
	for {
		answer, err := s.Client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: path})
		if err == nil && !answer.Retriable() {
			about, err := object.ReadMetadata(answer.Body)
			if !answer.Success() || err != nil || about.DeletionTimestamp == "" {
				return nil
			}
		}
		if err := clock.Sleep(ctx, 4*pollEvery); err != nil {
			return fmt.Errorf("%s %s/%s was deleted and did not go: %w", o.items[n.Item].resource.Name, namespace, name, context.Cause(ctx))
		}
	}
}

// replaceBatches deletes a batch of each cluster, does something, and makes them again. Part is
// the deletion; without a step it cannot be shared among workers.
func (c *churning) replaceBatches(ctx context.Context, all []batch, part Part, between func() error) error {
	if err := c.deleteBatches(ctx, all, part); err != nil {
		return err
	}
	if err := between(); err != nil {
		return err
	}
	part.Again = true
	return c.createBatches(ctx, all, part)
}

// deleteBatches deletes a batch of each cluster.
func (c *churning) deleteBatches(ctx context.Context, all []batch, part Part) error {
	known, plans := c.session.takeChanges(), make([]planned, len(all))
	for i, b := range all {
		b.shift = nil
		p, err := c.planDeletion(c.clusters[i].Session, b)
		if err != nil {
			return err
		}
		plans[i] = planned{Plan: p, part: part, known: known}
	}
	return c.sendPlans(ctx, plans)
}

func (x Churn) planDeletion(s *Session, b batch) (load.Plan, error) {
	p, err := b.planDeletion(x.Step, "", time.Duration(x.Spec.Timeout))
	p.Pace = pacingOf(s.Workload, x.Step, b, x.Spec.Pace)
	return p, err
}

func (x Churn) planCreation(s *Session, b batch) (load.Plan, error) {
	p, err := b.planCreation(x.Step, time.Duration(x.Spec.Timeout))
	p.Pace = pacingOf(s.Workload, x.Step, b, x.Spec.Pace)
	return p, err
}

// createBatches makes a batch of each cluster, and then finds out which of those are there
// whose creation was not answered.
func (c *churning) createBatches(ctx context.Context, all []batch, part Part) error {
	known, plans := c.session.takeChanges(), make([]planned, len(all))
	for i, b := range all {
		p, err := c.planCreation(c.clusters[i].Session, b)
		if err != nil {
			return err
		}
		plans[i] = planned{Plan: p, after: c.clusters[i].newSettling(b.objects), part: part, known: known}
	}
	return c.sendPlans(ctx, plans)
}

// churnNamespaces deletes namespaces with all that is in them, and makes them
// and their objects again. The same ones are chosen in each cluster.
func (c *churning) churnNamespaces(ctx context.Context, cycle int) error {
	spaces := make([]batch, len(c.clusters)) // a namespace is one object of the step that made it
	inside := make([]batch, len(c.clusters))
	deleted := make([]map[string]bool, len(c.clusters))
	for i, one := range c.clusters {
		all := one.Created.find(c.Spec.Namespaces)
		if all == nil {
			return nil
		}
		spaces[i], deleted[i] = all.ofUnits(inventory.PickAdjacent(all.layout.Spaces*all.UpTo(), c.Spec.Percent, c.randomOf(one.Workload, cycle)), nil), map[string]bool{}
		for k := range spaces[i].count {
			_, name, err := all.addressOf(spaces[i].ordinal(k))
			if err != nil {
				return err
			}
			deleted[i][name] = true
		}
		if inside[i] = one.objects.batchIn(deleted[i]).withPauses(); c.Spec.PerObject {
			inside[i] = inside[i].perObject()
		}
	}
	if c.Spec.Contents {
		err := c.deleteBatches(ctx, inside, Part{})
		if err == nil {
			err = c.awaitEnded(ctx, inside)
		}
		if err != nil {
			return err
		}
	}
	for _, b := range inside { // what is in them goes with them
		for i := range b.count {
			b.objects.setThere(b.ordinal(i), false)
		}
	}
	err := c.replaceBatches(ctx, spaces, Part{}, func() error {
		for i, one := range c.clusters {
			for name := range deleted[i] {
				if err := one.awaitNamespaceGone(ctx, name); err != nil {
					return err
				}
			}
		}
		return clock.Sleep(ctx, time.Duration(c.Spec.Delay))
	})
	if err != nil {
		return err
	}
	return c.createBatches(ctx, inside, Part{})
}

// batchIn lists the objects of some namespaces.
func (o *Objects) batchIn(namespaces map[string]bool) batch {
	to := o.UpTo()
	var ordinals []inventory.Ordinal
	var order []int
	units := map[int]int{}
	for i := range o.layout.Count(0, to) {
		n := o.layout.Ordinal(i, 0, to)
		if !namespaces[o.namespaceOf(n)] {
			continue
		}
		unit, ok := units[n.Space*to+n.Index]
		if !ok {
			unit = len(units)
			units[n.Space*to+n.Index] = unit
		}
		ordinals, order = append(ordinals, n), append(order, unit)
	}
	return o.batchOfListed(ordinals, order)
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
