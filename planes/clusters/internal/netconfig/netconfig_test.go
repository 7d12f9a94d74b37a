package netconfig

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/link"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
)

// rig is a host in memory on which a manager runs.
type rig struct {
	*testing.T
	client *client
	config *rest.Config
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, config: planetest.Cluster(t, "host", hollow.Models{}).Endpoint().Config("test")}
	r.config.QPS = -1
	repotest.NoError(t, Install(t.Context(), r.config))
	r.client = repotest.Must(newClient(r.config))(t)
	return r
}

// manage runs a manager until the test or the returned function ends it.
func (r *rig) manage(o Options) (end func()) {
	o.Config, o.Registry, o.Log, o.Limiter = r.config, instrument.New(""), planetest.Quiet(), limiter.Rate{QPS: 10000, Burst: 10000}
	return planetest.Start(r, func(ctx context.Context) error { return Run(ctx, o) })
}

// cluster makes a Cluster with a link of a type.
func (r *rig) cluster(name, kind string) {
	r.Helper()
	c := &cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.Link = &linkOptions{Enable: true, NetworkType: kind}
	repotest.Must(r.client.clusters.Create(r.Context(), c))(r)
}

// node makes the i-th node of a cluster.
func (r *rig) node(cluster string, i int) *ClusterNode {
	r.Helper()
	n := &ClusterNode{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-n%d", cluster, i)}}
	n.Spec = ClusterNodeSpec{ClusterName: cluster, NodeName: fmt.Sprintf("n%d", i), InterfaceName: "eth0",
		IP: fmt.Sprintf("198.18.%d.%d", len(cluster), i+1), PodCIDRs: []string{fmt.Sprintf("10.%d.%d.0/24", len(cluster), i)}}
	return repotest.Must(r.client.nodes.Create(r.Context(), n))(r)
}

// await waits until the node configurations are as they should be.
func (r *rig) await(what string, ok func(map[string]*NodeConfig) bool) map[string]*NodeConfig {
	r.Helper()
	var there map[string]*NodeConfig
	repotest.Eventually(r, what, func() bool {
		s := repotest.Must(newStore(r.Context(), r.client))(r)
		there = s.of
		return ok(there)
	}, func() any { return fmt.Sprintf("%d configurations", len(there)) })
	return there
}

// TestKeepsConfigurations holds for both ways to compute that nodes which come are known
// to all, that one which goes is forgotten, that what somebody else changes is mended at
// the next change, and that a manager that starts again writes nothing.
func TestKeepsConfigurations(t *testing.T) {
	for _, c := range []struct {
		compute string
		window  time.Duration
	}{{link.ComputeFull, 0}, {link.ComputeIncremental, 20 * time.Millisecond}, {link.ComputeIncremental, 0}} {
		t.Run(fmt.Sprint(c.compute, " ", c.window), func(t *testing.T) {
			t.Parallel()
			r, o := newRig(t), Default()
			o.Compute, o.Previous, o.Window = c.compute, false, c.window
			end := r.manage(o)
			r.cluster("a", link.P2P)
			r.cluster("bb", link.P2P)
			nodes := []*ClusterNode{}
			for i := range 4 {
				nodes = append(nodes, r.node("a", i), r.node("bb", i))
			}
			know := func(peers int) func(map[string]*NodeConfig) bool {
				return func(all map[string]*NodeConfig) bool {
					for _, one := range all {
						if len(one.Spec.ARPs) != peers || len(one.Spec.Devices) != 1 {
							return false
						}
					}
					return len(all) == peers+1
				}
			}
			r.await("eight nodes", know(7))
			repotest.NoError(t, r.client.nodes.Delete(t.Context(), nodes[0]))
			before := r.await("seven nodes", know(6))
			end()
			end = r.manage(o)
			defer end()
			spoilt := before["a-n1"].DeepCopyObject().(*NodeConfig)
			spoilt.Spec.ARPs = nil
			repotest.Must(r.client.configs.Update(t.Context(), spoilt))(t)
			r.node("a", 7)
			after := r.await("eight nodes, one of them spoilt by others", know(7))
			for name, one := range before {
				most := int64(1)
				if name == spoilt.Name {
					most = 3 // spoilt, mended, and the node that came
				}
				if now := after[name]; now.Generation > one.Generation+most {
					t.Errorf("%s was written %d times: want %d", name, now.Generation-one.Generation, most)
				}
			}
		})
	}
}

// TestJoinedIsComputed holds that clusters and nodes pass through the API server as they are:
// both families of addresses and ranges that overlap come to what package link computes of
// them at once.
func TestJoinedIsComputed(t *testing.T) {
	range4, range6 := netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd10:1::/64")
	var clusters []link.Cluster
	var nodes []link.Node
	for i, kind := range []string{link.Gateway, link.Gateway} {
		name := fmt.Sprint("c", i)
		clusters = append(clusters, link.Cluster{Name: name, Type: kind, Family: link.FamilyAll, PodCIDRs: []netip.Prefix{range4, range6},
			ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.100.%d.0/24", i))},
			Local:        netip.MustParsePrefix("210.0.0.0/8"), Bridge: netip.MustParsePrefix("220.0.0.0/8"),
			Local6: netip.MustParsePrefix("fd21::/16"), Bridge6: netip.MustParsePrefix("fd22::/16"),
			Global: map[netip.Prefix]netip.Prefix{range4: netip.MustParsePrefix(fmt.Sprintf("10.15%d.0.0/16", i)), range6: netip.MustParsePrefix(fmt.Sprintf("fd15:%d::/64", i))}})
		for j := range 2 {
			nodes = append(nodes, link.Node{Name: fmt.Sprintf("%s-n%d", name, j), Cluster: name, Device: "eth0", PodCIDRs: []netip.Prefix{range4, range6},
				IP: netip.AddrFrom4([4]byte{198, 18, byte(i), byte(j + 1)}), IP6: netip.MustParseAddr(fmt.Sprintf("fd00:%d::%d", i, j+1)), Gateway: j == 0})
		}
	}
	r, o := newRig(t), Default()
	o.Compute, o.Previous, o.Window = link.ComputeIncremental, false, 0
	defer r.manage(o)()
	repotest.NoError(t, Join(t.Context(), r.config, clusters, nodes))
	for _, n := range nodes {
		repotest.NoError(t, r.client.writeAddresses(t.Context(), Machine{Name: n.Name, Address: n.IP, Address6: n.IP6}))
		repotest.NoError(t, (elector{ElectorDefault(), r.client, n.Cluster, n.Cluster + "-n0"}).writeRoles(t.Context()))
	}
	want := link.NewTopology(clusters, nodes).Full()
	r.await("the configurations of all", func(all map[string]*NodeConfig) bool {
		for name, c := range want {
			if one := all[name]; one == nil || !reflect.DeepEqual(&one.Spec, c) {
				return false
			}
		}
		return len(all) == len(want)
	})
	if n := len(want["c0-n0"].IPTables); n != 8 {
		t.Errorf("%d rules of a gateway: want two that masquerade and two of a GlobalMap for each family", n)
	}
}
