package kubeburner

import "strings"

// plainConfig has one of everything; probes change it.
const plainConfig = `metricsEndpoints:
- {metrics: [m.yml], alerts: [al.yml]}
global: {requestTimeout: 30s, functionTemplates: [f.tpl], measurements: [{name: podLatency, thresholds: [{conditionType: Ready, metric: P99, threshold: 5s}]}]}
jobs:
- name: a
  namespace: n
  jobIterations: 4
  qps: 10
  watchers: [{kind: Pod}]
  objects:
  - {objectTemplate: pod.yml}
  - {objectTemplate: cm.yml, inputVars: {size: 1}}
  - {objectTemplate: calls.yml}
- name: p
  jobType: patch
  qps: 10
  objects:
  - {objectTemplate: patch.json, kind: Deployment, apiVersion: apps/v1, labelSelector: {a: b}, patchType: application/merge-patch+json}
- name: d
  jobType: delete
  qps: 10
  objects:
  - {kind: ConfigMap, labelSelector: {a: b}}
`

// plainFiles are those that probes refer to.
func plainFiles() map[string]string {
	pod := func(name string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: \"" + name + "-{{.Iteration}}-{{.Replica}}\"}\nspec: {containers: [{name: c, image: i}]}\n"
	}
	return map[string]string{
		"m.yml": "- {query: up, metricName: up}\n", "m2.yml": "- {query: up, metricName: other}\n", "al.yml": "- {expr: up == 0, description: down, severity: error}\n",
		"cm.yml":  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"m-{{.Iteration}}-{{.Replica}}\"}\ndata: {size: \"{{.size}}\"}\n",
		"pod.yml": pod("p"), "pod2.yml": pod("q"), "patch.json": `{"metadata": {"labels": {"x": "y"}}}`, "f.tpl": `{{ define "x" }}y{{ end }}`, "f2.tpl": `{{ define "x" }}z{{ end }}`, "calls.yml": strings.Replace(pod("p"), "image: i", `image: {{ template "x" }}`, 1),
		"lax.yml": strings.Replace(pod("p"), "image: i", `image: "{{ .none }}"`, 1),
	}
}

// probe is a part of the plain config and what stands in its place without and with a
// field; a file in place of the config where name is set.
type probe struct{ old, without, with, file string }

// The places of probes: in the config, an endpoint, its indexer, global, its measurement and
// threshold, the job a and its first object, the job p, and what they hold.
func top(f string) probe {
	return probe{old: "metricsEndpoints:\n", without: "metricsEndpoints:\n", with: f + "\nmetricsEndpoints:\n"}
}
func inEndpoint(f string) probe { return add("metrics: [m.yml]", f) }
func inIndexer(f string) probe {
	return probe{old: "metrics: [m.yml]", without: "metrics: [m.yml]", with: "metrics: [m.yml], indexer: {" + f + "}"}
}
func inGlobal(f string) probe  { return add("requestTimeout: 30s", f) }
func inMeasure(f string) probe { return add("name: podLatency", f) }
func inJob(f string) probe     { return inJobs("", f) }
func inJobs(without, with string) probe {
	line := func(f string) string {
		if f == "" {
			return "- name: a\n"
		}
		return "- name: a\n  " + f + "\n"
	}
	return probe{old: "- name: a\n", without: line(without), with: line(with)}
}
func inObject(f string) probe { return add("objectTemplate: pod.yml", f) }
func inPatch(f string) probe {
	return probe{old: "- name: p\n", without: "- name: p\n", with: "- name: p\n  " + f + "\n"}
}
func inDelete(f string) probe {
	return probe{old: "- name: d\n", without: "- name: d\n", with: "- name: d\n  " + f + "\n"}
}
func instead(old, with string) probe { return probe{old: old, without: old, with: with} }
func add(to, f string) probe         { return probe{old: to, without: to, with: to + ", " + f} }
func inWait(without, with string) probe {
	of := func(f string) string { return "objectTemplate: pod.yml, waitOptions: {" + f + "}" }
	return probe{old: "objectTemplate: pod.yml", without: of(without), with: of(with)}
}
func inChurn(without, with string) probe {
	return inJobs("churnConfig: {"+without+"}", "churnConfig: {"+with+"}")
}
func inLoad(without, with string) probe {
	return inJobs("incrementalLoad: {"+without+"}", "incrementalLoad: {"+with+"}")
}
func inProfile(file, without, with string) probe {
	return probe{old: "", without: without, with: with, file: file}
}

// probes set each field, by its first path and its name.
func probes() map[string]probe {
	out := map[string]probe{
		".metricsEndpoints": instead("[m.yml]", "[m2.yml]"), ".indexers": top("indexers: [{type: local}]"), ".global": instead("30s", "31s"), ".jobs": instead("jobIterations: 4", "jobIterations: 5"),
		"global.measurements": instead("threshold: 5s", "threshold: 6s"), "global.requestTimeout": instead("30s", "31s"),
		"global.measurements.name": instead("name: podLatency", "name: jobLatency"), "global.measurements.thresholds": instead("threshold: 5s", "threshold: 6s"),
		"global.measurements.thresholds.conditionType": instead("conditionType: Ready", "conditionType: PodScheduled"), "global.measurements.thresholds.metric": instead("P99", "P50"),
		"global.measurements.thresholds.threshold": instead("threshold: 5s", "threshold: 6s"), "global.measurements.config": inMeasure("config: {thresholds: [{conditionType: Ready, metric: P50, threshold: 1s}]}"),
		"jobs.name": instead("name: a", "name: b"), "jobs.jobType": instead("jobType: delete", "jobType: read"), "jobs.jobIterations": instead("jobIterations: 4", "jobIterations: 5"),
		"jobs.qps": instead("jobIterations: 4\n  qps: 10", "jobIterations: 4\n  qps: 11"), "jobs.namespace": instead("namespace: n", "namespace: o"), "jobs.objects": instead("pod.yml}", "pod.yml}\n  - {objectTemplate: pod2.yml}"),
		"jobs.watchers": instead("watchers: [{kind: Pod}]", "watchers: []"), "jobs.watchers.kind": instead("[{kind: Pod}]", "[{kind: Node}]"), "jobs.watchers.apiVersion": instead("[{kind: Pod}]", "[{kind: Pod, apiVersion: apps/v1}]"),
		"jobs.watchers.labelSelector": instead("[{kind: Pod}]", "[{kind: Pod, labelSelector: {a: b}}]"), "jobs.watchers.replicas": instead("[{kind: Pod}]", "[{kind: Pod, replicas: 3}]"),
		"jobs.waitForDeletion": inDelete("waitForDeletion: false"), "jobs.podWait": inJobs("waitWhenFinished: false", "waitWhenFinished: false\n  podWait: true"),
		"jobs.errorOnVerify": inJob("errorOnVerify: false"), "jobs.executionMode": inPatch("executionMode: sequential\n  jobIterations: 2"),
		"jobs.objectDelay": inPatch("objectDelay: 1s"), "jobs.objectWait": inPatch("objectWait: true"), "jobs.burst": inJob("burst: 10"),
		"jobs.metricsClosing": inJobs("jobPause: 5s", "jobPause: 5s\n  metricsClosing: afterJob"), "jobs.measurements": inJob("measurements: [{name: podLatency, thresholds: [{conditionType: Ready, metric: P50, threshold: 1s}]}]"),
		"jobs.hooks.cmd": inJobs("hooks: [{when: afterJobExecution, cmd: [a]}]", "hooks: [{when: afterJobExecution, cmd: [b]}]"), "jobs.hooks.when": inJobs("hooks: [{when: afterJobExecution, cmd: [a]}]", "hooks: [{when: beforeJobExecution, cmd: [a]}]"),
		"jobs.hooks.background":       inJobs("hooks: [{when: beforeJobExecution, cmd: [a]}]", "hooks: [{when: beforeJobExecution, cmd: [a], background: true}]"),
		"jobs.objects.objectTemplate": instead("pod.yml", "pod2.yml"), "jobs.objects.inputVars": instead("size: 1", "size: 2"), "jobs.objects.kind": instead("kind: ConfigMap", "kind: Secret"),
		"jobs.objects.apiVersion": instead("apps/v1", "extensions/v1beta1"), "jobs.objects.labelSelector": instead("kind: ConfigMap, labelSelector: {a: b}", "kind: ConfigMap, labelSelector: {a: c}"), "jobs.objects.patchType": instead("merge-patch", "strategic-merge-patch"),
		"jobs.iterationsPerNamespace": inJob("iterationsPerNamespace: 2"), "global.timeout": inGlobal("timeout: 1h"),
		"global.waitWhenFinished": inGlobal("waitWhenFinished: true"),
		"jobs.churnConfig.cycles": inChurn("cycles: 2", "cycles: 3"), "jobs.churnConfig.type": inChurn("cycles: 2", "cycles: 2, type: objects"), "jobs.churnConfig.mode": inChurn("cycles: 2", "cycles: 2, mode: objects"),
		"metrics profiles.query": inProfile("m.yml", "- {query: up, metricName: up}\n", "- {query: down, metricName: up}\n"), "metrics profiles.metricName": inProfile("m.yml", "- {query: up, metricName: up}\n", "- {query: up, metricName: b}\n"),
		"metrics profiles.instant":      inProfile("m.yml", "- {query: up, metricName: up}\n", "- {query: up, metricName: up, instant: true}\n"),
		"metrics profiles.captureStart": inProfile("m.yml", "- {query: up, metricName: up}\n", "- {query: up, metricName: up, captureStart: true}\n"),
		"alert profiles.expr":           inProfile("al.yml", "- {expr: up == 0, description: d, severity: error}\n", "- {expr: up == 1, description: d, severity: error}\n"),
		"alert profiles.description":    inProfile("al.yml", "- {expr: up == 0, description: d, severity: error}\n", "- {expr: up == 0, description: e, severity: error}\n"),
		"alert profiles.severity":       inProfile("al.yml", "- {expr: up == 0, description: d, severity: error}\n", "- {expr: up == 0, description: d, severity: info}\n"),
	}
	both := func(old, shared, with string) probe {
		return probe{old: old, without: old + shared, with: old + shared + with}
	}
	out["global.gcTimeout"] = both("requestTimeout: 30s", ", gc: true", ", gcTimeout: 5m")
	out["global.deletionStrategy"] = both("requestTimeout: 30s", ", gc: true", ", deletionStrategy: gvr")
	out["global.functionTemplates"] = instead("[f.tpl]", "[f2.tpl]")
	group := func(f string) string {
		return "- name: p\n" + f + "  jobType: patch\n  qps: 10\n  objects:\n  - {objectTemplate: patch.json, kind: Deployment, apiVersion: apps/v1, labelSelector: {a: b}, patchType: application/merge-patch+json}\n- name: d\n" + f
	}
	out["jobs.executionGroup"] = instead(group(""), group("  executionGroup: g\n"))
	first := func(f, object string) string {
		return "- name: a\n  namespace: n\n" + f + "  jobIterations: 4\n  qps: 10\n  watchers: [{kind: Pod}]\n  objects:\n  - {objectTemplate: " + object + "}"
	}
	out["jobs.defaultMissingKeysWithZero"] = instead(first("", "pod.yml"), first("  defaultMissingKeysWithZero: true\n", "lax.yml")) // without it that template is an error
	out["jobs.objects.churn"] = probe{old: "- name: a\n  namespace: n\n  jobIterations: 4\n  qps: 10\n  watchers: [{kind: Pod}]\n  objects:\n  - {objectTemplate: pod.yml}",
		without: "- name: a\n  namespace: n\n  churnConfig: {cycles: 1, mode: objects}\n  objects:\n  - {objectTemplate: pod.yml}",
		with:    "- name: a\n  namespace: n\n  churnConfig: {cycles: 1, mode: objects}\n  objects:\n  - {objectTemplate: pod.yml, churn: false}"}
	for name, f := range map[string]string{"endpoint": "http://x", "prometheusURL": "http://x", "step": "10s", "token": "x", "username": "x", "password": "x", "skipTLSVerify": "true", "alias": "x"} {
		out["metricsEndpoints."+name] = inEndpoint(name + ": " + f)
	}
	out["metricsEndpoints.metrics"], out["metricsEndpoints.alerts"] = instead("[m.yml]", "[m2.yml]"), instead(", alerts: [al.yml]", "")
	out["metricsEndpoints.indexer"] = inIndexer("type: local")
	for name, f := range map[string]string{"type": "local", "esServers": "[a]", "defaultIndex": "x", "insecureSkipVerify": "true", "metricsDirectory": "x", "createTarball": "true", "tarballName": "x"} {
		out["metricsEndpoints.indexer."+name] = inIndexer(name + ": " + f)
	}
	for name, f := range map[string]string{"gc": "true", "gcMetrics": "true", "clusterHealth": "true", "indexerConfig": "{}", "prometheusURL": "x", "bearerToken": "x", "metricsProfile": "x", "alertProfile": "x", "writeToFile": "true", "metricsDirectory": "x"} {
		out["global."+name] = inGlobal(name + ": " + f)
	}
	out["global.indexerConfig"] = inGlobal("indexerConfig: {enabled: true}")
	for name, f := range map[string]string{"nodeAffinity": "{a: b}", "svcLatencyMetrics": "x", "pprofTargets": "[{name: x}]", "pprofInterval": "1s", "pprofDirectory": "x", "svcTimeout": "1s", "quantilesIndexer": "x", "timeseriesIndexer": "x"} {
		out["global.measurements."+name] = inMeasure(name + ": " + f)
		if name != "nodeAffinity" && name != "svcLatencyMetrics" {
			out["global.measurements.config."+name] = inMeasure("config: {" + name + ": " + f + "}")
		}
	}
	out["global.measurements.config.thresholds"] = inMeasure("config: {thresholds: [{conditionType: Ready, metric: P50, threshold: 1s}]}")
	for name, f := range map[string]string{"jobIterationDelay": "1s", "jobPause": "1s", "maxWaitTimeout": "5m", "waitWhenFinished": "false", "cleanup": "false", "namespacedIterations": "false", "preCreateNamespaces": "true",
		"namespaceDelay": "1s", "verifyObjects": "false", "preLoadImages": "true", "preLoadPeriod": "1s", "preLoadNodeLabels": "{a: b}", "namespaceLabels": "{a: b}", "namespaceAnnotations": "{a: b}", "churnConfig": "{cycles: 1}",
		"skipIndexing": "true", "metricsAggregate": "true", "gc": "true", "incrementalLoad": "{totalIterations: 6}", "hooks": "[{when: afterJobExecution, cmd: [a]}]", "beforeCleanup": "x.sh", "churn": "true"} {
		out["jobs."+name] = inJob(name + ": " + f)
	}
	for name, f := range map[string]string{"churnCycles": "3", "churnPercent": "50", "churnDuration": "1m", "churnDelay": "1s", "churnDeletionStrategy": "gvr"} {
		out["jobs."+name] = inJobs("churn: true", "churn: true\n  "+name+": "+f)
	}
	for name, f := range map[string]string{"replicas": "2", "wait": "false", "waitOptions": "{kind: ReplicaSet}", "runOnce": "true", "kubeVirtOp": "start", "group": "{id: 2}", "repeatEveryNIterations": "2", "namespacesPerObject": "2", "SharingNamespacesCount": "2"} {
		out["jobs.objects."+name] = inObject(name + ": " + f)
	}
	for name, f := range map[string]string{"id": "3", "gc": "true", "pauseBeforeGC": "1s", "pauseAfterGC": "1s"} {
		out["jobs.objects.group."+name] = probe{old: "objectTemplate: pod.yml", without: "objectTemplate: pod.yml, group: {gc: " + "true}", with: "objectTemplate: pod.yml, group: {gc: true, " + name + ": " + f + "}"}
	}
	out["jobs.objects.group.gc"] = inObject("group: {gc: true}")
	for name, f := range map[string][2]string{
		"apiVersion": {"kind: Job", "kind: Job, apiVersion: example.com/v1"}, "kind": {"labelSelector: {a: b}", "labelSelector: {a: b}, kind: ReplicaSet"}, "labelSelector": {"kind: Job", "kind: Job, labelSelector: {a: b}"},
		"customStatusPaths": {"", "customStatusPaths: [{key: .phase, value: x}]"}, "forCondition": {"", "forCondition: Ready"}, "customStatusPath": {"", "customStatusPath: .phase"},
		"customStatusPaths.key": {"customStatusPaths: [{key: .phase, value: x}]", "customStatusPaths: [{key: .other, value: x}]"}, "customStatusPaths.value": {"customStatusPaths: [{key: .phase, value: x}]", "customStatusPaths: [{key: .phase, value: y}]"},
	} {
		out["jobs.objects.waitOptions."+name] = inWait(f[0], f[1])
	}
	for name, f := range map[string]string{"percent": "50", "duration": "1m", "delay": "1s", "deleteDelay": "1s", "deletionStrategy": "gvr"} {
		out["jobs.churnConfig."+name] = inChurn("cycles: 2", "cycles: 2, "+name+": "+f)
	}
	for name, f := range map[string][2]string{
		"startIterations": {"totalIterations: 6", "totalIterations: 6, startIterations: 2"}, "totalIterations": {"totalIterations: 6", "totalIterations: 7"}, "stepDelay": {"totalIterations: 6", "totalIterations: 6, stepDelay: 1s"},
		"healthCheckScript": {"totalIterations: 6", "totalIterations: 6, healthCheckScript: x.sh"}, "scrapeMetricsPerStep": {"totalIterations: 6", "totalIterations: 6, scrapeMetricsPerStep: true"},
		"pattern": {"totalIterations: 9", "totalIterations: 9, pattern: {type: exponential}"}, "pattern.type": {"totalIterations: 9", "totalIterations: 9, pattern: {type: exponential}"},
		"pattern.linear": {"totalIterations: 9", "totalIterations: 9, pattern: {linear: {stepSize: 2}}"}, "pattern.exponential": {"totalIterations: 30, pattern: {type: exponential}", "totalIterations: 30, pattern: {type: exponential, exponential: {base: 3}}"},
		"pattern.linear.minSteps": {"totalIterations: 9, pattern: {linear: {stepSize: 5}}", "totalIterations: 9, pattern: {linear: {stepSize: 5, minSteps: 3}}"}, "pattern.linear.stepSize": {"totalIterations: 9", "totalIterations: 9, pattern: {linear: {stepSize: 2}}"},
		"pattern.exponential.base":        {"totalIterations: 30, pattern: {type: exponential}", "totalIterations: 30, pattern: {type: exponential, exponential: {base: 3}}"},
		"pattern.exponential.maxIncrease": {"totalIterations: 30, pattern: {type: exponential}", "totalIterations: 30, pattern: {type: exponential, exponential: {maxIncrease: 3}}"},
		"pattern.exponential.warmupSteps": {"totalIterations: 30, pattern: {type: exponential}", "totalIterations: 30, pattern: {type: exponential, exponential: {warmupSteps: 3}}"},
	} {
		out["jobs.incrementalLoad."+name] = inLoad(f[0], f[1])
	}
	return out
}
