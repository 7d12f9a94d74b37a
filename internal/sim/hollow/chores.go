package hollow

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// chores are what a cluster does of its own accord in place of controllers, one
// after another: a goroutine is there only while there are any.
type chores struct {
	mu      sync.Mutex
	queue   []func()
	running bool
}

// later does something soon, after what was asked for before.
func (c *Cluster) later(f func()) {
	q := &c.chores
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(q.queue, f)
	if !q.running {
		q.running = true
		c.server.running.Go(c.work)
	}
}

func (c *Cluster) work() {
	q := &c.chores
	for {
		q.mu.Lock()
		if len(q.queue) == 0 || c.server.ended() {
			q.running, q.queue = false, nil
			q.mu.Unlock()
			return
		}
		f := q.queue[0]
		q.queue = q.queue[1:]
		q.mu.Unlock()
		f()
	}
}

// wrote is told of every object that was stored, after it was.
func (c *Cluster) wrote(k *kind.Kind, o runtime.Object) {
	m := kind.Meta(o)
	deleting := m.GetDeletionTimestamp() != nil
	switch o := o.(type) {
	case *corev1.Namespace:
		if !deleting {
			c.settle(o.Name)
		} else if len(o.Spec.Finalizers) > 0 {
			c.later(func() { c.empty(o.Name) })
		}
	case *corev1.ConfigMap:
		c.restoreRootCA(o)
	case *apiextensionsv1.CustomResourceDefinition:
		c.define(o)
	}
	c.own(k, m)
	if deleting && len(m.GetFinalizers()) > 0 {
		c.release(k, m)
	}
}

// removed is told of every object that was removed, with its last state.
func (c *Cluster) removed(k *kind.Kind, o runtime.Object) {
	m := kind.Meta(o)
	c.disown(k, m)
	c.resettle(k, m)
	if d, ok := o.(*apiextensionsv1.CustomResourceDefinition); ok {
		c.undefine(d)
	}
	if k.Custom != nil {
		c.undefineLater(k)
	}
	if namespace := m.GetNamespace(); namespace != "" && c.open(k, namespace) != nil {
		c.later(func() { c.empty(namespace) })
	}
}

// empty removes what is in a namespace that is being removed, and the namespace
// once nothing is left in it.
func (c *Cluster) empty(namespace string) {
	kinds := c.kinds.Load()
	spaces := kinds.Find("", "v1", "namespaces")
	if o := c.table(spaces).Get(namespace); o == nil || spaces.Metadata(o.Raw).DeletionTimestamp == nil {
		return
	}
	left := 0
	for _, t := range c.store.Tables() {
		if k := kinds.OfTable(t.Name); k != nil && k.Namespaced {
			left += c.clear(k, store.Query{Prefix: namespace + "/"})
		}
	}
	if left > 0 {
		return // whoever has a finalizer on them ends it
	}
	_, _ = c.change(change{write: write{target: target{kind: spaces, name: namespace, sub: "finalize"}}, of: func(old runtime.Object) (runtime.Object, error) {
		next := old.DeepCopyObject().(*corev1.Namespace)
		next.Spec.Finalizers = nil
		return next, nil
	}}) // it may have gone in the meantime
}

// clear deletes objects, and returns how many stay because something else has to
// have its say.
func (c *Cluster) clear(k *kind.Kind, q store.Query) int {
	found, err := c.table(k).List(q)
	if err != nil {
		return 0
	}
	for _, o := range found.Objects {
		if !k.Metadata(o.Raw).DeletionTimestamp.IsZero() {
			continue
		}
		c.drop(k, o.Key, metav1.DeleteOptions{})
	}
	found, _ = c.table(k).List(q) // as before
	return len(found.Objects)
}

// drop deletes an object that may have gone already.
func (c *Cluster) drop(k *kind.Kind, key string, options metav1.DeleteOptions) {
	t := target{kind: k}
	t.namespace, t.name = kind.SplitKey(key)
	_, _ = c.delete(write{target: t}, &options)
}

// unfinalize takes a finalizer from an object.
func (c *Cluster) unfinalize(k *kind.Kind, key, finalizer string) {
	t := target{kind: k}
	t.namespace, t.name = kind.SplitKey(key)
	_, err := c.change(change{write: write{target: t}, of: func(old runtime.Object) (runtime.Object, error) {
		next := old.DeepCopyObject()
		m := kind.Meta(next)
		m.SetFinalizers(slices.DeleteFunc(m.GetFinalizers(), func(f string) bool { return f == finalizer }))
		return next, nil
	}})
	if err != nil && !apierrors.IsNotFound(err) {
		return // it was changed into what is not valid; whoever changes it next ends it
	}
}
