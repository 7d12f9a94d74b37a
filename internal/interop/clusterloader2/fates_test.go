package clusterloader2

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/config"
	"github.com/windtunnel/windtunnel/internal/interop/kit"
	"github.com/windtunnel/windtunnel/internal/interop/kit/kittest"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// plainConfig has one of everything; probes change it.
const plainConfig = `name: t
namespace: {number: 3, prefix: p}
tuningSets:
- {name: u, qpsLoad: {qps: 5}}
- {name: v, qpsLoad: {qps: 7}}
steps:
- name: s
  phases:
  - namespaceRange: {min: 1, max: 2}
    replicasPerNamespace: 2
    tuningSet: u
    objectBundle:
    - {basename: a, objectTemplatePath: cm.yaml, templateFillMap: {X: 1}}
- name: m
  measurements:
  - {identifier: i, method: Sleep, params: {duration: 1s}}
`

// configFiles are those that probes refer to.
func configFiles() map[string]string {
	return map[string]string{
		"cm.yaml":    "apiVersion: v1\nkind: ConfigMap\nmetadata: {labels: {x: '{{.X}}'}}\n",
		"other.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {labels: {y: '{{.X}}'}}\n",
		"d.yaml":     "apiVersion: apps/v1\nkind: Deployment\nmetadata: {labels: {app: x}}\nspec: {replicas: 2, template: {metadata: {labels: {app: x}}, spec: {containers: [{name: c}]}}}\n",
		"j.yaml":     "apiVersion: batch/v1\nkind: Job\nmetadata: {labels: {app: x}}\nspec: {template: {metadata: {labels: {app: j}}, spec: {containers: [{name: c}]}}}\n",
		"m.yaml":     "steps:\n- {name: in-{{.X}}, measurements: [{identifier: i, method: Sleep, params: {duration: 2s}}]}\n",
		"m2.yaml":    "steps:\n- {name: another, measurements: [{identifier: i, method: Sleep, params: {duration: 2s}}]}\n",
		"c2.yaml":    strings.Replace(plainConfig, "qps: 5", "qps: 50", 1),
		"o.yaml":     "X: 1\nQPS: 9\n",
		"suite.yaml": "- {identifier: one, configPath: c.yaml}\n",
	}
}

// swap is a part of the plain config and what stands in its place.
type swap struct{ old, new string }

// probe sets one field: the plain config with one part swapped, and with
// another one.
type probe struct{ without, with swap }

// set is a probe of a field that the plain config lacks.
func set(old, new string) probe { return probe{swap{}, swap{old, new}} }

// changed is a probe of two values of a field in the place of a part.
func changed(old, form, one, other string) probe {
	return probe{swap{old, fmt.Sprintf(form, one)}, swap{old, fmt.Sprintf(form, other)}}
}

// configProbes set each field of the config's types, by path and name.
func configProbes() map[string]probe {
	const qps, object, range_, measured = "qpsLoad: {qps: 5}", "basename: a, objectTemplatePath: cm.yaml", "namespaceRange: {min: 1, max: 2}", "identifier: i, method: Sleep, params: {duration: 1s}"
	unknown := func(selector string) probe {
		return probe{swap{"replicasPerNamespace: 2", "replicasPerNamespace: 0"}, swap{"replicasPerNamespace: 2\n    tuningSet: u\n    objectBundle:\n    - {" + object,
			"replicasPerNamespace: 0\n    tuningSet: u\n    objectBundle:\n    - {listUnknownObjectOptions: {labelSelector: {" + selector + "}}, " + object}}
	}
	instances := func(fields string) swap {
		return swap{measured, "method: Sleep, instances: [{" + fields + "}], params: {duration: 1s}"}
	}
	expression := func(fields string) swap { return unknown("matchExpressions: [{" + fields + "}]").with }
	module := func(fields string) swap { return swap{"- name: m\n", "- module: {" + fields + "}\n- name: m\n"} }
	chaos := func(fields string) swap { return swap{"name: t", "chaosMonkey: {" + fields + "}\nname: t"} }
	failing := "failureRate: 0.5, interval: 1m, simulatedDowntime: 1m"
	return map[string]probe{
		".name":                  set("name: t", "name: other"),
		".automanagedNamespaces": {swap{"namespace: {number: 3, prefix: p}", "namespace: {prefix: p}\nautomanagedNamespaces: 2"}, swap{"namespace: {number: 3, prefix: p}", "namespace: {prefix: p}\nautomanagedNamespaces: 3"}},
		".namespace":             set("number: 3", "number: 4"), ".steps": set("duration: 1s", "duration: 2s"), ".tuningSets": set("qps: 5", "qps: 6"),
		".chaosMonkey": {swap{}, chaos("nodeFailure: {" + failing + "}")}, ".dependencies": set("name: t", "dependencies: [{name: d, method: DRA}]\nname: t"),
		"dependencies.name": set("name: t", "dependencies: [{name: d}]\nname: t"), "dependencies.method": set("name: t", "dependencies: [{method: DRA}]\nname: t"),
		"dependencies.timeout": set("name: t", "dependencies: [{timeout: 1m}]\nname: t"), "dependencies.params": set("name: t", "dependencies: [{params: {a: b}}]\nname: t"),
		"namespace.number": set("number: 3", "number: 4"), "namespace.prefix": set("prefix: p", "prefix: q"),
		"namespace.deleteStaleNamespaces": set("prefix: p", "prefix: p, deleteStaleNamespaces: true"), "namespace.deleteAutomanagedNamespaces": set("prefix: p", "prefix: p, deleteAutomanagedNamespaces: false"),
		"namespace.enableExistingNamespaces": set("prefix: p", "prefix: p, enableExistingNamespaces: true"), "namespace.deleteNamespaceTimeout": set("prefix: p", "prefix: p, deleteNamespaceTimeout: 5m"),
		"chaosMonkey.nodeFailure": {swap{}, chaos("nodeFailure: {" + failing + "}")}, "chaosMonkey.excludedNodes": {swap{}, chaos("excludedNodes: [a], nodeFailure: {" + failing + "}")},
		"chaosMonkey.nodeFailure.failureRate":       {chaos("nodeFailure: {" + failing + "}"), chaos("nodeFailure: {" + strings.Replace(failing, "0.5", "1", 1) + "}")},
		"chaosMonkey.nodeFailure.interval":          {chaos("nodeFailure: {" + failing + "}"), chaos("nodeFailure: {" + strings.Replace(failing, "interval: 1m", "interval: 2m", 1) + "}")},
		"chaosMonkey.nodeFailure.jitterFactor":      {chaos("nodeFailure: {" + failing + "}"), chaos("nodeFailure: {jitterFactor: 1, " + failing + "}")},
		"chaosMonkey.nodeFailure.simulatedDowntime": {chaos("nodeFailure: {" + failing + "}"), chaos("nodeFailure: {" + strings.Replace(failing, "Downtime: 1m", "Downtime: 3m", 1) + "}")},

		"module file.steps": {module("path: m.yaml, params: {X: 1}"), module("path: m2.yaml, params: {X: 1}")},
		"steps.name":        set("name: m", "name: n"), "steps.phases": set("replicasPerNamespace: 2", "replicasPerNamespace: 3"), "steps.measurements": set("duration: 1s", "duration: 2s"),
		"steps.module": {swap{}, module("path: m.yaml")}, "steps.module.path": {module("path: m.yaml"), module("path: m2.yaml")}, "steps.module.params": {module("path: m.yaml"), module("path: m.yaml, params: {X: 5}")},
		"steps.phases.namespaceRange": set("  - "+range_+"\n    replicas", "  - replicas"), "steps.phases.namespaceList": set(range_, "namespaceList: [x, y]"), "steps.phases.replicasPerNamespace": set("Namespace: 2", "Namespace: 4"),
		"steps.phases.tuningSet": set("tuningSet: u", "tuningSet: v"), "steps.phases.objectBundle": set("    - {basename: a", "    - {basename: b, objectTemplatePath: cm.yaml}\n    - {basename: a"),
		"steps.phases.namespaceRange.min": set("min: 1", "min: 2"), "steps.phases.namespaceRange.max": set("max: 2", "max: 3"), "steps.phases.namespaceRange.basename": set("max: 2", "max: 2, basename: other"),
		"steps.phases.objectBundle.basename": set("basename: a", "basename: b"), "steps.phases.objectBundle.objectTemplatePath": set("cm.yaml", "other.yaml"), "steps.phases.objectBundle.templateFillMap": set("X: 1", "X: 2"),
		"steps.phases.objectBundle.listUnknownObjectOptions":                           unknown("matchLabels: {a: b}"),
		"steps.phases.objectBundle.listUnknownObjectOptions.labelSelector":             unknown("matchLabels: {a: b}"),
		"steps.phases.objectBundle.listUnknownObjectOptions.labelSelector.matchLabels": {unknown("matchLabels: {a: b}").with, unknown("matchLabels: {a: c}").with},
		"steps.phases.objectBundle.listUnknownObjectOptions.labelSelector.matchExpressions": {
			unknown("matchLabels: {a: b}").with, unknown("matchLabels: {a: b}, matchExpressions: [{key: k, operator: Exists}]").with},
		"steps.phases.objectBundle.listUnknownObjectOptions.labelSelector.matchExpressions.key":      {expression("key: k, operator: Exists"), expression("key: l, operator: Exists")},
		"steps.phases.objectBundle.listUnknownObjectOptions.labelSelector.matchExpressions.operator": {expression("key: k, operator: Exists"), expression("key: k, operator: DoesNotExist")},
		"steps.phases.objectBundle.listUnknownObjectOptions.labelSelector.matchExpressions.values":   {expression("key: k, operator: In, values: [a]"), expression("key: k, operator: In, values: [b]")},
		"steps.measurements.method": set(measured, "identifier: i, method: Exec, params: {command: [a]}"), "steps.measurements.params": set("duration: 1s", "duration: 2s"),
		"steps.measurements.identifier":           changed(measured, "identifier: %s, method: WaitForRunningPods, params: {desiredPodCount: 1, isFatal: true}}\n  - {identifier: x, method: Sleep, params: {duration: 1s}", "i", "k"),
		"steps.measurements.instances":            {swap{}, swap{measured, "method: Sleep, instances: [{identifier: i}, {identifier: k, params: {duration: 5s}}], params: {duration: 1s}"}},
		"steps.measurements.instances.identifier": {instances("identifier: i}, {identifier: x, params: {duration: 3s}"), instances("identifier: k}, {identifier: x, params: {duration: 3s}")},
		"steps.measurements.instances.params":     {instances("identifier: i"), instances("identifier: i, params: {duration: 9s}")},

		"tuningSets.name": set("- {name: u, qpsLoad: {qps: 5}}\n- {name: v", "- {name: v, qpsLoad: {qps: 5}}\n- {name: u"), "tuningSets.initialDelay": set(qps, "initialDelay: 5s, "+qps),
		"tuningSets.qpsLoad": set("qps: 5", "qps: 6"), "tuningSets.qpsLoad.qps": set("qps: 5", "qps: 6"),
		"tuningSets.randomizedLoad": set(qps, "randomizedLoad: {averageQPS: 5}"), "tuningSets.randomizedLoad.averageQPS": changed(qps, "randomizedLoad: {averageQPS: %s}", "5", "6"),
		"tuningSets.steppedLoad": set(qps, "steppedLoad: {burstSize: 5, stepDelay: 1s}"), "tuningSets.steppedLoad.burstSize": changed(qps, "steppedLoad: {burstSize: %s, stepDelay: 1s}", "5", "6"),
		"tuningSets.steppedLoad.stepDelay": changed(qps, "steppedLoad: {burstSize: 5, stepDelay: %s}", "1s", "0s"),
		"tuningSets.timeLimitedLoad":       set(qps, "timeLimitedLoad: {timeLimit: 5s}"), "tuningSets.randomizedTimeLimitedLoad": set(qps, "randomizedTimeLimitedLoad: {timeLimit: 5s}"),
		"tuningSets.timeLimitedLoad.timeLimit": changed(qps, "randomizedTimeLimitedLoad: {timeLimit: %s}", "5s", "6s"),
		"tuningSets.parallelismLimitedLoad":    set(qps, "parallelismLimitedLoad: {parallelismLimit: 5}"), "tuningSets.parallelismLimitedLoad.parallelismLimit": changed(qps, "parallelismLimitedLoad: {parallelismLimit: %s}", "5", "6"),
		"tuningSets.globalQPSLoad": set(qps, "globalQPSLoad: {qps: 6, burst: 1}"), "tuningSets.globalQPSLoad.qps": changed(qps, "globalQPSLoad: {qps: %s, burst: 1}", "5", "6"),
		"tuningSets.globalQPSLoad.burst": changed(qps, "globalQPSLoad: {qps: 5, burst: %s}", "1", "3"),
		"tuningSets.poissonLoad":         set(qps, "poissonLoad: {expectedActionsPerSecond: 5}"), "tuningSets.poissonLoad.expectedActionsPerSecond": changed(qps, "poissonLoad: {expectedActionsPerSecond: %s}", "5", "6"),
	}
}

// take imports files, the last name first.
func take(t *testing.T, files map[string]string, start string) ([]byte, []kit.Note, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tests")
	repotest.NoError(t, os.MkdirAll(dir, 0o755))
	for name, text := range files {
		repotest.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	s, notes, err := Import(filepath.Join(dir, start), Options{Nodes: 4})
	if err != nil {
		return nil, nil, err
	}
	var b bytes.Buffer
	repotest.NoError(t, scenario.Write(&b, s))
	return b.Bytes(), notes, nil
}

// holdsFate compares what a field does with its declared fate.
func holdsFate(t *testing.T, f kit.Field, without, with map[string]string, start string) {
	t.Helper()
	before, _, err := take(t, without, start)
	if err != nil {
		t.Fatalf("without it: %v\n%s", err, without["c.yaml"])
	}
	after, notes, err := take(t, with, start)
	kittest.Holds(t, f, before, after, notes, err)
}

// TestFatesOfFields sets each field of the config's types.
func TestFatesOfFields(t *testing.T) {
	kittest.Probes(t, configFates(), configProbes(), func(t *testing.T, f kit.Field, p probe) {
		apply := func(s swap) map[string]string {
			if !strings.Contains(plainConfig, s.old) {
				t.Fatalf("%q is not in the plain config", s.old)
			}
			return withConfig(strings.Replace(plainConfig, s.old, s.new, 1))
		}
		holdsFate(t, f, apply(p.without), apply(p.with), "c.yaml")
	})
}

// TestFatesOfSuites sets each field of a suite's scenario.
func TestFatesOfSuites(t *testing.T) {
	suites := map[string]string{
		"suite.identifier": "- {identifier: two, configPath: c.yaml}\n", "suite.configPath": "- {identifier: one, configPath: c2.yaml}\n",
		"suite.overridePaths": "- {identifier: one, configPath: c.yaml, overridePaths: [o.yaml]}\n",
	}
	kittest.Probes(t, suiteFates(), suites, func(t *testing.T, f kit.Field, suite string) {
		with := withConfig(strings.Replace(plainConfig, "qps: 5", "qps: {{DefaultParam .QPS 5}}", 1))
		with["suite.yaml"] = suite
		holdsFate(t, f, withConfig(plainConfig), with, "suite.yaml")
	})
}

// TestEveryFieldHasAFate holds the tables against the config's types.
func TestEveryFieldHasAFate(t *testing.T) {
	kittest.EveryField(t, allFates(), func(f reflect.StructField) string {
		if f.Name == "Place" || f.Type.Kind() == reflect.Map && f.Name != "MatchLabels" || !f.IsExported() { // where it stands, and what params hold
			return ""
		}
		return config.FieldName(f.Name)
	}, reflect.TypeFor[config.Suite](), reflect.TypeFor[config.Config](), reflect.TypeFor[config.Module]())
}

func withConfig(config string) map[string]string {
	files := configFiles()
	files["c.yaml"] = config
	return files
}
