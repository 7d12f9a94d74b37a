package machine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	apiobject "github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
	"github.com/windtunnel/windtunnel/internal/sim/stage/render"
)

// stages writes a file of stages: each text is a name and its spec below the
// resource v1 Pod, unless it names another.
func stages(specs ...string) string {
	var b strings.Builder
	for _, spec := range specs {
		name, rest, _ := strings.Cut(spec, "\n")
		fmt.Fprintf(&b, "---\napiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: %s}\nspec:\n", name)
		if !strings.Contains(rest, "resourceRef") {
			b.WriteString("  resourceRef: {kind: Pod}\n")
		}
		b.WriteString(rest + "\n")
	}
	return b.String()
}

func compile(specs ...string) (*machine.Machine, error) {
	f, err := kwok.Load("f.yaml", []byte(stages(specs...)))
	if err != nil {
		return nil, err
	}
	return machine.Compile(f.Stages)
}

func must(t *testing.T, specs ...string) *machine.Machine {
	t.Helper()
	m, err := compile(specs...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func object(t *testing.T, raw string) map[string]any {
	t.Helper()
	return repotest.Must(machine.Decode([]byte(raw)))(t)
}

func now() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"app":"web"},"annotations":{"w":"5","zero":"0","empty":"","bad":"x",
	"soon":"7s","later":"30s","at":"2026-01-02T03:04:25Z","past":"2026-01-01T00:00:00Z"}},"spec":{"n":4},"status":{"phase":"Running"}}`

func TestSelectors(t *testing.T) {
	for selector, want := range map[string]bool{
		"{}":                                   true,
		"{matchLabels: {app: web}}":            true,
		"{matchLabels: {app: api}}":            false,
		"{matchLabels: {other: web}}":          false,
		"{matchAnnotations: {w: '5'}}":         true,
		"{matchAnnotations: {w: '5', bad: y}}": false,
		"{matchLabels: {app: web}, matchExpressions: [{key: .status.phase, operator: In, values: [Running]}]}":                   true,
		"{matchLabels: {app: api}, matchExpressions: [{key: .status.phase, operator: In, values: [Running]}]}":                   false,
		"{matchExpressions: [{jq: {key: .a, operator: Exists}}, {cel: {expression: 'true'}}]}":                                   false,
		"{matchExpressions: [{jq: {key: .a, operator: DoesNotExist}}, {cel: {expression: 'self.status.phase == \"Running\"'}}]}": true,
		"{matchExpressions: [{cel: {expression: 'false || self.status.phase == \"x\"'}}]}":                                       false,
	} {
		m := must(t, "a\n  selector: "+selector+"\n  steps: [{delete: true}]")
		c, err := m.Match(object(t, pod), now(), nil)
		if err != nil || (c.Stage != nil) != want {
			t.Errorf("%s: %v, %v", selector, c, err)
		}
	}
	m := must(t, "a\n  steps: [{delete: true}]")
	if c, err := m.Match(object(t, pod), now(), nil); err != nil || c.Stage != nil || len(m.Findings()) != 1 {
		t.Errorf("a stage without a selector: %v, %v, %v", c, err, m.Findings())
	}
	if c, err := m.Match(object(t, `{"apiVersion":"v2","kind":"Pod"}`), now(), nil); err != nil || c.Stage != nil {
		t.Errorf("an object of another resource: %v, %v", c, err)
	}
}

// TestWeights plays a thousand times and compares how often each stage is
// chosen with its share.
func TestWeights(t *testing.T) {
	jq := func(key string) string {
		return `weightFrom: {expressionFrom: '.metadata.annotations["` + key + `"]'}`
	}
	for _, c := range []struct {
		weights []string
		share   []float64
	}{
		{[]string{"weight: 0", "weight: 0"}, []float64{.5, .5}},
		{[]string{"weight: 1", "weight: 3"}, []float64{.25, .75}},
		{[]string{"weight: 0", "weight: 3"}, []float64{0, 1}},
		{[]string{"weight: 5", jq("w")}, []float64{.5, .5}},
		{[]string{"weight: 5\n  " + jq("absent"), "weight: 5"}, []float64{.5, .5}}, // the fixed one stands in
		{[]string{"weight: 5\n  " + jq("bad"), "weight: 0"}, []float64{0, 1}},      // cannot be told
		{[]string{"weight: 5\n  " + jq("bad"), jq("empty")}, []float64{.5, .5}},    // neither can
		{[]string{"weightFrom: {jq: {expression: .spec.n}}", "weight: 4"}, []float64{.5, .5}},
		{[]string{"weightFrom: {jq: {expression: '.spec | length'}}", "weight: 3"}, []float64{.25, .75}},
		{[]string{"weightFrom: {cel: {expression: '9'}}", "weight: 1"}, []float64{.9, .1}},
		{[]string{"weightFrom: {jq: {expression: 'error'}}\n  weight: 3", "weight: 1"}, []float64{.75, .25}},
	} {
		var specs []string
		for i, w := range c.weights {
			specs = append(specs, fmt.Sprintf("s%d\n  selector: {}\n  steps: [{delete: true}]\n  %s", i, w))
		}
		m := must(t, specs...)
		count := map[string]int{}
		rng := rand.New(rand.NewPCG(1, 1))
		for range 1000 {
			choice := repotest.Must(m.Match(object(t, pod), now(), rng))(t)
			count[choice.Stage.Name()]++
		}
		for i, share := range c.share {
			if got := float64(count[fmt.Sprintf("s%d", i)]) / 1000; got < share-.05 || got > share+.05 {
				t.Errorf("%q: stage %d has share %v, want %v", c.weights, i, got, share)
			}
		}
	}
}

func TestDelays(t *testing.T) {
	note := func(key string) string { return `{jq: {expression: '.metadata.annotations["` + key + `"]'}}` }
	for delay, want := range map[string]string{
		"":                             "none",
		"{}":                           "0s 0s",
		"{durationMilliseconds: 1500}": "1.5s 1.5s",
		"{durationMilliseconds: 1000, jitterDurationMilliseconds: 3000}":                            "1s 3s",
		"{durationMilliseconds: 3000, jitterDurationMilliseconds: 1000}":                            "1s 1s",
		"{durationFrom: " + note("soon") + "}":                                                      "7s 7s",
		"{durationMilliseconds: 9, durationFrom: " + note("soon") + "}":                             "7s 7s",
		"{durationMilliseconds: 9, durationFrom: " + note("absent") + "}":                           "9ms 9ms",
		"{durationMilliseconds: 9, durationFrom: " + note("bad") + "}":                              "9ms 9ms",
		"{durationMilliseconds: 9, durationFrom: " + note("empty") + "}":                            "none",
		"{durationMilliseconds: 9, durationFrom: {jq: {expression: .spec.n}}}":                      "9ms 9ms",
		"{durationFrom: " + note("at") + "}":                                                        "20s 20s",
		"{durationFrom: " + note("soon") + ", jitterDurationFrom: " + note("later") + "}":           "7s 30s",
		"{durationFrom: " + note("soon") + ", jitterDurationFrom: " + note("absent") + "}":          "7s 7s",
		"{durationMilliseconds: 1000, jitterDurationFrom: {cel: {expression: 'duration(\"5s\")'}}}": "1s 5s", // kwok takes no notice of it
		"{durationFrom: {cel: {expression: '\"2s\"'}}}":                                             "2s 2s",
		"{durationFrom: {expressionFrom: '.metadata.annotations.at'}}":                              "20s 20s",
	} {
		spec := "a\n  selector: {}\n  steps: [{delete: true}]\n"
		if delay != "" {
			spec += "  delay: " + delay
		}
		m := must(t, spec)
		s := m.Stages(m.Resources()[0])[0]
		least, most, ok, err := s.Delay(object(t, pod), now())
		got := "none"
		if ok {
			got = fmt.Sprint(least, " ", most)
		}
		if got != want || err != nil {
			t.Errorf("%s: %s, %v", delay, got, err)
		}
		rng := rand.New(rand.NewPCG(1, 1))
		for range 50 {
			if c, err := m.Match(object(t, pod), now(), rng); err != nil || c.Delay < least || c.Delay > most {
				t.Errorf("%s: picked %v, %v", delay, c.Delay, err)
			}
		}
	}
	m := must(t, "a\n  selector: {}\n  steps: [{delete: true}]\n  delay: {durationFrom: "+note("past")+"}")
	if c, err := m.Match(object(t, pod), now(), nil); err != nil || c.Delay != 0 {
		t.Errorf("a time that is past: %v, %v", c.Delay, err)
	}
}

// TestPlay has what each step asks for.
func TestPlay(t *testing.T) {
	const withFinalizers = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","finalizers":["a/1","b/2","c/3"]}}`
	for _, c := range []struct{ object, spec, want string }{
		{pod, "steps: [{delete: true}]", "0 delete"},
		{pod, "next: {delete: true, statusTemplate: 'a: 1', event: {type: Normal, reason: R, message: M}}",
			"0 event Normal R M; 1 patch strategic-merge-patch status {\"status\":{\"a\":1}}; 2 delete"},
		{pod, "next: {statusTemplate: 'a: 1', statusSubresource: scale, statusPatchAs: {username: u}}",
			"0 patch strategic-merge-patch scale as u {\"status\":{\"a\":1}}"},
		{pod, "next: {statusTemplate: 'a: 1', patches: [{template: 'b: 2', type: merge}]}", "0 patch merge-patch {\"b\":2}"},
		{`{"apiVersion":"apps/v1","kind":"Deployment"}`, "resourceRef: {apiGroup: apps/v1, kind: Deployment}\n  steps: [{patch: {template: 'b: 2', root: spec}}]",
			"0 patch merge-patch {\"spec\":{\"b\":2}}"},
		{pod, "steps: [{patch: {type: json, root: 'metadata/labels', template: '[{op: add, path: /x, value: {{ .spec.n }}}]'}}]",
			`0 patch json-patch [{"op":"add","path":"/metadata/labels/x","value":4}]`},
		{pod, "steps: [{apply: {template: '{kind: A}'}}, {apply: {template: '{kind: A}', subresource: status, type: merge}}]",
			`0 apply apply-patch {"kind":"A"}; 1 apply merge-patch status {"kind":"A"}`},
		{pod, "steps: [{delete: true, patch: {template: 'a: 1'}}, {patch: {template: 'a: 1'}, event: {reason: R}}]", "0 delete; 1 event  R "},
		{withFinalizers, "next: {finalizers: {empty: true}}", `0 patch json-patch [{"op":"remove","path":"/metadata/finalizers"}]`},
		{withFinalizers, "next: {finalizers: {remove: [{value: c/3}, {value: a/1}, {value: x}]}}",
			`0 patch json-patch [{"op":"remove","path":"/metadata/finalizers/2"},{"op":"remove","path":"/metadata/finalizers/0"}]`},
		{withFinalizers, "next: {finalizers: {remove: [{value: c/3}, {value: a/1}, {value: b/2}], add: [{value: d}]}}",
			`0 patch json-patch [{"op":"remove","path":"/metadata/finalizers"},{"op":"add","path":"/metadata/finalizers","value":["d"]}]`},
		{withFinalizers, "next: {finalizers: {add: [{value: d/4}, {value: a/1}]}}",
			`0 patch json-patch [{"op":"add","path":"/metadata/finalizers/-","value":"d/4"}]`},
		{pod, "next: {finalizers: {add: [{value: d/4}, {value: e/5}]}}",
			`0 patch json-patch [{"op":"add","path":"/metadata/finalizers","value":["d/4","e/5"]}]`},
		{pod, "next: {finalizers: {empty: true}}", ""},
	} {
		m := must(t, "a\n  selector: {}\n  "+c.spec)
		s := m.Stages(m.Resources()[0])[0]
		var did []string
		for i := range s.Steps() {
			effects := repotest.Must(s.Play(i, object(t, c.object), &machine.Env{Now: now()}))(t)
			for _, e := range effects {
				did = append(did, fmt.Sprint(i, " ", describe(e)))
			}
		}
		if got := strings.Join(did, "; "); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.spec, got, c.want)
		}
	}
}

func describe(e machine.Effect) string {
	words := []string{e.Kind.String()}
	if e.Kind == machine.Event {
		return strings.Join(append(words, e.Event.Type, e.Event.Reason, e.Event.Message), " ")
	}
	if e.Type != "" {
		name, _, _ := strings.Cut(strings.TrimPrefix(string(e.Type), "application/"), "+")
		words = append(words, name)
	}
	if e.Subresource != "" {
		words = append(words, e.Subresource)
	}
	if e.User != "" {
		words = append(words, "as "+e.User)
	}
	if len(e.Body) > 0 {
		words = append(words, string(e.Body))
	}
	return strings.Join(words, " ")
}

// TestCompileFaults has the message for each stage that cannot be compiled.
func TestCompileFaults(t *testing.T) {
	for spec, want := range map[string]string{
		"a\n  selector: {matchExpressions: [{key: '.a[', operator: Exists}]}": `f.yaml:7: stage a: spec.selector.matchExpressions[0].key: jq ".a[": unexpected EOF`,
		"a\n  selector:\n    matchExpressions:\n    - cel: {expression: 'self.'}": "f.yaml:9: stage a: spec.selector.matchExpressions[0].cel.expression: " +
			"cel: Syntax error: no viable alternative at input '.' (column 6)",
		"a\n  selector: {}\n  weightFrom: {jq: {expression: 'nosuch'}}": `f.yaml:8: stage a: spec.weightFrom.jq.expression: jq "nosuch": function not defined: nosuch/0`,
		"a\n  selector: {}\n  delay: {jitterDurationFrom: {cel: {expression: 'x'}}}": "f.yaml:8: stage a: spec.delay.jitterDurationFrom.cel.expression: " +
			"cel: undeclared reference to 'x' (in container '') (column 1)",
		"a\n  selector: {}\n  next:\n    statusTemplate: |\n      ok: 1\n\n      {{ if }}": "f.yaml:12: stage a: spec.next.statusTemplate: missing value for if",
		"a\n  selector: {}\n  next: {statusTemplate: '{{ nosuch }}'}": "f.yaml:8: stage a: spec.next.statusTemplate: " +
			`line 1 of the template: function "nosuch" not defined`,
	} {
		_, err := compile(spec)
		var e *machine.Error
		if !errors.As(err, &e) || err.Error() != want {
			t.Errorf("%s\ngot  %v\nwant %s", spec, err, want)
		}
	}
	_, err := compile("a\n  selector: {}", "a\n  selector: {}\n  weightFrom: {jq: {expression: 'nosuch'}}")
	if err == nil || err.Error() != "f.yaml:11: stage a: metadata.name: is taken by the stage at f.yaml:2\n"+
		`f.yaml:15: stage a: spec.weightFrom.jq.expression: jq "nosuch": function not defined: nosuch/0` {
		t.Errorf("%v", err)
	}
}

// TestPlayFaults has what is said when an expression or template fails on an
// object.
func TestPlayFaults(t *testing.T) {
	const thing = `{"apiVersion":"v1","kind":"Thing","metadata":{"name":"x"}}`
	const head = "a\n  resourceRef: {kind: Thing}\n"
	for spec, want := range map[string]string{
		"  selector: {matchExpressions: [{cel: {expression: 'self.status.phase == \"A\"'}}]}": "f.yaml:7: stage a: " +
			"spec.selector.matchExpressions[0].cel.expression: cel: no such key: status",
		"  selector: {}\n  delay: {durationFrom: {cel: {expression: 'self.metadata'}}}": "f.yaml:8: stage a: spec.delay.durationFrom.cel.expression: " +
			"cel: gives map(dyn, dyn), want a duration",
		"  selector: {}\n  next:\n    statusTemplate: |\n      a: 1\n      b: {{ index .metadata.name 9 }}": "f.yaml:11: stage a: spec.next.statusTemplate: " +
			"<index .metadata.name 9>: error calling index: index out of range: 9",
		"  selector: {}\n  steps:\n  - patch: {template: '['}": "f.yaml:9: stage a: spec.steps[0].patch.template: renders to no YAML: " +
			"line 1: did not find expected node content",
		"  selector: {}\n  steps:\n  - patch: {template: 'a: 1', type: json, root: b}": "f.yaml:9: stage a: spec.steps[0].patch.template: " +
			"renders to no list of JSON patch operations: json: cannot unmarshal object into Go value of type []machine.operation",
	} {
		m := must(t, head+spec)
		c, err := m.Match(object(t, thing), now(), nil)
		if err == nil {
			_, err = c.Stage.Play(0, object(t, thing), &machine.Env{})
		}
		var e *machine.Error
		if !errors.As(err, &e) || err.Error() != want {
			t.Errorf("%s\ngot  %v\nwant %s", spec, err, want)
		}
	}
	m := must(t, head+"  selector: {}\n  weightFrom: {cel: {expression: 'self.none'}}", "b\n  resourceRef: {kind: Thing}\n  selector: {}")
	if _, err := m.Match(object(t, thing), now(), nil); err == nil || err.Error() != "f.yaml:8: stage a: spec.weightFrom.cel.expression: cel: no such key: none" {
		t.Errorf("%v", err)
	}
	if _, err := m.Stages(m.Resources()[0])[0].Play(3, nil, nil); err == nil || err.Error() != "stage a has 0 steps, asked for number 3" {
		t.Errorf("%v", err)
	}
	if _, err := machine.Decode([]byte("[]")); err == nil {
		t.Error("a list is no object")
	}
}

// TestFindings has what is said about stages that cannot do what they should.
func TestFindings(t *testing.T) {
	const gone = "\n  steps: [{delete: true}]"
	const ready = `'.status.conditions[] | select(.type == "Ready") | .status'`
	for spec, want := range map[string]string{
		"selector: {}" + gone: "",
		"selector: {}":        "spec.steps: are missing: the stage does nothing",
		"selector: {matchExpressions: [{key: .a, operator: Exists}, {key: ' .a ', operator: DoesNotExist}]}" + gone:                          "spec.selector: can never match: .a must exist and must not exist",
		"selector: {matchExpressions: [{key: .a, operator: In, values: [x]}, {key: .a, operator: In, values: [y]}]}" + gone:                  "spec.selector: can never match: .a must be one of y, which another requirement rules out",
		"selector: {matchExpressions: [{key: '.a[]', operator: In, values: [x]}, {key: '.a[]', operator: In, values: [y]}]}" + gone:          "",
		"selector: {matchExpressions: [{key: '.a[]', operator: In, values: [x]}, {key: '.a[]', operator: NotIn, values: [y, x]}]}" + gone:    "spec.selector: can never match: .a[] must be one of x, which another requirement rules out",
		"selector: {matchExpressions: [{key: .a, operator: In, values: [x, z]}, {key: .a, operator: NotIn, values: [x]}]}" + gone:            "",
		"selector: {matchLabels: {app: web}, matchExpressions: [{key: .metadata.labels.app, operator: NotIn, values: [web]}]}" + gone:        "",
		"selector: {matchLabels: {app: web}, matchExpressions: [{key: '.metadata.labels[\"app\"]', operator: NotIn, values: [web]}]}" + gone: "spec.selector: can never match: .metadata.labels[\"app\"] must be one of web, which another requirement rules out",
		"selector: {matchExpressions: [{cel: {expression: 'false'}}]}" + gone:                                                                "spec.selector: can never match: the expression false can never hold together with the others",
		"selector: {matchExpressions: [{cel: {expression: 'has(self.a)'}}, {cel: {expression: '!has(self.a)'}}]}" + gone:                     "spec.selector: can never match: the expression has(self.a) can never hold together with the others",
		// Each of these plays on what it did itself.
		"selector: {}\n  next: {statusTemplate: 'startTime: {{ Now }}'}":                                                                                                                            "forever",
		"selector: {matchExpressions: [{key: .status.phase, operator: In, values: [Running]}]}\n  next: {statusTemplate: 'startTime: {{ Now }}'}":                                                   "forever",
		"selector: {matchExpressions: [{key: " + ready + ", operator: In, values: ['True']}]}\n  next: {statusTemplate: 'conditions: [{type: Ready, status: \"True\", lastProbeTime: {{ Now }}}]'}": "forever",
		"resourceRef: {kind: Thing}\n  selector: {}\n  next: {statusTemplate: 'a: {{ Now }}'}":                                                                                                      "forever",
		// These do not: they change nothing more, wait, lead away, or cannot be told.
		"selector: {}\n  next: {statusTemplate: 'phase: Running'}":                                                                                                                                     "",
		"selector: {}\n  delay: {durationMilliseconds: 1}\n  next: {statusTemplate: 'startTime: {{ Now }}'}":                                                                                           "",
		"selector: {}\n  delay: {jitterDurationMilliseconds: 100}\n  next: {statusTemplate: 'startTime: {{ Now }}'}":                                                                                   "",
		"selector: {matchExpressions: [{key: " + ready + ", operator: NotIn, values: ['True']}]}\n  next: {statusTemplate: 'conditions: [{type: Ready, status: \"True\", lastProbeTime: {{ Now }}}]'}": "",
		"selector: {}\n  next: {statusTemplate: 'startTime: {{ index .status.none 1 }}'}":                                                                                                              "",
		"selector: {matchExpressions: [{key: '.a | length > 3', operator: In, values: ['true']}]}\n  next: {statusTemplate: 'startTime: {{ Now }}'}":                                                   "",
	} {
		m := must(t, "a\n  "+spec)
		got := ""
		for _, f := range m.Findings() {
			got += f.Field + ": " + f.Message
			if f.Line == 0 || !strings.HasPrefix(f.String(), fmt.Sprintf("f.yaml:%d: stage a: spec.", f.Line)) {
				t.Errorf("%v", f)
			}
		}
		if want == "forever" {
			want = "spec.selector: matches again after its own patch, without a delay: the stage plays forever"
		}
		if got != want {
			t.Errorf("%s\ngot  %s\nwant %s", spec, got, want)
		}
	}
}

func TestSlow(t *testing.T) {
	schema := apiobject.NewSchema[corev1.Pod]("v1", "Pod")
	for spec, want := range map[string]string{
		"selector: {matchLabels: {a: b}, matchExpressions: [{key: .spec.nodeName, operator: Exists}]}": "",
		"selector: {matchExpressions: [{key: '.a | length', operator: Exists}]}":                       "its selector needs all of jq: .a | length",
		"selector: {matchExpressions: [{key: '.spec.volumes[].hostPath', operator: Exists}]}":          "its selector reads a field that only its Go type knows: .spec.volumes[].hostPath",
		"selector: {matchExpressions: [{cel: {expression: 'true'}}]}":                                  "its selector is written in CEL",
	} {
		m := must(t, "a\n  "+spec+"\n  steps: [{delete: true}]")
		if s := m.Stages(m.Resources()[0])[0]; s.Slow(schema) != want {
			t.Errorf("%s: slow %q", spec, s.Slow(schema))
		}
	}
}

// TestObjectIsLeftAlone shows that neither matching nor playing changes it.
func TestObjectIsLeftAlone(t *testing.T) {
	m := must(t, "a\n  selector: {matchExpressions: [{key: '.metadata | .name = 1 | .name', operator: Exists}, {cel: {expression: 'size(self.metadata.labels) > 0'}}]}\n"+
		"  immediateNextStage: true\n  steps: [{patch: {template: '{{ $x := set .metadata.labels \"extra\" 1 }}a: 1'}}]")
	o := object(t, pod)
	c, err := m.Match(o, now(), nil)
	if err != nil || c.Stage == nil || !c.Stage.Immediate() {
		t.Fatal(c, err)
	}
	if _, err := c.Stage.Play(0, o, &machine.Env{Functions: map[string]render.Function{}}); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(o, object(t, pod)) {
		t.Errorf("%v", o)
	}
}
