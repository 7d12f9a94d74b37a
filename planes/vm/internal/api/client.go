package api

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
)

// Client speaks to an API server as one identity with one rate limit, which
// all its calls share: those on this group's kinds and those on core/v1's. With a limit by
// name, those on this group's kinds have a bucket of their own.
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
	config.WarningHandler = rest.NoWarnings{} // the server has one on the finalizer's former name, for every instance
	core, err := typedcore.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", config.Host, err)
	}
	if l, ok := config.RateLimiter.(*limiter.Reloadable); ok {
		config.RateLimiter = l.Of(Group) // which is the same bucket, unless names have their own
	}
	r, err := resource.REST(config, GroupVersion(), scheme)
	if err != nil {
		return nil, err
	}
	return &Client{
		Core:          core,
		Instances:     Resource[*Instance]{resource.New[*Instance](r, ResourceInstances)},
		Machines:      Resource[*Machine]{resource.New[*Machine](r, ResourceMachines)},
		Migrations:    Resource[*Migration]{resource.New[*Migration](r, ResourceMigrations)},
		Installations: Resource[*Installation]{resource.New[*Installation](r, ResourceInstallation)},
	}, nil
}

// Resource are the calls on one kind.
type Resource[T resource.Object] struct{ resource.Client[T] }

// Patch sends a JSON Patch for the object that o names.
func (r Resource[T]) Patch(ctx context.Context, o metav1.Object, p *Patch, part ...string) (T, error) {
	body, err := p.Bytes()
	if err != nil {
		var none T
		return none, err
	}
	return r.Client.Patch(ctx, o, resource.Patch{Type: types.JSONPatchType, Body: body}, part...)
}
