package stage_test

import (
	"encoding/json"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/fleet/stage"
	"github.com/windtunnel/windtunnel/internal/fleet/stage/machine"
	"github.com/windtunnel/windtunnel/internal/fleet/stage/render"
)

// oneHost gives every node the same address, or none.
type oneHost netip.Addr

func (h oneHost) Host([]byte) netip.Addr     { return netip.Addr(h) }
func (h oneHost) Pod(*object.Pod) netip.Addr { return netip.Addr{} }

// TestTypedNodeIsGeneral compares both forms on nodes made by chance, of the set
// fast and of the stages that kwok ships.
func TestTypedNodeIsGeneral(t *testing.T) {
	for name, stages := range stagesOf(t, "Node", "node/fast/*.yaml", "node/heartbeat-with-lease/*.yaml") {
		set, ok := stage.TypedNodes(stages)
		if !ok {
			t.Errorf("%s has no typed form", name)
			continue
		}
		rng := rand.New(rand.NewPCG(5, 5))
		played := map[string]int{}
		for range 1000 {
			played[compareNode(t, set, stages, someNode(rng), rng)]++
		}
		if len(played) != 3 { // with none
			t.Errorf("%s: %v", name, played)
		}
	}
}

func compareNode(t *testing.T, set *stage.Set, stages machine.Stages, n *corev1.Node, rng *rand.Rand) string {
	t.Helper()
	raw, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := machine.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
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
	wanted, err := stages.Match(tree, now, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	blob, err := n.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	var seen object.Node
	if err := object.DecodeNode(blob, &seen); err != nil {
		t.Fatal(err)
	}
	typed := set.Node(&seen, rand.New(rand.NewPCG(1, 1)))
	if wanted.Stage == nil {
		if !typed.None() {
			t.Fatalf("typed %s, general none: %s", typed.Stage(), raw)
		}
		return ""
	}
	if typed.Stage() != wanted.Stage.Name() || typed.Delay != wanted.Delay {
		t.Fatalf("typed %q after %s, general %q after %s: %s", typed.Stage(), typed.Delay, wanted.Stage.Name(), wanted.Delay, raw)
	}
	effects, err := wanted.Stage.Play(0, tree, general)
	if err != nil {
		t.Fatal(err)
	}
	got := set.RenderNode(nil, typed, &seen, stage.Env{Now: now, Addresses: oneHost(host), Version: "v9", KubeletPort: port})
	a, b := after[corev1.Node](t, raw, got.Body), after[corev1.Node](t, raw, effects[0].Body)
	if !reflect.DeepEqual(a, b) {
		t.Fatalf("of %s\ntyped   %s\ngeneral %s", raw, got.Body, effects[0].Body)
	}
	return typed.Stage()
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
		maybe(func() { n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: kind, Address: "a"}) })
	}
	info := &n.Status.NodeInfo
	for _, field := range []*string{&info.Architecture, &info.BootID, &info.ContainerRuntimeVersion, &info.KernelVersion,
		&info.KubeProxyVersion, &info.KubeletVersion, &info.MachineID, &info.OperatingSystem, &info.OSImage, &info.SystemUUID} {
		maybe(func() { *field = "said" })
	}
	if status := []corev1.ConditionStatus{"", "True", "True", "False", "Unknown"}[rng.IntN(5)]; status != "" {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "Ready", Status: status})
	}
	return n
}

// BenchmarkNodeStage is BenchmarkStage for a node that is new.
func BenchmarkNodeStage(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	for name, stages := range stagesOf(b, "Node", "node/fast/*.yaml", "node/heartbeat-with-lease/*.yaml") {
		set, _ := stage.TypedNodes(stages)
		n := &object.Node{Meta: object.Meta{Name: []byte("node")}}
		var buf []byte
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				buf = set.RenderNode(buf[:0], set.Node(n, rng), n, env()).Body
			}
		})
	}
}
