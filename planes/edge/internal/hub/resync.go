package hub

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// runRounds looks at all that edges have, again and again.
func (h *Hub) runRounds(ctx context.Context) {
	tick := time.NewTicker(h.o.Round)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			h.resyncAll(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// resyncAll compares what is written down with what there is: all of it, or what the
// hub's own edges have.
func (h *Hub) resyncAll(ctx context.Context) {
	stale := 0
	if h.o.Owner == OwnerAll {
		for _, k := range h.store.keysOf("") {
			stale += h.resyncObject(ctx, k)
		}
	} else {
		for _, s := range h.sessionsToResync() {
			for _, k := range h.store.keysOf(s.node) {
				stale += h.resyncObject(ctx, k)
			}
			h.sendMissing(ctx, s)
		}
	}
	h.stale.Set(float64(stale))
}

// sessionsToResync returns the sessions of nodes that have anything or are to have it: to look
// at each of thousands that have nothing costs more than all that they send.
func (h *Hub) sessionsToResync() (out []*session) {
	seen := map[*session]bool{}
	for _, nodes := range [][]string{h.store.nodesWithObjects(), h.pods.GetIndexer().ListIndexFuncValues(byNode), h.nodes.GetStore().ListKeys()} {
		for _, node := range nodes {
			if s := h.sessions.get(node); s != nil && !seen[s] {
				seen[s] = true
				out = append(out, s)
			}
		}
	}
	return out
}

// resyncObject sends what is newer than the edge has, or that it is gone; it returns 1
// where the edge is behind.
func (h *Hub) resyncObject(ctx context.Context, k key) int {
	o := h.currentObject(k)
	version, _ := h.store.versionOf(k)
	switch operation := h.owedOperation(k, o, version); operation {
	case "":
		return 0
	case message.Delete:
		h.downstream.enqueue(ctx, h.newChange(k.node, k.kind, operation, h.objectOfKey(k)))
	default:
		h.downstream.enqueue(ctx, h.newChange(k.node, k.kind, operation, o))
	}
	return 1
}

// owedOperation decides what an edge that has acknowledged a version of an object is to be
// told of it; empty: nothing. The object is as it is now; nil: it is gone.
//
// Where changes of status do not go down, the version is that of another change; whether
// one was missed while nobody watched cannot be told from it, so that the object goes down
// once more when the edge is back, and never again for that.
//
// KubeEdge does not look at where a device is: a round between its move and the
// acknowledgement of that sends it to its old edge again, which keeps it.
func (h *Hub) owedOperation(k key, o metav1.Object, version uint64) string {
	x, _ := o.(*api.Device)
	switch {
	case o == nil || string(o.GetUID()) != k.uid || x != nil && x.Spec.NodeName != k.node && h.o.DeviceLookup == LookupIndex:
		return message.Delete
	case parseVersion(o.GetResourceVersion()) <= version || k.kind == message.TypeNode && h.o.NodeFilter == FilterOff:
		return ""
	case version != 0 && h.o.omitsStatus(k.kind) && h.lastSent.hasSent(k, o):
		return ""
	}
	return message.Update
}

// currentObject returns an object as it is.
func (h *Hub) currentObject(k key) metav1.Object {
	informer, id := h.pods, k.namespace+"/"+k.name
	switch k.kind {
	case message.TypeConfigMap:
		informer = h.configs
	case message.TypeSecret:
		informer = h.secrets
	case message.TypeNode:
		informer, id = h.nodes, k.name
	case message.TypeDevice, message.TypeModel:
		if h.devices == nil {
			return nil
		}
		informer = h.devices.informer
		if k.kind == message.TypeModel {
			if informer = h.devices.models; h.devices.leftBehind(k) {
				return nil
			}
		}
	}
	return slim.Get[metav1.Object](informer, id)
}

// objectOfKey is what is known of an object that is gone.
func (h *Hub) objectOfKey(k key) metav1.Object {
	m := metav1.ObjectMeta{Namespace: k.namespace, Name: k.name, UID: types.UID(k.uid)}
	switch k.kind {
	case message.TypeConfigMap:
		return &corev1.ConfigMap{ObjectMeta: m}
	case message.TypeSecret:
		return &corev1.Secret{ObjectMeta: m}
	case message.TypeNode:
		return &corev1.Node{ObjectMeta: m}
	case message.TypeDevice:
		return &api.Device{ObjectMeta: m}
	case message.TypeModel:
		return &api.DeviceModel{ObjectMeta: m}
	}
	return &corev1.Pod{ObjectMeta: m}
}

// resyncReturned sends an edge that has come back what it has missed, if that is not left to
// the rounds.
func (h *Hub) resyncReturned(ctx context.Context, s *session) {
	full := h.o.Resync == ResyncFull || h.o.Store == StoreNone
	switch {
	case full:
		for _, p := range h.podsOf(s.node) {
			h.sendAlways(s, h.newChange(s.node, message.TypePod, message.Update, p))
			for _, c := range h.usedBy(s.node, p) {
				h.sendAlways(s, c)
			}
		}
		if h.devices != nil {
			devices, models := h.devices.devicesOf(s.node)
			for _, m := range models {
				h.sendAlways(s, h.newChange(s.node, message.TypeModel, message.Update, m))
			}
			for _, x := range devices {
				h.sendAlways(s, h.newChange(s.node, message.TypeDevice, message.Update, x))
			}
		}
	case h.o.Resync == ResyncConnect:
		for _, k := range h.store.keysOf(s.node) {
			h.resyncObject(ctx, k)
		}
		h.sendMissing(ctx, s)
	}
}

// sendAlways sends an object whatever the edge has.
func (h *Hub) sendAlways(s *session, c change) {
	if m, err := c.newOutgoing(h); err == nil {
		s.enqueue(m)
	}
}

// sendMissing sends the pods of an edge, its devices and its node, of which nothing is
// written down.
func (h *Hub) sendMissing(ctx context.Context, s *session) {
	if h.devices != nil {
		h.devices.sendMissing(ctx, s.node)
	}
	for _, p := range h.podsOf(s.node) {
		h.downstream.enqueueUnrecorded(ctx, h.newChange(s.node, message.TypePod, message.Insert, p))
	}
	if n := slim.Get[*corev1.Node](h.nodes, s.node); n != nil && h.o.NodeFilter != FilterOff {
		h.downstream.enqueueUnrecorded(ctx, h.newChange(s.node, message.TypeNode, message.Update, n))
	}
}

func (h *Hub) podsOf(node string) []*corev1.Pod {
	return slim.ByIndex[*corev1.Pod](h.pods, byNode, node)
}

// usedBy are the ConfigMaps and Secrets of a pod, as changes for its node.
func (h *Hub) usedBy(node string, p *corev1.Pod) (out []change) {
	for _, id := range api.References(p) {
		kind, rest, _ := cutKind(id)
		informer := h.configs
		if kind == message.TypeSecret {
			informer = h.secrets
		}
		if o := slim.Get[metav1.Object](informer, rest); o != nil {
			out = append(out, h.newChange(node, kind, message.Update, o))
		}
	}
	return out
}

// nodeDeleted ends the edge's session and forgets what it had.
func (h *Hub) nodeDeleted(ctx context.Context, node string) {
	_ = h.sessions.takeUnsent(node)
	if s := h.sessions.get(node); s != nil {
		s.closeWithReason("node deleted")
	} else if h.o.Owner == OwnerOwn {
		return
	}
	for _, k := range h.store.keysOf(node) {
		if err := h.store.recordDeleted(ctx, k); err != nil {
			h.o.Log.Warn("ObjectSync not deleted", "name", api.SyncName(k.node, k.uid), "error", err)
		}
	}
}
