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
)

// kept is a store in memory that refuses what an API server refuses.
type kept struct{ of map[string]*Stored }

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
		PodCIDRs:    []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), 16)},
		ServiceCIDR: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 100, byte(i), 0}), 24)}
}

// node returns the j-th node of the i-th cluster; the first is its gateway.
func node(i, j int) Node {
	return Node{Name: fmt.Sprintf("c%d-n%d", i, j), Cluster: fmt.Sprintf("c%d", i), Device: "eth0", Gateway: j == 0,
		IP:       netip.AddrFrom4([4]byte{198, 18, byte(i*16 + j/256), byte(j)}),
		PodCIDRs: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), byte(j), 0}), 24)}}
}

func TestWithinKeepsHostBits(t *testing.T) {
	for _, c := range []struct{ at, node, want string }{
		{"220.0.0.0/8", "192.168.3.7", "220.168.3.7/8"},
		{"198.19.128.0/17", "198.18.2.9", "198.19.130.9/17"},
		{"210.1.2.3/32", "198.18.2.9", "210.1.2.3/32"},
	} {
		if got := within(netip.MustParsePrefix(c.at), netip.MustParseAddr(c.node)).String(); got != c.want {
			t.Errorf("%s in %s: %s, want %s", c.node, c.at, got, c.want)
		}
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
		{"p2p, gateway", "pp", "c0-n0", 1, each + 1, 2 * (2*each - 1), 2*each - 1, 1},
		{"gateway, inner", "gg", "c0-n3", 1, 1 + 1, 2, 1, 0},
		{"gateway, gateway", "gg", "c0-n0", 2, 1 + 1, 2 + 2*(each-1), 1 + each - 1, 1},
		{"p2p to gateway", "pg", "c0-n3", 1, 1 + 1, 2 * each, each, 0},
		{"gateway to p2p, gateway", "gp", "c0-n0", 2, each + 1, 2*each + 2*(each-1), each + each - 1, 1},
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
			if err := full.Pass(ctx); err != nil {
				t.Fatal(err)
			}
			if r.IntN(3) > 0 { // more comes at once
				continue
			}
			if err := some.Pass(ctx); err != nil {
				t.Fatal(err)
			}
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
		if some.Writes != n {
			t.Errorf("%d nodes that join within one window: %d writes, want one a node", n, some.Writes)
		}
		one := joined(t, Options{Compute: ComputeIncremental}, Gateway, n, 1) // a window for each event
		if one.Writes > 4*n {
			t.Errorf("%d nodes of gateways: %d writes, want a node's and its gateway's", n, one.Writes)
		}
	}
}

// TestPreviousIsRefusedAboveAThousandPeers holds that what Kosmos keeps beside a
// configuration of P2P passes what an API server takes at some thousand nodes.
func TestPreviousIsRefusedAboveAThousandPeers(t *testing.T) {
	ctx, clusters := context.Background(), []Cluster{cluster(0, P2P), cluster(1, P2P)}
	var nodes []Node
	refused := 0
	for k := 0; refused == 0 && k < 2000; k++ {
		nodes = append(nodes, node(k%2, k/2))
		if k < 900 || k%20 > 0 {
			continue
		}
		m := NewManager(Default(), kept{map[string]*Stored{}})
		c := NewTopology(clusters, nodes).Of(&nodes[0])
		if err := m.write(ctx, nodes[0].Name, c); err != nil {
			t.Fatal(err)
		}
		c.Routes = c.Routes[1:] // another event, and it is kept beside
		if err := m.write(ctx, nodes[0].Name, c); errors.Is(err, errTooLong) {
			refused = k + 1
		}
	}
	t.Logf("refused from %d nodes", refused)
	if refused < 960 || refused > 1200 {
		t.Errorf("refused from %d nodes: want about 1,020, which depends on the length of addresses", refused)
	}
}
