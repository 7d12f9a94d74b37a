package registry

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
)

func ScaleKind() *kind.Kind {
	return kind.Form(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
}

// replicas are what a Scale is about, in a built-in object.
type replicas struct {
	asked    **int32
	is       int32
	selector *metav1.LabelSelector
	labels   map[string]string
}

func replicasOf(o runtime.Object) (replicas, bool) {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return replicas{asked: &o.Spec.Replicas, is: o.Status.Replicas, selector: o.Spec.Selector}, true
	case *appsv1.ReplicaSet:
		return replicas{asked: &o.Spec.Replicas, is: o.Status.Replicas, selector: o.Spec.Selector}, true
	case *appsv1.StatefulSet:
		return replicas{asked: &o.Spec.Replicas, is: o.Status.Replicas, selector: o.Spec.Selector}, true
	case *corev1.ReplicationController:
		return replicas{asked: &o.Spec.Replicas, is: o.Status.Replicas, labels: o.Spec.Selector}, true
	}
	return replicas{}, false
}

// ScaleOf returns the Scale of an object.
func ScaleOf(k *kind.Kind, o runtime.Object) (*autoscalingv1.Scale, error) {
	m := kind.Meta(o)
	s := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{
		Name: m.GetName(), Namespace: m.GetNamespace(), UID: m.GetUID(),
		ResourceVersion: m.GetResourceVersion(), CreationTimestamp: m.GetCreationTimestamp(),
	}}
	s.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	if c, ok := replicasOf(o); ok {
		if *c.asked != nil {
			s.Spec.Replicas = **c.asked
		}
		s.Status.Replicas = c.is
		selector, err := metav1.LabelSelectorAsSelector(c.selector)
		if c.labels != nil {
			selector = labels.SelectorFromSet(c.labels)
		}
		if err == nil {
			s.Status.Selector = selector.String()
		}
		return s, err
	}
	u, ok := o.(*unstructured.Unstructured)
	if !ok || k.Custom.Scale == nil {
		return nil, fmt.Errorf("%s has no scale", k.Kind)
	}
	paths := k.Custom.Scale
	n, found, err := unstructured.NestedInt64(u.Object, splitPath(paths.SpecReplicasPath)...)
	if err != nil || !found {
		return nil, apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", paths.SpecReplicasPath))
	}
	s.Spec.Replicas = int32(n)
	n, _, _ = unstructured.NestedInt64(u.Object, splitPath(paths.StatusReplicasPath)...) // none yet
	s.Status.Replicas = int32(n)
	if p := paths.LabelSelectorPath; p != nil {
		s.Status.Selector, _, _ = unstructured.NestedString(u.Object, splitPath(*p)...) // none yet
	}
	return s, nil
}

// splitPath splits a path such as .spec.replicas.
func splitPath(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

// SetScale returns an object with the count of a Scale.
func SetScale(k *kind.Kind, old, scale runtime.Object) (runtime.Object, error) {
	s := scale.(*autoscalingv1.Scale)
	if s.Spec.Replicas < 0 {
		return nil, apierrors.NewBadRequest("spec.replicas must not be negative")
	}
	next := old.DeepCopyObject()
	if v := s.ResourceVersion; v != "" {
		kind.Meta(next).SetResourceVersion(v)
	}
	if c, ok := replicasOf(next); ok {
		*c.asked = new(s.Spec.Replicas)
		return next, nil
	}
	u := next.(*unstructured.Unstructured)
	return next, unstructured.SetNestedField(u.Object, int64(s.Spec.Replicas), splitPath(k.Custom.Scale.SpecReplicasPath)...)
}
