package tree

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// importController gives a member the services that it imports, and takes back what it is
// not to have.
type importController struct {
	tree       *tree
	member     *member
	namespaces *namespaces
	queue      *loop.Loop
}

func newImportController(t *tree, m *member, n *namespaces) *importController {
	c := &importController{tree: t, member: m, namespaces: n}
	c.queue = t.newLoop("imports", 1, c.reconcile)
	return c
}

// addHandlers connects the member's caches with the queue. Those of copies tell of each that it
// has: also of those that a manager before left, of what the hub took back while none ran.
func (c *importController) addHandlers() error {
	errs := []error{watchMarks(c.member.imports, &c.tree.o, c.addService)}
	if c.member.services == nil {
		return errors.Join(errs...)
	}
	enqueue := enqueueTo(c.queue, prefixEnd)
	errs = append(errs, loop.Watch(c.member.services, func(old, now metav1.Object) {
		if old == nil {
			enqueue(now)
		}
	}), loop.Watch(c.member.slices, func(old, now metav1.Object) {
		if old != nil {
			return
		}
		if service := serviceOf(now); !strings.HasSuffix(service, "/") {
			c.queue.Queue.Add(prefixEnd + service)
		}
	}))
	return errors.Join(errs...)
}

// prefixEnd is that of keys by which a member is asked what it has of a service and is
// not to have.
const prefixEnd = "end "

// servicePairOf returns what is known of a service.
func (c *importController) servicePairOf(service string) servicePair {
	hub := c.tree.hub
	return servicePair{exported: hub.isExported(service), there: slim.Has(hub.services, service), imported: slim.Get[*api.Mark](c.member.imports, service)}
}

// addService puts all of a service into the member's queue.
func (c *importController) addService(service string) {
	for _, key := range c.servicePairOf(service).queueKeys(service, c.tree.hub.slicesOf(service), &c.tree.o) {
		c.queue.Queue.Add(key)
	}
}

// addImport puts what a member is to get of a slice into its queue.
func (c *importController) addImport(service, slice string) {
	if key := c.servicePairOf(service).sliceKey(service, slice, &c.tree.o); key != "" {
		c.queue.Queue.Add(key)
	}
}

// importAgain puts all that the member imports into its queue: slices that the hub got
// after the import was seen and before the member was known would be missing.
func (c *importController) importAgain() {
	for _, key := range c.member.imports.GetStore().ListKeys() {
		c.addService(key)
	}
}

// reconcile brings a service to the member, NAMESPACE/NAME, or one slice alone,
// NAMESPACE/NAME/SLICE; or it takes back what the member is not to have (prefixEnd).
func (c *importController) reconcile(ctx context.Context, key string) error {
	if service, ok := strings.CutPrefix(key, prefixEnd); ok {
		return c.endImport(ctx, service)
	}
	parts := strings.SplitN(key, "/", 3)
	service := parts[0] + "/" + parts[1]
	p := c.servicePairOf(service)
	if len(parts) == 2 {
		if p.decideService(&c.tree.o) == serviceWrite {
			return c.importAll(ctx, service, p.imported)
		}
		return nil
	}
	slice := slim.Get[*discoveryv1.EndpointSlice](c.tree.hub.slices, parts[0]+"/"+parts[2])
	switch p.decideSlice(slice != nil, &c.tree.o) {
	case serviceWriteSlice:
		return c.importSlice(ctx, slice)
	case serviceDeleteSlice:
		return deleteCopyIn(ctx, c.member, c.member.client.Slices, parts[0], parts[2])
	}
	return nil
}

// importAll brings service and all slices, the import's annotation and an event.
func (c *importController) importAll(ctx context.Context, service string, i *api.Mark) error {
	namespace, name := cutKey(service)
	if err := c.namespaces.ensureNamespace(ctx, namespace); err != nil {
		return err
	}
	if err := c.importService(ctx, namespace, name); err != nil {
		return err
	}
	addresses, err := c.importSlices(ctx, service)
	if err != nil {
		return err
	}
	i, err = changeMark(ctx, c.member.client.Imports, i, func(i *api.Mark) {
		metav1.SetMetaDataAnnotation(&i.ObjectMeta, api.AnnotationAddresses, strings.Join(addresses, ","))
	})
	if apierrors.IsInvalid(err) { // too much for an annotation, and so the next time: worth a line
		c.tree.o.Log.Warn("a member refuses an import", "member", c.member.name, "import", service, "addresses", len(addresses), "error", err)
	}
	if err != nil {
		return fmt.Errorf("import %s of member %s: %w", service, c.member.name, err)
	}
	if err := c.tree.writeEvent(ctx, c.member.client, service, "ServiceImport"); err != nil {
		return err
	}
	if err := c.tree.updateFinalizer(ctx, c.member.client.Imports, i); err != nil {
		return err
	}
	return c.deleteOldSlices(ctx, service)
}

// importSlices writes all slices of a service and returns their addresses.
func (c *importController) importSlices(ctx context.Context, service string) (addresses []string, err error) {
	hub := c.tree.hub.slicesOf(service)
	if c.tree.o.ImportEnd == ImportEndOwn { // in the order of a map, as Kosmos has them: the addresses may be other each time
		hub = slim.ByIndex[*discoveryv1.EndpointSlice](c.tree.hub.slices, byService, service)
	}
	for _, s := range hub {
		copied := copySlice(s)
		err := checkName(ctx, c.member, c.member.client.Slices, c.member.slices, s.Namespace, s.Name)
		if err == nil {
			_, err = c.member.client.Slices.Create(ctx, copied)
		}
		if apierrors.IsAlreadyExists(err) { // as Kosmos finds out that it is there
			_, err = c.member.client.Slices.Update(ctx, copied)
		}
		if err != nil {
			return nil, fmt.Errorf("slice %s/%s in member %s: %w", s.Namespace, s.Name, c.member.name, err)
		}
		for i := range s.Endpoints {
			addresses = append(addresses, s.Endpoints[i].Addresses...)
		}
	}
	return addresses, nil
}

// importService writes the member's service.
func (c *importController) importService(ctx context.Context, namespace, name string) error {
	hub := slim.Get[*corev1.Service](c.tree.hub.services, namespace+"/"+name)
	if hub == nil {
		return fmt.Errorf("service %s/%s of the host: %w", namespace, name, errNotYet)
	}
	s := copyService(hub)
	err := checkName(ctx, c.member, c.member.client.Services, c.member.services, namespace, name)
	if err == nil {
		_, err = c.member.client.Services.Update(ctx, s)
	}
	if apierrors.IsNotFound(err) {
		_, err = c.member.client.Services.Create(ctx, s)
	}
	if err != nil {
		return fmt.Errorf("service %s/%s in member %s: %w", namespace, name, c.member.name, err)
	}
	return nil
}

// importSlice writes one slice.
func (c *importController) importSlice(ctx context.Context, hub *discoveryv1.EndpointSlice) error {
	s, namespace, name := copySlice(hub), hub.Namespace, hub.Name
	err := checkName(ctx, c.member, c.member.client.Slices, c.member.slices, namespace, name)
	if err == nil {
		_, err = c.member.client.Slices.Update(ctx, s)
	}
	if apierrors.IsNotFound(err) {
		if err = c.namespaces.ensureNamespace(ctx, namespace); err == nil {
			err = c.importService(ctx, namespace, s.Labels[discoveryv1.LabelServiceName])
		}
		if err == nil {
			_, err = c.member.client.Slices.Create(ctx, s)
		}
	}
	if err != nil {
		return fmt.Errorf("slice %s/%s in member %s: %w", namespace, name, c.member.name, err)
	}
	return nil
}
