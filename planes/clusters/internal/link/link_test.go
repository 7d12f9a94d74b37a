package link

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// kept is a store in memory that refuses what an API server refuses.
type kept struct{ of map[string]*Stored }

// away is one that cannot be reached for a while.
type away struct {
	kept
	yes bool
}

func (a *away) Put(ctx context.Context, name string, s *Stored) error {
	if a.yes {
		return errors.New("away")
	}
	return a.kept.Put(ctx, name, s)
}

// mostAnnotations is what the annotations of an object may have at most, in bytes
// (apimachinery's TotalAnnotationSizeLimitB).
const mostAnnotations = 256 << 10

var errTooLong = errors.New("metadata.annotations: Too long: may not be more than 262144 bytes")

func (k kept) Get(name string) *Stored { return k.of[name] }

func (k kept) Put(_ context.Context, name string, s *Stored) error {
	if len(s.Previous) > mostAnnotations {
		return errTooLong
	}
	k.of[name] = s
	return nil
}

func (k kept) Delete(_ context.Context, name string) error {
	delete(k.of, name)
	return nil
}

func (k kept) Names() []string { return slices.Collect(maps.Keys(k.of)) }

// cluster returns the i-th of a test's clusters, with a range of pods of its own.
func cluster(i int, kind string) Cluster {
	return Cluster{Name: fmt.Sprintf("c%d", i), Type: kind,
		Local: netip.MustParsePrefix("210.0.0.0/8"), Bridge: netip.MustParsePrefix("220.0.0.0/8"),
		PodCIDRs:     []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), 16)},
		ServiceCIDRs: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 100, byte(i), 0}), 24)}}
}

// node returns the j-th node of the i-th cluster; the first is its gateway.
func node(i, j int) Node {
	return Node{Name: fmt.Sprintf("c%d-n%d", i, j), Cluster: fmt.Sprintf("c%d", i), Device: "eth0", Gateway: j == 0,
		IP:       netip.AddrFrom4([4]byte{198, 18, byte(i*16 + j/256), byte(j)}),
		PodCIDRs: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), byte(j), 0}), 24)}}
}

// dual gives a cluster of a test IPv6, too.
func dual(i int, c Cluster) Cluster {
	c.Local6, c.Bridge6 = netip.MustParsePrefix("fd21::/16"), netip.MustParsePrefix("fd22::/16")
	c.PodCIDRs = append(c.PodCIDRs, netip.MustParsePrefix(fmt.Sprintf("fd10:%x::/32", i+1)))
	c.ServiceCIDRs = append(c.ServiceCIDRs, netip.MustParsePrefix(fmt.Sprintf("fd11:%x::/112", i+1)))
	return c
}

// dualNode gives a node of a test IPv6, too.
func dualNode(i, j int, n Node) Node {
	n.IP6 = netip.MustParseAddr(fmt.Sprintf("fd00:%x::%x", i+1, j+1))
	n.PodCIDRs = append(n.PodCIDRs, netip.MustParsePrefix(fmt.Sprintf("fd10:%x:%x::/64", i+1, j)))
	return n
}

// overlapping gives a cluster of a test the range of the first one's pods, and its own one
// to be known by; of P2P, a node's part goes by its part.
func overlapping(i int, c Cluster) Cluster {
	same, known := func(j int) netip.Prefix { return part(0, j) }, func(j int) netip.Prefix { return part(150+i, j) }
	c.PodCIDRs, c.Global = cluster(0, c.Type).PodCIDRs, map[netip.Prefix]netip.Prefix{}
	if c.Type == Gateway {
		c.Global[c.PodCIDRs[0]] = netip.PrefixFrom(known(0).Addr(), 16)
		return c
	}
	for j := range 6 {
		c.Global[same(j)] = known(j)
	}
	return c
}

// part is a node's of a range of pods.
func part(i, j int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), byte(j), 0}), 24)
}

func TestWithinKeepsHostBits(t *testing.T) {
	for _, c := range []struct{ at, node, want string }{
		{"220.0.0.0/8", "192.168.3.7", "220.168.3.7/8"},
		{"198.19.128.0/17", "198.18.2.9", "198.19.130.9/17"},
		{"210.1.2.3/32", "198.18.2.9", "210.1.2.3/32"},
		{"fd22::/16", "fd00:1::7", "fd22:1::7/16"},
		{"fd22:8000::/17", "fd00:1::7", "fd22:8001::7/17"},
	} {
		repotest.Equal(t, addressIn(netip.MustParsePrefix(c.at), netip.MustParseAddr(c.node)).String(), c.want, "%s in %s", c.node, c.at)
	}
}

// TestConfigs holds the entries of each kind of node against Kosmos' formulas: a node of
// P2P has 2(N-1) entries of forwarding and N-1 neighbours, and a route for each remote
// node's pods; a gateway's inner node 2 and 1, and a route for each remote range.
func TestConfigs(t *testing.T) {
	const each = 5
	for _, c := range []struct {
		name, kinds                       string // of the two clusters
		node                              string
		devices, routes, fdbs, arps, rule int
	}{
		{"p2p, inner", "pp", "c0-n3", 1, each + 1, 2 * (2*each - 1), 2*each - 1, 0},
		{"p2p, gateway", "pp", "c0-n0", 1, each + 1, 2 * (2*each - 1), 2*each - 1, 0},
		{"gateway, inner", "gg", "c0-n3", 1, 1 + 1, 2, 1, 0},
		{"gateway, gateway", "gg", "c0-n0", 2, 1 + 1, 2 + 2*(each-1), 1 + each - 1, 2},
		{"p2p to gateway", "pg", "c0-n3", 1, 1 + 1, 2 * each, each, 0},
		{"gateway to p2p, gateway", "gp", "c0-n0", 2, each + 1, 2*each + 2*(each-1), each + each - 1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			kinds := map[byte]string{'p': P2P, 'g': Gateway}
			var nodes []Node
			for i := range 2 {
				for j := range each {
					nodes = append(nodes, node(i, j))
				}
			}
			got := NewTopology([]Cluster{cluster(0, kinds[c.kinds[0]]), cluster(1, kinds[c.kinds[1]])}, nodes).Full()[c.node]
			if len(got.Devices) != c.devices || len(got.Routes) != c.routes || len(got.FDBs) != c.fdbs || len(got.ARPs) != c.arps || len(got.IPTables) != c.rule {
				t.Errorf("%d devices, %d routes, %d fdbs, %d arps, %d rules: want %d, %d, %d, %d, %d\n%+v", len(got.Devices), len(got.Routes),
					len(got.FDBs), len(got.ARPs), len(got.IPTables), c.devices, c.routes, c.fdbs, c.arps, c.rule, got)
			}
		})
	}
}

// TestDualStack holds that IPv6 has devices and entries of its own, as many as IPv4 has, that
// a family which is not asked for has none, and that one cluster's lack is another's, too.
func TestDualStack(t *testing.T) {
	const each = 3
	full := func(families ...string) *Config {
		var clusters []Cluster
		var nodes []Node
		for i, f := range families {
			c := dual(i, cluster(i, Gateway))
			c.Family = f
			clusters = append(clusters, c)
			for j := range each {
				nodes = append(nodes, dualNode(i, j, node(i, j)))
			}
		}
		return NewTopology(clusters, nodes).Full()["c0-n0"]
	}
	both, four, six := full("", FamilyAll), full(Family4, Family4), full(Family6, Family6)
	if both.Entries() != four.Entries()+six.Entries() || four.Entries() != six.Entries() || four.Entries() == 0 {
		t.Errorf("%d entries of both, %d of IPv4, %d of IPv6: want as many of each", both.Entries(), four.Entries(), six.Entries())
	}
	want := []Device{
		{"vxlan", "vx-bridge-6", "fd22:1::1/16", macOf("c0-n0", Bridge6), "eth0", 64, 4866},
		{"vxlan", "vx-local-6", "fd21:1::1/16", macOf("c0-n0", Local6), "eth0", 65, 4867},
	}
	repotest.Equal(t, six.Devices, want, "devices")
	if want := []Route{{"fd10:2::/32", "fd22:2::1", Bridge6}, {"fd11:2::/112", "fd22:2::1", Bridge6}}; !reflect.DeepEqual(six.Routes, want) {
		t.Errorf("routes %+v, want %+v", six.Routes, want)
	}
	if want := []Rule{{"nat", "POSTROUTING", "-s fd21::/16 -o vx-bridge-6 -j MASQUERADE"}, {"nat", "POSTROUTING", "-s fd22::/16 -j MASQUERADE"}}; !reflect.DeepEqual(six.IPTables, want) {
		t.Errorf("rules %+v, want %+v", six.IPTables, want)
	}
	if one := full("", Family4); len(one.Routes) != 2 || len(one.Devices) != 4 {
		t.Errorf("%d routes, %d devices beside a cluster of IPv4 alone: want those to it, and its own of both", len(one.Routes), len(one.Devices))
	}
}

// TestGlobalMap holds the rules of clusters of the same range, and that others know them by
// their global ones: of P2P node by node, of gateways at once.
func TestGlobalMap(t *testing.T) {
	nodes := []Node{node(0, 0), node(0, 1), node(1, 0), node(1, 1)}
	for i := range nodes {
		nodes[i].PodCIDRs = []netip.Prefix{part(0, i%2)}
	}
	rules := func(kind string) (out []string, routes []Route) {
		c := NewTopology([]Cluster{overlapping(0, cluster(0, kind)), overlapping(1, cluster(1, kind))}, nodes).Full()
		for _, r := range c["c0-n0"].IPTables {
			out = append(out, r.Chain+" "+r.Rule)
		}
		if inner := c["c0-n1"]; kind == Gateway && len(inner.IPTables) > 0 {
			t.Errorf("rules %v of an inner node: want a gateway's alone", inner.IPTables)
		}
		return out, c["c0-n0"].Routes
	}
	got, routes := rules(Gateway)
	if want := []string{"POSTROUTING -s 210.0.0.0/8 -o vx-bridge -j MASQUERADE", "POSTROUTING -s 220.0.0.0/8 -j MASQUERADE", "PREROUTING -d 10.150.0.0/16 -i vx-bridge -j NETMAP --to 10.0.0.0/16",
		"POSTROUTING -s 10.0.0.0/16 -o vx-bridge -j SNAT --to-source 10.150.0.0"}; !slices.Equal(got, want) {
		t.Errorf("rules of a gateway %q, want %q", got, want)
	}
	if want := []Route{{"10.100.1.0/24", "220.18.16.0", Bridge}, {"10.151.0.0/16", "220.18.16.0", Bridge}}; !slices.Equal(routes, want) { // services, pods
		t.Errorf("routes of a gateway %v, want %v", routes, want)
	}
	got, routes = rules(P2P)
	if len(got) != 2*6 || !slices.Contains(got, "PREROUTING -d 10.150.3.0/24 -i vx-bridge -j NETMAP --to 10.0.3.0/24") {
		t.Errorf("rules of p2p %q: want two of each of six ranges", got)
	}
	if want := []Route{{"10.100.1.0/24", "220.18.16.0", Bridge}, {"10.151.0.0/24", "220.18.16.0", Bridge}, {"10.151.1.0/24", "220.18.16.1", Bridge}}; !slices.Equal(routes, want) {
		t.Errorf("routes of p2p %v, want %v", routes, want)
	}
}

// TestOwnRangesAreNotLedAway holds that a cluster's range which overlaps one's own is no
// way to it where no GlobalMap tells them apart.
func TestOwnRangesAreNotLedAway(t *testing.T) {
	for _, kind := range []string{P2P, Gateway} {
		other := cluster(1, kind)
		other.PodCIDRs, other.ServiceCIDRs = cluster(0, kind).PodCIDRs, nil
		nodes := []Node{node(0, 0), node(0, 1), node(1, 0)}
		nodes[2].PodCIDRs = []netip.Prefix{part(0, 0)}
		for name, c := range NewTopology([]Cluster{cluster(0, kind), other}, nodes).Full() {
			if i := slices.IndexFunc(c.Routes, func(r Route) bool { return r.CIDR != "10.100.0.0/24" }); i >= 0 {
				t.Errorf("%s, %s: route %v takes packets of its own pods", kind, name, c.Routes[i])
			}
		}
	}
}

func TestClustersThatDoNotFit(t *testing.T) {
	for what, spoil := range map[string]func(*Cluster){
		"type":        func(c *Cluster) { c.Type = "star" },
		"family":      func(c *Cluster) { c.Family = "ipx" },
		"no bridge":   func(c *Cluster) { c.Bridge = netip.Prefix{} },
		"IPv6 is not": func(c *Cluster) { c.Bridge = c.Bridge6 },
		"IPv4 is not": func(c *Cluster) { c.Local6 = c.Local },
		"IPv6 alone":  func(c *Cluster) { c.Family, c.Local6 = Family6, netip.Prefix{} },
		"sizes": func(c *Cluster) {
			c.Global = map[netip.Prefix]netip.Prefix{part(0, 0): netip.MustParsePrefix("10.9.0.0/16")}
		},
		"families": func(c *Cluster) {
			c.Global = map[netip.Prefix]netip.Prefix{part(0, 0): netip.MustParsePrefix("fd00::/24")}
		},
	} {
		c := dual(0, cluster(0, P2P))
		repotest.NoError(t, c.Validate())
		if spoil(&c); c.Validate() == nil {
			t.Errorf("%s: %+v is taken", what, c)
		}
	}
	if c := (Cluster{Name: "c", Type: P2P, Family: Family6, Local6: dual(0, Cluster{}).Local6, Bridge6: dual(0, Cluster{}).Bridge6}); c.Validate() != nil {
		t.Errorf("IPv6 alone: %v", c.Validate())
	}
}

// TestIncrementalIsFull holds that after any events, in any order and taken together in
// any way, the incremental manager has written what one that computes all has.
func TestIncrementalIsFull(t *testing.T) {
	ctx := context.Background()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 21))
		full := NewManager(Options{Compute: ComputeFull}, kept{map[string]*Stored{}})
		some := NewManager(Options{Compute: ComputeIncremental}, kept{map[string]*Stored{}})
		for range 120 {
			change(r, full, some)
			repotest.NoError(t, full.Pass(ctx))
			if r.IntN(3) > 0 { // more comes at once
				continue
			}
			repotest.NoError(t, some.Pass(ctx))
			if !reflect.DeepEqual(full.store, some.store) {
				t.Fatalf("seed %d: the incremental manager has other configurations", seed)
			}
		}
	}
}

// change does the same to both managers.
func change(r *rand.Rand, both ...*Manager) {
	i, j := r.IntN(3), r.IntN(6)
	n, c := node(i, j), cluster(i, []string{P2P, Gateway}[r.IntN(2)])
	n.Gateway = r.IntN(3) == 0
	if r.IntN(2) == 0 {
		n.PodCIDRs, c = []netip.Prefix{part(0, j)}, overlapping(i, c)
	}
	if r.IntN(2) == 0 {
		n, c = dualNode(i, j, n), dual(i, c)
		c.Family = []string{"", FamilyAll, Family4, Family6}[r.IntN(4)]
	}
	if r.IntN(8) == 0 {
		n.IP = netip.Addr{}
	}
	what := r.IntN(10)
	for _, m := range both {
		switch what {
		case 0:
			m.SetCluster(c.Name, &c)
		case 1:
			m.SetNode(n.Name, nil)
		case 2:
			m.SetCluster(c.Name, nil)
		default:
			m.SetNode(n.Name, &n)
		}
	}
}

// joined lets nodes of two clusters join, one event after another, three of each node as
// Kosmos has them (made, with its address, with its roles), and returns what the manager
// did. at is how many events an incremental manager takes together.
func joined(t testing.TB, o Options, kind string, nodes, at int) Counts {
	m, ctx := NewManager(o, kept{map[string]*Stored{}}), context.Background()
	for i := range 2 {
		c := cluster(i, kind)
		m.SetCluster(c.Name, &c)
	}
	events := 0
	pass := func() {
		if err := m.Pass(ctx); err != nil && !errors.Is(err, errTooLong) {
			t.Fatal(err)
		}
	}
	for k := range nodes {
		whole := node(k%2, k/2)
		bare, addressed := whole, whole
		bare.IP, bare.Gateway, addressed.Gateway = netip.Addr{}, false, false
		for _, n := range []Node{bare, addressed, whole} {
			events++
			if m.SetNode(n.Name, &n) && (o.Compute == ComputeFull || events%at == 0) {
				pass()
			}
		}
	}
	pass()
	return m.Counts()
}

// TestJoinWrites is K7 in its numbers: what N nodes that join come to. Full computing in
// P2P writes each of the others at each join, and once more for what it keeps beside;
// incremental computing writes what has changed when a window of events ends.
func TestJoinWrites(t *testing.T) {
	for _, n := range []int{10, 20, 40} {
		full, some := joined(t, Default(), P2P, n, 1), joined(t, Options{Compute: ComputeIncremental}, P2P, n, 3*n)
		t.Logf("%d nodes: full %+v, incremental %+v", n, full, some)
		if least := n * (n - 1); full.Writes < least { // n(n-1)/2 changes, each written twice
			t.Errorf("%d nodes: full computing wrote %d times, want at least %d", n, full.Writes, least)
		}
		repotest.Equal(t, some.Writes, n, "%d nodes that join within one window: writes", n)
		one := joined(t, Options{Compute: ComputeIncremental}, Gateway, n, 1) // a window for each event
		if one.Writes > 4*n {
			t.Errorf("%d nodes of gateways: %d writes, want a node's and its gateway's", n, one.Writes)
		}
	}
}

// TestPreviousIsRefused holds that what Kosmos keeps beside a configuration of P2P passes
// what an API server takes at some thousand nodes, and at half as many with both families.
func TestPreviousIsRefused(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		six         bool
		least, most int
	}{{false, 960, 1200}, {true, 440, 600}} {
		clusters := []Cluster{cluster(0, P2P), cluster(1, P2P)}
		if c.six {
			clusters = []Cluster{dual(0, clusters[0]), dual(1, clusters[1])}
		}
		var nodes []Node
		refused := 0
		for k := 0; refused == 0 && k < 2000; k++ {
			n := node(k%2, k/2)
			if c.six {
				n = dualNode(k%2, k/2, n)
			}
			nodes = append(nodes, n)
			if k < c.least-60 || k%20 > 0 {
				continue
			}
			m := NewManager(Default(), kept{map[string]*Stored{}})
			of := NewTopology(clusters, nodes).Of(&nodes[0])
			repotest.NoError(t, m.writeConfig(ctx, nodes[0].Name, of))
			of.Routes = of.Routes[1:] // another event, and it is kept beside
			if err := m.writeConfig(ctx, nodes[0].Name, of); errors.Is(err, errTooLong) {
				refused = k + 1
			}
		}
		t.Logf("IPv6 %v: refused from %d nodes", c.six, refused)
		if refused < c.least || refused > c.most {
			t.Errorf("IPv6 %v: refused from %d nodes: want %d to %d, which depends on the length of addresses", c.six, refused, c.least, c.most)
		}
	}
}

// TestWhatCouldNotBeWrittenGoesAgain holds that who comes again with a cluster because a
// pass failed is told to compute, though nothing has changed since.
func TestWhatCouldNotBeWrittenGoesAgain(t *testing.T) {
	for _, compute := range []string{ComputeFull, ComputeIncremental} {
		o := Default()
		o.Compute = compute
		s := &away{kept: kept{map[string]*Stored{}}}
		m := NewManager(o, s)
		c, n := cluster(0, P2P), node(0, 0)
		m.SetNode(n.Name, &n)
		s.yes = true
		if !m.SetCluster(c.Name, &c) || m.Pass(t.Context()) == nil {
			t.Fatalf("%s: nothing was to be written, or it was", compute)
		}
		s.yes = false
		if !m.SetCluster(c.Name, &c) {
			t.Errorf("%s: nothing is to be computed after a pass that failed", compute)
		}
		if err := m.Pass(t.Context()); err != nil || s.Get(n.Name) == nil {
			t.Errorf("%s: %v, and the node has %v", compute, err, s.Get(n.Name))
		}
		if m.SetCluster(c.Name, &c) {
			t.Errorf("%s: something is to be computed after one that did not", compute)
		}
	}
}
