// Package slim lets an informer keep of each object only what its owner reads.
//
// The informer lists and watches objects of a type T and stores values of a type K that
// are made of them. A K embeds metav1.ObjectMeta with at least name, namespace and
// resource version, which the informer needs; the rest of K are fields of its own, such
// as a digest, so that nothing has to be hidden in annotations. A typed object takes more
// than 1 kB however little is in it (experiment 0021).
package slim

import (
	"context"
	"errors"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
)

// Keep lets an informer store keep(o) in place of each object o of type T; objects of
// other types are stored as they are. An informer may transform an object that it has
// transformed already: where K is T, keep has to leave what it returned as it is. Keep
// fails where the informer runs already.
func Keep[T, K any](informer cache.SharedIndexInformer, keep func(T) (K, error)) error {
	return informer.SetTransform(Transform(keep))
}

// Transform returns the function that Keep gives to an informer.
func Transform[T, K any](keep func(T) (K, error)) cache.TransformFunc {
	return func(o any) (any, error) {
		if t, ok := o.(T); ok {
			return keep(t)
		}
		return o, nil
	}
}

// Set are caches that are started together.
type Set struct {
	all []cache.SharedIndexInformer
	err error
}

// Add adds a cache to a set, which is to keep keep(o) in place of each object o.
func Add[T, K any](s *Set, informer cache.SharedIndexInformer, keep func(T) (K, error)) cache.SharedIndexInformer {
	s.all, s.err = append(s.all, informer), errors.Join(s.err, Keep(informer, keep))
	return informer
}

// Start runs the caches until ctx ends, and returns when all of them hold what their servers
// hold. The caller waits on wait.
func (s *Set) Start(ctx context.Context, wait *sync.WaitGroup) error {
	if s.err != nil {
		return s.err
	}
	return loop.Start(ctx, wait, s.all...)
}

// Whole keeps an object as it is.
func Whole(o any) (any, error) { return o, nil }

// Always makes of a function that cannot fail one for Keep.
func Always[T, K any](keep func(T) K) func(T) (K, error) {
	return func(o T) (K, error) { return keep(o), nil }
}

// WithoutManagedFields keeps everything of an object but its managed fields.
func WithoutManagedFields(o metav1.Object) (metav1.Object, error) {
	o.SetManagedFields(nil)
	return o, nil
}

// Named returns the metadata that an informer and its users need to tell objects apart:
// name, namespace, UID and resource version.
func Named(o metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()}
}

// Lookup returns what an informer keeps under a key, and whether it keeps anything.
func Lookup[K any](informer cache.SharedIndexInformer, key string) (kept K, ok bool) {
	o, ok, _ := informer.GetIndexer().GetByKey(key) // the error is that of caches that ask a server
	if ok {
		kept = o.(K)
	}
	return kept, ok
}

// Get returns what an informer keeps under a key, and the zero value if it keeps nothing.
func Get[K any](informer cache.SharedIndexInformer, key string) K {
	kept, _ := Lookup[K](informer, key)
	return kept
}

// Has reports whether an informer keeps anything under a key.
func Has(informer cache.SharedIndexInformer, key string) bool {
	_, ok := Lookup[any](informer, key)
	return ok
}

// All returns everything that an informer keeps, in no order.
func All[K any](informer cache.SharedIndexInformer) []K {
	return typed[K](informer.GetIndexer().List())
}

// ByIndex returns what an informer keeps under a value of one of its indexes, in no order.
func ByIndex[K any](informer cache.SharedIndexInformer, index, value string) []K {
	all, err := informer.GetIndexer().ByIndex(index, value)
	if err != nil {
		panic(err) // the informer was made without this index
	}
	return typed[K](all)
}

func typed[K any](all []any) []K {
	out := make([]K, len(all))
	for i, o := range all {
		out[i] = o.(K)
	}
	return out
}
