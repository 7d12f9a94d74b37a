package clusterloader2

import (
	"fmt"
	"strings"

	"github.com/windtunnel/windtunnel/scenario"
)

// method is one of ClusterLoader2's measurements and what becomes of it.
type method struct {
	name string
	// lower adds groups, objectives and measures and returns what is to be
	// done; since is the mark at which the measurement was started.
	lower func(l *lowering, c call, since int) []scenario.Step
}

// methods are all that ClusterLoader2 registers, in the order of what they are about.
func methods() []method {
	return []method{
		{"PodStartupLatency", podStartup},
		{"SchedulingThroughput", schedulingThroughput},
		{"SchedulingThroughputPrometheus", schedulingPrometheus},
		{"APIResponsivenessPrometheus", apiResponsiveness},
		{"GenericPrometheusQuery", genericQuery},
		{"APIAvailability", apiAvailability},
		{"Timer", timer},
		{"PrometheusSchedulingMetrics", schedulingMetrics},
		{"SchedulingMetrics", schedulingMetrics},
		{"SLOMeasurement", sloMeasurement},

		{"WaitForControlledPodsRunning", waitControlled},
		{"WaitForRunningPods", waitRunningPods},
		{"WaitForGenericK8sObjects", waitGeneric},
		{"WaitForFinishedJobs", waitFinishedJobs},
		{"WaitForNodes", waitNodes},
		{"WaitForBoundPVCs", waitPhase("persistentvolumeclaims", "Bound", "desiredPVCCount")},
		{"WaitForAvailablePVs", waitPhase("persistentvolumes", "Available", "desiredPVCount")},

		{"Sleep", sleep},
		{"Exec", execute},
		{"ChaosMonkey", chaosMethod},
		{"RestartApiserver", restartServer},

		{"TestMetrics", report("CPU and memory of every component, their metrics and those of etcd are recorded in every run; there are no system pods whose restarts could be counted, and no profiles are taken")},
		{"ResourceUsageSummary", report("CPU and memory of every component are recorded in every run; the constraints are not read, since there are no system pods")},
		{"EtcdMetrics", report("etcd's metrics are recorded in every run")},
		{"MetricsForE2E", report("the components' metrics are recorded in every run")},
		{"NodeHealthTracker", report("the fleet's nodes are as healthy as the scenario says")},
		{"ClusterOOMsTracker", report("simulated nodes have no processes that could run out of memory; components of the plane that die end the run")},
		{"SystemPodMetrics", report("the components are not pods here; one that dies ends the run")},
		{"ContainerRestarts", missing("the components are not containers here; one that dies ends the run", false)},
		{"JobLifecycleLatency", jobLifecycle},
		{"ResourceClaimAllocationLatency", claimAllocation},
		{"CPUProfile", report("no profiles are taken")},
		{"MemoryProfile", report("no profiles are taken")},
		{"BlockProfile", report("no profiles are taken")},

		{"InClusterNetworkLatency", missing(needsPods, false)},
		{"DnsLookupLatency", missing(needsPods, false)},
		{"InClusterAPIServerRequestLatency", missing(needsPods, false)},
		{"DnsPropagation", missing(needsPods, false)},
		{"NetworkProgrammingLatency", missing(needsNetwork, false)},
		{"NodeLocalDNSLatencyPrometheus", missing(needsNetwork, false)},
		{"MetricsServerPrometheus", missing(needsPods, false)},
		{"KubeStateMetricsLatency", missing(needsPods, false)},
		{"CiliumEndpointPropagationDelay", missing(needsNetwork, false)},
		{"WindowsResourceUsagePrometheus", missing(needsPods, false)},
		{"NegLatency", missing(needsCloud, false)},
		{"LoadBalancerNodeSyncLatency", missing(needsCloud, false)},
		{"ServiceCreationLatency", missing(needsPods, false)},
		{"NetworkPolicyEnforcement", missing(needsNetwork, false)},
		{"NetworkPerformanceMetrics", missing(needsNetwork, false)},
		{"DNSPerformanceK8sHostnames", missing(needsNetwork, false)},
		{"PodPeriodicCommand", missing(needsPods, false)},
	}
}

// Why some things cannot be measured on simulated nodes.
const (
	needsPods    = "it needs pods that run, and simulated nodes pull no images"
	needsNetwork = "it needs a network between pods, and simulated nodes have none"
	needsCloud   = "it needs a cloud"
)

// calls are the uses of measurements in a step.
func (l *lowering) calls(s *step) []call {
	var out []call
	for i := range s.Measurements {
		m := &s.Measurements[i]
		c := call{method: m.Method, identifier: m.Identifier, params: m.Params, where: m.spot(), im: l.importer}
		c.field = fmt.Sprintf("measurements[%d]", i)
		if len(m.Instances) == 0 {
			out = append(out, c)
			continue
		}
		for j := range m.Instances {
			one := c
			one.identifier = m.Instances[j].Identifier
			one.params = m.Instances[j].Params.over(m.Params)
			out = append(out, one)
		}
	}
	return out
}

// measure lowers one use. What is given at the start holds at the end too.
func (l *lowering) measure(c call) []scenario.Step {
	key := c.key()
	begun, ok := l.started[key]
	if ok {
		c.params = c.params.over(begun.params)
	}
	if c.action() == "start" {
		l.started[key] = beginning{c.params, l.mark()}
	}
	for _, m := range methods() {
		if m.name == c.method {
			return m.lower(l, c, begun.mark)
		}
	}
	return nil
}

// key tells one measurement from another; a timer has several, by label.
func (c call) key() string {
	if c.method == "Timer" {
		return c.method + "/" + c.identifier + "/" + c.text("label", "")
	}
	return c.method + "/" + c.identifier
}

// action is start, gather, stop ...; empty where a method has none.
func (c call) action() string {
	a, _ := c.params.values["action"].(string)
	return a
}

// ends tells whether this is the use that gives the result.
func (c call) ends() bool { return c.action() == "gather" || c.action() == "" }

// report notes once what is measured in another way.
func report(text string) func(*lowering, call, int) []scenario.Step {
	return func(_ *lowering, c call, _ int) []scenario.Step {
		c.note("%s", text)
		return nil
	}
}

// missing notes what cannot be measured. Where the config bounds it, there is
// an objective, and it is unknown.
func missing(why string, bounded bool) func(*lowering, call, int) []scenario.Step {
	return func(l *lowering, c call, _ int) []scenario.Step {
		c.note("%s", why)
		if c.ends() && (bounded || c.truth("enableViolations", false) || c.has("threshold")) {
			l.unsupported(c.identifier, why)
		}
		return nil
	}
}

// results adds what is judged and what is measured.
type results struct {
	out   *scenario.Scenario
	spans []span
}

// unsupported adds an objective that nobody can judge here.
func (l *results) unsupported(name, why string) {
	for i := range l.out.Objectives {
		if l.out.Objectives[i].Name == name && l.out.Objectives[i].Unsupported != "" {
			return
		}
	}
	l.out.Objectives = append(l.out.Objectives, scenario.Objective{Name: name, Unsupported: why})
}

// objective adds an objective; one of a query is about the time since a mark.
func (l *results) objective(o scenario.Objective, since int) {
	name := o.Name
	for n := 2; l.clashes(o); n++ {
		o.Name = fmt.Sprintf("%s %d", name, n)
	}
	if o.Query != "" {
		l.spans = append(l.spans, span{len(l.out.Objectives), -1, since, l.mark()})
	}
	l.out.Objectives = append(l.out.Objectives, o)
}

// clashes tells whether an objective cannot be told from one before it.
func (l *results) clashes(o scenario.Objective) bool {
	for _, x := range l.out.Objectives {
		if x.Name == o.Name && x.Statistic == o.Statistic && fmt.Sprint(x.Labels) == fmt.Sprint(o.Labels) {
			return true
		}
	}
	return false
}

// measured adds a number that no bound belongs to.
func (l *results) measured(m scenario.Measure, since int) {
	name := m.Name
	for n := 2; l.hasMeasure(m.Name); n++ {
		m.Name = fmt.Sprintf("%s %d", name, n)
	}
	l.spans = append(l.spans, span{-1, len(l.out.Measures), since, l.mark()})
	l.out.Measures = append(l.out.Measures, m)
}

func (l *results) hasMeasure(name string) bool {
	for _, m := range l.out.Measures {
		if strings.EqualFold(m.Name, name) {
			return true
		}
	}
	return false
}

func bound(v float64) *float64 { return &v }
