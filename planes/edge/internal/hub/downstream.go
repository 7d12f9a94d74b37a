package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// change is something that an edge is to be told.
type change struct {
	key
	operation string
	object    any // what is sent
	version   uint64
	at        clock.Time
	answer    func() // sends an answer, which is all that the change is; nil: it is none
}

// downstream takes changes from the watches to the sessions.
type downstream struct {
	hub          *Hub
	queue        []chan change // one for each dispatcher
	mu           sync.Mutex
	referencedBy map[string]map[string]bool // kind/namespace/name of a ConfigMap or Secret -> nodes that ever had a pod with it
}

func newDownstream(h *Hub) *downstream {
	d := &downstream{hub: h, referencedBy: map[string]map[string]bool{}}
	for range h.o.Dispatchers {
		d.queue = append(d.queue, make(chan change, h.o.Buffer.other))
	}
	return d
}

// startDispatchers dispatches until ctx ends. There is one dispatcher, or an edge's changes go
// all to the same.
func (d *downstream) startDispatchers(ctx context.Context) {
	for _, q := range d.queue {
		d.hub.wait.Go(func() { runQueue(ctx, q, d.dispatchChange) })
	}
}

// enqueue hands a change to its dispatcher; a full one holds up the watch.
func (d *downstream) enqueue(ctx context.Context, c change) {
	select {
	case queueOf(d.queue, c.node) <- c:
	case <-ctx.Done():
	}
}

// enqueueUnrecorded hands on a change of an object of which nothing is written down for its edge.
func (d *downstream) enqueueUnrecorded(ctx context.Context, c change) {
	if _, ok := d.hub.store.versionOf(c.key); !ok {
		d.enqueue(ctx, c)
	}
}

// dispatchChange does with a change what follows from its situation.
func (d *downstream) dispatchChange(ctx context.Context, c change) {
	if c.answer != nil {
		c.answer()
		return
	}
	h := d.hub
	s := h.sessions.get(c.node)
	now := d.situationOf(s, c)
	to := now.routeTo(&h.o)
	if now.needsBirth(&h.o) && !d.beginRecord(ctx, c) {
		return
	}
	switch to {
	case toForeign:
		h.sessions.addForeign(c.node)
	case toSession, toLeft:
		m, err := c.newOutgoing(h)
		switch {
		case err != nil:
			h.o.Log.Error("object cannot be sent", "node", c.node, "object", c.name, "error", err)
		case to == toSession:
			s.enqueue(m)
		case !h.sessions.addUnsent(m):
			h.sessions.addForeign(c.node)
		}
	}
}

// situationOf returns what is known when a change comes.
func (d *downstream) situationOf(s *session, c change) situation {
	now := situation{deletion: c.operation == message.Delete, version: c.version, connected: s != nil}
	if s != nil {
		now.waiting = s.newestOf(c.key)
	} else if d.hub.o.Owner == OwnerOwn {
		return now // of what concerns edges of other hubs there is much, and nothing follows from it
	}
	if now.waiting == nil && !now.deletion {
		now.acked, now.stored = d.hub.store.versionOf(c.key)
	}
	return now
}

// beginRecord writes down that a new object is sent. It returns false if that is not to be, or
// did not succeed: the next round sends the object.
func (d *downstream) beginRecord(ctx context.Context, c change) bool {
	h := d.hub
	err := h.store.beginObject(ctx, c.key)
	switch {
	case err == nil:
		return true
	case apierrors.IsAlreadyExists(err):
		h.metrics.dropped.WithLabelValues("another hub was faster").Inc()
	default:
		h.metrics.dropped.WithLabelValues("not written down").Inc()
		h.o.Log.Warn("ObjectSync not made", "node", c.node, "object", c.name, "error", err)
	}
	return false
}

// newOutgoing makes the message of a change.
func (c change) newOutgoing(h *Hub) (*outgoing, error) {
	raw, err := json.Marshal(c.object)
	if err != nil {
		return nil, err
	}
	namespace, source := c.namespace, message.SourceCloud
	switch c.kind {
	case message.TypeNode:
		namespace = message.NamespaceDown
	case message.TypeDevice, message.TypeModel:
		source = message.SourceDevice
	}
	m := message.New(h.wallMillis(), message.Route{
		Source: source, Group: message.GroupCloud, Operation: c.operation,
		Resource: message.Resource{Namespace: namespace, Type: c.kind, Name: c.name}.String(),
	}, withKind(raw, c.kind))
	m.Header.ResourceVersion = metaOf(c.object).GetResourceVersion()
	out := &outgoing{key: c.key, message: m, version: c.version, deletion: c.operation == message.Delete, event: c.at}
	if h.lastSent.filtered && (c.kind == message.TypePod || c.kind == message.TypeNode) {
		out.sum = api.Sum(metaOf(c.object))
	}
	return out, nil
}

// withKind adds to an object, as watches bring it, what an edge knows it by.
func withKind(raw []byte, resource string) []byte {
	if bytes.HasPrefix(raw, []byte(`{"kind":`)) || bytes.HasPrefix(raw, []byte(`{"apiVersion":`)) {
		return raw
	}
	version, kind := kindOf(resource)
	return append(fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,`, kind, version), raw[1:]...)
}

func metaOf(o any) metav1.Object { return o.(metav1.Object) }

// newChange makes one of an object that concerns a node.
func (h *Hub) newChange(node, kind, operation string, o metav1.Object) change {
	return change{
		key:       key{node: node, kind: kind, namespace: o.GetNamespace(), name: o.GetName(), uid: string(o.GetUID())},
		operation: operation, object: o, version: parseVersion(o.GetResourceVersion()), at: h.o.Clock.Now(),
	}
}

// isEdge says whether a node is one.
func (h *Hub) isEdge(name string) bool {
	n := slim.Get[*corev1.Node](h.nodes, name)
	if n == nil {
		return false
	}
	_, edge := n.Labels[api.LabelEdge]
	return edge
}

// addHandlers says what events bring.
func (d *downstream) addHandlers(ctx context.Context) error {
	h := d.hub
	later := loop.Handler(func(old, now *corev1.Node) { d.onNode(ctx, old, now) })
	_, err := h.nodes.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, first bool) {
			if !first { // nobody is connected at the first list
				later.OnAdd(o, false)
			}
		},
		UpdateFunc: later.OnUpdate, DeleteFunc: later.OnDelete,
	})
	return errors.Join(err, loop.Watch(h.pods, func(old, now *corev1.Pod) { d.onPod(ctx, old, now) }),
		d.watchReferenced(ctx, h.configs, message.TypeConfigMap), d.watchReferenced(ctx, h.secrets, message.TypeSecret))
}

func (d *downstream) onPod(ctx context.Context, old, now *corev1.Pod) {
	if now == nil {
		if d.hub.isEdge(old.Spec.NodeName) {
			d.enqueue(ctx, d.hub.newChange(old.Spec.NodeName, message.TypePod, message.Delete, old))
		}
		return
	}
	if now.Spec.NodeName == "" || !d.hub.isEdge(now.Spec.NodeName) {
		return
	}
	d.addReferences(now)
	operation := message.Update
	switch {
	case old == nil:
		operation = message.Insert
	case old.Spec.NodeName != "" && d.samePod(old, now):
		return
	}
	d.enqueue(ctx, d.hub.newChange(now.Spec.NodeName, message.TypePod, operation, now))
}

// samePod says that nothing changed that an edge is told. KubeEdge leaves out
// version and status, and compares managedFields, in which every status shows.
func (d *downstream) samePod(a, b *corev1.Pod) bool {
	x, y := a.ObjectMeta, b.ObjectMeta
	x.ResourceVersion, y.ResourceVersion = "", ""
	if d.hub.o.PodFilter == FilterSpec {
		x.ManagedFields, y.ManagedFields = nil, nil
		x.Generation, y.Generation = 0, 0
		if x.DeletionTimestamp != nil && y.DeletionTimestamp != nil { // the edge ends it already
			x.DeletionTimestamp, x.DeletionGracePeriodSeconds = y.DeletionTimestamp, y.DeletionGracePeriodSeconds
		}
	}
	return reflect.DeepEqual(x, y) && reflect.DeepEqual(a.Spec, b.Spec)
}

// seenBefore takes up the pods and devices of a node that were seen before it, or its label, was: the
// watches of both are two.
func (d *downstream) seenBefore(ctx context.Context, node string) {
	for _, p := range d.hub.podsOf(node) {
		d.onPod(ctx, nil, p)
	}
	if d.hub.devices != nil {
		d.hub.devices.sendMissing(ctx, node)
	}
}

func (d *downstream) onNode(ctx context.Context, old, now *corev1.Node) {
	if now == nil {
		d.hub.nodeDeleted(ctx, old.Name)
		return
	}
	_, edge := now.Labels[api.LabelEdge]
	wasEdge := false
	if old != nil {
		_, wasEdge = old.Labels[api.LabelEdge]
	}
	if edge && !wasEdge {
		d.seenBefore(ctx, now.Name)
	}
	if edge && old != nil && d.nodeDiffers(old, now) {
		d.enqueue(ctx, d.hub.newChange(now.Name, message.TypeNode, message.Update, now))
	}
}

// nodeDiffers says that something changed that an edge is told.
func (d *downstream) nodeDiffers(a, b *corev1.Node) bool {
	switch d.hub.o.NodeFilter {
	case FilterOff:
		return false
	case FilterSpec:
		return !reflect.DeepEqual(a.Labels, b.Labels) || !reflect.DeepEqual(a.Annotations, b.Annotations) || !reflect.DeepEqual(a.Spec, b.Spec)
	}
	return a.ResourceVersion != b.ResourceVersion
}

// addReferences remembers which ConfigMaps and Secrets an edge has pods with.
func (d *downstream) addReferences(p *corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range api.References(p) {
		if d.referencedBy[id] == nil {
			d.referencedBy[id] = map[string]bool{}
		}
		d.referencedBy[id][p.Spec.NodeName] = true
	}
}

// watchReferenced sends changes of what pods use to every edge that ever had one with it.
func (d *downstream) watchReferenced(ctx context.Context, i cache.SharedIndexInformer, kind string) error {
	send := func(operation string, o metav1.Object) {
		d.mu.Lock()
		nodes := slices.Sorted(maps.Keys(d.referencedBy[kind+"/"+o.GetNamespace()+"/"+o.GetName()]))
		d.mu.Unlock()
		for _, node := range nodes {
			d.enqueue(ctx, d.hub.newChange(node, kind, operation, o))
		}
	}
	return loop.Watch(i, func(old, now metav1.Object) {
		switch {
		case now == nil:
			send(message.Delete, old)
		case old == nil && kind == message.TypeConfigMap:
			send(message.Insert, now)
		case old != nil && old.GetResourceVersion() != now.GetResourceVersion():
			send(message.Update, now)
		}
	})
}
