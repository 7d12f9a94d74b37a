// Package resource is the client of one kind of a reference plane's own API
// group, over client-go's REST client: typed calls and an informer.
//
// It knows no kind, and no rate limit: the REST client has one.
package resource

import (
	"context"
	"fmt"
	"reflect"
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

// Client are the calls on one kind, whose objects T points to.
type Client[T Object] struct {
	rest rest.Interface
	name string
	send Send
}

// Send sends a request and reads the answer into an object.
type Send func(ctx context.Context, r *rest.Request, into runtime.Object) error

// New returns the calls on a resource, such as virtualmachines, of the REST
// client's group.
func New[T Object](r rest.Interface, name string) Client[T] {
	return NewSent[T](r, name, func(ctx context.Context, r *rest.Request, into runtime.Object) error { return r.Do(ctx).Into(into) })
}

// NewSent is New with a way of one's own to send the calls that return an object.
func NewSent[T Object](r rest.Interface, name string, send Send) Client[T] {
	return Client[T]{r, name, send}
}

// sendFor sends a request that is answered by an object of the kind.
func (c Client[T]) sendFor(ctx context.Context, r *rest.Request) (T, error) {
	out := empty[T]()
	err := c.send(ctx, r, out)
	return out, err
}

func empty[T Object]() T { return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T) }

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
	return c.sendFor(ctx, c.rest.Get().NamespaceIfScoped(namespace, namespace != "").Resource(c.name).Name(name))
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
	return c.sendFor(ctx, c.rest.Post().NamespaceIfScoped(o.GetNamespace(), o.GetNamespace() != "").Resource(c.name).Body(o))
}

// Update writes a whole object, or a part of it such as "status". It fails
// where the object has changed since it was read.
func (c Client[T]) Update(ctx context.Context, o T, part ...string) (T, error) {
	return c.sendFor(ctx, c.rest.Put().NamespaceIfScoped(o.GetNamespace(), o.GetNamespace() != "").Resource(c.name).Name(o.GetName()).SubResource(part...).Body(o))
}

// Patch is what is sent of a patch.
type Patch struct {
	Type types.PatchType
	Body []byte
}

// Patch sends a patch for the object that o names, or for a part of it.
func (c Client[T]) Patch(ctx context.Context, o metav1.Object, p Patch, part ...string) (T, error) {
	return c.sendFor(ctx, c.rest.Patch(p.Type).NamespaceIfScoped(o.GetNamespace(), o.GetNamespace() != "").Resource(c.name).Name(o.GetName()).SubResource(part...).Body(p.Body))
}

// Delete deletes the very object that o is, not a later one of its name.
func (c Client[T]) Delete(ctx context.Context, o metav1.Object) error {
	return c.rest.Delete().NamespaceIfScoped(o.GetNamespace(), o.GetNamespace() != "").Resource(c.name).Name(o.GetName()).
		Body(&metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(o.GetUID()))}).Do(ctx).Error()
}

// Informer returns an informer over all namespaces, of the objects with a
// label selector; the empty one selects all.
func (c Client[T]) Informer(selector string, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	return NewInformer[T](c.rest, c.name, metav1.NamespaceAll, metav1.ListOptions{LabelSelector: selector}, resync, indexers)
}

// NewInformer returns an informer of a resource in one namespace, or in all, of the objects
// with the selectors of options.
func NewInformer[T Object](r cache.Getter, name, namespace string, with metav1.ListOptions, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	lw := cache.NewFilteredListWatchFromClient(r, name, namespace, func(o *metav1.ListOptions) {
		o.LabelSelector, o.FieldSelector = with.LabelSelector, with.FieldSelector
	})
	return cache.NewSharedIndexInformer(lw, empty[T](), resync, indexers)
}
