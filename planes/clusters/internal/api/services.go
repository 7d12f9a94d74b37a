package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
)

// The group of services across clusters, and its resources.
const (
	GroupServices       = "multicluster.x-k8s.io"
	ResourceExports     = "serviceexports"
	ResourceImports     = "serviceimports"
	AnnotationAddresses = "kosmos.io/address"          // of a ServiceImport: all addresses, comma-separated
	LabelExported       = "kosmos.io/service-exported" // of a slice of the host
	FinalizerServices   = "kosmos.io/multi-cluster-service-finalizer"
)

// Mark is a ServiceExport on the host, which lets members have the service of its name,
// or a ServiceImport in a member, which asks for it.
type Mark struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// DeepCopyObject makes a Mark a runtime.Object.
func (m *Mark) DeepCopyObject() runtime.Object { return resource.CopyOf(m) }

// servicesVersion is multicluster.x-k8s.io/v1alpha1.
func servicesVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupServices, Version: Version}
}

// newMarkScheme knows Marks as one of the two kinds: a codec writes the first name that
// a type has.
func newMarkScheme(kind string) *runtime.Scheme {
	s, gv := runtime.NewScheme(), servicesVersion()
	resource.Register[Mark](s, gv, kind)
	return s
}
