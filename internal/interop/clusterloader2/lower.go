package clusterloader2

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/config"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// lowering makes the steps and objectives of a scenario from those of a config.
type lowering struct {
	*importer
	*bodies
	*results
	c       *config.Config
	out     *scenario.Scenario
	taken   map[string]bool // names of steps
	number  int             // of the config's step under way, from 1
	plan    plan
	cohorts map[string]*cohort
	counts  map[string]int // of objects that phases asked for last, by the key of their part
	known   []*cohort      // in the order of their creation, those that are gone too
	started map[string]beginning
	demand  demand
	nodes   nodes
}

// beginning is a measurement that was started.
type beginning struct {
	params config.Params
	mark   int
	paused bool
}

// span resolves, when all steps are known, between which of them something is
// measured: marks are numbers of steps.
type span struct {
	objective, measure int // index of the one that it belongs to; the other is -1
	from, through      int
}

// lowerConfig makes the scenario.
func (im *importer) lowerConfig(c *config.Config) *scenario.Scenario {
	s := scenario.Default()
	l := &lowering{importer: im, bodies: &bodies{im, &s, map[string]*objectTemplate{}}, results: &results{out: &s}, c: c, out: &s,
		taken: map[string]bool{}, cohorts: map[string]*cohort{}, counts: map[string]int{}, started: map[string]beginning{}}
	l.nodes.Fixed = l.givenLabels()
	l.fillHead()
	surveyor{l}.surveyConfig()
	if len(im.faults.list) > 0 {
		return nil
	}
	for i := range c.Steps {
		l.number = i + 1
		l.lowerStep(&c.Steps[i])
		l.demand.addPods(l.cohorts, im.options.Nodes)
	}
	l.fillTail()
	if len(im.faults.list) == 0 && len(s.Steps) == 0 {
		im.faults.addAt(c.Position(), "steps: nothing in it can be done here: no objects are made and nothing is waited for")
	}
	return &s
}

// fillHead fills what does not come from steps.
func (l *lowering) fillHead() {
	s, n := l.out, &l.c.Namespace
	s.Name = dnsLabel(l.c.Name)
	if l.suffix != "" {
		s.Name = dnsLabel(l.c.Name + "-" + l.suffix)
	}
	s.Description = "What " + l.name + " does in ClusterLoader2."
	s.Seed = l.seedOf()
	s.Bodies = map[string]scenario.Body{}
	s.Fleet.Nodes = l.options.Nodes
	s.Namespaces.Prefix, s.Namespaces.Count = cmp.Or(n.Prefix, l.namespacePrefix(s.Name)), countNamespaces(l.c)
	l.lowerChaos()
}

// countNamespaces is how many the run makes: 1 when the number is 0 or not given.
// The older field counts only beside a number of 1, as in ClusterLoader2.
func countNamespaces(c *config.Config) int {
	if n := max(1, c.Namespace.Number); n > 1 {
		return n
	}
	return max(1, c.AutomanagedNamespaces)
}

// lowerChaos turns the config's node failures into a fault of the fleet's nodes.
func (l *lowering) lowerChaos() {
	f := l.c.ChaosMonkey.NodeFailure
	if f == nil {
		return
	}
	if f.FailureRate <= 0 || f.Interval <= 0 || f.SimulatedDowntime <= 0 {
		l.faults.addAt(f.Position(), "chaosMonkey.nodeFailure: failureRate, interval and simulatedDowntime above 0 are needed")
		return
	}
	l.addNote(f.Position(), "chaosMonkey.nodeFailure", failuresDiffer)
	l.emitSteps("node failures", []scenario.Step{{Fault: nodeFailures(l.options.Nodes, *f)}})
}

// failuresDiffer says how node failures are not those of ClusterLoader2.
const failuresDiffer = "each node fails at random times of its own, as often on average; ClusterLoader2 fails a whole share at once, and each node once only"

// nodeFailures is a share of all nodes that fails every interval. ClusterLoader2
// rounds the share up to whole nodes, adds a random part of up to the jitter
// factor to the interval, and begins the next interval when the nodes are back.
func nodeFailures(nodes int, f config.NodeFailure) *scenario.Disturbance {
	all := float64(max(1, nodes))
	failing := min(all, math.Ceil(f.FailureRate*all))
	period := float64(f.Interval)*(1+max(0, f.JitterFactor)/2) + float64(f.SimulatedDowntime)
	return &scenario.Disturbance{
		Nodes: &scenario.Victims{Percent: 100}, Action: "flap", // between is the time that a node is up
		Between: unit.Duration(math.Round(period*all/failing - float64(f.SimulatedDowntime))), Down: unit.Duration(f.SimulatedDowntime),
	}
}

// lowerStep lowers one step: its phases, or its measurements.
func (l *lowering) lowerStep(s *config.Step) {
	name := s.Name
	if name == "" {
		name = fmt.Sprintf("step %d", l.number)
	}
	children := reconciler{l}.phaseSteps(s)
	for _, c := range l.callsOf(s) {
		for _, child := range l.lowerMeasurement(c) {
			if !slices.ContainsFunc(children, func(o scenario.Step) bool { return o.Wait != nil && reflect.DeepEqual(o.Wait, child.Wait) }) {
				children = append(children, child)
			}
		}
	}
	l.emitSteps(name, children)
}

// emitSteps adds what one step of the config does, at the same time when it is several things.
func (l *lowering) emitSteps(name string, children []scenario.Step) {
	base := cmp.Or(dnsLabel(name), "step")
	for i := range children {
		children[i].OnFailure = cmp.Or(children[i].OnFailure, "continue")
	}
	switch len(children) {
	case 0:
	case 1:
		l.renameStep(&children[0], base)
		l.out.Steps = append(l.out.Steps, children[0])
	default:
		all := scenario.Step{Name: l.uniqueName(base), OnFailure: "continue"}
		for i := range children {
			l.renameStep(&children[i], cmp.Or(dnsLabel(children[i].Name), base))
			if children[i].OnFailure == "stop" {
				all.OnFailure = "stop"
			}
		}
		all.Parallel = children
		l.out.Steps = append(l.out.Steps, all)
	}
}

// renameStep gives a step its final name; a cohort made by it learns of that.
func (l *lowering) renameStep(s *scenario.Step, base string) {
	s.Name = l.uniqueName(base)
	for _, c := range l.known {
		if c.create == s.Create {
			c.step = s.Name
		}
	}
}

func (l *lowering) uniqueName(base string) string {
	name := base
	for n := 2; l.taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	l.taken[name] = true
	return name
}

// nextStep is the number of the next step.
func (l *results) nextStep() int { return len(l.out.Steps) }

// fillTail fills what depends on all steps.
func (l *lowering) fillTail() {
	steps := l.out.Steps
	for _, s := range l.spans {
		since, until := "", ""
		if s.from < len(steps) {
			since = steps[s.from].Name
		}
		if s.through > s.from && s.through <= len(steps) {
			until = steps[s.through-1].Name
		}
		if s.objective >= 0 {
			o := &l.out.Objectives[s.objective]
			o.Since, o.Until = since, until
		} else {
			m := &l.out.Measures[s.measure]
			m.Since, m.Until = since, until
		}
	}
	l.demand.fitNodes(&l.out.Fleet)
	l.labelNodes()
	if slices.ContainsFunc(l.known, func(c *cohort) bool {
		return slices.ContainsFunc(c.items, func(i item) bool { return i.sample.volumes })
	}) {
		l.out.Fleet.Stages = []string{"fast", "volumes"}
	}
}

// demand is the most that pods ask of one node, were they spread evenly.
type demand struct{ pods, cpu, memory float64 }

func (d *demand) addPods(cohorts map[string]*cohort, nodes int) {
	var now demand
	for _, c := range cohorts {
		for _, i := range c.items {
			n := float64(c.each*c.scope.countNamespaces()) * float64(i.sample.pods)
			if i.sample.everyNode {
				n = float64(c.each * c.scope.countNamespaces() * nodes)
			}
			now.pods, now.cpu, now.memory = now.pods+n, now.cpu+n*i.sample.cpu, now.memory+n*i.sample.memory
		}
	}
	n := float64(max(1, nodes))
	d.pods, d.cpu, d.memory = max(d.pods, now.pods/n), max(d.cpu, now.cpu/n), max(d.memory, now.memory/n)
}

// fitNodes gives nodes room for twice what there will be, if the usual is less: a
// test of a control plane is not to end because a node is full.
func (d *demand) fitNodes(f *scenario.Fleet) {
	if pods := int(math.Ceil(2 * d.pods)); pods > 110 {
		f.Capacity["pods"] = fmt.Sprint(pods)
	}
	if cpu := int(math.Ceil(2 * d.cpu)); cpu > 32 {
		f.Capacity["cpu"] = fmt.Sprint(cpu)
	}
	if gi := int(math.Ceil(2 * d.memory / (1 << 30))); gi > 256 {
		f.Capacity["memory"] = fmt.Sprintf("%dGi", gi)
	}
}

// namespacePrefix begins the names of the test's own namespaces, which ClusterLoader2 makes up:
// a name that no range means by its own basename.
func (l *lowering) namespacePrefix(name string) string {
	for _, s := range l.c.Steps {
		for _, p := range s.Phases {
			if r := p.NamespaceRange; r != nil && r.Basename != nil && *r.Basename == name {
				return "test-" + name
			}
		}
	}
	return name
}
