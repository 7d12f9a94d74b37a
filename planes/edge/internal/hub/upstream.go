package hub

import (
	"context"
	"sync"

	authv1 "k8s.io/api/authentication/v1"
	coordv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// upstream takes requests of edges to workers: one queue without end, then one of each
// type with its own workers. One that is full stops all behind it, as in KubeEdge.
type upstream struct {
	hub      *Hub
	mu       sync.Mutex
	waiting  []*request
	wake     chan struct{}
	channels map[string]requestQueues
}

// requestQueues are where requests of one type wait.
type requestQueues []requestQueue

// requestQueue is one queue. Its workers begin when there is something to do and end when there
// is nothing: KubeEdge has two for each edge of its limit, which would be most of a hub's memory.
type requestQueue struct {
	waiting chan *request
	working chan struct{} // as many as workers are at work, of those that may be
}

func newUpstream(h *Hub) *upstream {
	u := &upstream{hub: h, wake: make(chan struct{}, 1), channels: map[string]requestQueues{}}
	for _, kind := range handledTypes() {
		var l requestQueues
		workers, queues := h.o.Workers.of(kind, h.o.NodeLimit), 1
		switch {
		case kind == message.TypeTwin && h.devices == nil:
			continue
		case kind == message.TypeTwin:
			// Reports of one device wait for one worker: were two written at once, the older
			// could be the last, and would stand until the next report.
			workers, queues = 1, h.o.DeviceWorkers
		case h.o.Requests == RequestsOrdered:
			workers, queues = 1, workers
		}
		for range queues {
			l = append(l, requestQueue{make(chan *request, h.o.Buffer.of(kind, h.o.NodeLimit)), make(chan struct{}, workers)})
		}
		u.channels[kind] = l
	}
	return u
}

func (u *upstream) queueDepth() int {
	u.mu.Lock()
	n := len(u.waiting)
	u.mu.Unlock()
	for _, l := range u.channels {
		for _, q := range l {
			n += len(q.waiting)
		}
	}
	return n
}

func (u *upstream) addRequest(q *request) {
	u.mu.Lock()
	u.waiting = append(u.waiting, q)
	u.mu.Unlock()
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// dispatchRequests hands requests to the workers of their types until ctx ends.
func (u *upstream) dispatchRequests(ctx context.Context) {
	for {
		select {
		case <-u.wake:
		case <-ctx.Done():
			return
		}
		u.mu.Lock()
		todo := u.waiting
		u.waiting = nil
		u.mu.Unlock()
		for _, q := range todo {
			to := queueOf(u.channels[q.resource.Type], q.resource.Namespace+"/"+q.resource.Name)
			select {
			case to.waiting <- q:
				u.startWorker(ctx, to)
			case <-ctx.Done():
				return
			}
		}
	}
}

// startWorker starts a worker of a queue, if there may be one more.
func (u *upstream) startWorker(ctx context.Context, from requestQueue) {
	select {
	case from.working <- struct{}{}:
		u.hub.wait.Go(func() { u.work(ctx, from) })
	default:
	}
}

// work answers what waits in a queue until nothing does. A request that comes while a worker
// ends is seen by that worker or by whoever has put it into the queue.
func (u *upstream) work(ctx context.Context, from requestQueue) {
	for ctx.Err() == nil {
		select {
		case q := <-from.waiting:
			u.answerRequest(ctx, q)
			continue
		default:
		}
		<-from.working
		if len(from.waiting) == 0 {
			return
		}
		select {
		case from.working <- struct{}{}:
		default:
			return
		}
	}
}

// onMessage sorts what an edge sends.
func (h *Hub) onMessage(s *session, m message.Message) {
	if m.Route.Operation == message.Keepalive {
		h.metrics.keepalives.Inc()
		s.last.Store(int64(h.o.Clock.Now()))
		return
	}
	kind := typeOf(m.Route.Resource)
	h.metrics.messages.WithLabelValues("up", knownOrOther(m.Route.Operation, message.Insert, message.Update, message.Patch, message.Delete, message.Query, message.Response, message.Error), kind).Inc()
	switch {
	case m.Ack():
		s.onAcknowledgement(m.Header.ParentID)
	case m.Header.ParentID != "":
		h.metrics.dropped.WithLabelValues("an edge's error").Inc()
	case m.Route.Source == message.SourceCloud || m.Route.Source == message.SourceHub:
		h.metrics.dropped.WithLabelValues("source is the cloud").Inc()
	default:
		r, err := message.ParseResource(m.Route.Resource)
		if err != nil || h.upstream.channels[r.Type] == nil {
			h.metrics.dropped.WithLabelValues("unknown resource").Inc()
			return
		}
		h.upstream.addRequest(&request{session: s, message: m, resource: r})
	}
}

// typeOf returns the type of a resource as a label, of which there are few.
func typeOf(resource string) string {
	r, err := message.ParseResource(resource)
	if err != nil {
		return knownOrOther(resource, message.TypeNode)
	}
	return knownOrOther(r.Type, handledTypes()...)
}

// knownOrOther returns a word if it is one of those, so that peers cannot make labels.
func knownOrOther(word string, words ...string) string {
	for _, w := range words {
		if w == word {
			return w
		}
	}
	return "other"
}

// answerRequest does what an edge asks and answers.
func (u *upstream) answerRequest(ctx context.Context, q *request) {
	if q.session.hasEnded() {
		return
	}
	if q.resource.Type == message.TypeTwin {
		u.hub.devices.recordReport(ctx, q)
		return
	}
	o, err := u.doRequest(ctx, q)
	if ctx.Err() != nil {
		return
	}
	if q.resource.Acked() && err == nil {
		u.answerObject(ctx, q, o)
		return
	}
	content, err := encodeResult(q.message.Route.Operation+" "+q.resource.Type, o, err)
	if err != nil {
		u.hub.o.Log.Error("answer cannot be written", "resource", q.message.Route.Resource, "error", err)
		return
	}
	m := q.message.Reply(u.hub.wallMillis(), message.SourceCloud, content)
	u.sendAnswer(ctx, q, func() { q.session.sendAnswer(&m) })
}

// sendAnswer lets an answer be sent: at once, or behind all that goes down to edges.
func (u *upstream) sendAnswer(ctx context.Context, q *request, send func()) {
	if u.hub.o.Answers == AnswersDirect {
		send()
		return
	}
	u.hub.downstream.enqueue(ctx, change{key: key{node: q.session.node}, answer: send})
}

// answerObject answers with a ConfigMap or Secret, which the edge acknowledges.
func (u *upstream) answerObject(ctx context.Context, q *request, o any) {
	c := u.hub.newChange(q.session.node, q.resource.Type, message.Response, metaOf(o))
	c.object = o
	out, err := c.newOutgoing(u.hub)
	if err != nil {
		u.hub.o.Log.Error("object cannot be sent", "resource", q.message.Route.Resource, "error", err)
		return
	}
	out.message.Header.ParentID, out.message.Route.Resource = q.message.Header.ID, q.message.Route.Resource
	out.answer = true
	u.sendAnswer(ctx, q, func() {
		if u.hub.o.Answers == AnswersDirect && q.session.newestOf(out.key) != nil {
			q.session.sendAnswer(&out.message) // what waits for an acknowledgement is the same or newer
			return
		}
		q.session.enqueue(out)
	})
}

// doRequest makes the call that a request asks for, or looks at what the hub's watches hold.
func (u *upstream) doRequest(ctx context.Context, q *request) (any, error) {
	content, err := decodeContent(q.message.Route.Operation+" "+q.resource.Type, q.message.Content)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	c, r := u.hub.client, q.resource
	switch content := content.(type) {
	case *corev1.Node:
		return u.createNode(ctx, content)
	case mergePatch:
		if r.Type == message.TypeNodePatch {
			return c.CoreV1().Nodes().Patch(ctx, r.Name, types.StrategicMergePatchType, content, metav1.PatchOptions{}, "status")
		}
		return c.CoreV1().Pods(r.Namespace).Patch(ctx, r.Name, types.StrategicMergePatchType, content, metav1.PatchOptions{}, "status")
	case *corev1.NodeStatus:
		return nil, u.writeStatus(ctx, content, r.Name)
	case *metav1.DeleteOptions:
		err := c.CoreV1().Pods(r.Namespace).Delete(ctx, r.Name, *content)
		if apierrors.IsNotFound(err) {
			err = nil // what is gone is what the edge wants gone
		}
		return nil, err
	case []message.PodStatus:
		return nil, u.writePodStatus(ctx, content, r.Namespace)
	case *coordv1.Lease:
		if q.message.Route.Operation == message.Insert {
			return c.CoordinationV1().Leases(r.Namespace).Create(ctx, content, metav1.CreateOptions{})
		}
		return c.CoordinationV1().Leases(r.Namespace).Update(ctx, content, metav1.UpdateOptions{})
	case *authv1.TokenRequest:
		return c.CoreV1().ServiceAccounts(r.Namespace).CreateToken(ctx, r.Name, content, metav1.CreateOptions{})
	}
	return u.answerQuery(ctx, q)
}

// answerQuery reads what a query asks for: at the API server a lease that no watch brings, and
// everything else in the hub's own watches.
func (u *upstream) answerQuery(ctx context.Context, q *request) (any, error) {
	h, r := u.hub, q.resource
	switch r.Type {
	case message.TypeNode:
		return objectHeld[*corev1.Node](h.nodes, r, r.Name)
	case message.TypePodList:
		return u.podsOf(q.session.node), nil
	case message.TypeConfigMap:
		return objectHeld[*corev1.ConfigMap](h.configs, r, r.Namespace+"/"+r.Name)
	case message.TypeSecret:
		return objectHeld[*corev1.Secret](h.secrets, r, r.Namespace+"/"+r.Name)
	}
	if h.leases != nil {
		return objectHeld[*coordv1.Lease](h.leases, r, r.Namespace+"/"+r.Name)
	}
	return h.client.CoordinationV1().Leases(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
}

// objectHeld returns what the hub's own watch has of an object, by its key.
func objectHeld[T metav1.Object](i cache.SharedIndexInformer, r message.Resource, key string) (T, error) {
	var none T
	o, ok := slim.Lookup[T](i, key)
	if !ok {
		return none, apierrors.NewNotFound(schema.GroupResource{Resource: r.Type + "s"}, r.Name)
	}
	return o, nil
}

// podsOf returns the pods of an edge, as the hub's own watch has them.
func (u *upstream) podsOf(node string) []corev1.Pod {
	out := []corev1.Pod{}
	for _, p := range u.hub.podsOf(node) {
		out = append(out, *p)
	}
	return out
}

// writeStatus writes the status that an edge as old as v1.11 has sent: it reads the node
// and writes all of it back.
func (u *upstream) writeStatus(ctx context.Context, status *corev1.NodeStatus, node string) error {
	nodes := u.hub.client.CoreV1().Nodes()
	n, err := nodes.Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	n.Status = *status
	_, err = nodes.UpdateStatus(ctx, n, metav1.UpdateOptions{})
	return err
}

// writePodStatus writes the statuses of pods that an edge as old as v1.11 has sent: the hub
// reads each pod, writes its status, and deletes the pod when it is over and to be deleted.
func (u *upstream) writePodStatus(ctx context.Context, said []message.PodStatus, namespace string) error {
	pods := u.hub.client.CoreV1().Pods(namespace)
	for _, x := range said {
		p, err := pods.Get(ctx, x.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && p.UID != x.UID {
			continue
		}
		if err == nil {
			p.Status = x.Status
			p, err = pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
		}
		if err == nil && p.DeletionTimestamp != nil && x.Status.Phase == corev1.PodSucceeded {
			zero := int64(0)
			err = pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &p.UID}})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// createNode makes a node, at KubeEdge's hub with a second call for the labels that are Kubernetes' own.
func (u *upstream) createNode(ctx context.Context, n *corev1.Node) (any, error) {
	patch := prepareNode(n, &u.hub.o)
	made, err := u.hub.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
	if err != nil || patch == nil {
		return made, err
	}
	return u.hub.client.CoreV1().Nodes().Patch(ctx, n.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
}
