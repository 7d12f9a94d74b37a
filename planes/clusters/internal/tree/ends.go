package tree

import (
	"context"
	"fmt"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/internal/subject/kit/loop"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

// prefixEnd is that of keys by which a member is asked what it has of a service and is
// not to have.
const prefixEnd = "end "

// ofMarks handles that an export or import is made, begins to end, or is gone. What else
// is written into them is the tree's own.
func ofMarks(f func(key string)) cache.ResourceEventHandlerFuncs {
	each := func(o any) {
		if key, ok := loop.Key(o); ok {
			f(key)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: each, DeleteFunc: each, UpdateFunc: func(old, o any) {
		was, is := old.(*api.Mark), o.(*api.Mark)
		if was.UID != is.UID || (was.DeletionTimestamp == nil) != (is.DeletionTimestamp == nil) {
			each(o)
		}
	}}
}

// isExported tells whether members may have a service of the host. An export that is
// being deleted lets them no more.
func (t *Tree) isExported(key string) bool {
	o, there, _ := t.hub.exports.GetIndexer().GetByKey(key)
	return there && o.(*api.Mark).DeletionTimestamp == nil
}

// offers tells whether there is a service of the host that members may have. Kosmos'
// semantics wait for one that is exported and not there.
func (t *Tree) offers(key string) bool {
	_, there, _ := t.hub.services.GetIndexer().GetByKey(key)
	return t.isExported(key) && (there || t.o.ImportEnd == ImportEndOwn)
}

// hostChanged lets all members look at a service again.
func (t *Tree) hostChanged(key string) {
	for _, m := range t.leaves.everyMember() {
		m.addService(key)
	}
}

// watchServiceEnds lets members hear of services that the host makes or deletes. Kosmos
// looks at them when it writes them.
func (t *Tree) watchServiceEnds() error {
	if t.o.ImportEnd != ImportEndAll {
		return nil
	}
	changed := func(o any) {
		if key, ok := loop.Key(o); ok && t.isExported(key) {
			t.hostChanged(key)
		}
	}
	_, err := t.hub.services.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: changed, DeleteFunc: changed})
	return err
}

// watchCopies makes the member's caches of copies, which tell of each that it has: also of
// those that a manager before left, of what the host took back while none ran.
func (m *member) watchCopies() error {
	if m.o.ImportEnd != ImportEndAll {
		return nil
	}
	const ours = api.LabelGlobal + "=true"
	m.brought.services = m.client.Services.Informer(ours, nil)
	m.brought.slices = m.client.Slices.Informer(ours, cache.Indexers{byService: indexByService})
	if err := m.brought.services.SetTransform(slimObject); err != nil {
		return err
	}
	if err := m.brought.slices.SetTransform(slimCopy); err != nil {
		return err
	}
	if _, err := m.brought.services.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
		if key, ok := loop.Key(o); ok {
			m.imports.Queue.Add(prefixEnd + key)
		}
	}}); err != nil {
		return err
	}
	_, err := m.brought.slices.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
		if service := serviceOf(o); !strings.HasSuffix(service, "/") {
			m.imports.Queue.Add(prefixEnd + service)
		}
	}})
	return err
}

// slimCopy keeps of a member's slice of which service it is.
func slimCopy(o any) (any, error) {
	s, ok := o.(*discoveryv1.EndpointSlice)
	if !ok {
		return o, nil
	}
	return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: s.Name, Namespace: s.Namespace, UID: s.UID, ResourceVersion: s.ResourceVersion, Labels: s.Labels}}, nil
}

// endImport takes back what the member has of a service and is not to have. With Kosmos'
// semantics that is what an import brought that is being deleted.
func (m *member) endImport(ctx context.Context, service string) error {
	i, own := m.importOf(service), m.o.ImportEnd == ImportEndOwn
	switch {
	case own && i == nil:
		return nil
	case asks(i) && m.offers(service):
		if m.o.Import == ImportDirect { // with mcs the import is written anyway
			if err := m.keepFinalizer(ctx, m.client.Imports, i); err != nil {
				return err
			}
		}
		return m.takeOldSlices(ctx, service)
	case own && asks(i):
		return nil
	}
	if err := m.takeService(ctx, service); err != nil || i == nil {
		return err
	}
	return m.forgetImport(ctx, i)
}

// takeService deletes a service of the tree in the member, and its slices.
func (m *member) takeService(ctx context.Context, service string) error {
	namespace, name := cutKey(service)
	if m.o.ImportEnd == ImportEndOwn { // as with Kosmos slices stay without a service of the tree
		s, err := m.client.Services.Get(ctx, namespace, name)
		if apierrors.IsNotFound(err) || err == nil && !isGlobal(s) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("service %s in member %s: %w", service, m.name, err)
		}
	}
	if err := takeBack(ctx, m, m.client.Services, namespace, name); err != nil {
		return err
	}
	ours := labels.Set{discoveryv1.LabelServiceName: name, api.LabelGlobal: "true"}.String()
	if err := client404(m.client.Slices.DeleteAll(ctx, namespace, ours)); err != nil {
		return fmt.Errorf("slices of service %s in member %s: %w", service, m.name, err)
	}
	return nil
}

// takeOldSlices deletes the member's slices of a service that the host has no more.
func (m *member) takeOldSlices(ctx context.Context, service string) error {
	if m.brought.slices == nil {
		return nil
	}
	all, _ := m.brought.slices.GetIndexer().ByIndex(byService, service)
	for _, o := range all {
		s := o.(*discoveryv1.EndpointSlice)
		host, there, _ := m.hub.slices.GetIndexer().GetByKey(s.Namespace + "/" + s.Name)
		if there && serviceOf(host) == service {
			continue
		}
		if err := takeBack(ctx, m, m.client.Slices, s.Namespace, s.Name); err != nil {
			return err
		}
	}
	return nil
}

// takeBack deletes an object in the member, if it is the tree's.
func takeBack[T api.Object](ctx context.Context, m *member, k api.Kind[T], namespace, name string) error {
	there, err := k.Get(ctx, namespace, name)
	if err == nil && isGlobal(there) {
		uid := there.GetUID() // nobody else's who takes the name meanwhile
		err = k.Delete(ctx, namespace, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("take %s/%s back from member %s: %w", namespace, name, m.name, err)
	}
	return nil
}

// notTaken returns an error while somebody else has the name of a copy in the member:
// what is written over could not be given back. Kosmos writes over it.
func notTaken[T api.Object](ctx context.Context, m *member, k api.Kind[T], copies cache.SharedIndexInformer, namespace, name string) error {
	if copies == nil {
		return nil
	}
	if _, ours, _ := copies.GetIndexer().GetByKey(namespace + "/" + name); ours {
		return nil
	}
	there, err := k.Get(ctx, namespace, name)
	switch {
	case apierrors.IsNotFound(err) || err == nil && isGlobal(there):
		return nil
	case err == nil:
		err = errNotYet
	}
	return fmt.Errorf("%s/%s of member %s is not the tree's: %w", namespace, name, m.name, err)
}

// forgetImport takes from an import what the tree wrote into it.
func (m *member) forgetImport(ctx context.Context, i *api.Mark) error {
	_, told := i.Annotations[api.AnnotationAddresses]
	ending := i.DeletionTimestamp != nil && slices.Contains(i.Finalizers, api.FinalizerServices)
	if !ending && (!told || i.DeletionTimestamp != nil) {
		return nil
	}
	_, err := changeMark(ctx, m.client.Imports, i, func(i *api.Mark) {
		delete(i.Annotations, api.AnnotationAddresses)
		if ending {
			dropFinalizer(i)
		}
	})
	if err = client404(err); err != nil {
		return fmt.Errorf("import %s/%s of member %s: %w", i.Namespace, i.Name, m.name, err)
	}
	return nil
}

// keepFinalizer gives an export or import the finalizer with which Kosmos hears of its
// end, however late, and takes it off one that ends. Without it, caches tell what ended.
func (t *Tree) keepFinalizer(ctx context.Context, k api.Kind[*api.Mark], o *api.Mark) error {
	has, change := slices.Contains(o.Finalizers, api.FinalizerServices), dropFinalizer
	if o.DeletionTimestamp == nil {
		if has || t.o.ImportEnd == ImportEndAll {
			return nil
		}
		change = func(o *api.Mark) { o.Finalizers = append(o.Finalizers, api.FinalizerServices) }
	} else if !has {
		return nil
	}
	if _, err := changeMark(ctx, k, o, change); client404(err) != nil {
		return fmt.Errorf("finalizer of %s/%s: %w", o.Namespace, o.Name, err)
	}
	return nil
}

func dropFinalizer(o *api.Mark) {
	o.Finalizers = slices.DeleteFunc(o.Finalizers, func(f string) bool { return f == api.FinalizerServices })
}

// changeMark writes a change of an export or import; of its latest state where the cache
// has an older one.
func changeMark(ctx context.Context, k api.Kind[*api.Mark], o *api.Mark, change func(*api.Mark)) (*api.Mark, error) {
	next := o.DeepCopyObject().(*api.Mark)
	change(next)
	out, err := k.Update(ctx, next)
	if !apierrors.IsConflict(err) {
		return out, err
	}
	if next, err = k.Get(ctx, o.Namespace, o.Name); err != nil {
		return nil, err
	}
	change(next)
	return k.Update(ctx, next)
}
