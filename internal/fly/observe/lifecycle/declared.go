package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// retryInterval is how often it is asked whether a resource is served by now, and
// the longest time until an interrupted watch is tried again. What was made before it
// was seen is dated between two such questions.
const retryInterval = 250 * time.Millisecond

// Finder says where a resource is served; *discovery.Cache is one.
type Finder interface {
	Named(ctx context.Context, name string) (discovery.Resource, error)
	Kind(ctx context.Context, apiVersion, kind string) (discovery.Resource, error)
}

// Declared observes the lifecycles that a scenario declares: for each of them and
// each of its links it follows one resource, in JSON. Of an object it keeps its
// UID and a set of bits, and its keys where there are links; conditions are
// evaluated until they have held once.
type Declared struct {
	records *record.Writer
	clock   clock.Clock
	all     []*tracker
}

// Declare compiles lifecycles, which are to be resolved (scenario.Observed). A
// probe, which may be nil, tells events that were held up.
func Declare(records *record.Writer, c clock.Clock, p *Probe, all []scenario.Lifecycle) (*Declared, error) {
	d := &Declared{records: records, clock: c}
	for _, l := range all {
		t, err := newTracker(records, p, l)
		if err != nil {
			return nil, fmt.Errorf("lifecycle %s: %w", l.Name, err)
		}
		d.all = append(d.all, t)
	}
	return d, nil
}

// In returns what observes some of the lifecycles in another cluster: a member. Its
// objects carry the cluster's name; what conditions compile to is shared, so that a
// thousand members do not compile them a thousand times. A probe is of one cluster.
func (d *Declared) In(cluster string, p *Probe, observed func(scenario.Lifecycle) bool) *Declared {
	out := &Declared{records: d.records, clock: d.clock}
	for _, t := range d.all {
		if observed(t.lifecycle) {
			out.all = append(out.all, t.trackerFor(cluster, p))
		}
	}
	return out
}

// Run follows all objects until ctx ends. A resource that is not served yet is
// waited for; one that may not be watched is named in a warning, once, and
// tried again: its lifecycles stay unknown.
func (d *Declared) Run(ctx context.Context, client *wire.Client, resources Finder) {
	var wait guard.Group
	for _, t := range d.all {
		sources := []*source{{tracker: t, side: &t.own, of: t.lifecycle.Of, namespace: t.lifecycle.Namespace, selector: t.lifecycle.Selector}}
		for _, l := range t.links {
			sources = append(sources, &source{tracker: t, side: l, of: l.Of, namespace: l.Namespace, selector: l.Selector})
		}
		for _, s := range sources {
			wait.Go(func() { d.followSource(ctx, client, resources, s) })
		}
	}
	wait.Wait()
}

// Unseen returns the lifecycles of which no object was seen, neither here nor in another
// cluster, and of which nothing else was told.
func (d *Declared) Unseen() (out []scenario.Lifecycle) {
	for _, t := range d.all {
		if !t.fate.seen.Load() && !t.fate.told.Load() {
			out = append(out, t.lifecycle)
		}
	}
	return out
}

// Synced waits until the first lists of all resources that are served now were
// read: what is created from then on is seen being created. A resource that the
// plane does not serve, or refuses, is not waited for. Run is to be under way.
// The error is that of ctx.
func (d *Declared) Synced(ctx context.Context) error {
	for _, t := range d.all {
		for _, s := range t.followedResources() {
			missing := t.recheckNow(s, d.clock.Now())
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

// source is one resource that is followed for a lifecycle.
type source struct {
	tracker   *tracker
	side      side
	of        string
	namespace string
	selector  string
	warned    bool
}

// side is what a watch of the objects themselves and one of those linked to
// them have in common. Its methods are called under the tracker's lock.
type side interface {
	resource() *resourceState
	takeEvent(e watch.Event, h *head)
	endUnlisted(m bounded) // ends those that a list did not show
}

// resourceState is what is known of the resource that a side watches.
type resourceState struct {
	watchState
	recheck chan struct{} // look at once whether the resource is served
	wanted  clock.Time    // an answer to a question of before is not meant
	missing chan struct{} // closed when the resource was found not to be served since
}

func newResourceState(name, cluster string, p *Probe) resourceState {
	return resourceState{watchState: newWatchState(name, cluster, p), recheck: make(chan struct{}, 1), missing: make(chan struct{})}
}

// recheckNow has a resource that was not seen yet looked for at once; what it
// returns is closed when it is not there.
func (t *tracker) recheckNow(e *resourceState, now clock.Time) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.missing, e.wanted = make(chan struct{}), now
	select {
	case e.recheck <- struct{}{}:
	default:
	}
	return e.missing
}

// notServed says that a resource is not to be had by what was asked at a time.
func (e *resourceState) notServed(requestedAt clock.Time) {
	if requestedAt < e.wanted {
		return
	}
	select {
	case <-e.missing:
	default:
		close(e.missing)
	}
}

// followSource follows one resource until ctx ends.
func (d *Declared) followSource(ctx context.Context, client *wire.Client, resources Finder, s *source) {
	for ctx.Err() == nil {
		requestedAt := d.clock.Now()
		r, err := s.findResource(ctx, resources)
		if err == nil {
			err = watch.Follow(ctx, client, s.watchOptions(r, d.clock), sideHandler{s, d.clock})
		}
		if isNotServed(err) {
			s.notServed(requestedAt, true)
		} else {
			d.warnRefused(ctx, s, err)
		}
		select {
		case <-time.After(retryInterval):
		case <-s.side.resource().recheck:
		case <-ctx.Done():
		}
	}
	s.reportUnserved(d)
}

// reportUnserved says at the end that nobody ever served a resource: its lifecycle was
// requested and is not measured.
func (s *source) reportUnserved(d *Declared) {
	s.tracker.mu.Lock()
	e := s.side.resource()
	asked := e.absent > 0
	s.tracker.mu.Unlock()
	select {
	case <-e.synced:
	default:
		if asked && !s.warned {
			s.tracker.fate.told.Store(true)
			d.records.Event(record.Unmet(d.clock.Now(), "lifecycle "+s.tracker.displayName(), record.NotMeasured, "nobody served "+s.of))
		}
	}
}

// isNotServed tells whether a resource is not served: by discovery, or by the
// server itself, as while a definition is new or the server was just started.
func isNotServed(err error) bool {
	var status *wire.StatusError
	return errors.Is(err, discovery.ErrNotServed) || errors.As(err, &status) && status.Code == http.StatusNotFound
}

func (s *source) findResource(ctx context.Context, resources Finder) (discovery.Resource, error) {
	if apiVersion, kind, ok := scenario.ParseKind(s.of); ok {
		return resources.Kind(ctx, apiVersion, kind)
	}
	return resources.Named(ctx, s.of)
}

// warnRefused says once why a resource may not be watched; nothing else ends a
// watch. A plane that has just been restarted may refuse for a moment.
func (d *Declared) warnRefused(ctx context.Context, s *source, err error) {
	if ctx.Err() != nil {
		return
	}
	now := d.clock.Now()
	s.notServed(now, false)
	if !s.warned {
		s.warned = true
		s.tracker.fate.told.Store(true)
		d.records.Event(record.Unmet(now, "lifecycle "+s.tracker.displayName(), record.NotMeasured, err.Error()))
	}
}

// notServed notes that a resource was not to be had at a time; absent says that
// there were no such objects then.
func (s *source) notServed(at clock.Time, absent bool) {
	s.tracker.mu.Lock()
	defer s.tracker.mu.Unlock()
	e := s.side.resource()
	if e.notServed(at); absent {
		e.absent = max(at, 1)
	}
}

func (s *source) watchOptions(r discovery.Resource, c clock.Clock) watch.Options {
	s.tracker.mu.Lock()
	s.side.resource().name = r.Name
	s.tracker.mu.Unlock()
	o := watch.Options{Path: r.All(), Clock: c, JSON: true, Patience: retryInterval, Refusals: 1}
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
	t := h.s.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := h.s.side.resource(); e.listBegin() {
		t.records.Event(e.gapEvent(h.c.Now(), why))
	}
}

func (h sideHandler) ListEnd() {
	h.s.tracker.mu.Lock()
	defer h.s.tracker.mu.Unlock()
	e := h.s.side.resource()
	m := e.dateListed(h.c.Now())
	h.s.side.endUnlisted(m)
	e.listEnd()
}

func (h sideHandler) Bookmark(at clock.Time, version uint64) {
	h.s.tracker.mu.Lock()
	defer h.s.tracker.mu.Unlock()
	h.s.side.resource().noteBookmark(at, version)
}

func (h sideHandler) ListAsked(at clock.Time) {
	h.s.tracker.mu.Lock()
	defer h.s.tracker.mu.Unlock()
	h.s.side.resource().requestedAt = at
}

func (h sideHandler) Event(e watch.Event) {
	head, err := decodeHead(e.Object)
	if err != nil {
		return // a later event or list shows it again
	}
	h.s.tracker.mu.Lock()
	defer h.s.tracker.mu.Unlock()
	h.s.side.takeEvent(e, head)
}
