package clusters_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/tree"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
)

// TestLostNodeStaysLost holds that the leaf of a member that does not answer stays what
// the host's node controller has made of it: whoever reads the member from a cache would
// call it ready again, and its pods would never be evicted.
func TestLostNodeStaysLost(t *testing.T) {
	planetest.Each(t, presets(), func(t *testing.T, _ string, change func(*tree.Options)) {
		r := newRig(t, shape{members: 1, nodes: 1, mode: api.LeafNode})
		m := r.manage(change, func(o *tree.Options) { o.LeaseInterval, o.StatusInterval = 20*time.Millisecond, 20*time.Millisecond })
		r.joined(m)
		nodes := r.host.CoreV1().Nodes()
		ready := func() *corev1.NodeCondition {
			n := repotest.Must(nodes.Get(t.Context(), "m0-n0", metav1.GetOptions{}))(t)
			for i := range n.Status.Conditions {
				if n.Status.Conditions[i].Type == corev1.NodeReady {
					return &n.Status.Conditions[i]
				}
			}
			return &corev1.NodeCondition{}
		}
		repotest.Eventually(t, "it is ready", func() bool { return ready().Status == corev1.ConditionTrue })
		failed := func(part string) float64 { return value(t, m.registry, "tree_failures_total", "part="+part) }
		r.members[0].cluster.Stop()
		repotest.Eventually(t, "its lease is not renewed", func() bool { return failed("leases") > 0 })
		m.rests()                   // what came before its death
		since := failed("statuses") // a pass that saw it alive has ended when a later one failed
		repotest.Eventually(t, "its status is not renewed", func() bool { return failed("statuses") > since })
		n := repotest.Must(nodes.Get(t.Context(), "m0-n0", metav1.GetOptions{}))(t)
		for i := range n.Status.Conditions {
			n.Status.Conditions[i].Status = corev1.ConditionUnknown
		}
		repotest.Must(nodes.UpdateStatus(t.Context(), n, metav1.UpdateOptions{}))(t)
		before := failed("statuses")
		repotest.Eventually(t, "its status was to be renewed", func() bool { return failed("statuses") > before+2 || ready().Status == corev1.ConditionTrue })
		repotest.Equal(t, ready().Status, corev1.ConditionUnknown, "the node of a member that does not answer is ready")
		repotest.NoError(t, r.members[0].cluster.Start())
		repotest.Eventually(t, "it is ready again", func() bool { return ready().Status == corev1.ConditionTrue })
	})
}
