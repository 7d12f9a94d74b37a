package tree

import (
	"context"
	"fmt"
	"slices"

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

// offers tells whether there is a service of the hub that members may have. Kosmos'
// semantics wait for one that is exported and not there.
func (t *tree) offers(key string) bool {
	return t.hub.isExported(key) && (has(t.hub.services, key) || t.o.ImportEnd == ImportEndOwn)
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
func (c *importController) endImport(ctx context.Context, service string) error {
	i, own := c.importOf(service), c.tree.o.ImportEnd == ImportEndOwn
	switch {
	case own && i == nil:
		return nil
	case asks(i) && c.tree.offers(service):
		if c.tree.o.Import == ImportDirect { // with mcs the import is written anyway
			if err := c.tree.keepFinalizer(ctx, c.member.client.Imports, i); err != nil {
				return err
			}
		}
		return c.takeOldSlices(ctx, service)
	case own && asks(i):
		return nil
	}
	if err := c.takeService(ctx, service); err != nil || i == nil {
		return err
	}
	return c.forgetImport(ctx, i)
}

// takeService deletes a service of the tree in the member, and its slices.
func (c *importController) takeService(ctx context.Context, service string) error {
	namespace, name := cutKey(service)
	if c.tree.o.ImportEnd == ImportEndOwn { // as with Kosmos slices stay without a service of the tree
		s, err := c.member.client.Services.Get(ctx, namespace, name)
		if apierrors.IsNotFound(err) || err == nil && !isGlobal(s) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("service %s in member %s: %w", service, c.member.name, err)
		}
	}
	if err := takeBack(ctx, c.member, c.member.client.Services, namespace, name); err != nil {
		return err
	}
	ours := labels.Set{discoveryv1.LabelServiceName: name, api.LabelGlobal: "true"}.String()
	if err := client404(c.member.client.Slices.DeleteAll(ctx, namespace, ours)); err != nil {
		return fmt.Errorf("slices of service %s in member %s: %w", service, c.member.name, err)
	}
	return nil
}

// takeOldSlices deletes the member's slices of a service that the host has no more.
func (c *importController) takeOldSlices(ctx context.Context, service string) error {
	if c.member.slices == nil {
		return nil
	}
	all, _ := c.member.slices.GetIndexer().ByIndex(byService, service)
	for _, o := range all {
		s := o.(*discoveryv1.EndpointSlice)
		if hub := cached[*discoveryv1.EndpointSlice](c.tree.hub.slices, s.Namespace+"/"+s.Name); hub != nil && serviceOf(hub) == service {
			continue
		}
		if err := takeBack(ctx, c.member, c.member.client.Slices, s.Namespace, s.Name); err != nil {
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
	if has(copies, namespace+"/"+name) {
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
func (c *importController) forgetImport(ctx context.Context, i *api.Mark) error {
	_, told := i.Annotations[api.AnnotationAddresses]
	ending := i.DeletionTimestamp != nil && slices.Contains(i.Finalizers, api.FinalizerServices)
	if !ending && (!told || i.DeletionTimestamp != nil) {
		return nil
	}
	_, err := changeMark(ctx, c.member.client.Imports, i, func(i *api.Mark) {
		delete(i.Annotations, api.AnnotationAddresses)
		if ending {
			dropFinalizer(i)
		}
	})
	if err = client404(err); err != nil {
		return fmt.Errorf("import %s/%s of member %s: %w", i.Namespace, i.Name, c.member.name, err)
	}
	return nil
}

// keepFinalizer gives an export or import the finalizer with which Kosmos hears of its
// end, however late, and takes it off one that ends. Without it, caches tell what ended.
func (t *tree) keepFinalizer(ctx context.Context, k api.Kind[*api.Mark], o *api.Mark) error {
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
