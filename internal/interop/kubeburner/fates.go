package kubeburner

import (
	"slices"

	"github.com/windtunnel/windtunnel/internal/interop/kit"
)

// allFates are all fields of a config and of its profiles.
func allFates() kit.Table {
	return slices.Concat(configFates(), measurementFates(), jobFates(), partFates(), objectFates(), profileFates())
}

// configFates are those of a config as a whole.
func configFates() kit.Table {
	return kit.Table{
		kit.Of[config]("", kit.Fields{
			{Name: "metricsEndpoints", Fate: kit.Honored, Text: "`measures` and `objectives` of its profiles"},
			{Name: "indexers", Fate: kit.Noted, Text: "documents are written by `windtunnel export`, wherever it is told to"},
			{Name: "global", Fate: kit.Honored, Text: "see its fields"},
			{Name: "jobs", Fate: kit.Honored, Text: "`steps`"},
		}),
		kit.Of[endpoint]("metricsEndpoints", kit.Fields{
			{Name: "endpoint", Fate: kit.Noted, Text: "metrics are answered from windtunnel's own series, not asked of a Prometheus server"},
			{Name: "prometheusURL", Fate: kit.Noted, Text: "metrics are answered from windtunnel's own series, not asked of a Prometheus server"},
			{Name: "step", Fate: kit.InPart, Text: "the step of its queries; without it 5 s, because a query of 30 s sees nothing of a short job"},
			{Name: "token", Fate: kit.Noted, Text: "no server is asked"},
			{Name: "username", Fate: kit.Noted, Text: "no server is asked"},
			{Name: "password", Fate: kit.Noted, Text: "no server is asked"},
			{Name: "skipTLSVerify", Fate: kit.Noted, Text: "no server is asked"},
			{Name: "alias", Fate: kit.Noted, Text: "there is one store of metrics: an alias chooses nothing"},
			{Name: "metrics", Fate: kit.Honored, Text: "`measures`"},
			{Name: "alerts", Fate: kit.Honored, Text: "`objectives`; `info` and `warning` are `measures`"},
			{Name: "indexer", Fate: kit.Noted, Text: "documents are written by `windtunnel export`, wherever it is told to", Own: true},
		}),
		kit.Of[indexer]("metricsEndpoints.indexer", kit.Fields{
			{Name: "type", Fate: kit.Noted, Text: "documents are written by `windtunnel export`, wherever it is told to"},
			{Name: "esServers", Fate: kit.Noted, Text: "nothing is sent to Elasticsearch or OpenSearch; `windtunnel export` writes the documents as files"},
			{Name: "defaultIndex", Fate: kit.Noted, Text: "documents are written by `windtunnel export`, wherever it is told to"},
			{Name: "insecureSkipVerify", Fate: kit.Noted, Text: "no server is asked"},
			{Name: "metricsDirectory", Fate: kit.Noted, Text: "`windtunnel export` says where documents are written"},
			{Name: "createTarball", Fate: kit.Noted, Text: "no tarball is made"},
			{Name: "tarballName", Fate: kit.Noted, Text: "no tarball is made"},
		}),
		kit.Of[global]("global", kit.Fields{
			{Name: "measurements", Fate: kit.Honored, Text: "`objectives` of the jobs that make such objects"},
			{Name: "requestTimeout", Fate: kit.Honored, Text: "`timeout` of the calls"},
			{Name: "gc", Fate: kit.Honored, Text: "deletions after the last job"},
			{Name: "gcMetrics", Fate: kit.Noted, Text: "metrics are collected from the first moment of a run to its last"},
			{Name: "gcTimeout", Fate: kit.Honored, Text: "`within` of the wait for deleted namespaces"},
			{Name: "waitWhenFinished", Fate: kit.Honored, Text: "waits after the last job, instead of those of jobs"},
			{Name: "clusterHealth", Fate: kit.Noted, Text: "the fleet's nodes are ready before the first step; nothing else is asked of the cluster's health"},
			{Name: "timeout", Fate: kit.Honored, Text: "`within` of waits without `maxWaitTimeout`"},
			{Name: "functionTemplates", Fate: kit.Honored, Text: "definitions behind the bodies that call them"},
			{Name: "deletionStrategy", Fate: kit.Honored, Text: "`gvr`: objects are deleted before their namespaces"},
			{Name: "indexerConfig", Fate: kit.Noted, Text: "a field of kube-burner v1: documents are written by `windtunnel export`, wherever it is told to"},
			{Name: "prometheusURL", Fate: kit.Noted, Text: "a field of kube-burner v1: metrics are answered from windtunnel's own series"},
			{Name: "bearerToken", Fate: kit.Noted, Text: "a field of kube-burner v1: no server is asked"},
			{Name: "metricsProfile", Fate: kit.Noted, Text: "a field of kube-burner v1: name the file in metricsEndpoints"},
			{Name: "alertProfile", Fate: kit.Noted, Text: "a field of kube-burner v1: its alerts are not judged; name the file in metricsEndpoints", Changes: true},
			{Name: "writeToFile", Fate: kit.Noted, Text: "a field of kube-burner v1: documents are written by `windtunnel export`, wherever it is told to"},
			{Name: "metricsDirectory", Fate: kit.Noted, Text: "a field of kube-burner v1: documents are written by `windtunnel export`, wherever it is told to"},
		}),
	}
}

// measurementFates are those of measurements. What a measurement is set by stands in it or
// in its config, as the version has it.
func measurementFates() kit.Table {
	set := kit.Fields{
		{Name: "thresholds", Fate: kit.Honored, Text: "`objectives`"},
		{Name: "pprofTargets", Fate: kit.Noted, Text: "pprof needs pods whose containers run"},
		{Name: "pprofInterval", Fate: kit.Noted, Text: "pprof needs pods whose containers run"},
		{Name: "pprofDirectory", Fate: kit.Noted, Text: "pprof needs pods whose containers run"},
		{Name: "svcTimeout", Fate: kit.Noted, Text: "serviceLatency and netpolLatency are not measured"},
		{Name: "quantilesIndexer", Fate: kit.Noted, Text: "documents are written by `windtunnel export`, wherever it is told to"},
		{Name: "timeseriesIndexer", Fate: kit.Noted, Text: "documents are written by `windtunnel export`, wherever it is told to"},
	}
	return kit.Table{
		kit.Of[measurement]("global.measurements, jobs.measurements", append(kit.Fields{
			{Name: "name", Fate: kit.Honored, Text: "`sli` of the objectives; `serviceLatency`, `netpolLatency` and `pprof` are noted"},
			{Name: "config", Fate: kit.Honored, Text: "the same fields, where other versions have them"},
			{Name: "nodeAffinity", Fate: kit.Noted, Text: "pprof needs pods whose containers run"},
			{Name: "svcLatencyMetrics", Fate: kit.Noted, Text: "serviceLatency and netpolLatency are not measured"},
		}, set...)),
		kit.Of[options]("global.measurements.config, jobs.measurements.config", set),
		kit.Of[threshold]("global.measurements.thresholds, jobs.measurements.thresholds", kit.Fields{
			{Name: "conditionType", Fate: kit.InPart, Text: "the phase of the objective; `ContainersReady` is taken from the condition Ready"},
			{Name: "metric", Fate: kit.Honored, Text: "`statistic`"},
			{Name: "threshold", Fate: kit.Honored, Text: "`max`"},
		}),
	}
}

// jobFates are those of jobs.
func jobFates() kit.Table {
	return kit.Table{
		kit.Of[job]("jobs", kit.Fields{
			{Name: "name", Fate: kit.Honored, Text: "the steps' names, `groups`, labels"},
			{Name: "jobType", Fate: kit.InPart, Text: "`create`, or `requests`; jobs of type `kubevirt` are left out, and the verdict is *unknown*"},
			{Name: "jobIterations", Fate: kit.Honored, Text: "`count`, or `rounds`"},
			{Name: "jobIterationDelay", Fate: kit.Honored, Text: "`pause` between indices"},
			{Name: "jobPause", Fate: kit.Honored, Text: "`pause` at the end"},
			{Name: "objects", Fate: kit.Honored, Text: "`objects`, or the `mix`"},
			{Name: "watchers", Fate: kit.Honored, Text: "`watch` requests beside the steps of the job, until its jobPause is over"},
			{Name: "qps", Fate: kit.Honored, Text: "`pace`; objects per second"},
			{Name: "burst", Fate: kit.Noted, Text: "objects are due evenly, at qps, from the first one on", Own: true},
			{Name: "namespace", Fate: kit.Honored, Text: "`namespace`, or the prefix of `namespaces`"},
			{Name: "maxWaitTimeout", Fate: kit.Honored, Text: "`within` of waits"},
			{Name: "waitForDeletion", Fate: kit.Honored, Text: "a wait until what was deleted is gone"},
			{Name: "podWait", Fate: kit.Honored, Text: "waits after each iteration"},
			{Name: "waitWhenFinished", Fate: kit.Honored, Text: "waits after the last iteration"},
			{Name: "cleanup", Fate: kit.Honored, Text: "deletion of what an earlier run of the job left"},
			{Name: "namespacedIterations", Fate: kit.Honored, Text: "`namespaces`"},
			{Name: "iterationsPerNamespace", Fate: kit.Honored, Text: "`each`"},
			{Name: "preCreateNamespaces", Fate: kit.Noted, Text: "namespaces are made before the objects in any case"},
			{Name: "namespaceDelay", Fate: kit.Honored, Text: "`pause` of `namespaces`: the objects of each further namespace are due so much later; the namespaces themselves are made before the objects"},
			{Name: "verifyObjects", Fate: kit.Honored, Text: "waits of a minute for as many objects as there must be"},
			{Name: "errorOnVerify", Fate: kit.Honored, Text: "`onFailure` of these waits"},
			{Name: "preLoadImages", Fate: kit.Noted, Text: "simulated nodes pull no images: nothing is loaded before a job", Own: true},
			{Name: "preLoadPeriod", Fate: kit.Noted, Text: "simulated nodes pull no images"},
			{Name: "preLoadNodeLabels", Fate: kit.Noted, Text: "simulated nodes pull no images"},
			{Name: "namespaceLabels", Fate: kit.Honored, Text: "labels of the namespaces"},
			{Name: "namespaceAnnotations", Fate: kit.Honored, Text: "annotations of the namespaces"},
			{Name: "churnConfig", Fate: kit.Honored, Text: "a `churn` step"},
			{Name: "skipIndexing", Fate: kit.Noted, Text: "`windtunnel export` writes the documents of every job"},
			{Name: "defaultMissingKeysWithZero", Fate: kit.Honored, Text: "missing variables are empty"},
			{Name: "executionMode", Fate: kit.Honored, Text: "order of the calls of patch jobs"},
			{Name: "executionGroup", Fate: kit.Honored, Text: "`parallel`"},
			{Name: "objectDelay", Fate: kit.Honored, Text: "pauses between objects"},
			{Name: "objectWait", Fate: kit.Honored, Text: "waits between objects"},
			{Name: "metricsAggregate", Fate: kit.Noted, Text: "each job has metrics of its own"},
			{Name: "metricsClosing", Fate: kit.Honored, Text: "the step that ends the job's metrics; `afterMeasurements` is `afterJobPause`: measurements take no time"},
			{Name: "gc", Fate: kit.Honored, Text: "deletions after the job"},
			{Name: "measurements", Fate: kit.Honored, Text: "`objectives`"},
			{Name: "incrementalLoad", Fate: kit.Honored, Text: "rounds, written out"},
			{Name: "hooks", Fate: kit.Honored, Text: "`exec` steps"},
			{Name: "beforeCleanup", Fate: kit.Honored, Text: "an `exec` step"},
			{Name: "churn", Fate: kit.Honored, Text: "a field of kube-burner v1: a `churn` step"},
			{Name: "churnCycles", Fate: kit.Honored, Text: "a field of kube-burner v1: `cycles`"},
			{Name: "churnPercent", Fate: kit.Honored, Text: "a field of kube-burner v1: `percent`"},
			{Name: "churnDuration", Fate: kit.Honored, Text: "a field of kube-burner v1: `for`"},
			{Name: "churnDelay", Fate: kit.Honored, Text: "a field of kube-burner v1: `rest`"},
			{Name: "churnDeletionStrategy", Fate: kit.Honored, Text: "a field of kube-burner v1: `contents`"},
		}),
	}
}

// partFates are those of what jobs have beside objects.
func partFates() kit.Table {
	return kit.Table{
		kit.Of[watcher]("jobs.watchers", kit.Fields{
			{Name: "kind", Fate: kit.Honored, Text: "`resource`"},
			{Name: "apiVersion", Fate: kit.Honored, Text: "`resource`"},
			{Name: "labelSelector", Fate: kit.Honored, Text: "`selector`"},
			{Name: "replicas", Fate: kit.Honored, Text: "`count`"},
		}),
		kit.Of[churn]("jobs.churnConfig", kit.Fields{
			{Name: "cycles", Fate: kit.Honored, Text: "`cycles`"},
			{Name: "percent", Fate: kit.Honored, Text: "`percent`; rounded down, at least one"},
			{Name: "duration", Fate: kit.Honored, Text: "`for`"},
			{Name: "delay", Fate: kit.Honored, Text: "`rest`, and a pause after the last cycle"},
			{Name: "deleteDelay", Fate: kit.Honored, Text: "`delay`"},
			{Name: "mode", Fate: kit.Honored, Text: "objects, or `namespaces`"},
			{Name: "type", Fate: kit.Honored, Text: "an older name of mode"},
			{Name: "deletionStrategy", Fate: kit.Honored, Text: "`gvr`: `contents`, so that objects are deleted before their namespaces; default: global.deletionStrategy"},
		}),
		kit.Of[incremental]("jobs.incrementalLoad", kit.Fields{
			{Name: "startIterations", Fate: kit.Honored, Text: "`count` of the first round"},
			{Name: "totalIterations", Fate: kit.Honored, Text: "`count` of the last round"},
			{Name: "stepDelay", Fate: kit.Honored, Text: "`pause` between rounds"},
			{Name: "healthCheckScript", Fate: kit.Honored, Text: "an `exec` step after each round"},
			{Name: "scrapeMetricsPerStep", Fate: kit.Noted, Text: "metrics are of the whole job"},
			{Name: "pattern", Fate: kit.Honored, Text: "the number of rounds"},
		}),
		kit.Of[pattern]("jobs.incrementalLoad.pattern", kit.Fields{
			{Name: "type", Fate: kit.Honored, Text: "how rounds grow"},
			{Name: "linear", Fate: kit.Honored, Text: "how rounds grow"},
			{Name: "exponential", Fate: kit.Honored, Text: "how rounds grow"},
		}),
		kit.Of[linear]("jobs.incrementalLoad.pattern.linear", kit.Fields{
			{Name: "minSteps", Fate: kit.Honored, Text: "how rounds grow"},
			{Name: "stepSize", Fate: kit.Honored, Text: "how rounds grow"},
		}),
		kit.Of[exponential]("jobs.incrementalLoad.pattern.exponential", kit.Fields{
			{Name: "base", Fate: kit.Honored, Text: "how rounds grow"},
			{Name: "maxIncrease", Fate: kit.Honored, Text: "how rounds grow"},
			{Name: "warmupSteps", Fate: kit.Honored, Text: "how rounds grow"},
		}),
		kit.Of[hook]("jobs.hooks", kit.Fields{
			{Name: "cmd", Fate: kit.Honored, Text: "`command`"},
			{Name: "when", Fate: kit.Honored, Text: "the place of the step"},
			{Name: "background", Fate: kit.Honored, Text: "`beside`: the command runs beside the steps that follow and is stopped after the last of them; that it fails counts, which kube-burner only logs"},
		}),
	}
}

// objectFates are those of objects.
func objectFates() kit.Table {
	return kit.Table{
		kit.Of[object]("jobs.objects", kit.Fields{
			{Name: "objectTemplate", Fate: kit.Honored, Text: "a body of the dialect `kube-burner`"},
			{Name: "replicas", Fate: kit.Honored, Text: "`replicas`"},
			{Name: "inputVars", Fate: kit.Honored, Text: "`with`"},
			{Name: "kind", Fate: kit.Honored, Text: "`resource`"},
			{Name: "apiVersion", Fate: kit.Honored, Text: "`resource`"},
			{Name: "labelSelector", Fate: kit.Honored, Text: "`selector`"},
			{Name: "patchType", Fate: kit.Honored, Text: "`patch`"},
			{Name: "wait", Fate: kit.Honored, Text: "whether the objects are waited for"},
			{Name: "waitOptions", Fate: kit.Honored, Text: "the condition of the wait"},
			{Name: "runOnce", Fate: kit.Honored, Text: "`every`"},
			{Name: "kubeVirtOp", Fate: kit.Noted, Text: "operations on virtual machines need KubeVirt, which is not there", Changes: true},
			{Name: "churn", Fate: kit.Honored, Text: "`objects` of the churn step"},
			{Name: "group", Fate: kit.Honored, Text: "a `create` step for each group"},
			{Name: "repeatEveryNIterations", Fate: kit.Honored, Text: "`every`"},
			{Name: "namespacesPerObject", Fate: kit.Honored, Text: "an older name of repeatEveryNIterations"},
			{Name: "SharingNamespacesCount", Fate: kit.Honored, Text: "an older name of repeatEveryNIterations"},
		}),
		kit.Of[group]("jobs.objects.group", kit.Fields{
			{Name: "id", Fate: kit.Honored, Text: "order of the `create` steps"},
			{Name: "gc", Fate: kit.Honored, Text: "deletion of the group's objects"},
			{Name: "pauseBeforeGC", Fate: kit.Honored, Text: "`pause`"},
			{Name: "pauseAfterGC", Fate: kit.Honored, Text: "`pause`"},
		}),
		kit.Of[waitOptions]("jobs.objects.waitOptions", kit.Fields{
			{Name: "apiVersion", Fate: kit.Honored, Text: "`objects` of the wait"},
			{Name: "kind", Fate: kit.Honored, Text: "`objects` of the wait"},
			{Name: "labelSelector", Fate: kit.Honored, Text: "`selector` of the wait"},
			{Name: "customStatusPaths", Fate: kit.InPart, Text: "`condition`, translated from jq to CEL; what has no form in CEL makes the verdict *unknown*"},
			{Name: "forCondition", Fate: kit.Honored, Text: "a field of kube-burner v1: `condition`"},
			{Name: "customStatusPath", Fate: kit.Noted, Text: "a field of a version between: these objects have the usual wait; use customStatusPaths", Changes: true},
		}),
		kit.Of[statusPath]("jobs.objects.waitOptions.customStatusPaths", kit.Fields{
			{Name: "key", Fate: kit.Honored, Text: "`condition`"},
			{Name: "value", Fate: kit.Honored, Text: "`condition`"},
		}),
	}
}

// profileFates are those of metric and alert profiles.
func profileFates() kit.Table {
	return kit.Table{
		kit.Of[metric]("metrics profiles", kit.Fields{
			{Name: "query", Fate: kit.Honored, Text: "`query`"},
			{Name: "metricName", Fate: kit.Honored, Text: "`name`"},
			{Name: "instant", Fate: kit.Honored, Text: "one value at the end of each job, instead of average and maximum"},
			{Name: "captureStart", Fate: kit.Noted, Text: "the query is asked at the end of a job only"},
		}),
		kit.Of[alert]("alert profiles", kit.Fields{
			{Name: "expr", Fate: kit.Honored, Text: "`query`"},
			{Name: "description", Fate: kit.Honored, Text: "`name`"},
			{Name: "severity", Fate: kit.Honored, Text: "`error` and `critical` are objectives, others measures"},
		}),
	}
}
