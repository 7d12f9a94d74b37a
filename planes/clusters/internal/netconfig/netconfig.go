package netconfig

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/link"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
)

// Options are a network-manager's.
type Options struct {
	process.Env
	link.Options
	Limiter limiter.Rate
	Window  time.Duration // with link.ComputeIncremental: changes within it are computed together
}

// Default returns Kosmos' options, and for a window the time for which its agents wait
// for further changes anyway.
func Default() Options { return words.DefaultsOf[Options]() }

// Words declares what a user may choose.
func (o *Options) Words() words.Set {
	return words.Set{
		words.Custom(&o.Limiter, "limiter", "client-side rate limit `QPS/BURST`", words.Default("40/60", "")),
		words.Of(&o.Compute, "compute", "configurations that an event computes",
			words.Default(link.ComputeFull, "those of all nodes"), words.Or(link.ComputeIncremental, "those that the change concerns")),
		words.Of(&o.Previous, "prev-annotation", "store the previous configuration beside each", words.Default(true, "")),
		words.Of(&o.Window, "window", "`DURATION` in which changes are collected and computed together, with --compute=incremental", words.Default(5*time.Second, "")).AtLeast(0),
	}
}

// Kosmos' ranges of the devices' addresses, where a cluster says none.
const (
	localCIDR  = "210.0.0.0/8"
	bridgeCIDR = "220.0.0.0/8"
)

// worker is the one worker of the manager: Kosmos computes under one mutex.
type worker struct {
	together bool // changes within the window are computed together; each alone otherwise
	window   time.Duration
	loop     *loop.Loop
	nodes    cache.SharedIndexInformer
	groups   cache.SharedIndexInformer // Clusters

	manager *link.Manager // of the queue's one worker

	mu      sync.Mutex
	changes []string // keys that have changed within the window
}

// Run computes and writes until ctx ends.
func Run(ctx context.Context, o Options) error {
	config := rest.CopyConfig(o.Config)
	config.QPS, config.Burst = o.Limiter.QPS, o.Limiter.Burst
	c, err := newClient(config)
	if err != nil {
		return err
	}
	w := &worker{nodes: c.nodes.Informer("", 0, cache.Indexers{}), groups: c.clusters.Informer("", 0, cache.Indexers{}),
		together: o.Compute == link.ComputeIncremental, window: o.Window}
	s, err := newStore(ctx, c)
	if err != nil {
		return err
	}
	w.manager = link.NewManager(o.Options, s)
	w.loop = o.Loop("clusternode", 1, w.reconcile)
	registerCounts(o.Registry, w.manager)
	return o.Work(ctx, w.runWorker)
}

func (w *worker) runWorker(ctx context.Context, g *process.Group) error {
	watched := map[string]cache.SharedIndexInformer{nodeKey: w.nodes, clusterKey: w.groups}
	for prefix, informer := range watched {
		err := loop.WatchEach(informer, func(o metav1.Object) { w.enqueueChange(prefix + o.GetName()) })
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
	if err := g.Sync(ctx, w.groups, w.nodes); err != nil {
		return err
	}
	// What is there already is known before anything is computed: of a part of the nodes, all
	// configurations would be wrong.
	for prefix, informer := range watched {
		for _, name := range informer.GetStore().ListKeys() {
			w.readChange(prefix + name)
		}
	}
	g.Run(ctx, w.loop)
	return nil
}

// Keys of the queue begin with the kind.
const (
	nodeKey    = "node/"
	clusterKey = "cluster/"
	passKey    = "pass"
)

// enqueueChange has a change computed: alone, or when its window ends.
func (w *worker) enqueueChange(key string) {
	if !w.together {
		w.loop.Queue.Add(key)
		return
	}
	w.mu.Lock()
	w.changes = append(w.changes, key)
	w.mu.Unlock()
	w.loop.Queue.AddAfter(passKey, w.window) // the first of a window is when it ends: later ones do not put it off
}

// reconcile computes what has changed and writes it.
func (w *worker) reconcile(ctx context.Context, key string) error {
	if key != passKey {
		if !w.readChange(key) {
			return nil
		}
		return w.manager.Pass(ctx)
	}
	w.mu.Lock()
	changes := w.changes
	w.changes = nil
	w.mu.Unlock()
	for _, one := range changes {
		w.readChange(one)
	}
	return w.manager.Pass(ctx)
}

// readChange reads an object as it is now.
func (w *worker) readChange(key string) bool {
	if name, ok := strings.CutPrefix(key, nodeKey); ok {
		return w.manager.SetNode(name, nodeOf(slim.Get[*ClusterNode](w.nodes, name)))
	}
	name, _ := strings.CutPrefix(key, clusterKey)
	return w.manager.SetCluster(name, clusterOf(slim.Get[*cluster](w.groups, name)))
}

// nodeOf reads a ClusterNode; nil if there is none. What cannot be read of it is left out, as an address that is
// not known yet.
func nodeOf(n *ClusterNode) *link.Node {
	if n == nil {
		return nil
	}
	ip, _ := netip.ParseAddr(n.Spec.IP)
	ip6, _ := netip.ParseAddr(n.Spec.IP6)
	return &link.Node{Name: n.Name, Cluster: n.Spec.ClusterName, IP: ip.Unmap(), IP6: ip6, Device: n.Spec.InterfaceName,
		PodCIDRs: parsePrefixes(n.Spec.PodCIDRs), Gateway: slices.Contains(n.Spec.Roles, roleGateway)}
}

// clusterOf reads a Cluster; nil if there is none, or it has no link.
func clusterOf(c *cluster) *link.Cluster {
	if c == nil || c.Spec.Link == nil || !c.Spec.Link.Enable {
		return nil
	}
	o := c.Spec.Link
	out := &link.Cluster{Name: c.Name, Type: cmp.Or(o.NetworkType, link.P2P), Family: o.IPFamily,
		PodCIDRs: parsePrefixes(c.Status.Link.PodCIDRs), ServiceCIDRs: parsePrefixes(c.Status.Link.ServiceCIDRs)}
	out.Local, _ = netip.ParsePrefix(cmp.Or(o.LocalCIDRs.IP, localCIDR))
	out.Bridge, _ = netip.ParsePrefix(cmp.Or(o.BridgeCIDRs.IP, bridgeCIDR))
	out.Local6, _ = netip.ParsePrefix(o.LocalCIDRs.IP6) // there is no default
	out.Bridge6, _ = netip.ParsePrefix(o.BridgeCIDRs.IP6)
	for from, to := range o.GlobalCIDRs {
		from, to := parsePrefixes([]string{from}), parsePrefixes([]string{to})
		if len(from) == 0 || len(to) == 0 || from[0].Bits() != to[0].Bits() || from[0].Addr().Is4() != to[0].Addr().Is4() {
			continue // one that cannot be read is left out, as an address is
		}
		if out.Global == nil {
			out.Global = map[netip.Prefix]netip.Prefix{}
		}
		out.Global[from[0]] = to[0]
	}
	if out.Validate() != nil {
		return nil
	}
	return out
}

func parsePrefixes(texts []string) (out []netip.Prefix) {
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}

// store keeps configurations as NodeConfigs. The manager is the only one who writes them,
// so that it knows what stands there.
type store struct {
	client *client
	of     map[string]*NodeConfig
}

func newStore(ctx context.Context, c *client) (*store, error) {
	s, all := &store{c, map[string]*NodeConfig{}}, &resource.List[NodeConfig]{}
	if err := c.rest.Get().Resource(resourceConfigs).Do(ctx).Into(all); err != nil {
		return nil, fmt.Errorf("list %s: %w", resourceConfigs, err)
	}
	for i := range all.Items {
		s.of[all.Items[i].Name] = &all.Items[i]
	}
	return s, nil
}

// Get implements link.Store.
func (s *store) Get(name string) *link.Stored {
	one := s.of[name]
	if one == nil {
		return nil
	}
	return &link.Stored{Config: one.Spec, Previous: one.Annotations[annotationPrev]}
}

// Put implements link.Store. What somebody else has changed is read again, and written at
// the next pass.
func (s *store) Put(ctx context.Context, name string, c *link.Stored) error {
	next, call := &NodeConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}, s.client.configs.Create
	if old := s.of[name]; old != nil {
		next.ObjectMeta = *old.ObjectMeta.DeepCopy()
		call = func(ctx context.Context, o *NodeConfig) (*NodeConfig, error) { return s.client.configs.Update(ctx, o) }
	}
	next.Spec = c.Config
	if c.Previous != "" {
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, annotationPrev, c.Previous)
	}
	got, err := call(ctx, next)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		now, again := s.client.configs.Get(ctx, "", name)
		if again != nil {
			now = nil
		}
		s.setConfig(name, now)
	}
	if err != nil {
		return err
	}
	s.setConfig(name, got)
	return nil
}

func (s *store) setConfig(name string, o *NodeConfig) {
	if o == nil {
		delete(s.of, name)
		return
	}
	s.of[name] = o
}

// Delete implements link.Store.
func (s *store) Delete(ctx context.Context, name string) error {
	err := s.client.configs.Delete(ctx, s.of[name])
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete configuration of node %s: %w", name, err)
	}
	delete(s.of, name)
	return nil
}

// Names implements link.Store.
func (s *store) Names() []string { return slices.Sorted(maps.Keys(s.of)) }

// registerCounts shows in a registry what a manager has done.
func registerCounts(r *instrument.Registry, m *link.Manager) {
	for name, of := range map[string]func(link.Counts) int{
		"link_passes_total":               func(n link.Counts) int { return n.Passes },
		"link_configs_computed_total":     func(n link.Counts) int { return n.Computed },
		"link_entries_computed_total":     func(n link.Counts) int { return n.Entries },
		"link_config_writes_total":        func(n link.Counts) int { return n.Writes },
		"link_config_refused_total":       func(n link.Counts) int { return n.Refused },
		"link_config_written_bytes_total": func(n link.Counts) int { return n.Bytes },
	} {
		r.CounterFunc(name, "Of the network-manager.", func() float64 { return float64(of(m.Counts())) })
	}
}
