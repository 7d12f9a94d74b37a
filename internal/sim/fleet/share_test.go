package fleet_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/share"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
	"github.com/windtunnel/windtunnel/internal/sim/fleet"
)

// nodesAndPods has fleets of so many shares keep ten nodes, with four pods on each, and
// returns what the server has of each: labels and address of the nodes, by name, and
// the addresses of all pods.
func nodesAndPods(t *testing.T, shares int) (nodes map[string]string, podIPs map[string]bool) {
	t.Helper()
	s := apitest.New(t)
	cfg := config(10)
	cfg.Spread = map[string]int{"topology.kubernetes.io/zone": 3}
	var all []*fleet.Fleet
	for i := range shares {
		f, err := fleet.Start(t.Context(), cfg, fleet.Options{Endpoint: s.Endpoint(), Clock: clock.Start(), Seed: uint64(i), Share: share.Share{Index: i, Of: shares}})
		repotest.NoError(t, err)
		t.Cleanup(func() {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
		all = append(all, f)
	}
	managed := 0
	for _, f := range all {
		ready(t, f)
		managed += f.Stats().Nodes
	}
	if managed != 10 || s.Calls("POST nodes") != 10 {
		t.Errorf("%d shares: %d nodes are kept, %d were made", shares, managed, s.Calls("POST nodes"))
	}
	nodes, podIPs = map[string]string{}, map[string]bool{}
	for _, n := range s.Nodes() {
		nodes[n.Name] = fmt.Sprint(n.Labels, n.Status.Addresses)
		for k := range 4 {
			s.AddPod(apitest.Pod(fmt.Sprintf("%s-pod-%d", n.Name, k), n.Name))
		}
	}
	repotest.Eventually(t, "all pods run", func() bool {
		clear(podIPs)
		for _, p := range s.Pods() {
			if p.Status.Phase == corev1.PodRunning {
				podIPs[p.Status.PodIP] = true
			}
		}
		return len(podIPs) == 40
	})
	if patches := s.Calls("PATCH pods/status"); patches != 40 {
		t.Errorf("%d shares: %d patches for 40 pods", shares, patches)
	}
	repotest.Eventually(t, "leases", func() bool { return len(s.Leases()) == 10 })
	return nodes, podIPs
}

// The shares of a fleet together are the fleet: no node twice, none nobody's, the same
// names, labels and addresses, and no two pods with one address.
func TestSharesAreTheFleet(t *testing.T) {
	whole, _ := nodesAndPods(t, 1)
	for _, shares := range []int{2, 3, 10} {
		if got, _ := nodesAndPods(t, shares); fmt.Sprint(got) != fmt.Sprint(whole) {
			t.Errorf("%d shares have\n%v, not\n%v", shares, got, whole)
		}
	}
}

func TestInvalidShare(t *testing.T) {
	for _, bad := range []share.Share{{Index: 2, Of: 2}, {Index: -1, Of: 2}, {Index: 1}, {Of: -1}} {
		_, err := fleet.Start(t.Context(), config(1), fleet.Options{Endpoint: apitest.New(t).Endpoint(), Clock: clock.Start(), Share: bad})
		if err == nil {
			t.Errorf("share %+v was taken", bad)
		}
	}
}
