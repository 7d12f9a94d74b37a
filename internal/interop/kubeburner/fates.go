package kubeburner

import (
	"fmt"
	"reflect"
)

// fate is what becomes of a field of a config.
type fate string

const (
	honored fate = "honored" // the scenario does what the field says
	inPart  fate = "in part" // it does so but for what the text says; a note follows where that matters
	noted   fate = "noted"   // the scenario does not do it; a note says so
)

// field is the declared fate of one field of a config's types.
type field struct {
	name    string
	fate    fate
	text    string // what it becomes; of a noted one the sentence of its note
	usual   string // of a noted one: the value that asks for nothing and so has no note
	changes bool   // noted: what is left out changes the load or the verdict
	own     bool   // noted: the importer says it where it knows more
}

// typeFates are the fates of the fields of one type.
type typeFates struct {
	of     reflect.Type
	path   string // where a config has it
	fields []field
}

// place names a field of a type.
type place struct {
	of   reflect.Type
	name string
}

// fatesByPlace are all fates, to be looked up.
func fatesByPlace() map[place]*field {
	out := map[place]*field{}
	for _, t := range allFates() {
		for i := range t.fields {
			out[place{t.of, t.fields[i].name}] = &t.fields[i]
		}
	}
	return out
}

// asks tells whether a value of a noted field asks for something.
func (f *field) asks(v reflect.Value) bool {
	return f != nil && f.fate == noted && !f.own && !v.IsZero() && (f.usual == "" || fmt.Sprint(v.Interface()) != f.usual)
}

// allFates are all fields of a config and of its profiles.
func allFates() []typeFates {
	var out []typeFates
	for _, some := range [][]typeFates{configFates(), measurementFates(), jobFates(), partFates(), objectFates(), profileFates()} {
		out = append(out, some...)
	}
	return out
}

// configFates are those of a config as a whole.
func configFates() []typeFates {
	return []typeFates{
		{reflect.TypeFor[config](), "", []field{
			{name: "metricsEndpoints", fate: honored, text: "`measures` and `objectives` of its profiles"},
			{name: "indexers", fate: noted, text: "documents are written by `windtunnel export`, wherever it is told to"},
			{name: "global", fate: honored, text: "see its fields"},
			{name: "jobs", fate: honored, text: "`steps`"},
		}},
		{reflect.TypeFor[endpoint](), "metricsEndpoints", []field{
			{name: "endpoint", fate: noted, text: "metrics are answered from windtunnel's own series, not asked of a Prometheus server"},
			{name: "prometheusURL", fate: noted, text: "metrics are answered from windtunnel's own series, not asked of a Prometheus server"},
			{name: "step", fate: inPart, text: "the step of its queries; without it 5 s, because a query of 30 s sees nothing of a short job"},
			{name: "token", fate: noted, text: "no server is asked"},
			{name: "username", fate: noted, text: "no server is asked"},
			{name: "password", fate: noted, text: "no server is asked"},
			{name: "skipTLSVerify", fate: noted, text: "no server is asked"},
			{name: "alias", fate: noted, text: "there is one store of metrics: an alias chooses nothing"},
			{name: "metrics", fate: honored, text: "`measures`"},
			{name: "alerts", fate: honored, text: "`objectives`; `info` and `warning` are `measures`"},
			{name: "indexer", fate: noted, text: "documents are written by `windtunnel export`, wherever it is told to", own: true},
		}},
		{reflect.TypeFor[indexer](), "metricsEndpoints.indexer", []field{
			{name: "type", fate: noted, text: "documents are written by `windtunnel export`, wherever it is told to"},
			{name: "esServers", fate: noted, text: "nothing is sent to Elasticsearch or OpenSearch; `windtunnel export` writes the documents as files"},
			{name: "defaultIndex", fate: noted, text: "documents are written by `windtunnel export`, wherever it is told to"},
			{name: "insecureSkipVerify", fate: noted, text: "no server is asked"},
			{name: "metricsDirectory", fate: noted, text: "`windtunnel export` says where documents are written"},
			{name: "createTarball", fate: noted, text: "no tarball is made"},
			{name: "tarballName", fate: noted, text: "no tarball is made"},
		}},
		{reflect.TypeFor[global](), "global", []field{
			{name: "measurements", fate: honored, text: "`objectives` of the jobs that make such objects"},
			{name: "requestTimeout", fate: honored, text: "`timeout` of the calls"},
			{name: "gc", fate: honored, text: "deletions after the last job"},
			{name: "gcMetrics", fate: noted, text: "metrics are collected from the first moment of a run to its last"},
			{name: "gcTimeout", fate: honored, text: "`within` of the wait for deleted namespaces"},
			{name: "waitWhenFinished", fate: honored, text: "waits after the last job, in place of those of jobs"},
			{name: "clusterHealth", fate: noted, text: "the fleet's nodes are ready before the first step; nothing else is asked of the cluster's health"},
			{name: "timeout", fate: honored, text: "`within` of waits without `maxWaitTimeout`"},
			{name: "functionTemplates", fate: honored, text: "definitions behind the bodies that call them"},
			{name: "deletionStrategy", fate: honored, text: "`gvr`: objects are deleted before their namespaces"},
			{name: "indexerConfig", fate: noted, text: "a field of kube-burner v1: documents are written by `windtunnel export`, wherever it is told to"},
			{name: "prometheusURL", fate: noted, text: "a field of kube-burner v1: metrics are answered from windtunnel's own series"},
			{name: "bearerToken", fate: noted, text: "a field of kube-burner v1: no server is asked"},
			{name: "metricsProfile", fate: noted, text: "a field of kube-burner v1: name the file in metricsEndpoints"},
			{name: "alertProfile", fate: noted, text: "a field of kube-burner v1: its alerts are not judged; name the file in metricsEndpoints", changes: true},
			{name: "writeToFile", fate: noted, text: "a field of kube-burner v1: documents are written by `windtunnel export`, wherever it is told to"},
			{name: "metricsDirectory", fate: noted, text: "a field of kube-burner v1: documents are written by `windtunnel export`, wherever it is told to"},
		}},
	}
}

// measurementFates are those of measurements.
func measurementFates() []typeFates {
	return []typeFates{
		{reflect.TypeFor[measurement](), "global.measurements, jobs.measurements", []field{
			{name: "name", fate: honored, text: "`sli` of the objectives; `serviceLatency`, `netpolLatency` and `pprof` are noted"},
			{name: "config", fate: honored, text: "the same fields, where other versions have them"},
			{name: "nodeAffinity", fate: noted, text: "pprof needs pods whose containers run"},
			{name: "svcLatencyMetrics", fate: noted, text: "serviceLatency and netpolLatency are not measured"},
			{name: "thresholds", fate: honored, text: "`objectives`"},
			{name: "pprofTargets", fate: noted, text: "pprof needs pods whose containers run"},
			{name: "pprofInterval", fate: noted, text: "pprof needs pods whose containers run"},
			{name: "pprofDirectory", fate: noted, text: "pprof needs pods whose containers run"},
			{name: "svcTimeout", fate: noted, text: "serviceLatency and netpolLatency are not measured"},
			{name: "quantilesIndexer", fate: noted, text: "documents are written by `windtunnel export`, wherever it is told to"},
			{name: "timeseriesIndexer", fate: noted, text: "documents are written by `windtunnel export`, wherever it is told to"},
		}},
		{reflect.TypeFor[options](), "global.measurements.config, jobs.measurements.config", []field{
			{name: "thresholds", fate: honored, text: "`objectives`"},
			{name: "pprofTargets", fate: noted, text: "pprof needs pods whose containers run"},
			{name: "pprofInterval", fate: noted, text: "pprof needs pods whose containers run"},
			{name: "pprofDirectory", fate: noted, text: "pprof needs pods whose containers run"},
			{name: "svcTimeout", fate: noted, text: "serviceLatency and netpolLatency are not measured"},
			{name: "quantilesIndexer", fate: noted, text: "documents are written by `windtunnel export`, wherever it is told to"},
			{name: "timeseriesIndexer", fate: noted, text: "documents are written by `windtunnel export`, wherever it is told to"},
		}},
		{reflect.TypeFor[threshold](), "global.measurements.thresholds, jobs.measurements.thresholds", []field{
			{name: "conditionType", fate: inPart, text: "the phase of the objective; `ContainersReady` is taken from the condition Ready"},
			{name: "metric", fate: honored, text: "`statistic`"},
			{name: "threshold", fate: honored, text: "`max`"},
		}},
	}
}

// jobFates are those of jobs.
func jobFates() []typeFates {
	return []typeFates{
		{reflect.TypeFor[job](), "jobs", []field{
			{name: "name", fate: honored, text: "the steps' names, `groups`, labels"},
			{name: "jobType", fate: inPart, text: "`create`, or `requests`; jobs of type `kubevirt` are left out, and the verdict is *unknown*"},
			{name: "jobIterations", fate: honored, text: "`count`, or `rounds`"},
			{name: "jobIterationDelay", fate: honored, text: "`pause` between indices"},
			{name: "jobPause", fate: honored, text: "`pause` at the end"},
			{name: "objects", fate: honored, text: "`objects`, or the `mix`"},
			{name: "watchers", fate: honored, text: "`watch` requests beside the steps of the job, until its jobPause is over"},
			{name: "qps", fate: honored, text: "`pace`; objects per second"},
			{name: "burst", fate: noted, text: "objects are due evenly, at qps, from the first one on", own: true},
			{name: "namespace", fate: honored, text: "`namespace`, or the prefix of `namespaces`"},
			{name: "maxWaitTimeout", fate: honored, text: "`within` of waits"},
			{name: "waitForDeletion", fate: honored, text: "a wait until what was deleted is gone"},
			{name: "podWait", fate: honored, text: "waits after each iteration"},
			{name: "waitWhenFinished", fate: honored, text: "waits after the last iteration"},
			{name: "cleanup", fate: honored, text: "deletion of what an earlier run of the job left"},
			{name: "namespacedIterations", fate: honored, text: "`namespaces`"},
			{name: "iterationsPerNamespace", fate: honored, text: "`each`"},
			{name: "preCreateNamespaces", fate: noted, text: "namespaces are made before the objects in any case"},
			{name: "namespaceDelay", fate: noted, text: "namespaces are made at the job's qps, without delays between them", changes: true},
			{name: "verifyObjects", fate: honored, text: "waits of a minute for as many objects as there must be"},
			{name: "errorOnVerify", fate: honored, text: "`onFailure` of these waits"},
			{name: "preLoadImages", fate: noted, text: "simulated nodes pull no images: nothing is loaded before a job", own: true},
			{name: "preLoadPeriod", fate: noted, text: "simulated nodes pull no images"},
			{name: "preLoadNodeLabels", fate: noted, text: "simulated nodes pull no images"},
			{name: "namespaceLabels", fate: honored, text: "labels of the namespaces"},
			{name: "namespaceAnnotations", fate: honored, text: "annotations of the namespaces"},
			{name: "churnConfig", fate: honored, text: "a `churn` step"},
			{name: "skipIndexing", fate: noted, text: "`windtunnel export` writes the documents of every job"},
			{name: "defaultMissingKeysWithZero", fate: honored, text: "missing variables are empty"},
			{name: "executionMode", fate: honored, text: "order of the calls of patch jobs"},
			{name: "executionGroup", fate: honored, text: "`parallel`"},
			{name: "objectDelay", fate: honored, text: "pauses between objects"},
			{name: "objectWait", fate: honored, text: "waits between objects"},
			{name: "metricsAggregate", fate: noted, text: "each job has metrics of its own"},
			{name: "metricsClosing", fate: honored, text: "the step that ends the job's metrics; `afterMeasurements` is `afterJobPause`: measurements take no time"},
			{name: "gc", fate: honored, text: "deletions after the job"},
			{name: "measurements", fate: honored, text: "`objectives`"},
			{name: "incrementalLoad", fate: honored, text: "rounds, written out"},
			{name: "hooks", fate: honored, text: "`exec` steps"},
			{name: "beforeCleanup", fate: honored, text: "an `exec` step"},
			{name: "churn", fate: honored, text: "a field of kube-burner v1: a `churn` step"},
			{name: "churnCycles", fate: honored, text: "a field of kube-burner v1: `cycles`"},
			{name: "churnPercent", fate: honored, text: "a field of kube-burner v1: `percent`"},
			{name: "churnDuration", fate: honored, text: "a field of kube-burner v1: `for`"},
			{name: "churnDelay", fate: honored, text: "a field of kube-burner v1: `rest`"},
			{name: "churnDeletionStrategy", fate: noted, text: "a field of kube-burner v1: namespaces are deleted whole", usual: "default", changes: true},
		}},
	}
}

// partFates are those of what jobs have beside objects.
func partFates() []typeFates {
	return []typeFates{
		{reflect.TypeFor[watcher](), "jobs.watchers", []field{
			{name: "kind", fate: honored, text: "`resource`"},
			{name: "apiVersion", fate: honored, text: "`resource`"},
			{name: "labelSelector", fate: honored, text: "`selector`"},
			{name: "replicas", fate: honored, text: "`count`"},
		}},
		{reflect.TypeFor[churn](), "jobs.churnConfig", []field{
			{name: "cycles", fate: honored, text: "`cycles`"},
			{name: "percent", fate: honored, text: "`percent`; rounded down, at least one"},
			{name: "duration", fate: honored, text: "`for`"},
			{name: "delay", fate: honored, text: "`rest`, and a pause after the last cycle"},
			{name: "deleteDelay", fate: honored, text: "`delay`"},
			{name: "mode", fate: honored, text: "objects, or `namespaces`"},
			{name: "type", fate: honored, text: "an older name of mode"},
			{name: "deletionStrategy", fate: noted, text: "namespaces are deleted whole", usual: "default", changes: true},
		}},
		{reflect.TypeFor[incremental](), "jobs.incrementalLoad", []field{
			{name: "startIterations", fate: honored, text: "`count` of the first round"},
			{name: "totalIterations", fate: honored, text: "`count` of the last round"},
			{name: "stepDelay", fate: honored, text: "`pause` between rounds"},
			{name: "healthCheckScript", fate: honored, text: "an `exec` step after each round"},
			{name: "scrapeMetricsPerStep", fate: noted, text: "metrics are of the whole job"},
			{name: "pattern", fate: honored, text: "the number of rounds"},
		}},
		{reflect.TypeFor[pattern](), "jobs.incrementalLoad.pattern", []field{
			{name: "type", fate: honored, text: "how rounds grow"},
			{name: "linear", fate: honored, text: "how rounds grow"},
			{name: "exponential", fate: honored, text: "how rounds grow"},
		}},
		{reflect.TypeFor[linear](), "jobs.incrementalLoad.pattern.linear", []field{
			{name: "minSteps", fate: honored, text: "how rounds grow"},
			{name: "stepSize", fate: honored, text: "how rounds grow"},
		}},
		{reflect.TypeFor[exponential](), "jobs.incrementalLoad.pattern.exponential", []field{
			{name: "base", fate: honored, text: "how rounds grow"},
			{name: "maxIncrease", fate: honored, text: "how rounds grow"},
			{name: "warmupSteps", fate: honored, text: "how rounds grow"},
		}},
		{reflect.TypeFor[hook](), "jobs.hooks", []field{
			{name: "cmd", fate: honored, text: "`command`"},
			{name: "when", fate: honored, text: "the place of the step"},
			{name: "background", fate: noted, text: "the command is waited for before the job goes on", changes: true},
		}},
	}
}

// objectFates are those of objects.
func objectFates() []typeFates {
	return []typeFates{
		{reflect.TypeFor[object](), "jobs.objects", []field{
			{name: "objectTemplate", fate: honored, text: "a body of the dialect `kube-burner`"},
			{name: "replicas", fate: honored, text: "`replicas`"},
			{name: "inputVars", fate: honored, text: "`with`"},
			{name: "kind", fate: honored, text: "`resource`"},
			{name: "apiVersion", fate: honored, text: "`resource`"},
			{name: "labelSelector", fate: honored, text: "`selector`"},
			{name: "patchType", fate: honored, text: "`patch`"},
			{name: "wait", fate: honored, text: "whether the objects are waited for"},
			{name: "waitOptions", fate: honored, text: "the condition of the wait"},
			{name: "runOnce", fate: honored, text: "`every`"},
			{name: "kubeVirtOp", fate: noted, text: "operations on virtual machines need KubeVirt, which is not there", changes: true},
			{name: "churn", fate: honored, text: "`objects` of the churn step"},
			{name: "group", fate: honored, text: "a `create` step for each group"},
			{name: "repeatEveryNIterations", fate: honored, text: "`every`"},
			{name: "namespacesPerObject", fate: honored, text: "an older name of repeatEveryNIterations"},
			{name: "SharingNamespacesCount", fate: honored, text: "an older name of repeatEveryNIterations"},
		}},
		{reflect.TypeFor[group](), "jobs.objects.group", []field{
			{name: "id", fate: honored, text: "order of the `create` steps"},
			{name: "gc", fate: honored, text: "deletion of the group's objects"},
			{name: "pauseBeforeGC", fate: honored, text: "`pause`"},
			{name: "pauseAfterGC", fate: honored, text: "`pause`"},
		}},
		{reflect.TypeFor[waitOptions](), "jobs.objects.waitOptions", []field{
			{name: "apiVersion", fate: honored, text: "`objects` of the wait"},
			{name: "kind", fate: honored, text: "`objects` of the wait"},
			{name: "labelSelector", fate: honored, text: "`selector` of the wait"},
			{name: "customStatusPaths", fate: inPart, text: "`condition`, translated from jq to CEL; what has no form in CEL makes the verdict *unknown*"},
			{name: "forCondition", fate: honored, text: "a field of kube-burner v1: `condition`"},
			{name: "customStatusPath", fate: noted, text: "a field of a version between: these objects have the usual wait; use customStatusPaths", changes: true},
		}},
		{reflect.TypeFor[statusPath](), "jobs.objects.waitOptions.customStatusPaths", []field{
			{name: "key", fate: honored, text: "`condition`"},
			{name: "value", fate: honored, text: "`condition`"},
		}},
	}
}

// profileFates are those of metric and alert profiles.
func profileFates() []typeFates {
	return []typeFates{
		{reflect.TypeFor[metric](), "metrics profiles", []field{
			{name: "query", fate: honored, text: "`query`"},
			{name: "metricName", fate: honored, text: "`name`"},
			{name: "instant", fate: honored, text: "one value at the end of each job, in place of average and maximum"},
			{name: "captureStart", fate: noted, text: "the query is asked at the end of a job only"},
		}},
		{reflect.TypeFor[alert](), "alert profiles", []field{
			{name: "expr", fate: honored, text: "`query`"},
			{name: "description", fate: honored, text: "`name`"},
			{name: "severity", fate: honored, text: "`error` and `critical` are objectives, others measures"},
		}},
	}
}
