package registry_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// model is what a registry of ConfigMaps must hold: a map, with the rules of deletion and
// ownership written down once more, as a whole and not task by task.
type model map[string]*modelObject

type modelObject struct {
	uid        types.UID
	value      string
	finalizers []string
	owners     []types.UID
	blocks     bool // it blocks the deletion of its owners
	deleting   bool
}

func (o modelObject) String() string {
	slices.Sort(o.finalizers)
	return fmt.Sprintf("%s=%s finalizers=%v owners=%v deleting=%t", o.uid, o.value, o.finalizers, o.owners, o.deleting)
}

func (o *modelObject) drop(finalizer string) {
	o.finalizers = slices.DeleteFunc(o.finalizers, func(f string) bool { return f == finalizer })
}

// remove deletes an object by a policy.
func (m model) remove(name string, policy metav1.DeletionPropagation) {
	o := m[name]
	o.drop(metav1.FinalizerOrphanDependents)
	o.drop(metav1.FinalizerDeleteDependents)
	switch policy {
	case metav1.DeletePropagationOrphan:
		o.finalizers = append(o.finalizers, metav1.FinalizerOrphanDependents)
	case metav1.DeletePropagationForeground:
		o.finalizers = append(o.finalizers, metav1.FinalizerDeleteDependents)
	}
	if o.deleting = true; len(o.finalizers) == 0 {
		delete(m, name)
	}
}

// dependents returns the names of the objects of an owner.
func (m model) dependents(owner types.UID) (out []string) {
	for name, o := range m {
		if slices.Contains(o.owners, owner) {
			out = append(out, name)
		}
	}
	return out
}

// settle does what controllers do until nothing is left to do.
func (m model) settle() {
	for m.settleOnce() {
	}
}

func (m model) settleOnce() (changed bool) {
	exists := func(uid types.UID) bool {
		for _, o := range m {
			if o.uid == uid {
				return true
			}
		}
		return false
	}
	for name, o := range maps.Clone(m) {
		switch {
		case m[name] == nil:
		case o.deleting && len(o.finalizers) == 0:
			delete(m, name)
			changed = true
		case o.deleting && slices.Contains(o.finalizers, metav1.FinalizerOrphanDependents):
			for _, d := range m.dependents(o.uid) {
				m[d].owners = slices.DeleteFunc(m[d].owners, func(uid types.UID) bool { return uid == o.uid })
			}
			o.drop(metav1.FinalizerOrphanDependents)
			changed = true
		case o.deleting && slices.Contains(o.finalizers, metav1.FinalizerDeleteDependents):
			changed = m.deleteDependents(o) || changed
		case !o.deleting && len(o.owners) > 0 && !slices.ContainsFunc(o.owners, exists):
			m.remove(name, metav1.DeletePropagationBackground)
			changed = true
		}
	}
	return changed
}

// deleteDependents deletes the dependents of an object that is deleted in the foreground.
func (m model) deleteDependents(o *modelObject) (changed bool) {
	waits := false
	for _, d := range m.dependents(o.uid) {
		if !m[d].deleting {
			m.remove(d, metav1.DeletePropagationForeground)
			changed = true
		}
		waits = waits || m[d] != nil && m[d].blocks
	}
	if !waits {
		o.drop(metav1.FinalizerDeleteDependents)
	}
	return changed || !waits
}

// drawnRun is a registry and its model.
type drawnRun struct {
	*traced
	t     *testing.T
	rng   *rand.Rand
	model model
	kind  *kind.Kind
	last  uint64
}

func (d *drawnRun) write(name string) registry.Write {
	return registry.Write{Target: registry.Target{Kind: d.kind, Namespace: "default", Name: name}, Now: d.now}
}

// step draws a request, sends it to both, and compares.
func (d *drawnRun) step() {
	d.t.Helper()
	name := string(rune('a' + d.rng.IntN(8)))
	d.now = d.now.Add(time.Duration(d.rng.IntN(5)) * time.Second)
	var r registry.Result
	var err error
	o, want := d.model[name], error(nil)
	switch d.rng.IntN(6) {
	case 0, 1:
		r, err, want = d.create(name)
	case 2:
		r, err, want = d.put(name, o)
	case 3:
		r, err, want = d.dropFinalizer(name, o)
	default:
		policy := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}[d.rng.IntN(3)]
		r, err = d.Delete(d.write(name), metav1.DeleteOptions{PropagationPolicy: &policy})
		if o == nil {
			want = apierrors.NewNotFound(d.kind.Resource(), name)
		} else {
			d.model.remove(name, policy)
		}
	}
	if apierrors.ReasonForError(err) != apierrors.ReasonForError(want) || (err == nil) != (want == nil) {
		d.t.Fatalf("%s: %v, want %v", name, err, want)
	}
	d.finish(r.Tasks)
	d.model.settle()
	d.compare()
}

func (d *drawnRun) create(name string) (r registry.Result, err, want error) {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"v": fmt.Sprint(d.rng.IntN(3))}}
	next := &modelObject{value: m.Data["v"], blocks: d.rng.IntN(2) == 0}
	for _, f := range []string{"example.com/a", "example.com/b"} {
		if d.rng.IntN(4) == 0 {
			m.Finalizers = append(m.Finalizers, f)
		}
	}
	next.finalizers = slices.Clone(m.Finalizers)
	for _, owner := range slices.Sorted(maps.Keys(d.model)) {
		// An owner that is being deleted looks at its dependents once, and when one goes.
		if o := d.model[owner]; owner != name && !o.deleting && d.rng.IntN(6) == 0 {
			m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner, UID: o.uid, BlockOwnerDeletion: &next.blocks})
			next.owners = append(next.owners, o.uid)
		}
	}
	if len(next.owners) == 0 && d.rng.IntN(20) == 0 {
		m.OwnerReferences = append(m.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "nobody", UID: "nobody"})
		next.owners = append(next.owners, "nobody")
	}
	if r, err = d.Create(d.write(name), m); d.model[name] != nil {
		return r, err, apierrors.NewAlreadyExists(d.kind.Resource(), name)
	}
	if err == nil {
		next.uid = m.UID
		d.model[name] = next
	}
	return r, err, nil
}

// put changes the value, and now and then the owners, of an object: with no version, the
// current one, or one of the past.
func (d *drawnRun) put(name string, o *modelObject) (r registry.Result, err, want error) {
	value, version := fmt.Sprint(d.rng.IntN(3)), []string{"", "current", "1"}[d.rng.IntN(3)]
	disown := d.rng.IntN(4) == 0 && o != nil && len(o.owners) == 1 // with two, the other one may be gone, and nobody looks
	r, err = d.Change(registry.Change{Write: d.write(name), Replace: func(old runtime.Object, _ time.Time) (runtime.Object, error) {
		next := old.DeepCopyObject().(*corev1.ConfigMap)
		next.Data["v"] = value
		if version != "current" {
			next.ResourceVersion = version
		}
		if disown {
			next.OwnerReferences = nil
		}
		return next, nil
	}})
	switch {
	case o == nil:
		want = apierrors.NewNotFound(d.kind.Resource(), name)
	case version == "1":
		want = apierrors.NewConflict(d.kind.Resource(), name, nil)
	default:
		if o.value = value; disown {
			o.owners = nil
		}
	}
	return r, err, want
}

// dropFinalizer takes the first finalizer of an object, as its controller does.
func (d *drawnRun) dropFinalizer(name string, o *modelObject) (r registry.Result, err, want error) {
	r, err = d.Change(registry.Change{Write: d.write(name), Replace: func(old runtime.Object, _ time.Time) (runtime.Object, error) {
		next := old.DeepCopyObject().(*corev1.ConfigMap)
		next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == "example.com/a" })
		return next, nil
	}})
	if o == nil {
		return r, err, apierrors.NewNotFound(d.kind.Resource(), name)
	}
	o.drop("example.com/a")
	return r, err, nil
}

// finish carries out tasks, and those that follow, each twice now and then.
func (d *drawnRun) finish(tasks []registry.Task) {
	for n := 0; len(tasks) > 0; n++ {
		if n > 10_000 {
			d.t.Fatalf("tasks without end: %v", tasks[0])
		}
		task := tasks[0]
		tasks = append(tasks[1:], d.Do(task, d.now)...)
		if d.rng.IntN(4) == 0 {
			tasks = append(tasks, d.Do(task, d.now)...)
		}
	}
}

// list writes what the registry holds at a version; 0: now.
func (d *drawnRun) list(version uint64) string {
	d.t.Helper()
	found := repotest.Must(d.Table(d.kind).List(store.Query{At: version}))(d.t)
	return d.format(found.Objects)
}

func (d *drawnRun) format(objects []*store.Object) string {
	var b strings.Builder
	for _, o := range objects {
		typed := repotest.Must(d.kind.Decode(o.Raw))(d.t)
		m := typed.(*corev1.ConfigMap)
		is := modelObject{uid: m.UID, value: m.Data["v"], finalizers: m.Finalizers, deleting: m.DeletionTimestamp != nil}
		for _, r := range m.OwnerReferences {
			is.owners = append(is.owners, r.UID)
		}
		fmt.Fprintln(&b, m.Name, is)
	}
	return b.String()
}

func (d *drawnRun) compare() {
	d.t.Helper()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(d.model)) {
		fmt.Fprintln(&b, name, *d.model[name])
	}
	if is := d.list(0); is != b.String() {
		d.t.Fatalf("the registry holds\n%swant\n%s", is, &b)
	}
	if v := d.Store().Version(); v < d.last {
		d.t.Fatalf("version %d after %d", v, d.last)
	} else {
		d.last = v
	}
}

// TestDrawnRequests sends requests by chance to a registry and to a model. After each, both
// hold the same. Versions only grow, and a watch from any version leads to the list.
func TestDrawnRequests(t *testing.T) {
	for seed := range repotest.Times(t, "WINDTUNNEL_SEED", 20) {
		z := newTraced("")
		d := &drawnRun{traced: z, t: t, rng: rand.New(rand.NewPCG(uint64(seed), 0)), model: model{}}
		d.kind = z.Kinds().Find("", "v1", "configmaps")
		z.CreateSystemNamespaces(z.now)
		begin := z.Store().Version()
		lists := map[uint64]string{begin: d.list(0)}
		for range 40 {
			d.step()
			lists[z.Store().Version()] = d.list(0)
		}
		d.replay(begin, lists)
	}
}

// replay holds that the list of each past version is what it was then, and that the events
// since then lead from it to the list of now.
func (d *drawnRun) replay(begin uint64, lists map[uint64]string) {
	now := d.list(0)
	for version := begin; version <= d.Store().Version(); version++ {
		if then, ok := lists[version]; ok && then != d.list(version) {
			d.t.Fatalf("version %d lists\n%sit was\n%s", version, d.list(version), then)
		}
		found := repotest.Must(d.Table(d.kind).List(store.Query{At: version}))(d.t)
		held := map[string]*store.Object{}
		for _, o := range found.Objects {
			held[o.Key] = o
		}
		for at := version; at < d.Store().Version(); {
			news := repotest.Must(d.Table(d.kind).Since(at))(d.t)
			for _, e := range news.Events {
				if e.Version <= at || held[e.Object.Key] != e.Before {
					d.t.Fatalf("event %d after %d of %s: it was another object before", e.Version, at, e.Object.Key)
				}
				at = e.Version
				if held[e.Object.Key] = e.Object; e.Deleted {
					delete(held, e.Object.Key)
				}
			}
			at = max(at, news.Version)
		}
		var left []*store.Object
		for _, key := range slices.Sorted(maps.Keys(held)) {
			left = append(left, held[key])
		}
		if is := d.format(left); is != now {
			d.t.Fatalf("a watch from version %d leads to\n%swant\n%s", version, is, now)
		}
	}
}
