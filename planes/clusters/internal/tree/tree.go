// Package tree is the manager of a cluster tree, Kosmos' clustertree as far as its
// API servers see it: members become virtual nodes of the host, pods that are bound to
// those are made in members with what they need, and their statuses come back.
//
// Defaults are Kosmos' semantics with what they cost, flaws included; what is better
// has an option (Improved). docs/reproducing-kosmos.md says what is left out.
package tree

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/internal/subject/kit/loop"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

// Tree is a running manager.
type Tree struct {
	o       Options
	host    *api.Client
	leaves  *leaves
	metrics *metrics
	joins   *loop.Loop
	down    *loop.Loop // nil: each member has its own
	copies  *loop.Loop
	exports *loop.Loop // nil unless services are imported
	wait    sync.WaitGroup

	clusters, nodes, pods     cache.SharedIndexInformer
	configs, secrets, service cache.SharedIndexInformer
	claims, volumes           cache.SharedIndexInformer
	policies, clusterPolicies cache.SharedIndexInformer
	slices, exported          cache.SharedIndexInformer // likewise

	mu       sync.Mutex
	stopping map[string]func() // ends a member and waits, by name
}

const byNode = "node" // index of the host's pods

// Run manages until ctx ends; it returns when all has ended.
func Run(ctx context.Context, o Options) error {
	t, err := prepare(o)
	if err != nil {
		return err
	}
	defer t.wait.Wait()
	defer t.stopMembers()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := t.watch(); err != nil {
		return err
	}
	informers := []cache.SharedIndexInformer{t.clusters, t.nodes, t.pods, t.configs, t.secrets, t.service, t.claims, t.volumes, t.policies, t.clusterPolicies}
	if t.exports != nil {
		informers = append(informers, t.slices, t.exported)
	}
	if err := loop.Start(ctx, &t.wait, informers...); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	for _, l := range []*loop.Loop{t.joins, t.down, t.copies, t.exports} {
		if l != nil {
			t.wait.Go(func() { l.Run(ctx) })
		}
	}
	o.Registry.Ready()
	<-ctx.Done()
	return nil
}

func prepare(o Options) (*Tree, error) {
	t := &Tree{o: o, stopping: map[string]func(){}}
	t.leaves = &leaves{scan: o.NodeLookup == LookupScan, byNode: map[string]*leaf{}, members: map[string]*member{}}
	t.metrics = newMetrics(t, o.Registry)
	t.leaves.steps = t.metrics.steps
	var err error
	if t.host, err = t.client("host", o.Config); err != nil {
		return nil, err
	}
	t.clusters, t.nodes = t.host.Clusters.Informer("", nil), t.host.Nodes.Informer("", nil)
	t.pods = t.host.Pods.Informer("", cache.Indexers{byNode: nodeOf})
	t.configs, t.secrets = t.host.ConfigMaps.Informer("", nil), t.host.Secrets.Informer("", nil)
	t.claims, t.volumes = t.host.Claims.Informer("", nil), t.host.Volumes.Informer("", nil)
	t.policies = t.host.Policies.Informer("", cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	t.clusterPolicies = t.host.ClusterPolicies.Informer("", nil)
	t.service = t.host.Services.Informer("", cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	t.joins = t.loop("join", o.JoinWorkers, t.join)
	t.copies = t.loop("copies", 1, t.copy)
	if o.PodQueue == QueueShared {
		t.down = t.loop("pods", o.PodWorkers, func(ctx context.Context, key string) error { return t.bring(ctx, nil, key) })
	}
	if o.Import != ImportOff {
		return t, t.watchServices()
	}
	return t, nil
}

// client returns a client of the host or of members; side says which, in metrics.
func (t *Tree) client(side string, config *rest.Config) (*api.Client, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = "windtunnel-tree-manager"
	t.o.Registry.Watch(config)
	return api.NewClient(config, api.ClientOptions{Rate: t.o.Limiter, Timeout: t.o.RequestTimeout, Waited: func(name string, seconds float64) {
		t.metrics.waited.WithLabelValues(side, name).Observe(seconds)
		t.o.Registry.Waited(name, seconds) // where everybody looks for what a rate limiter costs
	}})
}

func (t *Tree) loop(name string, threads int, reconcile func(context.Context, string) error) *loop.Loop {
	return loop.New(loop.Options{
		Name: name, Threads: threads, Metrics: t.o.Registry.Queues(), Log: t.o.Log, Retry: t.o.retry(),
		Reconcile: func(ctx context.Context, key string) error {
			err := reconcile(ctx, key)
			if err != nil && ctx.Err() == nil {
				t.metrics.failures.WithLabelValues(name).Inc()
			}
			return err
		},
	})
}

func nodeOf(o any) ([]string, error) {
	if p, ok := o.(*hostPod); ok && p.node != "" {
		return []string{p.node}, nil
	}
	return nil, nil
}

// watch connects the host's caches with the queues.
func (t *Tree) watch() error {
	for informer, slim := range map[cache.SharedIndexInformer]cache.TransformFunc{
		t.pods: slimHostPod, t.nodes: slimHostNode, t.configs: slimObject, t.secrets: slimObject, t.service: slimObject, t.clusters: slimObject,
		t.claims: slimObject, t.volumes: slimObject,
	} {
		if err := informer.SetTransform(slim); err != nil {
			return err
		}
	}
	add := func(l *loop.Loop, prefix string) func(any) {
		return func(o any) {
			if key, ok := loop.Key(o); ok {
				l.Queue.Add(prefix + key)
			}
		}
	}
	handlers := map[cache.SharedIndexInformer]cache.ResourceEventHandlerFuncs{
		t.clusters: loop.Each(add(t.joins, "")),
		t.pods:     loop.Each(t.podEvent),
		t.configs:  ofOwned(add(t.copies, prefixConfigMap)),
		t.secrets:  ofOwned(add(t.copies, prefixSecret)),
		t.claims:   {DeleteFunc: ofOwned(add(t.copies, prefixClaim)).DeleteFunc},
		t.volumes:  {AddFunc: t.volumeMade, DeleteFunc: t.volumeGone},
	}
	for informer, h := range handlers {
		if _, err := informer.AddEventHandler(h); err != nil {
			return err
		}
	}
	return nil
}

// podEvent puts a host's pod into the queue of those that work on it, if it is bound
// to a leaf.
func (t *Tree) podEvent(o any) {
	p, ok := loop.Last[*hostPod](o)
	if !ok {
		return
	}
	l := t.leaves.route(p.node)
	if l == nil {
		return
	}
	key, _ := loop.Key(p)
	l.member.downLoop().Queue.Add(key)
	l.member.foreignStatus(key, p)
}

// stopMembers ends all members.
func (t *Tree) stopMembers() {
	t.mu.Lock()
	var all []func()
	for _, stop := range t.stopping {
		all = append(all, stop)
	}
	t.mu.Unlock()
	for _, stop := range all {
		stop()
	}
}

// now is the time as it is written into objects.
func (t *Tree) now() time.Time { return t.o.Clock.Wall(t.o.Clock.Now()) }

// timed gives the seconds since the call to what it returns.
func (t *Tree) timed(observe func(seconds float64)) func() {
	begin := t.o.Clock.Now()
	return func() { observe(t.o.Clock.Now().Sub(begin).Seconds()) }
}
