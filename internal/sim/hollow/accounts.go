package hollow

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
)

// What every namespace has of the controllers of service accounts and of the root
// certificate: clients wait for both.
const (
	defaultAccount = "default"
	rootCA         = "kube-root-ca.crt"
)

// rootCANote is what an API server's controller writes on the certificate.
const rootCANote = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."

// settle makes what every namespace has, before whoever made the namespace is
// answered: with a real one a client has to wait for it.
func (c *Cluster) settle(namespace string) {
	if !c.server.options.Models.ServiceAccounts {
		return
	}
	name := metav1.ObjectMeta{Name: defaultAccount}
	c.ensure(c.accounts(), namespace, &corev1.ServiceAccount{ObjectMeta: name})
	name = metav1.ObjectMeta{Name: rootCA, Annotations: map[string]string{"kubernetes.io/description": rootCANote}}
	c.ensure(c.configMaps(), namespace, &corev1.ConfigMap{ObjectMeta: name, Data: map[string]string{"ca.crt": string(c.server.ca)}})
}

// resettle makes them again when one is gone from a namespace that stays.
func (c *Cluster) resettle(k *kind.Kind, m metav1.Object) {
	account := k.Table() == "serviceaccounts" && m.GetName() == defaultAccount
	root := k.Table() == "configmaps" && m.GetName() == rootCA
	if namespace := m.GetNamespace(); (account || root) && c.open(k, namespace) == nil {
		c.later(func() { c.settle(namespace) })
	}
}

// restoreRootCA gives the certificate back to one that somebody has changed.
func (c *Cluster) restoreRootCA(o *corev1.ConfigMap) {
	if !c.server.options.Models.ServiceAccounts || o.Name != rootCA || o.Data["ca.crt"] == string(c.server.ca) && len(o.Data) == 1 {
		return
	}
	t := target{kind: c.configMaps(), namespace: o.Namespace, name: rootCA}
	c.later(func() {
		_, _ = c.change(change{write: write{target: t}, of: func(old runtime.Object) (runtime.Object, error) {
			next := old.DeepCopyObject().(*corev1.ConfigMap)
			next.Data = map[string]string{"ca.crt": string(c.server.ca)}
			return next, nil
		}}) // it may be gone; then it is made again
	})
}

func (c *Cluster) accounts() *kind.Kind   { return c.kinds.Load().Find("", "v1", "serviceaccounts") }
func (c *Cluster) configMaps() *kind.Kind { return c.kinds.Load().Find("", "v1", "configmaps") }

// ensure creates an object unless there is one of its name.
func (c *Cluster) ensure(k *kind.Kind, namespace string, o runtime.Object) {
	if c.table(k).Get(kind.Key(namespace, kind.Meta(o).GetName())) != nil {
		return
	}
	_, _ = c.create(write{target: target{kind: k, namespace: namespace}}, o) // the namespace may be going
}
