// Package tree is the manager of a cluster tree, Kosmos' clustertree as far as its
// API servers see it: members become virtual nodes of the host, pods that are bound to
// those are made in members with what they need, and their statuses come back.
//
// The code calls the host the hub. What follows from an object on the hub and its copy
// in a member is decided by functions without a clock, a server or a cache (pods.go,
// nodes.go, storage.go, services.go); controllers look into the caches of both sides, let
// them decide, and do it.
//
// Defaults are Kosmos' semantics with what they cost, flaws included; what is better
// has an option (Improved). docs/how-to/reproducing-kosmos.md says what is left out.
package tree

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
)

// tree is what all controllers know: the options, the hub, and the virtual nodes of the
// members that have joined.
type tree struct {
	o       Options
	hub     *hub
	leaves  *leaves
	pods    *loop.Loop // of the hub's pods, for all members; nil: each member has its own
	metrics *metrics
}

func newTree(o Options) (*tree, error) {
	t := &tree{o: o, leaves: &leaves{scan: o.NodeLookup == LookupScan, byNode: map[string]*leaf{}, members: map[string]*joined{}}}
	t.metrics = newMetrics(t.leaves, o.Registry)
	t.leaves.steps = t.metrics.steps
	client, err := t.newClient("host", o.Config)
	if err != nil {
		return nil, err
	}
	t.hub = newHub(client, o.Import != ImportOff)
	return t, nil
}

// newClient returns a client of the hub or of members; side says which, in metrics.
func (t *tree) newClient(side string, config *rest.Config) (*api.Client, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = t.o.Config.UserAgent
	t.o.Registry.Watch(config)
	return api.NewClient(config, api.ClientOptions{Rate: t.o.Limiter, Timeout: t.o.RequestTimeout, Waited: func(name string, seconds float64) {
		t.metrics.waited.WithLabelValues(side, name).Observe(seconds)
		t.o.Registry.Waited(name, seconds) // where everybody looks for what a rate limiter costs
	}})
}

// newLoop returns a queue with its workers, which do not run yet.
func (t *tree) newLoop(name string, threads int, reconcile func(context.Context, string) error) *loop.Loop {
	return loop.New(loop.Options{
		Name: name, Threads: threads, Metrics: t.o.Registry.Queues(), Log: t.o.Log, Retry: t.o.retryLimiter(),
		Reconcile: func(ctx context.Context, key string) error {
			err := reconcile(ctx, key)
			if err != nil && ctx.Err() == nil {
				t.metrics.failures.WithLabelValues(name).Inc()
			}
			return err
		},
	})
}

// startTimer gives the seconds since the call to what it returns.
func (t *tree) startTimer(observe func(seconds float64)) func() {
	begin := t.o.Clock.Now()
	return func() { observe(t.o.Clock.Now().Sub(begin).Seconds()) }
}

// leafOf returns the leaf that a pod of the hub is bound to, nil if it is bound to none.
func (t *tree) leafOf(p *hubPod) *leaf { return t.leaves.leafOf(p.node) }
