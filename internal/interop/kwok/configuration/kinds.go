package configuration

import (
	"encoding"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

// The kinds of objects. Those of namespaces are about the pod of their own
// name, those with Cluster about the pods that they select.
const (
	KindStage                = "Stage"
	KindLogs                 = "Logs"
	KindClusterLogs          = "ClusterLogs"
	KindExec                 = "Exec"
	KindClusterExec          = "ClusterExec"
	KindAttach               = "Attach"
	KindClusterAttach        = "ClusterAttach"
	KindPortForward          = "PortForward"
	KindClusterPortForward   = "ClusterPortForward"
	KindResourceUsage        = "ResourceUsage"
	KindClusterResourceUsage = "ClusterResourceUsage"
	KindMetric               = "Metric"
)

// kind says of a kind what its resource is called and whether its objects are
// in namespaces.
type kind struct {
	name     string
	resource string
	scoped   bool
}

// crdKinds returns those that --enable-crds can name.
func crdKinds() []kind {
	return []kind{
		{KindStage, "stages", false},
		{KindLogs, "logs", true},
		{KindClusterLogs, "clusterlogs", false},
		{KindExec, "execs", true},
		{KindClusterExec, "clusterexecs", false},
		{KindAttach, "attaches", true},
		{KindClusterAttach, "clusterattaches", false},
		{KindPortForward, "portforwards", true},
		{KindClusterPortForward, "clusterportforwards", false},
		{KindResourceUsage, "resourceusages", true},
		{KindClusterResourceUsage, "clusterresourceusages", false},
		{KindMetric, "metrics", false},
	}
}

func kindOf(name string) (kind, bool) {
	for _, k := range crdKinds() {
		if k.name == name {
			return k, true
		}
	}
	return kind{}, false
}

// Log says which file holds the log of containers.
type Log struct {
	Containers       []string `yaml:"containers"`
	LogsFile         string   `yaml:"logsFile"`
	PreviousLogsFile string   `yaml:"previousLogsFile"`
	Follow           *bool    `yaml:"follow"` // accepted; whether a log is followed is the request's choice
}

// For returns the containers that the entry is for.
func (l Log) For() []string { return l.Containers }

// Exec says how commands are run for containers.
type Exec struct {
	Containers []string `yaml:"containers"`
	Local      *Local   `yaml:"local"` // nil: nothing is run
}

// For returns the containers that the entry is for.
func (e Exec) For() []string { return e.Containers }

// Local runs commands as processes on the machine of the fleet.
type Local struct {
	WorkDir         string           `yaml:"workDir"`
	Envs            []Env            `yaml:"envs"`
	SecurityContext *SecurityContext `yaml:"securityContext"`
}

// Env is a variable of a command's environment.
type Env struct {
	Name  string `yaml:"name"`
	Value string `yaml:"value"`
}

// SecurityContext says as whom commands are run.
type SecurityContext struct {
	RunAsUser  *int64 `yaml:"runAsUser"`
	RunAsGroup *int64 `yaml:"runAsGroup"`
}

// Attach says which file holds the output that an attached client sees.
type Attach struct {
	Containers []string `yaml:"containers"`
	LogsFile   string   `yaml:"logsFile"`
}

// For returns the containers that the entry is for.
func (a Attach) For() []string { return a.Containers }

// Forward says where ports of a pod lead: to an address, or to the standard
// input and output of a command, which comes first.
type Forward struct {
	Ports   []int32  `yaml:"ports"`
	Target  *Target  `yaml:"target"`
	Command []string `yaml:"command"`
}

// For returns the ports that the entry is for.
func (f Forward) For() []int32 { return f.Ports }

// Target is an address of the network that the fleet runs in.
type Target struct {
	Port    int32  `yaml:"port"`
	Address string `yaml:"address"`
}

// Usage says what containers use of resources.
type Usage struct {
	Containers []string              `yaml:"containers"`
	Usage      map[string]UsageValue `yaml:"usage"` // by resource, such as cpu
}

// For returns the containers that the entry is for.
func (u Usage) For() []string { return u.Containers }

// UsageValue is a quantity, or the expression that gives it.
type UsageValue struct {
	Value      *Quantity `yaml:"value"`
	Expression *string   `yaml:"expression"` // CEL; Value comes first
}

// Quantity is a quantity such as 500m or 2Gi.
type Quantity struct{ resource.Quantity }

var _ encoding.TextUnmarshaler = (*Quantity)(nil)

// UnmarshalText reads a quantity.
func (q *Quantity) UnmarshalText(text []byte) error {
	parsed, err := resource.ParseQuantity(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a quantity such as 500m or 2Gi", text)
	}
	q.Quantity = parsed
	return nil
}
