package stage_test

import (
	"bytes"
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

	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/stage"
	"github.com/windtunnel/windtunnel/internal/sim/stage/builtin"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
	"github.com/windtunnel/windtunnel/internal/sim/stage/render"
)

// engines are the same stages, compiled for the fleet and left to text/template.
type engines struct {
	set     *stage.Set
	stages  machine.Stages
	general machine.Stages
}

// podStages returns stages of pods: the set fast, and kwok's own where they are.
func podStages(t testing.TB) map[string]engines {
	t.Helper()
	return stagesOf(t, "Pod", "pod/fast/*.yaml")
}

func stagesOf(t testing.TB, kind string, globs ...string) map[string]engines {
	t.Helper()
	f, err := builtin.Load("fast")
	repotest.NoError(t, err)
	sets := map[string]*kwok.File{"fast": f}
	var paths []string
	for _, g := range globs {
		some := repotest.Must(filepath.Glob(repotest.Path(t, "..", "shared", "compat", "kwok") + "/" + g))(t)
		paths = append(paths, some...)
	}
	if len(paths) == 0 {
		t.Log("the stages that kwok ships are not here")
	} else if sets["kwok"], err = kwok.Read(paths...); err != nil {
		t.Fatal(err)
	}
	out := map[string]engines{}
	r := machine.Resource{APIVersion: "v1", Kind: kind}
	for name, f := range sets {
		m, err := machine.Compile(f.Stages)
		repotest.NoError(t, err)
		e := engines{set: stage.New(m), stages: m.Stages(r)}
		for _, s := range f.Stages {
			s.Spec.Steps = s.Steps()
			for _, step := range s.Spec.Steps {
				if step.Patch != nil {
					step.Patch.Template = `{{ define "nothing" }}{{ end }}` + step.Patch.Template // which is not compiled
				}
			}
		}
		if m, err = machine.Compile(f.Stages); err != nil {
			t.Fatal(err)
		}
		e.general = m.Stages(r)
		out[name] = e
	}
	return out
}

// generalEnv answers as the fleet's addresses do.
func generalEnv(p *corev1.Pod) *machine.Env {
	host := func(...any) (any, error) { return []any{"10.1.0.7"}, nil }
	pod := func(...any) (any, error) { return []any{"10.64.0.1"}, nil }
	if p.Spec.HostNetwork {
		pod = host
	}
	return &machine.Env{Now: env().Now.Truncate(1e9), Functions: map[string]render.Function{"NodeIPsWith": host, "PodIPsWith": pod}}
}

// TestPodsAreGeneral compares what is compiled with text/template on pods made by
// chance: the same stage is chosen, of the pod's message as of its JSON, the bodies
// are the same bytes, and the pod is the same after them.
func TestPodsAreGeneral(t *testing.T) {
	for name, e := range podStages(t) {
		if err := e.set.SlowPods(); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		rng := rand.New(rand.NewPCG(3, 3))
		played := map[string]int{}
		for range 500 {
			played[compare(t, e, somePod(rng))]++
		}
		if len(played) != 4 {
			t.Errorf("%s: %v", name, played)
		}
		if compiled, executed := counts(e.stages); compiled < 10*executed {
			t.Errorf("%s: %d bodies are compiled, %d executed", name, compiled, executed)
		}
	}
}

// counts returns how many bodies were made in either way.
func counts(stages machine.Stages) (compiled, executed int64) {
	for _, s := range stages {
		for _, b := range s.Bodies() {
			compiled, executed = compiled+b.Compiled, executed+b.Executed
		}
	}
	return compiled, executed
}

func compare(t *testing.T, e engines, p *corev1.Pod) string {
	t.Helper()
	raw := repotest.Must(json.Marshal(p))(t)
	seen := view(t, p)
	fast := e.set.Pod(seen, rand.New(rand.NewPCG(1, 1)))
	body, failed := wanted(t, e, raw, generalEnv(p), fast)
	if fast.None() {
		return ""
	}
	got, err := e.set.RenderPod(nil, fast, seen, env())
	if failed || err != nil {
		if !failed || err == nil {
			t.Fatalf("general fails: %v, compiled: %v", failed, err)
		}
		return fast.Stage()
	}
	if body == nil {
		if got.Kind != machine.Delete {
			t.Fatalf("it does not delete")
		}
		return fast.Stage()
	}
	sameAfter[corev1.Pod](t, raw, got.Body, body)
	return fast.Stage()
}

// wanted returns the body that both engines give for an object's JSON, and fails
// unless they choose the stage that was chosen; nil for none and for a deletion. A
// template that fails, on a text that YAML does not allow, fails in both.
func wanted(t *testing.T, e engines, raw []byte, env *machine.Env, chosen stage.Choice) (body []byte, failed bool) {
	t.Helper()
	tree := repotest.Must(machine.Decode(raw))(t)
	var bodies [][]byte
	var faults []string
	for _, stages := range []machine.Stages{e.stages, e.general} {
		c := repotest.Must(stages.Match(tree, env.Now, rand.New(rand.NewPCG(1, 1))))(t)
		name := ""
		if c.Stage != nil {
			name = c.Stage.Name()
		}
		if chosen.Stage() != name || chosen.Delay != c.Delay {
			t.Fatalf("compiled %q after %s, general %q after %s: %s", chosen.Stage(), chosen.Delay, name, c.Delay, raw)
		}
		if c.Stage == nil {
			return nil, false
		}
		effects, err := c.Stage.Play(0, tree, env)
		if err != nil {
			faults = append(faults, err.Error())
			continue
		}
		bodies = append(bodies, effects[0].Body)
	}
	if len(faults) > 0 {
		if len(faults) != 2 || faults[0] != faults[1] {
			t.Fatalf("only one fails of %s: %s", raw, faults)
		}
		return nil, true
	}
	if !bytes.Equal(bodies[0], bodies[1]) {
		t.Fatalf("of %s\ncompiled %s\ngeneral  %s", raw, bodies[0], bodies[1])
	}
	return bodies[0], false
}

// sameAfter fails unless an object is the same after two patches; an API server
// refuses both where a value is not of its field's type.
func sameAfter[T any](t *testing.T, object, compiled, general []byte) {
	t.Helper()
	a, first := after[T](object, compiled)
	b, second := after[T](object, general)
	if (first == nil) != (second == nil) || !reflect.DeepEqual(a, b) {
		t.Fatalf("of %s\ncompiled %s: %v\ngeneral  %s: %v", object, compiled, first, general, second)
	}
}

// after returns an object as it is after a patch of it.
func after[T any](object, patch []byte) (out T, err error) {
	merged, err := strategicpatch.StrategicMergePatch(object, patch, out)
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(merged, &out)
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
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Image: odd(rng)})
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

// odd returns a text that YAML or JSON may read in a way of its own.
func odd(rng *rand.Rand) string {
	texts := []string{
		"registry/image:\"<ü>", "registry.example.com/a/b:1.2-3", "null", "true", "1e3", "0x10", "", " ", "a: b", "- a", "'", "{}", "[", "# no",
		"a\nb", "\n", "a\tb", `\`, `\n`, "%", "@", "&a", "*a", "!!str a", "|", ">", "2026-01-02", "2026-01-02T03:04:05Z", "~", "gzqhole0wkz", "736152000",
		"\u0085", "\u2028", "\ufeff", "\x7f", "日本", "🙂", "a&b",
	}
	if rng.IntN(4) == 0 {
		return texts[rng.IntN(len(texts))]
	}
	return fmt.Sprint("registry/image:", rng.IntN(100))
}

// TestSlow names what the fleet leaves to a player, and why.
func TestSlow(t *testing.T) {
	const running = "  selector: {matchExpressions: [{jq: {key: .status.phase, operator: In, values: [Pending]}}]}\n  next: {statusTemplate: "
	const head = "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: a}\nspec:\n  resourceRef: {kind: Pod}\n"
	const remove = "\n  steps: [{delete: true}]"
	for _, c := range []struct{ text, want string }{
		{"  selector: {matchLabels: {a: b}}" + remove, ""},
		{"  selector: {}\n  weight: 1" + remove, ""},
		{"  selector: {matchExpressions: [{jq: {key: .spec.nodeName, operator: Exists}}]}" + remove, ""},
		{"  selector: {matchExpressions: [{cel: {expression: 'true'}}]}" + remove, "its selector is written in CEL"},
		{"  selector: {}\n  steps: [{event: {reason: a}}, {delete: true}]", "it has not one step"},
		{"  selector: {}\n  steps: [{event: {reason: a}, delete: true}]", "its step does more than patch or delete"},
		{"  selector: {}\n  next: {statusTemplate: 'phase: Running'}", "it may match again after its own patch, which a player watches for"},
		{running + "'phase: {{ \"Running\" }}'}", ""},
		{running + "'phase: {{ uuidv4 }}'}", "its template is left to text/template: not understood: function uuidv4"},
		{"  selector: {}\n  delay: {durationFrom: {cel: {expression: 'Rand()'}}}" + remove, "its weight or delay depends on the object"},
	} {
		f := repotest.Must(kwok.Load("a.yaml", []byte(head+c.text)))(t)
		m := repotest.Must(machine.Compile(f.Stages))(t)
		got := ""
		if err := stage.New(m).SlowPods(); err != nil {
			got = err.Error()
		}
		if want := c.want; got != want && got != "stage a: "+want {
			t.Errorf("%s\ngot  %s\nwant %s", c.text, got, want)
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
	for name, all := range podStages(b) {
		tree := repotest.Must(machine.Decode([]byte(pendingPod)))(b)
		e := generalEnv(&corev1.Pod{})
		for way, stages := range map[string]machine.Stages{"executed": all.general, "compiled": all.stages} {
			b.Run("json/match/"+way+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if c, err := stages.Match(tree, e.Now, rng); err != nil || c.Stage == nil {
						b.Fatal(c, err)
					}
				}
			})
			b.Run("json/effect/"+way+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					c, _ := stages.Match(tree, e.Now, rng)
					if _, err := c.Stage.Play(0, tree, e); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		set, api := all.set, &corev1.Pod{}
		repotest.NoError(b, json.Unmarshal([]byte(pendingPod), api))
		p := view(b, api)
		b.Run("message/match/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if set.Pod(p, rng).None() {
					b.Fatal("none")
				}
			}
		})
		var buf []byte
		b.Run("message/effect/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				effect := repotest.Must(set.RenderPod(buf[:0], set.Pod(p, rng), p, env()))(b)
				buf = effect.Body
			}
		})
	}
	if _, err := os.Stat(repotest.Path(b, "..", "shared", "compat", "kwok")); err != nil {
		b.Log("the stages that kwok ships are not here")
	}
}
