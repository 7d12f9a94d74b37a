package registry

import (
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
)

// prepareCreate makes of what a client sends what a new object begins with.
func prepareCreate(k *kind.Kind, o runtime.Object) {
	if k.Generation {
		kind.Meta(o).SetGeneration(1)
	}
	if k.Status && !k.KeepStatus {
		setStatus(o, nil)
	}
	switch o := o.(type) {
	case *corev1.Pod:
		defaultPod(&o.Spec)
		o.Status.Phase = corev1.PodPending
		o.Status.QOSClass = qosClassOf(&o.Spec)
	case *corev1.Node:
		defaultNode(o)
	case *corev1.Namespace:
		o.Status.Phase = corev1.NamespaceActive
		o.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
		metav1.SetMetaDataLabel(&o.ObjectMeta, corev1.LabelMetadataName, o.Name)
	case *corev1.PersistentVolume:
		o.Status.Phase = corev1.VolumePending
	case *corev1.PersistentVolumeClaim:
		o.Status.Phase = corev1.ClaimPending
	case *corev1.Secret:
		prepareSecret(o)
	case *apiextensionsv1.CustomResourceDefinition:
		defaultDefinition(o)
		prepareDefinition(o)
	}
}

func prepareSecret(o *corev1.Secret) {
	if o.Type == "" {
		o.Type = corev1.SecretTypeOpaque
	}
	for name, value := range o.StringData {
		if o.Data == nil {
			o.Data = map[string][]byte{}
		}
		o.Data[name] = []byte(value)
	}
	o.StringData = nil
}

// prepareUpdate takes out of an object what the request may not change: its status,
// or all but its status.
func prepareUpdate(k *kind.Kind, sub string, next, old runtime.Object) {
	m, was := kind.Meta(next), kind.Meta(old)
	switch {
	case sub == "status":
		keepAllButStatus(next, old)
		if k.StatusMeta {
			keepMeta(next, old)
		}
		prepareStatus(next, old)
		return
	case k.Status && sub != "finalize" && sub != "approval":
		copyStatus(next, old)
	}
	switch next := next.(type) {
	case *corev1.Namespace:
		if sub != "finalize" {
			next.Spec.Finalizers = old.(*corev1.Namespace).Spec.Finalizers
		}
	case *corev1.Pod:
		defaultPod(&next.Spec)
	case *corev1.Secret:
		prepareSecret(next)
	case *apiextensionsv1.CustomResourceDefinition:
		defaultDefinition(next)
	}
	if k.Generation && !sameContent(k, next, old) {
		m.SetGeneration(was.GetGeneration() + 1)
	}
}

// prepareStatus is what kinds of their own want of a write of their status.
func prepareStatus(next, old runtime.Object) {
	switch next := next.(type) {
	case *corev1.Pod:
		was := old.(*corev1.Pod)
		next.DeletionTimestamp, next.OwnerReferences = nil, was.OwnerReferences
		if next.Status.QOSClass == "" {
			next.Status.QOSClass = was.Status.QOSClass
		}
	case *corev1.Node:
		defaultNode(next)
	default:
		if next.GetObjectKind().GroupVersionKind().GroupKind().String() == "Deployment.apps" {
			kind.Meta(next).SetLabels(kind.Meta(old).GetLabels())
		}
	}
}

// fieldOf returns a field of an object in Go; not ok without one.
func fieldOf(o runtime.Object, name string) (reflect.Value, bool) {
	v := reflect.ValueOf(o).Elem().FieldByName(name)
	return v, v.IsValid()
}

func copyStatus(next, old runtime.Object) {
	if u, ok := old.(*unstructured.Unstructured); ok {
		setStatus(next, u.Object["status"])
		return
	}
	if v, ok := fieldOf(old, "Status"); ok {
		to, _ := fieldOf(next, "Status")
		to.Set(v)
	}
}

// setStatus sets an object's status; nil for none.
func setStatus(o runtime.Object, status any) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		if status == nil {
			delete(u.Object, "status")
			return
		}
		u.Object["status"] = status
		return
	}
	if v, ok := fieldOf(o, "Status"); ok {
		v.SetZero()
	}
}

// keepAllButStatus gives an object all of the old one but metadata and status.
func keepAllButStatus(next, old runtime.Object) {
	if u, ok := next.(*unstructured.Unstructured); ok {
		was := old.(*unstructured.Unstructured)
		kept := map[string]any{}
		maps.Copy(kept, was.Object)
		kept["metadata"] = u.Object["metadata"]
		delete(kept, "status")
		if v, there := u.Object["status"]; there {
			kept["status"] = v
		}
		u.Object = kept
		return
	}
	to, from := reflect.ValueOf(next).Elem(), reflect.ValueOf(old).Elem()
	for i := range to.NumField() {
		switch to.Type().Field(i).Name {
		case "TypeMeta", "ObjectMeta", "Status":
		default:
			to.Field(i).Set(from.Field(i))
		}
	}
}

// keepMeta gives an object the metadata of the old one, but for who manages its
// fields and what the request says of its version.
func keepMeta(next, old runtime.Object) {
	managed := kind.Meta(next).GetManagedFields()
	uid, version := kind.Meta(next).GetUID(), kind.Meta(next).GetResourceVersion()
	if u, ok := next.(*unstructured.Unstructured); ok {
		u.Object["metadata"] = old.(*unstructured.Unstructured).DeepCopy().Object["metadata"]
	} else {
		to, _ := fieldOf(next, "ObjectMeta")
		from, _ := fieldOf(old, "ObjectMeta")
		to.Set(from)
	}
	m := kind.Meta(next)
	m.SetManagedFields(managed)
	m.SetResourceVersion(version)
	if uid != "" {
		m.SetUID(uid)
	}
}

// sameContent says whether nothing but metadata and status differs.
func sameContent(k *kind.Kind, a, b runtime.Object) bool {
	if u, ok := a.(*unstructured.Unstructured); ok {
		without := func(o map[string]any) map[string]any {
			out := map[string]any{}
			for name, v := range o {
				if name != "metadata" && !(k.Status && name == "status") {
					out[name] = v
				}
			}
			return out
		}
		return apiequality.Semantic.DeepEqual(without(u.Object), without(b.(*unstructured.Unstructured).Object))
	}
	x, y := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range x.NumField() {
		switch x.Type().Field(i).Name {
		case "TypeMeta", "ObjectMeta", "Status":
		default:
			if !apiequality.Semantic.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
				return false
			}
		}
	}
	return true
}

// qosClassOf returns a pod's class of service: guaranteed when every container has
// limits of CPU and memory that are its requests, best effort when none asks for
// anything.
func qosClassOf(spec *corev1.PodSpec) corev1.PodQOSClass {
	guaranteed, asks := true, false
	for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for _, c := range list {
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				limit, request := c.Resources.Limits[name], c.Resources.Requests[name]
				if _, named := c.Resources.Requests[name]; !named {
					request = limit
				}
				asks = asks || !limit.IsZero() || !request.IsZero()
				guaranteed = guaranteed && !limit.IsZero() && limit.Cmp(request) == 0
			}
		}
	}
	switch {
	case !asks:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}
