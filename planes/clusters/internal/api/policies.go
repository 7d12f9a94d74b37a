package api

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
)

// The resources of policies that change pods on their way to members, and where a
// member's pod says which it was.
const (
	ResourcePolicies        = "podconvertpolicies"
	ResourceClusterPolicies = "clusterpodconvertpolicies"
	AnnotationPolicy        = "kosmos-io/convert-policy"
)

// ConvertPolicy is a PodConvertPolicy, which is about pods of its namespace, or a
// ClusterPodConvertPolicy.
type ConvertPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ConvertPolicySpec `json:"spec"`
}

// ConvertPolicySpec says which pods are changed, and how.
type ConvertPolicySpec struct {
	LabelSelector    metav1.LabelSelector  `json:"labelSelector"`              // of pods; the empty one selects all
	LeafNodeSelector *metav1.LabelSelector `json:"leafNodeSelector,omitempty"` // of the virtual nodes that they are bound to; nil: all
	Converters       *Converters           `json:"converters,omitempty"`       // nil: the policy is passed over
}

// Converters change fields of a pod's spec; nil leaves a field alone.
type Converters struct {
	SchedulerName *struct {
		Type  string `json:"convertType"`
		Value string `json:"schedulerName,omitempty"`
	} `json:"schedulerNameConverter,omitempty"`
	NodeName *struct {
		Type  string `json:"convertType"`
		Value string `json:"nodeName,omitempty"`
	} `json:"nodeNameConverter,omitempty"`
	NodeSelector *struct {
		Type  string            `json:"convertType"`
		Value map[string]string `json:"nodeSelector,omitempty"`
	} `json:"nodeSelectorConverter,omitempty"`
	Tolerations *struct {
		Type  string              `json:"convertType"`
		Value []corev1.Toleration `json:"tolerations,omitempty"`
	} `json:"tolerationConverter,omitempty"`
	Affinity *struct {
		Type  string           `json:"convertType"`
		Value *corev1.Affinity `json:"affinity,omitempty"`
	} `json:"affinityConverter,omitempty"`
	TopologySpread *struct {
		Type  string                            `json:"convertType"`
		Value []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	} `json:"topologySpreadConstraintsConverter,omitempty"`
	HostAliases *struct {
		Type  string             `json:"convertType"`
		Value []corev1.HostAlias `json:"hostAliases,omitempty"`
	} `json:"hostAliasesConverter,omitempty"`
}

// What a converter does with its field.
const (
	ConvertAdd     = "add"     // it gets the value where it has none
	ConvertRemove  = "remove"  // it is emptied
	ConvertReplace = "replace" // it gets the value
)

// DeepCopyObject makes a ConvertPolicy a runtime.Object. What is in the spec is never
// changed, only replaced.
func (p *ConvertPolicy) DeepCopyObject() runtime.Object { return resource.CopyOf(p) }

// Convert changes a pod's spec.
func (c *Converters) Convert(s *corev1.PodSpec) {
	if f := c.SchedulerName; f != nil {
		s.SchedulerName = convertField(f.Type, s.SchedulerName, f.Value, s.SchedulerName != "")
	}
	if f := c.NodeName; f != nil {
		s.NodeName = convertField(f.Type, s.NodeName, f.Value, s.NodeName != "")
	}
	if f := c.NodeSelector; f != nil {
		s.NodeSelector = convertField(f.Type, s.NodeSelector, f.Value, s.NodeSelector != nil)
	}
	if f := c.Tolerations; f != nil {
		s.Tolerations = convertField(f.Type, s.Tolerations, f.Value, s.Tolerations != nil)
	}
	if f := c.Affinity; f != nil {
		s.Affinity = convertField(f.Type, s.Affinity, f.Value, s.Affinity != nil)
	}
	if f := c.TopologySpread; f != nil {
		s.TopologySpreadConstraints = convertField(f.Type, s.TopologySpreadConstraints, f.Value, s.TopologySpreadConstraints != nil)
	}
	if f := c.HostAliases; f != nil {
		s.HostAliases = convertField(f.Type, s.HostAliases, f.Value, s.HostAliases != nil)
	}
}

// convertField is what becomes of a field; another type of converter leaves it alone.
func convertField[T any](how string, is, value T, set bool) T {
	var none T
	switch {
	case how == ConvertRemove:
		return none
	case how == ConvertReplace, how == ConvertAdd && !set:
		return value
	}
	return is
}
