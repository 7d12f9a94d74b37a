package steps

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/flight/inspect"
	"github.com/windtunnel/windtunnel/internal/fly/flight/journal"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/observe/lifecycle"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/steps/inventory"
	"github.com/windtunnel/windtunnel/internal/fly/subject"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sim/fleet"
	"github.com/windtunnel/windtunnel/internal/template"
	"github.com/windtunnel/windtunnel/scenario"
)

// Session is what a step needs of the run that it belongs to.
type Session struct {
	Tracker
	Workload *workload.Workload
	Created  *Created  // what create steps have made until now
	Members  []*Member // in the scenario's order
	// MemberFolder is where the kubeconfigs of the members are; empty: there are none.
	MemberFolder string
	Injected     *Injected // faults that hold

	Plane     *plane.Plane
	Own       bool            // the run has started the plane
	MaxOthers float64         // share of this machine's CPU that other processes may take; 0: as package record says
	Client    *wire.Client    // for what is asked of the plane beside the load
	Load      *load.Generator // what sends the load
	Fleet     *fleet.Fleet    // nil: the scenario has no nodes
	Pods      *lifecycle.Observer
	Installed *subject.Installer // of the subjects' objects; nil: there are none

	Clock clock.Clock
	Log   *slog.Logger
	Warn  func(text string) // keeps a sentence for the manifest and the report
	Dir   record.Dir        // of the run

	// Workers sends the load of the steps by workers, in place of Load; nil: there are none.
	Workers Workers
	// Answers has workers answer at the ends of paths; nil: there are none.
	Answers Answerer

	baseline baseline      // of steps that settle
	found    [][][2]string // with PlanPart: the objects that a mix's labels select; nil: they are listed
	member   *Member       // that the session is about; nil: the plane
	home     *Created      // what the plane has that may come to the member; nil: nothing
}

// Progress is told where a run stands.
type Progress interface {
	Enter(step string) (leave func())
	Waiting(step string, done, total int) // how far a step that waits has come
	WaitingFor(step, what string)         // what a step waits for that cannot be counted
}

// Tracker says which step a run is in: in its records, and to who watches it.
type Tracker struct {
	Journal  journal.Journal
	Progress Progress
	// Sample reads the counters of the plane and its subjects as a step begins and before it
	// ends, if a query is asked of that moment: what it counts is otherwise as old as the
	// last scrape. Nil: nothing is read.
	Sample func(ctx context.Context, step string)
}

// Track does a part of a run that has a name.
func (t Tracker) Track(ctx context.Context, name string, do func() error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	defer t.Progress.Enter(name)()
	t.Journal.StepBegan(name)
	t.sample(ctx, name)
	err := do()
	t.sample(context.WithoutCancel(ctx), name)
	t.Journal.StepEnded(name, err)
	return err
}

func (t Tracker) sample(ctx context.Context, step string) {
	if t.Sample != nil {
		t.Sample(ctx, step)
	}
}

// pollEvery is how often what a step waits for is looked at; nothing measured
// depends on it.
const pollEvery = 25 * time.Millisecond

// servedWithin is how long a step waits for a resource that the plane does not
// serve yet: its definition may have been created just before.
const servedWithin = 5 * time.Second

// findNamed returns where a resource such as deployments.apps is served.
func (s *Session) findNamed(ctx context.Context, name string) (discovery.Resource, error) {
	out, err := s.findServed(ctx, func() (discovery.Resource, error) { return s.resourceCache().Named(ctx, name) })
	if r, wrong := scenario.ParseResource(name); wrong == nil {
		err = workload.ExplainNotServed(err, r.Group)
	}
	return out, err
}

// findKind returns where objects of a body are served.
func (s *Session) findKind(ctx context.Context, body *template.Template) (discovery.Resource, error) {
	out, err := s.findServed(ctx, func() (discovery.Resource, error) {
		return s.resourceCache().Kind(ctx, body.APIVersion(), body.Kind())
	})
	if err == nil {
		s.awaitAge(ctx, out)
	}
	group, _, named := strings.Cut(body.APIVersion(), "/")
	if !named {
		group = ""
	}
	return out, workload.ExplainNotServed(err, group)
}

// findServed asks until the plane serves a resource.
func (s *Session) findServed(ctx context.Context, find func() (discovery.Resource, error)) (discovery.Resource, error) {
	deadline := s.Clock.Now().Add(servedWithin)
	for {
		found, err := find()
		if err == nil || !errors.Is(err, discovery.ErrNotServed) || s.Clock.Now() > deadline {
			return found, err
		}
		if clock.Sleep(ctx, 10*pollEvery) != nil {
			return found, err
		}
	}
}

// DiscoverResources asks where the plane serves what the steps are about, so that
// no step begins with a question: one that was asked of a plane that stands still
// would put off the calls that are due meanwhile. What is not served yet, such as
// a custom resource that a step installs, is asked for again by its step.
func (s *Session) DiscoverResources(ctx context.Context) {
	s.discoverIn(ctx, s.Load.Resources())
	asked := map[*discovery.Cache]bool{} // members that serve the same share one
	for _, m := range s.Members {
		if resources := s.Load.MemberResources(m.Target); !asked[resources] {
			asked[resources] = true
			s.discoverIn(ctx, resources)
		}
	}
}

func (s *Session) discoverIn(ctx context.Context, resources *discovery.Cache) {
	for _, name := range slices.Sorted(maps.Keys(s.Workload.Bodies)) {
		if body := s.Workload.Bodies[name]; body.Kind() != "" {
			if r, err := resources.Kind(ctx, body.APIVersion(), body.Kind()); err == nil && resources == s.Load.Resources() {
				s.awaitAge(ctx, r)
			}
		}
	}
	for step := range s.Workload.Scenario.AllSteps() {
		if step.Wait != nil && step.Wait.Objects != "" {
			_, _ = resources.Named(ctx, step.Wait.Objects)
		}
		if step.Requests == nil {
			continue
		}
		for _, c := range step.Requests.Mix {
			if c.Resource != "" {
				_, _ = resources.Named(ctx, c.Resource)
			}
		}
	}
}

// resourceCache says where the plane, or the member, serves what.
func (s *Session) resourceCache() *discovery.Cache {
	if s.member != nil {
		return s.Load.MemberResources(s.member.Target)
	}
	return s.Load.Resources()
}

// planned is what a step sends.
type planned struct {
	load.Plan // one without operations sends nothing
	// after is what is done when it was sent, however that went; it returns that error,
	// or its own. nil: nothing.
	after func(ctx context.Context, sent error) error
	part  Part              // that it is; without a step it cannot be shared among workers
	known inventory.Changes // what the leader of workers knew before it planned
	lacks []string          // why calls that it was to send are not among them
}

// sender is a step that sends calls.
type sender interface {
	planCalls(context.Context, *Session) (planned, error)
	paceOf() scenario.Pace // of the plan, as the scenario says it
}

// sendPlanned sends what a step is to send to the plane.
func (s *Session) sendPlanned(ctx context.Context, x sender) error {
	known := s.takeChanges()
	p, err := x.planCalls(ctx, s)
	if err != nil {
		return err
	}
	s.noteLacks(p.Step, p.lacks)
	p.part.Step, p.known, p.Clients = p.Step, known, s.Workload.ClientsOf(p.Step)
	return s.sendPlan(ctx, p)
}

// noteLacks says why a step does not do all that it was asked for: one that finds nothing to
// work on is not done.
func (s *Session) noteLacks(step string, why []string) {
	for _, one := range why {
		if s.member != nil {
			one = s.member.Name + ": " + one
		}
		s.Journal.Unmet("step "+step, record.NotDone, one)
		s.Log.Warn("step " + step + " was not completed: " + one)
	}
}

// sendPlan sends a plan's calls; one without calls is done.
func (s *Session) sendPlan(ctx context.Context, p planned) error {
	var err error
	if len(p.Ops) > 0 && (p.Count > 0 || p.For > 0) {
		err = s.sendCalls(ctx, p)
	}
	if p.after != nil {
		err = p.after(ctx, err)
	}
	return err
}

// Inspection says what is looked at of the plane, and with what.
func (s *Session) Inspection() inspect.Options {
	return inspect.Options{
		Clock: s.Clock, Plane: s.Plane, Own: s.Own, Client: s.Client, Installed: s.Installed, Run: s.Workload.Stamp.Run, MaxOthers: s.MaxOthers, Tolerate: s.Workload.Scenario.Preflight.Tolerate,
	}
}
