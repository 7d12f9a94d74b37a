package clusterloader2

import (
	"fmt"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/interop/kit"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// use is a measurement's parameters without the one that is probed: those of
// its start, if it has one, and those of its end.
type use struct{ start, end string }

// uses are complete uses of the measurements that are done here.
func uses() map[string]use {
	started := use{"action: start", "action: gather"}
	enforced := use{"action: start", "action: gather, enableViolations: true, threshold: 4"}
	return map[string]use{
		"PodStartupLatency": {"action: start, labelSelector: app = x", "action: gather"}, "SchedulingThroughput": {"action: start, labelSelector: app = x", "action: gather, threshold: 4"},
		"SchedulingThroughputPrometheus": enforced, "APIResponsivenessPrometheus": {"action: start", "action: gather, enableViolations: true"},
		"GenericPrometheusQuery": {"action: start, metricName: a, unit: s, queries: [{name: q, query: 'a[%v]', threshold: 3}]", "action: gather, metricName: a, unit: s, queries: [{name: q, query: 'a[%v]', threshold: 3}]"},
		"APIAvailability":        {"action: start, pollFrequency: 5s", "action: gather"}, "Timer": {"action: start", "action: stop"}, "PrometheusSchedulingMetrics": started, "SchedulingMetrics": started,
		"SLOMeasurement": {"action: start", "action: gather, enableViolations: true, threshold: 4"}, "JobLifecycleLatency": started, "ResourceClaimAllocationLatency": started,
		"WaitForControlledPodsRunning": {"action: start, apiVersion: apps/v1, kind: Deployment", "action: gather"}, "WaitForRunningPods": {"", "desiredPodCount: 3, timeout: 5m"},
		"WaitForGenericK8sObjects": {"", "objectGroup: apps, objectVersion: v1, objectResource: deployments, minDesiredObjectCount: 1, successfulConditions: [A=True], failedConditions: [B=True], maxFailedObjectCount: 1"},
		"WaitForFinishedJobs":      started, "WaitForNodes": {"", "minDesiredNodeCount: 1, maxDesiredNodeCount: 4"}, "WaitForBoundPVCs": {"", "desiredPVCCount: 1"}, "WaitForAvailablePVs": {"", "desiredPVCount: 1"},
		"GenericPrometheusQuery queries.threshold": enforcedQuery(), "GenericPrometheusQuery queries.lowerBound": enforcedQuery(), "APIResponsivenessPrometheus customThresholds": {"action: start", "action: gather, enableViolations: true"},
		"WaitForGenericK8sObjects namespaceRange.min": ranged(), "WaitForGenericK8sObjects namespaceRange.max": ranged(), "WaitForGenericK8sObjects namespaceRange.prefix": ranged(), "WaitForGenericK8sObjects namespaceRange.allNamespaces": ranged(),
		"Sleep": {"", "duration: 1s"}, "Exec": {"", "command: [a]"}, "Exec name": {"", "name: a"}, "Exec args": {"", "name: a"}, "RestartApiserver": {"", ""},
		"ChaosMonkey": {"action: start, failureRate: 0.5, interval: 1m, simulatedDowntime: 1m", ""},
	}
}

// enforcedQuery is a query whose threshold is enforced, and ranged a wait in a
// range of namespaces.
func enforcedQuery() use {
	return use{"action: start, metricName: a, unit: s, queries: [{name: q, query: 'a[%v]', threshold: 3}]", "action: gather, enableViolations: true, metricName: a, unit: s, queries: [{name: q, query: 'a[%v]', threshold: 3}]"}
}

func ranged() use {
	return use{"", "objectGroup: apps, objectVersion: v1, objectResource: deployments, minDesiredObjectCount: 1, successfulConditions: [A=True], namespaceRange: {min: 1, max: 1}"}
}

// paramValues are what the parameters are set to; those of one measurement win.
func paramValues() map[string]string {
	return map[string]string{
		"labelSelector": "app = y", "namespace": "t-2", "fieldSelector": "a=b", "threshold": "7", "timeout": "9m", "enableViolations": "false", "prometheusClient": "managed", "refreshInterval": "1s",
		"perc50Threshold": "2s", "perc90Threshold": "3s", "perc99Threshold": "4s", "PodStartupLatency threshold": "7s", "ResourceClaimAllocationLatency threshold": "7s", "PodStartupLatency namespace": "t-1",
		"SchedulingMetrics enableViolations": "true", "measurmentInterval": "9s", "useSimpleLatencyQuery": "true", "allowedSlowCalls": "3", "customThresholds": "'- {verb: GET, resource: pods, scope: resource, threshold: 2s}'",
		"singleResourceThreshold": "3s", "multipleResourcesThreshold": "3s", "summaryName": "x", "metricName": "b", "metricVersion": "v2", "unit": "ms", "dimensions": "[a]", "queries": "[{name: r, query: 'b[%v]'}]",
		"pollFrequency": "2s", "useHostInternalIPs": "true", "useHostPublicIPs": "true", "hostPollTimeoutSeconds": "3", "hostPollExecTimeoutSeconds": "3", "label": "x",
		"overrides": "{SchedulingThroughputPrometheus: {threshold: 9}}", "kind": "Job", "operationTimeout": "3m", "checkIfPodsAreUpdated": "false", "countErrorMargin": "1", "syncTimeout": "1m",
		"desiredPodCount": "4", "isFatal": "true", "objectGroup": "batch", "objectVersion": "v2", "objectResource": "jobs", "namespaceRange": "{min: 1, max: 1}", "successfulConditions": "[C=True]", "failedConditions": "[D=True]",
		"minDesiredObjectCount": "2", "maxFailedObjectCount": "0", "minDesiredNodeCount": "2", "maxDesiredNodeCount": "3", "desiredPVCCount": "2", "desiredPVCount": "2", "provisioner": "x",
		"duration": "2s", "command": "[b]", "name": "b", "args": "[c]", "retries": "3", "backoffDelay": "2s", "failureRate": "0.75", "interval": "3m", "jitterFactor": "1", "simulatedDowntime": "3m", "downSeconds": "5", "readyTimeout": "1m",
		"queries.name": "[{name: r, query: 'a[%v]', threshold: 3}]", "queries.query": "[{name: q, query: 'b[%v]', threshold: 3}]", "queries.threshold": "[{name: q, query: 'a[%v]', threshold: 4}]",
		"queries.lowerBound": "[{name: q, query: 'a[%v]', threshold: 3, lowerBound: true}]", "queries.requireSamples": "[{name: q, query: 'a[%v]', threshold: 3, requireSamples: true}]",
		"customThresholds.resource": custom("resource: nodes"), "customThresholds.subresource": custom("subresource: status"), "customThresholds.verb": custom("verb: PUT"),
		"customThresholds.scope": custom("scope: cluster"), "customThresholds.threshold": custom("threshold: 9s"),
		"namespaceRange.min": "{min: 2, max: 3}", "namespaceRange.max": "{min: 1, max: 3}", "namespaceRange.prefix": "{prefix: x, min: 1, max: 1}", "namespaceRange.allNamespaces": "{allNamespaces: true}",
		"resourceConstraints": "x.yaml", "checkProbesReadyTimeout": "1m", "replicasPerProbe": "2", "enableRestartCountCheck": "true", "WaitForControlledPodsRunning apiVersion": "x.org/v1", "GenericPrometheusQuery enableViolations": "true", "PrometheusSchedulingMetrics enableViolations": "true",
	}
}

// custom is a threshold for some calls, with one of its fields.
func custom(field string) string {
	return "'- {" + laid("resource: pods, verb: GET, scope: resource, threshold: 2s", strings.Split(field, ":")[0], strings.TrimSpace(strings.Split(field, ":")[1])) + "}'"
}

// laid lays one parameter over others.
func laid(params, name, value string) string {
	var out []string
	for _, one := range splitParams(params) {
		if one != "" && !strings.HasPrefix(one, name+":") {
			out = append(out, one)
		}
	}
	return strings.Join(append(out, name+": "+value), ", ")
}

// splitParams cuts parameters at the commas between them.
func splitParams(text string) []string {
	var out []string
	depth, from := 0, 0
	for i, c := range text {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case ',':
			if depth == 0 {
				out = append(out, strings.TrimSpace(text[from:i]))
				from = i + 1
			}
		}
	}
	return append(out, strings.TrimSpace(text[from:]))
}

// usedIn is a config in which a measurement is started before and ends after
// two Deployments and two Jobs are made.
func usedIn(method string, u use) string {
	one := func(params string) string {
		return "- {name: m, measurements: [{identifier: i, method: " + method + ", params: {" + params + "}}]}\n"
	}
	text := "name: t\nnamespace: {number: 2}\ntuningSets:\n- {name: u, qpsLoad: {qps: 5}}\nsteps:\n"
	if u.start != "" {
		text += one(u.start)
	}
	text += "- {name: p, phases: [{tuningSet: u, namespaceRange: {min: 1, max: 2}, replicasPerNamespace: 1, objectBundle: [{basename: d, objectTemplatePath: d.yaml}, {basename: j, objectTemplatePath: j.yaml}]}]}\n"
	if u.end != "" || u.start == "" {
		text += one(u.end)
	}
	return text
}

// TestFatesOfParameters sets each parameter of each measurement.
func TestFatesOfParameters(t *testing.T) {
	all, values := uses(), paramValues()
	for _, m := range listMethods() {
		plain, ok := all[m.name]
		if !ok && m.params.Named("*") == nil {
			t.Errorf("%s has no use", m.name)
			continue
		}
		if !ok {
			plain = use{"action: start", "action: gather"}
		}
		for _, f := range m.params {
			t.Run(m.name+" "+f.Name, func(t *testing.T) {
				if f.Name == "*" {
					tellsOfItself(t, m.name, f, usedIn(m.name, plain))
					return
				}
				value, ok := values[m.name+" "+f.Name]
				if !ok {
					value, ok = values[f.Name]
				}
				if !ok {
					t.Fatal("no value is known for it")
				}
				plain := plain
				if own, ok := all[m.name+" "+f.Name]; ok {
					plain = own
				}
				with := plain
				f := f
				parameter, inner, nested := strings.Cut(f.Name, ".")
				if nested && !strings.HasPrefix(f.Name, "customThresholds.") {
					f.Name = inner
				}
				if f.When != gather && plain.start != "" {
					with.start = laid(plain.start, parameter, value)
				}
				if f.When != start && (plain.end != "" || plain.start == "") {
					with.end = laid(plain.end, parameter, value)
				}
				holdsFate(t, f, withConfig(usedIn(m.name, plain)), withConfig(usedIn(m.name, with)), "c.yaml")
			})
		}
	}
}

// tellsOfItself holds that a measurement that is not done has a note.
func tellsOfItself(t *testing.T, name string, f kit.Field, config string) {
	t.Helper()
	_, notes, err := take(t, withConfig(config), "c.yaml")
	repotest.NoError(t, err)
	if len(notes) != 1 || notes[0].Field != name || notes[0].Text != f.Text || notes[0].Changes != f.Changes {
		t.Errorf("%+v, want one of %q, changes %v", notes, f.Text, f.Changes)
	}
}

// TestParametersThatAreNotRead: what ClusterLoader2 does not read, or not with
// this action, has no effect here either, and a note says so.
func TestParametersThatAreNotRead(t *testing.T) {
	for _, tt := range []struct{ method, start, end, note string }{
		{"PodStartupLatency", "action: start, labelSelector: app = x, treshold: 1s", "action: gather", "PodStartupLatency treshold: ClusterLoader2 reads no such parameter and ignores it (did you mean \"threshold\"?)"},
		{"PodStartupLatency", "action: start, labelSelector: app = x", "action: gather, threshold: 1s", "PodStartupLatency threshold: ClusterLoader2 reads it with action: start only and ignores it here"},
		{"SchedulingThroughput", "action: start, labelSelector: app = x, threshold: 5", "action: gather", "SchedulingThroughput threshold: ClusterLoader2 reads it with action: gather only and ignores it elsewhere"},
		{"APIResponsivenessPrometheus", "action: start, enableViolations: true", "action: gather", "APIResponsivenessPrometheus enableViolations: ClusterLoader2 reads it with action: gather only and ignores it elsewhere"},
		{"WaitForFinishedJobs", "action: start, labelSelector: app = x", "action: gather, labelSelector: app = x", ""},
	} {
		plain := use{"action: start, labelSelector: app = x", "action: gather"}
		if tt.method == "APIResponsivenessPrometheus" {
			plain.start = "action: start"
		}
		before, _, err := take(t, withConfig(usedIn(tt.method, plain)), "c.yaml")
		repotest.NoError(t, err)
		after, notes, err := take(t, withConfig(usedIn(tt.method, use{tt.start, tt.end})), "c.yaml")
		if err != nil || string(before) != string(after) {
			t.Errorf("%s: %v, another scenario: %v", tt.method, err, string(before) != string(after))
		}
		if got := fmt.Sprint(notes); tt.note == "" && len(notes) > 0 || !strings.Contains(got, tt.note) {
			t.Errorf("notes %s, want %s", got, tt.note)
		}
	}
}
