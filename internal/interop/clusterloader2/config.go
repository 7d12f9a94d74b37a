package clusterloader2

import (
	"fmt"
	"time"
)

// The types are those of ClusterLoader2's api package. A key belongs to the
// field whose name it has, whatever its case.

// suite is a list of configs with override files.
type suite []suiteScenario

type suiteScenario struct {
	Identifier    string
	ConfigPath    string
	OverridePaths []string
	Place
}

type config struct {
	Name                  string
	Dependencies          []dependency
	AutomanagedNamespaces int // the older form of namespace.number
	Namespace             namespace
	Steps                 []step
	TuningSets            []tuningSet
	ChaosMonkey           chaosMonkey
	Place
}

type dependency struct {
	Name, Method string
	Timeout      duration
	Params       params
	Place
}

type namespace struct {
	Number                      int
	Prefix                      string
	DeleteStaleNamespaces       *bool
	DeleteAutomanagedNamespaces *bool
	EnableExistingNamespaces    *bool
	DeleteNamespaceTimeout      duration
	Place
}

// module is a file of steps.
type module struct {
	Steps []step
	Place
}

// step has exactly one of phases, measurements and module.
type step struct {
	Name         string
	Phases       []phase
	Measurements []measurement
	Module       moduleRef
	Place
}

type moduleRef struct {
	Path   string
	Params params
	Place
}

// phase says how many replicas of a bundle there ought to be in each of some
// namespaces, or outside of namespaces.
type phase struct {
	NamespaceRange       *namespaceRange
	NamespaceList        []string
	ReplicasPerNamespace int
	TuningSet            string
	ObjectBundle         []object
	Place
}

type namespaceRange struct {
	Min, Max int
	Basename *string
	Place
}

type object struct {
	Basename                 string
	ObjectTemplatePath       string
	TemplateFillMap          params
	ListUnknownObjectOptions *listUnknown
	Place
}

type listUnknown struct {
	LabelSelector *labelSelector
	Place
}

type labelSelector struct {
	MatchLabels      map[string]string
	MatchExpressions []requirement
}

type requirement struct {
	Key, Operator string
	Values        []string
}

type measurement struct {
	Method     string
	Params     params
	Identifier string
	Instances  []instance
	Place
}

type instance struct {
	Identifier string
	Params     params
	Place
}

// tuningSet has exactly one of the kinds after the delay.
type tuningSet struct {
	Name                      string
	InitialDelay              duration
	QPSLoad                   *qpsLoad
	RandomizedLoad            *randomizedLoad
	SteppedLoad               *steppedLoad
	TimeLimitedLoad           *timeLimitedLoad
	RandomizedTimeLimitedLoad *timeLimitedLoad
	ParallelismLimitedLoad    *parallelismLimitedLoad
	GlobalQPSLoad             *globalLoad
	PoissonLoad               *poissonLoad
	Place
}

type qpsLoad struct{ QPS float64 }

type randomizedLoad struct{ AverageQPS float64 }

type timeLimitedLoad struct{ TimeLimit duration }

type parallelismLimitedLoad struct{ ParallelismLimit int }

type poissonLoad struct{ ExpectedActionsPerSecond float64 }

type steppedLoad struct {
	BurstSize int
	StepDelay duration
}

type globalLoad struct {
	QPS   float64
	Burst int
}

type chaosMonkey struct {
	NodeFailure   *nodeFailure
	ExcludedNodes []string
	Place
}

type nodeFailure struct {
	FailureRate       float64
	Interval          duration
	JitterFactor      float64
	SimulatedDowntime duration
	Place
}

// duration is written as Go writes it: 1h2m3s.
type duration time.Duration

// UnmarshalText parses Go's notation.
func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%s is not a time such as 1m30s", clip(string(text)))
	}
	*d = duration(v)
	return nil
}

func (d duration) String() string { return time.Duration(d).String() }
