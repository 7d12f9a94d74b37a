package clusters_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/tree"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument/instrumenttest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
)

// calm lets nothing renew by itself, so that the calls are those of what a test does.
func calm(o *tree.Options) { o.LeaseInterval, o.StatusInterval = time.Hour, time.Hour }

// soon lets what failed go again at once: Kosmos' ten seconds are held in the tree's own tests.
func soon(o *tree.Options) { o.Retry = tree.RetryGrows }

// passes returns how often all leaves of a member were renewed.
func (m *manager) passes(of string) int {
	m.t.Helper()
	return instrumenttest.Measured(m.t, m.registry, "tree_pass_seconds", "of="+of).Observed
}

// idle tells whether no key waits or is worked on: all that were added are done.
func (m *manager) idle() bool {
	worked := m.worked("") // before: a key that is added meanwhile shows
	return float64(worked) == value(m.t, m.registry, "workqueue_adds_total")
}

// rests waits until it is.
func (m *manager) rests() {
	m.t.Helper()
	repotest.Eventually(m.t, "the manager rests", m.idle)
}

// worked is how many keys of a queue were worked on; of all without a name.
func (m *manager) worked(queue string) int {
	m.t.Helper()
	var of []string
	if queue != "" {
		of = []string{"name=" + queue}
	}
	return instrumenttest.Measured(m.t, m.registry, "workqueue_work_duration_seconds", of...).Observed
}

// TestServiceEnv holds how often the host's services are listed for a pod with two
// containers, and what these get.
func TestServiceEnv(t *testing.T) {
	planetest.Each(t, map[string]int{tree.EnvList: 2, tree.EnvCached: 0, tree.EnvOff: 0}, func(t *testing.T, env string, want int) {
		r := newRig(t, shape{members: 1, nodes: 1, mode: api.LeafNode})
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "my-db"}, Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.7", Ports: []corev1.ServicePort{{Port: 5432}}}}
		repotest.Must(r.host.CoreV1().Services("default").Create(t.Context(), s, metav1.CreateOptions{}))(t)
		m := r.manage(func(o *tree.Options) { calm(o); o.ServiceEnv = env })
		r.joined(m)
		before := m.hostCalls("LIST", "services")
		r.create(pod("p", on("m0-n0"), func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "second", Image: "registry.example/app:1"})
		}))
		r.run(1)
		repotest.Equal(t, m.hostCalls("LIST", "services")-before, want, "lists of services")
		got := r.list(r.members[0])[0].Spec.Containers[1].Env
		if has := len(got) == 2 && got[0] == (corev1.EnvVar{Name: "MY_DB_SERVICE_HOST", Value: "10.0.0.7"}); has == (env == tree.EnvOff) {
			t.Errorf("a container has %v", got)
		}
	})
}

// TestDependents holds what a ConfigMap costs the host for each pod that needs it.
func TestDependents(t *testing.T) {
	const pods = 6
	planetest.Each(t, map[string]int{tree.DependentsLive: pods, tree.DependentsCached: 1}, func(t *testing.T, how string, want int) {
		r := newRig(t, shape{members: 1, nodes: 1, mode: api.LeafNode})
		m := r.manage(func(o *tree.Options) { calm(o); o.Dependents = how })
		r.joined(m)
		r.settings()
		for i := range pods { // each when the one before runs, and caches know of its copies
			r.create(pod(fmt.Sprint("p", i), on("m0-n0"), withSettings))
			r.run(i + 1)
			m.rests()
		}
		if got := m.hostCalls("UPDATE", "configmaps"); got != want {
			t.Errorf("the host's ConfigMap is written %d times for %d pods, want %d", got, pods, want)
		}
	})
}

// TestNodeLookup holds what the end of a pod costs: n leaves times the search for each
// among n, or one look.
func TestNodeLookup(t *testing.T) {
	const nodes = 30
	planetest.Each(t, map[string][2]float64{tree.LookupScan: {nodes * (nodes + 1) / 2, 1e9}, tree.LookupMap: {1, 10}}, func(t *testing.T, lookup string, bounds [2]float64) {
		r := newRig(t, shape{members: 1, nodes: nodes, mode: api.LeafNode})
		m := r.manage(func(o *tree.Options) {
			calm(o)
			o.NodeLookup = lookup
			o.LeafReads, o.NodePatch = tree.ReadsCached, tree.Changed
		})
		r.joined(m)
		r.creates(1)
		r.run(1)
		m.rests()
		before := value(t, m.registry, "tree_lookup_steps_total")
		r.delete("p0")
		r.run(0)
		looked := func() float64 { return value(t, m.registry, "tree_lookup_steps_total") - before }
		repotest.Eventually(t, "leaves were looked at", func() bool { return looked() >= bounds[0] && m.idle() })
		if got := looked(); got > bounds[1] {
			t.Errorf("%v leaves were looked at, want at most %v", got, bounds[1])
		}
	})
}
