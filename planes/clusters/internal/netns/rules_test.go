package netns

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/machine/network"
	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/link"
)

// TestGlobalMap holds that pods of two clusters with the same range, one of the same address
// among them, reach each other both ways by what they are known by; that rules which
// translate there and back were used, and that without them nobody is answered.
func TestGlobalMap(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{link.P2P, link.Gateway} {
		for _, six := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, ", IPv6 ", six), func(t *testing.T) {
				t.Parallel()
				o := Options{NetworkType: kind, CNI: CNIRouted, Overlap: true}
				if six {
					o.Family = link.Family6
				}
				all := build(t, o)
				if pods := all.Pods(six); pods["a1"] != pods["b1"] {
					t.Fatalf("pods %v: want one address twice", pods)
				}
				for _, pair := range [][2]string{{"pod-a1", "pod-b1"}, {"pod-a2", "pod-b1"}, {"pod-b1", "pod-a1"}, {"pod-b1", "pod-a2"}} {
					from, to := endsOf(all, six, pair[0], pair[1])
					before := translated(t, all)
					repotest.Equal(t, echoes(t, 5, patient, from, to), 5, "%s to %s: echoes answered of 5", pair[0], pair[1])
					for _, chain := range []string{preRouting, postRouting} {
						// More than one where the machine is busy: the kernel drops packets whose connections come at once.
						if after := translated(t, all); after[chain] <= before[chain] {
							t.Errorf("%s to %s: no connection was translated in %s", pair[0], pair[1], chain)
						}
					}
				}
				for _, name := range []string{"a1", "a2", "b1"} {
					repotest.NoError(t, all.At(name).Do(func() error { return applyRules(nil) }))
				}
				from, to := endsOf(all, six, "pod-a2", "pod-b1")
				if n := echoes(t, 5, impatient, from, to); n > 0 {
					t.Errorf("%d echoes were answered without rules", n)
				}
			})
		}
	}
}

// TestGlobalMapCarriesStreams holds that what answers at an address of its own is reached by
// what it is known by, by datagrams and by streams.
func TestGlobalMapCarriesStreams(t *testing.T) {
	t.Parallel()
	all, answered, received := build(t, Options{NetworkType: link.P2P, CNI: CNIRouted, Overlap: true}), 0, uint64(0)
	from, to := endsOf(all, false, "pod-a1", "pod-b1")
	to.Own = all.Pods(false)["b1"]
	err := network.Echoes(t.Context(), network.EchoOptions{From: from, To: to, Pace: pace.Constant(100), For: 100 * time.Millisecond,
		Size: 64, Patience: 10 * time.Second, Clock: clock.Start()}, func(e network.Echo) {
		if !e.Lost {
			answered++
		}
	})
	if err != nil || answered != 10 {
		t.Errorf("%d of 10 echoes answered, %v", answered, err)
	}
	err = network.Streams(t.Context(), network.StreamOptions{From: from, To: to, Streams: 1, For: 200 * time.Millisecond, Every: 100 * time.Millisecond,
		Clock: clock.Start()}, func(r network.Reading) { received = r.Received })
	if err != nil || received == 0 {
		t.Errorf("%d bytes received, %v", received, err)
	}
}

// translated is how many connections rules have taken, of all machines, by chain.
func translated(t *testing.T, all *Topology) map[string]uint64 {
	t.Helper()
	out := map[string]uint64{}
	for _, name := range []string{"a1", "a2", "b1"} {
		eachRule(t, all.At(name), func(chain *nftables.Chain, r *nftables.Rule) {
			for _, e := range r.Exprs {
				if n, ok := e.(*expr.Counter); ok {
					out[chain.Name] += n.Packets
				}
			}
		})
	}
	return out
}

// TestHostsReachPods holds that what a machine itself sends to another cluster's pods is
// answered: to a gateway's by the address of the own gateway, under which it leaves, and to
// those of an inner node by that of the other one's, since the node has no way to others.
// Without rules neither is.
func TestHostsReachPods(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		o        Options
		from     string // that sends
		address  string // of its device towards the other cluster
		to       string
		gateways []string
	}{
		{"by the own gateway", Options{}, "a2", "198.19.129.2", "b1", []string{"a1", "b1"}},
		{"by the own gateway, encrypted", Options{Encrypt: EncryptWireGuard}, "a2", "198.19.129.2", "b1", []string{"a1", "b1"}},
		{"to an inner node", Options{}, "b1", "198.19.2.1", "a2", []string{"a1", "b1"}},
		{"by the own gateway, IPv6", Options{Family: link.Family6}, "a2", "fd21:1::2", "b1", []string{"a1", "b1"}},
		{"to an inner node, IPv6", Options{Family: link.Family6}, "b1", "fd22:2::1", "a2", []string{"a1", "b1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.o.NetworkType, c.o.CNI = link.Gateway, CNIRouted
			all := build(t, c.o)
			from := network.End{Namespace: all.At(c.from), Address: netip.MustParseAddr(c.address)}
			to := network.End{Namespace: all.At("pod-" + c.to), Address: all.Pods(c.o.hasIPv6())[c.to]}
			repotest.Equal(t, echoes(t, 10, patient, from, to), 10, "echoes answered of 10")
			for _, gateway := range c.gateways {
				repotest.NoError(t, all.At(gateway).Do(func() error { return applyRules(nil) }))
			}
			if n := echoes(t, 5, impatient, from, to); n > 0 {
				t.Errorf("%d echoes answered without rules", n)
			}
		})
	}
	bare := build(t, Options{NetworkType: link.Gateway, CNI: CNIRouted, NoRules: true})
	repotest.Equal(t, rulesOf(t, bare), 0, "rules where none are asked for")
}

// rulesOf is how many tables of rules a1 has.
func rulesOf(t *testing.T, all *Topology) (n int) {
	t.Helper()
	repotest.NoError(t, all.At("a1").Do(func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		tables, err := c.ListTables()
		n = len(tables)
		return err
	}))
	return n
}

func TestRulesThatAreNotUnderstood(t *testing.T) {
	for _, r := range []link.Rule{
		{Table: "filter", Chain: "POSTROUTING", Rule: "-s 198.18.0.0/15 -o vx-bridge -j MASQUERADE"},
		{Table: "nat", Chain: "PREROUTING", Rule: "-s 198.18.0.0/15 -o vx-bridge -j MASQUERADE"},
		{Table: "nat", Chain: "POSTROUTING", Rule: "-s 198.18.0.0/15 -o vx-bridge -j DROP"},
		{Table: "nat", Chain: "POSTROUTING", Rule: "-s 198.18.0.0/15 -i eth0 -j MASQUERADE"},
		{Table: "nat", Chain: "POSTROUTING", Rule: "-s 198.18.0.0/15 -o -j MASQUERADE"},
		{Table: "nat", Chain: "POSTROUTING", Rule: "-s nowhere -o vx-bridge -j MASQUERADE"},
		{Table: "nat", Chain: "POSTROUTING", Rule: "-o vx-bridge -j MASQUERADE"},
		{Table: "nat", Chain: "POSTROUTING", Rule: "! -s 198.18.0.0/15 -o vx-bridge -j MASQUERADE"},
		{Table: "nat", Chain: "POSTROUTING", Rule: "-s 198.18.0.0/15 -o vx-bridge -o vx-local -j MASQUERADE"},
		{Table: "nat", Chain: "POSTROUTING", Rule: "-s 198.18.0.0/15 -o vx-bridge -j SNAT"},
		{Table: "nat", Chain: "POSTROUTING", Rule: "-s 198.18.0.0/15 -o vx-bridge -j SNAT --to-source fd00::1"},
		{Table: "nat", Chain: "PREROUTING", Rule: "-d 198.18.0.0/15 -i vx-bridge -j NETMAP --to 198.18.0.0/16"},
		{Table: "nat", Chain: "PREROUTING", Rule: "-d 198.18.0.0/16 -i vx-bridge -j NETMAP --to fd00::/16"},
		{Table: "nat", Chain: "POSTROUTING", Rule: "-s 198.18.0.0/16 -o vx-bridge -j NETMAP --to 198.19.0.0/16"},
		{Table: "nat", Chain: "POSTROUTING", Rule: "-s 198.18.0.0/15 -o a-device-of-a-long-name -j MASQUERADE"},
	} {
		if m, err := parseRule(r); !errors.Is(err, ErrRule) {
			t.Errorf("%v: %+v, %v", r, m, err)
		}
	}
}
