package tree

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/internal/subject/kit/loop"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

const (
	byService     = "service" // index of slices
	exportWorkers = 2         // Kosmos'
)

// exportController marks the hub's slices of the services that members may import, and
// lets members know what they may import.
type exportController struct {
	tree  *tree
	queue *loop.Loop
}

func newExportController(t *tree) *exportController {
	c := &exportController{tree: t}
	c.queue = t.loop("exports", exportWorkers, c.reconcile)
	return c
}

// watch connects the hub's caches with the queue.
func (c *exportController) watch() error {
	hub := c.tree.hub
	handlers := map[cache.SharedIndexInformer]cache.ResourceEventHandlerFuncs{
		hub.exports: ofMarks(func(key string) {
			c.queue.Queue.Add(key)
			c.hubChanged(key) // for those who asked before it was exported
		}),
		hub.slices: {
			AddFunc: c.sliceEvent, DeleteFunc: c.sliceEvent,
			UpdateFunc: func(old, o any) {
				if !sameEndpoints(old.(*discoveryv1.EndpointSlice), o.(*discoveryv1.EndpointSlice)) {
					c.sliceEvent(o)
				}
			},
		},
	}
	if c.tree.o.ImportEnd == ImportEndAll { // Kosmos looks at services when it writes them
		handlers[hub.services] = cache.ResourceEventHandlerFuncs{AddFunc: c.serviceEvent, DeleteFunc: c.serviceEvent}
	}
	return addHandlers(handlers)
}

// serviceEvent lets members hear of a service that the hub makes or deletes.
func (c *exportController) serviceEvent(o any) {
	if key, ok := loop.Key(o); ok && c.tree.hub.isExported(key) {
		c.hubChanged(key)
	}
}

// hubChanged lets all members look at a service again.
func (c *exportController) hubChanged(key string) {
	for _, j := range c.tree.leaves.everyMember() {
		j.imports.addService(key)
	}
}

// sliceEvent lets a change of a slice come to those who import its service.
func (c *exportController) sliceEvent(o any) {
	s, ok := loop.Last[*discoveryv1.EndpointSlice](o)
	if !ok {
		return
	}
	key := serviceOf(s)
	if !c.tree.hub.isExported(key) {
		if s.Labels[api.LabelExported] == "true" { // since an export that ended while nobody watched
			c.queue.Queue.Add(key)
		}
		return
	}
	if c.tree.o.Import == ImportMCS {
		c.queue.Queue.Add(key)
	}
	for _, j := range c.tree.leaves.everyMember() {
		j.imports.addImport(key, s.Name)
	}
}

// serviceOf is the key of the service that a slice belongs to.
func serviceOf(o any) string {
	s, ok := o.(*discoveryv1.EndpointSlice)
	if !ok {
		return ""
	}
	return s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]
}

// indexByService is the index function of slices.
func indexByService(o any) ([]string, error) { return []string{serviceOf(o)}, nil }

func sameEndpoints(a, b *discoveryv1.EndpointSlice) bool {
	x, errX := (&discoveryv1.EndpointSlice{Endpoints: a.Endpoints, Ports: a.Ports, AddressType: a.AddressType}).Marshal()
	y, errY := (&discoveryv1.EndpointSlice{Endpoints: b.Endpoints, Ports: b.Ports, AddressType: b.AddressType}).Marshal()
	return errX == nil && errY == nil && string(x) == string(y)
}

// reconcile marks the slices of a service that members may import: each of them, whenever
// one changes, and says so in an event. Those of one that they may import no more lose
// their marks.
func (c *exportController) reconcile(ctx context.Context, key string) error {
	exported := c.tree.hub.isExported(key)
	for _, s := range c.tree.hub.slicesOf(key) {
		marked := s.Labels[api.LabelExported] == "true"
		if marked == exported && (!exported || c.tree.o.Import == ImportDirect) {
			continue
		}
		next := s.DeepCopy()
		delete(next.Labels, api.LabelExported)
		if exported {
			next.Labels[api.LabelExported] = "true"
		}
		if _, err := c.tree.hub.client.Slices.Update(ctx, next); err != nil {
			return fmt.Errorf("mark slice %s/%s: %w", s.Namespace, s.Name, err)
		}
	}
	if exported && c.tree.o.Import == ImportMCS {
		if err := c.tree.tell(ctx, c.tree.hub.client, key, "ServiceExport"); err != nil {
			return err
		}
	}
	if export := cached[*api.Mark](c.tree.hub.exports, key); export != nil {
		return c.tree.keepFinalizer(ctx, c.tree.hub.client.Exports, export)
	}
	return nil
}

// tell writes an event.
func (t *tree) tell(ctx context.Context, c *api.Client, key, kind string) error {
	namespace, name := cutKey(key)
	now := metav1.NewTime(t.now())
	e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s.%x", name, now.UnixNano())}}
	e.InvolvedObject = corev1.ObjectReference{Kind: kind, APIVersion: api.GroupServices + "/" + api.Version, Namespace: namespace, Name: name}
	e.Type, e.Reason, e.Message = corev1.EventTypeNormal, "Synced", "slices are as they should be"
	e.FirstTimestamp, e.LastTimestamp, e.Count, e.Source = now, now, 1, corev1.EventSource{Component: "tree-manager"}
	if _, err := c.Events.Create(ctx, e); err != nil {
		return fmt.Errorf("event on %s %s: %w", kind, key, err)
	}
	return nil
}

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
	c.queue = t.loop("imports", 1, c.reconcile)
	return c
}

// watch connects the member's caches with the queue. Those of copies tell of each that it
// has: also of those that a manager before left, of what the hub took back while none ran.
func (c *importController) watch() error {
	handlers := map[cache.SharedIndexInformer]cache.ResourceEventHandlerFuncs{c.member.imports: ofMarks(c.addService)}
	if c.member.services != nil {
		handlers[c.member.services] = cache.ResourceEventHandlerFuncs{AddFunc: enqueue(c.queue, prefixEnd)}
		handlers[c.member.slices] = cache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
			if service := serviceOf(o); !strings.HasSuffix(service, "/") {
				c.queue.Queue.Add(prefixEnd + service)
			}
		}}
	}
	return addHandlers(handlers)
}

// addService puts all of a service into the member's queue, and the question whether it
// is to have it at all.
func (c *importController) addService(key string) {
	c.queue.Queue.Add(prefixEnd + key)
	if c.tree.o.Import == ImportMCS && asks(c.importOf(key)) {
		c.queue.Queue.Add(key)
		return
	}
	for _, s := range c.tree.hub.slicesOf(key) {
		c.addImport(key, s.Name)
	}
}

// importAgain puts all that the member imports into its queue: slices that the host got
// after the import was seen and before the member was known would be missing.
func (c *importController) importAgain() {
	for _, key := range c.member.imports.GetStore().ListKeys() {
		c.addService(key)
	}
}

// importOf returns the member's import of a service, nil if it has none.
func (c *importController) importOf(key string) *api.Mark {
	return cached[*api.Mark](c.member.imports, key)
}

// asks tells whether an import wants its service: one that is being deleted does not.
func asks(i *api.Mark) bool { return i != nil && i.DeletionTimestamp == nil }

// addImport puts what a member is to get into its queue, if it asks for the service.
func (c *importController) addImport(key, slice string) {
	if !asks(c.importOf(key)) {
		return
	}
	if c.tree.o.Import == ImportDirect {
		key += "/" + slice
	}
	c.queue.Queue.Add(key)
}

// reconcile brings a service to the member, NAMESPACE/NAME, or one slice alone,
// NAMESPACE/NAME/SLICE; or it takes back what the member is not to have (prefixEnd).
func (c *importController) reconcile(ctx context.Context, key string) error {
	if service, ok := strings.CutPrefix(key, prefixEnd); ok {
		return c.endImport(ctx, service)
	}
	parts := strings.SplitN(key, "/", 3)
	service := parts[0] + "/" + parts[1]
	i := c.importOf(service)
	if !asks(i) || !c.tree.offers(service) {
		return nil
	}
	if len(parts) == 3 {
		return c.importSlice(ctx, parts[0], parts[2])
	}
	return c.importAll(ctx, service, i)
}

// importAll brings service and all slices, the import's annotation and an event.
func (c *importController) importAll(ctx context.Context, service string, i *api.Mark) error {
	namespace, name := cutKey(service)
	if err := c.namespaces.ensure(ctx, namespace); err != nil {
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
	if err := c.tree.tell(ctx, c.member.client, service, "ServiceImport"); err != nil {
		return err
	}
	if err := c.tree.keepFinalizer(ctx, c.member.client.Imports, i); err != nil {
		return err
	}
	return c.takeOldSlices(ctx, service)
}

// importSlices writes all slices of a service and returns their addresses.
func (c *importController) importSlices(ctx context.Context, service string) (addresses []string, err error) {
	for _, s := range c.tree.hub.slicesOf(service) {
		copied := copySlice(s)
		err := notTaken(ctx, c.member, c.member.client.Slices, c.member.slices, s.Namespace, s.Name)
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
	hub := cached[*corev1.Service](c.tree.hub.services, namespace+"/"+name)
	if hub == nil {
		return fmt.Errorf("service %s/%s of the host: %w", namespace, name, errNotYet)
	}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{api.LabelGlobal: "true"}}}
	s.Spec.Ports = slices.Clone(hub.Spec.Ports)
	for i := range s.Spec.Ports {
		s.Spec.Ports[i].NodePort = 0
	}
	s.Spec.ClusterIP = corev1.ClusterIPNone // addresses are the member's own affair
	err := notTaken(ctx, c.member, c.member.client.Services, c.member.services, namespace, name)
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

// importSlice writes one slice, or deletes it where the host has it no more.
func (c *importController) importSlice(ctx context.Context, namespace, name string) error {
	hub := cached[*discoveryv1.EndpointSlice](c.tree.hub.slices, namespace+"/"+name)
	if hub == nil {
		return takeBack(ctx, c.member, c.member.client.Slices, namespace, name)
	}
	s := copySlice(hub)
	err := notTaken(ctx, c.member, c.member.client.Slices, c.member.slices, namespace, name)
	if err == nil {
		_, err = c.member.client.Slices.Update(ctx, s)
	}
	if apierrors.IsNotFound(err) {
		if err = c.namespaces.ensure(ctx, namespace); err == nil {
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

// copySlice is a member's.
func copySlice(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	out := &discoveryv1.EndpointSlice{AddressType: s.AddressType, Endpoints: s.Endpoints, Ports: s.Ports}
	out.Name, out.Namespace = s.Name, s.Namespace
	out.Labels = map[string]string{discoveryv1.LabelServiceName: s.Labels[discoveryv1.LabelServiceName], api.LabelGlobal: "true"}
	return out
}
