package kwok_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/interop/kit"
	"github.com/windtunnel/windtunnel/internal/interop/kit/kittest"
	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/interop/kwok/configuration"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
)

// played is what a stage does to an object, beside another stage that matches too.
func played(t *testing.T, spec string) string {
	t.Helper()
	const other = "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: other}\nspec: {resourceRef: {apiGroup: example.com/v1, kind: Boiler}, selector: {matchLabels: {a: b}}, weight: 1, next: {delete: true}}\n---\n"
	file, err := kwok.Load("s.yaml", []byte(other+"apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: own}\nspec: {"+spec+"}\n"))
	if err != nil {
		t.Fatalf("%v\n%s", err, spec)
	}
	m, err := machine.Compile(file.Stages)
	if err != nil {
		t.Fatalf("%v\n%s", err, spec)
	}
	object, err := machine.Decode([]byte(`{"apiVersion":"example.com/v1","kind":"Boiler","metadata":{"name":"one","labels":{"a":"b"},"annotations":{"c":"d"},"finalizers":["f/x"]},"spec":{"n":5,"m":9}}`))
	repotest.NoError(t, err)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	out := fmt.Sprintln(m.Resources())
	for seed := range uint64(20) {
		choice, err := m.Match(object, now, rand.New(rand.NewPCG(seed, 1)))
		if err != nil || choice.Stage == nil {
			out += fmt.Sprintln(choice.Stage == nil, err)
			continue
		}
		out += fmt.Sprintln(choice.Stage.Name(), choice.Delay, choice.Stage.Immediate())
		for step := range choice.Stage.Steps() {
			effects, err := choice.Stage.Play(step, object, &machine.Env{Now: now})
			for _, e := range effects {
				out += fmt.Sprintf("%s %v %s %s %s %v %v\n", e.Kind, e.Type, e.Subresource, e.User, e.Body, e.Event, err)
			}
		}
	}
	return out
}

// stageProbes are specs without and with each field, by its path and name.
func stageProbes() map[string][2]string {
	const ref, all = "resourceRef: {apiGroup: example.com/v1, kind: Boiler}", "selector: {matchLabels: {a: b}}"
	of := func(more string) string { return ref + ", " + all + ", weight: 1000, " + more }
	match := func(selector string) string {
		return ref + ", selector: {" + selector + "}, weight: 1000, next: {statusTemplate: \"p: q\"}"
	}
	when := func(one string) string { return match("matchExpressions: [{" + one + "}]") }
	delay := func(d string) string { return of("delay: {" + d + "}, next: {delete: true}") }
	weight := func(w string) string { return ref + ", " + all + ", " + w + "next: {statusTemplate: \"p: q\"}" }
	steps := func(s string) string { return of("steps: [{" + s + "}]") }
	patch := func(p string) string { return steps("patch: {" + p + "}") }
	apply := func(p string) string { return steps("apply: {" + p + "}") }
	const object, jq = `template: "{apiVersion: v1, kind: ConfigMap, metadata: {name: m}}"`, "jq: {key: .metadata.name, operator: In, values: [one]}"
	status := `statusTemplate: "p: q"`
	return map[string][2]string{
		"spec.resourceRef": {of("next: {" + status + "}"), "resourceRef: {apiGroup: example.com/v1, kind: Kettle}, " + all + ", next: {" + status + "}"}, "spec.selector": {match("matchLabels: {a: b}"), ref + ", next: {" + status + "}"},
		"spec.weight": {weight("weight: 0, "), weight("weight: 9, ")}, "spec.weightFrom": {weight(""), weight("weightFrom: {expressionFrom: .spec.n}, ")},
		"spec.delay": {of("next: {delete: true}"), delay("durationMilliseconds: 9")}, "spec.next": {of("next: {delete: true}"), of("next: {" + status + "}")},
		"spec.immediateNextStage": {of("next: {" + status + "}"), of("immediateNextStage: true, next: {" + status + "}")}, "spec.steps": {steps("delete: true"), patch("template: 'a: b'")},
		"spec.resourceRef.apiGroup": {of("next: {delete: true}"), strings.Replace(of("next: {delete: true}"), "example.com/v1", "example.com/v2", 1)},
		"spec.resourceRef.kind":     {of("next: {delete: true}"), strings.Replace(of("next: {delete: true}"), "Boiler", "Kettle", 1)},
		"spec.selector.matchLabels": {match("matchLabels: {a: b}"), match("matchLabels: {a: c}")}, "spec.selector.matchAnnotations": {match("matchAnnotations: {c: d}"), match("matchAnnotations: {c: e}")},
		"spec.selector.matchExpressions":     {match("matchLabels: {a: b}"), match("matchLabels: {a: b}, matchExpressions: [{key: .x, operator: Exists}]")},
		"spec.selector.matchExpressions.cel": {when("cel: {expression: 'self.spec.n == 5'}"), when("cel: {expression: 'self.spec.n == 6'}")}, "spec.selector.matchExpressions.jq": {when(jq), when(strings.Replace(jq, "[one]", "[two]", 1))},
		"spec.selector.matchExpressions.key":            {when("key: .spec.n, operator: Exists"), when("key: .spec.x, operator: Exists")},
		"spec.selector.matchExpressions.operator":       {when("key: .spec.n, operator: Exists"), when("key: .spec.n, operator: DoesNotExist")},
		"spec.selector.matchExpressions.values":         {when("key: .metadata.name, operator: In, values: [one]"), when("key: .metadata.name, operator: In, values: [two]")},
		"spec.selector.matchExpressions.cel.expression": {when("cel: {expression: 'self.spec.n == 5'}"), when("cel: {expression: 'self.spec.n == 6'}")},
		"spec.selector.matchExpressions.jq.key":         {when(jq), when(strings.Replace(jq, ".name", ".uid", 1))}, "spec.selector.matchExpressions.jq.operator": {when(jq), when(strings.Replace(jq, "In", "NotIn", 1))},
		"spec.selector.matchExpressions.jq.values": {when(jq), when(strings.Replace(jq, "[one]", "[two]", 1))},
		"spec.weightFrom.cel":                      {weight(""), weight("weightFrom: {cel: {expression: 'self.spec.n'}}, ")}, "spec.weightFrom.jq": {weight(""), weight("weightFrom: {jq: {expression: .spec.n}}, ")},
		"spec.weightFrom.expressionFrom": {weight(""), weight("weightFrom: {expressionFrom: .spec.n}, ")}, "spec.delay.durationMilliseconds": {delay("durationMilliseconds: 8"), delay("durationMilliseconds: 9")},
		"spec.delay.durationFrom":               {delay(""), delay("durationMilliseconds: 1, durationFrom: {expressionFrom: '\"3s\"'}")},
		"spec.delay.jitterDurationMilliseconds": {delay("durationMilliseconds: 8"), delay("durationMilliseconds: 8, jitterDurationMilliseconds: 90")},
		"spec.delay.jitterDurationFrom":         {delay("durationMilliseconds: 8"), delay("durationMilliseconds: 8, jitterDurationMilliseconds: 10, jitterDurationFrom: {expressionFrom: '\"9s\"'}")},
		"spec.next.event":                       {of("next: {" + status + "}"), of("next: {event: {type: Normal, reason: r, message: m}, " + status + "}")}, "spec.next.finalizers": {of("next: {" + status + "}"), of("next: {finalizers: {empty: true}, " + status + "}")},
		"spec.next.delete": {of("next: {" + status + "}"), of("next: {delete: true, " + status + "}")}, "spec.next.patches": {of("next: {" + status + "}"), of("next: {patches: [{template: 'x: y'}], " + status + "}")},
		"spec.next.statusTemplate": {of("next: {" + status + "}"), of("next: {statusTemplate: 'p: r'}")}, "spec.next.statusSubresource": {of("next: {" + status + "}"), of("next: {statusSubresource: scale, " + status + "}")},
		"spec.next.statusPatchAs": {of("next: {" + status + "}"), of("next: {statusPatchAs: {username: u}, " + status + "}")},
		"spec.steps.patch":        {steps("delete: true"), patch("template: 'a: b'")}, "spec.steps.event": {steps("delete: true"), steps("event: {type: Normal, reason: r, message: m}")},
		"spec.steps.finalizers": {steps("delete: true"), steps("finalizers: {empty: true}")}, "spec.steps.delete": {patch("template: 'a: b'"), steps("delete: true")}, "spec.steps.apply": {steps("delete: true"), apply(object)},
		"spec.steps.patch.subresource": {patch("template: 'a: b'"), patch("template: 'a: b', subresource: status")}, "spec.steps.patch.root": {patch("template: 'a: b'"), patch("template: 'a: b', root: r")},
		"spec.steps.patch.template": {patch("template: 'a: b'"), patch("template: 'a: c'")}, "spec.steps.patch.type": {patch("template: 'a: b', type: merge"), patch("template: 'a: b', type: strategic")},
		"spec.steps.patch.impersonation": {patch("template: 'a: b'"), patch("template: 'a: b', impersonation: {username: u}")}, "spec.steps.patch.impersonation.username": {patch("template: 'a: b', impersonation: {username: u}"), patch("template: 'a: b', impersonation: {username: v}")},
		"spec.steps.apply.template": {apply(object), apply(strings.Replace(object, "name: m", "name: n", 1))}, "spec.steps.apply.subresource": {apply(object), apply(object + ", subresource: status")},
		"spec.steps.apply.type": {apply(object), apply(object + ", type: merge")}, "spec.steps.apply.impersonation": {apply(object), apply(object + ", impersonation: {username: u}")},
		"spec.steps.finalizers.add": {steps("finalizers: {add: [{value: f/y}]}"), steps("finalizers: {add: [{value: f/z}]}")}, "spec.steps.finalizers.remove": {steps("finalizers: {add: [{value: f/y}]}"), steps("finalizers: {add: [{value: f/y}], remove: [{value: f/x}]}")},
		"spec.steps.finalizers.empty": {steps("finalizers: {add: [{value: f/y}]}"), steps("finalizers: {empty: true}")}, "spec.steps.finalizers.add.value": {steps("finalizers: {add: [{value: f/y}]}"), steps("finalizers: {add: [{value: f/z}]}")},
		"spec.steps.event.type": {steps("event: {type: Normal, reason: r, message: m}"), steps("event: {type: Warning, reason: r, message: m}")}, "spec.steps.event.reason": {steps("event: {type: Normal, reason: r, message: m}"), steps("event: {type: Normal, reason: s, message: m}")},
		"spec.steps.event.message": {steps("event: {type: Normal, reason: r, message: m}"), steps("event: {type: Normal, reason: r, message: n}")},
	}
}

// TestStageFates sets each field of a stage by itself: what the stage does is another.
func TestStageFates(t *testing.T) {
	kittest.Probes(t, kwok.StageFates(), stageProbes(), func(t *testing.T, f kit.Field, p [2]string) {
		kittest.Holds(t, f, []byte(played(t, p[0])), []byte(played(t, p[1])), nil, nil)
	})
}

// TestEveryFieldHasAFate holds the tables against the types of kwok's files.
func TestEveryFieldHasAFate(t *testing.T) {
	kittest.EveryField(t, allFates(), kittest.YAMLName, reflect.TypeFor[kwok.Spec](), reflect.TypeFor[configuration.Options]())
}

func allFates() kit.Table { return append(kwok.StageFates(), configuration.OptionFates()...) }

// TestPage holds the page's list of fields against the tables of fates; with -update it
// writes the list anew.
func TestPage(t *testing.T) {
	kittest.Page(t, "coming-from-kwok.md", `
This part is generated from the tables in the code (`+"`go test ./internal/interop/kwok -run Page -update`"+`), and tests set each field of a Stage and
of the options to see that it is so. *Honored*: what the field says is done. *Noted*: the field has no meaning here, and a note says so. Every other
field is an error with its file and line.

`+kittest.Rows(allFates()))
}
