package controller

import (
	"context"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
)

// drift finds by watching which objects are not as a pass has last found them. Only
// these are read again: an application at rest costs no request, and what somebody
// changes is put right at once. KubeVela reads everything in every pass.
//
// It watches metadata alone, and remembers of an object three numbers; its methods
// may be called at any time, those of a nil drift do nothing.
type drift struct {
	client  metadata.Interface
	now     func() clock.Time
	every   time.Duration // the bound on wakes is for so long
	enqueue func(key string)
	seed    maphash.Seed

	mu     sync.Mutex
	begin  func(kind schema.GroupVersionResource, hash uint64) // begins a watch; nil before start
	kinds  map[uint64]*source                                  // by hash of their resource
	states map[object]*state
	held   map[string][]object // by NAMESPACE/NAME of the application
}

// source is the watch of one kind. While it has not said what there is, or cannot
// be opened, objects of the kind are read as if there were none.
type source struct{ listed, open bool }

// object stands for one: hashes of its resource, and of its namespace and name.
type object struct{ kind, name uint64 }

// state is what is known of one object.
type state struct {
	key        string // of the application that holds it
	asRendered uint64 // fingerprint of it when a pass found nothing to change; 0: not found so
	rendered   uint64 // hash of what it was rendered as then
	seen       uint64 // fingerprint by the watch's last event; 0: none yet
	since      clock.Time
	wakes      int // since then
}

// maxWakes is how many passes the changes of one object bring about in a re-sync
// period. An object that is changed all the time, and needs nothing done, is left
// to the re-sync like those of the original.
const maxWakes = 3

func newDrift(config *rest.Config, o Options, enqueue func(string)) (*drift, error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("app-controller: %w", err)
	}
	return &drift{
		client: client, now: o.Clock.Now, every: o.Resync, enqueue: enqueue, seed: maphash.MakeSeed(),
		kinds: map[uint64]*source{}, states: map[object]*state{}, held: map[string][]object{},
	}, nil
}

// startWatches lets watches begin, which end with ctx; the caller waits on wait, and whoever
// calls follow is among those that it waits for.
func (d *drift) startWatches(ctx context.Context, wait *sync.WaitGroup) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begin = func(kind schema.GroupVersionResource, hash uint64) {
		wait.Go(func() { d.watchKind(ctx, kind, hash) })
	}
}

// isUnchanged says whether an object is known to be as it was when a pass found
// nothing to change, and is to be rendered as it was then.
func (d *drift) isUnchanged(key string, kind schema.GroupVersionResource, m api.ManagedResource) bool {
	if d == nil {
		return false
	}
	o, rendered := d.objectOf(kind, m), maphash.Bytes(d.seed, m.Raw)
	d.mu.Lock()
	defer d.mu.Unlock()
	if source := d.kinds[o.kind]; source == nil || !source.listed || !source.open {
		return false
	}
	s := d.states[o]
	return s != nil && s.key == key && s.asRendered != 0 && s.rendered == rendered && (s.seen == 0 || s.seen == s.asRendered)
}

// followObject lets events of an object count, before it is read: what is changed after
// that read comes as an event.
func (d *drift) followObject(key string, kind schema.GroupVersionResource, m api.ManagedResource) {
	if d == nil {
		return
	}
	o := d.objectOf(kind, m)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.kinds[o.kind] == nil && d.begin != nil {
		d.kinds[o.kind] = &source{}
		d.begin(kind, o.kind)
	}
	if s := d.states[o]; s == nil || s.key != key {
		d.states[o] = &state{key: key, since: d.now()}
		d.held[key] = append(d.held[key], o)
	}
}

// markUnchanged notes that a pass has read an object and found nothing to change.
func (d *drift) markUnchanged(key string, kind schema.GroupVersionResource, m api.ManagedResource, is metav1.Object) {
	if d == nil {
		return
	}
	fingerprint, rendered := d.fingerprintOf(is), maphash.Bytes(d.seed, m.Raw)
	d.setFound(key, kind, m, func(s *state) { s.asRendered, s.rendered = fingerprint, rendered })
}

// markChanged notes that a pass has changed an object. The event of that brings about
// the pass that finds nothing more to change.
func (d *drift) markChanged(key string, kind schema.GroupVersionResource, m api.ManagedResource) {
	d.setFound(key, kind, m, func(s *state) { s.asRendered, s.wakes = 0, 0 }) // it was worth while to look
}

func (d *drift) setFound(key string, kind schema.GroupVersionResource, m api.ManagedResource, note func(*state)) {
	if d == nil {
		return
	}
	o := d.objectOf(kind, m)
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.states[o]; s != nil && s.key == key {
		note(s)
	}
}

// retainObjects forgets what an application does not hold any more.
func (d *drift) retainObjects(key string, held []api.ManagedResource) {
	if d == nil {
		return
	}
	names := map[uint64]bool{}
	for _, m := range held {
		names[d.hashParts(m.Namespace, m.Name)] = true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	rest := slices.DeleteFunc(d.held[key], func(o object) bool {
		if names[o.name] {
			return false
		}
		if s := d.states[o]; s != nil && s.key == key {
			delete(d.states, o)
		}
		return true
	})
	if d.held[key] = rest; len(rest) == 0 {
		delete(d.held, key)
	}
}

// forgetApplication drops an application.
func (d *drift) forgetApplication(key string) { d.retainObjects(key, nil) }

func (d *drift) objectOf(kind schema.GroupVersionResource, m api.ManagedResource) object {
	return object{d.hashParts(kind.String()), d.hashParts(m.Namespace, m.Name)}
}

// watchKind hears of the objects of one kind that are of any application, until ctx ends.
func (d *drift) watchKind(ctx context.Context, kind schema.GroupVersionResource, hash uint64) {
	r := d.client.Resource(kind)
	opened := func(err error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.kinds[hash].open = err == nil
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = api.LabelName
			return r.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = api.LabelName
			w, err := r.Watch(ctx, o)
			opened(err)
			return w, err
		},
	}
	cache.NewReflectorWithOptions(lw, &metav1.PartialObjectMetadata{}, driftOf{d, hash}, cache.ReflectorOptions{
		Name: "drift of " + kind.Resource, TypeDescription: kind.String(),
	}).RunWithContext(ctx)
}

// driftOf takes the events of one kind; it stores nothing that nobody follows.
type driftOf struct {
	d    *drift
	kind uint64
}

// Add takes a new object.
func (k driftOf) Add(o any) error { return k.onEvent(o, false) }

// Update takes a changed object.
func (k driftOf) Update(o any) error { return k.onEvent(o, false) }

// Delete takes an object that is gone, or that has lost the label.
func (k driftOf) Delete(o any) error { return k.onEvent(o, true) }

// Resync does nothing: there is no period.
func (k driftOf) Resync() error { return nil }

// Replace takes all objects that there are: those that are followed and are not
// among them are gone.
func (k driftOf) Replace(all []any, _ string) error {
	there := map[object]bool{}
	for _, o := range all {
		m, err := meta.Accessor(o)
		if err != nil {
			return err
		}
		there[object{k.kind, k.d.hashParts(m.GetNamespace(), m.GetName())}] = true
		k.d.onEvent(k.kind, m, false)
	}
	k.d.mu.Lock()
	defer k.d.mu.Unlock()
	for o, s := range k.d.states {
		if o.kind == k.kind && !there[o] {
			k.d.noteLocked(s, gone)
		}
	}
	k.d.kinds[k.kind].listed = true
	return nil
}

func (k driftOf) onEvent(o any, deleted bool) error {
	m, err := meta.Accessor(o)
	if err != nil {
		return err
	}
	k.d.onEvent(k.kind, m, deleted)
	return nil
}

// gone is the fingerprint of an object that is not there.
const gone = 1

func (d *drift) onEvent(kind uint64, m metav1.Object, deleted bool) {
	fingerprint, o := uint64(gone), object{kind, d.hashParts(m.GetNamespace(), m.GetName())}
	if !deleted {
		fingerprint = d.fingerprintOf(m)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.states[o]; s != nil {
		d.noteLocked(s, fingerprint)
	}
}

// noteLocked takes the fingerprint of an object, and has a pass look after it where that is
// another than it should have.
func (d *drift) noteLocked(s *state, fingerprint uint64) {
	if s.seen == fingerprint {
		return
	}
	s.seen = fingerprint
	if fingerprint == s.asRendered {
		return
	}
	if now := d.now(); now.Sub(s.since) >= d.every {
		s.since, s.wakes = now, 0
	}
	if s.wakes < maxWakes {
		s.wakes++
		d.enqueue(s.key)
	}
}

// fingerprintOf returns a hash of what the metadata of an object tells of its content. What
// has a generation changes it with its specification, not with its status; what has
// none is another with each version.
func (d *drift) fingerprintOf(m metav1.Object) uint64 {
	version := m.GetResourceVersion()
	if g := m.GetGeneration(); g != 0 {
		version = "g" + strconv.FormatInt(g, 10)
	}
	var h maphash.Hash
	h.SetSeed(d.seed)
	writeParts(&h, string(m.GetUID()), version, strconv.FormatBool(m.GetDeletionTimestamp() != nil))
	for _, pairs := range []map[string]string{m.GetLabels(), m.GetAnnotations()} {
		writeParts(&h, strconv.Itoa(len(pairs)))
		for _, k := range slices.Sorted(maps.Keys(pairs)) {
			writeParts(&h, k, pairs[k])
		}
	}
	return max(h.Sum64(), 2) // 0 and 1 mean something else
}

func (d *drift) hashParts(of ...string) uint64 {
	var h maphash.Hash
	h.SetSeed(d.seed)
	writeParts(&h, of...)
	return h.Sum64()
}

// writeParts writes strings so that no two lists of them look alike.
func writeParts(h io.StringWriter, of ...string) {
	for _, s := range of {
		_, _ = h.WriteString(strconv.Itoa(len(s))) // a hash takes everything
		_, _ = h.WriteString(":")
		_, _ = h.WriteString(s)
	}
}
