package resource

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// List is a list of objects of a kind.
type List[T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []T `json:"items"`
}

// DeepCopyObject makes a List a runtime.Object. What items lead to is shared: who changes
// one copies it before.
func (l *List[T]) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = slices.Clone(l.Items)
	return &out
}

// Register has a scheme know a type, and lists of it, under names of kinds.
func Register[T any, P interface {
	*T
	runtime.Object
}](s *runtime.Scheme, gv schema.GroupVersion, kinds ...string) {
	for _, kind := range kinds {
		s.AddKnownTypeWithName(gv.WithKind(kind), P(new(T)))
		s.AddKnownTypeWithName(gv.WithKind(kind+"List"), &List[T]{})
	}
	metav1.AddToGroupVersion(s, gv)
}

// CopyOf returns a copy of an object with metadata of its own. The rest is shared: nobody changes it
// in place.
func CopyOf[T any, P interface {
	*T
	metav1.ObjectMetaAccessor
}](o P) P {
	out := *o
	o.GetObjectMeta().(*metav1.ObjectMeta).DeepCopyInto(P(&out).GetObjectMeta().(*metav1.ObjectMeta))
	return &out
}
