// Package scenario is the language of windtunnel: the types of a scenario
// file, its strict decoding, its parameters and its validation.
//
// It does nothing: it says what a run is to do. Package flight flies it.
package scenario

import (
	"iter"
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
	Members     []Members       `yaml:"members"` // clusters beside the plane, for subjects and steps that are about many
	Namespaces  Namespaces      `yaml:"namespaces"`
	Preflight   Preflight       `yaml:"preflight"`
	Groups      []Group         `yaml:"groups"`      // pods by selector; pods with the label windtunnel.dev/group need none
	Lifecycles  []Lifecycle     `yaml:"lifecycles"`  // objects of any resource whose phases are recorded, beside the pods'
	Bodies      map[string]Body `yaml:"bodies"`      // name -> what is created
	Steps       []Step          `yaml:"steps"`       // what is done, one after another
	Objectives  []Objective     `yaml:"objectives"`  // what is judged
	AbortOn     *AbortOn        `yaml:"abortOn"`     // when the run is ended early, as failed
	FailedCalls string          `yaml:"failedCalls"` // calls of the load that fail for good, after retries, with a code that their step does not expect: fail (default), the run fails; or ignore
	Measures    []Measure       `yaml:"measures"`    // what is measured besides, and not judged
	Charts      []Chart         `yaml:"charts"`      // what the report draws over time besides
	Map         []MapValue      `yaml:"map"`         // what the report's map says of each member besides
	Published   []Published     `yaml:"published"`   // figures of others, shown beside the measured ones

	Fragments map[string]string `yaml:"fragments" expr:"raw"` // texts of the files that include names: windtunnel writes them into the scenario that a run directory keeps

	File   string         `yaml:"-"` // the path that it was read from; other paths are relative to its folder
	Values map[string]any `yaml:"-"` // parameters in force: bool, int64, float64 or string

	Warnings []string `yaml:"-"` // of Load and Parse, "FILE:LINE: TEXT": words that have other names since

	lines     map[string]int // where each value stands, for Validate
	fragments []fragment     // which of these lines are of included files
}

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

// Plane says what control plane to fly.
type Plane struct {
	Durability string               `yaml:"durability"` // "memory" (default: no fsync, tmpfs where there is room) or "fsync"
	Release    string               `yaml:"release"`    // of Kubernetes, such as v1.36.3: "windtunnel plane build" makes it; default: that of kube-plane beside windtunnel
	Etcd       string               `yaml:"etcd"`       // release of etcd, such as v3.6.12; default: the one that "windtunnel plane build" takes for the release
	Binaries   string               `yaml:"binaries"`   // folder of the user's own etcd, kube-apiserver ...; relative to the file
	Limits     Limits               `yaml:"limits"`     // of all components together, by a control group around those of each; on a plane that windtunnel starts
	Components map[string]Component `yaml:"components"` // by name: etcd, kube-apiserver, kube-scheduler, kube-controller-manager
}

// Component changes one component of the plane.
type Component struct {
	Flags  map[string]string `yaml:"flags"`  // without dashes; they win over windtunnel's own
	Env    map[string]string `yaml:"env"`    // such as GOGC
	CPU    float64           `yaml:"cpu"`    // cores, 0 = no limit
	Memory unit.Bytes        `yaml:"memory"` // 0 = no limit
}

// Fleet says what nodes to simulate.
type Fleet struct {
	Nodes          int               `yaml:"nodes"`          // how many, default 0
	Lease          unit.Duration     `yaml:"lease"`          // lease duration, default 40s; renewed every quarter of it; 0s = no leases
	Status         unit.Duration     `yaml:"status"`         // how often each node posts its conditions beside the leases; default: as the stages say, 10m in fast
	Rate           float64           `yaml:"rate"`           // nodes created per second, default 200
	Capacity       map[string]string `yaml:"capacity"`       // default cpu 32, memory 256Gi, pods 110
	Labels         map[string]string `yaml:"labels"`         // on every node
	Spread         map[string]int    `yaml:"spread"`         // labels with so many values, in turn: topology.kubernetes.io/zone: 3 gives zone-0, zone-1, zone-2
	Stages         []string          `yaml:"stages"`         // what happens to nodes, pods and other objects: built-in sets (fast, general, chaos, volumes, deployments) and files of kwok Stages, relative to the scenario; default fast
	StorageClasses []string          `yaml:"storageClasses"` // claims on these classes are bound as well: the set volumes, which must be among stages, binds those on its own class, windtunnel, which is the default class
	Traffic        string            `yaml:"traffic"`        // what nodes ask of the API server: minimal (default) or kubelet (reads, events and tokens as well)
	Connections    int               `yaml:"connections"`    // maximum number of connections shared by all nodes; default 64, each opened when the others are full
	Within         unit.Duration     `yaml:"within"`         // all nodes schedulable, default 5m
	Taint          string            `yaml:"taint"`          // of nodes in a cluster that is not the run's own: fleet (default), only pods of the run go to them, and nowhere else; or none
}

// TaintNone leaves simulated nodes open to every pod of the cluster.
const TaintNone = "none"

// Namespaces are made before the first step and deleted at the end.
type Namespaces struct {
	Prefix string `yaml:"prefix"` // PREFIX-1, PREFIX-2 ...; default: the scenario's name
	Count  int    `yaml:"count"`  // default 1
}

// Preflight says what is done when the plane is not clean before the first step:
// objects of an earlier run, objects that are terminating, work queues that are
// not empty, memory and creations not as they were before the first run on the
// cluster, a machine that others use. The run directory says what was found.
type Preflight struct {
	Wait     unit.Duration `yaml:"wait"`     // how long the plane may take to become clean; default 1s for a plane of the run's own, 30s if it has subjects, 2m for another
	Dirty    string        `yaml:"dirty"`    // what is done then: tag (default), the run says so; or stop, it is not flown
	Tolerate []string      `yaml:"tolerate"` // what is not held against the plane, here and by settle: leftover, terminating, queue, retries, cpu, heap, store, probe-write, host, unread
}

// Objective is a bound on an SLI, or the official Kubernetes SLOs in one word.
type Objective struct {
	Name      string            `yaml:"name"`      // in the verdict; default: what it bounds
	SLO       string            `yaml:"slo"`       // "kubernetes": the official ones; the fields below but pods then stay empty
	Pods      []string          `yaml:"pods"`      // groups whose startup is judged; default all
	SLI       string            `yaml:"sli"`       // pod-startup, lifecycle, call-latency, server-latency, etcd-fsync ...: docs/reference/slis.md
	Labels    map[string]string `yaml:"labels"`    // group, phase, verb, resource ...
	Per       []string          `yaml:"per"`       // labels of the SLI: one result for each of their values, such as [verb, resource]
	Step      string            `yaml:"step"`      // judged is the time of this step alone, and of calls those that it sent; not for slo and what is made of lifecycles
	Statistic string            `yaml:"statistic"` // p50, p90, p99, p99.9, max, mean, rate, sum; which ones says docs/reference/slis.md
	Max       *float64          `yaml:"max"`       // a number of the SLI's unit (seconds, 1/s ...), or with one of the same kind: 500ms, 50/s, 512Mi, 5%
	Min       *float64          `yaml:"min"`       // in place of max

	Query       string `yaml:"query"`       // in place of sli: PromQL over the series of the run; each series of the answer is judged. %v in it is the time from since to until
	Unit        string `yaml:"unit"`        // with query: of its values: seconds, bytes ...
	Since       string `yaml:"since"`       // with query: a step; from its start; default: from the start of the run
	Until       string `yaml:"until"`       // with query: a step; asked at its end; default: the run's
	Unsupported string `yaml:"unsupported"` // why this cannot be measured here; nothing else but name is needed. The verdict is unknown
	Line        int    `yaml:"-"`
}

// AbortOn says when a run is ended before its time: it has failed then, what it
// made is taken away, and what there is of it is judged. Any of the fields is
// enough.
type AbortOn struct {
	FailedCalls int           `yaml:"failedCalls"` // so many calls of the load failed for good, or had no answer, with a code that their step does not expect
	P99         unit.Duration `yaml:"p99"`         // the calls of the step under way take longer than this, by their 99th percentile so far
	For         unit.Duration `yaml:"for"`         // p99: it does so for this long, default 10s
}

// Measure is a named number of the run that no bound belongs to: the answer of
// a query, or without one the seconds from the begin of since to the end of
// until.
type Measure struct {
	Name   string `yaml:"name"`   // in the verdict's measures; of a query with several series, with their labels
	Query  string `yaml:"query"`  // PromQL, as in objectives
	Unit   string `yaml:"unit"`   // of the query's values
	Since  string `yaml:"since"`  // a step; default: the run's begin
	Until  string `yaml:"until"`  // a step; default: the run's end
	Better string `yaml:"better"` // which way is better: comparisons then judge it; default: they show it, as a count

	Optional bool `yaml:"optional"` // a query without an answer leaves the verdict as it is; default: the verdict is unknown then
}

// Chart is a picture of a query's values over the run: a line for each series of the
// answer, named by its labels, twelve at most.
type Chart struct {
	Name    string `yaml:"name"`    // its title
	Query   string `yaml:"query"`   // PromQL over the series of the run, evaluated at up to 240 times
	Unit    string `yaml:"unit"`    // of the query's values
	Stacked bool   `yaml:"stacked"` // areas on top of each other, of parts that make up a whole; of more than twelve the smallest are one, their sum
}

// MapValue is what the report's map of clusters says of each member: the largest value
// of a query over the run, of the series whose label member or cluster is its name.
type MapValue struct {
	Name  string `yaml:"name"`  // what stands before it
	Query string `yaml:"query"` // PromQL over the series of the run
	Unit  string `yaml:"unit"`  // of the query's values
}

// Published is a figure of a report that the scenario reproduces; it is shown
// beside the measured one (rule of measurement 7), if its condition holds: a value
// beside that of a run, a change beside that of a comparison.
type Published struct {
	Measure     string   `yaml:"measure"`     // key in verdict.json's measures
	Value       float64  `yaml:"value"`       // as it was published
	Change      *float64 `yaml:"change"`      // in place of value: by how much it differs between two sides, of which from holds for one and to for the other: -50%, half as much with to
	Unit        string   `yaml:"unit"`        // of value: seconds, 1/s ...
	When        Holds    `yaml:"when"`        // for which parameters it was published; default: for all
	From        Holds    `yaml:"from"`        // with change: the side that it is a share of
	To          Holds    `yaml:"to"`          // with change: the side that differs by it
	Source      string   `yaml:"source"`      // where it was published
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
