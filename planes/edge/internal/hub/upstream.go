package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	authv1 "k8s.io/api/authentication/v1"
	coordv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// request is what an edge asks for.
type request struct {
	session  *session
	message  message.Message
	resource message.Resource
}

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
type requestQueues struct {
	queues  []chan *request
	workers int // of each
}

// handledTypes are the types of messages from edges that a hub does something about.
func handledTypes() []string {
	return []string{message.TypeNode, message.TypeNodePatch, message.TypeNodeStatus, message.TypeLease, message.TypePod, message.TypePodPatch,
		message.TypeConfigMap, message.TypeSecret, message.TypeToken, message.TypeTwin}
}

func newUpstream(h *Hub) *upstream {
	u := &upstream{hub: h, wake: make(chan struct{}, 1), channels: map[string]requestQueues{}}
	for _, kind := range handledTypes() {
		l, queues := requestQueues{workers: h.o.Workers}, 1
		switch {
		case kind == message.TypeTwin && h.devices == nil:
			continue
		case kind == message.TypeTwin:
			// Reports of one device wait for one worker: were two written at once, the older
			// could be the last, and would stand until the next report.
			l.workers, queues = 1, h.o.DeviceWorkers
		case h.o.Requests == RequestsOrdered:
			l.workers, queues = 1, h.o.Workers
		}
		for range queues {
			l.queues = append(l.queues, make(chan *request, h.o.Buffer))
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
		for _, c := range l.queues {
			n += len(c)
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

func (u *upstream) startWorkers(ctx context.Context) {
	for _, l := range u.channels {
		for _, c := range l.queues {
			for range l.workers {
				u.hub.wait.Go(func() { runQueue(ctx, c, u.answerRequest) })
			}
		}
	}
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
			select {
			case queueOf(u.channels[q.resource.Type].queues, q.resource.Namespace+"/"+q.resource.Name) <- q:
			case <-ctx.Done():
				return
			}
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
		if err != nil || h.upstream.channels[r.Type].queues == nil {
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

// errOperation says that a resource has no such operation.
var errOperation = errors.New("no such operation")

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
	if q.resource.Acked() {
		u.answerObject(q, o, err)
		return
	}
	var content []byte
	switch {
	case (q.resource.Type == message.TypePod || q.resource.Type == message.TypeNodeStatus) && err == nil:
		content = []byte(message.OK)
	default:
		if content, err = encodeResult(o, err); err != nil {
			u.hub.o.Log.Error("answer cannot be written", "resource", q.message.Route.Resource, "error", err)
			return
		}
	}
	m := q.message.Reply(u.hub.wallMillis(), message.SourceCloud, content)
	q.session.sendAnswer(&m)
}

// encodeResult is the content of an answer: an object and an error.
func encodeResult(o any, err error) ([]byte, error) {
	var out struct {
		Object any
		Err    any
	}
	var status apierrors.APIStatus
	switch {
	case err == nil:
		out.Object = o
	case errors.As(err, &status):
		out.Err = map[string]any{"ErrStatus": status.Status()}
	default:
		out.Err = map[string]any{"ErrStatus": metav1.Status{Status: metav1.StatusFailure, Message: err.Error(), Reason: metav1.StatusReasonInternalError, Code: 500}}
	}
	return json.Marshal(out)
}

// answerObject answers with a ConfigMap or Secret, which the edge acknowledges.
func (u *upstream) answerObject(q *request, o any, err error) {
	if err != nil {
		text, _ := json.Marshal(err.Error()) // a string can always be
		m := q.message.Reply(u.hub.wallMillis(), message.SourceCloud, text)
		m.Route.Operation = message.Error
		q.session.sendAnswer(&m)
		return
	}
	c := u.hub.newChange(q.session.node, q.resource.Type, message.Response, metaOf(o))
	c.object = o
	out, err := c.newOutgoing(u.hub)
	if err != nil {
		u.hub.o.Log.Error("object cannot be sent", "resource", q.message.Route.Resource, "error", err)
		return
	}
	out.message.Header.ParentID, out.message.Route.Resource = q.message.Header.ID, q.message.Route.Resource
	if q.session.newestOf(out.key) != nil {
		q.session.sendAnswer(&out.message) // what waits for an acknowledgement is the same or newer
		return
	}
	q.session.enqueue(out)
}

func (u *upstream) doRequest(ctx context.Context, q *request) (any, error) {
	c, m, r := u.hub.client, &q.message, q.resource
	switch m.Route.Operation + " " + r.Type {
	case "insert node":
		return u.createNode(ctx, m)
	case "query node":
		return c.CoreV1().Nodes().Get(ctx, r.Name, metav1.GetOptions{})
	case "patch nodepatch":
		patch, err := m.Text()
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return c.CoreV1().Nodes().Patch(ctx, r.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	case "patch podpatch":
		patch, err := m.Text()
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return c.CoreV1().Pods(r.Namespace).Patch(ctx, r.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	case "update nodestatus":
		return nil, u.writeStatus(ctx, m, r.Name)
	case "delete pod":
		var o metav1.DeleteOptions
		if err := json.Unmarshal(m.Content, &o); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return nil, c.CoreV1().Pods(r.Namespace).Delete(ctx, r.Name, o)
	case "query lease", "insert lease", "update lease":
		return u.handleLease(ctx, m, r)
	case "query configmap":
		return objectHeld[*corev1.ConfigMap](u.hub.configs, r)
	case "query secret":
		return objectHeld[*corev1.Secret](u.hub.secrets, r)
	case "query serviceaccounttoken":
		var t authv1.TokenRequest
		if err := json.Unmarshal(m.Content, &t); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return c.CoreV1().ServiceAccounts(r.Namespace).CreateToken(ctx, r.Name, &t, metav1.CreateOptions{})
	}
	return nil, apierrors.NewBadRequest(fmt.Sprintf("%s of %s: %v", m.Route.Operation, r.Type, errOperation))
}

// objectHeld returns what the hub's own watch has of a ConfigMap or Secret.
func objectHeld[T metav1.Object](i cache.SharedIndexInformer, r message.Resource) (T, error) {
	var none T
	o, ok, err := i.GetStore().GetByKey(r.Namespace + "/" + r.Name)
	if err != nil || !ok {
		return none, fmt.Errorf("%s %s/%s: there is none", r.Type, r.Namespace, r.Name)
	}
	return o.(T), nil
}

func (u *upstream) handleLease(ctx context.Context, m *message.Message, r message.Resource) (any, error) {
	leases := u.hub.client.CoordinationV1().Leases(r.Namespace)
	if m.Route.Operation == message.Query {
		return leases.Get(ctx, r.Name, metav1.GetOptions{})
	}
	var l coordv1.Lease
	if err := json.Unmarshal(m.Content, &l); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if m.Route.Operation == message.Insert {
		return leases.Create(ctx, &l, metav1.CreateOptions{})
	}
	return leases.Update(ctx, &l, metav1.UpdateOptions{})
}

// writeStatus writes the status that an edge as old as v1.11 has sent: it reads the node
// and writes all of it back.
func (u *upstream) writeStatus(ctx context.Context, m *message.Message, node string) error {
	var said struct{ Status *corev1.NodeStatus }
	if err := json.Unmarshal(m.Content, &said); err != nil || said.Status == nil {
		return apierrors.NewBadRequest("no status of a node")
	}
	nodes := u.hub.client.CoreV1().Nodes()
	n, err := nodes.Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	n.Status = *said.Status
	_, err = nodes.UpdateStatus(ctx, n, metav1.UpdateOptions{})
	return err
}

// createNode makes a node: at KubeEdge's hub without the labels that are Kubernetes' own,
// which a second call brings.
func (u *upstream) createNode(ctx context.Context, m *message.Message) (any, error) {
	var n corev1.Node
	if err := json.Unmarshal(m.Content, &n); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	own := map[string]string{}
	for name, value := range n.Labels {
		domain, _, ok := strings.Cut(name, "/")
		if u.hub.o.Join == JoinPatch && ok && (domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io")) {
			own[name] = value
			delete(n.Labels, name)
		}
	}
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	n.Annotations[api.AnnotationHub] = u.hub.o.Address // connected before it joined
	made, err := u.hub.client.CoreV1().Nodes().Create(ctx, &n, metav1.CreateOptions{})
	if err != nil || len(own) == 0 {
		return made, err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": own}})
	if err != nil {
		return nil, err
	}
	return u.hub.client.CoreV1().Nodes().Patch(ctx, n.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
}
