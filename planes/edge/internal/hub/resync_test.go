package hub

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// TestOwed holds what a round tells an edge of what it has, with KubeEdge's semantics and
// with devices looked up by their edge.
func TestOwed(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "default", Name: "x", UID: "u", ResourceVersion: "5"}
	other := meta
	other.UID = "v"
	at := func(node string) *api.Device {
		return &api.Device{ObjectMeta: meta, Spec: api.DeviceSpec{NodeName: node}}
	}
	for name, c := range map[string]struct {
		kind           string
		o              metav1.Object
		version        uint64
		kubeedge, want string
	}{
		"gone":                        {message.TypePod, nil, 5, message.Delete, message.Delete},
		"another of the name":         {message.TypePod, &corev1.Pod{ObjectMeta: other}, 5, message.Delete, message.Delete},
		"as acknowledged":             {message.TypePod, &corev1.Pod{ObjectMeta: meta}, 5, "", ""},
		"newer":                       {message.TypePod, &corev1.Pod{ObjectMeta: meta}, 4, message.Update, message.Update},
		"never acknowledged":          {message.TypeDevice, at("edge-0"), 0, message.Update, message.Update},
		"device as acknowledged":      {message.TypeDevice, at("edge-0"), 5, "", ""},
		"device moved to another":     {message.TypeDevice, at("edge-1"), 4, message.Update, message.Delete},
		"device moved, and told once": {message.TypeDevice, at("edge-1"), 5, "", message.Delete},
		"device of no edge":           {message.TypeDevice, at(""), 4, message.Update, message.Delete},
	} {
		for lookup, want := range map[string]string{LookupWalk: c.kubeedge, LookupIndex: c.want} {
			o := Options{DeviceLookup: lookup}
			h := &Hub{o: o, lastSent: newLastSent(o)}
			k := key{node: "edge-0", kind: c.kind, namespace: "default", name: "x", uid: "u"}
			repotest.Equal(t, h.owedOperation(k, c.o, c.version), want, "%s, device-lookup %s", name, lookup)
		}
	}
}
