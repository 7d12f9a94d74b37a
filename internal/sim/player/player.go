// Package player plays compiled stages on the objects of one resource, whatever
// it is: it watches them as JSON, keeps the delays, and carries out what each
// step asks for, in order, again where the server could not take it.
//
// It is the general way. Package fleet serves nodes, leases and the usual stages
// of pods on a typed one that costs a fraction of it, and starts players for
// the rest. A player remembers an object only while a stage waits for it.
package player

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sim/engine"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
	"github.com/windtunnel/windtunnel/internal/sim/stage/render"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// Object is a decoded object, as machine.Decode makes it.
type Object = map[string]any

// Options say what to play, on what.
type Options struct {
	Client    *wire.Client
	Served    *discovery.Cache
	Records   *record.Writer // may be nil
	Cluster   string         // the member that it plays in, for the records
	Clock     clock.Clock
	Log       *slog.Logger // may be nil
	Seed      uint64
	Resource  machine.Resource
	Stages    machine.Stages
	Selector  string                                  // more of the watch's query: labelSelector=... escaped
	Mine      func(Object) bool                       // whether an object is to be played; nil: all are
	Stamp     object.Stamp                            // of what stages make; zero: none
	Own       func(Object) bool                       // whether a stage may apply something to an object that is there; nil: to all
	Functions func(Object) map[string]render.Function // of templates: NodeIP, PodIP ...; may be nil
	Deleted   func(uid string)                        // told when an object was deleted; may be nil
	Slower    func(Object) time.Duration              // how much later its stages are due; may be nil
	Held      func(Object) bool                       // its stages wait, such as those of a silent node's; may be nil
	Observed  func(Object)                            // told of each object that is played, at its events; may be nil
	Changed   func(Object)                            // told what a patch of a stage has made of the object; may be nil
	Version   string                                  // of the program, for templates
	Workers   int                                     // calls at once, default 64
}

// Bounds of a player.
const (
	defaultWorkers = 64
	maxDue         = 4096 // stages that are due and wait for a worker, before the watch is held back
	callTimeout    = 30 * time.Second
	maxPlays       = 50 // times that a stage plays on an object within loopTime before it is taken for a loop
	loopTime       = 10 * time.Second
	parkAfter      = time.Minute // an object whose stage is due later is not kept but read again
	holdTime       = time.Second // how often a held object is looked at again
)

// Player plays stages. Close it after use.
type Player struct {
	options Options
	served  discovery.Resource
	cancel  context.CancelFunc
	wait    guard.Group
	notes   chan note     // from the watch
	jobs    chan *job     // to the workers
	results chan result   // from the workers
	relists chan struct{} // asked for
	listed  chan struct{} // closed when the first list was taken
	ops     map[opKey]record.OpID
	opsMu   sync.Mutex
	warned  sync.Map // keys of warnings

	mu      sync.Mutex // guards what follows
	stats   Stats
	done    stats.Recent      // stage done - stage due
	sent    stats.Recent      // request sent - stage due
	entries map[string]*entry // by namespace/name; the loop's own, besides
	calls   engine.Engine[job]
	relist  watch.Relist[string] // by key
	rng     *rand.Rand
}

// Stats is a player's state at a moment.
type Stats struct {
	Objects  int // that a stage waits for or plays on
	Events   int // taken
	Waiting  int // delays and retries
	Due      int // wait for a worker
	Playing  int
	Played   int // stages played to their end
	Retries  int
	Dropped  int // effects given up: the server will not have them
	Faults   int // objects left alone because a template, an expression or the object itself is at fault
	Loops    int // objects left alone because a stage played on them again and again
	Relists  int
	StageLag time.Duration // p99 of the last seconds: stage done - stage due
	SendLag  time.Duration // the fleet's own part of it: first request sent - stage due
}

// entry is an object that a stage waits for or plays on.
type entry struct {
	engine.Object[job]
	key, uid string
	stage    *machine.Stage // the last one that was chosen
	plays    int            // of the same stage, since loopFrom
	loopFrom clock.Time
	seen     uint64 // version of the last event
	deaf     bool   // left alone until it is deleted
}

// job is a stage that was chosen for an object.
type job struct {
	engine.Call[job]
	entry *entry
	stage *machine.Stage
	raw   []byte // the object that the stage was chosen for; nil when it is to be read then
	step  int    // where to go on after a retry
}

// note is what the watch says of an object.
type note struct {
	kind    watch.Kind
	at      clock.Time
	key     string
	uid     string
	version uint64
	raw     []byte
	choice  machine.Choice
	err     error // of an expression
	list    listMark
}

// listMark is what a note that is not of an object says of a list.
type listMark uint8

const (
	listBegins listMark = iota + 1
	listEnds
)

// Start begins to play. The error says that the resource is not served or may
// not be listed; it is nil once the first list was taken.
func Start(ctx context.Context, o Options) (*Player, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Workers <= 0 {
		o.Workers = defaultWorkers
	}
	served, err := o.Served.Kind(ctx, o.Resource.APIVersion, o.Resource.Kind)
	if err != nil {
		return nil, fmt.Errorf("play stages: %w", err)
	}
	p := newPlayer(o, served)
	ctx, p.cancel = context.WithCancel(ctx)
	followed := make(chan error, 1)
	p.wait.Go(func() { followed <- p.followResource(ctx) })
	p.startWorkers(ctx)
	select {
	case <-p.listed:
		p.wait.Go(func() { p.noteWatchEnd(ctx, <-followed) })
		return p, nil
	case err = <-followed:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.Close()
	return nil, fmt.Errorf("play stages on %s: %w", served.Name, err)
}

func newPlayer(o Options, served discovery.Resource) *Player {
	p := &Player{
		options: o, served: served, notes: make(chan note, 256), jobs: make(chan *job, o.Workers), results: make(chan result, o.Workers),
		listed: make(chan struct{}), relists: make(chan struct{}, 1), ops: map[opKey]record.OpID{}, entries: map[string]*entry{},
		rng: rand.New(rand.NewPCG(o.Seed, 0x706c6179)),
	}
	p.calls = engine.Engine[job]{
		Classes: make([]engine.Class[job], 1), Max: o.Workers,
		Backoff: func(attempt int) time.Duration { return wire.CallBackoff().Jittered(attempt, p.rng.Float64()) },
	}
	p.calls.Start(o.Clock.Now())
	return p
}

// startWorkers starts the loop, and those who play what it gives out.
func (p *Player) startWorkers(ctx context.Context) {
	p.wait.Go(func() { p.loop(ctx) })
	for i := range p.options.Workers {
		p.wait.Go(func() { p.runWorker(ctx, rand.New(rand.NewPCG(p.options.Seed, uint64(i)))) })
	}
}

// noteWatchEnd says that a watch came to an end that was not asked for.
func (p *Player) noteWatchEnd(ctx context.Context, err error) {
	if ctx.Err() == nil && err != nil {
		p.warnOnce("watch", err.Error())
	}
}

// Close stops everything and waits for it. It is idempotent.
func (p *Player) Close() {
	p.cancel()
	p.wait.Wait()
}

// Resource returns what is played on.
func (p *Player) Resource() discovery.Resource { return p.served }

// Stats returns the player's state.
func (p *Player) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := time.Duration(p.options.Clock.Now())
	s := p.stats
	s.Objects, s.Waiting, s.Due, s.Playing = len(p.entries), p.calls.Len(), p.calls.Queued(), p.calls.UnderWay()
	s.StageLag, s.SendLag = p.done.Quantile(at, 0.99), p.sent.Quantile(at, 0.99)
	return s
}

// Relist lets the resource be listed anew, for objects that were not Mine when
// they came and are now.
func (p *Player) Relist() {
	select {
	case p.relists <- struct{}{}:
	default:
	}
}

// followResource watches the resource until ctx ends.
func (p *Player) followResource(ctx context.Context) error {
	for {
		once, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		guard.Go(func() { ended <- p.followOnce(once) })
		select {
		case err := <-ended:
			cancel()
			return err
		case <-p.relists:
			cancel()
			<-ended
		}
	}
}

func (p *Player) followOnce(ctx context.Context) error {
	o := watch.Options{Path: p.served.All(), Selector: p.options.Selector, Clock: p.options.Clock, JSON: true}
	err := watch.Follow(ctx, p.options.Client, o, &reader{player: p, ctx: ctx.Done(), rng: rand.New(rand.NewPCG(p.options.Seed, 0x6e6f7465))})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// warnOnce says once for each key what a stage asked for and was not done.
func (p *Player) warnOnce(key, text string) {
	if _, said := p.warned.LoadOrStore(key, true); said {
		return
	}
	p.options.Log.Warn("fleet", "what", text)
	if p.options.Records != nil {
		p.options.Records.Event(record.Unmet(p.options.Clock.Now(), "the work of the fleet", record.NotDone, text))
	}
}

// Version reads an object's resourceVersion; 0 when it is no number.
func Version(object Object) uint64 {
	meta, _ := object["metadata"].(map[string]any)
	text, _ := meta["resourceVersion"].(string)
	n, _ := strconv.ParseUint(text, 10, 64)
	return n
}

// metadataText returns a field of an object's metadata.
func metadataText(object Object, field string) string {
	meta, _ := object["metadata"].(map[string]any)
	s, _ := meta[field].(string)
	return s
}
