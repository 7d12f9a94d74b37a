package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
	"github.com/windtunnel/windtunnel/planes/app/internal/plan"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// listTrackers returns the trackers of an application, oldest generation first.
// Without the index it goes through all that there are.
func (c *Controller) listTrackers(app *api.Application) (out []*api.Tracker) {
	defer c.metrics.timeOwnRequest("ListCache", api.KindTracker)()
	var all []*api.Tracker
	if c.o.Features.IndexLists {
		all = slim.ByIndex[*api.Tracker](c.trackers, byApplication, app.Namespace+"/"+app.Name)
	} else {
		all = slim.All[*api.Tracker](c.trackers)
	}
	for _, t := range all {
		if t.Labels[api.LabelName] == app.Name && t.Labels[api.LabelNamespace] == app.Namespace && t.Labels[api.LabelUID] == string(app.UID) {
			out = append(out, t.Copy())
		}
	}
	c.metrics.trackers.WithLabelValues("application").Add(float64(len(all)))
	slices.SortFunc(out, func(a, b *api.Tracker) int { return int(a.Spec.ApplicationGeneration - b.Spec.ApplicationGeneration) })
	return out
}

// trackers are the resource trackers of the application of a pass.
type trackers struct {
	app     *application
	history []*api.Tracker // of earlier generations, or deleted; oldest first

	writing sync.Mutex // held while a tracker is written
	mu      sync.Mutex // components are delivered to several clusters at once
	current *api.Tracker
	reads   map[string]read
}

// read is one object as the only read of a pass found it.
type read struct {
	*answer // nil: there is none
	err     error
}

// findTrackers tells the tracker of this generation from those of earlier ones.
func findTrackers(app *application) *trackers {
	out := &trackers{app: app, reads: map[string]read{}}
	for _, t := range app.c.listTrackers(app.object) {
		if t.Spec.ApplicationGeneration == app.object.Generation && t.DeletionTimestamp == nil {
			out.current = t
		} else {
			out.history = append(out.history, t)
		}
	}
	return out
}

// allTrackers returns the trackers, the current one last.
func (t *trackers) allTrackers() []*api.Tracker {
	if t.current == nil {
		return t.history
	}
	return append(slices.Clip(t.history), t.current)
}

// newTracker returns the tracker of this generation, with nothing in it. Its finalizer
// keeps it until what it holds is gone; it has no owner, for the application may be
// gone before that.
func (t *trackers) newTracker(revision string) *api.Tracker {
	app := t.app.object
	out := &api.Tracker{TypeMeta: api.TypeOf(api.KindTracker), ObjectMeta: metav1.ObjectMeta{
		Name:       fmt.Sprintf("%s-v%d-%s", app.Name, app.Generation, app.Namespace),
		Finalizers: []string{api.FinalizerTracker},
		Labels: map[string]string{
			api.LabelName: app.Name, api.LabelNamespace: app.Namespace, api.LabelUID: string(app.UID), api.LabelRevision: revision,
		},
	}}
	if shard := app.Labels[api.LabelShard]; shard != "" {
		out.Labels[api.LabelShard] = shard
	}
	out.Spec = api.TrackerSpec{Type: api.TrackerVersioned, ApplicationGeneration: app.Generation}
	out.Spec.Compression.Type = t.app.c.o.Features.TrackerCompression
	return out
}

// trackManifests writes down what is about to be made, before it is made.
func (t *trackers) trackManifests(ctx context.Context, revision string, manifests []plan.Manifest) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	if t.current == nil {
		if err := t.createLocked(ctx, revision); err != nil {
			return fmt.Errorf("resource tracker: %w", err)
		}
	}
	if t.holdsManifests(manifests) {
		return nil
	}
	next := t.current.Copy()
	for _, m := range manifests {
		managed, err := m.Managed()
		if err != nil {
			return err
		}
		next.Spec.ManagedResources = slices.DeleteFunc(next.Spec.ManagedResources, func(old api.ManagedResource) bool { return old.Key() == managed.Key() })
		next.Spec.ManagedResources = append(next.Spec.ManagedResources, managed)
	}
	return t.updateLocked(ctx, next)
}

func (t *trackers) createLocked(ctx context.Context, revision string) error {
	c, want := t.app.c, t.newTracker(revision)
	within, done := c.requests.beginOwn(ctx, "Create", api.KindTracker)
	got, err := c.client.Trackers.Create(within, want)
	done()
	if apierrors.IsAlreadyExists(err) && c.adoptsMoved() {
		got, err = adoption{t.app}.adoptTracker(ctx, want.Name)
	}
	if err == nil {
		t.setCurrent(got)
		c.unseen.Wrote(t.app.key, api.KindTracker, "", got)
	}
	return err
}

func (t *trackers) updateLocked(ctx context.Context, next *api.Tracker) error {
	c := t.app.c
	ctx, done := c.requests.beginOwn(ctx, "Update", api.KindTracker)
	defer done()
	next.Spec.Compression.Type = c.o.Features.TrackerCompression
	got, err := c.client.Trackers.Update(ctx, next)
	if err != nil {
		return fmt.Errorf("resource tracker %s: %w", next.Name, err)
	}
	t.setCurrent(got)
	c.unseen.Wrote(t.app.key, api.KindTracker, next.ResourceVersion, got)
	return nil
}

// setCurrent notes the tracker of this generation as the server has it.
func (t *trackers) setCurrent(got *api.Tracker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current = got
}

// holdsManifests says whether the current tracker has manifests as they are.
func (t *trackers) holdsManifests(manifests []plan.Manifest) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current == nil {
		return false
	}
	for _, m := range manifests {
		managed, err := m.Managed()
		if err != nil || !slices.ContainsFunc(t.current.Spec.ManagedResources, func(old api.ManagedResource) bool {
			return old.Key() == managed.Key() && sameJSON(old.Raw, managed.Raw)
		}) {
			return false
		}
	}
	return true
}

// readObject reads an object that a tracker holds, once in a pass.
func (t *trackers) readObject(ctx context.Context, m api.ManagedResource) read {
	t.mu.Lock()
	r, ok := t.reads[m.Key()]
	t.mu.Unlock()
	if ok {
		return r
	}
	r.answer, r.err = t.app.c.objects.readObject(cluster.In(ctx, m.Cluster), referenceTo(m), nil)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reads[m.Key()] = r
	return r
}

func referenceTo(m api.ManagedResource) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(m.APIVersion)
	o.SetKind(m.Kind)
	o.SetNamespace(m.Namespace)
	o.SetName(m.Name)
	return o
}

// sameJSON compares two documents whatever the order of their keys.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
