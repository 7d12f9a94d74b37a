package clusters_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/plane/proxy"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/tree"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument/instrumenttest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
)

// linked puts a link before the first member, which the tree goes through.
func (r *rig) linked() *proxy.Proxy {
	r.t.Helper()
	m := r.members[0]
	p := repotest.Must(proxy.Start(proxy.Options{To: strings.TrimPrefix(m.cluster.Address(), "https://"), Clock: clock.Start()}))(r.t)
	r.t.Cleanup(func() { _ = p.Close() })
	via := repotest.Must(m.cluster.Endpoint().Via(p.Addr()))(r.t)
	repotest.NoError(r.t, via.WriteKubeconfig(filepath.Join(r.folder, m.name+".kubeconfig")))
	return p
}

// on binds a pod to a node. One that is bound later is two events, the second of which may
// have it created again, with all that it needs, before its creation is heard of.
func on(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeName = node }
}

// added is how many keys a queue was given, worked how many are done, and retried how
// many of them failed and go again.
func (m *manager) added(queue string) int {
	return int(value(m.t, m.registry, "workqueue_adds_total", "name="+queue))
}

func (m *manager) retried(queue string) int {
	return int(value(m.t, m.registry, "workqueue_retries_total", "name="+queue))
}

// manageLinked joins the members, the first behind a link, and runs a manager until it
// rests. It waits for answers for as long as they take: what is held is whom a member
// holds up, not for how long.
func (r *rig) manageLinked(s shape, change func(*tree.Options)) (*proxy.Proxy, *manager) {
	r.t.Helper()
	link := r.linked()
	r.join(s)
	m := r.manage(change, calm, func(o *tree.Options) { o.RequestTimeout, o.Retry = 0, tree.RetryGrows })
	r.joined(m)
	m.rests()
	return link, m
}

// TestBlackHole holds that a member that does not answer holds up the pods of all others
// where they share one worker, and of none where there is a second worker or each member
// has its own; and that all run when it is back.
func TestBlackHole(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*tree.Options)
		waiting bool
	}{"default": {change: kosmos, waiting: true}, "two workers": {change: func(o *tree.Options) { o.PodWorkers = 2 }}, "improved": {change: improved}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const others = 5
			s := shape{members: 3, nodes: 1, mode: api.LeafNode, unjoined: true}
			r := newRig(t, s)
			link, m := r.manageLinked(s, c.change)
			link.Stall(true)
			before := m.added("pods")
			r.create(pod("lost", on("m0-n0")))
			repotest.Eventually(t, "a worker is at it", func() bool { return m.added("pods") > before && m.worked("pods") < m.added("pods") })
			for i := range others {
				r.create(pod(fmt.Sprint("p", i), on("m1-n0")))
			}
			if c.waiting {
				repotest.Eventually(t, "the others wait", func() bool { return value(t, m.registry, "workqueue_depth", "name=pods") == others })
			} else {
				repotest.Eventually(t, "the others run", func() bool { return r.running() == others })
			}
			link.Stall(false)
			r.run(others + 1)
			r.agree()
			m.rests()
			repotest.Equal(t, instrumenttest.Measured(t, m.registry, "tree_pod_down_seconds", "result=made").Observed, others+1, "pods measured on their way down")
		})
	}
}

// TestBlackHoleThatJoins holds the same of a member that joins behind one that hangs.
func TestBlackHoleThatJoins(t *testing.T) {
	for _, workers := range []int{1, 4} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			t.Parallel()
			s := shape{members: 1, nodes: 1, mode: api.LeafAll, unjoined: true}
			r := newRig(t, s)
			link := r.linked()
			r.join(s)
			link.Stall(true)
			m := r.manage(func(o *tree.Options) { o.JoinWorkers = workers })
			repotest.Eventually(t, "a worker is at it", func() bool { return m.added("join") > m.worked("join") })
			before := m.added("join")
			// The same cluster, reached directly, joins as another member.
			r.register("late", planetest.WriteKubeconfig(t, r.members[0].cluster.Endpoint()))
			if workers > 1 {
				repotest.Eventually(t, "the other one joins", func() bool { return value(t, m.registry, "tree_members") == 1 })
			} else {
				repotest.Eventually(t, "the other one waits", func() bool { return m.added("join") > before })
				// The worker may have given up its handshake by now, after ten seconds.
				if got := value(t, m.registry, "tree_members"); got != 0 && m.retried("join") == 0 {
					t.Errorf("%v members have joined behind a black hole", got)
				}
			}
			link.Stall(false)
			repotest.Eventually(t, "both have joined", func() bool { return value(t, m.registry, "tree_members") == 2 })
		})
	}
}

// register makes a Cluster, as kosmosctl does.
func (r *rig) register(name, kubeconfig string) {
	r.t.Helper()
	raw := repotest.Must(os.ReadFile(kubeconfig))(r.t)
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": api.Group + "/" + api.Version, "kind": "Cluster", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"kubeconfig": base64.StdEncoding.EncodeToString(raw), "clusterTreeOptions": map[string]any{"enable": true}}}}
	repotest.Must(r.kosmos(api.ResourceClusters).Create(r.t.Context(), o, metav1.CreateOptions{}))(r.t)
}

// TestCredentialsExpire holds that no pod is lost when a member turns the tree away for
// a while, and that those that came meanwhile run.
func TestCredentialsExpire(t *testing.T) {
	planetest.Each(t, presets(), func(t *testing.T, _ string, change func(*tree.Options)) {
		r := newRig(t, shape{members: 2, nodes: 1, mode: api.LeafNode})
		m := r.manage(change, soon)
		r.joined(m)
		r.creates(4)
		r.run(4)
		token := r.members[0].cluster.Endpoint().Config("").BearerToken
		r.members[0].cluster.SetToken("another")
		r.create(pod("late", on("m0-n0")))
		repotest.Eventually(t, "it is turned away", func() bool { return value(t, m.registry, "tree_failures_total", "part=pods") > 0 })
		r.members[0].cluster.SetToken(token)
		r.run(5)
		r.agree()
	})
}

// TestStopsAtAnyMoment ends managers at a seeded one of their calls while pods are made and deleted: in
// the end each has one in a member, and nothing is doubled or left.
func TestStopsAtAnyMoment(t *testing.T) {
	planetest.Each(t, presets(), func(t *testing.T, _ string, change func(*tree.Options)) {
		const pods = 20
		r := newRig(t, shape{members: 2, nodes: 2, mode: api.LeafNode})
		r.settings()
		rng := rand.New(rand.NewPCG(1, 2))
		interrupt := func(from, to int, act func(i int)) {
			for i := from; i < to; i += 5 {
				var begun atomic.Bool
				var calls atomic.Int64
				at, reached := int64(1+rng.IntN(5)), make(chan struct{}) // each of the five has one call at least
				m := r.manage(change, func(o *tree.Options) {
					planetest.Before(o.Config, func(q *http.Request) {
						if begun.Load() && q.URL.Query().Get("watch") == "" && calls.Add(1) == at {
							close(reached)
						}
					})
				})
				r.joined(m)
				begun.Store(true)
				for k := range 5 {
					act(i + k)
				}
				<-reached
				m.stop()
			}
		}
		interrupt(0, pods, func(i int) { r.create(pod(fmt.Sprint("p", i), withSettings)) })
		last := r.manage(change)
		r.joined(last)
		r.run(pods)
		r.agree()
		last.stop()
		interrupt(0, pods/2, func(i int) { r.delete(fmt.Sprint("p", i)) })
		r.joined(r.manage(change))
		r.run(pods / 2)
		r.agree()
	})
}

// TestLimiter holds that calls wait for their limiter, and that a diagnosis finds it where
// it looks for every client's.
func TestLimiter(t *testing.T) {
	r := newRig(t, shape{members: 1, nodes: 1, mode: api.LeafAll})
	m := r.manage(func(o *tree.Options) { calm(o); o.Limiter = limiter.Rate{QPS: 20, Burst: 1} })
	r.joined(m)
	r.creates(10)
	r.run(10)
	for _, name := range []string{"tree_limiter_wait_seconds", "rest_client_rate_limiter_duration_seconds"} {
		waited := instrumenttest.Measured(t, m.registry, name).Sum
		if least := 9.0 / 20; waited < least { // ten lists of services at 20 a second
			t.Errorf("%s: calls waited for %.2f s, want at least %.2f s", name, waited, least)
		}
	}
}
