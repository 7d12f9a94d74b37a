// Package scenario is the language of windtunnel: the types of a scenario
// file, its strict decoding, its parameters and its validation.
//
// It does nothing: package experiment runs a scenario. The types of its parts
// are the configurations of the packages that they are handed to (plane,
// fleet, load, slo).
package scenario

import (
	"time"

	"github.com/windtunnel/windtunnel/unit"
)

// Scenario is a whole file.
type Scenario struct {
	Name        string          `yaml:"scenario"`    // short, a DNS label: it names the run directory
	Description string          `yaml:"description"` // for people
	Seed        uint64          `yaml:"seed"`        // source of all randomness; default 1
	Parameters  Parameters      `yaml:"parameters"`  // name -> default; its type is the parameter's type
	Plane       Plane           `yaml:"plane"`
	Fleet       Fleet           `yaml:"fleet"`
	Namespaces  Namespaces      `yaml:"namespaces"`
	Bodies      map[string]Body `yaml:"bodies"`     // name -> what is created
	Steps       []Step          `yaml:"steps"`      // what is done, one after another
	Objectives  []Objective     `yaml:"objectives"` // what is judged
	Published   []Published     `yaml:"published"`  // figures of others, shown beside the measured ones

	File   string         `yaml:"-"` // the path that it was read from; other paths are relative to its folder
	Values map[string]any `yaml:"-"` // parameters in force: bool, int64, float64 or string

	lines map[string]int // where each value stands, for Validate
}

// Plane says what control plane to fly.
type Plane struct {
	Durability string               `yaml:"durability"` // "memory" (default: no fsync, tmpfs where there is room) or "fsync"
	Binaries   string               `yaml:"binaries"`   // folder of the user's own etcd, kube-apiserver ...; relative to the file
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
	Nodes    int               `yaml:"nodes"`    // how many, default 0
	Lease    unit.Duration     `yaml:"lease"`    // lease duration, default 40s; renewed every quarter of it; 0s = no leases
	Rate     float64           `yaml:"rate"`     // nodes created per second, default 200
	Capacity map[string]string `yaml:"capacity"` // default cpu 32, memory 256Gi, pods 110
	Labels   map[string]string `yaml:"labels"`   // on every node
	Within   unit.Duration     `yaml:"within"`   // all nodes schedulable, default 5m
}

// Namespaces are made before the first step and deleted at the end.
type Namespaces struct {
	Prefix string `yaml:"prefix"` // PREFIX-1, PREFIX-2 ...; default: the scenario's name
	Count  int    `yaml:"count"`  // default 1
}

// Body is a Go template of one object in YAML or JSON. Its variables are
// .Name .Namespace .Index (from 0) .Group .Seed and what `with` adds.
type Body struct {
	Text string `yaml:"text" expr:"raw"` // ${...} is left alone in it
	File string `yaml:"file"`            // in place of text; relative to the scenario file and inside its folder
	Line int    `yaml:"-"`               // in the scenario file: of the text's first line, or of file
}

// Step does one thing; the next one begins when it is finished. Exactly one of
// create, wait, delete and pause is set.
type Step struct {
	Name      string        `yaml:"name"` // a DNS label; default: what it does and its number, such as wait-2
	Create    *Create       `yaml:"create"`
	Wait      *Wait         `yaml:"wait"`
	Delete    *Delete       `yaml:"delete"`
	Pause     unit.Duration `yaml:"pause"`     // do nothing for so long
	OnFailure string        `yaml:"onFailure"` // "stop" (default): later steps but deletions are skipped; "continue"
	Line      int           `yaml:"-"`
}

// Create makes objects at due times.
type Create struct {
	Body      string         `yaml:"body"`      // one of bodies
	Count     int            `yaml:"count"`     // objects in all, over all namespaces in turn
	Name      string         `yaml:"name"`      // objects are NAME-0, NAME-1 ...; default: the step's name
	Group     string         `yaml:"group"`     // lives of these objects' pods; default: the step's name
	Namespace string         `yaml:"namespace"` // one namespace in place of all of namespaces
	With      map[string]any `yaml:"with"`      // more template variables
	Pace      Pace           `yaml:"pace"`
	Timeout   unit.Duration  `yaml:"timeout"` // of each call, default 30s
}

// Delete deletes what a create step made, in the order of its creation.
type Delete struct {
	Step        string        `yaml:"step"` // name of the create step
	Pace        Pace          `yaml:"pace"`
	Propagation string        `yaml:"propagation"` // background (default), foreground or orphan
	Timeout     unit.Duration `yaml:"timeout"`     // of each call, default 30s
}

// Wait holds until as many pods of a group are in a phase.
type Wait struct {
	Pods   string        `yaml:"pods"`   // a group
	Are    string        `yaml:"are"`    // created, bound, running, ready or gone
	Count  int           `yaml:"count"`  // how many; for gone: how many may remain, default 0
	Within unit.Duration `yaml:"within"` // default 10m; the step fails when it has passed
}

// Pace says when calls are due. Exactly one is set.
type Pace struct {
	Constant float64 `yaml:"constant"` // calls per second, evenly
	Poisson  float64 `yaml:"poisson"`  // calls per second on average, exponential gaps, from the seed
	Burst    bool    `yaml:"burst"`    // all at once
}

// Objective is a bound on an SLI, or the official Kubernetes SLOs in one word.
type Objective struct {
	Name      string            `yaml:"name"`      // in the verdict; default: what it bounds
	SLO       string            `yaml:"slo"`       // "kubernetes": the official ones; the fields below but pods then stay empty
	Pods      []string          `yaml:"pods"`      // groups whose startup is judged; default all
	SLI       string            `yaml:"sli"`       // pod-startup, call-latency, server-latency, pods-running-rate ...
	Labels    map[string]string `yaml:"labels"`    // group, phase, verb, resource ...
	Statistic string            `yaml:"statistic"` // p50, p90, p99, p99.9, max, mean, rate
	Max       *float64          `yaml:"max"`       // in the SLI's unit (seconds, 1/s)
	Min       *float64          `yaml:"min"`       // in place of max
	Line      int               `yaml:"-"`
}

// Published is a figure of a report that the scenario reproduces; it is shown
// beside the measured one (rule of measurement 7).
type Published struct {
	Measure     string  `yaml:"measure"`     // key in verdict.json's measures
	Value       float64 `yaml:"value"`       // as it was published
	Unit        string  `yaml:"unit"`        // seconds, 1/s ...
	Source      string  `yaml:"source"`      // where it was published
	Differences string  `yaml:"differences"` // hardware, scale ...
}

// Defaults of the language.
const (
	DefaultSeed        = 1
	DefaultLease       = 40 * time.Second
	DefaultNodeRate    = 200.0
	DefaultFleetWithin = 5 * time.Minute
	DefaultCallTimeout = 30 * time.Second
	DefaultWaitWithin  = 10 * time.Minute
)
