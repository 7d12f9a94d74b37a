package api

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
)

// Client speaks to an API server as one identity. All its calls share one rate limit, or,
// where the limiter has buckets by name, those on a kind do.
type Client struct {
	Core         typedcore.CoreV1Interface
	Applications resource.Client[*Application]
	Revisions    resource.Client[*Revision]
	Trackers     resource.Client[*Tracker]
	Definitions  map[string]resource.Client[*Definition] // by kind
}

// NewClient returns a client. The configuration says its rate limiter, or with a
// negative QPS that it has none: otherwise there would be one for each group of kinds.
func NewClient(config *rest.Config, scheme *runtime.Scheme) (*Client, error) {
	if config.RateLimiter == nil && config.QPS >= 0 {
		return nil, fmt.Errorf("client for %s: no rate limiter", config.Host)
	}
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{} // the server has one on the name of KubeVela's finalizers
	core, err := typedcore.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", config.Host, err)
	}
	own := rest.CopyConfig(config)
	gv := GroupVersion()
	own.GroupVersion, own.APIPath = &gv, "/apis"
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	h, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", config.Host, err)
	}
	byKind := map[string]rest.Interface{}
	for _, kind := range append(DefinitionKinds(), KindApplication, KindRevision, KindTracker) {
		own := rest.CopyConfig(own)
		if named, ok := config.RateLimiter.(interface {
			Of(name string) flowcontrol.RateLimiter
		}); ok {
			own.RateLimiter = named.Of(kind)
		}
		if byKind[kind], err = rest.RESTClientForConfigAndClient(own, h); err != nil {
			return nil, fmt.Errorf("client for %s: %w", config.Host, err)
		}
	}
	c := &Client{
		Core:         core,
		Applications: resource.New[*Application](byKind[KindApplication], Resource(KindApplication)),
		Revisions:    resource.New[*Revision](byKind[KindRevision], Resource(KindRevision)),
		Trackers:     resource.New[*Tracker](byKind[KindTracker], Resource(KindTracker)),
		Definitions:  map[string]resource.Client[*Definition]{},
	}
	for _, kind := range DefinitionKinds() {
		c.Definitions[kind] = resource.New[*Definition](byKind[kind], Resource(kind))
	}
	return c, nil
}
