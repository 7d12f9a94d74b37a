package fleet

import (
	"fmt"
	"maps"
	"net/netip"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/sim/stage/render"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// nodeTemplate is what all nodes of a fleet have in common.
type nodeTemplate struct {
	fleet    string
	labels   map[string]string
	capacity corev1.ResourceList
	info     corev1.NodeSystemInfo
	lease    int64          // seconds
	spread   map[string]int // labels that differ between nodes: how many values
	port     int            // of the kubelet; 0 for none
	program  string         // its version
	tainted  bool           // with the fleet's label
}

// spreadValue is the value of a label that is spread: its last word and a number.
func spreadValue(label string, i int) string {
	return label[strings.LastIndexAny(label, "/.")+1:] + "-" + strconv.Itoa(i)
}

func newNodeTemplate(name string, cfg scenario.Fleet) (*nodeTemplate, error) {
	t := &nodeTemplate{
		fleet: name,
		capacity: corev1.ResourceList{
			corev1.ResourceCPU:              resource.MustParse("32"),
			corev1.ResourceMemory:           resource.MustParse("256Gi"),
			corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
			corev1.ResourcePods:             resource.MustParse("110"),
		},
		info: corev1.NodeSystemInfo{
			Architecture: "amd64", OperatingSystem: "linux",
			KernelVersion: "6.12.0-simulated", OSImage: "simulated by windtunnel", ContainerRuntimeVersion: "windtunnel://1",
		},
		labels: map[string]string{
			"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
			"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
		},
		lease: int64(time.Duration(cfg.Lease).Round(time.Second) / time.Second), spread: cfg.Spread,
	}
	for label, values := range cfg.Spread {
		if values < 1 {
			return nil, fmt.Errorf("fleet: spread %s: %s: want 1 or more", label, unit.Count(values, "values"))
		}
	}
	for name, text := range cfg.Capacity {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("fleet: capacity %s: %q is not a quantity such as 32 or 256Gi", name, text)
		}
		t.capacity[corev1.ResourceName(name)] = q
	}
	maps.Copy(t.labels, cfg.Labels)
	t.labels[object.FleetLabel] = name
	return t, nil
}

// stampNodes marks the nodes as those of a run.
func (t *nodeTemplate) stampNodes(s object.Stamp) {
	if s.Run != "" {
		t.labels[object.RunLabel] = s.Run
	}
	t.tainted = s.Fleet != ""
}

// nodeName returns the name of a node: the fleet's and the node's number, so
// that two fleets can live in one cluster.
func (t *nodeTemplate) nodeName(index uint32) string { return fmt.Sprintf("%s-%06d", t.fleet, index) }

// nodeBody returns a node that is Ready from the start: a POST keeps the status
// that it carries.
func (t *nodeTemplate) nodeBody(index uint32, host netip.Addr, now time.Time) ([]byte, error) {
	name := t.nodeName(index)
	labels := maps.Clone(t.labels)
	labels["kubernetes.io/hostname"] = name
	for label, values := range t.spread {
		labels[label] = spreadValue(label, int(index)%values)
	}
	at := metav1.NewTime(now)
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if t.tainted {
		n.Spec.Taints = []corev1.Taint{{Key: object.FleetLabel, Value: t.fleet, Effect: corev1.TaintEffectNoSchedule}}
	}
	n.Status = corev1.NodeStatus{
		Phase: corev1.NodeRunning, Capacity: t.capacity, Allocatable: t.capacity, NodeInfo: t.info,
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: host.String()},
			{Type: corev1.NodeHostName, Address: name},
		},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(t.port)}},
	}
	for _, c := range render.NodeConditions() {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: corev1.NodeConditionType(c.Type), Status: corev1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
			LastHeartbeatTime: at, LastTransitionTime: at,
		})
	}
	raw, err := n.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode node %s: %w", name, err)
	}
	return object.AppendEnvelope(nil, "v1", "Node", raw), nil
}

// appendLease appends a Lease of a node; version is empty for a new one. It is
// written field by field (k8s.io/api coordination/v1 and meta/v1,
// generated.proto), since a fleet writes thousands of them a second.
func (t *nodeTemplate) appendLease(dst []byte, n *node, version string, now time.Time) []byte {
	name := n.name
	var scratch [512]byte
	owner := object.AppendString(scratch[:0:128], 1, "Node")
	owner = object.AppendString(owner, 3, name)
	owner = object.AppendString(owner, 4, n.uid)
	owner = object.AppendString(owner, 5, "v1")
	meta := object.AppendString(scratch[128:128:320], 1, name)
	meta = object.AppendString(meta, 3, leaseNamespace)
	if version != "" {
		meta = object.AppendString(meta, 6, version)
	}
	meta = object.AppendBytes(meta, 13, owner)
	at := object.AppendInt(scratch[320:320:352], 1, now.Unix())
	at = object.AppendInt(at, 2, int64(now.Nanosecond()/1000*1000))
	spec := object.AppendString(scratch[352:352:512], 1, name)
	spec = object.AppendInt(spec, 2, t.lease)
	spec = object.AppendBytes(spec, 4, at)
	lease := object.AppendBytes(nil, 1, meta)
	lease = object.AppendBytes(lease, 2, spec)
	return object.AppendEnvelope(dst, "coordination.k8s.io/v1", "Lease", lease)
}

const leaseNamespace = "kube-node-lease"

// appendDelete appends DeleteOptions: now, and only the object with that uid.
func appendDelete(dst []byte, uid string) []byte {
	options := object.AppendInt(nil, 1, 0)
	if uid != "" {
		options = object.AppendBytes(options, 2, object.AppendString(nil, 1, uid))
	}
	return object.AppendEnvelope(dst, "v1", "DeleteOptions", options)
}
