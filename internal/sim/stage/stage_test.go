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

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/stage"
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
	raw := repotest.Must(os.ReadFile(file))(t)
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
		repotest.NoError(t, os.WriteFile(file, []byte(strings.Join(out, "\n\n")+"\n"), 0o600))
	}
}

func play(t *testing.T, line string) string {
	t.Helper()
	set := fast(t)
	fields := strings.Fields(line)
	rng := rand.New(rand.NewPCG(1, 1))
	var choice stage.Choice
	var effect machine.Effect
	var err error
	switch fields[0] {
	case "pod":
		p := pod(t, fields[1:])
		choice = set.Pod(p, rng)
		effect, err = set.RenderPod(nil, choice, p, env())
	case "node":
		n := node(t, fields[1:])
		choice = set.Node(n, rng)
		effect, err = set.RenderNode(nil, choice, n, env())
	default:
		t.Fatalf("what is %q?", line)
	}
	repotest.NoError(t, err)
	if choice.None() {
		return "-> nothing"
	}
	out := fmt.Sprintf("-> %s after %v: ", choice.Stage(), choice.Delay)
	if effect.Kind == machine.Delete {
		return out + "delete"
	}
	if !json.Valid(effect.Body) {
		t.Errorf("%s: no JSON: %s", line, effect.Body)
	}
	return out + "patch " + effect.Subresource + " " + string(effect.Body)
}

func pod(t *testing.T, fields []string) *object.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	for _, f := range fields {
		key, value, _ := strings.Cut(f, "=")
		always := corev1.ContainerRestartPolicyAlways
		switch key {
		case "uid":
			p.UID = types.UID(value)
		case "phase":
			p.Status.Phase = corev1.PodPhase(value)
		case "ready":
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionStatus(value)}}
		case "deleting":
			p.DeletionTimestamp = &metav1.Time{Time: env().Now}
		case "owner":
			p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{Kind: value})
		case "hostnetwork":
			p.Spec.HostNetwork = true
		case "gate":
			p.Spec.ReadinessGates = append(p.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: corev1.PodConditionType(value)})
		case "container":
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: value, Image: "img/" + value})
		case "init":
			p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: value, Image: value})
		case "sidecar":
			p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: value, Image: value, RestartPolicy: &always})
		default:
			t.Fatalf("what is %q?", f)
		}
	}
	return view(t, p)
}

func node(t *testing.T, fields []string) *object.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-000007"}}
	has := corev1.ResourceList{"cpu": resource.MustParse("7")}
	n.Status.Capacity, n.Status.Allocatable = has, has
	n.Status.NodeInfo = corev1.NodeSystemInfo{
		Architecture: "a", OperatingSystem: "o", OSImage: "i", KernelVersion: "k", ContainerRuntimeVersion: "c", KubeletVersion: "v",
	}
	for _, f := range fields {
		key, value, _ := strings.Cut(f, "=")
		switch key {
		case "ready":
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionStatus(value)}}
		case "phase":
			n.Status.Phase = corev1.NodePhase(value)
		case "addresses":
			n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.9.9.9"}, {Type: corev1.NodeHostName, Address: n.Name}}
		case "bare": // it says nothing of itself
			n.Status.Capacity, n.Status.Allocatable, n.Status.NodeInfo = nil, nil, corev1.NodeSystemInfo{}
		case "created":
			n.CreationTimestamp = metav1.Unix(1700000000, 0)
		default:
			t.Fatalf("what is %q?", f)
		}
	}
	raw := repotest.Must(n.Marshal())(t)
	out := &object.Node{}
	repotest.NoError(t, object.DecodeNode(raw, out))
	return out
}

func fast(t testing.TB) *stage.Set {
	t.Helper()
	set, err := stage.Fast()
	if err != nil || set.SlowPods() != nil || set.SlowNodes() != nil {
		t.Fatal(err, set.SlowPods(), set.SlowNodes())
	}
	return set
}

// TestPatchLeadsOn applies the patches as an API server does and plays on: a
// pod must end where no stage matches, and conditions of others must survive.
func TestPatchLeadsOn(t *testing.T) {
	set := fast(t)
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
		effect := repotest.Must(set.RenderPod(nil, c, p, env()))(t)
		api = patched(t, api, effect.Body)
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
	raw := repotest.Must(json.Marshal(p))(t)
	merged := repotest.Must(strategicpatch.StrategicMergePatch(raw, body, corev1.Pod{}))(t)
	out := &corev1.Pod{}
	repotest.NoError(t, json.Unmarshal(merged, out))
	return out
}

func view(t testing.TB, p *corev1.Pod) *object.Pod {
	t.Helper()
	raw := repotest.Must(p.Marshal())(t)
	out := &object.Pod{}
	repotest.NoError(t, object.DecodePod(raw, out))
	return out
}

func TestHeartbeatDelay(t *testing.T) {
	set := fast(t)
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
