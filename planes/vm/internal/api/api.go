// Package api is the language of the VM plane: the kinds of kubevirt.io/v1 as
// far as the plane uses them, their definitions for the API server, and a
// client for them. Field names, labels and phases are KubeVirt's, so that one
// scenario flies against either.
//
// It decides nothing: packages controller and agent do. What a
// specification holds beyond the fields named here is kept as it was sent.
package api

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
)

// The group and version of all kinds here.
const (
	Group   = "kubevirt.io"
	Version = "v1"
)

// Labels, annotations and finalizers.
const (
	LabelApp             = "kubevirt.io"                         // on pods: "virt-launcher"
	LabelCreatedBy       = "kubevirt.io/created-by"              // on pods: uid of the instance
	LabelName            = "vm.kubevirt.io/name"                 // on pods and instances: the machine's name
	LabelNode            = "kubevirt.io/nodeName"                // on instances: who owns them from Scheduled on
	LabelTargetNode      = "kubevirt.io/migrationTargetNodeName" // on instances that migrate
	LabelMigrationJob    = "kubevirt.io/migrationJobUID"         // on target pods
	LabelSchedulable     = "kubevirt.io/schedulable"             // on nodes
	LabelMachineType     = "machine-type.node.kubevirt.io/q35"   // on nodes whose emulator has it: pods of v1.6 ask for it
	AnnotationHeartbeat  = "kubevirt.io/heartbeat"               // on nodes
	AnnotationLatest     = "kubevirt.io/latest-observed-api-version"
	AnnotationStorage    = "kubevirt.io/storage-observed-api-version"
	AnnotationDomain     = "kubevirt.io/domain"                         // on pods: the instance's name
	AnnotationGeneration = "kubevirt.io/vm-generation"                  // on instances: generation of the machine that made them
	FinalizerInstance    = "kubevirt.io/foregroundDeleteVirtualMachine" // on instances: the controller removes it last
	FinalizerFormer      = "foregroundDeleteVirtualMachine"             // its name in v1.6.0 and before
	FinalizerMachine     = "kubevirt.io/virtualMachineControllerFinalize"
	ConditionUnpaused    = corev1.PodConditionType("kubevirt.io/virtual-machine-unpaused")
	ContainerCompute     = "compute"
	Launcher             = "virt-launcher"
	ConditionReady       = "Ready"
	ConditionMigratable  = "LiveMigratable"
	ConditionSynced      = "Synchronized"
	ReasonUnresponsive   = "NodeUnresponsive"
	ResourceKVM          = corev1.ResourceName("devices.kubevirt.io/kvm")
	ResourceTun          = corev1.ResourceName("devices.kubevirt.io/tun")
	ResourceVhostNet     = corev1.ResourceName("devices.kubevirt.io/vhost-net")
	ResourceInstances    = "virtualmachineinstances"
	ResourceMachines     = "virtualmachines"
	ResourceMigrations   = "virtualmachineinstancemigrations"
	ResourceInstallation = "kubevirts"
)

// Instance is a VirtualMachineInstance: one run of a virtual machine.
type Instance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              InstanceSpec   `json:"spec"`
	Status            InstanceStatus `json:"status,omitempty"`
}

// InstanceStatus is what controller and agents say of an instance.
type InstanceStatus struct {
	Phase                         Phase                `json:"phase,omitempty"`
	PhaseTransitionTimestamps     []PhaseTime          `json:"phaseTransitionTimestamps,omitempty"`
	Reason                        string               `json:"reason,omitempty"`
	QOSClass                      string               `json:"qosClass,omitempty"` // of the launcher pod
	NodeName                      string               `json:"nodeName,omitempty"`
	ActivePods                    map[types.UID]string `json:"activePods,omitempty"` // pod -> node
	Conditions                    []Condition          `json:"conditions,omitempty"`
	LauncherContainerImageVersion string               `json:"launcherContainerImageVersion,omitempty"`
	Interfaces                    []Interface          `json:"interfaces,omitempty"`
	MigrationState                *MigrationState      `json:"migrationState,omitempty"`
	VirtualMachineRevisionName    string               `json:"virtualMachineRevisionName,omitempty"`

	kept unknown
}

// Condition is one condition of an instance, a machine or a migration.
type Condition struct {
	Type               string                 `json:"type"`
	Status             corev1.ConditionStatus `json:"status"`
	LastProbeTime      metav1.Time            `json:"lastProbeTime"` // null if not set, as KubeVirt's type writes it: its patches test for that
	LastTransitionTime metav1.Time            `json:"lastTransitionTime,omitempty"`
	Reason             string                 `json:"reason,omitempty"`
	Message            string                 `json:"message,omitempty"`

	kept unknown
}

// Interface is a network interface as the guest has it.
type Interface struct {
	Name string `json:"name,omitempty"`
	IP   string `json:"ipAddress,omitempty"`
}

// MigrationState is how far an instance's migration is; controller and both
// nodes' agents write it in turn.
type MigrationState struct {
	MigrationUID      types.UID    `json:"migrationUid,omitempty"`
	SourceNode        string       `json:"sourceNode,omitempty"`
	SourcePod         string       `json:"sourcePod,omitempty"`
	TargetNode        string       `json:"targetNode,omitempty"`
	TargetPod         string       `json:"targetPod,omitempty"`
	TargetNodeAddress string       `json:"targetNodeAddress,omitempty"` // set by the target: it is ready
	StartTimestamp    *metav1.Time `json:"startTimestamp,omitempty"`    // set by the source
	EndTimestamp      *metav1.Time `json:"endTimestamp,omitempty"`
	Completed         bool         `json:"completed,omitempty"`
	Failed            bool         `json:"failed,omitempty"`

	kept unknown
}

// Machine is a VirtualMachine: it wants an instance to run.
type Machine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              MachineSpec   `json:"spec"`
	Status            MachineStatus `json:"status,omitempty"`
}

// MachineSpec says whether and what to run. The controllers never write it.
type MachineSpec struct {
	Running     *bool    `json:"running,omitempty"`
	RunStrategy string   `json:"runStrategy,omitempty"` // Always, Halted, RerunOnFailure, Once, Manual
	Template    Template `json:"template"`
}

// Template is the instance that a machine makes.
type Template struct {
	Metadata metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec     InstanceSpec      `json:"spec"`
}

// MachineStatus is what the controller says of a machine.
type MachineStatus struct {
	Created                bool             `json:"created,omitempty"`
	Ready                  bool             `json:"ready,omitempty"`
	PrintableStatus        string           `json:"printableStatus,omitempty"`
	Conditions             []Condition      `json:"conditions,omitempty"`
	StartFailure           *StartFailure    `json:"startFailure,omitempty"`
	VolumeSnapshotStatuses []SnapshotStatus `json:"volumeSnapshotStatuses,omitempty"`
	RunStrategy            string           `json:"runStrategy,omitempty"`
	DesiredGeneration      int64            `json:"desiredGeneration,omitempty"`
	ObservedGeneration     int64            `json:"observedGeneration,omitempty"` // that its instance was made of

	kept unknown
}

// SnapshotStatus says whether a volume can have snapshots.
type SnapshotStatus struct {
	Name    string `json:"name"`
	Enabled bool   `json:"enabled"`
	Reason  string `json:"reason,omitempty"`
}

// StartFailure says when an instance that failed is replaced.
type StartFailure struct {
	ConsecutiveFailCount int          `json:"consecutiveFailCount,omitempty"`
	LastFailedVMIUID     types.UID    `json:"lastFailedVMIUID,omitempty"`
	RetryAfterTimestamp  *metav1.Time `json:"retryAfterTimestamp,omitempty"`
}

// Migration is a VirtualMachineInstanceMigration.
type Migration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              MigrationSpec   `json:"spec"`
	Status            MigrationStatus `json:"status,omitempty"`
}

// InstanceKey returns namespace/name of the instance that moves.
func (m *Migration) InstanceKey() string { return m.Namespace + "/" + m.Spec.VMIName }

// MigrationSpec names the instance that moves.
type MigrationSpec struct {
	VMIName string `json:"vmiName,omitempty"`
}

// MigrationStatus is what the controller says of a migration.
type MigrationStatus struct {
	Phase                     Phase       `json:"phase,omitempty"`
	PhaseTransitionTimestamps []PhaseTime `json:"phaseTransitionTimestamps,omitempty"`
	Conditions                []Condition `json:"conditions,omitempty"`

	kept unknown
}

// Installation is the KubeVirt object. Only its client rate limits are used;
// they change while controller and agents run.
type Installation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              InstallationSpec `json:"spec"`
}

// InstallationSpec is the part of it that is used.
type InstallationSpec struct {
	Configuration struct {
		Controller ComponentConfiguration `json:"controllerConfiguration,omitempty"`
		Handler    ComponentConfiguration `json:"handlerConfiguration,omitempty"`
	} `json:"configuration,omitempty"`
}

// ComponentConfiguration holds a component's client rate limit.
type ComponentConfiguration struct {
	RestClient struct {
		RateLimiter struct {
			TokenBucketRateLimiter *TokenBucket `json:"tokenBucketRateLimiter,omitempty"`
		} `json:"rateLimiter,omitempty"`
	} `json:"restClient,omitempty"`
}

// TokenBucket is a client rate limit: calls per second, and at once.
type TokenBucket struct {
	QPS   float32 `json:"qps"`
	Burst int     `json:"burst"`
}

// GroupVersion returns kubevirt.io/v1.
func GroupVersion() schema.GroupVersion { return schema.GroupVersion{Group: Group, Version: Version} }

// Scheme returns a scheme that knows these kinds and those of core/v1.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	gv := GroupVersion()
	resource.Register[Instance](s, gv, "VirtualMachineInstance")
	resource.Register[Machine](s, gv, "VirtualMachine")
	resource.Register[Migration](s, gv, "VirtualMachineInstanceMigration")
	resource.Register[Installation](s, gv, "KubeVirt")
	if err := corev1.AddToScheme(s); err != nil {
		panic(err) // two types of one name: only a change of this file can cause it
	}
	return s
}
