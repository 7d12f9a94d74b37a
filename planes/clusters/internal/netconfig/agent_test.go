package netconfig

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/link"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
)

// machine is a node in memory.
type machine struct {
	mu      sync.Mutex
	has     link.Config
	applied int
	broken  bool
}

var errBroken = errors.New("no device")

func (m *machine) apply(c *link.Config) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applied++
	if m.broken {
		return errBroken
	}
	m.has = *c
	return nil
}

// state is how many neighbours it has, and how often it was looked at.
func (m *machine) state() (neighbours, applied int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.has.ARPs), m.applied
}

func (m *machine) set(broken bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = broken
}

func (r *rig) agents(drift time.Duration, watch string) AgentOptions {
	return AgentOptions{Watch: watch, Debounce: 10 * time.Millisecond, Drift: drift, Limiter: limiter.Rate{QPS: 1000, Burst: 1000},
		Env: process.Env{Config: r.config, Log: planetest.Quiet()}, Counts: &AgentCounts{}}
}

// TestAgentKeepsItsNode holds that a node gets what is asked for when that changes, that
// what could not be brought goes again, that its address is told, and that a node whose
// configuration is deleted has nothing any more.
func TestAgentKeepsItsNode(t *testing.T) {
	for _, watch := range []string{WatchAll, WatchOwn} {
		t.Run(watch, func(t *testing.T) {
			t.Parallel()
			r, m := newRig(t), &machine{}
			r.cluster("a", link.P2P)
			r.cluster("bb", link.P2P)
			r.node("a", 0)
			r.node("bb", 0)
			o := Default()
			o.Compute, o.Previous, o.Window = link.ComputeIncremental, false, 0
			end := r.manage(o)
			address := netip.MustParseAddr("198.18.9.9")
			planetest.Start(r, func(ctx context.Context) error {
				return RunAgent(ctx, r.agents(20*time.Millisecond, watch), Machine{Name: "a-n0", Address: address, Apply: m.apply})
			})
			repotest.Eventually(r, "one neighbour", func() bool { n, _ := m.state(); return n == 1 })
			if told, err := r.client.nodes.Get(t.Context(), "", "a-n0"); err != nil || told.Spec.IP != address.String() {
				t.Errorf("%+v, %v: want the address %v", told, err, address)
			}
			m.set(true)
			r.node("bb", 1)
			_, before := m.state()
			repotest.Eventually(r, "further tries", func() bool { _, n := m.state(); return n > before+2 })
			m.set(false)
			repotest.Eventually(r, "two neighbours", func() bool { n, _ := m.state(); return n == 2 })
			_, before = m.state()
			repotest.Eventually(r, "looks without a change", func() bool { _, n := m.state(); return n > before+2 })
			end()
			one := repotest.Must(r.client.configs.Get(t.Context(), "", "a-n0"))(t)
			repotest.NoError(t, r.client.configs.Delete(t.Context(), one))
			repotest.Eventually(r, "nothing", func() bool { n, _ := m.state(); return n == 0 })
		})
	}
}

// TestWatchScope holds that agents which watch their own configuration alone take a part
// of the bytes of those that watch all: of N nodes about the N-th.
func TestWatchScope(t *testing.T) {
	const nodes = 12
	bytes := map[string]uint64{}
	for _, watch := range []string{WatchAll, WatchOwn} {
		r, o := newRig(t), Default()
		o.Compute, o.Previous, o.Window = link.ComputeIncremental, false, 0
		r.manage(o)
		r.cluster("a", link.P2P)
		agents, all := r.agents(time.Hour, watch), [nodes]machine{}
		for i := range nodes {
			r.node("a", i)
			planetest.Start(r, func(ctx context.Context) error {
				return RunAgent(ctx, agents, Machine{Name: fmt.Sprint("a-n", i), Apply: all[i].apply})
			})
		}
		repotest.Eventually(r, "all know all", func() bool {
			for i := range all {
				if n, _ := all[i].state(); n != nodes-1 {
					return false
				}
			}
			return true
		})
		bytes[watch] = agents.Counts.WatchedBytes.Load()
	}
	if bytes[WatchOwn]*nodes/3 > bytes[WatchAll] {
		t.Errorf("%v bytes: want of %s about a %dth", bytes, WatchOwn, nodes)
	}
}

// TestElection holds that a cluster always gets one gateway, and another one when that
// dies without a word.
func TestElection(t *testing.T) {
	r := newRig(t)
	r.cluster("a", link.Gateway)
	repotest.NoError(t, Join(t.Context(), r.config, nil, nil)) // for the namespace
	o := ElectorOptions{Duration: 900 * time.Millisecond, Renew: 600 * time.Millisecond, Retry: 100 * time.Millisecond, Check: 100 * time.Millisecond,
		Env: process.Env{Config: r.config, Log: planetest.Quiet()}}
	ends := map[string]func(){}
	for i := range 3 {
		name := r.node("a", i).Name
		ends[name] = planetest.Start(r, func(ctx context.Context) error { return RunElector(ctx, o, "a", name) })
	}
	other := &ClusterNode{}
	other.Name, other.Spec = "elsewhere", ClusterNodeSpec{ClusterName: "b", Roles: []string{roleGateway}}
	repotest.Must(r.client.nodes.Create(t.Context(), other))(t)
	gateways := func() (names []string) {
		all := &resource.List[ClusterNode]{}
		repotest.NoError(t, r.client.rest.Get().Resource(resourceNodes).Do(t.Context()).Into(all))
		for i := range all.Items {
			if n := &all.Items[i]; n.IsGateway() && n.Spec.ClusterName == "a" {
				names = append(names, n.Name)
			}
		}
		return names
	}
	for range 2 {
		var now []string
		repotest.Eventually(r, "one gateway that lives", func() bool { now = gateways(); return len(now) == 1 && ends[now[0]] != nil })
		ends[now[0]]()
		delete(ends, now[0])
	}
	repotest.Eventually(r, "the last one is the gateway", func() bool { now := gateways(); return len(now) == 1 && ends[now[0]] != nil })
	if n, err := r.client.nodes.Get(t.Context(), "", "elsewhere"); err != nil || !n.IsGateway() {
		t.Errorf("%+v, %v: want another cluster's gateway left as it is", n, err)
	}
}

func TestAgentOptionsThatDoNotFit(t *testing.T) {
	agent, elector := AgentDefault(), ElectorDefault()
	repotest.NoError(t, errors.Join(agent.Words().Check(), elector.Validate()))
	agent.Watch = "some"
	slow := ElectorOptions{Duration: time.Second, Renew: 2 * time.Second, Retry: time.Second, Check: time.Second}
	still := AgentOptions{Watch: WatchAll}
	if agent.Words().Check() == nil || slow.Validate() == nil || still.Words().Check() == nil {
		t.Error("options that do not fit are taken")
	}
}
