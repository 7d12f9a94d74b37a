package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	coordv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/api/door"
	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// answer is the content of an answer: the object, or why there is none.
type answer struct {
	Object json.RawMessage
	Err    *struct{ ErrStatus metav1.Status }
}

// unknown is the reason of an error that has none: apimachinery's StatusReasonUnknown is
// the empty text, as if there were no error.
const unknown metav1.StatusReason = "Unknown"

// read returns what an answer says, and why it is no success; nil is one that nobody gave.
func read(m *message.Message) (object json.RawMessage, reason metav1.StatusReason) {
	if m == nil {
		return nil, metav1.StatusReasonTimeout
	}
	var a answer
	if err := json.Unmarshal(m.Content, &a); err != nil {
		return nil, unknown
	}
	if a.Err != nil {
		if a.Err.ErrStatus.Reason == "" {
			return nil, unknown
		}
		return nil, a.Err.ErrStatus.Reason
	}
	return a.Object, ""
}

// errForeign says that a node or a lease of an edge's name is somebody else's.
var errForeign = errors.New("--prefix gives the edges other names")

// foreign returns what an answer says of an object that is somebody else's; nil: it is no
// such answer.
func foreign(m *message.Message) error {
	var a answer
	if m == nil || json.Unmarshal(m.Content, &a) != nil || a.Err == nil || a.Err.ErrStatus.Reason != door.ReasonForeign {
		return nil
	}
	return fmt.Errorf("%s: %w", a.Err.ErrStatus.Message, errForeign)
}

// joinLocked makes the edge's node, and then its lease.
func (e *edge) joinLocked() {
	e.askLocked(message.Insert, message.Resource{Namespace: message.NamespaceUp, Type: message.TypeNode, Name: e.name}, e.node(), func(m *message.Message) {
		raw, reason := read(m)
		switch reason {
		case "":
			e.keepNodeLocked(raw)
		case metav1.StatusReasonAlreadyExists:
			e.askLocked(message.Query, message.Resource{Namespace: message.NamespaceUp, Type: message.TypeNode, Name: e.name}, nil, func(m *message.Message) {
				if raw, reason := read(m); reason == "" {
					e.keepNodeLocked(raw)
				}
			})
		default:
			e.refusedLocked(m, e.joinLocked)
			return
		}
		e.joined = true
		e.fleet.joined.Add(1)
		if e.fleet.o.Lease > 0 {
			e.queryLeaseLocked()
		}
	})
}

const again = 5 * time.Second

// againLocked does after a while what did not succeed.
func (e *edge) againLocked(f func()) {
	e.fleet.schedule.in(again, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		f()
	})
}

// refusedLocked does again after a while what was answered with an error; where it is
// somebody else's object, the fleet ends.
func (e *edge) refusedLocked(m *message.Message, f func()) {
	if err := foreign(m); err != nil {
		e.fleet.fail(err)
		return
	}
	e.againLocked(f)
}

func (e *edge) leaseName() message.Resource {
	return message.Resource{Namespace: message.NamespaceLeases, Type: message.TypeLease, Name: e.name}
}

func (e *edge) queryLeaseLocked() {
	e.askLocked(message.Query, e.leaseName(), nil, func(m *message.Message) {
		raw, reason := read(m)
		switch reason {
		case "":
			e.keepLease(raw)
		case metav1.StatusReasonNotFound:
			e.askLocked(message.Insert, e.leaseName(), e.newLease(""), func(m *message.Message) {
				if raw, reason := read(m); reason == "" {
					e.keepLease(raw)
				} else {
					e.refusedLocked(m, e.queryLeaseLocked)
				}
			})
		default:
			e.againLocked(e.queryLeaseLocked)
		}
	})
}

// renewLocked renews the lease that the edge has. Until that is answered it has none: a
// second renewal of the same version would be refused, where the plane is slow.
func (e *edge) renewLocked() {
	version := e.lease
	e.lease = ""
	e.askLocked(message.Update, e.leaseName(), e.newLease(version), func(m *message.Message) {
		if raw, reason := read(m); reason == "" {
			e.keepLease(raw)
		} else {
			e.fleet.metrics.refused.WithLabelValues("lease").Inc()
			if err := foreign(m); err != nil {
				e.fleet.fail(err)
				return
			}
			e.queryLeaseLocked()
		}
	})
}

func (e *edge) keepLease(raw json.RawMessage) {
	var l struct{ Metadata metav1.ObjectMeta }
	if json.Unmarshal(raw, &l) == nil {
		e.lease = l.Metadata.ResourceVersion
	}
}

// leaseLasts is how long a lease holds without renewal, in seconds.
const leaseLasts = 40

func (e *edge) newLease(version string) *coordv1.Lease {
	seconds, now := int32(leaseLasts), metav1.NewMicroTime(e.fleet.wallTime())
	return &coordv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: message.NamespaceLeases, Name: e.name, ResourceVersion: version},
		Spec:       coordv1.LeaseSpec{HolderIdentity: &e.name, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
}

// node is how an edge registers itself.
func (e *edge) node() *corev1.Node {
	fits := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
		corev1.ResourcePods: resource.MustParse(strconv.Itoa(e.fleet.o.Pods)),
	}
	return &corev1.Node{
		TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: e.name, Labels: map[string]string{
			api.LabelEdge: "", "node-role.kubernetes.io/agent": "", corev1.LabelHostname: e.name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		}},
		Status: corev1.NodeStatus{
			Capacity: fits, Allocatable: fits, Conditions: e.conditions(),
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: e.name}},
			NodeInfo:  corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "amd64", KubeletVersion: "v1.31.12-kubeedge-v1.23.0"},
		},
	}
}

// nodeStatus is what an edge as old as v1.11 sends of its node.
type nodeStatus struct{ Status corev1.NodeStatus }

func (e *edge) conditions() []corev1.NodeCondition {
	now := metav1.NewTime(e.fleet.wallTime())
	return []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "EdgeReady", Message: "edge is posting ready status", LastHeartbeatTime: now, LastTransitionTime: now,
	}}
}

// statusLocked tells that the node is well.
func (e *edge) statusLocked() {
	if e.fleet.o.Heartbeat == HeartbeatStatus {
		to := message.Resource{Namespace: message.NamespaceUp, Type: message.TypeNodeStatus, Name: e.name}
		e.askLocked(message.Update, to, nodeStatus{e.node().Status}, func(m *message.Message) {
			if m == nil || string(m.Content) != message.OK {
				e.fleet.metrics.refused.WithLabelValues("status").Inc()
			}
		})
		return
	}
	raw, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": e.conditions()}})
	if err != nil {
		panic(err) // this can always be written
	}
	e.askLocked(message.Patch, message.Resource{Namespace: message.NamespaceUp, Type: message.TypeNodePatch, Name: e.name}, string(raw), func(m *message.Message) {
		if _, reason := read(m); reason != "" {
			e.fleet.metrics.refused.WithLabelValues("status").Inc()
		}
	})
}
