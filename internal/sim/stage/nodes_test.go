package stage_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/stage"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
	"github.com/windtunnel/windtunnel/internal/sim/stage/render"
)

// oneHost gives every node the same address, or none.
type oneHost netip.Addr

func (h oneHost) Host([]byte) netip.Addr     { return netip.Addr(h) }
func (h oneHost) Pod(*object.Pod) netip.Addr { return netip.Addr{} }

// TestNodesAreGeneral is TestPodsAreGeneral for nodes; what is kept of a node until
// its stage plays is as good as the node.
func TestNodesAreGeneral(t *testing.T) {
	for name, e := range stagesOf(t, "Node", "node/fast/*.yaml", "node/heartbeat-with-lease/*.yaml") {
		if err := e.set.SlowNodes(); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		rng := rand.New(rand.NewPCG(5, 5))
		played := map[string]int{}
		for range 500 {
			played[compareNode(t, e, someNode(rng), rng)]++
		}
		if len(played) != 3 { // with none
			t.Errorf("%s: %v", name, played)
		}
		if compiled, executed := counts(e.stages); compiled < 2*executed {
			t.Errorf("%s: %d bodies are compiled, %d executed", name, compiled, executed)
		}
	}
}

func compareNode(t *testing.T, e engines, n *corev1.Node, rng *rand.Rand) string {
	t.Helper()
	raw := repotest.Must(json.Marshal(n))(t)
	host, port := netip.Addr{}, rng.IntN(2)*10247
	if rng.IntN(2) == 0 {
		host = netip.MustParseAddr("10.1.0.7")
	}
	now := env().Now.Truncate(1e9)
	word := ""
	if host.IsValid() {
		word = host.String()
	}
	general := &machine.Env{Now: now, Version: "v9", Functions: map[string]render.Function{
		"NodeIP": func(...any) (any, error) { return word, nil }, "NodeName": func(...any) (any, error) { return n.Name, nil },
		"NodePort": func(...any) (any, error) { return port, nil },
	}}
	blob := repotest.Must(n.Marshal())(t)
	seen := &object.Node{}
	repotest.NoError(t, object.DecodeNode(blob, seen))
	fast := e.set.Node(seen, rand.New(rand.NewPCG(1, 1)))
	body, failed := wanted(t, e, raw, general, fast)
	if fast.None() {
		return ""
	}
	var bodies [2][]byte
	for i := range bodies {
		got, err := e.set.RenderNode(nil, fast, seen, stage.Env{Now: now, Addresses: oneHost(host), Version: "v9", KubeletPort: port})
		if failed && err != nil {
			return fast.Stage()
		}
		if failed || err != nil {
			t.Fatalf("general fails: %v, compiled: %v", failed, err)
		}
		bodies[i] = got.Body
		repotest.NoError(t, object.DecodeNode(e.set.Keep(nil, fast, seen), seen))
	}
	if !bytes.Equal(bodies[0], bodies[1]) {
		t.Fatalf("of %s\nwhole %s\nkept  %s", raw, bodies[0], bodies[1])
	}
	sameAfter[corev1.Node](t, raw, bodies[0], body)
	return fast.Stage()
}

// someNode returns a node that says this and that of itself.
func someNode(rng *rand.Rand) *corev1.Node {
	maybe := func(f func()) {
		if rng.IntN(2) == 0 {
			f()
		}
	}
	n := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "node-000007", UID: "u"}}
	some := corev1.ResourceList{"cpu": resource.MustParse("7"), "pods": resource.MustParse("3")}
	maybe(func() { n.CreationTimestamp = metav1.Unix(1700000000, 0) })
	maybe(func() { n.Status.Capacity = some })
	maybe(func() { n.Status.Allocatable = some })
	maybe(func() { n.Status.Phase = "Running" })
	for _, kind := range []corev1.NodeAddressType{"InternalIP", "Hostname", "ExternalIP"} {
		maybe(func() {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: kind, Address: odd(rng)})
		})
	}
	info := &n.Status.NodeInfo
	for _, field := range []*string{&info.Architecture, &info.BootID, &info.ContainerRuntimeVersion, &info.KernelVersion,
		&info.KubeProxyVersion, &info.KubeletVersion, &info.MachineID, &info.OperatingSystem, &info.OSImage, &info.SystemUUID} {
		maybe(func() {
			if *field = "said"; rng.IntN(16) == 0 {
				*field = odd(rng)
			}
		})
	}
	if status := []corev1.ConditionStatus{"", "True", "True", "False", "Unknown"}[rng.IntN(5)]; status != "" {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "Ready", Status: status})
	}
	return n
}

// BenchmarkNodeStage is BenchmarkStage for a node that is new.
func BenchmarkNodeStage(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	for name, e := range stagesOf(b, "Node", "node/fast/*.yaml", "node/heartbeat-with-lease/*.yaml") {
		raw := repotest.Must((&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}).Marshal())(b)
		n := &object.Node{}
		repotest.NoError(b, object.DecodeNode(raw, n))
		var buf []byte
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				effect := repotest.Must(e.set.RenderNode(buf[:0], e.set.Node(n, rng), n, env()))(b)
				buf = effect.Body
			}
		})
	}
}
