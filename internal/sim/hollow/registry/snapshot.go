package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/codec"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// State is what a registry stored at some time, by table.
type State map[string][]*store.Object

// Copy returns what the registry stores now. Tables are copied one after another.
func (r *Registry) Copy() State {
	out := State{}
	for _, t := range r.store.Tables() {
		if found, err := t.List(store.Query{}); err == nil { // the present is never compacted
			out[t.Name] = found.Objects
		}
	}
	return out
}

// Restore stores again what there was. Versions go on, as after a restored snapshot of
// etcd whose revision was bumped: watches see what changes. Definitions of custom
// resources come first.
func (r *Registry) Restore(then State, now time.Time) (out []Task) {
	const definitions = "customresourcedefinitions.apiextensions.k8s.io"
	out = r.restoreTable(r.store.Table(definitions), then[definitions], now)
	for _, t := range r.store.Tables() {
		if t.Name != definitions {
			out = append(out, r.restoreTable(t, then[t.Name], now)...)
		}
	}
	return out
}

func (r *Registry) restoreTable(t *store.Table, then []*store.Object, now time.Time) (out []Task) {
	k := r.Kinds().OfTable(t.Name)
	if k == nil {
		return nil
	}
	stays := make(map[string]bool, len(then))
	for _, o := range then {
		stays[o.Key] = true
		if current := t.Get(o.Key); current == nil || current.Version != o.Version {
			out = append(out, r.restoreObject(k, current, o, now)...)
		}
	}
	found, err := t.List(store.Query{})
	if err != nil {
		return out
	}
	for _, o := range found.Objects {
		if stays[o.Key] {
			continue
		}
		last, err := k.Decode(o.Raw)
		if err != nil {
			continue
		}
		if _, err := t.Remove(o, Encoder(k, last)); err == nil {
			out = append(out, r.afterRemoval(k, last)...)
		}
	}
	return out
}

// restoreObject stores an older state of an object in place of the current one; nil: the
// object does not exist.
func (r *Registry) restoreObject(k *kind.Kind, current, then *store.Object, now time.Time) []Task {
	o, err := k.Decode(then.Raw)
	if err != nil {
		return nil
	}
	if _, err := r.Table(k).Put(then.Key, current, Encoder(k, o)); err != nil {
		return nil
	}
	return r.afterWrite(k, o, now)
}

// Load stores an object as it stands: with its status, and with its uid and its times
// where it has them. An object of the same name is replaced.
func (r *Registry) Load(u *unstructured.Unstructured, now time.Time) ([]Task, error) {
	k := r.Kinds().OfKind(u.GroupVersionKind())
	if k == nil && (u.GetKind() == "" || u.GetAPIVersion() == "") {
		return nil, errors.New("an object needs apiVersion and kind")
	}
	if k == nil {
		return nil, fmt.Errorf("no resource is of kind %s in %s", u.GetKind(), u.GetAPIVersion())
	}
	raw, err := json.Marshal(u.Object)
	if err != nil {
		return nil, err
	}
	o, _, err := codec.Decode(k, raw)
	if err != nil {
		return nil, err
	}
	m := kind.Meta(o)
	if k.Namespaced && m.GetNamespace() == "" {
		m.SetNamespace(metav1.NamespaceDefault)
	}
	if m.GetUID() == "" {
		r.initMetadata(m, now)
	}
	if v, err := strconv.ParseUint(m.GetResourceVersion(), 10, 64); err == nil {
		r.store.Advance(v) // versions never go back
	}
	m.SetResourceVersion("1") // it will be another one
	if errs := validateObject(k, o, nil); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	t, key := r.Table(k), kind.Key(m.GetNamespace(), m.GetName())
	for {
		_, err := t.Put(key, t.Get(key), Encoder(k, o))
		if err == nil {
			return r.afterWrite(k, o, now), nil
		}
		if !errors.Is(err, store.ErrChanged) {
			return nil, err
		}
	}
}
