package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	coordv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/api/door"
	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// errForeign says that a node or a lease of an edge's name is somebody else's.
var errForeign = errors.New("--prefix gives the edges other names")

// foreignError returns what an answer says of an object that is somebody else's; nil: it is no
// such answer.
func foreignError(m *message.Message) error {
	var a answerContent
	if m == nil || json.Unmarshal(m.Content, &a) != nil {
		return nil
	}
	failure := a.readError()
	if failure == nil || failure.Reason != door.ReasonForeign {
		return nil
	}
	return fmt.Errorf("%s: %w", failure.Message, errForeign)
}

// ownNode is how the edge's node is called in messages.
func (s *step) ownNode(kind string) message.Resource {
	return message.Resource{Namespace: message.NamespaceUp, Type: kind, Name: s.e.name}
}

// insertOwnNode makes the edge's node, and then its lease.
func (s *step) insertOwnNode() {
	s.sendRequest(insertNode, nil, message.Insert, s.ownNode(message.TypeNode), s.newNode())
}

// retryJoin is the time to join again.
type retryJoin struct{}

func (retryJoin) happenTo(s *step) { s.insertOwnNode() }

func (s *step) nodeInserted(m *message.Message) {
	raw, reason := readAnswer(m)
	switch reason {
	case "":
		s.keepNode(raw)
	case metav1.StatusReasonAlreadyExists:
		s.sendRequest(queryNode, nil, message.Query, s.ownNode(message.TypeNode), nil)
	default:
		s.retryUnlessForeign(m, retryJoin{})
		return
	}
	s.e.joined = true
	s.addFact(joined, "")
	if s.o.Lease > 0 {
		s.queryLease()
	}
}

func (s *step) nodeQueried(m *message.Message) {
	if raw, reason := readAnswer(m); reason == "" {
		s.keepNode(raw)
	}
}

// keepNode keeps the edge's own node, as an answer has it.
func (s *step) keepNode(raw json.RawMessage) {
	var n corev1.Node
	if json.Unmarshal(raw, &n) == nil && n.UID != "" {
		s.e.held.putObject(held{uid: packUID(string(n.UID)), sum: api.Sum(&n), kind: kindNode})
	}
}

// retryUnlessForeign does again after a while what was answered with an error. If that
// says that the object is somebody else's, the fleet ends.
func (s *step) retryUnlessForeign(m *message.Message, again event) {
	if s.out.failure = foreignError(m); s.out.failure == nil {
		s.addTimer(retryAfter, again)
	}
}

func (s *step) leaseName() message.Resource {
	return message.Resource{Namespace: message.NamespaceLeases, Type: message.TypeLease, Name: s.e.name}
}

func (s *step) queryLease() { s.sendRequest(queryLease, nil, message.Query, s.leaseName(), nil) }

// retryLease is the time to ask for the lease again.
type retryLease struct{}

func (retryLease) happenTo(s *step) { s.queryLease() }

func (s *step) leaseQueried(m *message.Message) {
	raw, reason := readAnswer(m)
	switch reason {
	case "":
		s.e.keepLease(raw)
	case metav1.StatusReasonNotFound:
		s.sendRequest(insertLease, nil, message.Insert, s.leaseName(), s.newLease())
	default:
		s.addTimer(retryAfter, retryLease{})
	}
}

func (s *step) leaseInserted(m *message.Message) {
	if raw, reason := readAnswer(m); reason == "" {
		s.e.keepLease(raw)
	} else {
		s.retryUnlessForeign(m, retryLease{})
	}
}

// renewLease renews the lease that the edge has, which goes back whole. Until that is answered
// the edge has no lease: a second renewal of the same version would be refused, where the plane
// is slow.
func (s *step) renewLease() {
	l := &coordv1.Lease{}
	if json.Unmarshal(s.e.lease, l) != nil {
		l = s.newLease()
	}
	l.Spec.RenewTime = &metav1.MicroTime{Time: s.wall}
	s.e.lease = nil
	s.sendRequest(updateLease, nil, message.Update, s.leaseName(), l)
}

func (s *step) leaseUpdated(m *message.Message) {
	raw, reason := readAnswer(m)
	if reason == "" {
		s.e.keepLease(raw)
		return
	}
	s.addFact(refused, "lease")
	if s.out.failure = foreignError(m); s.out.failure == nil {
		s.queryLease()
	}
}

func (e *edge) keepLease(raw json.RawMessage) { e.lease = slices.Clone(raw) }

// leaseLasts is how long a lease holds without renewal, in seconds.
const leaseLasts = 40

func (s *step) newLease() *coordv1.Lease {
	seconds, now := int32(leaseLasts), metav1.NewMicroTime(s.wall)
	return &coordv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: message.NamespaceLeases, Name: s.e.name},
		Spec:       coordv1.LeaseSpec{HolderIdentity: &s.e.name, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
}

// newNode is how an edge registers itself.
func (s *step) newNode() *corev1.Node {
	fits := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
		corev1.ResourcePods: resource.MustParse(strconv.Itoa(s.o.Pods)),
	}
	return &corev1.Node{
		TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: s.e.name, Labels: map[string]string{
			api.LabelEdge: "", "node-role.kubernetes.io/agent": "", corev1.LabelHostname: s.e.name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		}},
		Status: corev1.NodeStatus{
			Capacity: fits, Allocatable: fits, Conditions: s.nodeConditions(),
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: s.e.name}},
			NodeInfo:  corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "amd64", KubeletVersion: "v1.31.12-kubeedge-v1.23.0"},
		},
	}
}

// nodeStatus is what an edge as old as v1.11 sends of its node.
type nodeStatus struct{ Status corev1.NodeStatus }

func (s *step) nodeConditions() []corev1.NodeCondition {
	now := metav1.NewTime(s.wall)
	return []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "EdgeReady", Message: "edge is posting ready status", LastHeartbeatTime: now, LastTransitionTime: now,
	}}
}

// reportStatus tells that the node is well.
func (s *step) reportStatus() {
	if s.o.Heartbeat == HeartbeatStatus {
		s.sendRequest(updateNodeStatus, nil, message.Update, s.ownNode(message.TypeNodeStatus), nodeStatus{s.newNode().Status})
		return
	}
	patch := encodeContent(map[string]any{"status": map[string]any{"conditions": s.nodeConditions()}})
	s.sendRequest(patchNode, nil, message.Patch, s.ownNode(message.TypeNodePatch), string(patch))
}

func (s *step) nodePatched(m *message.Message) {
	if _, reason := readAnswer(m); reason != "" {
		s.addFact(refused, "status")
	}
}
