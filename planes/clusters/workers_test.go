package clusters_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/tree"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
)

// gate holds calls until it is opened, and counts those that are under way at once.
type gate struct {
	opened chan struct{}

	mu        sync.Mutex
	now, most int
}

func (g *gate) pass() {
	g.mu.Lock()
	g.now++
	g.most = max(g.most, g.now)
	g.mu.Unlock()
	<-g.opened
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now--
}

func (g *gate) counts() (now, most int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now, g.most
}

// TestWorkersOfAMember holds that as many statuses of a member's pods, and as many leases
// and statuses of its leaves, are written at once as the options say, and not one more.
func TestWorkersOfAMember(t *testing.T) {
	const all = 6 // pods, on as many leaves
	for _, c := range []struct {
		option, method, path string // of the calls that are held
		set                  func(*tree.Options, int)
	}{
		{"status-workers", http.MethodPut, "/pods/", func(o *tree.Options, n int) { o.StatusWorkers = n }},
		{"node-workers", http.MethodPost, "/leases", func(o *tree.Options, n int) { o.NodeWorkers = n }},
		{"node-workers", http.MethodPut, "/nodes/", func(o *tree.Options, n int) { o.NodeWorkers = n }},
	} {
		for _, workers := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s %d%s", c.option, workers, c.path), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, shape{members: 1, nodes: all, mode: api.LeafNode})
				g := &gate{opened: make(chan struct{})}
				open := sync.OnceFunc(func() { close(g.opened) })
				m := r.manage(func(o *tree.Options) {
					calm(o)
					c.set(o, workers)
					planetest.Before(o.Config, func(q *http.Request) {
						if q.Method == c.method && strings.Contains(q.URL.Path, c.path) {
							g.pass()
						}
					})
				})
				t.Cleanup(open)
				r.joined(m)
				r.creates(all)
				repotest.Eventually(t, "as many are under way as there are workers", func() bool { now, _ := g.counts(); return now == workers })
				repotest.Eventually(t, "all pods are in the member", func() bool { return m.made() == all })
				open()
				r.run(all)
				repotest.Eventually(t, "all leaves are renewed", func() bool { return m.passes("statuses") == 1 && m.passes("leases") == 1 })
				if _, most := g.counts(); most != workers {
					t.Errorf("%d calls were under way at once, want %d", most, workers)
				}
				r.agree()
			})
		}
	}
}

// TestLeaseDuration holds that leases say how long they count, also those that a manager
// finds with another duration.
func TestLeaseDuration(t *testing.T) {
	r := newRig(t, shape{members: 1, nodes: 3, mode: api.LeafNode})
	for _, want := range []time.Duration{40 * time.Second, 7 * time.Second} {
		m := r.manage(func(o *tree.Options) { calm(o); o.LeaseDuration = want })
		r.joined(m)
		repotest.Eventually(t, "leases are renewed", func() bool { return m.passes("leases") == 1 })
		list, err := r.host.CoordinationV1().Leases(api.NamespaceLeases).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 3 {
			t.Fatal(list, err)
		}
		for _, l := range list.Items {
			repotest.Equal(t, time.Duration(*l.Spec.LeaseDurationSeconds)*time.Second, want, "lease %s is for", l.Name)
		}
		m.stop()
	}
}

// TestLeafMode holds that nothing is written for leaves that are as they were made, where
// the options say so. What Kosmos writes is in internal/tree/testdata/v0.5.5.calls.
func TestLeafMode(t *testing.T) {
	planetest.Each(t, map[string]int{api.LeafNode: 6, api.LeafParty: 4, api.LeafAll: 2}, func(t *testing.T, mode string, leaves int) {
		r := newRig(t, shape{members: 2, nodes: 3, mode: mode})
		m := r.manage(func(o *tree.Options) { improved(o); calm(o) })
		r.joined(m)
		// One pass of each member, and then what events of its nodes renew.
		repotest.Eventually(t, "it rests", func() bool { return m.passes("statuses") == 2 && m.passes("leases") == 2 && m.idle() })
		got := []int{m.hostCalls("CREATE", "nodes"), m.hostCalls("CREATE", "leases"), m.hostCalls("UPDATE", "leases"), m.hostCalls("UPDATE", "nodes/status"), m.hostCalls("PATCH", "nodes"), m.hostCalls("PATCH", "nodes/status")}
		if want := []int{leaves, leaves, 0, 0, 0, 0}; !slices.Equal(got, want) {
			t.Errorf("made: nodes, leases; written: leases, statuses; patched: nodes, statuses: %v, want %v", got, want)
		}
	})
}
