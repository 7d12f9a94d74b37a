// Package fleet simulates nodes against an API server: it creates them, renews
// their leases, and plays stages on them and on the pods that are bound to
// them, for many nodes over few connections.
//
// One goroutine, the driver, decides; one per watch reads; answers come back
// through a mailbox. The fleet knows no scenario beyond its own part and judges
// nothing: it records every call, with the time when it was due, and how late
// it was itself.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/share"
	"github.com/windtunnel/windtunnel/internal/sim/fleet/traffic"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// Errors that callers tell apart.
var (
	ErrNotReady = errors.New("fleet is not ready")
	ErrForeign  = errors.New("a node of that name exists and is not of this fleet")
	// ErrForeignObject is of an object that stages need.
	ErrForeignObject = errors.New("it exists already, and this run has not made it: it is left alone")
)

// Options are what a fleet needs besides its part of the scenario.
type Options struct {
	Endpoint endpoint.Endpoint
	Records  *record.Writer // may be nil
	Clock    clock.Clock
	Log      *slog.Logger // may be nil
	Seed     uint64
	Cluster  string           // the member whose nodes these are, for the records; empty: the plane
	Name     string           // nodes are NAME-000000 ... with the label windtunnel.dev/fleet=NAME; default "node"
	Stages   *machine.Machine // what happens to nodes, pods and anything else; nil: the built-in set fast
	Manage   *ManagedNodes    // keep existing nodes alive in place of making some
	// Share is of the nodes that it makes. Names, addresses and the times of their
	// creation are those of the whole. The first share has also what belongs to no node:
	// objects of stages, and stages of other kinds than nodes and pods. The zero value is
	// all nodes.
	Share    share.Share
	Objects  []kwok.Document // that belong to the stages, such as a StorageClass: created where they are missing
	NodeIP   netip.Addr      // of every node; the zero address: made up, one for each
	NodePort int             // where nodes' kubelets are served; 0: nowhere
	Version  string          // of the program, for templates
	// Stamp, of a cluster that is not the run's own, is on all that the fleet and its
	// stages make. With a Fleet in it its nodes are tainted: only pods that are
	// meant for them go there.
	Stamp object.Stamp
	// Namespaces, with a Stamp, tells those that are the run's: stages of things that
	// are neither nodes nor pods are played on what carries the stamp or is in them,
	// and nothing else is changed. nil: on all things.
	Namespaces func(name string) bool

	kubelets    *traffic.Kubelets
	Connections int // default 64
}

// defaultConnections bound what may wait for the server at once: 6,400 calls. Real
// kubelets would all wait; few connections would make the fleet itself late.
const defaultConnections = 64

// Fleet is a running fleet. Close it after use.
type Fleet struct {
	cfg      scenario.Fleet
	driver   *driver
	nodes    *nodes
	leases   *leases
	pods     *pods
	kubelets *kubeletTraffic
	events   *eventQueue
	watches  *watches
	disturb  *disturber
	players  *players
	traffic  func() []wire.Traffic
	close    func() error
	cancel   context.CancelFunc
	wait     guard.Group
}

// Start makes the fleet's nodes at cfg.Rate and keeps them alive until Close
// or the end of ctx. cfg.Lease 0 means no leases. It returns when the server
// was reached and the watches are about to begin; the error says what could
// not be asked of it.
func Start(ctx context.Context, cfg scenario.Fleet, o Options) (*Fleet, error) {
	o, cfg, err := withDefaults(o, cfg)
	if err != nil {
		return nil, err
	}
	c, err := wire.New(o.Endpoint, wire.Options{Connections: min(8, o.Connections), Most: o.Connections, UserAgent: "windtunnel-fleet", Clock: o.Clock})
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	if o.kubelets, err = newKubeletWatches(cfg, o); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	f, err := startFleet(ctx, cfg, o, c, c.Close)
	if err != nil {
		return nil, err
	}
	f.disturb.reconnect, f.traffic = c.Break, c.Traffic
	if err := f.players.startPlayers(ctx, o, c); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func withDefaults(o Options, cfg scenario.Fleet) (Options, scenario.Fleet, error) {
	if err := checkShare(o.Share); err != nil {
		return o, cfg, err
	}
	if o.Manage != nil {
		if err := o.Manage.Validate(); err != nil {
			return o, cfg, err
		}
		cfg.Nodes, o.Share = 0, share.Share{}
	}
	if cfg.Nodes < 0 || cfg.Nodes > maxNodes {
		return o, cfg, fmt.Errorf("fleet: %s: want 0 to %d", unit.Count(cfg.Nodes, "nodes"), maxNodes)
	}
	if cfg.Rate <= 0 {
		cfg.Rate = scenario.DefaultNodeRate
	}
	if cfg.Within <= 0 {
		cfg.Within = unit.Duration(scenario.DefaultFleetWithin)
	}
	if lease := time.Duration(cfg.Lease); lease != 0 && lease < time.Second {
		return o, cfg, fmt.Errorf("fleet: lease %v: want whole seconds, or 0s for none", lease)
	}
	if o.Name == "" {
		o.Name = "node"
	}
	if o.Connections <= 0 {
		o.Connections = defaultConnections
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, cfg, nil
}

func startFleet(ctx context.Context, cfg scenario.Fleet, o Options, c client, closeClient func() error) (*Fleet, error) {
	f, err := assembleFleet(cfg, o, c)
	if err != nil {
		return nil, errors.Join(err, closeClient())
	}
	f.close = closeClient
	ctx, f.cancel = context.WithCancel(ctx)
	f.wait.Go(func() { f.driver.run(ctx, f.events) })
	if err := f.attachToServer(ctx); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// assembleFleet makes a fleet's parts and tells them of each other.
func assembleFleet(cfg scenario.Fleet, o Options, c client) (*Fleet, error) {
	t, err := newNodeTemplate(o.Name, cfg)
	if err != nil {
		return nil, err
	}
	t.port, t.program = o.NodePort, o.Version
	t.stampNodes(o.Stamp)
	e := newDriver(o, c)
	var k *kubeletTraffic
	if o.kubelets != nil {
		k = &kubeletTraffic{driver: e, watches: o.kubelets}
	}
	st := &stages{clock: o.Clock, template: t}
	if err := st.compileStages(o.Stages); err != nil {
		return nil, err
	}
	l := &leases{driver: e, template: t, duration: time.Duration(cfg.Lease)}
	n := &nodes{
		driver: e, template: t, stages: st, leases: l, kubelets: k, managed: o.Manage, share: o.Share, hostIP: o.NodeIP,
		awaited: map[string]bool{}, ready: make(chan struct{}), failed: make(chan struct{}),
	}
	n.leaving = deletion{nodes: n, done: make(chan struct{})}
	n.planNodes(cfg.Nodes)
	st.addresses = newAddresses(n)
	p := &pods{driver: e, nodes: n, stages: st, kubelets: k, byKey: map[podKey]*pod{}, interned: map[string]string{}}
	r := newReadiness(e, p)
	p.ready = r
	for a := range actions {
		switch {
		case a == leaseCreate || a == leaseRead || a == leaseRenew:
			e.owners[a] = l
		case a == podReady:
			e.owners[a] = r
		case a.queueClass() == classPod:
			e.owners[a] = p
		default:
			e.owners[a] = n
		}
	}
	f := &Fleet{cfg: cfg, driver: e, nodes: n, leases: l, pods: p, kubelets: k}
	f.events = &eventQueue{driver: e, nodes: n, pods: p, batches: make(chan batch)}
	f.watches = &watches{clock: o.Clock, client: c, records: o.Records, log: o.Log, events: f.events}
	f.disturb = &disturber{driver: e, nodes: n, kubelets: k, readiness: r, faults: map[*injectedFault]bool{}}
	f.players = &players{
		driver: e, nodes: n, stages: st, addresses: st.addresses, readiness: r, borrowed: map[string]lentAddress{}, stamp: o.Stamp, namespaces: o.Namespaces, share: o.Share,
	}
	n.awaiting.Fire = func() {
		f.watches.relistPods()
		f.players.relistPods()
	}
	return f, nil
}

// attachToServer asks the server for its version and for the state of the fleet's
// objects, follows their watches and lets the creation of nodes begin.
func (f *Fleet) attachToServer(ctx context.Context) error {
	e := f.driver
	version, err := serverVersion(ctx, e.client)
	if err != nil {
		return err
	}
	e.mu.Lock()
	f.nodes.template.info.KubeletVersion = version
	e.mu.Unlock()
	for _, s := range sourcesOf(f.nodes.template.fleet, f.nodes.managed) {
		if s.id == sourcePods && f.nodes.stages.SlowPods() != nil {
			continue
		}
		if err := f.watches.startSource(ctx, s); err != nil {
			return err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	f.nodes.beginCreation(f.cfg.Rate)
	e.wake()
	return nil
}

// Ready waits until all nodes are schedulable: created, Ready and without a
// taint that keeps pods off. It gives up after the scenario's fleet.within.
func (f *Fleet) Ready(ctx context.Context) error {
	within := time.Duration(f.cfg.Within)
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	var err error
	select {
	case <-f.nodes.ready:
		return nil
	case <-f.nodes.failed:
		f.driver.mu.Lock()
		err = f.nodes.err
		f.driver.mu.Unlock()
	case <-timeout.C:
		err = fmt.Errorf("%w after %v", ErrNotReady, within)
	case <-ctx.Done():
		err = ctx.Err()
	}
	s := f.Stats()
	return fmt.Errorf("fleet: %d of %d nodes are schedulable (%d created): %w", s.Schedulable, s.Nodes, s.Created, err)
}

// Manages says whether a fleet keeps a node alive now.
func (f *Fleet) Manages(node string) bool {
	f.driver.mu.Lock()
	defer f.driver.mu.Unlock()
	return f.nodes.byName[node] != nil
}

// Disturb does to nodes or pods of the fleet what d asks for, to those that the
// fleet's seed chooses, until undo is called. Nodes that are disturbed already
// are not chosen again. Undo may be called twice; it waits for nothing. Its error, an
// ErrVictims, says what of d did not come about until then.
func (f *Fleet) Disturb(ctx context.Context, d scenario.Disturbance) (undo func() error, err error) {
	return f.disturb.injectFault(ctx, d)
}

// Stats returns the fleet's state.
func (f *Fleet) Stats() Stats {
	var s Stats
	f.driver.mu.Lock()
	f.driver.addStats(&s)
	f.nodes.addStats(&s)
	f.leases.addStats(&s)
	f.pods.addStats(&s)
	s.Events = f.events.count
	f.driver.mu.Unlock()
	f.watches.addStats(&s)
	f.players.addStats(&s)
	return s
}

// Traffic returns what went over each of the fleet's connections; those of
// kubelets' reads are not among them. It is nil for a fleet without any.
func (f *Fleet) Traffic() []wire.Traffic {
	if f.traffic == nil {
		return nil
	}
	return f.traffic()
}

// Delete deletes the nodes that the fleet made, for planes that outlive it,
// and stops renewing their leases; the plane's garbage collector takes the
// leases and pods away. No node comes back until Close.
func (f *Fleet) Delete(ctx context.Context) error {
	d := &f.nodes.leaving
	f.driver.mu.Lock()
	left := d.beginDeletion()
	f.driver.mu.Unlock()
	if left == 0 {
		return nil
	}
	f.driver.wake()
	select {
	case <-d.done:
	case <-ctx.Done():
		return fmt.Errorf("fleet: delete nodes: %w", ctx.Err())
	}
	f.driver.mu.Lock()
	defer f.driver.mu.Unlock()
	if d.failed > 0 {
		return fmt.Errorf("fleet: %d of %d nodes could not be deleted", d.failed, left)
	}
	return nil
}

// Close stops everything and waits for it; nodes stay where they are. It is
// idempotent.
func (f *Fleet) Close() error {
	f.cancel()
	f.disturb.close()
	f.players.close()
	_ = f.kubelets.close()
	err := f.close()
	f.watches.wait.Wait()
	f.wait.Wait()
	return err
}
