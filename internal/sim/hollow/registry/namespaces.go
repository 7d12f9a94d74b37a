package registry

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// The objects of every namespace that the controllers of service accounts and of the root
// certificate create: clients wait for both.
const (
	defaultAccount = "default"
	rootCA         = "kube-root-ca.crt"
	rootCAKey      = "ca.crt"
)

// rootCANote is what an API server's controller writes on the certificate.
const rootCANote = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."

// namespaces is the controller of namespaces, of their service accounts and of their
// certificates.
type namespaces struct{ registry *Registry }

// fillNamespace creates the objects of a namespace that do not exist.
func (n namespaces) fillNamespace(namespace string, now time.Time) []Task {
	if n.registry.options.RootCA == "" {
		return nil
	}
	m := metav1.ObjectMeta{Name: defaultAccount}
	out := n.ensureObject("serviceaccounts", namespace, &corev1.ServiceAccount{ObjectMeta: m}, now)
	m = metav1.ObjectMeta{Name: rootCA, Annotations: map[string]string{"kubernetes.io/description": rootCANote}}
	return append(out, n.ensureObject("configmaps", namespace, &corev1.ConfigMap{ObjectMeta: m, Data: map[string]string{rootCAKey: n.registry.options.RootCA}}, now)...)
}

// refillNamespace creates an object of a namespace again when one was removed from a
// namespace that stays.
func (n namespaces) refillNamespace(k *kind.Kind, m metav1.Object) []Task {
	account := m.GetName() == defaultAccount && k.Table() == "serviceaccounts"
	certificate := m.GetName() == rootCA && k.Table() == "configmaps"
	if !account && !certificate || n.registry.checkNamespace(k, m.GetNamespace()) != nil {
		return nil
	}
	return []Task{{Verb: FillNamespace, Key: m.GetNamespace()}}
}

// checkRootCA restores a certificate that somebody has changed.
func (n namespaces) checkRootCA(o *corev1.ConfigMap) []Task {
	if n.registry.options.RootCA == "" || o.Name != rootCA || o.Data[rootCAKey] == n.registry.options.RootCA && len(o.Data) == 1 {
		return nil
	}
	return []Task{{Verb: RestoreRootCA, Key: o.Namespace}}
}

// restoreRootCA writes the certificate into the ConfigMap of a namespace. One that has
// gone is created again by another task.
func (n namespaces) restoreRootCA(namespace string, now time.Time) []Task {
	t := Target{Kind: n.registry.Kinds().Find("", "v1", "configmaps"), Namespace: namespace, Name: rootCA}
	return n.registry.changeAlways(Change{Write: Write{Target: t, Now: now}, Replace: func(old runtime.Object, _ time.Time) (runtime.Object, error) {
		next := old.DeepCopyObject().(*corev1.ConfigMap)
		next.Data = map[string]string{rootCAKey: n.registry.options.RootCA}
		return next, nil
	}})
}

// ensureObject creates an object unless one of its name exists, or the namespace is going.
func (n namespaces) ensureObject(plural, namespace string, o runtime.Object, now time.Time) []Task {
	k := n.registry.Kinds().Find("", "v1", plural)
	if n.registry.Table(k).Get(kind.Key(namespace, kind.Meta(o).GetName())) != nil {
		return nil
	}
	out, err := n.registry.Create(Write{Target: Target{Kind: k, Namespace: namespace}, Now: now}, o)
	if err != nil {
		return nil
	}
	return out.Tasks
}

// emptyNamespace deletes what is in a namespace that is being deleted, and lets the
// namespace go when nothing is left in it.
func (n namespaces) emptyNamespace(name string, now time.Time) (out []Task) {
	kinds := n.registry.Kinds()
	spaces := kinds.Find("", "v1", "namespaces")
	if o := n.registry.Table(spaces).Get(name); o == nil || spaces.Metadata(o.Raw).DeletionTimestamp == nil {
		return nil
	}
	left := 0
	for _, t := range n.registry.store.Tables() {
		if k := kinds.OfTable(t.Name); k != nil && k.Namespaced {
			stay, next := n.registry.deleteAll(k, store.Query{Prefix: name + "/"}, now)
			left += stay
			out = append(out, next...)
		}
	}
	if left > 0 {
		return out // who has a finalizer on them removes it; then the task comes again
	}
	return append(out, n.registry.changeAlways(Change{Write: Write{Target: Target{Kind: spaces, Name: name, Sub: "finalize"}, Now: now}, Replace: func(old runtime.Object, _ time.Time) (runtime.Object, error) {
		next := old.DeepCopyObject().(*corev1.Namespace)
		next.Spec.Finalizers = nil
		return next, nil
	}})...)
}

// CreateSystemNamespaces creates the namespaces that every cluster has from the
// beginning.
func (r *Registry) CreateSystemNamespaces(now time.Time) (out []Task) {
	k := r.Kinds().Find("", "v1", "namespaces")
	for _, name := range []string{metav1.NamespaceDefault, corev1.NamespaceNodeLease, metav1.NamespacePublic, metav1.NamespaceSystem} {
		done, err := r.Create(Write{Target: Target{Kind: k}, Now: now}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if err != nil {
			panic(err) // the registry is empty: nothing can refuse them
		}
		out = append(out, done.Tasks...)
	}
	return out
}
