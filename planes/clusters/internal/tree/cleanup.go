package tree

import (
	"context"
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// endImport takes back what the member has of a service and is not to have.
func (c *importController) endImport(ctx context.Context, service string) error {
	p := c.servicePairOf(service)
	switch p.decideEnd(&c.tree.o) {
	case serviceCleanUp:
		if c.tree.o.Import == ImportDirect { // with mcs the import is written anyway
			if err := c.tree.updateFinalizer(ctx, c.member.client.Imports, p.imported); err != nil {
				return err
			}
		}
		return c.deleteOldSlices(ctx, service)
	case serviceTakeBack:
		if err := c.deleteService(ctx, service); err != nil || p.imported == nil {
			return err
		}
		return c.clearImport(ctx, p.imported)
	}
	return nil
}

// deleteService deletes a service of the tree in the member, and its slices.
func (c *importController) deleteService(ctx context.Context, service string) error {
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
	if err := deleteCopyIn(ctx, c.member, c.member.client.Services, namespace, name); err != nil {
		return err
	}
	ours := labels.Set{discoveryv1.LabelServiceName: name, api.LabelGlobal: "true"}.String()
	if err := ignoreNotFound(c.member.client.Slices.DeleteAll(ctx, namespace, ours)); err != nil {
		return fmt.Errorf("slices of service %s in member %s: %w", service, c.member.name, err)
	}
	return nil
}

// deleteOldSlices deletes the member's slices of a service that the hub has no more.
func (c *importController) deleteOldSlices(ctx context.Context, service string) error {
	if c.member.slices == nil {
		return nil
	}
	for _, s := range oldSlices(c.tree.hub.slicesOf(service), slicesOf(c.member.slices, service)) {
		if err := deleteCopyIn(ctx, c.member, c.member.client.Slices, s.Namespace, s.Name); err != nil {
			return err
		}
	}
	return nil
}

// deleteCopyIn deletes an object in the member, if it is the tree's.
func deleteCopyIn[T api.Object](ctx context.Context, m *member, k api.Kind[T], namespace, name string) error {
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

// checkName returns an error while somebody else has the name of a copy in the member.
// Kosmos does not look, and writes over it: then there is no cache of copies.
func checkName[T api.Object](ctx context.Context, m *member, k api.Kind[T], copies cache.SharedIndexInformer, namespace, name string) error {
	if copies == nil || slim.Has(copies, namespace+"/"+name) {
		return nil
	}
	there, err := k.Get(ctx, namespace, name)
	if err == nil || apierrors.IsNotFound(err) {
		err = nameTaken(there, err == nil)
	}
	if err != nil {
		return fmt.Errorf("%s/%s of member %s is not the tree's: %w", namespace, name, m.name, err)
	}
	return nil
}

// clearImport takes from an import what the tree wrote into it.
func (c *importController) clearImport(ctx context.Context, i *api.Mark) error {
	change := forgetChange(i)
	if change == nil {
		return nil
	}
	_, err := changeMark(ctx, c.member.client.Imports, i, change)
	if err = ignoreNotFound(err); err != nil {
		return fmt.Errorf("import %s/%s of member %s: %w", i.Namespace, i.Name, c.member.name, err)
	}
	return nil
}
