package steps

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/member"
	"github.com/windtunnel/windtunnel/internal/fly/observe/lifecycle"
	"github.com/windtunnel/windtunnel/internal/fly/steps/inventory"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// Member is a cluster beside the plane, as steps reach it.
type Member struct {
	*member.Member
	Target  int                 // of the load's calls: Request.Member
	Created *Created            // what create steps have made in it
	Pods    *lifecycle.Observer // nil: its pods are not recorded
}

// sessionOf is the session of a member: what a step does in it, it does there.
func (s *Session) sessionOf(m *Member) *Session {
	out := *s
	out.member, out.Created, out.Pods, out.Client = m, m.Created, m.Pods, s.Load.MemberClient(m.Target)
	out.Progress = unseen{s.Progress}
	if !s.Own || len(s.Workload.Scenario.Subjects) > 0 {
		out.home = s.Created // somebody may bring it, or its like, to members
	}
	return &out
}

// unseen does not show what one of many members waits for.
type unseen struct{ Progress }

func (unseen) Waiting(string, int, int)  {}
func (unseen) WaitingFor(string, string) {}

// membersOf are those that a step's cluster means. It is an error when there is none: what
// is to be done in no member would be done nowhere.
func (s *Session) membersOf(cluster string) ([]*Member, error) {
	names, err := s.Workload.Scenario.MembersOf(cluster)
	if err != nil {
		return nil, err
	}
	var out []*Member
	for _, m := range s.Members {
		if len(out) < len(names) && m.Name == names[len(out)] {
			out = append(out, m)
		}
	}
	switch {
	case len(names) == 0:
		return nil, fmt.Errorf("cluster %q: %w", cluster, errNoMember)
	case len(out) < len(names):
		return nil, fmt.Errorf("cluster %q: %w: %s", cluster, errNotThere, names[len(out)])
	}
	return out, nil
}

var (
	errNoMember = errors.New("it is no member, no group of members, and no selector of labels that one has")
	errNotThere = errors.New("a member has not been started")
)

// inMembers does a step in members: what it sends is one plan, whose pace is that of
// all together; what it waits for it waits for in all at the same time.
type inMembers struct {
	step *scenario.Step
	do   Step
}

// Do does it.
func (x inMembers) Do(ctx context.Context, s *Session) error {
	members, err := s.membersOf(x.step.Cluster)
	if err != nil {
		return err
	}
	switch step := x.do.(type) {
	case Wait:
		return step.inMembers(ctx, s, members)
	case Churn:
		return step.inMembers(ctx, s, members)
	case Exec:
		return step.inMembers(ctx, s, members)
	case sender:
		return x.sendToMembers(ctx, s, members, step)
	}
	return fmt.Errorf("%s in %s: %w", x.step.Verb(), x.step.Cluster, errNotInMembers)
}

var errNotInMembers = errors.New("members take no such step")

// atOnce is how many members a step looks at, or waits in, at the same time.
const atOnce = 256

// Each does something for every member, for many at the same time. The error names
// members.
func Each(ctx context.Context, members []*Member, do func(context.Context, *Member) error) error {
	return ofMembers(members, forEachMember(ctx, atOnce, members, func(_ int, m *Member) error { return do(ctx, m) }))
}

// forEachMember does something for every member, for most of them at the same time, and returns
// the errors in their order.
func forEachMember(ctx context.Context, most int, members []*Member, do func(i int, m *Member) error) []error {
	return runTimes(ctx, most, len(members), func(i int) error { return do(i, members[i]) })
}

// runTimes does something n times, most times at the same time, and returns the errors in
// their order.
func runTimes(ctx context.Context, most, n int, do func(i int) error) []error {
	errs := make([]error, n)
	var next atomic.Int64
	var wait guard.Group
	for range min(most, n) {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				errs[i] = do(i)
			}
		})
	}
	wait.Wait()
	if ctx.Err() != nil {
		return []error{context.Cause(ctx)}
	}
	return errs
}

// namedMembers is how many members an error names.
const namedMembers = 3

// ofMembers is one error of what went wrong in some members.
func ofMembers(members []*Member, errs []error) (out error) {
	failed := 0
	for i, err := range errs {
		if err == nil {
			continue
		}
		if failed++; failed > namedMembers {
			continue
		}
		if len(errs) == len(members) {
			err = fmt.Errorf("%s: %w", members[i].Name, err)
		}
		if out == nil {
			out = err
		} else {
			out = fmt.Errorf("%w; %w", out, err)
		}
	}
	if failed > namedMembers {
		return fmt.Errorf("%w; and in %s", out, unit.Count(failed-namedMembers, "more members"))
	}
	return out
}

// inMembers waits in all members until the condition holds in each.
func (w Wait) inMembers(ctx context.Context, s *Session, members []*Member) error {
	w.ends = s.Clock.Now().Add(time.Duration(w.Spec.Within))
	var done atomic.Int64
	w.sight = inventory.NewSight() // what was never in one member may have been in another
	s.Progress.Waiting(w.Step, 0, len(members))
	return ofMembers(members, forEachMember(ctx, atOnce, members, func(_ int, m *Member) error {
		if err := w.Do(ctx, s.sessionOf(m)); err != nil {
			return err
		}
		s.Progress.Waiting(w.Step, int(done.Add(1)), len(members))
		return nil
	}))
}

// sendToMembers sends what the step sends to each member, as one plan.
func (x inMembers) sendToMembers(ctx context.Context, s *Session, members []*Member, step sender) error {
	parts := make([]planned, len(members))
	errs := forEachMember(ctx, atOnce, members, func(i int, m *Member) (err error) {
		here := s.sessionOf(m)
		parts[i], err = step.planCalls(ctx, here)
		here.noteLacks(x.step.Name, parts[i].lacks)
		return err
	})
	if err := ofMembers(members, errs); err != nil {
		return err
	}
	return s.sendPlan(ctx, newJoint(members, parts).planAll(s.Workload, x.step.Name, step.paceOf()))
}

// joint is the plans of several members as one. Calls go to the members in turn, one
// unit of the pace each.
type joint struct {
	members []*Member
	parts   []planned
	offsets []int    // of each part's operations
	order   [][2]int // of call i: the part, and which of its calls; nil: there is no end to them
	units   []int    // of call i
}

func newJoint(members []*Member, parts []planned) *joint {
	j := &joint{}
	for i, p := range parts {
		if len(p.Ops) > 0 { // else its step was not reached
			j.members, j.parts = append(j.members, members[i]), append(j.parts, p)
		}
	}
	total, ops := 0, 0
	for _, p := range j.parts {
		j.offsets = append(j.offsets, ops)
		ops, total = ops+len(p.Ops), total+p.Count
	}
	next := make([]int, len(j.parts))
	for unit := 0; len(j.order) < total; unit++ {
		for k, p := range j.parts {
			for next[k] < p.Count && unitOf(p.Plan, next[k]) <= unit {
				j.order, j.units = append(j.order, [2]int{k, next[k]}), append(j.units, unit*len(j.parts)+k)
				next[k]++
			}
		}
	}
	return j
}

// unitOf is the unit of the pace that a plan's call belongs to.
func unitOf(p load.Plan, i int) int {
	if paced, ok := p.Pace.(pacing); ok {
		return paced.unit(i)
	}
	return i
}

// placeOf returns which call of which part the i-th is.
func (j *joint) placeOf(i int) (part, call int) {
	if j.order == nil {
		return i % len(j.parts), i / len(j.parts)
	}
	return j.order[i][0], j.order[i][1]
}

// planAll returns the plan of all calls.
func (j *joint) planAll(w *workload.Workload, step string, p scenario.Pace) planned {
	out := planned{Plan: load.Plan{Step: step, Count: len(j.order)}, after: j.afterAll}
	if len(j.parts) == 0 {
		return out
	}
	for k, part := range j.parts {
		for _, op := range part.Ops {
			op.Cluster = j.members[k].Name
			out.Ops = append(out.Ops, op)
		}
	}
	first := j.parts[0].Plan
	out.For, out.Retry = first.For, first.Retry
	out.Pace = j.jointPacing(w, step, p)
	out.Build = func(i int, req *load.Request) (bool, error) {
		k, n := j.placeOf(i)
		wanted, err := j.parts[k].Build(n, req)
		j.addressRequest(k, req)
		return wanted, err
	}
	if first.Then != nil {
		out.Then = func(r load.Result, req *load.Request) (bool, error) {
			k := j.localResult(&r)
			req.Op = r.Op
			more, err := j.parts[k].Then(r, req)
			j.addressRequest(k, req)
			return more, err
		}
	}
	out.Object = func(i int) string {
		k, n := j.placeOf(i)
		if j.parts[k].Object == nil {
			return ""
		}
		return j.parts[k].Object(n)
	}
	out.Done = func(r load.Result) {
		if k := j.localResult(&r); j.parts[k].Done != nil {
			j.parts[k].Done(r)
		}
	}
	return out
}

// addressRequest makes a request of a part one of the whole.
func (j *joint) addressRequest(part int, req *load.Request) {
	req.Op += j.offsets[part]
	req.Member = j.members[part].Target
}

// localResult makes a result one of a part, and returns which.
func (j *joint) localResult(r *load.Result) (part int) {
	part, r.Index = j.placeOf(r.Index)
	r.Op -= j.offsets[part]
	return part
}

// jointPacing is the pace of all calls together.
func (j *joint) jointPacing(w *workload.Workload, step string, p scenario.Pace) pacing {
	if j.order == nil {
		return pacing{Pace: w.PaceOf(step, p, 0), unit: func(i int) int { return i }, calls: 1}
	}
	units := 0
	if n := len(j.units); n > 0 {
		units = j.units[n-1] + 1
	}
	out := pacing{Pace: w.PaceOf(step, p, units), unit: func(i int) int { return j.units[i] }, calls: float64(len(j.units)) / float64(max(1, units))}
	if one, ok := j.parts[0].Pace.(pacing); ok && one.shift != nil {
		out.shift = func(i int) time.Duration { _, n := j.placeOf(i); return one.shift(n) }
	}
	return out
}

// afterAll is what the parts do when all is sent.
func (j *joint) afterAll(ctx context.Context, sent error) error {
	for _, p := range j.parts {
		if p.after != nil {
			if err := p.after(ctx, sent); sent == nil {
				sent = err
			}
		}
	}
	return sent
}
