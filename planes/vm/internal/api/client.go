package api

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Client speaks to an API server as one identity with one rate limit, which
// all its calls share: those on this group's kinds and those on core/v1's.
type Client struct {
	Core          typedcore.CoreV1Interface
	Instances     Resource[*Instance]
	Machines      Resource[*Machine]
	Migrations    Resource[*Migration]
	Installations Resource[*Installation]
}

// NewClient returns a client. The configuration says its rate limiter, or with a
// negative QPS that it has none: otherwise there would be one for each group of kinds.
// Clients may share a scheme, which is the result of Scheme: it is large.
func NewClient(config *rest.Config, scheme *runtime.Scheme) (*Client, error) {
	if config.RateLimiter == nil && config.QPS >= 0 {
		return nil, fmt.Errorf("client for %s: no rate limiter", config.Host)
	}
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{} // the server has one on the name of KubeVirt's finalizer, for every instance
	core, err := typedcore.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", config.Host, err)
	}
	own := rest.CopyConfig(config)
	gv := GroupVersion()
	own.GroupVersion, own.APIPath = &gv, "/apis"
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	r, err := rest.RESTClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", config.Host, err)
	}
	return &Client{
		Core:          core,
		Instances:     Resource[*Instance]{r, ResourceInstances, func() *Instance { return &Instance{} }},
		Machines:      Resource[*Machine]{r, ResourceMachines, func() *Machine { return &Machine{} }},
		Migrations:    Resource[*Migration]{r, ResourceMigrations, func() *Migration { return &Migration{} }},
		Installations: Resource[*Installation]{r, ResourceInstallation, func() *Installation { return &Installation{} }},
	}, nil
}

// Object is an API object of a kind here.
type Object interface {
	runtime.Object
	metav1.Object
}

// Resource are the calls on one kind.
type Resource[T Object] struct {
	rest rest.Interface
	name string
	make func() T
}

// Get reads one object.
func (r Resource[T]) Get(ctx context.Context, namespace, name string) (T, error) {
	out := r.make()
	err := r.rest.Get().Namespace(namespace).Resource(r.name).Name(name).Do(ctx).Into(out)
	return out, err
}

// Create makes an object.
func (r Resource[T]) Create(ctx context.Context, o T) (T, error) {
	out := r.make()
	err := r.rest.Post().Namespace(o.GetNamespace()).Resource(r.name).Body(o).Do(ctx).Into(out)
	return out, err
}

// Update writes a whole object, or a part of it such as "status". It fails
// where the object has changed since it was read.
func (r Resource[T]) Update(ctx context.Context, o T, part ...string) (T, error) {
	out := r.make()
	err := r.rest.Put().Namespace(o.GetNamespace()).Resource(r.name).Name(o.GetName()).SubResource(part...).Body(o).Do(ctx).Into(out)
	return out, err
}

// Patch sends a JSON Patch for the object that o names.
func (r Resource[T]) Patch(ctx context.Context, o metav1.Object, p *Patch, part ...string) (T, error) {
	out := r.make()
	body, err := p.Bytes()
	if err != nil {
		return out, err
	}
	err = r.rest.Patch(types.JSONPatchType).Namespace(o.GetNamespace()).Resource(r.name).Name(o.GetName()).
		SubResource(part...).Body(body).Do(ctx).Into(out)
	return out, err
}

// Delete deletes the very object that o is, not a later one of its name.
func (r Resource[T]) Delete(ctx context.Context, o metav1.Object) error {
	return r.rest.Delete().Namespace(o.GetNamespace()).Resource(r.name).Name(o.GetName()).
		Body(&metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(o.GetUID()))}).Do(ctx).Error()
}

// Informer returns an informer over all namespaces, of the objects with a
// label selector; the empty one selects all.
func (r Resource[T]) Informer(selector string, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	lw := cache.NewFilteredListWatchFromClient(r.rest, r.name, metav1.NamespaceAll, func(o *metav1.ListOptions) {
		o.LabelSelector = selector
	})
	return cache.NewSharedIndexInformer(lw, r.make(), resync, indexers)
}

// CoreInformer returns an informer of pods or nodes, as Informer does.
func CoreInformer(c typedcore.CoreV1Interface, resource, selector string, o InformerOptions) cache.SharedIndexInformer {
	lw := cache.NewFilteredListWatchFromClient(c.RESTClient(), resource, metav1.NamespaceAll, func(l *metav1.ListOptions) {
		l.LabelSelector, l.FieldSelector = selector, fields.Everything().String()
	})
	return cache.NewSharedIndexInformer(lw, o.Example, o.Resync, o.Indexers)
}

// InformerOptions say what an informer keeps.
type InformerOptions struct {
	Example  runtime.Object
	Resync   time.Duration
	Indexers cache.Indexers
}
