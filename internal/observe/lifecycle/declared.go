package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// lookAgain is how often it is asked whether a resource is served by now, and
// the longest time until a torn watch is tried again. What was made before it
// was seen is dated between two such questions.
const lookAgain = 250 * time.Millisecond

// Finder says where a resource is served; *discovery.Cache is one.
type Finder interface {
	Named(ctx context.Context, name string) (discovery.Resource, error)
	Kind(ctx context.Context, apiVersion, kind string) (discovery.Resource, error)
}

// Declared observes the lives that a scenario declares: for each of them and
// each of its links it follows one resource, in JSON. Of an object it keeps its
// UID and a set of bits, and its keys where there are links; conditions are
// evaluated until they have held once.
type Declared struct {
	records *record.Writer
	clock   clock.Clock
	all     []*kind
}

// Declare compiles lives, which are to be resolved (scenario.Observed). A
// pulse, which may be nil, tells events that were held up.
func Declare(records *record.Writer, c clock.Clock, p *Pulse, lives []scenario.Lifecycle) (*Declared, error) {
	d := &Declared{records: records, clock: c}
	for _, l := range lives {
		k, err := newKind(records, p, l)
		if err != nil {
			return nil, fmt.Errorf("life %s: %w", l.Name, err)
		}
		d.all = append(d.all, k)
	}
	return d, nil
}

// Run follows all objects until ctx ends. A resource that is not served yet is
// waited for; one that may not be watched is named in a warning, once, and
// tried again: its lives stay unknown.
func (d *Declared) Run(ctx context.Context, client *wire.Client, resources Finder) {
	var wait sync.WaitGroup
	for _, k := range d.all {
		sources := []*source{{kind: k, side: &k.own, of: k.life.Of, namespace: k.life.Namespace, selector: k.life.Selector}}
		for _, l := range k.links {
			sources = append(sources, &source{kind: k, side: l, of: l.Of, namespace: l.Namespace, selector: l.Selector})
		}
		for _, s := range sources {
			wait.Go(func() { d.follow(ctx, client, resources, s) })
		}
	}
	wait.Wait()
}

// Synced waits until the first lists of all resources that are served now were
// read: what is created from then on is seen being created. A resource that the
// plane does not serve, or refuses, is not waited for. Run is to be under way.
// The error is that of ctx.
func (d *Declared) Synced(ctx context.Context) error {
	for _, k := range d.all {
		for _, s := range k.sides() {
			missing := k.lookNow(s, d.clock.Now())
			select {
			case <-s.synced:
			case <-missing:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// source is one resource that is followed for a life.
type source struct {
	kind      *kind
	side      side
	of        string
	namespace string
	selector  string
	warned    bool
}

// side is what a watch of the objects themselves and one of those linked to
// them have in common. Its methods are called under the life's lock.
type side interface {
	eyes() *eyes
	event(e watch.Event, h *head)
	vanish(m moment) // ends those that a list did not show
}

// eyes are what a side sees with.
type eyes struct {
	sight
	look    chan struct{} // look at once whether the resource is served
	wanted  clock.Time    // an answer to a question of before is not meant
	missing chan struct{} // closed when the resource was found not to be served since
}

func newEyes(name string, p *Pulse) eyes {
	return eyes{sight: newSight(name, p), look: make(chan struct{}, 1), missing: make(chan struct{})}
}

// lookNow has a resource that was not seen yet looked for at once; what it
// returns is closed when it is not there.
func (k *kind) lookNow(e *eyes, now clock.Time) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	e.missing, e.wanted = make(chan struct{}), now
	select {
	case e.look <- struct{}{}:
	default:
	}
	return e.missing
}

// unseen says that a resource is not to be had by what was asked at a time.
func (e *eyes) unseen(asked clock.Time) {
	if asked < e.wanted {
		return
	}
	select {
	case <-e.missing:
	default:
		close(e.missing)
	}
}

// follow follows one resource until ctx ends.
func (d *Declared) follow(ctx context.Context, client *wire.Client, resources Finder, s *source) {
	for ctx.Err() == nil {
		asked := d.clock.Now()
		r, err := s.find(ctx, resources)
		if err == nil {
			err = watch.Follow(ctx, client, s.options(r, d.clock), sideHandler{s, d.clock})
		}
		if missing(err) {
			s.unseen(asked, true)
		} else {
			d.refused(ctx, s, err)
		}
		select {
		case <-time.After(lookAgain):
		case <-s.side.eyes().look:
		case <-ctx.Done():
		}
	}
}

// missing tells whether a resource is not served: by discovery, or by the
// server itself, as while a definition is new or the server was just started.
func missing(err error) bool {
	var status *wire.StatusError
	return errors.Is(err, discovery.ErrNotServed) || errors.As(err, &status) && status.Code == http.StatusNotFound
}

func (s *source) find(ctx context.Context, resources Finder) (discovery.Resource, error) {
	if apiVersion, kind, ok := scenario.ParseKind(s.of); ok {
		return resources.Kind(ctx, apiVersion, kind)
	}
	return resources.Named(ctx, s.of)
}

// refused says once why a resource may not be watched; nothing else ends a
// watch. A plane that has just been restarted may refuse for a moment.
func (d *Declared) refused(ctx context.Context, s *source, err error) {
	if ctx.Err() != nil {
		return
	}
	now := d.clock.Now()
	s.unseen(now, false)
	if !s.warned {
		s.warned = true
		d.records.Event(record.Event{At: now, Type: record.EventWarned, Text: fmt.Sprintf("life %s: %v", s.kind.life.Name, err)})
	}
}

// unseen notes that a resource was not to be had at a time; absent says that
// there were no such objects then.
func (s *source) unseen(at clock.Time, absent bool) {
	s.kind.mu.Lock()
	defer s.kind.mu.Unlock()
	e := s.side.eyes()
	if e.unseen(at); absent {
		e.absent = max(at, 1)
	}
}

func (s *source) options(r discovery.Resource, c clock.Clock) watch.Options {
	s.kind.mu.Lock()
	s.side.eyes().name = r.Name
	s.kind.mu.Unlock()
	o := watch.Options{Path: r.All(), Clock: c, JSON: true, Patience: lookAgain}
	if s.namespace != "" {
		o.Path = r.Collection(s.namespace)
	}
	if s.selector != "" {
		o.Selector = "labelSelector=" + url.QueryEscape(s.selector)
	}
	return o
}

// sideHandler is what the watch of a source calls, all from one goroutine.
type sideHandler struct {
	s *source
	c clock.Clock
}

func (h sideHandler) ListBegin(_ bool, why string) {
	k := h.s.kind
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := h.s.side.eyes(); e.listBegin() {
		k.records.Event(e.interrupted(h.c.Now(), why))
	}
}

func (h sideHandler) ListEnd() {
	h.s.kind.mu.Lock()
	defer h.s.kind.mu.Unlock()
	e := h.s.side.eyes()
	m := e.gap(h.c.Now())
	h.s.side.vanish(m)
	e.listEnd()
}

func (h sideHandler) Bookmark(at clock.Time, version uint64) {
	h.s.kind.mu.Lock()
	defer h.s.kind.mu.Unlock()
	h.s.side.eyes().bookmark(at, version)
}

func (h sideHandler) ListAsked(at clock.Time) {
	h.s.kind.mu.Lock()
	defer h.s.kind.mu.Unlock()
	h.s.side.eyes().asked = at
}

func (h sideHandler) Event(e watch.Event) {
	head, err := decodeHead(e.Object)
	if err != nil {
		return // a later event or list shows it again
	}
	h.s.kind.mu.Lock()
	defer h.s.kind.mu.Unlock()
	h.s.side.event(e, head)
}
