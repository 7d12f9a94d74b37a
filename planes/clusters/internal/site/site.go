// Package site runs on the machines of a topology what Kosmos runs on the nodes of
// clusters: an agent each, which brings the node's NodeConfig to the kernel, and an
// elector each, by which a cluster gets its gateway.
//
// The configurations themselves are the network-manager's, another process.
package site

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/link"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/netconfig"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/netns"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
)

// Annotation of a ClusterNode: with the value Down its machine is without power. It is
// how scenarios take one away; Kosmos has none.
const (
	Annotation = "windtunnel.dev/machine"
	Down       = "down"
)

// Options say what runs.
type Options struct {
	process.Env
	Network  netns.Options
	Rules    bool            // gateways masquerade
	Prefix   string          // of the names of namespaces
	Topology *netns.Topology // for Run: one that is Unlinked
	Agent    netconfig.AgentOptions
	Elector  netconfig.ElectorOptions
}

// Default returns Kosmos' options.
func Default() Options { return words.DefaultsOf[Options]() }

// Validate joins all that is wrong with what a user may choose.
func (o *Options) Validate() error {
	return errors.Join(o.Words().Check(), o.Network.Validate(), o.Elector.Validate())
}

// Words declares what a user may choose.
func (o *Options) Words() words.Set {
	return slices.Concat(o.Network.Words(), words.Set{
		words.Of(&o.Rules, "rules", "let gateways masquerade by nftables, so that hosts reach pods of the other cluster", words.Default(true, "")),
		words.Of(&o.Prefix, "prefix", "`PREFIX` of the names of namespaces in "+namedNamespaces, words.Default("windtunnel", "")),
	}, o.Agent.Words(), o.Elector.Words())
}

// namedNamespaces is the folder of names that ip netns knows.
const namedNamespaces = "/run/netns"

// Hold builds the network, publishes its namespaces, and takes all back when ctx ends.
func Hold(ctx context.Context, o Options) (err error) {
	o.Network.NoRules = !o.Rules
	if o.Topology, err = netns.Build(o.Network); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Topology.Close()) }()
	withdraw, err := o.Topology.Publish(namedNamespaces, o.Prefix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, withdraw()) }()
	o.Registry.MustRegister(o.Topology.Collector())
	if !o.Network.Unlinked {
		return o.Work(ctx, func(context.Context, *process.Group) error { return nil })
	}
	if err := netconfig.Install(ctx, o.Config); err != nil {
		return err
	}
	return Run(ctx, o)
}

// site is what runs.
type site struct {
	options Options
	nodes   cache.SharedIndexInformer
	wait    sync.WaitGroup
	changed chan struct{}

	mu     sync.Mutex
	linked map[string]bool // machines that have had a configuration which leads to the other cluster
	ends   map[string]context.CancelFunc
	failed error
}

// Run makes the Clusters and ClusterNodes of the topology and keeps its machines until ctx
// ends. It is ready when each machine can reach the other cluster. The first machine of
// a cluster is its first gateway: who is elected when all come at once, chance would say.
func Run(ctx context.Context, o Options) error {
	o.Agent.Counts = &netconfig.AgentCounts{}
	o.Agent.Env, o.Elector.Env = o.Env, o.Env
	if err := netconfig.Join(ctx, o.Config, o.Topology.Clusters(), o.Topology.Nodes()); err != nil {
		return err
	}
	nodes, err := netconfig.NodeInformer(o.Config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &site{options: o, nodes: nodes, changed: make(chan struct{}, 1), linked: map[string]bool{}, ends: map[string]context.CancelFunc{}}
	defer s.wait.Wait()
	defer cancel()
	if err := loop.WatchEach(nodes, func(*netconfig.ClusterNode) { s.wakeRunner() }); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	if err := loop.Start(ctx, &s.wait, nodes); err != nil {
		return err
	}
	o.Registry.ShowAll(prometheus.GaugeValue, "link_gateway", "1: the node is its cluster's gateway.", []string{"cluster", "node"}, s.showGateways)
	o.Agent.Counts.Register(o.Registry)
	for _, m := range o.Topology.Nodes() {
		if err := s.startMachine(ctx, m); err != nil {
			return err
		}
	}
	return s.followPower(ctx)
}

// wakeRunner wakes the one who looks at nodes.
func (s *site) wakeRunner() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// followPower takes power from machines and gives it back, as their annotations say.
func (s *site) followPower(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return s.firstError()
		case <-s.changed:
		}
		for _, m := range s.options.Topology.Nodes() {
			if err := s.setPower(ctx, m); err != nil {
				return err
			}
		}
		if err := s.firstError(); err != nil {
			return err
		}
	}
}

// setPower makes a machine have it, or not.
func (s *site) setPower(ctx context.Context, m link.Node) error {
	n := s.nodeNamed(m.Name)
	if n == nil {
		return nil
	}
	s.mu.Lock()
	end := s.ends[m.Name]
	s.mu.Unlock()
	switch down := n.Annotations[Annotation] == Down; {
	case down && end != nil:
		s.options.Log.Info("a machine is without power", "node", m.Name)
		end()
		s.mu.Lock()
		delete(s.ends, m.Name)
		s.mu.Unlock()
		return s.options.Topology.Power(m.Name, false)
	case !down && end == nil:
		s.options.Log.Info("a machine has power again", "node", m.Name)
		return errors.Join(s.options.Topology.Power(m.Name, true), s.startMachine(ctx, m))
	}
	return nil
}

func (s *site) nodeNamed(name string) *netconfig.ClusterNode {
	return slim.Get[*netconfig.ClusterNode](s.nodes, name)
}

// startMachine runs the processes of a machine, and waits until its cluster has a gateway.
func (s *site) startMachine(ctx context.Context, m link.Node) error {
	own, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	s.ends[m.Name] = cancel
	s.mu.Unlock()
	machine := netconfig.Machine{Name: m.Name, Address: m.IP, Address6: m.IP6, Apply: func(c *link.Config) error {
		err := s.options.Topology.Apply(m.Name, c)
		if err == nil && len(c.Routes) > 0 {
			s.noteLinked(m.Name)
		}
		return err
	}}
	s.runProcess(func() error { return netconfig.RunAgent(own, s.options.Agent, machine) })
	s.runProcess(func() error { return netconfig.RunElector(own, s.options.Elector, m.Cluster, m.Name) })
	for s.gatewayOf(m.Cluster) == "" {
		if err := errors.Join(s.firstError(), clock.Sleep(ctx, 50*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}

// runProcess runs one; its error ends all.
func (s *site) runProcess(run func() error) {
	s.wait.Go(func() {
		if err := run(); err != nil && !errors.Is(err, context.Canceled) {
			s.mu.Lock()
			s.failed = errors.Join(s.failed, err)
			s.mu.Unlock()
			s.wakeRunner()
		}
	})
}

func (s *site) firstError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// noteLinked takes note that a machine can reach the other cluster.
func (s *site) noteLinked(name string) {
	s.mu.Lock()
	s.linked[name] = true
	all := len(s.linked) == len(s.options.Topology.Nodes())
	s.mu.Unlock()
	if all {
		s.options.Registry.Ready()
	}
}

// gatewayOf is the name of a cluster's; empty: it has none.
func (s *site) gatewayOf(cluster string) string {
	for _, m := range s.options.Topology.Nodes() {
		if n := s.nodeNamed(m.Name); n != nil && m.Cluster == cluster && n.IsGateway() {
			return m.Name
		}
	}
	return ""
}

// showGateways shows which nodes are gateways.
func (s *site) showGateways(show func(value float64, labels ...string)) {
	for _, m := range s.options.Topology.Nodes() {
		if n := s.nodeNamed(m.Name); n != nil && n.IsGateway() {
			show(1, m.Cluster, m.Name)
		}
	}
}
