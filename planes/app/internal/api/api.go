// Package api is the language of the app plane: the kinds of
// core.oam.dev/v1beta1 as far as the plane uses them, their definitions for the
// API server, their compressed forms, and a client for them. Field names, labels,
// finalizers and phases are KubeVela's, so that one scenario flies against either.
//
// It decides nothing. What an application holds beyond the fields named here is
// lost when the controller writes it, as it is with any typed client.
package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
)

// The group and version of all kinds here.
const (
	Group   = "core.oam.dev"
	Version = "v1beta1"
)

// The kinds.
const (
	KindApplication = "Application"
	KindRevision    = "ApplicationRevision"
	KindTracker     = "ResourceTracker"
	KindComponent   = "ComponentDefinition"
	KindTrait       = "TraitDefinition"
	KindStep        = "WorkflowStepDefinition"
	KindPolicy      = "PolicyDefinition"
	KindWorkflow    = "Workflow" // of core.oam.dev/v1alpha1
)

// SystemNamespace holds the definitions that every application may use.
const SystemNamespace = "vela-system"

// Labels, annotations and finalizers.
const (
	LabelName            = "app.oam.dev/name"
	LabelNamespace       = "app.oam.dev/namespace"
	LabelUID             = "app.oam.dev/uid"
	LabelComponent       = "app.oam.dev/component"
	LabelTrait           = "trait.oam.dev/type"
	LabelRevision        = "app.oam.dev/appRevision"
	LabelRevisionHash    = "app.oam.dev/app-revision-hash"
	LabelResourceType    = "app.oam.dev/resourceType"
	LabelRenderHash      = "oam.dev/render-hash"
	LabelShard           = "controller.core.oam.dev/scheduled-shard-id"
	AnnotationApplied    = "app.oam.dev/last-applied-configuration"
	AnnotationVersion    = "oam.dev/kubevela-version"
	AnnotationAutoUpdate = "app.oam.dev/autoUpdate"
	FinalizerApplication = "app.oam.dev/resource-tracker-finalizer"
	FinalizerTracker     = "resourcetracker.core.oam.dev/finalizer"
)

// Phase is how far an application is.
type Phase string

// The phases.
const (
	Starting           Phase = "starting"
	Rendering          Phase = "rendering"
	GeneratingPolicy   Phase = "generatingPolicy"
	RunningWorkflow    Phase = "runningWorkflow"
	WorkflowSuspending Phase = "workflowSuspending"
	WorkflowTerminated Phase = "workflowTerminated"
	WorkflowFailed     Phase = "workflowFailed"
	Running            Phase = "running"
	Unhealthy          Phase = "unhealthy"
	Deleting           Phase = "deleting"
)

// Application is what a user wants: components with traits, policies, workflow.
type Application struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ApplicationSpec   `json:"spec"`
	Status            ApplicationStatus `json:"status,omitempty"`
}

// ApplicationSpec is the user's part of an application.
type ApplicationSpec struct {
	Components []Component `json:"components"`
	Policies   []Policy    `json:"policies,omitempty"`
	Workflow   *Workflow   `json:"workflow,omitempty"`
}

// Component is rendered by the ComponentDefinition that Type names.
type Component struct {
	Name       string          `json:"name"`
	Type       string          `json:"type"`
	Properties json.RawMessage `json:"properties,omitempty"`
	DependsOn  []string        `json:"dependsOn,omitempty"`
	Inputs     []StepInput     `json:"inputs,omitempty"`
	Outputs    []StepOutput    `json:"outputs,omitempty"`
	Traits     []Trait         `json:"traits,omitempty"`
}

// Trait changes what its component renders, or adds objects to it.
type Trait struct {
	Type       string          `json:"type"`
	Properties json.RawMessage `json:"properties,omitempty"`
}

// Policy says how an application is delivered and kept.
type Policy struct {
	Name       string          `json:"name"`
	Type       string          `json:"type"`
	Properties json.RawMessage `json:"properties,omitempty"`
}

// Workflow is the order of delivery: its own steps, or those of the Workflow of
// core.oam.dev/v1alpha1 that Ref names.
type Workflow struct {
	Ref   string        `json:"ref,omitempty"`
	Mode  *WorkflowMode `json:"mode,omitempty"`
	Steps []Step        `json:"steps,omitempty"`
}

// WorkflowMode says whether steps, and those within steps, run one after the other
// (StepByStep) or as soon as what they depend on is done (DAG).
type WorkflowMode struct {
	Steps    string `json:"steps,omitempty"`
	SubSteps string `json:"subSteps,omitempty"`
}

// Step is one step of a workflow.
type Step struct {
	Name       string          `json:"name"`
	Type       string          `json:"type"`
	Properties json.RawMessage `json:"properties,omitempty"`
	DependsOn  []string        `json:"dependsOn,omitempty"`
	Inputs     []StepInput     `json:"inputs,omitempty"`
	Outputs    []StepOutput    `json:"outputs,omitempty"`
	If         string          `json:"if,omitempty"`      // CUE that says whether it runs, or "always"
	Timeout    string          `json:"timeout,omitempty"` // a duration, such as 10m
	SubSteps   []Step          `json:"subSteps,omitempty"`
}

// StepInput is a value that a step takes: what an earlier one gave by the name From.
type StepInput struct {
	From         string `json:"from"`
	ParameterKey string `json:"parameterKey,omitempty"` // where it goes in the properties: a.b[0].c
}

// StepOutput is a value that a step gives to later ones.
type StepOutput struct {
	Name      string `json:"name"`
	ValueFrom string `json:"valueFrom"` // CUE over output, outputs, parameter and context
}

// ApplicationStatus is what the controller says of an application.
type ApplicationStatus struct {
	Conditions         []Condition         `json:"conditions,omitempty"`
	ObservedGeneration int64               `json:"observedGeneration,omitempty"`
	Phase              Phase               `json:"status,omitempty"`
	Services           []Service           `json:"services,omitempty"`
	Workflow           *WorkflowStatus     `json:"workflow,omitempty"`
	LatestRevision     *RevisionName       `json:"latestRevision,omitempty"`
	AppliedResources   []ResourceReference `json:"appliedResources,omitempty"`
}

// Condition is one condition of an application.
type Condition struct {
	Type               string                 `json:"type"`
	Status             corev1.ConditionStatus `json:"status"`
	LastTransitionTime metav1.Time            `json:"lastTransitionTime,omitempty"`
	Reason             string                 `json:"reason,omitempty"`
	Message            string                 `json:"message,omitempty"`
}

// Service is how one component is.
type Service struct {
	Name               string                  `json:"name"`
	Namespace          string                  `json:"namespace,omitempty"`
	Cluster            string                  `json:"cluster,omitempty"`
	Healthy            bool                    `json:"healthy"`
	Message            string                  `json:"message,omitempty"`
	WorkloadDefinition metav1.GroupVersionKind `json:"workloadDefinition,omitempty"`
}

// WorkflowStatus is how far the workflow of a revision is.
type WorkflowStatus struct {
	AppRevision    string                  `json:"appRevision,omitempty"`
	Mode           string                  `json:"mode"`
	Phase          string                  `json:"status,omitempty"` // executing, suspending, succeeded, failed, terminated
	Message        string                  `json:"message,omitempty"`
	Suspend        bool                    `json:"suspend"`
	Terminated     bool                    `json:"terminated"`
	Finished       bool                    `json:"finished"`
	ContextBackend *corev1.ObjectReference `json:"contextBackend,omitempty"`
	Steps          []StepStatus            `json:"steps,omitempty"`
	StartTime      metav1.Time             `json:"startTime,omitempty"`
	EndTime        *metav1.Time            `json:"endTime,omitempty"`
}

// The phases of steps and of workflows.
const (
	StepPending   = "pending"
	StepRunning   = "running"
	StepSucceeded = "succeeded"
	StepFailed    = "failed"
	StepSkipped   = "skipped"

	WorkflowExecuting = "executing"
	WorkflowSuspended = "suspending"
	WorkflowSucceeded = "succeeded"
	WorkflowHasFailed = "failed"
	WorkflowHasEnded  = "terminated"
)

// StepStatus is how one step of a workflow is.
type StepStatus struct {
	ID               string      `json:"id"`
	Name             string      `json:"name"`
	Type             string      `json:"type"`
	Phase            string      `json:"phase"`
	Reason           string      `json:"reason,omitempty"`
	Message          string      `json:"message,omitempty"`
	FirstExecuteTime metav1.Time `json:"firstExecuteTime,omitempty"`
	LastExecuteTime  metav1.Time `json:"lastExecuteTime,omitempty"`

	SubSteps []StepStatus `json:"subSteps,omitempty"`
}

// RevisionName names the latest revision of an application.
type RevisionName struct {
	Name         string `json:"name"`
	Revision     int64  `json:"revision"`
	RevisionHash string `json:"revisionHash,omitempty"`
}

// ResourceReference names an object that an application made.
type ResourceReference struct {
	Cluster    string `json:"cluster,omitempty"`
	Creator    string `json:"creator,omitempty"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// Definition says how a type of component, trait, step or policy is rendered. All
// four kinds have this form here.
type Definition struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              DefinitionSpec `json:"spec"`
}

// DefinitionSpec holds a definition's templates, in CUE.
type DefinitionSpec struct {
	Workload           *Workload         `json:"workload,omitempty"`
	AppliesToWorkloads []string          `json:"appliesToWorkloads,omitempty"`
	Stage              string            `json:"stage,omitempty"`
	Schematic          *Schematic        `json:"schematic,omitempty"`
	Status             *DefinitionStatus `json:"status,omitempty"`
}

// Workload is the kind that a component renders; type autodetects.k8s.io has none.
type Workload struct {
	Type       string              `json:"type,omitempty"`
	Definition *WorkloadDefinition `json:"definition,omitempty"`
}

// WorkloadDefinition is a kind of the API.
type WorkloadDefinition struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// Schematic holds the template.
type Schematic struct {
	CUE *CUE `json:"cue,omitempty"`
}

// CUE is a template in that language.
type CUE struct {
	Template string `json:"template"`
}

// DefinitionStatus says how health is told from what the API server has.
type DefinitionStatus struct {
	HealthPolicy string `json:"healthPolicy,omitempty"`
	CustomStatus string `json:"customStatus,omitempty"`
}

// Template returns the CUE template; empty without one.
func (d *Definition) Template() string {
	if d.Spec.Schematic == nil || d.Spec.Schematic.CUE == nil {
		return ""
	}
	return d.Spec.Schematic.CUE.Template
}

// GroupVersion returns core.oam.dev/v1beta1.
func GroupVersion() schema.GroupVersion { return schema.GroupVersion{Group: Group, Version: Version} }

// ExternalVersion returns core.oam.dev/v1alpha1, of the Workflows that applications refer to.
func ExternalVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: Group, Version: "v1alpha1"}
}

// Resource returns the plural of a kind, such as applications.
func Resource(kind string) string {
	return map[string]string{
		KindApplication: "applications", KindRevision: "applicationrevisions", KindTracker: "resourcetrackers", KindComponent: "componentdefinitions",
		KindTrait: "traitdefinitions", KindStep: "workflowstepdefinitions", KindPolicy: "policydefinitions", KindWorkflow: "workflows",
	}[kind]
}

// Scheme returns a scheme that knows these kinds and those of core/v1.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	gv := GroupVersion()
	resource.Register[Application](s, gv, KindApplication)
	resource.Register[Revision](s, gv, KindRevision)
	resource.Register[Tracker](s, gv, KindTracker)
	resource.Register[Definition](s, gv, DefinitionKinds()...)
	if err := corev1.AddToScheme(s); err != nil {
		panic(err) // two types of one name: only a change of this file can cause it
	}
	return s
}

// DefinitionKinds returns the four kinds of definitions.
func DefinitionKinds() []string { return []string{KindComponent, KindTrait, KindStep, KindPolicy} }

// TypeOf returns the apiVersion and kind of a kind here.
func TypeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: GroupVersion().String(), Kind: kind}
}

// Hash returns a short hash of a value's JSON, whose keys are in order.
func Hash(v any) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8]), nil
}
