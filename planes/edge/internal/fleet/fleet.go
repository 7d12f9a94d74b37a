// Package fleet is many hollow edges in one process: each connects, joins, renews
// its lease, takes objects and acknowledges them, starts and ends pods and says so,
// and goes on while it is offline, as KubeEdge's edges do. No container runs.
//
// What an edge has it keeps as a digest, so that it can be proved object by object
// that edges hold what the API server holds.
package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/link"
	"github.com/windtunnel/windtunnel/planes/edge/internal/stream"
	"github.com/windtunnel/windtunnel/planes/internal/kit/agree"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
)

// Fleet is the edges of one process.
type Fleet struct {
	o        Options
	ctx      func() context.Context // of the run
	fail     context.CancelCauseFunc
	client   *api.Client
	metrics  *metrics
	schedule *schedule
	check    *checker
	poller   *link.Poller
	quic     *stream.Dialer // nil: edges come by websocket
	dials    chan *driver
	wait     sync.WaitGroup
	edges    []*driver
	byName   map[string]*driver
	hubs     hubs
	sharing  sync.Mutex // of shared
	shared   *tls.Certificate
	bytes    link.Bytes // on all connections
	work     sync.Pool  // of steps, each taken for the time of one
	dice     *rand.Rand

	connected, dialing, joined atomic.Int64
	turns                      atomic.Int64 // of a balancer
	began, allConnected        atomic.Int64 // clock.Time of the first dial, and of when all were connected first; 0: not yet
}

// Run runs a fleet until ctx ends; it returns when all has ended. The registry answers
// /differences, which names objects that are not as they are to be, and /connected, which
// says no until every edge is connected.
func Run(ctx context.Context, o Options) error {
	f, err := newFleet(o)
	if err != nil {
		return err
	}
	o.Registry.Handle(agree.Path, f.check)
	o.Registry.Handle("/connected", http.HandlerFunc(f.sayConnected))
	defer f.wait.Wait()
	return o.Work(ctx, f.runEdges)
}

func (f *Fleet) sayConnected(w http.ResponseWriter, _ *http.Request) {
	if n := f.connected.Load(); n < int64(len(f.edges)) {
		http.Error(w, fmt.Sprintf("%d of %d edges", n, len(f.edges)), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func newFleet(o Options) (*Fleet, error) {
	config := rest.CopyConfig(o.Config)
	config.Timeout, config.QPS = 0, -1
	o.Registry.Watch(config)
	client, err := api.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("edge-fleet: %w", err)
	}
	if o.Heartbeat == HeartbeatStatus {
		o.Lease = 0 // the status stands for it
	}
	f := &Fleet{o: o, client: client, byName: map[string]*driver{}, dials: make(chan *driver), dice: rand.New(dice{})}
	for i := o.Shard; i < o.Edges; i += o.Shards {
		d := &driver{fleet: f, edge: edge{name: fmt.Sprintf("%s-%d", o.Prefix, i)}}
		d.beat.Fire = func() { d.handleEvent(beat{}) }
		f.edges, f.byName[d.edge.name] = append(f.edges, d), d
	}
	if f.check, err = newChecker(f); err != nil {
		return nil, err
	}
	f.metrics = newMetrics(f, o.Registry)
	f.schedule = newSchedule(o.Clock, f.metrics.wasLate)
	return f, nil
}

func (f *Fleet) runEdges(ctx context.Context, g *process.Group) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.fail = cancel
	f.ctx = func() context.Context { return ctx }
	if f.poller, err = link.NewPoller(ctx); err != nil {
		return err
	}
	defer f.poller.Close()
	if f.o.Transport == TransportQUIC {
		if f.quic, err = stream.NewDialer(net.IPv4(127, 0, 0, 1)); err != nil {
			return err
		}
		defer func() { _ = f.quic.Close() }() // ends its connections, which f.wait waits for
	}
	if f.hubs, err = f.findHubs(ctx); err != nil {
		return err
	}
	if err := g.Sync(ctx, f.check.informers()...); err != nil {
		return err
	}
	g.Go(func() { f.schedule.runDue(ctx) })
	for range f.o.Dialers {
		g.Go(func() { f.runDialer(ctx) })
	}
	f.began.Store(int64(f.clockNow()))
	gap := time.Duration(float64(time.Second) / f.o.JoinRate)
	for i, d := range f.edges {
		f.schedule.callAfter(time.Duration(i)*gap, func() { f.dialNow(d) })
	}
	f.o.Log.Info("fleet runs", "edges", len(f.edges), "hubs", len(f.hubs.list))
	f.o.Registry.Ready()
	<-ctx.Done()
	f.check.Log(f.o.Log)
	if err := context.Cause(ctx); errors.Is(err, errForeign) {
		return fmt.Errorf("edge-fleet: %w", err)
	}
	return nil
}

// isConnected counts an edge that has connected.
func (f *Fleet) isConnected() {
	if f.connected.Add(1) == int64(len(f.edges)) {
		f.allConnected.CompareAndSwap(0, int64(f.clockNow()))
	}
}

// untilConnected returns how long it took until all edges were connected for the first
// time, in seconds; 0: they are not yet.
func (f *Fleet) untilConnected() float64 {
	all := f.allConnected.Load()
	if all == 0 {
		return 0
	}
	return clock.Time(all).Sub(clock.Time(f.began.Load())).Seconds()
}

func (f *Fleet) isEnding() bool { return f.ctx().Err() != nil }

func (f *Fleet) clockNow() clock.Time { return f.o.Clock.Now() }
