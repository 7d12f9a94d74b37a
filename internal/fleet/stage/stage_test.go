package stage_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/fleet/stage"
)

var rewrite = flag.Bool("rewrite", false, "write what the machine does into the traces")

type addresses struct{}

func (addresses) Host([]byte) netip.Addr { return netip.MustParseAddr("10.1.0.7") }
func (addresses) Pod(p *object.Pod) netip.Addr {
	if p.HostNetwork {
		return netip.MustParseAddr("10.1.0.7")
	}
	return netip.MustParseAddr("10.64.0.1")
}

func env() stage.Env {
	return stage.Env{Now: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Addresses: addresses{}, Version: "v1.37.1", KubeletPort: 10250}
}

// TestTraces plays testdata/*.trace: a line that describes an object, then
// what the machine does with it.
func TestTraces(t *testing.T) {
	const file = "testdata/fast.trace"
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for block := range strings.SplitSeq(strings.TrimSpace(string(raw)), "\n\n") {
		lines := strings.Split(block, "\n")
		n := 0
		for n < len(lines) && !strings.HasPrefix(lines[n], "->") {
			n++
		}
		got := append(lines[:n:n], play(t, lines[n-1]))
		if s := strings.Join(got, "\n"); s != block && !*rewrite {
			t.Errorf("got\n%s\nwant\n%s", s, block)
		}
		out = append(out, strings.Join(got, "\n"))
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(strings.Join(out, "\n\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func play(t *testing.T, line string) string {
	t.Helper()
	set := stage.Fast()
	fields := strings.Fields(line)
	rng := rand.New(rand.NewPCG(1, 1))
	var choice stage.Choice
	var effect stage.Effect
	switch fields[0] {
	case "pod":
		p := pod(t, fields[1:])
		choice = set.Pod(p, rng)
		effect = set.RenderPod(nil, choice, p, env())
	case "node":
		n := node(t, fields[1:])
		choice = set.Node(n, rng)
		effect = set.RenderNode(nil, choice, n, env())
	default:
		t.Fatalf("what is %q?", line)
	}
	if choice.None() {
		return "-> nothing"
	}
	out := fmt.Sprintf("-> %s after %v: ", choice.Stage(), choice.Delay)
	if effect.Kind == stage.Delete {
		return out + "delete"
	}
	if !json.Valid(effect.Body) {
		t.Errorf("%s: no JSON: %s", line, effect.Body)
	}
	return out + "patch " + effect.Subresource + " " + string(effect.Body)
}

func pod(t *testing.T, fields []string) *object.Pod {
	p := &object.Pod{Meta: object.Meta{Name: []byte("p")}}
	for _, f := range fields {
		key, value, _ := strings.Cut(f, "=")
		b := []byte(value)
		switch key {
		case "uid":
			p.UID = b
		case "phase":
			p.Phase = b
		case "ready":
			p.Ready = b
		case "deleting":
			p.Deleting = true
		case "owner":
			p.Owners = append(p.Owners, b)
		case "hostnetwork":
			p.HostNetwork = true
		case "gate":
			p.ReadinessGates = append(p.ReadinessGates, b)
		case "container":
			p.Containers = append(p.Containers, object.Container{Name: b, Image: append([]byte("img/"), b...)})
		case "init":
			p.InitContainers = append(p.InitContainers, object.Container{Name: b, Image: b})
		case "sidecar":
			p.InitContainers = append(p.InitContainers, object.Container{Name: b, Image: b, RestartPolicy: []byte("Always")})
		default:
			t.Fatalf("what is %q?", f)
		}
	}
	return p
}

func node(t *testing.T, fields []string) *object.Node {
	n := &object.Node{Meta: object.Meta{Name: []byte("node-000007")}, HasCapacity: true, HasAllocation: true, Info: ^uint16(0)}
	for _, f := range fields {
		key, value, _ := strings.Cut(f, "=")
		switch key {
		case "ready":
			n.Ready = []byte(value)
		case "phase":
			n.Phase = []byte(value)
		case "addresses":
			n.HasHostname, n.InternalIP = true, []byte("10.9.9.9")
		case "bare": // it says nothing of itself
			n.HasCapacity, n.HasAllocation, n.Info = false, false, 0
		case "created":
			n.Created = 1700000000
		default:
			t.Fatalf("what is %q?", f)
		}
	}
	return n
}

// TestPatchLeadsOn applies the patches as an API server does and plays on: a
// pod must end where no stage matches, and conditions of others must survive.
func TestPatchLeadsOn(t *testing.T) {
	set := stage.Fast()
	rng := rand.New(rand.NewPCG(1, 1))
	api := &corev1.Pod{
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "i"}}},
		Status: corev1.PodStatus{
			Phase:      corev1.PodPending,
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "True"}},
		},
	}
	api.OwnerReferences = append(api.OwnerReferences, ownerJob())
	var played []string
	for {
		p := view(t, api)
		c := set.Pod(p, rng)
		if c.None() {
			break
		}
		if played = append(played, c.Stage()); len(played) > 5 {
			t.Fatal("it never ends")
		}
		api = patched(t, api, set.RenderPod(nil, c, p, env()).Body)
	}
	if got := strings.Join(played, " "); got != "pod-ready pod-complete" {
		t.Errorf("played %s", got)
	}
	if api.Status.Phase != corev1.PodSucceeded || len(api.Status.Conditions) != 4 || api.Status.PodIP != "10.64.0.1" ||
		api.Status.ContainerStatuses[0].State.Terminated == nil {
		t.Errorf("ends as %+v", api.Status)
	}
}

func patched(t *testing.T, p *corev1.Pod, body []byte) *corev1.Pod {
	t.Helper()
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := strategicpatch.StrategicMergePatch(raw, body, corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	out := &corev1.Pod{}
	if err := json.Unmarshal(merged, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func view(t *testing.T, p *corev1.Pod) *object.Pod {
	t.Helper()
	raw, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	out := &object.Pod{}
	if err := object.DecodePod(raw, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestHeartbeatDelay(t *testing.T) {
	set := stage.Fast()
	rng := rand.New(rand.NewPCG(7, 7))
	n := node(t, []string{"ready=True", "phase=Running"})
	low, high := time.Hour, time.Duration(0)
	for range 1000 {
		d := set.Node(n, rng).Delay
		low, high = min(low, d), max(high, d)
	}
	if low < 600*time.Second || low > 601*time.Second || high > 610*time.Second || high < 609*time.Second {
		t.Errorf("delays from %v to %v", low, high)
	}
}

func BenchmarkPodReady(b *testing.B) {
	set := stage.Fast()
	rng := rand.New(rand.NewPCG(1, 1))
	p := &object.Pod{Phase: []byte("Pending"), Containers: []object.Container{{Name: []byte("container"), Image: []byte("image")}}}
	e := env()
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = set.RenderPod(buf[:0], set.Pod(p, rng), p, e).Body
	}
}
