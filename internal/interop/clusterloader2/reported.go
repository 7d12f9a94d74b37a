package clusterloader2

import (
	"github.com/windtunnel/windtunnel/internal/interop/kit"
	"github.com/windtunnel/windtunnel/scenario"
)

// Why some things cannot be measured on simulated nodes.
const (
	needsPods    = "it needs pods that run, and simulated nodes pull no images"
	needsNetwork = "it needs a network between pods, and simulated nodes have none"
	needsCloud   = "it needs a cloud"
)

// reportedMethods returns measurements whose numbers are in every run, or which have no
// subject here. One note says so.
func reportedMethods() []method {
	constraints := kit.Field{Name: "resourceConstraints", Fate: kit.Noted, Changes: true, Text: "the constraints are not checked: they bound system pods, of which there are none"}
	restarts := kit.Field{Name: "enableRestartCountCheck", Fate: kit.Noted, Usual: "false", Text: "restarts are not counted: the components are not pods here, and one that dies ends the run"}
	return []method{
		reportElsewhere("TestMetrics", "CPU and memory of every component, their metrics and those of etcd are recorded in every run; there are no system pods whose restarts could be counted, and no profiles are taken", constraints, restarts),
		reportElsewhere("ResourceUsageSummary", "CPU and memory of every component are recorded in every run", constraints),
		reportElsewhere("EtcdMetrics", "etcd's metrics are recorded in every run"),
		reportElsewhere("MetricsForE2E", "the components' metrics are recorded in every run"),
		reportElsewhere("NodeHealthTracker", "the fleet's nodes are as healthy as the scenario says"),
		reportElsewhere("ClusterOOMsTracker", "simulated nodes have no processes that could run out of memory; components of the plane that die end the run"),
		reportElsewhere("SystemPodMetrics", "the components are not pods here; one that dies ends the run", restarts),
		reportElsewhere("CPUProfile", "no profiles are taken"),
		reportElsewhere("MemoryProfile", "no profiles are taken"),
		reportElsewhere("BlockProfile", "no profiles are taken"),
	}
}

// missedMethods returns measurements that cannot be taken on simulated nodes. Those that
// send a load of their own change the load by their absence.
func missedMethods() []method {
	return []method{
		notMeasured("ContainerRestarts", "the components are not containers here; one that dies ends the run", false),
		notMeasured("InClusterNetworkLatency", needsPods, false),
		notMeasured("DnsLookupLatency", needsPods, false),
		notMeasured("InClusterAPIServerRequestLatency", needsPods, false),
		notMeasured("DnsPropagation", needsPods, false),
		notMeasured("NetworkProgrammingLatency", needsNetwork, false),
		notMeasured("NodeLocalDNSLatencyPrometheus", needsNetwork, false),
		notMeasured("MetricsServerPrometheus", needsPods, false),
		notMeasured("KubeStateMetricsLatency", needsPods, false),
		notMeasured("CiliumEndpointPropagationDelay", needsNetwork, false),
		notMeasured("WindowsResourceUsagePrometheus", needsPods, false),
		notMeasured("NegLatency", needsCloud, false),
		notMeasured("LoadBalancerNodeSyncLatency", needsCloud, false),
		notMeasured("ServiceCreationLatency", needsPods, false),
		notMeasured("NetworkPolicyEnforcement", needsNetwork, true),
		notMeasured("NetworkPerformanceMetrics", needsNetwork, true),
		notMeasured("DNSPerformanceK8sHostnames", needsNetwork, true),
		notMeasured("PodPeriodicCommand", needsPods, true),
		notMeasured("ScaleNodes", needsCloud+"; the number of simulated nodes stays what it is", true),
	}
}

// anyOther stands for all parameters that the one note of a measurement is about.
func anyOther(text string, changes bool) kit.Field {
	return kit.Field{Name: "*", Fate: kit.Noted, Text: text, Changes: changes}
}

// reportElsewhere notes once what is measured in another way.
func reportElsewhere(name, text string, params ...kit.Field) method {
	return method{name: name, params: append(params, anyOther(text, false)), lower: func(_ *lowering, c call, _ int) []scenario.Step {
		c.addNote("%s", text)
		return nil
	}}
}

// notMeasured notes what cannot be measured. Where the config bounds it, there is
// an objective, and it is unknown.
func notMeasured(name, why string, load bool) method {
	return method{name: name, params: kit.Fields{anyOther(why, load)}, lower: func(l *lowering, c call, _ int) []scenario.Step {
		if load {
			c.noteDifference("%s", why)
		} else {
			c.addNote("%s", why)
		}
		if c.givesResult() && (c.readTruth("enableViolations", false) || c.has("threshold")) {
			l.addUnsupported(c.identifier, why)
		}
		return nil
	}}
}
