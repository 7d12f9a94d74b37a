package flight

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/observe/audit"
	"github.com/windtunnel/windtunnel/internal/fly/observe/leaders"
	"github.com/windtunnel/windtunnel/internal/fly/observe/lifecycle"
	"github.com/windtunnel/windtunnel/internal/fly/observe/scrape"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/steps"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// instruments measure a run beside its load: the lifecycles of pods and of what
// the scenario declares, on the plane and in members, CPU, memory and metrics of the components, and the
// traffic of our own connections.
type instruments struct {
	plane    *plane.Plane
	clock    clock.Clock
	records  *record.Writer
	watches  []*clusterWatches   // the plane first, then members in which something is observed
	declared *lifecycle.Declared // all of them, whatever their clusters
	meter    *usage.Sampler      // of the components' processes
	scraper  *scrape.Scraper
	traffic  *traffic
	leaders  []leaders.Candidate
	audit    *audit.Reader // nil: requests are not counted by client
}

// newInstruments makes them ready. A component whose metrics cannot be read is
// named in a warning and left out.
func newInstruments(r *run) (*instruments, error) {
	groups, err := podGroups(r.scenario)
	if err != nil {
		return nil, err
	}
	dir, p := r.dir, r.plane
	all, err := lifecycle.Declare(dir.records, dir.clock, nil, r.scenario.Observed())
	if err != nil {
		return nil, err
	}
	i := &instruments{
		plane: p, clock: dir.clock, records: dir.records, declared: all,
		scraper: scrape.New(dir.records, dir.clock, scrapeTargets(p, r.members.all, r.scenario, dir.addWarning), scrape.Options{}),
		meter:   usage.New(dir.records, dir.clock, planeProcesses(p), usage.Options{}),
		traffic: newTraffic(dir.records, dir.clock),
	}
	if i.leaders, err = plane.Candidates(p); err != nil {
		return nil, err
	}
	i.watchPlane(r, all, groups)
	return i, i.watchMembers(r, all, groups)
}

// podObserver observes the pods of the plane.
func (i *instruments) podObserver() *lifecycle.Observer { return i.watches[0].pods }

// startAll starts them; what it returns ends them. failed is told why the plane's pods
// cannot be observed any further; of a member's it is a warning.
func (i *instruments) startAll(ctx context.Context, failed context.CancelCauseFunc) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var wait guard.Group
	stop = func() { cancel(); wait.Wait() }
	for _, w := range i.watches {
		refused := failed
		if w.name != "" {
			refused = func(err error) {
				i.records.Event(record.Unmet(i.clock.Now(), "pods of member "+w.name, record.NotMeasured, err.Error()))
			}
		}
		if err := w.startWatches(ctx, &wait, i.clock, refused); err != nil {
			stop()
			return nil, err
		}
	}
	wait.Go(func() { i.scraper.Run(ctx) })
	wait.Go(func() { i.meter.Run(ctx) })
	wait.Go(func() { leaders.Watch(ctx, i.records, i.clock, i.leaders) })
	wait.Go(func() { i.traffic.samplePeriodically(ctx) })
	if i.audit != nil {
		wait.Go(func() { i.audit.Run(ctx) })
	}
	return stop, nil
}

// awaitSynced waits until the watches have begun.
func (i *instruments) awaitSynced(ctx context.Context) error {
	for _, w := range i.watches {
		if err := w.podsSynced(ctx); err != nil {
			return err
		}
	}
	return i.declaredSynced(ctx)
}

// declaredSynced waits until the watches of declared lifecycles have begun, of what is
// served by now.
func (i *instruments) declaredSynced(ctx context.Context) error {
	for _, w := range i.watches {
		if err := w.declared.Synced(ctx); err != nil {
			return err
		}
	}
	return nil
}

// sampleNow reads CPU, memory and metrics now, beside the usual times.
func (i *instruments) sampleNow(ctx context.Context) {
	i.meter.Sample()
	if i.audit != nil {
		// Before the scrape as well: the counts of clients and those of the server are of one moment.
		i.audit.Sample()
		defer i.audit.Sample()
	}
	i.scraper.Scrape(ctx)
}

// followProcess measures the process that a component was started in again.
func (i *instruments) followProcess(component string) {
	if c, ok := i.plane.Component(component); ok {
		i.meter.Follow(processOf(c))
	}
}

// podGroups are the scenario's groups of pods.
func podGroups(s *scenario.Scenario) ([]lifecycle.Group, error) {
	var out []lifecycle.Group
	for _, g := range s.Groups {
		selector, err := labels.Parse(g.Selector)
		if err != nil {
			return nil, fmt.Errorf("group %s: %w", g.Name, err)
		}
		out = append(out, lifecycle.Group{Name: g.Name, Namespace: g.Namespace, Selector: selector})
	}
	return out, nil
}

// scrapeTargets are the components whose /metrics are read, and members of which the
// scenario asks for it. Those that cannot be reached are named once and left out.
func scrapeTargets(p *plane.Plane, members []*steps.Member, s *scenario.Scenario, warn func(string)) []scrape.Target {
	var out []scrape.Target
	for _, c := range p.Components() {
		if c.MetricsURL == "" {
			continue
		}
		client, _, err := c.Scrape.Client()
		if err != nil {
			warn(fmt.Sprintf("the metrics of %s cannot be read: %v", c.Name, err))
			continue
		}
		out = append(out, scrape.Target{Name: c.Name, URL: c.MetricsURL, Client: client, Process: c.PID == 0})
	}
	asked := map[string]bool{}
	for i := range s.Members {
		asked[s.Members[i].Name] = s.Members[i].Metrics
	}
	for _, m := range members {
		if !asked[m.Group] {
			continue
		}
		client, base, err := m.Endpoint(plane.Observe).Client()
		if err != nil {
			warn(fmt.Sprintf("the metrics of %s cannot be read: %v", m.Name, err))
			continue
		}
		out = append(out, scrape.Target{Name: m.Name, URL: base.JoinPath("/metrics").String(), Client: client, Cluster: m.Name})
	}
	return out
}

// planeProcesses are the plane's own processes, and all of them together where they share
// limits.
func planeProcesses(p *plane.Plane) []usage.Process {
	var out []usage.Process
	for _, c := range p.Components() {
		if c.PID > 0 {
			out = append(out, processOf(c))
		}
	}
	if shared := p.Cgroups(); len(shared) > 0 {
		out = append(out, usage.Process{Name: record.WholePlane, Cgroup: shared["cpu"], Memory: shared["memory"]})
	}
	return out
}

// processOf is a component as it is measured: one whose CPU nothing limits by itself
// is never throttled by itself.
func processOf(c plane.Component) usage.Process {
	out := usage.Process{Name: c.Name, PID: c.PID, Memory: c.Cgroups["memory"]}
	if c.CPULimit > 0 {
		out.Cgroup = c.Cgroups["cpu"]
	}
	return out
}
