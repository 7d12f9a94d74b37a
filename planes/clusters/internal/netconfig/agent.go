package netconfig

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/link"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
)

// What an agent watches.
const (
	WatchAll  = "all" // Kosmos': the configurations of all nodes, of which it uses its own
	WatchOwn  = "own"
	WatchNone = "none" // no agent runs
)

// AgentOptions are those of the agents of nodes.
type AgentOptions struct {
	process.Env
	Watch    string        // WatchAll or WatchOwn
	Debounce time.Duration // for which a change waits for others
	Drift    time.Duration // between looks whether a node still is as it should be
	Limiter  limiter.Rate  // of each agent
	Counts   *AgentCounts
}

// AgentDefault returns Kosmos' options.
func AgentDefault() AgentOptions { return words.DefaultsOf[AgentOptions]() }

// Words declares what a user may choose.
func (o *AgentOptions) Words() words.Set { return o.words() }

// WordsOrNone declares it where there may be no agents.
func (o *AgentOptions) WordsOrNone() words.Set {
	return o.words(words.Or(WatchNone, "no agent runs"))
}

func (o *AgentOptions) words(more ...words.Value[string]) words.Set {
	return words.Set{
		words.Of(&o.Watch, "watch", "configurations that each agent watches",
			append([]words.Value[string]{words.Default(WatchAll, "those of all nodes"), words.Or(WatchOwn, "its node's")}, more...)...),
		words.Of(&o.Debounce, "debounce", "`DURATION` for which a configuration change waits for others", words.Default(5*time.Second, "")).AtLeast(0),
		words.Of(&o.Drift, "drift", "`DURATION` between checks for drift of a node", words.Default(30*time.Second, "")).Above(0),
		words.Custom(&o.Limiter, "agent-limiter", "client-side rate limit `QPS/BURST` of each agent", words.Default("5/10", "")),
	}
}

// AgentCounts is what agents have done, of all of them together.
type AgentCounts struct {
	Applied, Failed, WatchedBytes atomic.Uint64
}

// Machine is the node of an agent.
type Machine struct {
	Name     string                   // of its ClusterNode
	Address  netip.Addr               // that others reach it by; the zero one: others know it already
	Address6 netip.Addr               // the same of IPv6; the zero one: it has none
	Apply    func(*link.Config) error // brings what is asked for to the node, and changes nothing where it is so already
}

// RunAgent keeps a node as its NodeConfig asks for until ctx ends: when that changes, and
// at intervals. What fails goes again at the next of them.
func RunAgent(ctx context.Context, o AgentOptions, m Machine) error {
	config := rest.CopyConfig(o.Config)
	config.QPS, config.Burst = o.Limiter.QPS, o.Limiter.Burst
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return weighed{next, &o.Counts.WatchedBytes} })
	c, err := newClient(config)
	if err != nil {
		return err
	}
	if err := c.writeAddresses(ctx, m); err != nil {
		return err
	}
	a := &agent{options: o, machine: m, changed: make(chan struct{}, 1), configs: c.watchConfigs(o.Watch, m.Name)}
	err = loop.WatchEach(a.configs, func(c *NodeConfig) {
		if c.Name != m.Name {
			return
		}
		select {
		case a.changed <- struct{}{}:
		default: // it is known already
		}
	})
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	if err := loop.Start(ctx, &wait, a.configs); err != nil {
		return err
	}
	a.applyUntilDone(ctx)
	return nil
}

// watchConfigs returns an informer over what an agent watches.
func (c *client) watchConfigs(scope, node string) cache.SharedIndexInformer {
	var with metav1.ListOptions
	if scope != WatchAll {
		with.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, node).String()
	}
	return resource.NewInformer[*NodeConfig](c.rest, resourceConfigs, metav1.NamespaceAll, with, 0, nil)
}

// agent is one that runs.
type agent struct {
	options AgentOptions
	machine Machine
	configs cache.SharedIndexInformer
	changed chan struct{}
	known   bool // the node has had a configuration
}

func (a *agent) applyUntilDone(ctx context.Context) {
	drift := time.NewTicker(a.options.Drift)
	defer drift.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-drift.C:
		case <-a.changed:
			if clock.Sleep(ctx, a.options.Debounce) != nil {
				return
			}
			select {
			case <-a.changed: // what has come meanwhile is applied with it
			default:
			}
		}
		a.applyConfig()
	}
}

// applyConfig brings the configuration to the node that there is now. A node that has had none
// yet is left as it is.
func (a *agent) applyConfig() {
	want := &link.Config{}
	switch c := slim.Get[*NodeConfig](a.configs, a.machine.Name); {
	case c != nil:
		want, a.known = &c.Spec, true
	case !a.known:
		return
	}
	if err := a.machine.Apply(want); err != nil {
		a.options.Counts.Failed.Add(1)
		a.options.Log.Warn("a node is not as its configuration asks for, goes again", "node", a.machine.Name, "error", err)
		return
	}
	a.options.Counts.Applied.Add(1)
}

// writeAddresses writes the addresses of a node into its ClusterNode where others stand there.
func (c *client) writeAddresses(ctx context.Context, m Machine) error {
	for m.Address.IsValid() {
		node, err := c.nodes.Get(ctx, "", m.Name)
		ip6 := ""
		if m.Address6.IsValid() {
			ip6 = m.Address6.String()
		}
		if err == nil && (node.Spec.IP != m.Address.String() || node.Spec.IP6 != ip6) {
			node.Spec.IP, node.Spec.IP6 = m.Address.String(), ip6
			_, err = c.nodes.Update(ctx, node)
		}
		if err == nil {
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("address of node %s: %w", m.Name, err)
		}
		if err := clock.Sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// weighed counts the bytes of answers, watches among them.
type weighed struct {
	http.RoundTripper
	bytes *atomic.Uint64
}

// RoundTrip implements http.RoundTripper.
func (w weighed) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := w.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = weighedBody{answer.Body, w.bytes}
	}
	return answer, err
}

type weighedBody struct {
	io.ReadCloser
	bytes *atomic.Uint64
}

// Read implements io.Reader.
func (w weighedBody) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.bytes.Add(uint64(n))
	return n, err
}

// RunAgents runs an agent for each ClusterNode there is, until ctx ends, which brings
// nothing anywhere: what agents cost an API server is all that there is of them.
func RunAgents(ctx context.Context, o AgentOptions) error {
	return o.Work(ctx, func(ctx context.Context, g *process.Group) error {
		if o.Watch == WatchNone {
			return nil
		}
		if err := Install(ctx, o.Config); err != nil {
			return err
		}
		o.Counts = &AgentCounts{}
		nodes, err := NodeInformer(o.Config)
		if err != nil {
			return err
		}
		ends := map[string]context.CancelFunc{} // of the informer's one goroutine
		err = loop.Watch(nodes, func(old, now *ClusterNode) {
			switch {
			case now == nil:
				ends[old.Name]()
				delete(ends, old.Name)
			case old == nil:
				own, end := context.WithCancel(ctx)
				ends[now.Name] = end
				g.Go(func() {
					if err := RunAgent(own, o, Machine{Name: now.Name, Apply: func(*link.Config) error { return nil }}); err != nil && own.Err() == nil {
						o.Log.Error("an agent has ended", "node", now.Name, "error", err)
					}
				})
			}
		})
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		o.Counts.Register(o.Registry)
		return g.Sync(ctx, nodes)
	})
}

// Register shows the counts in a registry.
func (n *AgentCounts) Register(r *instrument.Registry) {
	for name, v := range map[string]*atomic.Uint64{"link_configs_applied_total": &n.Applied, "link_configs_failed_total": &n.Failed, "link_watched_bytes_total": &n.WatchedBytes} {
		r.CounterFunc(name, "Of all agents.", func() float64 { return float64(v.Load()) })
	}
}
