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
	hub     *hub
	leaves  *leaves
	metrics *metrics
	joins   *loop.Loop
	down    *loop.Loop // nil: each member has its own
	copies  *loop.Loop
	exports *loop.Loop // nil unless services are imported
	wait    sync.WaitGroup

	mu       sync.Mutex
	stopping map[string]func() // ends a member and waits, by name
}

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
	if err := loop.Start(ctx, &t.wait, t.hub.informers()...); err != nil {
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
	client, err := t.client("host", o.Config)
	if err != nil {
		return nil, err
	}
	t.hub = newHub(client, o.Import != ImportOff)
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

// watch connects the host's caches with the queues.
func (t *Tree) watch() error {
	if err := t.hub.slim(); err != nil {
		return err
	}
	add := func(l *loop.Loop, prefix string) func(any) {
		return func(o any) {
			if key, ok := loop.Key(o); ok {
				l.Queue.Add(prefix + key)
			}
		}
	}
	handlers := map[cache.SharedIndexInformer]cache.ResourceEventHandlerFuncs{
		t.hub.clusters: loop.Each(add(t.joins, "")),
		t.hub.pods:     loop.Each(t.podEvent),
		t.hub.configs:  ofOwned(add(t.copies, prefixConfigMap)),
		t.hub.secrets:  ofOwned(add(t.copies, prefixSecret)),
		t.hub.claims:   {DeleteFunc: ofOwned(add(t.copies, prefixClaim)).DeleteFunc},
		t.hub.volumes:  {AddFunc: t.volumeMade, DeleteFunc: t.volumeGone},
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
	p, ok := loop.Last[*hubPod](o)
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
