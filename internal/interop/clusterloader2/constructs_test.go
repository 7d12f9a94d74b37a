package clusterloader2_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// imported imports the file c.yaml of some files.
func imported(t *testing.T, files map[string]string, o clusterloader2.Options) (*scenario.Scenario, string) {
	t.Helper()
	dir := folder(t, files)
	for i := range o.Overrides {
		o.Overrides[i] = filepath.Join(dir, o.Overrides[i])
	}
	s, notes, err := clusterloader2.Import(filepath.Join(dir, "c.yaml"), o)
	if err != nil {
		t.Fatal(clean(err.Error(), dir))
	}
	native(t, s)
	var all []string
	for _, n := range notes {
		all = append(all, clean(n.String(), dir))
	}
	return s, strings.Join(all, "\n")
}

// TestConstructs are ways of writing that are found in the project's own configs.
func TestConstructs(t *testing.T) {
	const config = `{{$command := DefaultParam .CL2_COMMAND nil}}
{{$pods := DefaultParam .PODS 30}} # a comment behind
{{$per := Ceil (DivideFloat $pods 7)}}
{{$qps := IfThenElse (le .Nodes 500) 10 100}}
name: "constructs"
automanagedNamespaces: {{MinInt .Nodes 3}}
tuningSets:
- name: default
  globalQPSLoad:
    qps: {{$qps}}
    burst: 1
steps:
{{if $command}}
- name: Exec command
  measurements:
  - Identifier: ExecCommand
    Method: Exec
    Params:
      command:
      {{range $command}}
      - {{.}}
      {{end}}
{{end}}
- name: Starting measurement for '{{$per}} of {{$pods}}'
  measurements:
  - Method: WaitForControlledPodsRunning
    Instances:
    - Identifier: D
      Params: {kind: DaemonSet, apiVersion: apps/v1}
    - Identifier: J
      Params: {kind: Job, apiVersion: batch/v1, operationTimeout: 3m}
    - Identifier: W
      Params: {kind: Widget, apiVersion: example.org/v1}
    - Identifier: None
      Params: {kind: StatefulSet, apiVersion: apps/v1}
    Params:
      action: start
      labelSelector: group = load
      operationTimeout: 15m # as elsewhere
      checkIfPodsAreUpdated: false
- name: create
  phases:
  - namespaceRange:
      min: 1
      max: 3
    replicasPerNamespace: {{$per}}
    tuningSet: default
    objectBundle:
    - basename: some
      objectTemplatePath: some.yaml
      templateFillMap:
        Kind: Job
        Every: 3
  - namespaceRange: {min: 1, max: 1}
    replicasPerNamespace: 1
    tuningSet: default
    objectBundle:
    - {basename: daemon, objectTemplatePath: daemon.yaml}
    - {basename: widget, objectTemplatePath: widget.yaml}
- name: Waiting
  measurements:
  - Method: WaitForControlledPodsRunning
    Instances: [{Identifier: D}, {Identifier: J}, {Identifier: W}, {Identifier: None}]
    Params: {action: gather}
`
	s, notes := imported(t, map[string]string{
		"c.yaml": config, "o.yaml": "CL2_COMMAND: [sleep, 5]\nPODS: 20\n",
		"some.yaml":   "{{if eq (Mod .Index .Every) 1}}\napiVersion: batch/v1\nkind: Job\nmetadata: {name: {{.Name}}, labels: {group: load}}\nspec: {parallelism: 2, template: {spec: {containers: [{name: a, resources: {requests: {cpu: 30}}}]}}}\n{{end}}\n",
		"daemon.yaml": "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: {{.Name}}, labels: {group: load}}\nspec: {template: {spec: {containers: [{name: a}]}}}\n",
		"widget.yaml": "apiVersion: example.org/v1\nkind: Widget\nmetadata: {labels: {group: load}}\nspec: {replicas: 3}\n",
	}, clusterloader2.Options{Nodes: 3, Overrides: []string{"o.yaml"}})
	if want := "c.yaml:62: WaitForControlledPodsRunning: whether the pods of a Widget run is read from its own status.readyReplicas"; notes != want {
		t.Errorf("notes\n got %s\nwant %s", notes, want)
	}
	if e := s.Steps[0].Exec; e == nil || fmt.Sprint(e.Command) != "[sleep 5]" {
		t.Errorf("%+v", s.Steps[0])
	}
	if s.Namespaces.Count != 3 || s.Fleet.Capacity["cpu"] != "360" { // twice 3·3 jobs of 2 pods of 30 cores on 3 nodes
		t.Errorf("%+v %+v", s.Namespaces, s.Fleet.Capacity)
	}
	create, wait := s.Steps[1].Parallel, s.Steps[2].Parallel
	if len(create) != 2 || create[0].Create.PerNamespace != 3 || create[0].Create.Pace.Constant != 9 || create[1].Create.Pace.Constant != 1 {
		t.Errorf("%+v", create)
	}
	var conditions []string
	for _, w := range wait {
		conditions = append(conditions, fmt.Sprintf("%s %d %s", w.Wait.Objects, w.Wait.Count, w.Wait.Within))
		if _, err := scenario.ParseCondition(w.Wait.Condition); err != nil {
			t.Errorf("%s: %v", w.Wait.Condition, err)
		}
	}
	if got, want := strings.Join(conditions, ", "), "daemonsets.apps 1 15m0s, jobs.batch 9 3m0s, widgets.v1.example.org 1 15m0s, statefulsets.apps 0 15m0s"; got != want {
		t.Errorf("waits\n got %s\nwant %s", got, want)
	}
}

// TestConditionsHold applies the conditions to objects as the plane has them.
func TestConditionsHold(t *testing.T) {
	for _, tt := range []struct {
		kind, params, object string
		want                 bool
	}{
		{"Deployment", "", `{"metadata":{"generation":2},"spec":{"replicas":3},"status":{"observedGeneration":2,"replicas":3,"readyReplicas":3,"updatedReplicas":3}}`, true},
		{"Deployment", "", `{"metadata":{"generation":2},"spec":{"replicas":3},"status":{"observedGeneration":1,"replicas":3,"readyReplicas":3,"updatedReplicas":3}}`, false},
		{"Deployment", "", `{"metadata":{"generation":2},"spec":{"replicas":3},"status":{"observedGeneration":2,"replicas":4,"readyReplicas":3,"updatedReplicas":3}}`, false},
		{"Deployment", "", `{"metadata":{"generation":2},"spec":{"replicas":3},"status":{"observedGeneration":2,"replicas":3,"readyReplicas":3,"updatedReplicas":1}}`, false},
		{"Deployment", "checkIfPodsAreUpdated: false", `{"metadata":{"generation":2},"spec":{"replicas":3},"status":{"observedGeneration":2,"replicas":3,"readyReplicas":3,"updatedReplicas":1}}`, true},
		{"Deployment", "countErrorMargin: 1", `{"metadata":{"generation":2},"spec":{"replicas":3},"status":{"observedGeneration":2,"replicas":3,"readyReplicas":2,"updatedReplicas":3}}`, true},
		{"Deployment", "countErrorMargin: 1", `{"metadata":{"generation":2},"spec":{"replicas":3},"status":{"observedGeneration":2,"replicas":3,"readyReplicas":1,"updatedReplicas":3}}`, false},
		{"Deployment", "", `{"metadata":{"generation":1},"spec":{"replicas":0},"status":{"observedGeneration":1}}`, true},
		{"Deployment", "", `{"metadata":{"generation":1},"spec":{"replicas":1},"status":{}}`, false},
		{"StatefulSet", "", `{"metadata":{"generation":1},"spec":{"replicas":2},"status":{"observedGeneration":1,"readyReplicas":2,"updatedReplicas":2}}`, true},
		{"ReplicationController", "", `{"metadata":{"generation":1},"spec":{"replicas":2},"status":{"observedGeneration":1,"replicas":2}}`, false},
		{"DaemonSet", "", `{"metadata":{"generation":1},"spec":{},"status":{"observedGeneration":1,"desiredNumberScheduled":4,"numberReady":4,"updatedNumberScheduled":4}}`, true},
		{"DaemonSet", "", `{"metadata":{"generation":1},"spec":{},"status":{"observedGeneration":1,"desiredNumberScheduled":4,"numberReady":3,"updatedNumberScheduled":4}}`, false},
		{"Job", "", `{"metadata":{},"spec":{"parallelism":3},"status":{"ready":3}}`, true},
		{"Job", "", `{"metadata":{},"spec":{"parallelism":3},"status":{"ready":1}}`, false},
		{"Job", "", `{"metadata":{},"spec":{"parallelism":3},"status":{"conditions":[{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]}}`, true},
		{"Widget", "", `{"metadata":{},"spec":{"replicas":3},"status":{"readyReplicas":3}}`, true},
		{"Widget", "", `{"metadata":{},"spec":{"replicas":3}}`, false},
		{"Widget", "", `{"metadata":{},"spec":{},"status":{}}`, true},
	} {
		version := map[string]string{"Job": "batch/v1", "Widget": "x.org/v1", "ReplicationController": "v1"}[tt.kind]
		if version == "" {
			version = "apps/v1"
		}
		if tt.params != "" {
			tt.params += ", "
		}
		params := tt.params + "apiVersion: " + version + ", kind: " + tt.kind
		s, _ := imported(t, map[string]string{
			"c.yaml":  top + phase(strings.Replace(bundle, "cm.yaml", "o.yaml", 1)) + measured("WaitForControlledPodsRunning", "action: start, "+params) + measured("WaitForControlledPodsRunning", "action: gather"),
			"o.yaml":  "apiVersion: " + version + "\nkind: " + tt.kind + "\nspec: {template: {}}\n",
			"cm.yaml": cm,
		}, clusterloader2.Options{Nodes: 1})
		c := repotest.Must(scenario.ParseCondition(s.Steps[1].Wait.Condition))(t)
		if !json.Valid([]byte(tt.object)) {
			t.Fatal(tt.object)
		}
		if got, err := c.Holds([]byte(tt.object)); err != nil || got != tt.want {
			t.Errorf("%s %s: %v %v, want %v\n%s", tt.kind, tt.object, got, err, tt.want, s.Steps[1].Wait.Condition)
		}
	}
}

// TestPodsThatStay: where others have the same labels, their pods are not waited for.
func TestPodsThatStay(t *testing.T) {
	deployment := func(replicas string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {labels: {app: x}}\nspec: {replicas: " + replicas + ", template: {metadata: {labels: {group: g, own: {{.Name}}}}, spec: {containers: [{name: a}]}}}\n"
	}
	object := func(name, file, replicas string) string {
		return phase("tuningSet: u, namespaceRange: {min: 1, max: 1}, replicasPerNamespace: " + replicas + ", objectBundle: [{basename: " + name + ", objectTemplatePath: " + file + "}]")
	}
	begin := measured("WaitForControlledPodsRunning", "action: start, apiVersion: apps/v1, kind: Deployment, labelSelector: app = x")
	gather := measured("WaitForControlledPodsRunning", "action: gather")
	for _, tt := range []struct {
		name, other string
		remain      int
		want        string
	}{
		{"known", deployment("7"), 14, ""},
		{"random", deployment("{{RandIntRange 1 9}}"), 0, "c.yaml:9: WaitForControlledPodsRunning: other pods with the labels group=g stay, nobody knows how many: only the controllers are waited for"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			other := strings.Replace(tt.other, "app: x", "app: y", 1)
			s, notes := imported(t, map[string]string{
				"c.yaml":  top + begin + object("a", "a.yaml", "3") + object("b", "b.yaml", "2") + object("a", "a.yaml", "0") + gather,
				"a.yaml":  deployment("5"),
				"b.yaml":  other,
				"cm.yaml": cm,
			}, clusterloader2.Options{Nodes: 1})
			if notes != tt.want {
				t.Errorf("notes\n got %s\nwant %s", notes, tt.want)
			}
			last := s.Steps[len(s.Steps)-1]
			if tt.want != "" {
				if last.Wait == nil || last.Wait.Objects != "deployments.apps" || !last.Wait.Deleted {
					t.Errorf("%+v", last)
				}
				return
			}
			if len(last.Parallel) != 2 || last.Parallel[1].Wait.Selector != "group=g" || last.Parallel[1].Wait.Count != tt.remain {
				t.Errorf("%+v", last.Parallel)
			}
		})
	}
}

// TestGroups: pods are known by the selectors of what measures them, each of
// which is one group.
func TestGroups(t *testing.T) {
	s, notes := imported(t, map[string]string{
		"c.yaml": top +
			measured("PodStartupLatency", "action: start, labelSelector: 'group = g', perc99Threshold: 7s, threshold: 9s") +
			"- {name: m, measurements: [{identifier: j, method: SchedulingThroughput, params: {action: start, labelSelector: group=g}}]}\n" +
			"- {name: m, measurements: [{identifier: k/l, method: PodStartupLatency, params: {action: start}}]}\n" +
			"- {name: m, measurements: [{identifier: f, method: PodStartupLatency, params: {action: start, fieldSelector: spec.nodeName=x}}]}\n" +
			phase(strings.Replace(bundle, "cm.yaml", "pod.yaml", 1)) +
			measured("PodStartupLatency", "action: gather") + measured("PodStartupLatency", "action: gather") +
			"- {name: m, measurements: [{identifier: j, method: SchedulingThroughput, params: {action: gather, threshold: 5}}]}\n" +
			"- {name: m, measurements: [{identifier: k/l, method: PodStartupLatency, params: {action: gather}}]}\n" +
			"- {name: m, measurements: [{identifier: f, method: PodStartupLatency, params: {action: gather}}]}\n",
		"pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {labels: {group: g}}\n",
	}, clusterloader2.Options{Nodes: 1})
	if got, want := fmt.Sprint(s.Groups), "[{i  group=g} {k-l  !windtunnel.dev/none}]"; got != want {
		t.Errorf("groups %s, want %s", got, want)
	}
	if g := s.Steps[0].Create.Group; g != "i" {
		t.Errorf("the pods are those of group %q", g)
	}
	var got []string
	for _, o := range s.Objectives {
		if o.Unsupported != "" {
			got = append(got, o.Name+" unsupported")
			continue
		}
		bound := o.Max
		if bound == nil {
			bound = o.Min
		}
		got = append(got, fmt.Sprint(o.Name, " ", o.SLI, " ", o.Statistic, " ", o.Labels["group"], " ", *bound))
	}
	if got, want := strings.Join(got, "\n"), "i pod-startup p99 i 7\nj pods-bound-rate max i 5\nk/l pod-startup p99 k-l 5\nf unsupported"; got != want {
		t.Errorf("objectives\n got %s\nwant %s", got, want)
	}
	want := "c.yaml:8: PodStartupLatency fieldSelector: objects are selected by labels only, not by fieldSelector\n" +
		"c.yaml:11: PodStartupLatency: \"i\" is gathered more than once; it is judged over the whole run"
	if notes != want {
		t.Errorf("notes\n got %s\nwant %s", notes, want)
	}
}

// TestModuleThatIsSwitchedOff: it renders to nothing, and is a module of no steps.
func TestModuleThatIsSwitchedOff(t *testing.T) {
	s, _ := imported(t, map[string]string{
		"c.yaml":   "name: t\ntuningSets: [{name: u, qpsLoad: {qps: 5}}]\nsteps:\n- module: {path: off.yaml}\n" + phase(bundle),
		"off.yaml": "# steps: below\n{{if .ON}}\nsteps: [{name: s, measurements: [{identifier: i, method: Sleep, params: {duration: 1s}}]}]\n{{end}}\n",
		"cm.yaml":  cm,
	}, clusterloader2.Options{Nodes: 10})
	if len(s.Steps) != 1 || s.Steps[0].Create == nil {
		t.Errorf("%d steps", len(s.Steps))
	}
}

// TestRangeOfOtherNamespaces: a range with a basename is of namespaces that a phase
// made, whatever the test is called, and not of the test's own.
func TestRangeOfOtherNamespaces(t *testing.T) {
	s, _ := imported(t, map[string]string{
		"c.yaml": "name: bench\ntuningSets: [{name: u, qpsLoad: {qps: 5}}]\nsteps:\n" +
			phase("tuningSet: u, replicasPerNamespace: 1, objectBundle: [{basename: bench, objectTemplatePath: ns.yaml}]") +
			phase("tuningSet: u, namespaceRange: {min: 0, max: 0, basename: bench}, replicasPerNamespace: 1, objectBundle: [{basename: a, objectTemplatePath: cm.yaml}]"),
		"ns.yaml": "apiVersion: v1\nkind: Namespace\n",
		"cm.yaml": cm,
	}, clusterloader2.Options{Nodes: 10})
	r := s.Steps[1].Create.Namespaces
	if r == nil || *r != (scenario.Range{From: 0, To: 0, Prefix: "bench"}) || s.Namespaces.Prefix != "test-bench" {
		t.Errorf("namespaces %+v, the run's own are %s-1 ...", r, s.Namespaces.Prefix)
	}
}
