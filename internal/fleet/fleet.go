// Package fleet simulates nodes against an API server: it creates them, renews
// their leases, and plays stages on them and on the pods that are bound to
// them, for many nodes over few connections.
//
// One goroutine owns all state and decides; one per watch reads; answers come
// back through a mailbox. It knows no scenario beyond its own part and judges
// nothing: it records every call, with the time when it was due, and how late
// it was itself. Package experiment and the verbs up and fleet call it.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fleet/player"
	"github.com/windtunnel/windtunnel/internal/fleet/stage"
	"github.com/windtunnel/windtunnel/internal/fleet/stage/machine"
	"github.com/windtunnel/windtunnel/internal/fleet/traffic"
	"github.com/windtunnel/windtunnel/internal/fleet/wheel"
	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// Errors that callers tell apart.
var (
	ErrNotReady = errors.New("fleet is not ready")
	ErrForeign  = errors.New("a node of that name exists and is not of this fleet")
)

// Options are what a fleet needs besides its part of the scenario.
type Options struct {
	Endpoint endpoint.Endpoint
	Records  *record.Writer // may be nil
	Clock    clock.Clock
	Log      *slog.Logger // may be nil
	Seed     uint64
	Name     string           // nodes are NAME-000000 ... with the label windtunnel.dev/fleet=NAME; default "node"
	Stages   *machine.Machine // what happens to nodes, pods and anything else; nil: the built-in set fast
	Manage   *Manage          // keep existing nodes alive in place of making some
	Objects  []kwok.Document  // that belong to the stages, such as a StorageClass: created where they are missing
	NodeIP   netip.Addr       // of every node; the zero address: made up, one for each
	NodePort int              // where nodes' kubelets are served; 0: nowhere
	Version  string           // of the program, for templates

	kubelets    *traffic.Kubelets
	Connections int // default 8; real kubelets have one each, so few of them hold calls back that those would send
}

// defaultConnections bound what may wait for the server at once: 6,400 calls. Real
// kubelets would all wait; few connections would make the fleet itself late.
const defaultConnections = 64

// client is what a fleet needs of package wire.
type client interface {
	Send(*wire.Request, func(*wire.Response))
	Do(context.Context, *wire.Request) (*wire.Response, error)
	Stream(context.Context, *wire.Request, func([]byte) error) error
}

// Fleet is a running fleet. Close it after use.
type Fleet struct {
	cfg     scenario.Fleet
	clock   clock.Clock
	log     *slog.Logger
	records *record.Writer
	client  client
	close   func() error
	cancel  context.CancelFunc
	wait    sync.WaitGroup

	batches chan batch    // from the watches
	kick    chan struct{} // the mailbox or the queues have something
	mail    mailbox
	starved atomic.Bool   // jobs wait for the end of others: every answer counts
	ready   chan struct{} // closed when all nodes are schedulable
	failed  chan struct{} // closed when fatal is set
	deleted chan struct{} // closed when Delete has nothing left to do

	mu                    sync.Mutex // guards what follows; the engine holds it while it works
	model                 *model
	stages                *stage.Set
	rng                   *rand.Rand
	ops                   [actions]record.OpID
	wheel                 wheel.Wheel
	nodes                 []*node
	byName                map[string]*node
	vacant                []uint32 // places in nodes
	manage                *Manage
	nodeIP                netip.Addr
	typedNodes, typedPods bool // nodes, pods are played here, not by a player
	players               []*player.Player
	orphans               map[string]bool // nodes that had pods before they were known
	elsewhere             node            // stands for those of other instances
	tears                 [2]func()       // end the watch of a source, so that it is listed anew
	anew                  wheel.Timer
	faults                map[*fault]bool
	kubelets              *traffic.Kubelets // nil with minimal traffic
	ending                []func()          // of disturbances, before the client is closed
	drop                  func()            // breaks all connections; nil when that cannot be done
	traffic               func() []wire.Traffic
	ips                   map[string]lent // of pods that players play, by uid
	pods                  map[[16]byte]*pod
	names                 map[string]string // interned namespaces
	nextBlock             uint32
	queues                [classes]queue
	inFlight              int
	births                int // of them, creations of nodes

	maxInFlight int
	free        []*job
	lists       [2]uint32 // generation of each source's list
	stats       counters
	nodeView    object.Node // scratch of the watches
	podView     object.Pod
	warned      map[string]bool
	fatal       error
	started     bool
	deleting    int // node deletions that Delete waits for
	stopped     bool
}

// Start makes the fleet's nodes at cfg.Rate and keeps them alive until Close
// or the end of ctx. cfg.Lease 0 means no leases. It returns when the server
// was reached and the watches are about to begin; the error says what could
// not be asked of it.
func Start(ctx context.Context, cfg scenario.Fleet, o Options) (*Fleet, error) {
	o, cfg, err := defaults(o, cfg)
	if err != nil {
		return nil, err
	}
	c, err := wire.New(o.Endpoint, wire.Options{Connections: min(8, o.Connections), Most: o.Connections, UserAgent: "windtunnel-fleet", Clock: o.Clock})
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	k, err := kubelets(cfg, o)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	o.kubelets = k
	f, err := start(ctx, cfg, o, c, c.Close)
	if err != nil {
		return nil, err
	}
	f.drop, f.traffic = c.Break, c.Traffic
	if err := f.play(ctx, o, c); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func defaults(o Options, cfg scenario.Fleet) (Options, scenario.Fleet, error) {
	if o.Manage != nil {
		if err := o.Manage.Validate(); err != nil {
			return o, cfg, err
		}
		cfg.Nodes = 0
	}
	if cfg.Nodes < 0 || cfg.Nodes > maxNodes {
		return o, cfg, fmt.Errorf("fleet: %d nodes: want 0 to %d", cfg.Nodes, maxNodes)
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

func start(ctx context.Context, cfg scenario.Fleet, o Options, c client, closeClient func() error) (*Fleet, error) {
	m, err := newModel(o.Name, cfg)
	if err != nil {
		return nil, errors.Join(err, closeClient())
	}
	f := &Fleet{
		cfg: cfg, clock: o.Clock, log: o.Log, records: o.Records, client: c, close: closeClient, model: m,
		rng: rand.New(rand.NewPCG(o.Seed, 0x666c656574)), manage: o.Manage, nodeIP: o.NodeIP,
		batches: make(chan batch), kick: make(chan struct{}, 1),
		ready: make(chan struct{}), failed: make(chan struct{}), deleted: make(chan struct{}),
		pods: map[[16]byte]*pod{}, names: map[string]string{}, orphans: map[string]bool{}, faults: map[*fault]bool{},
		ips: map[string]lent{}, kubelets: o.kubelets,
		maxInFlight: o.Connections * perConn,
		nextBlock:   firstPod, warned: map[string]bool{},
	}
	f.wheel.Start(o.Clock.Now())
	f.defineOps()
	f.model.port, f.model.program = o.NodePort, o.Version
	f.stages, f.typedNodes, f.typedPods = typed(o.Stages)
	f.anew.Fire = f.tearPods
	f.makeNodes(cfg.Nodes)
	ctx, f.cancel = context.WithCancel(ctx)
	f.wait.Go(func() { f.run(ctx) })
	if err := f.attach(ctx); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// attach asks the server for its version and for the state of the fleet's
// objects, follows their watches and lets the creation of nodes begin.
func (f *Fleet) attach(ctx context.Context) error {
	version, err := f.version(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.model.info.KubeletVersion = version
	f.mu.Unlock()
	for _, s := range f.sources() {
		from, err := f.list(ctx, s)
		if err != nil {
			return err
		}
		f.wait.Go(func() { f.follow(ctx, s, from) })
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begin()
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
	case <-f.ready:
		return nil
	case <-f.failed:
		f.mu.Lock()
		err = f.fatal
		f.mu.Unlock()
	case <-timeout.C:
		err = fmt.Errorf("%w after %v", ErrNotReady, within)
	case <-ctx.Done():
		err = ctx.Err()
	}
	s := f.Stats()
	return fmt.Errorf("fleet: %d of %d nodes are schedulable (%d created): %w", s.Schedulable, s.Nodes, s.Created, err)
}

// Close stops everything and waits for it; nodes stay where they are. It is
// idempotent.
func (f *Fleet) Close() error {
	f.cancel()
	f.mu.Lock()
	ending := f.ending
	f.ending = nil
	f.mu.Unlock()
	for _, end := range ending {
		end()
	}
	for _, p := range f.players {
		p.Close()
	}
	if f.kubelets != nil {
		_ = f.kubelets.Close()
	}
	err := f.close()
	f.wait.Wait()
	return err
}

// atClose lets something end before the fleet does.
func (f *Fleet) atClose(end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ending = append(f.ending, end)
}

func (f *Fleet) wake() {
	select {
	case f.kick <- struct{}{}:
	default:
	}
}

// fail ends the hope that the fleet becomes ready; callers hold mu.
func (f *Fleet) fail(err error) {
	if f.fatal == nil {
		f.fatal = err
		close(f.failed)
	}
}
