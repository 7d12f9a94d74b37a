package flight

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/observe/lifecycle"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// memberProbes is how many resourceVersion probes all members together get a second:
// what a thousand of them cost must not be seen in what is measured. The more members,
// the rougher the bounds of what a watch showed late.
const memberProbes = 100

// clusterWatches observe lifecycles in one cluster: the plane, or a member.
type clusterWatches struct {
	name     string // of the member; empty: the plane
	probe    *lifecycle.Probe
	pods     *lifecycle.Observer // nil: they are not recorded
	idle     bool                // nothing is observed at all
	declared *lifecycle.Declared
	client   *wire.Client      // of the watches
	probed   endpoint.Endpoint // what the probe asks, by a client of its own: what holds up the watches is not to hold it up
	served   lifecycle.Finder
}

// watchPlane adds what observes the plane.
func (i *instruments) watchPlane(r *run, all *lifecycle.Declared, groups []lifecycle.Group) {
	probe := lifecycle.NewProbe(r.dir.records, r.clock)
	var pods *lifecycle.Observer
	if r.ownsPlane() || r.workload.WatchesPods() { // in a cluster of others nothing is read that the scenario is not about
		pods = lifecycle.New(r.dir.records, groups...).WithProbe(probe)
	}
	i.watches = append(i.watches, &clusterWatches{
		probe: probe, pods: pods, client: r.client, probed: r.plane.Endpoint(plane.Admin), served: discovery.New(r.client),
		declared: all.In("", probe, func(l scenario.Lifecycle) bool { return l.Cluster == "" }), idle: pods == nil,
	})
}

// watchMembers adds what observes the members in which there is something to observe.
func (i *instruments) watchMembers(r *run, all *lifecycle.Declared, groups []lifecycle.Group) error {
	pods, observed := r.scenario.PodMembers(), map[string]map[string]bool{}
	for _, l := range r.scenario.Observed() {
		if l.Cluster == "" {
			continue
		}
		names, err := r.scenario.MembersOf(l.Cluster)
		if err != nil {
			return err
		}
		for _, name := range names {
			if observed[name] == nil {
				observed[name] = map[string]bool{}
			}
			observed[name][l.Name] = true
		}
	}
	every := time.Second * time.Duration(len(r.members.all)) / memberProbes
	for _, m := range r.members.all {
		of := observed[m.Name]
		if of == nil && !pods[m.Name] {
			continue
		}
		client, err := wire.New(m.Endpoint(plane.Observe), wire.Options{UserAgent: "windtunnel-observe", Clock: r.clock})
		if err != nil {
			return fmt.Errorf("observe %s: %w", m.Name, err)
		}
		r.atEnd(func() { _ = client.Close() })
		probe := lifecycle.NewProbe(r.dir.records, r.clock).In(m.Name, every)
		w := &clusterWatches{
			name: m.Name, probe: probe, client: client, probed: m.Endpoint(plane.Admin), served: r.generator.MemberResources(m.Target),
			declared: all.In(m.Name, probe, func(l scenario.Lifecycle) bool { return of[l.Name] }),
		}
		if pods[m.Name] {
			m.Pods = lifecycle.New(r.dir.records, groups...).WithProbe(probe).In(m.Name)
			w.pods = m.Pods
		}
		i.watches = append(i.watches, w)
	}
	return nil
}

// startWatches observes until ctx ends; failed is told why pods cannot be observed any
// further.
func (w *clusterWatches) startWatches(ctx context.Context, wait *guard.Group, c clock.Clock, failed func(error)) error {
	if w.idle {
		return nil
	}
	probes, err := wire.New(w.probed, wire.Options{UserAgent: "windtunnel-observe", Clock: c})
	if err != nil {
		return err
	}
	wait.Go(func() {
		w.probe.Run(ctx, probes)
		_ = probes.Close()
	})
	wait.Go(func() { w.declared.Run(ctx, w.client, w.served) })
	if w.pods != nil {
		wait.Go(func() {
			if err := w.pods.Run(ctx, w.client, c); err != nil {
				failed(err)
			}
		})
	}
	return nil
}

// reportUnseen says of a run that came to its end which of the lifecycles that were asked for
// had no object: nothing was measured of them.
func (r *run) reportUnseen() {
	for _, l := range r.instruments.unseenLifecycles(r.scenario) {
		if !l.Optional {
			r.dir.recordUnmet("lifecycle "+l.Name, record.NotMeasured, "the run saw no object of "+l.Of+"; if it need not have any, say optional: true")
		}
	}
}

// unseenLifecycles returns those of which no object was seen in any of their clusters.
func (i *instruments) unseenLifecycles(sc *scenario.Scenario) []scenario.Lifecycle {
	unseen := i.declared.Unseen()
	for _, l := range sc.Lifecycles {
		if l.Use != scenario.PodLifecycle {
			continue
		}
		names, _ := sc.MembersOf(l.Cluster) // the scenario was checked
		if !slices.ContainsFunc(i.watches, func(w *clusterWatches) bool {
			return w.pods != nil && (w.name == l.Cluster || slices.Contains(names, w.name)) && w.pods.SawAny()
		}) {
			l.Name, l.Of = l.Use, "pods"
			unseen = append(unseen, l)
		}
	}
	return unseen
}

// podsSynced waits until pods are seen being created.
func (w *clusterWatches) podsSynced(ctx context.Context) error {
	if w.pods == nil {
		return nil
	}
	select {
	case <-w.pods.Synced():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
