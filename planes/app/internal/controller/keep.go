package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
)

// keepState brings every object of the current tracker back to what was rendered, and
// reports what was put right and what hinders that.
func (t *trackers) keepState(ctx context.Context, applyOnce bool) error {
	var done repairs
	err := t.keepObjects(done.withRepairs(ctx), applyOnce)
	if what := done.describeRepairs(); what != "" {
		t.app.recordEvent(corev1.EventTypeWarning, "Repaired", "put right: "+what) // passes use up what is sent of normal ones
		t.app.c.o.Log.Info("drift is repaired", "application", t.app.key, "objects", what)
	}
	t.app.setResult("StateKeep", "FailedStateKeep", err)
	return err
}

func (t *trackers) keepObjects(ctx context.Context, applyOnce bool) error {
	c := t.app.c
	defer c.metrics.timeStage("state-keep")()
	if t.current == nil || applyOnce {
		return nil
	}
	held := t.current.Spec.ManagedResources
	c.drift.retainObjects(t.app.key, held)
	if !c.o.Features.RetryKeep && c.o.MaxDispatch > 1 { // KubeVela goes through a map: what is wrong with several objects reads differently each time
		held = slices.Clone(held)
		c.rng.shuffle(len(held), func(i, k int) { held[i], held[k] = held[k], held[i] })
	}
	return runParallel(len(held), c.o.MaxDispatch, func(i int) error { return t.keepObject(ctx, held[i]) })
}

func (t *trackers) keepObject(ctx context.Context, m api.ManagedResource) error {
	c, key := t.app.c, t.app.key
	drift, kind := c.drift, schema.GroupVersionResource{}
	if m.Cluster != "" {
		drift = nil // members are not watched
	}
	if drift != nil {
		mapping, err := c.objects.mappingOf(schema.FromAPIVersionAndKind(m.APIVersion, m.Kind))
		if err != nil {
			return fmt.Errorf("%s %s: %w", m.Kind, m.Name, err)
		}
		kind = mapping.Resource
	}
	if drift.isUnchanged(key, kind, m) {
		return nil
	}
	drift.followObject(key, kind, m)
	r := t.readObject(ctx, m)
	if r.err != nil {
		return r.err
	}
	want := &unstructured.Unstructured{}
	if err := want.UnmarshalJSON(m.Raw); err != nil {
		return fmt.Errorf("%s %s as it was rendered: %w", m.Kind, m.Name, err)
	}
	same, err := c.objects.applyOver(cluster.In(ctx, m.Cluster), r.answer, want, false)
	if err != nil {
		return err
	}
	if same == nil {
		drift.markChanged(key, kind, m)
	} else {
		drift.markUnchanged(key, kind, m, same.object)
	}
	return nil
}

// repairs are what was found to be other than it was rendered, and was put right, while
// an application was kept.
type repairs struct {
	mu  sync.Mutex
	all []string
}

type repairsKey struct{}

// withRepairs returns a context whose requests on objects note here what they put right.
func (r *repairs) withRepairs(ctx context.Context) context.Context {
	return context.WithValue(ctx, repairsKey{}, r)
}

// repairsOf returns what a context's requests note repairs in; nil while objects are
// published, for then they are meant to change.
func repairsOf(ctx context.Context) *repairs {
	r, _ := ctx.Value(repairsKey{}).(*repairs)
	return r
}

// addRepair notes one object, unless nothing was repaired; a nil repairs notes nothing.
func (r *repairs) addRepair(ctx context.Context, o *unstructured.Unstructured, what string) {
	if r == nil || what == "" {
		return
	}
	where := ""
	if name := cluster.Of(ctx); name != "" {
		where = " in cluster " + name
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, fmt.Sprintf("%s %s%s %s", o.GetKind(), o.GetName(), where, what))
}

// describeRepairs names the first of them; it is empty where there were none.
func (r *repairs) describeRepairs() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.all)
	return fewWords(r.all)
}

// isDrift says whether a patch puts something right. That of a Secret with stringData,
// which no read returns, is never empty: it does where data is not what the server
// makes of that.
func isDrift(is, want *unstructured.Unstructured, patch []byte) bool {
	if string(patch) == "{}" {
		return false
	}
	plain, found, err := unstructured.NestedStringMap(want.Object, "stringData")
	if !found || err != nil {
		return true
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(patch, &fields) != nil || len(fields) > 1 {
		return true
	}
	data, _, err := unstructured.NestedStringMap(is.Object, "data")
	if err != nil {
		return true
	}
	for k, v := range plain {
		if data[k] != encodeBase64(v) {
			return true
		}
	}
	return false
}
