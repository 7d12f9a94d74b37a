// Package scenario is the language of windtunnel: the types of a scenario
// file, its strict decoding, its parameters and its validation.
//
// It does nothing: it says what a run is to do. Package flight flies it.
package scenario

import (
	"iter"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/unit"
)

// Scenario is a whole file.
type Scenario struct {
	Name        string          `yaml:"scenario"`           // short, a DNS label: it names the run directory
	Description string          `yaml:"description"`        // for people
	Seed        uint64          `yaml:"seed"`               // source of all randomness; default 1
	Parameters  Parameters      `yaml:"parameters"`         // name -> default; its type is the parameter's type
	Include     []string        `yaml:"include" expr:"raw"` // files whose bodies, lifecycles, objectives, measures, charts, map and published are this scenario's too; each path from the file that names it, none out of the scenario's folder
	Plane       Plane           `yaml:"plane"`
	CRDs        []string        `yaml:"crds"`      // files of CustomResourceDefinitions, applied and waited for before anything else, removed at the end; relative to the file
	Manifests   []string        `yaml:"manifests"` // files of any objects, several documents each, applied after all definitions; relative to the file
	Subjects    []Subject       `yaml:"subjects"`  // programs that run on the plane and are tested with it
	Fleet       Fleet           `yaml:"fleet"`
	Members     []Members       `yaml:"members"` // clusters beside the plane, for subjects and steps that use many clusters
	Namespaces  Namespaces      `yaml:"namespaces"`
	Preflight   Preflight       `yaml:"preflight"`
	Groups      []Group         `yaml:"groups"`      // groups of pods by selector; not needed for pods with the label windtunnel.dev/group
	Lifecycles  []Lifecycle     `yaml:"lifecycles"`  // phases to record of objects other than pods
	Bodies      map[string]Body `yaml:"bodies"`      // name -> template of an object
	Steps       []Step          `yaml:"steps"`       // actions, one after another
	Objectives  []Objective     `yaml:"objectives"`  // bounds that are judged
	AbortOn     *AbortOn        `yaml:"abortOn"`     // conditions that end the run early, as failed
	FailedCalls string          `yaml:"failedCalls"` // what a request means that fails after its retries with a code that its step does not expect: fail (default: the run fails) or ignore
	Measures    []Measure       `yaml:"measures"`    // further measures, which are not judged
	Charts      []Chart         `yaml:"charts"`      // further charts of the report
	Map         []MapValue      `yaml:"map"`         // further values for each member on the report's map
	Published   []Published     `yaml:"published"`   // published figures, shown beside the measured ones

	Fragments map[string]string `yaml:"fragments" expr:"raw"` // texts of the files that include names: windtunnel writes them into the scenario that a run directory keeps

	File   string         `yaml:"-"` // the path that it was read from; other paths are relative to its folder
	Values map[string]any `yaml:"-"` // parameters in force: bool, int64, float64 or string

	Warnings []string `yaml:"-"` // of Load and Parse, "FILE:LINE: TEXT": words that have other names since, an even number of etcd members

	reading
}

// reading is what the file of a scenario says besides its values.
type reading struct {
	lines     map[string]int // where each value stands, for Validate
	fragments []fragment     // which of these lines are of included files
	unused    []string       // parameters that no expression names
	leftOut   []string       // what has a condition (when) that does not hold
}

// LeftOut returns what has a condition (when) that does not hold, such as "step warm-up".
func (s *Scenario) LeftOut() []string { return s.leftOut }

// AllSteps yields every step in the order of the file, those that hold others
// before what they hold.
func (s *Scenario) AllSteps() iter.Seq[*Step] {
	whole := Step{Sequence: s.Steps}
	return func(yield func(*Step) bool) {
		for step := range whole.All() {
			if step != &whole && !yield(step) {
				return
			}
		}
	}
}

// Fleet describes the simulated nodes.
type Fleet struct {
	Nodes          int               `yaml:"nodes"`          // how many, default 0
	Lease          unit.Duration     `yaml:"lease"`          // lease duration, default 40s; renewed every quarter of it; 0s = no leases
	Status         unit.Duration     `yaml:"status"`         // interval of status updates of each node; default: that of the stages, 10m in fast
	Rate           float64           `yaml:"rate"`           // nodes created per second, default 200
	Capacity       map[string]string `yaml:"capacity"`       // default cpu 32, memory 256Gi, pods 110
	Labels         map[string]string `yaml:"labels"`         // on every node
	Spread         map[string]int    `yaml:"spread"`         // labels with a number of values, round-robin: topology.kubernetes.io/zone: 3 gives zone-0, zone-1, zone-2
	Stages         []string          `yaml:"stages"`         // what happens to nodes, pods and other objects: built-in sets (fast, general, chaos, volumes, deployments) and files of kwok Stages, relative to the scenario; default fast; without nodes nothing of it happens
	StorageClasses []string          `yaml:"storageClasses"` // claims on these classes are bound as well: the set volumes, which must be among stages, binds those on its own class, windtunnel, which is the default class
	Traffic        string            `yaml:"traffic"`        // requests of nodes to the API server: minimal (default) or kubelet (also reads, events and tokens)
	Connections    int               `yaml:"connections"`    // maximum number of connections shared by all nodes; default 64, each opened when the others are full
	Within         unit.Duration     `yaml:"within"`         // timeout until all nodes are schedulable, default 5m
	Taint          string            `yaml:"taint"`          // taint of nodes in an existing cluster: fleet (default; pods of the run are scheduled only to these nodes, other pods never) or none
}

// TaintNone leaves simulated nodes open to every pod of the cluster.
const TaintNone = "none"

// Namespaces are created before the first step and deleted at the end.
type Namespaces struct {
	Prefix string `yaml:"prefix"` // PREFIX-1, PREFIX-2 ...; default: the scenario's name
	Count  int    `yaml:"count"`  // default 1
}

// Preflight says what happens if the plane is not clean before the first step: objects
// of an earlier run, terminating objects, work queues with items, memory and creation
// times above those before the first run on the cluster, other processes on the
// machine. The run directory has the findings.
type Preflight struct {
	Wait     unit.Duration `yaml:"wait"`     // timeout until the plane is clean; default 1s for a plane that windtunnel starts, 30s with subjects, 2m for an existing cluster
	Dirty    string        `yaml:"dirty"`    // what happens after that: tag (default; the run says so) or stop (no run)
	Tolerate []string      `yaml:"tolerate"` // findings to ignore, here and in settle: leftover, terminating, queue, retries, cpu, heap, store, probe-write, host, unread
}

// Objective is a bound on an SLI, or the official Kubernetes SLOs in one word.
type Objective struct {
	Name      string            `yaml:"name"`      // name in the verdict; default: what it bounds
	SLO       string            `yaml:"slo"`       // kubernetes: the official SLOs; of the fields below only pods may be set
	Pods      []string          `yaml:"pods"`      // groups of pods whose startup is judged; default all
	SLI       string            `yaml:"sli"`       // pod-startup, lifecycle, call-latency, server-latency, etcd-fsync ...: docs/reference/slis.md
	Labels    map[string]string `yaml:"labels"`    // group, phase, verb, resource ...
	Per       []string          `yaml:"per"`       // labels of the SLI: one result for each of their values, such as [verb, resource]
	Step      string            `yaml:"step"`      // judge only the time of this step and the requests that it sent; not with slo or lifecycles
	Statistic string            `yaml:"statistic"` // p50, p90, p99, p99.9, max, mean, rate, sum; which ones says docs/reference/slis.md
	Max       *float64          `yaml:"max"`       // upper bound in the SLI's unit (seconds, 1/s ...), or with a unit: 500ms, 50/s, 512Mi, 5%
	Min       *float64          `yaml:"min"`       // lower bound, instead of max

	Query       string `yaml:"query"`       // instead of sli: PromQL over the series of the run; each series of the answer is judged. %v is the time from since to until
	Measure     string `yaml:"measure"`     // instead of sli and query: name of one of measures; its query is judged, over the same time
	Unit        string `yaml:"unit"`        // with query: unit of its values: seconds, bytes ...
	Since       string `yaml:"since"`       // with query: start of this step; default: start of the run
	Until       string `yaml:"until"`       // with query: end of this step, when the counters are read; default: end of the run
	Unsupported string `yaml:"unsupported"` // the reason why this cannot be measured; only name is needed besides. The verdict is unknown
	When        Asked  `yaml:"when"`        // condition on the parameters: the objective is left out unless it holds; default: always
	Line        int    `yaml:"-"`
}

// AbortOn ends a run early: the run has failed, its objects are deleted, and the rest
// is judged. One condition is enough.
type AbortOn struct {
	FailedCalls int           `yaml:"failedCalls"` // number of requests of the load that failed after retries, or had no answer, with a code that their step does not expect
	P99         unit.Duration `yaml:"p99"`         // 99th percentile so far of the requests of the current step
	For         unit.Duration `yaml:"for"`         // with p99: how long it must be exceeded, default 10s
}

// Measure is a named number without a bound: the answer of a query, or without one the
// seconds from the start of since to the end of until.
type Measure struct {
	Name   string `yaml:"name"`   // name in the verdict's measures; series of a query add their labels
	Query  string `yaml:"query"`  // PromQL, as in objectives
	Unit   string `yaml:"unit"`   // unit of the query's values
	Since  string `yaml:"since"`  // a step; default: start of the run
	Until  string `yaml:"until"`  // a step; default: end of the run
	Better string `yaml:"better"` // lower or higher is better: comparisons judge the measure; default: they show it as a count

	When Asked `yaml:"when"` // condition on the parameters: the measure is left out unless it holds; default: always

	Optional bool `yaml:"optional"` // a query without an answer does not change the verdict; default: the verdict is unknown
}

// AsksOf tells whether a query is asked of a step: from its begin, until its end, or both.
func (s *Scenario) AsksOf(step string) bool {
	named := func(query string, steps ...string) bool { return query != "" && slices.Contains(steps, step) }
	return step != "" && (slices.ContainsFunc(s.Objectives, func(o Objective) bool { return named(o.Query, o.Step, o.Since, o.Until) }) ||
		slices.ContainsFunc(s.Measures, func(m Measure) bool { return named(m.Query, m.Since, m.Until) }))
}

// Chart draws the values of a query over the run: one line for each series of the
// answer, named by its labels, at most twelve.
type Chart struct {
	Name    string `yaml:"name"`    // its title
	Query   string `yaml:"query"`   // PromQL over the series of the run, evaluated at up to 240 times
	Unit    string `yaml:"unit"`    // unit of the query's values
	Stacked bool   `yaml:"stacked"` // stacked areas, for parts of a whole; of more than twelve series the smallest are summed
}

// MapValue is a value for each member on the report's map of clusters: the maximum of
// a query over the run, of the series whose label member or cluster is its name.
type MapValue struct {
	Name  string `yaml:"name"`  // its label
	Query string `yaml:"query"` // PromQL over the series of the run
	Unit  string `yaml:"unit"`  // unit of the query's values
}

// Published is a figure of a report, shown beside the measured one (rule of
// measurement 7) if its condition holds: a value beside that of a run, a change beside
// that of a comparison.
type Published struct {
	Measure     string   `yaml:"measure"`     // key in the measures of verdict.json
	Value       float64  `yaml:"value"`       // the published value
	Change      *float64 `yaml:"change"`      // instead of value: the published difference between a side for which from holds and one for which to holds: -50% means half with to
	Unit        string   `yaml:"unit"`        // unit of value: seconds, 1/s ...
	When        Holds    `yaml:"when"`        // condition on the parameters; default: always
	From        Holds    `yaml:"from"`        // with change: the side that is 100 %
	To          Holds    `yaml:"to"`          // with change: the side that differs
	Source      string   `yaml:"source"`      // the publication
	Differences string   `yaml:"differences"` // hardware, scale ...
}

func (p *Published) setDefaults() { p.When = true }

// ChangeBetween returns the change from side a to side b of a comparison, where p is
// the figure of a and q the same one of b. The one that was published in the other
// direction is turned round. False: it was not published of these two.
func (p Published) ChangeBetween(q Published) (change float64, ok bool) {
	switch {
	case p.Change == nil || !bool(p.When && q.When):
		return 0, false
	case bool(p.From && q.To):
		return *p.Change, true
	case bool(p.To && q.From) && *p.Change > -1:
		return 1/(1+*p.Change) - 1, true
	}
	return 0, false
}

// Holds says whether a condition holds for the parameters in force. In a file it is
// an expression (CEL) over the parameters, such as apps == 3000 && profile == "v18".
type Holds bool

// Defaults of the language.
const (
	DefaultSeed         = 1
	DefaultLease        = 40 * time.Second
	DefaultNodeRate     = 200.0
	DefaultFleetWithin  = 5 * time.Minute
	DefaultCallTimeout  = 30 * time.Second
	DefaultWaitWithin   = 10 * time.Minute
	DefaultAbortFor     = 10 * time.Second
	DefaultExecTimeout  = 10 * time.Minute
	DefaultSettleWithin = 10 * time.Minute
	DefaultRetryDelay   = time.Second
	DefaultHold         = time.Minute
)
