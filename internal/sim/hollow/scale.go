package hollow

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

func scaleKind() *kind.Kind {
	return kind.Form(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
}

// answerPart answers with an object, or with the part of it that the request is
// about.
func (q *request) answerPart(code int, r result) error {
	if q.sub != "scale" {
		return q.object(code, r)
	}
	o := r.typed
	if o == nil {
		var err error
		if o, err = q.kind.Decode(r.stored.Raw); err != nil {
			return err
		}
	}
	s, err := scaleOf(q.kind, o)
	if err != nil {
		return err
	}
	return q.object(code, result{kind: scaleKind(), typed: s})
}

// counts are what a Scale is about, in a built-in object.
type counts struct {
	asked    **int32
	is       int32
	selector *metav1.LabelSelector
	labels   map[string]string
}

func countsOf(o runtime.Object) (counts, bool) {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return counts{asked: &o.Spec.Replicas, is: o.Status.Replicas, selector: o.Spec.Selector}, true
	case *appsv1.ReplicaSet:
		return counts{asked: &o.Spec.Replicas, is: o.Status.Replicas, selector: o.Spec.Selector}, true
	case *appsv1.StatefulSet:
		return counts{asked: &o.Spec.Replicas, is: o.Status.Replicas, selector: o.Spec.Selector}, true
	case *corev1.ReplicationController:
		return counts{asked: &o.Spec.Replicas, is: o.Status.Replicas, labels: o.Spec.Selector}, true
	}
	return counts{}, false
}

// scaleOf returns the Scale of an object.
func scaleOf(k *kind.Kind, o runtime.Object) (*autoscalingv1.Scale, error) {
	m := kind.Meta(o)
	s := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{
		Name: m.GetName(), Namespace: m.GetNamespace(), UID: m.GetUID(),
		ResourceVersion: m.GetResourceVersion(), CreationTimestamp: m.GetCreationTimestamp(),
	}}
	s.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	if c, ok := countsOf(o); ok {
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
	n, found, err := unstructured.NestedInt64(u.Object, fieldsOf(paths.SpecReplicasPath)...)
	if err != nil || !found {
		return nil, apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", paths.SpecReplicasPath))
	}
	s.Spec.Replicas = int32(n)
	n, _, _ = unstructured.NestedInt64(u.Object, fieldsOf(paths.StatusReplicasPath)...) // none yet
	s.Status.Replicas = int32(n)
	if p := paths.LabelSelectorPath; p != nil {
		s.Status.Selector, _, _ = unstructured.NestedString(u.Object, fieldsOf(*p)...) // none yet
	}
	return s, nil
}

// fieldsOf splits a path such as .spec.replicas.
func fieldsOf(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

// scaled returns an object with the count of a Scale.
func scaled(k *kind.Kind, old, scale runtime.Object) (runtime.Object, error) {
	s := scale.(*autoscalingv1.Scale)
	if s.Spec.Replicas < 0 {
		return nil, apierrors.NewBadRequest("spec.replicas must not be negative")
	}
	next := old.DeepCopyObject()
	if v := s.ResourceVersion; v != "" {
		kind.Meta(next).SetResourceVersion(v)
	}
	if c, ok := countsOf(next); ok {
		*c.asked = new(s.Spec.Replicas)
		return next, nil
	}
	u := next.(*unstructured.Unstructured)
	return next, unstructured.SetNestedField(u.Object, int64(s.Spec.Replicas), fieldsOf(k.Custom.Scale.SpecReplicasPath)...)
}
