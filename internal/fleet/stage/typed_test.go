package stage_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/fleet/stage"
	"github.com/windtunnel/windtunnel/internal/fleet/stage/builtin"
	"github.com/windtunnel/windtunnel/internal/fleet/stage/machine"
	"github.com/windtunnel/windtunnel/internal/fleet/stage/render"
	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// pods returns the compiled stages of pods, of which the typed form must do the
// same: the set fast, and kwok's own where they are.
func podStages(t testing.TB) map[string]machine.Stages {
	t.Helper()
	return stagesOf(t, "Pod", "pod/fast/*.yaml")
}

func stagesOf(t testing.TB, kind string, globs ...string) map[string]machine.Stages {
	t.Helper()
	f, err := builtin.Load("fast")
	if err != nil {
		t.Fatal(err)
	}
	sets := map[string]*kwok.File{"fast": f}
	var paths []string
	for _, g := range globs {
		some, err := filepath.Glob(repotest.Path(t, "..", "shared", "compat", "kwok") + "/" + g)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, some...)
	}
	if len(paths) == 0 {
		t.Log("the stages that kwok ships are not here")
	} else if sets["kwok"], err = kwok.Read(paths...); err != nil {
		t.Fatal(err)
	}
	out := map[string]machine.Stages{}
	for name, f := range sets {
		m, err := machine.Compile(f.Stages)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = m.Stages(machine.Resource{APIVersion: "v1", Kind: kind})
	}
	return out
}

// generalEnv answers as the typed form's addresses do.
func generalEnv(p *corev1.Pod) *machine.Env {
	host := func(...any) (any, error) { return []any{"10.1.0.7"}, nil }
	pod := func(...any) (any, error) { return []any{"10.64.0.1"}, nil }
	if p.Spec.HostNetwork {
		pod = host
	}
	return &machine.Env{Now: env().Now.Truncate(1e9), Functions: map[string]render.Function{"NodeIPsWith": host, "PodIPsWith": pod}}
}

// TestTypedIsGeneral compares the typed form with the general one on pods made
// by chance: the same stage is chosen, and the pod is the same after it.
func TestTypedIsGeneral(t *testing.T) {
	for name, stages := range podStages(t) {
		set, ok := stage.TypedPods(stages)
		if !ok {
			t.Errorf("%s has no typed form", name)
			continue
		}
		rng := rand.New(rand.NewPCG(3, 3))
		played := map[string]int{}
		for range 500 {
			played[compare(t, set, stages, somePod(rng))]++
		}
		if len(played) != 4 {
			t.Errorf("%s: %v", name, played)
		}
	}
}

func compare(t *testing.T, set *stage.Set, stages machine.Stages, p *corev1.Pod) string {
	t.Helper()
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := machine.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	e := generalEnv(p)
	general, err := stages.Match(tree, e.Now, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	seen := view(t, p)
	typed := set.Pod(seen, rand.New(rand.NewPCG(1, 1)))
	if general.Stage == nil {
		if !typed.None() {
			t.Fatalf("typed %s, general none: %s", typed.Stage(), raw)
		}
		return ""
	}
	if typed.Stage() != general.Stage.Name() {
		t.Fatalf("typed %q, general %q: %s", typed.Stage(), general.Stage.Name(), raw)
	}
	effects, err := general.Stage.Play(0, tree, e)
	if err != nil {
		t.Fatal(err)
	}
	got := set.RenderPod(nil, typed, seen, env())
	if effects[0].Kind == machine.Delete {
		if got.Kind != stage.Delete {
			t.Fatalf("typed does not delete")
		}
		return typed.Stage()
	}
	a, b := after[corev1.Pod](t, raw, got.Body), after[corev1.Pod](t, raw, effects[0].Body)
	if !reflect.DeepEqual(a, b) {
		t.Fatalf("of %s\ntyped   %s\ngeneral %s", raw, got.Body, effects[0].Body)
	}
	return typed.Stage()
}

// after returns an object as it is after a patch of it.
func after[T any](t *testing.T, object, patch []byte) (out T) {
	t.Helper()
	merged, err := strategicpatch.StrategicMergePatch(object, patch, out)
	if err != nil {
		t.Fatalf("%v: %s", err, patch)
	}
	if err := json.Unmarshal(merged, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func somePod(rng *rand.Rand) *corev1.Pod {
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n"}}
	if rng.IntN(4) > 0 {
		p.UID = types.UID(fmt.Sprintf("%x", rng.Uint64()))
	}
	if rng.IntN(8) == 0 {
		p.DeletionTimestamp = &metav1.Time{Time: env().Now.Truncate(1e9)}
	}
	for _, kind := range []string{"ReplicaSet", "Job"} {
		if rng.IntN(2) == 0 {
			p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{APIVersion: "x/v1", Kind: kind, Name: "o", UID: "u"})
		}
	}
	p.Spec.NodeName, p.Spec.HostNetwork = "node-000007", rng.IntN(4) == 0
	always := corev1.ContainerRestartPolicyAlways
	for i := range 1 + rng.IntN(3) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Image: "registry/image:\"<ü>"})
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: fmt.Sprint("c", i), Image: "x"})
	}
	for i := range rng.IntN(3) {
		c := corev1.Container{Name: fmt.Sprint("i", i), Image: "1e3"}
		if rng.IntN(2) == 0 {
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	if rng.IntN(3) == 0 {
		p.Spec.ReadinessGates = append(p.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: "a/b"})
	}
	p.Status.Phase = []corev1.PodPhase{"Pending", "Running", "Succeeded"}[rng.IntN(3)]
	for _, kind := range []corev1.PodConditionType{"PodScheduled", "Ready"} {
		if status := []corev1.ConditionStatus{"", "True", "False"}[rng.IntN(3)]; status != "" {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: status})
		}
	}
	return p
}

// TestNoTypedForm names what the typed form must not take.
func TestNoTypedForm(t *testing.T) {
	const head = "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: a}\nspec:\n  resourceRef: {kind: Pod}\n"
	for what, text := range map[string]string{
		"a label":          "  selector: {matchLabels: {a: b}}\n  steps: [{delete: true}]",
		"a weight":         "  selector: {}\n  weight: 1\n  steps: [{delete: true}]",
		"CEL":              "  selector: {matchExpressions: [{cel: {expression: 'true'}}]}\n  steps: [{delete: true}]",
		"an odd path":      "  selector: {matchExpressions: [{jq: {key: .spec.nodeName, operator: Exists}}]}\n  steps: [{delete: true}]",
		"two steps":        "  selector: {}\n  steps: [{event: {reason: a}}, {delete: true}]",
		"another template": "  selector: {}\n  next: {statusTemplate: 'phase: Running'}",
		"a delay by chance": "  selector: {}\n  delay: {durationFrom: {cel: {expression: 'Rand()'}}}\n" +
			"  steps: [{delete: true}]",
	} {
		f, err := kwok.Load("a.yaml", []byte(head+text))
		if err != nil {
			t.Fatal(err)
		}
		m, err := machine.Compile(f.Stages)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := stage.TypedPods(m.Stages(m.Resources()[0])); ok {
			t.Errorf("%s has a typed form", what)
		}
	}
}

// pendingPod is the pod of kwok's own benchmark.
const pendingPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"pod-pending"},` +
	`"spec":{"containers":[{"name":"container","image":"image"}],"nodeName":"node"},"status":{"phase":"Pending"}}`

// BenchmarkStage measures one object: which stage matches, as kwok's
// BenchmarkStageCRs does, and that with the effect rendered.
func BenchmarkStage(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	for name, stages := range podStages(b) {
		tree, err := machine.Decode([]byte(pendingPod))
		if err != nil {
			b.Fatal(err)
		}
		e := generalEnv(&corev1.Pod{})
		b.Run("general/match/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if c, err := stages.Match(tree, e.Now, rng); err != nil || c.Stage == nil {
					b.Fatal(c, err)
				}
			}
		})
		b.Run("general/effect/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c, _ := stages.Match(tree, e.Now, rng)
				if _, err := c.Stage.Play(0, tree, e); err != nil {
					b.Fatal(err)
				}
			}
		})
		set, _ := stage.TypedPods(stages)
		p := &object.Pod{
			NodeName: []byte("node"), Phase: []byte("Pending"),
			Containers: []object.Container{{Name: []byte("container"), Image: []byte("image")}},
		}
		b.Run("typed/match/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if set.Pod(p, rng).None() {
					b.Fatal("none")
				}
			}
		})
		var buf []byte
		b.Run("typed/effect/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				buf = set.RenderPod(buf[:0], set.Pod(p, rng), p, env()).Body
			}
		})
	}
	if _, err := os.Stat(repotest.Path(b, "..", "shared", "compat", "kwok")); err != nil {
		b.Log("the stages that kwok ships are not here")
	}
}
