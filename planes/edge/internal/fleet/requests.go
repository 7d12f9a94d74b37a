package fleet

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// request is what an edge has asked and what is not answered yet.
type request struct {
	message message.Message
	sent    clock.Time
	number  uint32 // in the order in which the edge asked
	tries   uint8
	purpose purpose
	pod     *pod // that it is for; nil: for none
}

// purpose is what a request is for.
type purpose uint8

// What an edge asks for.
const (
	insertNode purpose = iota
	queryNode
	patchNode
	updateNodeStatus
	queryLease
	insertLease
	updateLease
	fetchObject
	patchPod
	deletePod
)

// How long an edge waits for an answer, and how often it asks, while connected.
const (
	answerTimeout = 60 * time.Second
	maxTries      = 3
	retryAfter    = 5 * time.Second // what did not succeed
)

// sendRequest sends a request.
func (s *step) sendRequest(what purpose, p *pod, operation string, r message.Resource, content any) {
	s.askRaw(what, p, operation, r.String(), encodeContent(content))
}

func (s *step) askRaw(what purpose, p *pod, operation, resource string, content []byte) {
	e := s.e
	e.asked++
	q := &request{sent: s.now, number: e.asked, tries: 1, purpose: what, pod: p}
	q.message = s.newMessage(message.Route{Source: message.SourceEdge, Group: message.GroupMeta, Operation: operation, Resource: resource}, content)
	if e.pending == nil {
		e.pending = map[string]*request{}
	}
	e.pending[q.message.Header.ID] = q
	s.sendMessage(&q.message)
}

// encodeContent writes a content. The types here can always be written.
func encodeContent(content any) []byte {
	raw, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	return raw
}

// inOrder returns the pending requests that are wanted, or all of them with nil, in the
// order in which the edge asked.
func (e *edge) inOrder(wanted func(*request) bool) (out []*request) {
	for _, q := range e.pending {
		if wanted == nil || wanted(q) {
			out = append(out, q)
		}
	}
	slices.SortFunc(out, func(a, b *request) int { return cmp.Compare(a.number, b.number) })
	return out
}

// handleAnswer ends the request that a message answers. The edge acknowledges every answer to
// a request of its own, and the objects among late answers, because the hub resends those. Of
// v1.11 the published bytes leave no room for more than the objects.
func (s *step) handleAnswer(m *message.Message, r message.Resource) {
	q := s.e.pending[m.Header.ParentID]
	isObject := r.Acked() && isFetched(m, r) && s.applyObject(m, r)
	if isObject || q != nil && s.o.Heartbeat == HeartbeatLease {
		s.sendAcknowledgement(m)
	}
	if q == nil {
		s.addFact(applied, "answer to nothing")
		return
	}
	delete(s.e.pending, m.Header.ParentID)
	if len(s.e.pending) == 0 {
		s.e.pending = nil
	}
	s.addMeasurement(answered, r.Type, q.sent)
	s.concludeRequest(q, m)
}

// askAgain asks again what was not answered in time, and gives up at last.
func (s *step) askAgain() {
	for _, q := range s.e.inOrder(func(q *request) bool { return s.now.Sub(q.sent) >= answerTimeout }) {
		if q.tries < maxTries {
			q.tries, q.sent = q.tries+1, s.now
			s.sendMessage(&q.message)
			continue
		}
		delete(s.e.pending, q.message.Header.ID)
		s.addFact(unanswered, "")
		s.concludeRequest(q, nil)
	}
}

// concludeRequest goes on with what a request was for. m is its answer, nil if nobody answered.
func (s *step) concludeRequest(q *request, m *message.Message) {
	switch q.purpose {
	case insertNode:
		s.nodeInserted(m)
	case queryNode:
		s.nodeQueried(m)
	case patchNode, updateNodeStatus:
		s.nodePatched(m)
	case queryLease:
		s.leaseQueried(m)
	case insertLease:
		s.leaseInserted(m)
	case updateLease:
		s.leaseUpdated(m)
	case fetchObject:
		q.pod.onFetched(s, q, m)
	case patchPod:
		q.pod.onPatched(s, m)
	case deletePod:
		q.pod.onDeleted(s, m)
	}
}

// answerContent is the content of an answer: the object and why there is none, or the bare
// object, or the bare error.
type answerContent struct {
	Object    json.RawMessage
	Err       *struct{ ErrStatus metav1.Status }
	ErrStatus *metav1.Status
	Metadata  json.RawMessage
}

// readError returns the error of an answer; nil: the answer has none.
func (a *answerContent) readError() *metav1.Status {
	if a.Err != nil {
		return &a.Err.ErrStatus
	}
	return a.ErrStatus
}

// unknown is the reason of an error that has none: apimachinery's StatusReasonUnknown is
// the empty text, as if there were no error.
const unknown metav1.StatusReason = "Unknown"

// readAnswer returns the object of an answer, or why the answer is no success. A request that
// was never answered has the answer nil.
func readAnswer(m *message.Message) (object json.RawMessage, reason metav1.StatusReason) {
	if m == nil {
		return nil, metav1.StatusReasonTimeout
	}
	if string(m.Content) == message.OK {
		return nil, ""
	}
	var a answerContent
	if m.Route.Operation == message.Error || json.Unmarshal(m.Content, &a) != nil {
		return nil, unknown
	}
	failure := a.readError()
	switch {
	case failure != nil && failure.Reason == "":
		return nil, unknown
	case failure != nil:
		return nil, failure.Reason
	case a.Object == nil && a.Metadata == nil:
		return nil, unknown
	case a.Object == nil:
		return m.Content, ""
	}
	return a.Object, ""
}

// isFetched reports whether an answer has what a pod asked for: a token, or an object with a
// UID. A hub may answer a query for a missing object with an error object as if it were one.
func isFetched(m *message.Message, r message.Resource) bool {
	var o struct {
		Metadata struct{ UID string }
		Status   struct{ Token string }
	}
	if m == nil || m.Route.Operation == message.Error || json.Unmarshal(m.Content, &o) != nil {
		return false
	}
	return o.Metadata.UID != "" || r.Type == message.TypeToken && o.Status.Token != ""
}
