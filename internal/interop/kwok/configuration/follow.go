package configuration

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/interop/kwok"
)

// Source says where Follow finds objects.
type Source struct {
	Client *wire.Client
	Clock  clock.Clock
	Kinds  []string     // those of --enable-crds
	Log    *slog.Logger // may be nil
}

// Timing of Follow.
const (
	gather       = 50 * time.Millisecond // changes that come so close together are told once
	askAgain     = 2 * time.Second       // after a kind was refused
	askAgainLast = time.Minute
)

// Follow keeps up with the custom resources of some kinds until ctx ends, whose
// error it then returns. changed gets all objects, those of a kind after its
// first list; it is called by one goroutine at a time. An object that is wrong
// is left out and logged, a kind that the cluster does not serve or refuses is
// logged and asked for again and again: it may be installed later.
func Follow(ctx context.Context, s Source, changed func(*Objects)) error {
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	m := &mirror{log: s.Log, dirty: make(chan struct{}, 1), objects: map[objectID]*kwok.File{}, faults: map[objectID]string{}}
	var wait guard.Group
	for _, name := range s.Kinds {
		k, known := kindOf(name)
		if !known {
			return kwok.Unknown("kind", name, kindNames())
		}
		wait.Go(func() { m.followKind(ctx, s, k) })
	}
	m.tellLater(ctx, changed)
	wait.Wait()
	return ctx.Err()
}

// objectID names an object.
type objectID struct{ kind, namespace, name string }

// mirror is what the cluster holds.
type mirror struct {
	log   *slog.Logger
	dirty chan struct{} // something changed

	mu      sync.Mutex
	objects map[objectID]*kwok.File
	faults  map[objectID]string // what was said about an object
}

// tellLater calls changed some time after each change.
func (m *mirror) tellLater(ctx context.Context, changed func(*Objects)) {
	for {
		select {
		case <-m.dirty:
		case <-ctx.Done():
			return
		}
		timer := time.NewTimer(gather)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		changed(m.buildObjects())
	}
}

func (m *mirror) noteChange() {
	select {
	case m.dirty <- struct{}{}:
	default:
	}
}

// buildObjects makes the objects anew, in the order of kinds and names.
func (m *mirror) buildObjects() *Objects {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := &Objects{}
	for _, id := range slices.SortedFunc(maps.Keys(m.objects), compareIDs) {
		f := m.objects[id]
		out.Stages = append(out.Stages, f.Stages...)
		for _, d := range f.Others {
			_, err := out.addDocument(d)
			m.logOnce(id, err)
		}
	}
	return out
}

func compareIDs(a, b objectID) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}

// logOnce logs what is wrong with an object, once.
func (m *mirror) logOnce(id objectID, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != m.faults[id] && text != "" {
		m.log.Warn("object left out", "kind", id.kind, "namespace", id.namespace, "name", id.name, "err", text)
	}
	if text == "" {
		delete(m.faults, id)
	} else {
		m.faults[id] = text
	}
}

func (m *mirror) followKind(ctx context.Context, s Source, k kind) {
	backoff, failed, said := wire.Backoff{First: askAgain, Last: askAgainLast}, 0, ""
	for {
		h := &handler{mirror: m, kind: k}
		err := watch.Follow(ctx, s.Client, watch.Options{Path: "/apis/" + APIVersion + "/" + k.resource, Clock: s.Clock, JSON: true, Refusals: 1}, h)
		if ctx.Err() != nil {
			return
		}
		if h.listed {
			failed = 0
			h.ListBegin(true, "")
			h.ListEnd() // nothing of this kind is left
		}
		if text := err.Error(); text != said {
			m.log.Warn("kind not served", "kind", k.name, "err", text)
			said = text
		}
		if clock.Sleep(ctx, backoff.Pause(failed)) != nil {
			return
		}
		failed++
	}
}

// handler takes the objects of one kind from a watch.
type handler struct {
	mirror  *mirror
	kind    kind
	listing watch.Relist[objectID]
	listed  bool
}

// ListBegin comes before a list.
func (h *handler) ListBegin(bool, string) { h.listing.Begin() }

// ListEnd comes after it.
func (h *handler) ListEnd() {
	h.mirror.mu.Lock()
	for _, id := range h.listing.End(maps.Keys(h.mirror.objects)) {
		if id.kind == h.kind.name {
			h.mirror.forgetLocked(id)
		}
	}
	h.mirror.mu.Unlock()
	h.listed = true
	h.mirror.noteChange()
}

// forgetLocked takes an object out; callers hold mu.
func (m *mirror) forgetLocked(id objectID) {
	delete(m.objects, id)
	delete(m.faults, id)
}

// Event gets one object.
func (h *handler) Event(e watch.Event) {
	about, err := object.ReadMetadata(e.Object)
	if err != nil {
		h.mirror.log.Warn("object not read", "kind", h.kind.name, "err", err)
		return
	}
	id := objectID{h.kind.name, about.Namespace, about.Name}
	h.mirror.applyEvent(id, e)
	h.listing.Add(id)
	if !h.listing.Underway() {
		h.mirror.noteChange()
	}
}

func (m *mirror) applyEvent(id objectID, e watch.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Kind == watch.Deleted {
		m.forgetLocked(id)
		return
	}
	f, err := kwok.LoadObject(id.String(), e.Object)
	m.logOnce(id, err)
	if err != nil {
		delete(m.objects, id)
		return
	}
	m.objects[id] = f
}

// String writes the object as faults name it.
func (id objectID) String() string {
	if id.namespace == "" {
		return fmt.Sprintf("%s %s", id.kind, id.name)
	}
	return fmt.Sprintf("%s %s/%s", id.kind, id.namespace, id.name)
}
