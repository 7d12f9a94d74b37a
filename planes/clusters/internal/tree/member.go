package tree

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/windtunnel/windtunnel/internal/subject/kit/loop"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

// member is a cluster that has joined, with what runs for it.
type member struct {
	*Tree
	name      string
	made      string // what of its Cluster it was made of
	client    *api.Client
	leaves    []*leaf
	byNode    map[string]*leaf // by the member's node, of leaves that stand for one
	up        *loop.Loop
	own       *loop.Loop // of pods down; nil: the shared one
	resources *loop.Loop
	imports   *loop.Loop // nil unless services are imported
	storage   *loop.Loop // of claims and volumes up
	nodes     cache.SharedIndexInformer
	pods      cache.SharedIndexInformer
	configs   cache.SharedIndexInformer // copies of the host's; nil unless dependents are cached
	secrets   cache.SharedIndexInformer
	claims    cache.SharedIndexInformer
	volumes   cache.SharedIndexInformer
	imported  cache.SharedIndexInformer                            // nil unless services are imported
	brought   struct{ services, slices cache.SharedIndexInformer } // copies of the host's; nil unless these go with whatever they are of
	answers   atomic.Bool                                          // to the last question for its version

	mu         sync.Mutex
	leases     map[string]*coordinationv1.Lease // as the host answered last, by leaf
	ended      map[string]string                // uid of the host's pod that a member's pod was of that is gone, by key
	namespaces map[string]bool                  // that are known to be there
	roots      map[string]bool                  // namespaces that have a copy of the host's authority
	released   map[types.UID]bool               // claims of the tree that are gone, by uid
}

// newMember makes a member that does not run yet.
func (t *Tree) newMember(c *api.Cluster, made string) (*member, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(c.Spec.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of cluster %s: %w", c.Name, err)
	}
	m := &member{
		Tree: t, name: c.Name, made: made, byNode: map[string]*leaf{},
		leases: map[string]*coordinationv1.Lease{}, ended: map[string]string{}, namespaces: map[string]bool{}, roots: map[string]bool{},
		released: map[types.UID]bool{},
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &timer{next, t.o.Clock, func(class string, seconds float64) {
			t.metrics.answered.WithLabelValues(c.Name, class).Observe(seconds)
		}}
	})
	if m.client, err = t.client("member", config); err != nil {
		return nil, err
	}
	models := c.Leaves()
	for i := range models {
		l := &leaf{node: models[i].NodeName(c.Name, i), model: &models[i], mode: models[i].Mode(), member: m}
		m.leaves = append(m.leaves, l)
		if l.mode == api.LeafNode {
			m.byNode[l.model.NodeSelector.NodeName] = l
		}
	}
	m.up = t.loop("status", t.o.StatusWorkers, m.report)
	m.resources = t.loop("resources", 1, m.renewResources)
	m.storage = t.loop("storage", 1, m.renewStorage)
	if t.down == nil {
		m.own = t.loop("pods", t.o.PodWorkers, func(ctx context.Context, key string) error { return t.bring(ctx, m, key) })
	}
	if t.o.Import != ImportOff {
		if err := m.watchImports(); err != nil {
			return nil, err
		}
	}
	return m, m.watch()
}

// downLoop is where pods wait that are to be made in the member.
func (m *member) downLoop() *loop.Loop {
	if m.own != nil {
		return m.own
	}
	return m.down
}

// watch makes the member's caches and connects them with its queues.
func (m *member) watch() error {
	m.nodes = m.client.Nodes.Informer("", nil)
	m.pods = m.client.Pods.Informer("", nil)
	errs := []error{m.nodes.SetTransform(slimMemberNode), m.pods.SetTransform(slimMemberPod)}
	if m.o.Dependents == DependentsCached {
		m.configs = m.client.ConfigMaps.Informer(api.LabelGlobal+"=true", nil)
		m.secrets = m.client.Secrets.Informer(api.LabelGlobal+"=true", nil)
	}
	errs = append(errs, m.watchStorage())
	_, err := m.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { m.podSeen(nil, o.(*memberPod)) },
		UpdateFunc: func(old, o any) { m.podSeen(old.(*memberPod), o.(*memberPod)) },
		DeleteFunc: m.podGone,
	})
	errs = append(errs, err)
	_, err = m.nodes.AddEventHandler(loop.Each(func(o any) {
		if key, ok := loop.Key(o); ok {
			m.resources.Queue.Add(key)
		}
	}))
	return errors.Join(append(errs, err)...)
}

// follow starts the member's caches and waits until they are full; they end with ctx,
// and wait waits for that.
func (m *member) follow(ctx context.Context, wait *sync.WaitGroup) error {
	informers := []cache.SharedIndexInformer{m.nodes, m.pods, m.claims, m.volumes}
	if m.configs != nil {
		informers = append(informers, m.configs, m.secrets)
	}
	if m.imports != nil {
		informers = append(informers, m.imported)
	}
	if m.brought.services != nil {
		informers = append(informers, m.brought.services, m.brought.slices)
	}
	if err := loop.Start(ctx, wait, informers...); err != nil {
		return fmt.Errorf("watch member %s: %w", m.name, err)
	}
	return nil
}

// work starts what works for the member; it ends with ctx, and wait waits for it.
func (m *member) work(ctx context.Context, wait *sync.WaitGroup) {
	for _, l := range []*loop.Loop{m.up, m.own, m.resources, m.imports, m.storage} {
		if l != nil {
			wait.Go(func() { l.Run(ctx) })
		}
	}
	wait.Go(func() { m.keepLeases(ctx) })
	wait.Go(func() { m.keepStatuses(ctx) })
}

// podSeen handles a member's pod that was made or has changed.
func (m *member) podSeen(old, p *memberPod) {
	key, _ := loop.Key(p)
	if p.own && (old == nil || old.UID != p.UID || old.sum != p.sum) {
		m.up.Queue.Add(key)
	}
	m.podChanged(key, p)
}

// podGone handles a member's pod that is there no more.
func (m *member) podGone(o any) {
	p, ok := loop.Last[*memberPod](o)
	if !ok {
		return
	}
	key, _ := loop.Key(p)
	if p.own {
		m.mu.Lock()
		m.ended[key] = p.hostUID
		m.mu.Unlock()
		m.up.Queue.Add(key)
	} else if host := m.hub.pod(key); m.o.StatusGuard == GuardUID && host != nil && m.leafOf(host) != nil {
		m.downLoop().Queue.Add(key) // it had the name that one of the tree waits for
	}
	m.podChanged(key, p)
}

// podChanged lets the leaves' resources be looked at again. Kosmos does for every event
// of any pod; only pods that are not the tree's take resources.
func (m *member) podChanged(key string, p *memberPod) {
	if m.o.NodePatch == Always || !p.own {
		m.resources.Queue.Add(key)
	}
}

// podOf returns the member's pod of a key as the cache has it, nil if there is none.
func (m *member) podOf(key string) *memberPod {
	o, ok, _ := m.pods.GetIndexer().GetByKey(key) // a cache has no error
	if !ok {
		return nil
	}
	return o.(*memberPod)
}

// foreignStatus lets a status be written again that somebody else has changed on the host.
func (m *member) foreignStatus(key string, host *hubPod) {
	if p := m.podOf(key); p != nil && p.own && host.sum != p.sum {
		m.up.Queue.Add(key)
	}
}
