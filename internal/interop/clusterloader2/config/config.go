// Package config has the types of ClusterLoader2's files, and decodes them as
// ClusterLoader2 does: keys in any case, booleans and timestamps of YAML 1.1, the last of
// two equal keys. It judges nothing that it reads.
package config

import (
	"fmt"
	"time"
)

// The types are those of ClusterLoader2's api package. A key belongs to the
// field whose name it has, whatever its case.

// Suite is a list of configs with override files.
type Suite []SuiteScenario

type SuiteScenario struct {
	Identifier    string
	ConfigPath    string
	OverridePaths []string
	Place
}

type Config struct {
	Name                  string
	Dependencies          []Dependency
	AutomanagedNamespaces int // the older form of namespace.number
	Namespace             Namespace
	Steps                 []Step
	TuningSets            []TuningSet
	ChaosMonkey           ChaosMonkey
	Place
}

type Dependency struct {
	Name, Method string
	Timeout      Duration
	Params       Params
	Place
}

type Namespace struct {
	Number                      int
	Prefix                      string
	DeleteStaleNamespaces       *bool
	DeleteAutomanagedNamespaces *bool
	EnableExistingNamespaces    *bool
	DeleteNamespaceTimeout      Duration
	Place
}

// Module is a file of steps.
type Module struct {
	Steps []Step
	Place
}

// Step has exactly one of phases, measurements and module.
type Step struct {
	Name         string
	Phases       []Phase
	Measurements []Measurement
	Module       ModuleRef
	Place
}

type ModuleRef struct {
	Path   string
	Params Params
	Place
}

// Phase says how many replicas of a bundle there ought to be in each of some
// namespaces, or outside of namespaces.
type Phase struct {
	NamespaceRange       *NamespaceRange
	NamespaceList        []string
	ReplicasPerNamespace int
	TuningSet            string
	ObjectBundle         []Object
	Place
}

type NamespaceRange struct {
	Min, Max int
	Basename *string
	Place
}

type Object struct {
	Basename                 string
	ObjectTemplatePath       string
	TemplateFillMap          Params
	ListUnknownObjectOptions *ListUnknown
	Place
}

type ListUnknown struct {
	LabelSelector *LabelSelector
	Place
}

type LabelSelector struct {
	MatchLabels      map[string]string
	MatchExpressions []Requirement
}

type Requirement struct {
	Key, Operator string
	Values        []string
}

type Measurement struct {
	Method     string
	Params     Params
	Identifier string
	Instances  []Instance
	Place
}

type Instance struct {
	Identifier string
	Params     Params
	Place
}

// TuningSet has exactly one of the kinds after the delay.
type TuningSet struct {
	Name                      string
	InitialDelay              Duration
	QPSLoad                   *QPSLoad
	RandomizedLoad            *RandomizedLoad
	SteppedLoad               *SteppedLoad
	TimeLimitedLoad           *TimeLimitedLoad
	RandomizedTimeLimitedLoad *TimeLimitedLoad
	ParallelismLimitedLoad    *ParallelismLimitedLoad
	GlobalQPSLoad             *GlobalLoad
	PoissonLoad               *PoissonLoad
	Place
}

type QPSLoad struct{ QPS float64 }

type RandomizedLoad struct{ AverageQPS float64 }

type TimeLimitedLoad struct{ TimeLimit Duration }

type ParallelismLimitedLoad struct{ ParallelismLimit int }

type PoissonLoad struct{ ExpectedActionsPerSecond float64 }

type SteppedLoad struct {
	BurstSize int
	StepDelay Duration
}

type GlobalLoad struct {
	QPS   float64
	Burst int
}

type ChaosMonkey struct {
	NodeFailure   *NodeFailure
	ExcludedNodes []string
	Place
}

type NodeFailure struct {
	FailureRate       float64
	Interval          Duration
	JitterFactor      float64
	SimulatedDowntime Duration
	Place
}

// Duration is written as Go writes it: 1h2m3s.
type Duration time.Duration

// UnmarshalText parses Go's notation.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%s is not a time such as 1m30s", clipText(string(text)))
	}
	*d = Duration(v)
	return nil
}

func (d Duration) String() string { return time.Duration(d).String() }
