package netconfig

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/hollow"
	"github.com/windtunnel/windtunnel/internal/subject/kit/instrument"
	"github.com/windtunnel/windtunnel/internal/subject/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/link"
)

// rig is a host in memory on which a manager runs.
type rig struct {
	*testing.T
	client *client
	config *rest.Config
}

func newRig(t *testing.T) *rig {
	t.Helper()
	s, err := hollow.New(hollow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	host, err := s.Cluster("host")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, config: host.Endpoint().Config("test")}
	r.config.QPS = -1
	if err := Install(t.Context(), r.config); err != nil {
		t.Fatal(err)
	}
	if r.client, err = newClient(r.config); err != nil {
		t.Fatal(err)
	}
	return r
}

// manage runs a manager until the returned function is called.
func (r *rig) manage(o Options) (end func()) {
	ctx, cancel := context.WithCancel(r.Context())
	o.Config, o.Registry, o.Log = r.config, instrument.New("link"), slog.New(slog.DiscardHandler)
	o.Limiter = limiter.Rate{QPS: 10000, Burst: 10000}
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := Run(ctx, o); err != nil && ctx.Err() == nil {
			r.Error(err)
		}
	})
	return func() {
		cancel()
		wait.Wait()
	}
}

// cluster makes a Cluster with a link of a type.
func (r *rig) cluster(name, kind string) {
	r.Helper()
	c := &cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.Link = &linkOptions{Enable: true, NetworkType: kind}
	if _, err := r.client.clusters.Create(r.Context(), c); err != nil {
		r.Fatal(err)
	}
}

// node makes the i-th node of a cluster.
func (r *rig) node(cluster string, i int) *ClusterNode {
	r.Helper()
	n := &ClusterNode{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-n%d", cluster, i)}}
	n.Spec = ClusterNodeSpec{ClusterName: cluster, NodeName: fmt.Sprintf("n%d", i), InterfaceName: "eth0",
		IP: fmt.Sprintf("198.18.%d.%d", len(cluster), i+1), PodCIDRs: []string{fmt.Sprintf("10.%d.%d.0/24", len(cluster), i)}}
	out, err := r.client.nodes.Create(r.Context(), n)
	if err != nil {
		r.Fatal(err)
	}
	return out
}

// await waits until the node configurations are as they should be.
func (r *rig) await(what string, ok func(map[string]*NodeConfig) bool) map[string]*NodeConfig {
	r.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		s, err := newStore(r.Context(), r.client)
		if err != nil {
			r.Fatal(err)
		}
		if ok(s.of) {
			return s.of
		}
		if time.Now().After(deadline) {
			r.Fatalf("%s: not within a minute: %d configurations", what, len(s.of))
		}
	}
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
			if err := r.client.nodes.Delete(t.Context(), nodes[0]); err != nil {
				t.Fatal(err)
			}
			before := r.await("seven nodes", know(6))
			end()
			end = r.manage(o)
			defer end()
			spoilt := before["a-n1"].DeepCopyObject().(*NodeConfig)
			spoilt.Spec.ARPs = nil
			if _, err := r.client.configs.Update(t.Context(), spoilt); err != nil {
				t.Fatal(err)
			}
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
