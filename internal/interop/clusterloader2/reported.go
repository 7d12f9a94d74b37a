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

// reported are measurements whose numbers are in every run, or which have no
// subject here. One note says so.
func reported() []method {
	constraints := kit.Field{Name: "resourceConstraints", Fate: kit.Noted, Changes: true, Text: "the constraints are not checked: they bound system pods, of which there are none"}
	restarts := kit.Field{Name: "enableRestartCountCheck", Fate: kit.Noted, Usual: "false", Text: "restarts are not counted: the components are not pods here, and one that dies ends the run"}
	return []method{
		report("TestMetrics", "CPU and memory of every component, their metrics and those of etcd are recorded in every run; there are no system pods whose restarts could be counted, and no profiles are taken", constraints, restarts),
		report("ResourceUsageSummary", "CPU and memory of every component are recorded in every run", constraints),
		report("EtcdMetrics", "etcd's metrics are recorded in every run"),
		report("MetricsForE2E", "the components' metrics are recorded in every run"),
		report("NodeHealthTracker", "the fleet's nodes are as healthy as the scenario says"),
		report("ClusterOOMsTracker", "simulated nodes have no processes that could run out of memory; components of the plane that die end the run"),
		report("SystemPodMetrics", "the components are not pods here; one that dies ends the run", restarts),
		report("CPUProfile", "no profiles are taken"),
		report("MemoryProfile", "no profiles are taken"),
		report("BlockProfile", "no profiles are taken"),
	}
}

// missed are measurements that cannot be taken on simulated nodes. Those that
// send a load of their own change the load by their absence.
func missed() []method {
	return []method{
		missing("ContainerRestarts", "the components are not containers here; one that dies ends the run", false),
		missing("InClusterNetworkLatency", needsPods, false),
		missing("DnsLookupLatency", needsPods, false),
		missing("InClusterAPIServerRequestLatency", needsPods, false),
		missing("DnsPropagation", needsPods, false),
		missing("NetworkProgrammingLatency", needsNetwork, false),
		missing("NodeLocalDNSLatencyPrometheus", needsNetwork, false),
		missing("MetricsServerPrometheus", needsPods, false),
		missing("KubeStateMetricsLatency", needsPods, false),
		missing("CiliumEndpointPropagationDelay", needsNetwork, false),
		missing("WindowsResourceUsagePrometheus", needsPods, false),
		missing("NegLatency", needsCloud, false),
		missing("LoadBalancerNodeSyncLatency", needsCloud, false),
		missing("ServiceCreationLatency", needsPods, false),
		missing("NetworkPolicyEnforcement", needsNetwork, true),
		missing("NetworkPerformanceMetrics", needsNetwork, true),
		missing("DNSPerformanceK8sHostnames", needsNetwork, true),
		missing("PodPeriodicCommand", needsPods, true),
		missing("ScaleNodes", needsCloud+"; the number of simulated nodes stays what it is", true),
	}
}

// anyOther stands for all parameters that the one note of a measurement is about.
func anyOther(text string, changes bool) kit.Field {
	return kit.Field{Name: "*", Fate: kit.Noted, Text: text, Changes: changes}
}

// report notes once what is measured in another way.
func report(name, text string, params ...kit.Field) method {
	return method{name: name, params: append(params, anyOther(text, false)), lower: func(_ *lowering, c call, _ int) []scenario.Step {
		c.note("%s", text)
		return nil
	}}
}

// missing notes what cannot be measured. Where the config bounds it, there is
// an objective, and it is unknown.
func missing(name, why string, load bool) method {
	return method{name: name, params: kit.Fields{anyOther(why, load)}, lower: func(l *lowering, c call, _ int) []scenario.Step {
		if load {
			c.differs("%s", why)
		} else {
			c.note("%s", why)
		}
		if c.ends() && (c.truth("enableViolations", false) || c.has("threshold")) {
			l.unsupported(c.identifier, why)
		}
		return nil
	}}
}
