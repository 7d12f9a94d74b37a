package flight

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/observe/lifecycle"
	"github.com/windtunnel/windtunnel/internal/observe/scrape"
	"github.com/windtunnel/windtunnel/internal/observe/usage"
	"github.com/windtunnel/windtunnel/internal/plane"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// instruments measure a run beside its load: the lifecycles of pods and of what
// the scenario declares, CPU, memory and metrics of the components, and the
// traffic of our own connections.
type instruments struct {
	plane    *plane.Plane
	clock    clock.Clock
	probe    *lifecycle.Probe
	pods     *lifecycle.Observer
	declared *lifecycle.Declared
	meter    *usage.Sampler // of the components' processes
	scraper  *scrape.Scraper
	traffic  *traffic
}

// newInstruments makes them ready. A component whose metrics cannot be read is
// named in a warning and left out.
func newInstruments(s *scenario.Scenario, p *plane.Plane, dir *directory) (*instruments, error) {
	groups, err := podGroups(s)
	if err != nil {
		return nil, err
	}
	probe := lifecycle.NewProbe(dir.records, dir.clock)
	declared, err := lifecycle.Declare(dir.records, dir.clock, probe, s.Observed())
	if err != nil {
		return nil, err
	}
	return &instruments{
		plane: p, clock: dir.clock, probe: probe, declared: declared,
		pods:    lifecycle.New(dir.records, groups...).WithProbe(probe),
		scraper: scrape.New(dir.records, dir.clock, scrapeTargets(p, dir.warn), scrape.Options{}),
		meter:   usage.New(dir.records, dir.clock, processes(p), usage.Options{}),
		traffic: newTraffic(dir.records, dir.clock),
	}, nil
}

// start starts them; what it returns ends them. The resourceVersion probes, by
// which lifecycles tell what a watch showed late, do not go the way of the
// watches: what holds these up is not to hold them up. failed is told why pods
// cannot be observed any further.
func (i *instruments) start(ctx context.Context, client *wire.Client, failed context.CancelCauseFunc) (stop func(), err error) {
	probes, err := wire.New(i.plane.Endpoint(plane.Admin), wire.Options{UserAgent: "windtunnel-observe", Clock: i.clock})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wait guard.Group
	wait.Go(func() {
		i.probe.Run(ctx, probes)
		_ = probes.Close()
	})
	wait.Go(func() { i.declared.Run(ctx, client, discovery.New(client)) })
	wait.Go(func() {
		if err := i.pods.Run(ctx, client, i.clock); err != nil {
			failed(err)
		}
	})
	wait.Go(func() { i.scraper.Run(ctx) })
	wait.Go(func() { i.meter.Run(ctx) })
	wait.Go(func() { i.traffic.run(ctx) })
	return func() { cancel(); wait.Wait() }, nil
}

// synced waits until the watches have begun.
func (i *instruments) synced(ctx context.Context) error {
	select {
	case <-i.pods.Synced():
		return i.declared.Synced(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sample reads CPU, memory and metrics now, beside the usual times.
func (i *instruments) sample(ctx context.Context) {
	i.meter.Sample()
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

// scrapeTargets are the components whose /metrics are read. Those that cannot be
// reached are named once and left out.
func scrapeTargets(p *plane.Plane, warn func(string)) []scrape.Target {
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
	return out
}

// processes are the plane's own processes, and all of them together where they share
// limits.
func processes(p *plane.Plane) []usage.Process {
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
