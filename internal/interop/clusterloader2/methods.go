package clusterloader2

import (
	"maps"
	"slices"

	"github.com/windtunnel/windtunnel/scenario"
)

// method is one of ClusterLoader2's measurements and what becomes of it.
type method struct {
	name string
	// lower adds groups, objectives and measures and returns what is to be
	// done; since is the mark at which the measurement was started.
	lower   func(l *lowering, c call, since int) []scenario.Step
	actions string  // that ClusterLoader2 knows, separated by spaces; empty: it has none
	begins  bool    // it cannot be gathered unless it was started
	params  []field // all that it reads; none: it is not done here, and one note says so
}

const (
	startGather = "start gather"
	start       = "start"
	gather      = "gather"
)

// methods are all that ClusterLoader2 registers, in the order of what they are about.
func methods() []method {
	return slices.Concat(measuring(), waits(), acting(), reported(), missed())
}

// measuring are measurements that become objectives and measures.
func measuring() []method {
	return []method{
		{"PodStartupLatency", podStartup, startGather, true, slices.Concat(selecting(start, true), []field{
			{name: "threshold", fate: honored, when: start, text: "`max` of the objective; 5s by default"},
			{name: "perc50Threshold", fate: honored, when: start, text: "`max` of an objective on p50"},
			{name: "perc90Threshold", fate: honored, when: start, text: "`max` of an objective on p90"},
			{name: "perc99Threshold", fate: honored, when: start, text: "`max` of the objective on p99"},
		})},
		{"SchedulingThroughput", schedulingThroughput, startGather, true, slices.Concat(selecting(start, true), []field{
			{name: "measurmentInterval", fate: honored, when: start, text: "`window` of the objective; 5s by default"},
			{name: "threshold", fate: honored, when: gather, text: "`min` of the objective"},
			{name: "enableViolations", fate: honored, when: gather, text: "false: no objective; true by default"},
		})},
		{"SchedulingThroughputPrometheus", schedulingPrometheus, startGather, false, prometheus([]field{
			{name: "threshold", fate: honored, when: gather, text: "`min` of the objective"},
		})},
		{"APIResponsivenessPrometheus", apiResponsiveness, startGather, false, prometheus([]field{
			{name: "useSimpleLatencyQuery", fate: honored, when: gather, text: "one quantile over the whole time, in place of windows of 5 minutes"},
			{name: "allowedSlowCalls", fate: honored, when: gather, text: "the objective leaves out kinds of calls of which no more were slow"},
			{name: "customThresholds", fate: honored, when: gather, text: "objectives of their own"},
			{name: "customThresholds.resource", fate: honored, when: gather, text: "label of the query"},
			{name: "customThresholds.subresource", fate: honored, when: gather, text: "label of the query"},
			{name: "customThresholds.verb", fate: honored, when: gather, text: "label of the query"},
			{name: "customThresholds.scope", fate: honored, when: gather, text: "label of the query"},
			{name: "customThresholds.threshold", fate: honored, when: gather, text: "`max`"},
			{name: "singleResourceThreshold", fate: honored, when: gather, text: "`max` for calls about one object; 1s by default"},
			{name: "multipleResourcesThreshold", fate: honored, when: gather, text: "`max` for calls about many objects; 30s by default"},
			{name: "summaryName", fate: noted, text: "`windtunnel export` names the result file"},
		})},
		{"GenericPrometheusQuery", genericQuery, startGather, false, prometheus([]field{
			{name: "metricName", fate: honored, text: "`name`"},
			{name: "metricVersion", fate: noted, usual: "v1", text: "`windtunnel export` writes version v1"},
			{name: "unit", fate: honored, text: "`unit`"},
			{name: "dimensions", fate: noted, text: "every series of the answer is judged, with all of its labels"},
			{name: "queries", fate: honored, text: "an objective where a threshold is enforced, else a measure"},
			{name: "queries.name", fate: honored, text: "`name`, after metricName"},
			{name: "queries.query", fate: honored, text: "`query`"},
			{name: "queries.threshold", fate: honored, text: "`max`, where violations are enabled"},
			{name: "queries.lowerBound", fate: honored, text: "true: the threshold is `min`"},
			{name: "queries.requireSamples", fate: noted, usual: "false", changes: true, text: "an objective without an answer is unknown in any case; a measure without one is left out"},
		})},
		{"APIAvailability", apiAvailability, "start pause unpause gather", false, []field{
			{name: "pollFrequency", fate: noted, when: start, text: "the API server is read as often as its metrics are, not at this interval"},
			{name: "threshold", fate: honored, when: start, text: "`min` of the objective, in percent"},
			{name: "useHostInternalIPs", fate: noted, usual: "false", when: start, text: "the plane has one API server: hosts are not asked one by one"},
			{name: "useHostPublicIPs", fate: noted, usual: "false", when: start, text: "the plane has one API server: hosts are not asked one by one"},
			{name: "hostPollTimeoutSeconds", fate: noted, when: start, text: "the plane has one API server: hosts are not asked one by one"},
			{name: "hostPollExecTimeoutSeconds", fate: noted, when: start, text: "the plane has one API server: hosts are not asked one by one"},
		}},
		{"Timer", timer, "start stop gather", false, []field{{name: "label", fate: honored, text: "name of the measure"}}},
		{"PrometheusSchedulingMetrics", schedulingMetrics, startGather, false, slices.Concat([]field{unbounded()}, prometheus(nil)[1:])},
		{"SchedulingMetrics", schedulingMetrics, "reset start gather", false, []field{
			{name: "labelSelector", fate: noted, text: "the scheduler's metrics are those of all pods"}, unbounded(),
		}},
		{"SLOMeasurement", sloMeasurement, startGather, false, prometheus([]field{
			{name: "threshold", fate: honored, when: gather, text: "`min` of the objective"},
			{name: "overrides", fate: honored, text: "parameters of SchedulingThroughputPrometheus; those of DnsLookupLatency have no effect"},
			{name: "checkProbesReadyTimeout", fate: noted, text: "it is a parameter of DnsLookupLatency, which is left out"},
			{name: "replicasPerProbe", fate: noted, text: "it is a parameter of DnsLookupLatency, which is left out"},
		})},
		{"JobLifecycleLatency", jobLifecycle, startGather, true, slices.Concat(selecting(start, true), []field{
			{name: "timeout", fate: honored, when: gather, text: "`within` of the wait for the jobs to complete; 10m by default"},
		})},
		{"ResourceClaimAllocationLatency", claimAllocation, startGather, true, slices.Concat(selecting(start, true), []field{
			{name: "threshold", fate: honored, when: start, text: "`max` of the objective; 5m by default"},
			{name: "perc50Threshold", fate: honored, when: start, text: "`max` of an objective on p50"},
			{name: "perc90Threshold", fate: honored, when: start, text: "`max` of an objective on p90"},
			{name: "perc99Threshold", fate: honored, when: start, text: "`max` of the objective on p99"},
		})},
	}
}

// selecting are the parameters that select objects.
func selecting(when string, namespaced bool) []field {
	out := []field{{name: "labelSelector", fate: honored, when: when, text: "`selector`"}}
	if namespaced {
		out = append(out, field{name: "namespace", fate: honored, when: when, text: "`namespace`"})
	} else {
		out = append(out, field{name: "namespace", fate: noted, when: when, text: "the objects are outside of namespaces: it has no effect"})
	}
	return append(out, field{name: "fieldSelector", fate: noted, when: when, changes: true, text: "objects are selected by labels only, not by fieldSelector"})
}

// unbounded is the fate of enableViolations where no bound belongs to it.
func unbounded() field {
	return field{name: "enableViolations", fate: noted, usual: "false", text: "no bound belongs to this measurement"}
}

// prometheus are the parameters of a measurement by PromQL.
func prometheus(own []field) []field {
	return append(own,
		field{name: "enableViolations", fate: honored, when: gather, text: "true: an objective; false by default"},
		field{name: "prometheusClient", fate: noted, usual: "inCluster", changes: true, text: "a cloud's own Prometheus is not asked; the run's series answer"},
	)
}

// waits are the measurements that wait.
func waits() []method {
	timeout := func(text string) field {
		return field{name: "timeout", fate: honored, text: "`within`; " + text + " by default"}
	}
	interval := field{name: "refreshInterval", fate: noted, text: "waits follow a watch and need no interval"}
	return []method{
		{"WaitForControlledPodsRunning", waitControlled, "start gather stop", true, slices.Concat(selecting(start, true), []field{
			{name: "apiVersion", fate: honored, when: start, text: "`objects`"},
			{name: "kind", fate: honored, when: start, text: "`objects`"},
			{name: "operationTimeout", fate: honored, when: start, text: "`within`; 10m by default, and twice as long for a deletion unless CL2_WAIT_FOR_CONTROLLED_PODS_USE_EXACT_OPERATION_TIMEOUT is set"},
			{name: "checkIfPodsAreUpdated", fate: honored, when: start, text: "part of `condition`"},
			{name: "countErrorMargin", fate: honored, when: start, text: "part of `condition`"},
			{name: "syncTimeout", fate: noted, when: gather, text: "the wait needs no informer of its own"},
		})},
		{"WaitForRunningPods", waitRunningPods, "", false, slices.Concat(selecting("", true), []field{
			{name: "desiredPodCount", fate: honored, text: "`count`"},
			timeout("1m"), interval,
			{name: "isFatal", fate: honored, text: "`onFailure: stop`"},
		})},
		{"WaitForGenericK8sObjects", waitGeneric, "", false, []field{
			{name: "objectGroup", fate: honored, text: "`objects`"},
			{name: "objectVersion", fate: honored, text: "`objects`"},
			{name: "objectResource", fate: honored, text: "`objects`"},
			{name: "namespaceRange", fate: honored, text: "`namespace`: one, or all of the scenario's"},
			{name: "namespaceRange.min", fate: inPart, text: "a range that is neither one namespace nor all of them has a note"},
			{name: "namespaceRange.max", fate: inPart, text: "a range that is neither one namespace nor all of them has a note"},
			{name: "namespaceRange.prefix", fate: inPart, text: "a range of other namespaces has a note"},
			{name: "namespaceRange.allNamespaces", fate: honored, text: "`namespace: \"*\"`"},
			{name: "labelSelector", fate: honored, text: "`selector`"},
			{name: "successfulConditions", fate: honored, text: "`condition`"},
			{name: "failedConditions", fate: inPart, text: "objects that failed count; with maxFailedObjectCount above 0 that many of them"},
			{name: "minDesiredObjectCount", fate: honored, text: "`count`"},
			{name: "maxFailedObjectCount", fate: inPart, text: "0: failed objects do not count; above 0: they count, and there is a note"},
			timeout("30m"), interval,
		}},
		{"WaitForFinishedJobs", waitFinishedJobs, startGather, true, slices.Concat(selecting(start, true), []field{
			{name: "timeout", fate: honored, when: gather, text: "`within`; 10m by default"},
		})},
		{"WaitForNodes", waitNodes, "", false, slices.Concat(selecting("", false), []field{
			{name: "minDesiredNodeCount", fate: honored, text: "`count`"},
			{name: "maxDesiredNodeCount", fate: refused, text: "fewer than the simulated nodes without a selector: an error, since the wait cannot end; with a selector a note"},
			timeout("30m"), interval,
		})},
		{"WaitForBoundPVCs", waitPhase("persistentvolumeclaims", "desiredPVCCount"), "", false, slices.Concat(selecting("", true), []field{
			{name: "desiredPVCCount", fate: honored, text: "`count`"}, timeout("1m"), interval,
		})},
		{"WaitForAvailablePVs", waitPhase("persistentvolumes", "desiredPVCount"), "", false, slices.Concat(selecting("", false), []field{
			{name: "desiredPVCount", fate: honored, text: "`count`"},
			{name: "provisioner", fate: noted, changes: true, text: "all volumes that the labels select are counted, whatever their provisioner"},
			timeout("1m"), interval,
		})},
	}
}

// acting are the measurements that do something.
func acting() []method {
	return []method{
		{"Sleep", sleep, "", false, []field{{name: "duration", fate: honored, text: "`pause`"}}},
		{"Exec", execute, "", false, []field{
			{name: "command", fate: honored, text: "`command`"},
			{name: "name", fate: honored, text: "older form of `command`"},
			{name: "args", fate: honored, text: "older form of `command`"},
			{name: "timeout", fate: honored, text: "`timeout`; 1h by default"},
			{name: "retries", fate: noted, usual: "1", changes: true, text: "the command runs once; it is not tried again when it fails"},
			{name: "backoffDelay", fate: noted, text: "the command runs once; there is no delay before a second try"},
		}},
		{"ChaosMonkey", chaosMethod, "start stop", false, startedWith(chaosFields())},
		{"RestartApiserver", restartServer, "", false, []field{
			{name: "downSeconds", fate: honored, text: "`for`; 30 by default"},
			{name: "readyTimeout", fate: noted, text: "the step ends when the API server runs again"},
		}},
	}
}

// startedWith are parameters that are read with action: start.
func startedWith(fields []field) []field {
	for i := range fields {
		fields[i].when = start
	}
	return fields
}

func names(fields []field) []string {
	var out []string
	for _, f := range fields {
		out = append(out, f.name)
	}
	return out
}

func sortedNames(values map[string]any) []string { return slices.Sorted(maps.Keys(values)) }

// method finds a measurement; its lower is nil where there is none.
func (im *importer) method(name string) method {
	if im.byName == nil {
		im.byName = map[string]method{}
		for _, m := range methods() {
			im.byName[m.name] = m
		}
	}
	return im.byName[name]
}
