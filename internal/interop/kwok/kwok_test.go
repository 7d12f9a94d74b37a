package kwok_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

const good = `# a file of several documents
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: first
  annotations: {a: 1}
spec:
  resourceRef: {kind: Pod}
  selector:
    matchLabels: {a: b}
    matchExpressions:
    - {key: .status.phase, operator: In, values: [Pending]}
    - cel: {expression: 'true'}
  weightFrom: {expressionFrom: .a}
  next:
    delete: true
    statusTemplate: "phase: Running"
    finalizers: {remove: [{value: a/b}]}
    event: {type: Normal, reason: R, message: M}
status: {conditions: []}
---
apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
metadata: {name: k}
options: {cidr: 10.0.0.0/24}
---
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: second}
spec:
  resourceRef: {apiGroup: apps/v1, kind: Deployment}
  next:
    statusTemplate: ignored
    patches:
    - {root: spec, template: a, type: json}
    - {template: b, impersonation: {username: u}}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Metric
metadata: {name: m}
`

func TestLoad(t *testing.T) {
	f := repotest.Must(kwok.Load("a.yaml", []byte(good)))(t)
	if len(f.Stages) != 2 || len(f.Others) != 2 || f.Others[0].Kind != "KwokConfiguration" || f.Others[0].Line != 22 ||
		string(f.Others[1].JSON) != `{"apiVersion":"kwok.x-k8s.io/v1alpha1","kind":"Metric","metadata":{"name":"m"}}` {
		t.Errorf("%+v", f)
	}
	first, second := f.Stages[0], f.Stages[1]
	if got := first.Resource(); got != (kwok.Resource{APIVersion: "v1", Kind: "Pod"}) {
		t.Errorf("resource %v", got)
	}
	if got := second.Resource().String(); got != "apps/v1 Deployment" || second.Spec.Selector != nil {
		t.Errorf("resource %v, selector %v", got, second.Spec.Selector)
	}
	if m := first.Spec.Selector.MatchExpressions[0]; m.JQ == nil || m.JQ.Key != ".status.phase" || first.Spec.WeightFrom.JQ.Expression != ".a" {
		t.Errorf("the older forms are not brought into the newer ones: %+v", m)
	}
	var did []string
	for _, s := range append(first.Steps(), second.Steps()...) {
		did = append(did, s.Field)
	}
	want := []string{
		"spec.next.event", "spec.next.finalizers", "spec.next.statusTemplate", "spec.next.delete",
		"spec.next.patches[0]", "spec.next.patches[1]",
	}
	if !reflect.DeepEqual(did, want) {
		t.Errorf("steps %v", did)
	}
	if got := first.Line("spec.selector.matchExpressions[1].cel.expression"); got != 13 {
		t.Errorf("line %d", got)
	}
}

// TestFaults has the message that each bad file must give.
func TestFaults(t *testing.T) {
	const head = "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: a}\nspec:\n  resourceRef: {kind: Pod}\n"
	for text, want := range map[string]string{
		"a: [":                 "f.yaml:1: did not find expected node content",
		"- a":                  "f.yaml:1: a document must be a mapping with apiVersion and kind",
		"apiVersion: v1":       "f.yaml:1: kind is missing",
		"kind: Stage\nspec: 1": `f.yaml:1: apiVersion: want kwok.x-k8s.io/v1alpha1, got ""`,
		"apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nspec: {resourceRef: {kind: Pod}}": "f.yaml:1: metadata.name: is missing",
		"apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: a}\nspec: {}":    "f.yaml:4: stage a: spec.resourceRef.kind: is missing",
		"apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: a}\nspac: {}":    `f.yaml:4: stage a: spac: there is no field "spac"; is it "spec"?`,
		head + "  selectors: {}":                                            `f.yaml:6: stage a: spec.selectors: there is no field "selectors"; is it "selector"?`,
		head + "  selector: {frobnicate: 1}":                                `f.yaml:6: stage a: spec.selector.frobnicate: there is no field "frobnicate"`,
		head + "  weight: 1\n  weight: 2":                                   "f.yaml:7: stage a: spec.weight: stands here twice",
		head + "  selector: []":                                             "f.yaml:6: stage a: spec.selector: want a mapping, got a list",
		head + "  selector: {matchLabels: {a: true}}":                       `f.yaml:6: stage a: spec.selector.matchLabels["a"]: want a string, got true or false "true": put it in quotes`,
		head + "  steps: {delete: true}":                                    "f.yaml:6: stage a: spec.steps: want a list, got a mapping",
		head + "  steps:\n  - delete: yes-sir":                              `f.yaml:7: stage a: spec.steps[0].delete: want true or false, got a string "yes-sir"`,
		head + "  weight: 1.5":                                              `f.yaml:6: stage a: spec.weight: want a whole number, got a value of type float "1.5"`,
		head + "  weight: -1":                                               "f.yaml:6: stage a: spec.weight: is below 0: -1",
		head + "  weight: 99999999999999999999":                             `f.yaml:6: stage a: spec.weight: want a whole number, got a value of type float "99999999999999999999"`,
		head + "  weightFrom: {}":                                           "f.yaml:6: stage a: spec.weightFrom: want one of cel, jq, expressionFrom; got 0 of them",
		head + "  delay: {durationMilliseconds: -5}":                        "f.yaml:6: stage a: spec.delay.durationMilliseconds: is below 0: -5",
		head + "  delay: {durationFrom: {cel: {}}}":                         "f.yaml:6: stage a: spec.delay.durationFrom.cel.expression: is empty",
		head + "  selector: {matchExpressions: [{}]}":                       "f.yaml:6: stage a: spec.selector.matchExpressions[0]: want one of cel, jq, or key with operator; got 0 of them",
		head + "  selector: {matchExpressions: [{key: .a, operator: in}]}":  `f.yaml:6: stage a: spec.selector.matchExpressions[0].operator: want In, NotIn, Exists or DoesNotExist, got "in"`,
		head + "  selector: {matchExpressions: [{key: .a, operator: In}]}":  "f.yaml:6: stage a: spec.selector.matchExpressions[0].values: In wants at least one value",
		head + "  selector: {matchExpressions: [{jq: {operator: Exists}}]}": "f.yaml:6: stage a: spec.selector.matchExpressions[0].jq.key: is missing",
		head + "  selector:\n    matchExpressions:\n    - key: .a\n      operator: Exists\n      values: [b]": "f.yaml:10: stage a: spec.selector.matchExpressions[0].values: Exists takes no values",
		head + "  steps:\n  - patch: {type: apply, template: a}":                                              `f.yaml:7: stage a: spec.steps[0].patch.type: want json, merge, strategic, got "apply"`,
		head + "  steps:\n  - apply: {type: json, template: a}":                                               `f.yaml:7: stage a: spec.steps[0].apply.type: want apply, merge, strategic, got "json"`,
		head + "  steps:\n  - apply: {}":                                                                      "f.yaml:7: stage a: spec.steps[0].apply.template: is empty",
		head + "  steps:\n  - patch: {template: a, impersonation: {}}":                                        "f.yaml:7: stage a: spec.steps[0]: an impersonation wants a username",
	} {
		_, err := kwok.Load("f.yaml", []byte(text))
		if err == nil || err.Error() != want {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}

func TestFaultsAreJoined(t *testing.T) {
	_, err := kwok.Load("f.yaml", []byte("kind: Stage\n---\nfoo: 1\n---\n"+good))
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("%v", err)
	}
	if _, err := kwok.Read("testdata/nowhere.yaml"); err == nil || !strings.Contains(err.Error(), "read stages: open testdata/nowhere.yaml") {
		t.Errorf("%v", err)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: a}\nspec: &a\n  resourceRef: {kind: Pod}\n  selector: *a\n"))
	shipped, err := filepath.Glob("../../sim/stage/builtin/*/*.yaml")
	if err != nil || len(shipped) == 0 {
		f.Fatal(shipped, err)
	}
	for _, path := range shipped {
		raw := repotest.Must(os.ReadFile(path))(f)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		file, err := kwok.Load("f.yaml", raw)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f.yaml:") {
				t.Errorf("an error without its file: %v", err)
			}
			return
		}
		for _, s := range file.Stages {
			if s.Name == "" || s.Resource().Kind == "" || s.Line("spec.selector") == 0 {
				t.Errorf("incomplete: %+v", s)
			}
			s.Steps()
		}
	})
}
