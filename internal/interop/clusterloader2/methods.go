package clusterloader2

import (
	"maps"
	"slices"

	"github.com/windtunnel/windtunnel/internal/interop/kit"
	"github.com/windtunnel/windtunnel/scenario"
)

// method is one of ClusterLoader2's measurements and what becomes of it.
type method struct {
	name string
	// lower adds groups, objectives and measures and returns what is to be
	// done; since is the mark at which the measurement was started.
	lower   func(l *lowering, c call, since int) []scenario.Step
	actions string     // that ClusterLoader2 knows, separated by spaces; empty: it has none
	begins  bool       // it cannot be gathered unless it was started
	params  kit.Fields // all that it reads; none: it is not done here, and one note says so
}

const (
	startGather = "start gather"
	start       = "start"
	gather      = "gather"
)

// listMethods returns all that ClusterLoader2 registers, in the order of what they are about.
func listMethods() []method {
	return slices.Concat(measuringMethods(), waitMethods(), actingMethods(), reportedMethods(), missedMethods())
}

// measuringMethods returns measurements that become objectives and measures.
func measuringMethods() []method {
	return []method{
		{"PodStartupLatency", podStartup, startGather, true, slices.Concat(selectingFields(start, true), kit.Fields{
			{Name: "threshold", Fate: kit.Honored, When: start, Text: "`max` of the objective; 5s by default"},
			{Name: "perc50Threshold", Fate: kit.Honored, When: start, Text: "`max` of an objective on p50"},
			{Name: "perc90Threshold", Fate: kit.Honored, When: start, Text: "`max` of an objective on p90"},
			{Name: "perc99Threshold", Fate: kit.Honored, When: start, Text: "`max` of the objective on p99"},
		})},
		{"SchedulingThroughput", schedulingThroughput, startGather, true, slices.Concat(selectingFields(start, true), kit.Fields{
			{Name: "measurmentInterval", Fate: kit.Honored, When: start, Text: "`window` of the objective; 5s by default"},
			{Name: "threshold", Fate: kit.Honored, When: gather, Text: "`min` of the objective"},
			{Name: "enableViolations", Fate: kit.Honored, When: gather, Text: "false: no objective; true by default"},
		})},
		{"SchedulingThroughputPrometheus", schedulingPrometheus, startGather, false, prometheusFields(kit.Fields{
			{Name: "threshold", Fate: kit.Honored, When: gather, Text: "`min` of the objective"},
		})},
		{"APIResponsivenessPrometheus", apiResponsiveness, startGather, false, prometheusFields(kit.Fields{
			{Name: "useSimpleLatencyQuery", Fate: kit.Honored, When: gather, Text: "one quantile over the whole time, instead of windows of 5 minutes"},
			{Name: "allowedSlowCalls", Fate: kit.Honored, When: gather, Text: "the objective leaves out kinds of calls of which no more were slow"},
			{Name: "customThresholds", Fate: kit.Honored, When: gather, Text: "objectives of their own"},
			{Name: "customThresholds.resource", Fate: kit.Honored, When: gather, Text: "label of the query"},
			{Name: "customThresholds.subresource", Fate: kit.Honored, When: gather, Text: "label of the query"},
			{Name: "customThresholds.verb", Fate: kit.Honored, When: gather, Text: "label of the query"},
			{Name: "customThresholds.scope", Fate: kit.Honored, When: gather, Text: "label of the query"},
			{Name: "customThresholds.threshold", Fate: kit.Honored, When: gather, Text: "`max`"},
			{Name: "singleResourceThreshold", Fate: kit.Honored, When: gather, Text: "`max` for calls about one object; 1s by default"},
			{Name: "multipleResourcesThreshold", Fate: kit.Honored, When: gather, Text: "`max` for calls about many objects; 30s by default"},
			{Name: "summaryName", Fate: kit.Noted, Text: "`windtunnel export` names the result file"},
		})},
		{"GenericPrometheusQuery", genericQuery, startGather, false, prometheusFields(kit.Fields{
			{Name: "metricName", Fate: kit.Honored, Text: "`name`"},
			{Name: "metricVersion", Fate: kit.Noted, Usual: "v1", Text: "`windtunnel export` writes version v1"},
			{Name: "unit", Fate: kit.Honored, Text: "`unit`"},
			{Name: "dimensions", Fate: kit.Noted, Text: "every series of the answer is judged, with all of its labels"},
			{Name: "queries", Fate: kit.Honored, Text: "an objective where a threshold is enforced, else a measure"},
			{Name: "queries.name", Fate: kit.Honored, Text: "`name`, after metricName"},
			{Name: "queries.query", Fate: kit.Honored, Text: "`query`"},
			{Name: "queries.threshold", Fate: kit.Honored, Text: "`max`, where violations are enabled"},
			{Name: "queries.lowerBound", Fate: kit.Honored, Text: "true: the threshold is `min`"},
			{Name: "queries.requireSamples", Fate: kit.Honored, Text: "true: a measure without an answer makes the verdict *unknown*, as an objective without one does in any case; false: `optional` of the measure"},
		})},
		{"APIAvailability", apiAvailability, "start pause unpause gather", false, kit.Fields{
			{Name: "pollFrequency", Fate: kit.Noted, When: start, Text: "the API server is read as often as its metrics are, not at this interval"},
			{Name: "threshold", Fate: kit.Honored, When: start, Text: "`min` of the objective, in percent"},
			{Name: "useHostInternalIPs", Fate: kit.Noted, Usual: "false", When: start, Text: "the plane has one API server: hosts are not asked one by one"},
			{Name: "useHostPublicIPs", Fate: kit.Noted, Usual: "false", When: start, Text: "the plane has one API server: hosts are not asked one by one"},
			{Name: "hostPollTimeoutSeconds", Fate: kit.Noted, When: start, Text: "the plane has one API server: hosts are not asked one by one"},
			{Name: "hostPollExecTimeoutSeconds", Fate: kit.Noted, When: start, Text: "the plane has one API server: hosts are not asked one by one"},
		}},
		{"Timer", lowerTimer, "start stop gather", false, kit.Fields{{Name: "label", Fate: kit.Honored, Text: "name of the measure"}}},
		{"PrometheusSchedulingMetrics", schedulingMetrics, startGather, false, slices.Concat(kit.Fields{unboundedField()}, prometheusFields(nil)[1:])},
		{"SchedulingMetrics", schedulingMetrics, "reset start gather", false, kit.Fields{
			{Name: "labelSelector", Fate: kit.Noted, Text: "the scheduler's metrics are those of all pods"}, unboundedField(),
		}},
		{"SLOMeasurement", sloMeasurement, startGather, false, prometheusFields(kit.Fields{
			{Name: "threshold", Fate: kit.Honored, When: gather, Text: "`min` of the objective"},
			{Name: "overrides", Fate: kit.Honored, Text: "parameters of SchedulingThroughputPrometheus; those of DnsLookupLatency have no effect"},
			{Name: "checkProbesReadyTimeout", Fate: kit.Noted, Text: "it is a parameter of DnsLookupLatency, which is left out"},
			{Name: "replicasPerProbe", Fate: kit.Noted, Text: "it is a parameter of DnsLookupLatency, which is left out"},
		})},
		{"JobLifecycleLatency", jobLifecycle, startGather, true, slices.Concat(selectingFields(start, true), kit.Fields{
			{Name: "timeout", Fate: kit.Honored, When: gather, Text: "`within` of the wait for the jobs to complete; 10m by default"},
		})},
		{"ResourceClaimAllocationLatency", claimAllocation, startGather, true, slices.Concat(selectingFields(start, true), kit.Fields{
			{Name: "threshold", Fate: kit.Honored, When: start, Text: "`max` of the objective; 5m by default"},
			{Name: "perc50Threshold", Fate: kit.Honored, When: start, Text: "`max` of an objective on p50"},
			{Name: "perc90Threshold", Fate: kit.Honored, When: start, Text: "`max` of an objective on p90"},
			{Name: "perc99Threshold", Fate: kit.Honored, When: start, Text: "`max` of the objective on p99"},
		})},
	}
}

// selectingFields returns the parameters that select objects.
func selectingFields(when string, namespaced bool) kit.Fields {
	out := kit.Fields{{Name: "labelSelector", Fate: kit.Honored, When: when, Text: "`selector`"}}
	if namespaced {
		out = append(out, kit.Field{Name: "namespace", Fate: kit.Honored, When: when, Text: "`namespace`"})
	} else {
		out = append(out, kit.Field{Name: "namespace", Fate: kit.Noted, When: when, Text: "the objects are outside of namespaces: it has no effect"})
	}
	return append(out, kit.Field{Name: "fieldSelector", Fate: kit.Noted, When: when, Changes: true, Text: "objects are selected by labels only, not by fieldSelector"})
}

// unboundedField is the fate of enableViolations where no bound belongs to it.
func unboundedField() kit.Field {
	return kit.Field{Name: "enableViolations", Fate: kit.Noted, Usual: "false", Text: "no bound belongs to this measurement"}
}

// prometheusFields returns the parameters of a measurement by PromQL.
func prometheusFields(own kit.Fields) kit.Fields {
	return append(own,
		kit.Field{Name: "enableViolations", Fate: kit.Honored, When: gather, Text: "true: an objective; false by default"},
		kit.Field{Name: "prometheusClient", Fate: kit.Noted, Usual: "inCluster", Changes: true, Text: "a cloud's own Prometheus is not asked; the run's series answer"},
	)
}

// waitMethods returns the measurements that wait.
func waitMethods() []method {
	timeout := func(text string) kit.Field {
		return kit.Field{Name: "timeout", Fate: kit.Honored, Text: "`within`; " + text + " by default"}
	}
	interval := kit.Field{Name: "refreshInterval", Fate: kit.Noted, Text: "waits follow a watch and need no interval"}
	return []method{
		{"WaitForControlledPodsRunning", waitControlled, "start gather stop", true, slices.Concat(selectingFields(start, true), kit.Fields{
			{Name: "apiVersion", Fate: kit.Honored, When: start, Text: "`objects`"},
			{Name: "kind", Fate: kit.Honored, When: start, Text: "`objects`"},
			{Name: "operationTimeout", Fate: kit.Honored, When: start, Text: "`within`; 10m by default, and twice as long for a deletion unless CL2_WAIT_FOR_CONTROLLED_PODS_USE_EXACT_OPERATION_TIMEOUT is set"},
			{Name: "checkIfPodsAreUpdated", Fate: kit.Honored, When: start, Text: "part of `condition`"},
			{Name: "countErrorMargin", Fate: kit.Honored, When: start, Text: "part of `condition`"},
			{Name: "syncTimeout", Fate: kit.Noted, When: gather, Text: "the wait needs no informer of its own"},
		})},
		{"WaitForRunningPods", waitRunningPods, "", false, slices.Concat(selectingFields("", true), kit.Fields{
			{Name: "desiredPodCount", Fate: kit.Honored, Text: "`count`"},
			timeout("1m"), interval,
			{Name: "isFatal", Fate: kit.Honored, Text: "`onFailure: stop`"},
		})},
		{"WaitForGenericK8sObjects", waitGeneric, "", false, kit.Fields{
			{Name: "objectGroup", Fate: kit.Honored, Text: "`objects`"},
			{Name: "objectVersion", Fate: kit.Honored, Text: "`objects`"},
			{Name: "objectResource", Fate: kit.Honored, Text: "`objects`"},
			{Name: "namespaceRange", Fate: kit.Honored, Text: "`namespace`: one, or all of the scenario's"},
			{Name: "namespaceRange.min", Fate: kit.InPart, Text: "a range that is neither one namespace nor all of them has a note"},
			{Name: "namespaceRange.max", Fate: kit.InPart, Text: "a range that is neither one namespace nor all of them has a note"},
			{Name: "namespaceRange.prefix", Fate: kit.InPart, Text: "a range of other namespaces has a note"},
			{Name: "namespaceRange.allNamespaces", Fate: kit.Honored, Text: "`namespace: \"*\"`"},
			{Name: "labelSelector", Fate: kit.Honored, Text: "`selector`"},
			{Name: "successfulConditions", Fate: kit.Honored, Text: "`condition`"},
			{Name: "failedConditions", Fate: kit.InPart, Text: "objects that failed count; with maxFailedObjectCount above 0 that many of them"},
			{Name: "minDesiredObjectCount", Fate: kit.Honored, Text: "`count`"},
			{Name: "maxFailedObjectCount", Fate: kit.InPart, Text: "0: failed objects do not count; above 0: they count, and there is a note"},
			timeout("30m"), interval,
		}},
		{"WaitForFinishedJobs", waitFinishedJobs, startGather, true, slices.Concat(selectingFields(start, true), kit.Fields{
			{Name: "timeout", Fate: kit.Honored, When: gather, Text: "`within`; 10m by default"},
		})},
		{"WaitForNodes", waitNodes, "", false, slices.Concat(selectingFields("", false), kit.Fields{
			{Name: "minDesiredNodeCount", Fate: kit.Honored, Text: "`count`"},
			{Name: "maxDesiredNodeCount", Fate: kit.Refused, Text: "fewer than the simulated nodes without a selector: an error, since the wait cannot end; with a selector a note"},
			timeout("30m"), interval,
		})},
		{"WaitForBoundPVCs", waitPhase("persistentvolumeclaims", "desiredPVCCount"), "", false, slices.Concat(selectingFields("", true), kit.Fields{
			{Name: "desiredPVCCount", Fate: kit.Honored, Text: "`count`"}, timeout("1m"), interval,
		})},
		{"WaitForAvailablePVs", waitPhase("persistentvolumes", "desiredPVCount"), "", false, slices.Concat(selectingFields("", false), kit.Fields{
			{Name: "desiredPVCount", Fate: kit.Honored, Text: "`count`"},
			{Name: "provisioner", Fate: kit.Noted, Changes: true, Text: "all volumes that the labels select are counted, whatever their provisioner"},
			timeout("1m"), interval,
		})},
	}
}

// actingMethods returns the measurements that do something.
func actingMethods() []method {
	return []method{
		{"Sleep", lowerSleep, "", false, kit.Fields{{Name: "duration", Fate: kit.Honored, Text: "`pause`"}}},
		{"Exec", lowerExec, "", false, kit.Fields{
			{Name: "command", Fate: kit.Honored, Text: "`command`"},
			{Name: "name", Fate: kit.Honored, Text: "older form of `command`"},
			{Name: "args", Fate: kit.Honored, Text: "older form of `command`"},
			{Name: "timeout", Fate: kit.Honored, Text: "`timeout`; 1h by default"},
			{Name: "retries", Fate: kit.Noted, Usual: "1", Changes: true, Text: "the command runs once; it is not tried again when it fails"},
			{Name: "backoffDelay", Fate: kit.Noted, Text: "the command runs once; there is no delay before a second try"},
		}},
		{"ChaosMonkey", chaosMethod, "start stop", false, startedWith(chaosFields())},
		{"RestartApiserver", restartServer, "", false, kit.Fields{
			{Name: "downSeconds", Fate: kit.Honored, Text: "`for`; 30 by default"},
			{Name: "readyTimeout", Fate: kit.Noted, Text: "the step ends when the API server runs again"},
		}},
	}
}

// startedWith are parameters that are read with action: start.
func startedWith(fields kit.Fields) kit.Fields {
	for i := range fields {
		fields[i].When = start
	}
	return fields
}

func sortedNames(values map[string]any) []string { return slices.Sorted(maps.Keys(values)) }

// findMethod finds a measurement; its lower is nil where there is none.
func (im *importer) findMethod(name string) method {
	if im.byName == nil {
		im.byName = map[string]method{}
		for _, m := range listMethods() {
			im.byName[m.name] = m
		}
	}
	return im.byName[name]
}
