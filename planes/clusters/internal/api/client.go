package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
)

// ClientOptions say how a client sends.
type ClientOptions struct {
	Rate    limiter.Rate
	Timeout time.Duration // of a call, its wait for the limiter aside; 0: none
	// Waited is told how long a call waited for the limiter of a name, in seconds; may be nil.
	Waited func(limiter string, seconds float64)
}

// Client speaks to an API server with Kosmos' many limiters, each of the same rate:
// one of its typed client, one of its dynamic client, one of controller-runtime's for
// each kind.
type Client struct {
	// By the typed client.
	Nodes Kind[*corev1.Node]
	// By the dynamic one, in JSON.
	ConfigMaps Kind[*corev1.ConfigMap]
	Secrets    Kind[*corev1.Secret]
	Services   Kind[*corev1.Service]
	Claims     Kind[*corev1.PersistentVolumeClaim]
	// By controller-runtime's.
	Leases          Kind[*coordinationv1.Lease]
	Pods            Kind[*corev1.Pod]
	Namespaces      Kind[*corev1.Namespace]
	Accounts        Kind[*corev1.ServiceAccount]
	Clusters        Kind[*Cluster]
	Policies        Kind[*ConvertPolicy]
	ClusterPolicies Kind[*ConvertPolicy]
	Slices          Kind[*discoveryv1.EndpointSlice]
	Exports         Kind[*Mark]
	Imports         Kind[*Mark]
	// By the typed client again.
	Events       Kind[*corev1.Event]
	Volumes      Kind[*corev1.PersistentVolume]
	ClaimsStatus Kind[*corev1.PersistentVolumeClaim] // what becomes of claims

	typed sender
}

// sender is what calls of one limiter share.
type sender struct {
	rest    rest.Interface
	limiter flowcontrol.RateLimiter
	name    string
	options ClientOptions
	clock   clock.Clock
}

// NewClient returns a client.
func NewClient(config *rest.Config, o ClientOptions) (*Client, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.RateLimiter, config.Timeout = -1, nil, 0 // the limiters are here; a timeout would end watches
	config.WarningHandler = rest.NoWarnings{}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", config.Host, err)
	}
	b := &builder{config: config, http: client, options: o, clock: clock.Start()}
	builtin, core := scheme.Codecs.WithoutConversion(), corev1.SchemeGroupVersion
	const proto = runtime.ContentTypeProtobuf
	typed := b.newSender("typed", b.newREST(core, proto, builtin))
	leases := b.newSender("leases", b.newREST(coordinationv1.SchemeGroupVersion, proto, builtin))
	dynamic := b.newSender("dynamic", b.newREST(core, runtime.ContentTypeJSON, builtin))
	of := func(kind string) sender { return b.newSender(kind, typed.rest) }
	group := b.newREST(GroupVersion(), runtime.ContentTypeJSON, serializer.NewCodecFactory(newScheme()).WithoutConversion())
	c := &Client{
		Nodes:           newKind[*corev1.Node](typed, "nodes"),
		Leases:          newKind[*coordinationv1.Lease](leases, "leases"),
		ConfigMaps:      newKind[*corev1.ConfigMap](dynamic, "configmaps"),
		Secrets:         newKind[*corev1.Secret](dynamic, "secrets"),
		Services:        newKind[*corev1.Service](dynamic, "services"),
		Pods:            newKind[*corev1.Pod](of("pods"), "pods"),
		Accounts:        newKind[*corev1.ServiceAccount](of("serviceaccounts"), "serviceaccounts"),
		Namespaces:      newKind[*corev1.Namespace](of("namespaces"), "namespaces"),
		Clusters:        newKind[*Cluster](b.newSender(ResourceClusters, group), ResourceClusters),
		Policies:        newKind[*ConvertPolicy](b.newSender(ResourcePolicies, group), ResourcePolicies),
		ClusterPolicies: newKind[*ConvertPolicy](b.newSender(ResourceClusterPolicies, group), ResourceClusterPolicies),
		Slices:          newKind[*discoveryv1.EndpointSlice](b.newSender("endpointslices", b.newREST(discoveryv1.SchemeGroupVersion, proto, builtin)), "endpointslices"),
		Exports:         b.newMarkKind(ResourceExports, "ServiceExport"),
		Imports:         b.newMarkKind(ResourceImports, "ServiceImport"),
		Events:          newKind[*corev1.Event](typed, "events"),
		Claims:          newKind[*corev1.PersistentVolumeClaim](dynamic, resourceClaims),
		Volumes:         newKind[*corev1.PersistentVolume](typed, "persistentvolumes"),
		ClaimsStatus:    newKind[*corev1.PersistentVolumeClaim](typed, resourceClaims),
		typed:           typed,
	}
	return c, b.err
}

const resourceClaims = "persistentvolumeclaims"

// builder makes the parts of a client; the first error stays.
type builder struct {
	config  *rest.Config
	http    *http.Client
	options ClientOptions
	clock   clock.Clock
	err     error
}

func (b *builder) newREST(gv schema.GroupVersion, media string, codecs runtime.NegotiatedSerializer) rest.Interface {
	c := rest.CopyConfig(b.config)
	c.GroupVersion, c.NegotiatedSerializer, c.APIPath = &gv, codecs, "/apis"
	if gv.Group == "" {
		c.APIPath = "/api"
	}
	c.ContentType, c.AcceptContentTypes = media, media
	r, err := rest.RESTClientForConfigAndClient(c, b.http)
	if err != nil && b.err == nil {
		b.err = fmt.Errorf("client for %s: %w", c.Host, err)
	}
	return r
}

func (b *builder) newMarkKind(resource, kind string) Kind[*Mark] {
	r := b.newREST(servicesVersion(), runtime.ContentTypeJSON, serializer.NewCodecFactory(newMarkScheme(kind)).WithoutConversion())
	return newKind[*Mark](b.newSender(resource, r), resource)
}

func (b *builder) newSender(name string, r rest.Interface) sender {
	return sender{rest: r, limiter: flowcontrol.NewTokenBucketRateLimiter(b.options.Rate.QPS, b.options.Rate.Burst), name: name, options: b.options, clock: b.clock}
}

// sendCall sends a call when the limiter lets it, and reads its answer into an object
// unless that is nil.
func (s *sender) sendCall(ctx context.Context, r *rest.Request, into runtime.Object) error {
	begin := s.clock.Now()
	if err := s.limiter.Wait(ctx); err != nil {
		return err
	}
	if s.options.Waited != nil {
		s.options.Waited(s.name, s.clock.Now().Sub(begin).Seconds())
	}
	if s.options.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.options.Timeout)
		defer cancel()
	}
	if into == nil {
		return r.Do(ctx).Error()
	}
	return r.Do(ctx).Into(into)
}

// Version asks the server for its version, which shows that it answers.
func (c *Client) Version(ctx context.Context) error { return c.getPath(ctx, "/version") }

// Discover asks the server what it serves, as a client does that knows nothing of it: which
// groups and versions and, with all, each of those for its resources.
func (c *Client) Discover(ctx context.Context, all bool) error {
	core, groups := &metav1.APIVersions{}, &metav1.APIGroupList{}
	if err := c.readPath(ctx, "/api", core); err != nil {
		return err
	}
	if err := c.readPath(ctx, "/apis", groups); err != nil || !all {
		return err
	}
	var paths []string
	for _, v := range core.Versions {
		paths = append(paths, "/api/"+v)
	}
	for i := range groups.Groups {
		for _, v := range groups.Groups[i].Versions {
			paths = append(paths, "/apis/"+v.GroupVersion)
		}
	}
	for _, path := range paths {
		if err := c.getPath(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) getPath(ctx context.Context, path string) error {
	return c.typed.sendCall(ctx, c.typed.rest.Get().AbsPath(path).SetHeader("Accept", runtime.ContentTypeJSON), nil)
}

// readPath reads what is in no group, and so in no scheme.
func (c *Client) readPath(ctx context.Context, path string, into any) error {
	var raw runtime.Unknown
	if err := c.typed.sendCall(ctx, c.typed.rest.Get().AbsPath(path).SetHeader("Accept", runtime.ContentTypeJSON), &raw); err != nil {
		return err
	}
	return json.Unmarshal(raw.Raw, into)
}

// Object is an API object of a kind.
type Object = resource.Object

// Kind are the calls on one kind.
type Kind[T Object] struct {
	resource.Client[T]
	sender
	name string
}

func newKind[T Object](s sender, name string) Kind[T] {
	return Kind[T]{resource.NewSent[T](s.rest, name, s.sendCall), s, name}
}

// List reads those of a namespace, or of all, that options select.
func (k Kind[T]) List(ctx context.Context, namespace string, into runtime.Object, o metav1.ListOptions) error {
	return k.sendCall(ctx, k.rest.Get().NamespaceIfScoped(namespace, namespace != "").Resource(k.name).VersionedParams(&o, scheme.ParameterCodec), into)
}

// PatchIn sends a strategic merge patch for an object of a namespace, and returns what
// came of it.
func (k Kind[T]) PatchIn(ctx context.Context, namespace, name string, body []byte) (T, error) {
	of := &metav1.ObjectMeta{Namespace: namespace, Name: name}
	return k.Client.Patch(ctx, of, resource.Patch{Type: types.StrategicMergePatchType, Body: body})
}

// Patch sends a strategic merge patch for an object without a namespace, or for a part of it.
func (k Kind[T]) Patch(ctx context.Context, name string, body []byte, part ...string) error {
	return k.sendCall(ctx, k.rest.Patch(types.StrategicMergePatchType).Resource(k.name).Name(name).SubResource(part...).Body(body), nil)
}

// Delete deletes an object.
func (k Kind[T]) Delete(ctx context.Context, namespace, name string, o metav1.DeleteOptions) error {
	return k.sendCall(ctx, k.rest.Delete().NamespaceIfScoped(namespace, namespace != "").Resource(k.name).Name(name).Body(&o), nil)
}

// DeleteAll deletes the objects of a namespace that a label selector selects.
func (k Kind[T]) DeleteAll(ctx context.Context, namespace, selector string) error {
	o := metav1.ListOptions{LabelSelector: selector}
	return k.sendCall(ctx, k.rest.Delete().Namespace(namespace).Resource(k.name).VersionedParams(&o, scheme.ParameterCodec), nil)
}

// Informer returns an informer over all namespaces, of the objects with a label
// selector; the empty one selects all. Its calls pass no limiter.
func (k Kind[T]) Informer(selector string, indexers cache.Indexers) cache.SharedIndexInformer {
	return k.Client.Informer(selector, 0, indexers)
}
