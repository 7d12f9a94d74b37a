package steps

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/observe/lifecycle"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// Member is a cluster beside the plane, as steps reach it.
type Member struct {
	*plane.Member
	Target  int                 // of the load's calls: Request.Member
	Created *Created            // what create steps have made in it
	Pods    *lifecycle.Observer // nil: its pods are not recorded
}

// in is the session of a member: what a step does in it, it does there.
func (s *Session) in(m *Member) *Session {
	out := *s
	out.member, out.Created, out.Pods, out.Client = m, m.Created, m.Pods, s.Load.MemberClient(m.Target)
	out.Progress = unseen{s.Progress}
	return &out
}

// unseen does not show what one of many members waits for.
type unseen struct{ Progress }

func (unseen) Waiting(string, int, int)  {}
func (unseen) WaitingFor(string, string) {}

// membersOf are those that a step's cluster means.
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
	return out, nil
}

// inMembers does a step in members: what it sends is one plan, whose pace is that of
// all together; what it waits for it waits for in all at the same time.
type inMembers struct {
	step *scenario.Step
	do   Step
}

// Do does it.
func (x inMembers) Do(ctx context.Context, s *Session) error {
	members, err := s.membersOf(x.step.Cluster)
	if err != nil || len(members) == 0 {
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
		return x.send(ctx, s, members, step)
	}
	return fmt.Errorf("%s in %s: %w", x.step.Verb(), x.step.Cluster, errNotInMembers)
}

var errNotInMembers = errors.New("members take no such step")

// atOnce is how many members a step looks at, or waits in, at the same time.
const atOnce = 256

// Each does something for every member, for many at the same time. The error names
// members.
func Each(ctx context.Context, members []*Member, do func(context.Context, *Member) error) error {
	return ofMembers(members, each(ctx, atOnce, members, func(_ int, m *Member) error { return do(ctx, m) }))
}

// each does something for every member, for most of them at the same time, and returns
// the errors in their order.
func each(ctx context.Context, most int, members []*Member, do func(i int, m *Member) error) []error {
	return times(ctx, most, len(members), func(i int) error { return do(i, members[i]) })
}

// times does something n times, most times at the same time, and returns the errors in
// their order.
func times(ctx context.Context, most, n int, do func(i int) error) []error {
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
	deadline := s.Clock.Now().Add(time.Duration(w.Spec.Within))
	var done atomic.Int64
	s.Progress.Waiting(w.Step, 0, len(members))
	return ofMembers(members, each(ctx, atOnce, members, func(_ int, m *Member) error {
		spec := *w.Spec
		spec.Within = unit.Duration(max(time.Millisecond, s.Clock.Until(deadline)))
		if err := (Wait{w.Step, &spec}).Do(ctx, s.in(m)); err != nil {
			return err
		}
		s.Progress.Waiting(w.Step, int(done.Add(1)), len(members))
		return nil
	}))
}

// send sends what the step sends to each member, as one plan.
func (x inMembers) send(ctx context.Context, s *Session, members []*Member, step sender) error {
	parts := make([]planned, len(members))
	errs := each(ctx, atOnce, members, func(i int, m *Member) (err error) {
		parts[i], err = step.plan(ctx, s.in(m))
		return err
	})
	if err := ofMembers(members, errs); err != nil {
		return err
	}
	return s.send(ctx, newJoint(members, parts).plan(s.Workload, x.step.Name, step.pace()))
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

// place returns which call of which part the i-th is.
func (j *joint) place(i int) (part, call int) {
	if j.order == nil {
		return i % len(j.parts), i / len(j.parts)
	}
	return j.order[i][0], j.order[i][1]
}

// plan returns the plan of all calls.
func (j *joint) plan(w *Workload, step string, p scenario.Pace) planned {
	out := planned{Plan: load.Plan{Step: step, Count: len(j.order)}, after: j.after}
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
	out.Pace = j.pacing(w, step, p)
	out.Build = func(i int, req *load.Request) (bool, error) {
		k, n := j.place(i)
		wanted, err := j.parts[k].Build(n, req)
		j.address(k, req)
		return wanted, err
	}
	if first.Then != nil {
		out.Then = func(r load.Result, req *load.Request) (bool, error) {
			k := j.local(&r)
			req.Op = r.Op
			more, err := j.parts[k].Then(r, req)
			j.address(k, req)
			return more, err
		}
	}
	out.Object = func(i int) string {
		k, n := j.place(i)
		if j.parts[k].Object == nil {
			return ""
		}
		return j.parts[k].Object(n)
	}
	out.Done = func(r load.Result) {
		if k := j.local(&r); j.parts[k].Done != nil {
			j.parts[k].Done(r)
		}
	}
	return out
}

// address makes a request of a part one of the whole.
func (j *joint) address(part int, req *load.Request) {
	req.Op += j.offsets[part]
	req.Member = j.members[part].Target
}

// local makes a result one of a part, and returns which.
func (j *joint) local(r *load.Result) (part int) {
	part, r.Index = j.place(r.Index)
	r.Op -= j.offsets[part]
	return part
}

// pacing is the pace of all calls together.
func (j *joint) pacing(w *Workload, step string, p scenario.Pace) pacing {
	if j.order == nil {
		return pacing{Pace: w.pace(step, p, 0), unit: func(i int) int { return i }, calls: 1}
	}
	units := 0
	if n := len(j.units); n > 0 {
		units = j.units[n-1] + 1
	}
	out := pacing{Pace: w.pace(step, p, units), units: units, unit: func(i int) int { return j.units[i] }, calls: float64(len(j.units)) / float64(max(1, units))}
	if one, ok := j.parts[0].Pace.(pacing); ok && one.shift != nil {
		out.shift = func(i int) time.Duration { _, n := j.place(i); return one.shift(n) }
	}
	return out
}

// after is what the parts do when all is sent.
func (j *joint) after(ctx context.Context, sent error) error {
	for _, p := range j.parts {
		if p.after != nil {
			if err := p.after(ctx, sent); sent == nil {
				sent = err
			}
		}
	}
	return sent
}
