package clusterloader2_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/text/environ"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// tests are files of a folder, the first of which is imported; names may lead
// into folders below.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tests")
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		repotest.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		repotest.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return dir
}

// clean takes the folder's name out of messages.
func clean(text, dir string) string {
	return strings.ReplaceAll(filepath.ToSlash(text), filepath.ToSlash(dir)+"/", "")
}

const (
	top = "name: t\ntuningSets:\n- {name: u, qpsLoad: {qps: 5}}\nsteps:\n" // four lines
	cm  = "apiVersion: v1\nkind: ConfigMap\n"
)

// phase is a step of one phase on one line.
func phase(fields string) string { return "- {name: p, phases: [{" + fields + "}]}\n" }

const bundle = "tuningSet: u, namespaceRange: {min: 1, max: 1}, replicasPerNamespace: 1, objectBundle: [{basename: a, objectTemplatePath: cm.yaml}]"

func measured(method, params string) string {
	return "- {name: m, measurements: [{identifier: i, method: " + method + ", params: {" + params + "}}]}\n"
}

// TestBadFiles holds the message of each rule. The lines are those of the
// files, whatever the templates made of them.
func TestBadFiles(t *testing.T) {
	for _, tt := range []struct {
		name, config string
		files        map[string]string
		want         string
	}{
		{"nothing", "# nothing\n", nil, "c.yaml:1: it renders to nothing"},
		{"not a text", "name: \x00\n", nil, "c.yaml:1: it is not a text: it has zero bytes"},
		{"not yaml", "name: t\n{{if true}}\nsteps: [\n{{end}}\n", nil, "c.yaml:4: what it renders to is not YAML: did not find expected node content"},
		{"a list", "- a\n", nil, "c.yaml:1: a list in place of fields"},
		{"template does not parse", "a: 1\nb: {{ nope }}\n", nil, `c.yaml:2: function "nope" not defined`},
		{"template does not execute", "a: 1\nb: {{ DivideInt 1 0 }}\n", nil, "c.yaml:2: at <DivideInt 1 0>: error calling DivideInt: division by zero"},
		{"file that is included is missing", "a: {{ IncludeFile \"x.yaml\" }}\n", nil, `c.yaml:1: at <IncludeFile "x.yaml">: error calling IncludeFile: x.yaml: no such file`},
		{"include leads out", "a: {{ IncludeEmbedFile \"../../x.yaml\" }}\n", nil,
			`c.yaml:1: at <IncludeEmbedFile "../../x.yaml">: error calling IncludeEmbedFile: ../../x.yaml: leads out of the folder above the config's`},
		{"no name, no steps", "{{range Loop 2}}\n{{end}}\nnamespace: {}\n", nil, "c.yaml:3: name: a name is needed\nc.yaml:3: steps: no steps"},
		{"types", "name: t\nnamespace: {number: many}\nsteps: {}\ntuningSets:\n- {name: u, timeLimitedLoad: {timeLimit: 5}}\n", nil,
			"c.yaml:2: namespace.number: \"many\" is not a whole number\nc.yaml:3: steps: fields in place of a list\nc.yaml:5: tuningSets[0].timeLimitedLoad.timeLimit: \"5\" is not a time such as 1m30s"},
		{"namespaces", "name: t\nnamespace:\n\n  number: -1\nsteps: [{name: a, measurements: [{identifier: s, method: Sleep}]}]\n", nil, "c.yaml:4: namespace.number: -1 is below 0"},
		{"no kind of tuning set", top + phase(bundle) + "TuningSets:\n- name: u\n- name: v\n", map[string]string{"cm.yaml": cm},
			`c.yaml:7: tuningSets[0]: tuning set "u": exactly one of qpsLoad, randomizedLoad, steppedLoad, timeLimitedLoad, randomizedTimeLimitedLoad, parallelismLimitedLoad, globalQPSLoad, poissonLoad is needed` + "\n" +
				`c.yaml:8: tuningSets[1]: tuning set "v": exactly one of qpsLoad, randomizedLoad, steppedLoad, timeLimitedLoad, randomizedTimeLimitedLoad, parallelismLimitedLoad, globalQPSLoad, poissonLoad is needed`},
		{"two kinds of tuning set", "name: t\ntuningSets:\n- {name: u, qpsLoad: {qps: 5}, poissonLoad: {expectedActionsPerSecond: 5}}\nsteps:\n" + phase(bundle), map[string]string{"cm.yaml": cm},
			`c.yaml:3: tuningSets[0]: tuning set "u": exactly one of qpsLoad, randomizedLoad, steppedLoad, timeLimitedLoad, randomizedTimeLimitedLoad, parallelismLimitedLoad, globalQPSLoad, poissonLoad is needed, not qpsLoad and poissonLoad`},
		{"values of tuning sets", "name: t\ntuningSets:\n- {name: u, qpsLoad: {qps: 0}}\n- {name: v, timeLimitedLoad: {timeLimit: 0s}}\n- {name: w, steppedLoad: {burstSize: -1}}\n- {name: x, globalQPSLoad: {qps: 1}}\nsteps:\n" + phase(bundle), map[string]string{"cm.yaml": cm},
			"c.yaml:3: tuningSets[0].qpsLoad.qps: 0 is not above 0\nc.yaml:4: tuningSets[1].timeLimitedLoad.timeLimit: 0s is not above 0s\n" +
				"c.yaml:5: tuningSets[2].steppedLoad.burstSize: -1 is not above 0\nc.yaml:6: tuningSets[3].globalQPSLoad.burst: 0 is not above 0"},
		{"tuning set not declared", top + phase(strings.Replace(bundle, "tuningSet: u", "tuningSet: v", 1)), map[string]string{"cm.yaml": cm}, `c.yaml:5: phases[0].tuningSet: "v" is not declared; tuningSets has u`},
		{"no tuning set", top + phase(strings.Replace(bundle, "tuningSet: u, ", "", 1)), map[string]string{"cm.yaml": cm}, "c.yaml:5: phases[0].tuningSet: a tuning set is needed"},
		{"template missing", top + phase(bundle), nil, "c.yaml:5: phases[0].objectBundle[0].objectTemplatePath: cm.yaml: no such file"},
		{"template leads out", top + phase(strings.Replace(bundle, "cm.yaml", "../../cm.yaml", 1)), nil, "c.yaml:5: phases[0].objectBundle[0].objectTemplatePath: ../../cm.yaml: leads out of the folder above the config's"},
		{"basename", top + phase(strings.Replace(bundle, "basename: a", "basename: A_b", 1)), map[string]string{"cm.yaml": cm}, `c.yaml:5: phases[0].objectBundle[0].basename: "A_b" does not begin the name of an object: only a-z, 0-9, - and .`},
		{"basename twice", top + phase(strings.Replace(bundle, "}]", "}, {basename: a, objectTemplatePath: cm.yaml}]", 1)), map[string]string{"cm.yaml": cm}, `c.yaml:5: objectBundle[1]: basename "a" of kind ConfigMap stands twice in the bundle`},
		{"ranges", top + phase(strings.Replace(bundle, "min: 1, max: 1", "min: 3, max: 1", 1)) + phase(strings.Replace(bundle, "replicasPerNamespace: 1", "replicasPerNamespace: -1", 1)), map[string]string{"cm.yaml": cm},
			"c.yaml:5: phases[0].namespaceRange.max: 1 is below min, 3\nc.yaml:6: phases[0].replicasPerNamespace: -1 is below 0"},
		{"range beyond the namespaces", top + phase(strings.Replace(bundle, "max: 1", "max: 7", 1)), map[string]string{"cm.yaml": cm}, "c.yaml:5: namespaceRange: 1 to 7 is not within 1 to 1 (namespace.number)"},
		{"bundle of two counts", top + phase(bundle) + phase(strings.Replace(bundle, "}]", "}, {basename: b, objectTemplatePath: cm.yaml}]", 1)), map[string]string{"cm.yaml": cm},
			"c.yaml:6: objectBundle: there are 1 of a and 0 of b in a namespace: ClusterLoader2 skips such a phase and fails"},
		{"step of two kinds", top + "- name: s\n  phases: [{" + bundle + "}]\n  measurements: [{identifier: i, method: Sleep}]\n- name: none\n", map[string]string{"cm.yaml": cm},
			"c.yaml:5: step \"s\": exactly one of phases, measurements and module is needed\nc.yaml:8: step \"none\": exactly one of phases, measurements and module is needed"},
		{"unknown measurement", top + measured("WaitForRunningPod", ""), nil, `c.yaml:5: measurements[0].method: ClusterLoader2 has no measurement "WaitForRunningPod" (did you mean "WaitForRunningPods"?)`},
		{"no identifier", top + "- {name: m, measurements: [{method: Sleep}]}\n", nil, "c.yaml:5: measurements[0]: exactly one of identifier and instances is needed"},
		{"parameters", top + measured("WaitForRunningPods", "desiredPodCount: '2', timeout: soon, labelSelector: [a]"), nil,
			"c.yaml:5: WaitForRunningPods: desiredPodCount: 2 is not a number\nc.yaml:5: WaitForRunningPods: labelSelector: [a] is not a text\nc.yaml:5: WaitForRunningPods: timeout: \"soon\" is not a time such as 1m30s"},
		{"selector", top + measured("PodStartupLatency", "action: start, labelSelector: 'a in'"), nil, `c.yaml:5: PodStartupLatency: labelSelector: "a in" is not a label selector`},
		{"gathered and not started", top + measured("PodStartupLatency", "action: gather"), nil, `c.yaml:5: PodStartupLatency: "i" is gathered and was not started`},
		{"started without parameters", top + measured("WaitForControlledPodsRunning", "action: start") + measured("WaitForControlledPodsRunning", "action: gather"), nil,
			"c.yaml:6: WaitForControlledPodsRunning: apiVersion is needed\nc.yaml:6: WaitForControlledPodsRunning: kind is needed"},
		{"actions", top + measured("WaitForControlledPodsRunning", "a: b") + measured("PodStartupLatency", "action: stop") + measured("WaitForFinishedJobs", "action: gather"), nil,
			"c.yaml:5: WaitForControlledPodsRunning: action is needed: start, gather, stop\nc.yaml:6: PodStartupLatency: action: \"stop\" is none of start, gather\n" +
				"c.yaml:7: WaitForFinishedJobs: \"i\" is gathered and was not started"},
		{"nodes that never are so few", top + measured("WaitForNodes", "minDesiredNodeCount: 0, maxDesiredNodeCount: 0") + measured("WaitForNodes", "minDesiredNodeCount: 1") + measured("WaitForBoundPVCs", "a: b") + measured("WaitForRunningPods", "desiredPodCount: -1"), nil,
			"c.yaml:5: WaitForNodes: maxDesiredNodeCount: 0 is too few: the run has 1 node, or wants them, so the wait cannot end\n" +
				"c.yaml:6: WaitForNodes: maxDesiredNodeCount is needed\nc.yaml:7: WaitForBoundPVCs: desiredPVCCount is needed\nc.yaml:8: WaitForRunningPods: desiredPodCount: -1 is below 0"},
		{"parameters that are needed", top + measured("Sleep", "a: b") + measured("WaitForRunningPods", "a: b") + measured("Exec", "a: b") + measured("GenericPrometheusQuery", "action: gather, queries: [{}]") + measured("WaitForGenericK8sObjects", "a: b"), nil,
			"c.yaml:5: Sleep: duration is needed\nc.yaml:6: WaitForRunningPods: desiredPodCount is needed\nc.yaml:7: Exec: command is needed\n" +
				"c.yaml:8: GenericPrometheusQuery: metricName is needed\nc.yaml:8: GenericPrometheusQuery: name is needed\nc.yaml:8: GenericPrometheusQuery: query is needed\nc.yaml:9: WaitForGenericK8sObjects: successfulConditions is needed"},
		{"custom thresholds", top + measured("APIResponsivenessPrometheus", "action: gather, enableViolations: true, customThresholds: '- {verb: GET, threshold: 0s}'"), nil, "c.yaml:5: APIResponsivenessPrometheus: customThresholds: threshold of GET : 0s is not above 0s"},
		{"object template does not parse", top + phase(bundle), map[string]string{"cm.yaml": "a: b\nc: {{ .x\n"}, "cm.yaml:3: unclosed action started at body:2"},
		{"object template does not execute", top + phase(bundle), map[string]string{"cm.yaml": cm + "\n\na: {{ AddInt .Replicas 1 }}"},
			`cm.yaml:5: object "a-0": at <AddInt .Replicas 1>: error calling AddInt: <nil> is not a number`},
		{"object template is no object", top + phase(bundle), map[string]string{"cm.yaml": "- a"}, `cm.yaml:1: object "a-0": the template gives no object but a text, a number or a list`},
		{"module missing", top + "- module:\n    path: modules/m.yaml\n", nil, "c.yaml:6: module.path: modules/m.yaml: no such file"},
		{"module in itself", top + "- module: {path: m.yaml}\n", map[string]string{"m.yaml": "\nsteps:\n- module: {path: m.yaml}\n"}, "m.yaml:3: module.path: modules nest deeper than 20: m.yaml"},
		{"fault in a module", top + "- module: {path: modules/m.yaml, params: {a: 1}}\n", map[string]string{"modules/m.yaml": "# one\n{{if .a}}\nsteps:\n- name: x\n\n  measurements: [{identifier: i, method: Nap}]\n{{end}}\n"},
			`modules/m.yaml:6: measurements[0].method: ClusterLoader2 has no measurement "Nap"`},
		{"chaos", "chaosMonkey:\n  nodeFailure: {failureRate: 0.1}\n" + top + phase(bundle), map[string]string{"cm.yaml": cm}, "c.yaml:2: chaosMonkey.nodeFailure: failureRate, interval and simulatedDowntime above 0 are needed"},
		{"nothing that can be done", top + measured("CPUProfile", "action: gather"), nil, "c.yaml:1: steps: nothing in it can be done here: no objects are made and nothing is waited for"},
		{"aliases", "name: &a [&b {x: *a}]\nsteps: *b\n", nil, "c.yaml:1: name: a list in place of a value\nc.yaml:1: steps: fields in place of a list"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{"c.yaml": tt.config}
			maps.Copy(files, tt.files)
			dir := folder(t, files)
			_, _, err := clusterloader2.Import(filepath.Join(dir, "c.yaml"), clusterloader2.Options{Nodes: 1})
			if err == nil {
				t.Fatalf("no error, want\n%s", tt.want)
			}
			if got := clean(err.Error(), dir); got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestBadSuites(t *testing.T) {
	for _, tt := range []struct{ suite, chosen, want string }{
		{"- {identifier: a_b, configPath: c.yaml}\n", "", `s.yaml:1: [0].identifier: "a_b" has an underscore, which separates the parts of result files' names`},
		{"- identifier: a\n  configPath: ''\n- identifier: a\n  configPath: c.yaml\n", "", "s.yaml:1: [0].configPath: a config is needed\ns.yaml:3: [1].identifier: \"a\" stands twice"},
		{"- identifier: a\n  configPath: c.yaml\n- identifier: b\n  configPath: c.yaml\n", "", "s.yaml:1: the suite has 2 scenarios: choose one with --set Scenario=NAME: a, b"},
		{"- identifier: a\n  configPath: c.yaml\n", "x", `s.yaml:1: the suite has no scenario "x"; it has a`},
		{"- identifier: a\n  configPath: nowhere/to/be/found.yaml\n", "", `s.yaml:2: configPath: "nowhere/to/be/found.yaml" is neither here nor in DIR nor in a folder above it`},
		{"- identifier: a\n  configPath: c.yaml\n  overridePaths: [no.yaml]\n", "", `s.yaml:3: overridePaths: "no.yaml" is neither here nor in DIR nor in a folder above it`},
	} {
		dir := folder(t, map[string]string{"s.yaml": tt.suite, "c.yaml": top})
		_, _, err := clusterloader2.Import(filepath.Join(dir, "s.yaml"), clusterloader2.Options{Nodes: 1, Scenario: tt.chosen})
		if err == nil {
			t.Errorf("%s: no error", tt.suite)
		} else if got := strings.ReplaceAll(clean(err.Error(), dir), dir, "DIR"); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.suite, got, tt.want)
		}
	}
}

// TestVariables holds where a variable comes from, and what may not be.
func TestVariables(t *testing.T) {
	config := "name: t\ntuningSets:\n- {name: u, qpsLoad: {qps: {{DefaultParam .CL2_QPS 5}} }}\nsteps:\n" + phase(bundle)
	for _, tt := range []struct {
		name string
		o    clusterloader2.Options
		rate float64
		want string
	}{
		{"default", clusterloader2.Options{Nodes: 1}, 5, ""},
		{"environment", clusterloader2.Options{Nodes: 1, Env: environ.New([]string{"QPS=1", "CL2_QPS=7", "CL2_X=a=b"}, nil)}, 7, ""},
		{"file", clusterloader2.Options{Nodes: 1, Overrides: []string{"a.yaml"}}, 8, ""},
		{"later file", clusterloader2.Options{Nodes: 1, Overrides: []string{"a.yaml", "b.yaml"}}, 9.5, ""},
		{"file and environment agree", clusterloader2.Options{Nodes: 1, Overrides: []string{"a.yaml"}, Env: environ.New([]string{"CL2_QPS=8"}, nil)}, 8, ""},
		{"file and environment differ", clusterloader2.Options{Nodes: 1, Overrides: []string{"a.yaml"}, Env: environ.New([]string{"CL2_QPS=7"}, nil)}, 0, "CL2_QPS is 8 in the override files and 7 in the environment"},
		{"set wins", clusterloader2.Options{Nodes: 1, Overrides: []string{"a.yaml"}, Env: environ.New([]string{"CL2_QPS=7"}, nil), Set: map[string]string{"CL2_QPS": "11.5"}}, 11.5, ""},
		{"no nodes", clusterloader2.Options{}, 0, "c.yaml:1: the number of simulated nodes is not given: add --set Nodes=100"},
		{"nodes by set", clusterloader2.Options{Set: map[string]string{"Nodes": "3"}}, 5, ""},
		{"nodes that are none", clusterloader2.Options{Set: map[string]string{"Nodes": "all"}}, 0, `--set Nodes=all: "all" is not a whole number`},
		{"set of nothing", clusterloader2.Options{Nodes: 1, Set: map[string]string{"CL2_QPZ": "7"}}, 0, `--set CL2_QPZ=7: nothing in c.yaml reads CL2_QPZ (did you mean "CL2_QPS"?)`},
		{"set of nothing near", clusterloader2.Options{Nodes: 1, Set: map[string]string{"REPLICAS": "7"}}, 0, `--set REPLICAS=7: nothing in c.yaml reads REPLICAS; it reads CL2_QPS, DATA, NodeLabels, Nodes`},
		{"set of an object", clusterloader2.Options{Nodes: 1, Set: map[string]string{"DATA": "7"}}, 5, ""},
		{"set of a suite", clusterloader2.Options{Nodes: 1, Set: map[string]string{"Scenario": "a"}}, 0, `--set Scenario=a: nothing in c.yaml reads Scenario; it reads CL2_QPS, DATA, NodeLabels, Nodes`},
		{"set of the plane", clusterloader2.Options{Nodes: 1, Set: map[string]string{"plane.release": "v1"}}, 0, "--set plane.release=v1: c.yaml is a file of another tool and has no plane: write it as a scenario with `windtunnel import c.yaml -o scenario.yaml`, which takes --set plane.release"},
		{"no such file", clusterloader2.Options{Nodes: 1, Overrides: []string{"no.yaml"}}, 0, "--overrides: read config: open no.yaml: no such file or directory"},
		{"file of another form", clusterloader2.Options{Nodes: 1, Overrides: []string{"list.yaml"}}, 0, "list.yaml:1: a list in place of fields"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := folder(t, map[string]string{"c.yaml": config, "cm.yaml": cm + "data: {a: \"{{.DATA}}\"}\n", "a.yaml": "CL2_QPS: 8\nOTHER: [1]\n", "b.yaml": "CL2_QPS: 9.5\n", "list.yaml": "- a\n"})
			for i := range tt.o.Overrides {
				tt.o.Overrides[i] = filepath.Join(dir, tt.o.Overrides[i])
			}
			s, _, err := clusterloader2.Import(filepath.Join(dir, "c.yaml"), tt.o)
			switch {
			case err != nil && clean(err.Error(), dir) != tt.want:
				t.Errorf("\n got %s\nwant %s", clean(err.Error(), dir), tt.want)
			case err == nil && (tt.want != "" || s.Steps[0].Create.Pace.Constant != tt.rate):
				t.Errorf("%+v, want %v or %q", s.Steps[0].Create.Pace, tt.rate, tt.want)
			}
		})
	}
}
