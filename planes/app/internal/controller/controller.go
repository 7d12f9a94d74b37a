// Package controller is the app plane's controller, the part of KubeVela's
// vela-core that the plane needs: it renders applications into objects, writes
// down first what it is about to make, keeps objects as they were rendered, and
// cleans up what no revision holds any more.
//
// It is a real controller on a real API server, and it sends the requests that
// KubeVela sends, in their order. It keeps nothing that matters in memory: killed
// at any moment, the next one goes on from what the server holds.
package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
	"github.com/windtunnel/windtunnel/planes/app/internal/plan"
	"github.com/windtunnel/windtunnel/planes/app/internal/webhook"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
	"github.com/windtunnel/windtunnel/planes/internal/kit/unseen"
)

// Controller is a running controller.
type Controller struct {
	o        Options
	client   *api.Client
	objects  objects
	events   record.EventRecorder
	metrics  *metrics
	requests requests
	memory   *memories
	unseen   *unseen.Writes
	tools    plan.Tools
	clusters members
	drift    *drift // nil: every pass reads every object
	loop     *loop.Loop
	rng      *chance

	applications, revisions, trackers, configMaps cache.SharedIndexInformer // configMaps may be nil
	definitions                                   map[string]cache.SharedIndexInformer
}

// byApplication indexes revisions and trackers by NAMESPACE/NAME of their application.
const byApplication = "application"

// passTimeout bounds one pass over an application.
const passTimeout = 3 * time.Minute

// Run runs a controller until ctx ends; it returns when all has ended.
func Run(ctx context.Context, o Options) error {
	c, err := newController(o)
	if err != nil {
		return err
	}
	return c.runPrepared(ctx)
}

// runPrepared runs what was prepared.
func (c *Controller) runPrepared(ctx context.Context) error {
	o := c.o
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	if err := c.recordEvents(broadcaster); err != nil {
		return err
	}
	return o.Work(ctx, func(ctx context.Context, g *process.Group) error {
		if err := c.addHandlers(); err != nil {
			return err
		}
		if err := g.Sync(ctx, c.allInformers()...); err != nil {
			return err
		}
		c.drift.startWatches(ctx, &g.WaitGroup)
		g.Run(ctx, c.loop)
		o.Log.Info("controller runs", "limiter", o.Limiter.String(), "workers", o.Workers, "shard", o.ShardID)
		if o.Webhook {
			return webhook.Run(ctx, webhook.Options{Env: o.Env, Listen: o.WebhookListen, Types: true, Review: c.reviewApplication})
		}
		return nil
	})
}

// reviewApplication says what is wrong with an application that somebody wants to store: it is
// rendered once, from what the caches hold.
func (c *Controller) reviewApplication(app *api.Application) error {
	p, err := plan.New(app, app.Spec.Workflow, c.tools)
	if err != nil {
		return err
	}
	if err := p.ReadPolicies(); err != nil {
		return err
	}
	for _, component := range app.Spec.Components {
		if _, err := p.Render(component, plan.Place{}); err != nil {
			return err
		}
	}
	return nil
}

// newController makes what a controller consists of.
func newController(o Options) (*Controller, error) {
	limit := newLimiter(o)
	o.Registry.Handle("/limiter", limit)
	config, err := clientConfig(o, limit)
	if err != nil {
		return nil, fmt.Errorf("app-controller: %w", err)
	}
	client, err := api.NewClient(config, api.Scheme())
	if err != nil {
		return nil, fmt.Errorf("app-controller: %w", err)
	}
	raw, err := rest.UnversionedRESTClientFor(dynamic.ConfigFor(config))
	if err != nil {
		return nil, fmt.Errorf("app-controller: %w", err)
	}
	if o.Mapper == nil {
		d, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			return nil, fmt.Errorf("app-controller: %w", err)
		}
		o.Mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(d))
	}
	selector := ""
	if o.ShardID != "" {
		selector = api.LabelShard + "=" + o.ShardID
	}
	indices, revisionIndices := cache.Indexers{}, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	if o.Features.IndexLists {
		indices[byApplication], revisionIndices[byApplication] = indexLabels, indexLabels
	}
	c := &Controller{
		o: o, client: client, metrics: newMetrics(o.Registry, o.Clock, o.Workers), memory: newMemories(),
		applications: client.Applications.Informer(selector, o.InformerResync, nil),
		revisions:    client.Revisions.Informer(selector, o.InformerResync, revisionIndices),
		trackers:     client.Trackers.Informer(selector, o.InformerResync, indices),
		definitions:  map[string]cache.SharedIndexInformer{},
		clusters:     members{cluster.Informer(client.Core.RESTClient(), o.InformerResync)},
		rng:          newChance(o.Seed),
	}
	c.requests = requests{c.metrics, o.ReadTimeout}
	c.objects = objects{client: dynamic.New(raw), raw: raw, mapper: o.Mapper, known: &sync.Map{}, requests: c.requests, features: o.Features}
	c.tools = plan.Tools{Find: c.findDefinition, Namespaced: c.objects.isNamespaced}
	for _, kind := range api.DefinitionKinds() {
		c.definitions[kind] = client.Definitions[kind].Informer("", o.InformerResync, nil)
	}
	if !o.Features.UncachedConfigMaps {
		c.configMaps = resource.New[*corev1.ConfigMap](client.Core.RESTClient(), "configmaps").Informer("", o.InformerResync, nil)
	}
	if err := c.setTransforms(); err != nil {
		return nil, err
	}
	c.loop = o.Loop("application", o.Workers, c.reconcile)
	c.unseen = unseen.New(o.Clock, c.loop.Queue.Add)
	o.Registry.GaugeFunc("app_unseen_applications", "Applications that are worked on, or of which the watches have not shown yet what the controller wrote.",
		func() float64 { return float64(c.unseen.Owners()) })
	if o.Features.ParsePackages {
		c.tools.Templates.Parsed = c.metrics.packages.Inc
	}
	if o.Features.WatchDrift {
		if c.drift, err = newDrift(config, o, c.loop.Queue.Add); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// newLimiter returns the limiter of the client of requests.
func newLimiter(o Options) *limiter.Reloadable {
	if o.LimiterScope == ScopeClient {
		return limiter.New(o.Limiter)
	}
	return limiter.NewNamed(o.Limiter)
}

// clientConfig returns the configuration of the client of all requests but those that
// write events.
func clientConfig(o Options, limit *limiter.Reloadable) (*rest.Config, error) {
	config := rest.CopyConfig(o.Config)
	config.RateLimiter = limit
	config.Timeout = 0 // watches are open for long
	gateway := o.Gateway
	gateway.Seed, gateway.Client = o.Seed, o.ShardID
	direct, err := gateway.Transport(config)
	if err != nil {
		return nil, err
	}
	config.Wrap(cluster.Route(direct))
	o.Registry.Watch(config)
	return config, nil
}

func (c *Controller) allInformers() []cache.SharedIndexInformer {
	out := []cache.SharedIndexInformer{c.applications, c.revisions, c.trackers, c.clusters}
	for _, kind := range api.DefinitionKinds() {
		out = append(out, c.definitions[kind])
	}
	if c.configMaps != nil {
		out = append(out, c.configMaps)
	}
	return out
}

// chance is a source of random numbers for all workers.
type chance struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func newChance(seed uint64) *chance { return &chance{rng: rand.New(rand.NewPCG(seed, 0))} }

// nextRandom returns a number from 0 to below 1.
func (c *chance) nextRandom() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.Float64()
}

// shuffle puts n things into another order.
func (c *chance) shuffle(n int, swap func(i, k int)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rng.Shuffle(n, swap)
}
