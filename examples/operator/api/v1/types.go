// Package v1 holds the kind Website of the group demo.windtunnel.dev: what a user
// asks for, and what the operator says of it. It does nothing; package website
// acts on it.
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ConditionReady says whether all replicas serve the page that was asked for.
const ConditionReady = "Ready"

// GroupVersion returns the kinds' group and version.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "demo.windtunnel.dev", Version: "v1"}
}

// AddToScheme makes the kinds known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &Website{}, &WebsiteList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}

// Website is a page that some replicas serve.
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitempty"`
}

// Spec is what a user asks for.
type Spec struct {
	Page     string `json:"page"`               // HTML
	Replicas int32  `json:"replicas,omitempty"` // default 1
}

// Status is what the operator says.
type Status struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// WebsiteList is a list of websites.
type WebsiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Website `json:"items"`
}

// DeepCopyObject returns a copy that shares nothing.
func (w *Website) DeepCopyObject() runtime.Object { return w.DeepCopy() }

// DeepCopy returns a copy that shares nothing.
func (w *Website) DeepCopy() *Website {
	if w == nil {
		return nil
	}
	out := *w
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Status.Conditions = nil
	for _, c := range w.Status.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, *c.DeepCopy())
	}
	return &out
}

// DeepCopyObject returns a copy that shares nothing.
func (l *WebsiteList) DeepCopyObject() runtime.Object {
	if l == nil {
		return nil
	}
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = nil
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopy())
	}
	return &out
}
