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
	t.slices = t.host.Slices.Informer("", cache.Indexers{byService: func(o any) ([]string, error) { return []string{serviceOf(o)}, nil }})
	t.exported = t.host.Exports.Informer("", nil)
	t.exports = t.loop("exports", exportWorkers, t.export)
	if err := t.slices.SetTransform(slimObject); err != nil {
		return err
	}
	if _, err := t.exported.AddEventHandler(loop.Each(func(o any) {
		if key, ok := loop.Key(o); ok {
			t.exports.Queue.Add(key)
			for _, s := range t.slicesOf(key) { // for those who asked before it was exported
				for _, m := range t.leaves.everyMember() {
					m.addImport(key, s.Name)
				}
			}
		}
	})); err != nil {
		return err
	}
	_, err := t.slices.AddEventHandler(cache.ResourceEventHandlerFuncs{
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
	if _, exported, _ := t.exported.GetIndexer().GetByKey(key); !exported {
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

func sameEndpoints(a, b *discoveryv1.EndpointSlice) bool {
	x, errX := (&discoveryv1.EndpointSlice{Endpoints: a.Endpoints, Ports: a.Ports, AddressType: a.AddressType}).Marshal()
	y, errY := (&discoveryv1.EndpointSlice{Endpoints: b.Endpoints, Ports: b.Ports, AddressType: b.AddressType}).Marshal()
	return errX == nil && errY == nil && string(x) == string(y)
}

// slicesOf are the host's slices of a service, by name.
func (t *Tree) slicesOf(key string) (out []*discoveryv1.EndpointSlice) {
	all, _ := t.slices.GetIndexer().ByIndex(byService, key)
	for _, o := range all {
		out = append(out, o.(*discoveryv1.EndpointSlice))
	}
	slices.SortFunc(out, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// export marks the slices of a service that members may import: each of them, whenever
// one changes, and says so in an event.
func (t *Tree) export(ctx context.Context, key string) error {
	_, exported, _ := t.exported.GetIndexer().GetByKey(key)
	if !exported {
		return nil
	}
	for _, s := range t.slicesOf(key) {
		if t.o.Import == ImportDirect && s.Labels[api.LabelExported] == "true" {
			continue
		}
		next := s.DeepCopy()
		next.Labels[api.LabelExported] = "true"
		if _, err := t.host.Slices.Update(ctx, next); err != nil {
			return fmt.Errorf("mark slice %s/%s: %w", s.Namespace, s.Name, err)
		}
	}
	if t.o.Import == ImportMCS {
		return t.tell(ctx, t.host, key, "ServiceExport")
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
	_, err := m.imported.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
		key, ok := loop.Key(o)
		switch {
		case !ok:
		case m.o.Import == ImportMCS:
			m.imports.Queue.Add(key)
		default:
			for _, s := range m.slicesOf(key) {
				m.imports.Queue.Add(key + "/" + s.Name)
			}
		}
	}})
	return err
}

// addImport puts what a member is to get into its queue, if it asks for the service.
func (m *member) addImport(key, slice string) {
	if _, asked, _ := m.imported.GetIndexer().GetByKey(key); !asked {
		return
	}
	if m.o.Import == ImportDirect {
		key += "/" + slice
	}
	m.imports.Queue.Add(key)
}

// importKey brings a service to the member, NAMESPACE/NAME: service, all slices, the
// import's annotation and an event; or one slice alone, NAMESPACE/NAME/SLICE.
func (m *member) importKey(ctx context.Context, key string) error {
	parts := strings.SplitN(key, "/", 3)
	service := parts[0] + "/" + parts[1]
	o, asked, _ := m.imported.GetIndexer().GetByKey(service)
	if _, exported, _ := m.exported.GetIndexer().GetByKey(service); !exported || !asked {
		return nil
	}
	if len(parts) == 3 {
		return m.importSlice(ctx, parts[0], parts[2])
	}
	if err := m.makeNamespace(ctx, parts[0]); err != nil {
		return err
	}
	if err := m.importService(ctx, parts[0], parts[1]); err != nil {
		return err
	}
	var addresses []string
	for _, s := range m.slicesOf(service) {
		copied := copySlice(s)
		_, err := m.client.Slices.Create(ctx, copied)
		if apierrors.IsAlreadyExists(err) { // as Kosmos finds out that it is there
			_, err = m.client.Slices.Update(ctx, copied)
		}
		if err != nil {
			return fmt.Errorf("slice %s/%s in member %s: %w", s.Namespace, s.Name, m.name, err)
		}
		for i := range s.Endpoints {
			addresses = append(addresses, s.Endpoints[i].Addresses...)
		}
	}
	next := o.(*api.Mark).DeepCopyObject().(*api.Mark)
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, api.AnnotationAddresses, strings.Join(addresses, ","))
	if _, err := m.client.Imports.Update(ctx, next); err != nil {
		return fmt.Errorf("import %s of member %s: %w", service, m.name, err)
	}
	return m.tell(ctx, m.client, service, "ServiceImport")
}

// importService writes the member's service.
func (m *member) importService(ctx context.Context, namespace, name string) error {
	o, ok, _ := m.service.GetIndexer().GetByKey(namespace + "/" + name)
	if !ok {
		return fmt.Errorf("service %s/%s of the host: %w", namespace, name, errNotYet)
	}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{api.LabelGlobal: "true"}}}
	s.Spec.Ports = slices.Clone(o.(*corev1.Service).Spec.Ports)
	for i := range s.Spec.Ports {
		s.Spec.Ports[i].NodePort = 0
	}
	s.Spec.ClusterIP = corev1.ClusterIPNone // addresses are the member's own affair
	_, err := m.client.Services.Update(ctx, s)
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
	o, ok, _ := m.Tree.slices.GetIndexer().GetByKey(namespace + "/" + name)
	if !ok {
		return client404(m.client.Slices.Delete(ctx, namespace, name, metav1.DeleteOptions{}))
	}
	s := copySlice(o.(*discoveryv1.EndpointSlice))
	_, err := m.client.Slices.Update(ctx, s)
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
