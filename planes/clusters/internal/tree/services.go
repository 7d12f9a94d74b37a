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

// watchServices makes the host's caches of what members may import.
func (t *Tree) watchServices() error {
	t.exports = t.loop("exports", exportWorkers, t.export)
	if _, err := t.hub.exports.AddEventHandler(ofMarks(func(key string) {
		t.exports.Queue.Add(key)
		t.hostChanged(key) // for those who asked before it was exported
	})); err != nil {
		return err
	}
	if err := t.watchServiceEnds(); err != nil {
		return err
	}
	_, err := t.hub.slices.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: t.sliceEvent, DeleteFunc: t.sliceEvent,
		UpdateFunc: func(old, o any) {
			if !sameEndpoints(old.(*discoveryv1.EndpointSlice), o.(*discoveryv1.EndpointSlice)) {
				t.sliceEvent(o)
			}
		},
	})
	return err
}

// sliceEvent lets a change of a slice come to those who import its service.
func (t *Tree) sliceEvent(o any) {
	s, ok := loop.Last[*discoveryv1.EndpointSlice](o)
	if !ok {
		return
	}
	key := serviceOf(s)
	if !t.isExported(key) {
		if s.Labels[api.LabelExported] == "true" { // since an export that ended while nobody watched
			t.exports.Queue.Add(key)
		}
		return
	}
	if t.o.Import == ImportMCS {
		t.exports.Queue.Add(key)
	}
	for _, m := range t.leaves.everyMember() {
		m.addImport(key, s.Name)
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

// slicesOf are the host's slices of a service, by name.
func (t *Tree) slicesOf(key string) (out []*discoveryv1.EndpointSlice) {
	all, _ := t.hub.slices.GetIndexer().ByIndex(byService, key)
	for _, o := range all {
		out = append(out, o.(*discoveryv1.EndpointSlice))
	}
	slices.SortFunc(out, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// export marks the slices of a service that members may import: each of them, whenever
// one changes, and says so in an event. Those of one that they may import no more lose
// their marks.
func (t *Tree) export(ctx context.Context, key string) error {
	exported := t.isExported(key)
	for _, s := range t.slicesOf(key) {
		marked := s.Labels[api.LabelExported] == "true"
		if marked == exported && (!exported || t.o.Import == ImportDirect) {
			continue
		}
		next := s.DeepCopy()
		delete(next.Labels, api.LabelExported)
		if exported {
			next.Labels[api.LabelExported] = "true"
		}
		if _, err := t.hub.client.Slices.Update(ctx, next); err != nil {
			return fmt.Errorf("mark slice %s/%s: %w", s.Namespace, s.Name, err)
		}
	}
	if exported && t.o.Import == ImportMCS {
		if err := t.tell(ctx, t.hub.client, key, "ServiceExport"); err != nil {
			return err
		}
	}
	if o, there, _ := t.hub.exports.GetIndexer().GetByKey(key); there {
		return t.keepFinalizer(ctx, t.hub.client.Exports, o.(*api.Mark))
	}
	return nil
}

// tell writes an event.
func (t *Tree) tell(ctx context.Context, c *api.Client, key, kind string) error {
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

// watchImports makes the member's cache of what it asks for.
func (m *member) watchImports() error {
	m.imported = m.client.Imports.Informer("", nil)
	m.imports = m.loop("imports", 1, m.importKey)
	if _, err := m.imported.AddEventHandler(ofMarks(m.addService)); err != nil {
		return err
	}
	return m.watchCopies()
}

// addService puts all of a service into the member's queue, and the question whether it
// is to have it at all.
func (m *member) addService(key string) {
	m.imports.Queue.Add(prefixEnd + key)
	if m.o.Import == ImportMCS && asks(m.importOf(key)) {
		m.imports.Queue.Add(key)
		return
	}
	for _, s := range m.slicesOf(key) {
		m.addImport(key, s.Name)
	}
}

// importAgain puts all that the member imports into its queue: slices that the host got
// after the import was seen and before the member was known would be missing.
func (m *member) importAgain() {
	if m.imported == nil {
		return
	}
	for _, key := range m.imported.GetStore().ListKeys() {
		m.addService(key)
	}
}

// importOf returns the member's import of a service, nil if it has none.
func (m *member) importOf(key string) *api.Mark {
	o, there, _ := m.imported.GetIndexer().GetByKey(key)
	if !there {
		return nil
	}
	return o.(*api.Mark)
}

// asks tells whether an import wants its service: one that is being deleted does not.
func asks(i *api.Mark) bool { return i != nil && i.DeletionTimestamp == nil }

// addImport puts what a member is to get into its queue, if it asks for the service.
func (m *member) addImport(key, slice string) {
	if !asks(m.importOf(key)) {
		return
	}
	if m.o.Import == ImportDirect {
		key += "/" + slice
	}
	m.imports.Queue.Add(key)
}

// importKey brings a service to the member, NAMESPACE/NAME, or one slice alone,
// NAMESPACE/NAME/SLICE; or it takes back what the member is not to have (prefixEnd).
func (m *member) importKey(ctx context.Context, key string) error {
	if service, ok := strings.CutPrefix(key, prefixEnd); ok {
		return m.endImport(ctx, service)
	}
	parts := strings.SplitN(key, "/", 3)
	service := parts[0] + "/" + parts[1]
	i := m.importOf(service)
	if !asks(i) || !m.offers(service) {
		return nil
	}
	if len(parts) == 3 {
		return m.importSlice(ctx, parts[0], parts[2])
	}
	return m.importAll(ctx, service, i)
}

// importAll brings service and all slices, the import's annotation and an event.
func (m *member) importAll(ctx context.Context, service string, i *api.Mark) error {
	namespace, name := cutKey(service)
	if err := m.makeNamespace(ctx, namespace); err != nil {
		return err
	}
	if err := m.importService(ctx, namespace, name); err != nil {
		return err
	}
	addresses, err := m.importSlices(ctx, service)
	if err != nil {
		return err
	}
	i, err = changeMark(ctx, m.client.Imports, i, func(i *api.Mark) {
		metav1.SetMetaDataAnnotation(&i.ObjectMeta, api.AnnotationAddresses, strings.Join(addresses, ","))
	})
	if apierrors.IsInvalid(err) { // too much for an annotation, and so the next time: worth a line
		m.o.Log.Warn("a member refuses an import", "member", m.name, "import", service, "addresses", len(addresses), "error", err)
	}
	if err != nil {
		return fmt.Errorf("import %s of member %s: %w", service, m.name, err)
	}
	if err := m.tell(ctx, m.client, service, "ServiceImport"); err != nil {
		return err
	}
	if err := m.keepFinalizer(ctx, m.client.Imports, i); err != nil {
		return err
	}
	return m.takeOldSlices(ctx, service)
}

// importSlices writes all slices of a service and returns their addresses.
func (m *member) importSlices(ctx context.Context, service string) (addresses []string, err error) {
	for _, s := range m.slicesOf(service) {
		copied := copySlice(s)
		err := notTaken(ctx, m, m.client.Slices, m.brought.slices, s.Namespace, s.Name)
		if err == nil {
			_, err = m.client.Slices.Create(ctx, copied)
		}
		if apierrors.IsAlreadyExists(err) { // as Kosmos finds out that it is there
			_, err = m.client.Slices.Update(ctx, copied)
		}
		if err != nil {
			return nil, fmt.Errorf("slice %s/%s in member %s: %w", s.Namespace, s.Name, m.name, err)
		}
		for i := range s.Endpoints {
			addresses = append(addresses, s.Endpoints[i].Addresses...)
		}
	}
	return addresses, nil
}

// importService writes the member's service.
func (m *member) importService(ctx context.Context, namespace, name string) error {
	o, ok, _ := m.hub.services.GetIndexer().GetByKey(namespace + "/" + name)
	if !ok {
		return fmt.Errorf("service %s/%s of the host: %w", namespace, name, errNotYet)
	}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{api.LabelGlobal: "true"}}}
	s.Spec.Ports = slices.Clone(o.(*corev1.Service).Spec.Ports)
	for i := range s.Spec.Ports {
		s.Spec.Ports[i].NodePort = 0
	}
	s.Spec.ClusterIP = corev1.ClusterIPNone // addresses are the member's own affair
	err := notTaken(ctx, m, m.client.Services, m.brought.services, namespace, name)
	if err == nil {
		_, err = m.client.Services.Update(ctx, s)
	}
	if apierrors.IsNotFound(err) {
		_, err = m.client.Services.Create(ctx, s)
	}
	if err != nil {
		return fmt.Errorf("service %s/%s in member %s: %w", namespace, name, m.name, err)
	}
	return nil
}

// importSlice writes one slice, or deletes it where the host has it no more.
func (m *member) importSlice(ctx context.Context, namespace, name string) error {
	o, ok, _ := m.hub.slices.GetIndexer().GetByKey(namespace + "/" + name)
	if !ok {
		return takeBack(ctx, m, m.client.Slices, namespace, name)
	}
	s := copySlice(o.(*discoveryv1.EndpointSlice))
	err := notTaken(ctx, m, m.client.Slices, m.brought.slices, namespace, name)
	if err == nil {
		_, err = m.client.Slices.Update(ctx, s)
	}
	if apierrors.IsNotFound(err) {
		if err = m.makeNamespace(ctx, namespace); err == nil {
			err = m.importService(ctx, namespace, s.Labels[discoveryv1.LabelServiceName])
		}
		if err == nil {
			_, err = m.client.Slices.Create(ctx, s)
		}
	}
	if err != nil {
		return fmt.Errorf("slice %s/%s in member %s: %w", namespace, name, m.name, err)
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
