// Package resource is the client of one kind of a reference plane's own API
// group, over client-go's REST client: typed calls and an informer.
//
// It knows no kind, and no rate limit: the REST client has one.
package resource

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Object is an API object of a kind.
type Object interface {
	runtime.Object
	metav1.Object
}

// Client are the calls on one kind.
type Client[T Object] struct {
	rest rest.Interface
	name string
	make func() T
}

// New returns the calls on a resource, such as virtualmachines, of the REST
// client's group. make makes an empty object.
func New[T Object](r rest.Interface, name string, make func() T) Client[T] {
	return Client[T]{r, name, make}
}

// REST returns the REST client of a group's kinds, which a scheme knows.
func REST(config *rest.Config, gv schema.GroupVersion, s *runtime.Scheme) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &gv, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(s).WithoutConversion()
	r, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", config.Host, err)
	}
	return r, nil
}

// Get reads one object.
func (c Client[T]) Get(ctx context.Context, namespace, name string) (T, error) {
	out := c.make()
	err := c.rest.Get().NamespaceIfScoped(namespace, namespace != "").Resource(c.name).Name(name).Do(ctx).Into(out)
	return out, err
}

// List reads the objects with a label selector; without a namespace those of all.
func (c Client[T]) List(ctx context.Context, namespace, selector string) (out []T, err error) {
	got, err := c.rest.Get().NamespaceIfScoped(namespace, namespace != "").Resource(c.name).
		VersionedParams(&metav1.ListOptions{LabelSelector: selector}, metav1.ParameterCodec).Do(ctx).Get()
	if err != nil {
		return nil, err
	}
	err = meta.EachListItem(got, func(o runtime.Object) error {
		out = append(out, o.(T))
		return nil
	})
	return out, err
}

// Create makes an object.
func (c Client[T]) Create(ctx context.Context, o T) (T, error) {
	out := c.make()
	err := c.rest.Post().NamespaceIfScoped(o.GetNamespace(), o.GetNamespace() != "").Resource(c.name).Body(o).Do(ctx).Into(out)
	return out, err
}

// Update writes a whole object, or a part of it such as "status". It fails
// where the object has changed since it was read.
func (c Client[T]) Update(ctx context.Context, o T, part ...string) (T, error) {
	out := c.make()
	err := c.rest.Put().NamespaceIfScoped(o.GetNamespace(), o.GetNamespace() != "").Resource(c.name).Name(o.GetName()).SubResource(part...).Body(o).Do(ctx).Into(out)
	return out, err
}

// Patch is what is sent of a patch.
type Patch struct {
	Type types.PatchType
	Body []byte
}

// Patch sends a patch for the object that o names, or for a part of it.
func (c Client[T]) Patch(ctx context.Context, o metav1.Object, p Patch, part ...string) (T, error) {
	out := c.make()
	err := c.rest.Patch(p.Type).NamespaceIfScoped(o.GetNamespace(), o.GetNamespace() != "").Resource(c.name).Name(o.GetName()).SubResource(part...).Body(p.Body).Do(ctx).Into(out)
	return out, err
}

// Delete deletes the very object that o is, not a later one of its name.
func (c Client[T]) Delete(ctx context.Context, o metav1.Object) error {
	return c.rest.Delete().NamespaceIfScoped(o.GetNamespace(), o.GetNamespace() != "").Resource(c.name).Name(o.GetName()).
		Body(&metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(o.GetUID()))}).Do(ctx).Error()
}

// Informer returns an informer over all namespaces, of the objects with a
// label selector; the empty one selects all.
func (c Client[T]) Informer(selector string, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	lw := cache.NewFilteredListWatchFromClient(c.rest, c.name, metav1.NamespaceAll, func(o *metav1.ListOptions) {
		o.LabelSelector = selector
	})
	return cache.NewSharedIndexInformer(lw, c.make(), resync, indexers)
}
