package site

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/machine/network"
	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/link"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/netconfig"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/netns"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
)

// flying is a host in memory with a network-manager, and a topology whose machines live
// by it.
type flying struct {
	*testing.T
	config   *rest.Config
	topology *netns.Topology
	registry *instrument.Registry
}

func fly(t *testing.T, built netns.Options) *flying {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	f := &flying{T: t, config: planetest.Cluster(t, "host", hollow.Models{}).Endpoint().Config("test"), registry: instrument.New("")}
	f.config.QPS = -1
	repotest.NoError(t, netconfig.Install(t.Context(), f.config))
	built.CNI, built.Unlinked = netns.CNIRouted, true
	f.topology = repotest.Must(netns.Build(built))(t)
	t.Cleanup(func() {
		if err := f.topology.Close(); err != nil {
			t.Error(err)
		}
	})
	silent := planetest.Quiet()
	m := netconfig.Default()
	m.Compute, m.Previous, m.Window = link.ComputeIncremental, false, 10*time.Millisecond
	m.Config, m.Registry, m.Log = f.config, instrument.New(""), silent
	planetest.Start(f, func(ctx context.Context) error { return netconfig.Run(ctx, m) })
	o := Options{Topology: f.topology, Env: process.Env{Config: f.config, Registry: f.registry, Log: silent}, Agent: netconfig.AgentDefault(),
		Elector: netconfig.ElectorOptions{Duration: 3 * time.Second, Renew: 2 * time.Second, Retry: 200 * time.Millisecond, Check: time.Second}}
	o.Agent.Debounce, o.Agent.Drift, o.Agent.Limiter = 20*time.Millisecond, time.Second, limiter.Rate{QPS: 1000, Burst: 1000}
	planetest.Start(f, func(ctx context.Context) error { return Run(ctx, o) })
	return f
}

// reaches says whether a pod is answered by another one.
func (f *flying) reaches(from, to string) bool { return f.reachesBy(false, from, to) }

// reachesBy says the same of a family of addresses.
func (f *flying) reachesBy(six bool, from, to string) bool {
	f.Helper()
	known := f.topology.Pods(six)
	if from[0] != to[0] {
		known = f.topology.Known(six)
	}
	answered := false
	repotest.NoError(f, network.Echoes(f.Context(), network.EchoOptions{From: network.End{Namespace: f.topology.At("pod-" + from), Address: f.topology.Pods(six)[from]},
		To: network.End{Namespace: f.topology.At("pod-" + to), Address: known[to]}, ICMP: true, Pace: pace.Constant(50), For: 100 * time.Millisecond,
		Size: 64, Patience: 200 * time.Millisecond, Clock: clock.Start()}, func(e network.Echo) { answered = answered || !e.Lost }))
	return answered
}

// power takes a machine's, or gives it back, as a scenario does.
func (f *flying) power(machine, value string) {
	f.Helper()
	d := repotest.Must(dynamic.NewForConfig(f.config))(f)
	patch := []byte(`{"metadata":{"annotations":{"` + Annotation + `":"` + value + `"}}}`)
	nodes := schema.GroupVersionResource{Group: api.Group, Version: api.Version, Resource: "clusternodes"}
	repotest.Must(d.Resource(nodes).Patch(f.Context(), machine, types.MergePatchType, patch, metav1.PatchOptions{}))(f)
}

// gateways are the nodes that /metrics says are gateways.
func (f *flying) gateways() (out map[string]string) {
	f.Helper()
	all := repotest.Must(f.registry.Gather())(f)
	out = map[string]string{}
	for _, family := range all {
		if family.GetName() != "link_gateway" {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			out[labels["cluster"]] = labels["node"]
		}
	}
	return out
}

// TestGatewayDies holds that pods reach another cluster by agents and an elected gateway,
// that they do so by another gateway when the first is without power, and that a machine
// which comes back finds its way by the new one.
func TestGatewayDies(t *testing.T) {
	f := fly(t, netns.Options{NetworkType: link.Gateway})
	repotest.Eventually(f, "a2 reaches b1", func() bool { return f.reaches("a2", "b1") })
	if got := f.gateways(); got["a"] != "a1" || got["b"] != "b1" {
		t.Errorf("gateways %v: want the first of each", got)
	}
	f.power("a1", Down)
	repotest.Eventually(f, "a1 is gone", func() bool { return !f.reaches("a1", "b1") })
	repotest.Eventually(f, "a2 is the gateway", func() bool { return f.gateways()["a"] == "a2" })
	repotest.Eventually(f, "a2 reaches b1 itself", func() bool { return f.reaches("a2", "b1") })
	f.power("a1", "")
	repotest.Eventually(f, "a1 reaches b1 by a2", func() bool { return f.reaches("a1", "b1") })
	if got := f.gateways(); got["a"] != "a2" {
		t.Errorf("gateways %v: want a2 still", got)
	}
}

// TestEveryMachineIsReady holds that the process says it is when pods of both clusters can
// reach each other, of both kinds of networks.
func TestEveryMachineIsReady(t *testing.T) {
	for _, kind := range []string{link.P2P, link.Gateway} {
		t.Run(kind, func(t *testing.T) {
			f := fly(t, netns.Options{NetworkType: kind})
			repotest.Eventually(f, "ready", f.registry.IsReady)
			for _, from := range []string{"a1", "a2"} { // an agent may have a configuration to bring that came since
				repotest.Eventually(f, from+" reaches b1", func() bool { return f.reaches(from, "b1") })
			}
		})
	}
}

// TestBothFamiliesAndTheSameRanges holds that agents bring what the network-manager computes
// of IPv6 and of ranges that overlap: pods reach each other by both families, both ways.
func TestBothFamiliesAndTheSameRanges(t *testing.T) {
	if err := network.TryIPv6(); err != nil {
		t.Skip(err)
	}
	for _, kind := range []string{link.P2P, link.Gateway} {
		t.Run(kind, func(t *testing.T) {
			f := fly(t, netns.Options{NetworkType: kind, Family: link.FamilyAll, Overlap: true})
			repotest.Eventually(f, "ready", f.registry.IsReady)
			for _, six := range []bool{false, true} {
				for _, pair := range [][2]string{{"a2", "b1"}, {"b1", "a1"}} {
					repotest.Eventually(f, fmt.Sprintf("IPv6 %v: %s reaches %s", six, pair[0], pair[1]), func() bool { return f.reachesBy(six, pair[0], pair[1]) })
				}
			}
		})
	}
}
