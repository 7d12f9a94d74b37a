package clusters_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/tree"
	"github.com/windtunnel/windtunnel/planes/internal/kit/agree"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
)

// uids are those of the host's pods, by name.
func (r *rig) uids() map[string]types.UID {
	out := map[string]types.UID{}
	for _, p := range r.list(r.host) {
		out[p.Name] = p.UID
	}
	return out
}

// made is how many pods a manager made in members that have all labels, of all without. A
// pod may run before it counts; when the manager rests it does.
func (m *manager) made(labels ...string) int {
	return int(value(m.t, m.registry, "tree_member_pods_created_total", labels...))
}

// TestMemberDies holds that what was asked for while a member was down is done when it is
// back, each once: nothing is orphaned, and nothing doubled.
func TestMemberDies(t *testing.T) {
	planetest.Each(t, presets(), func(t *testing.T, name string, change func(*tree.Options)) {
		r := newRig(t, shape{members: 2, nodes: 1, mode: api.LeafNode})
		m := r.manage(change, soon)
		r.joined(m)
		for i := range 4 {
			r.create(pod(fmt.Sprint("p", i), on(fmt.Sprintf("m%d-n0", i%2))))
		}
		r.run(4)
		before := r.uids()
		r.members[0].cluster.Stop()
		r.delete("p0")
		r.create(pod("late", on("m0-n0")))
		r.create(pod("other", on("m1-n0")))
		repotest.Eventually(t, "what is the dead member's fails", func() bool {
			return value(t, m.registry, "tree_failures_total", "part=pods") >= 2
		})
		repotest.Eventually(t, "the other member's runs", func() bool {
			p, err := r.host.CoreV1().Pods("default").Get(t.Context(), "other", metav1.GetOptions{})
			return err == nil && p.Status.Phase == corev1.PodRunning
		})
		repotest.NoError(t, r.members[0].cluster.Start())
		r.run(5)
		r.agree()
		after := r.uids()
		for _, name := range []string{"p1", "p2", "p3"} {
			if after[name] != before[name] {
				t.Errorf("%s is another pod than before", name)
			}
		}
		m.rests()
		repotest.Equal(t, m.made(), 6, "pods made in members")
	})
}

// TestOlderState plays a member that comes back with what it had some time ago. Pods that
// it lost are gone on the host; one that it has again, whose deletion it forgot, stays
// there for ever, unless those that the host does not know are deleted. With Kosmos'
// semantics an event of the host's that comes late makes a lost one again, in the member
// alone or on both sides.
func TestOlderState(t *testing.T) {
	planetest.Each(t, presets(), func(t *testing.T, name string, change func(*tree.Options)) {
		r := newRig(t, shape{members: 1, nodes: 1, mode: api.LeafNode})
		m := r.manage(change)
		r.joined(m)
		r.creates(4)
		r.run(4)
		then := r.members[0].cluster.Copy()
		r.delete("p0")
		r.run(3)
		r.create(pod("p4"))
		r.create(pod("p5"))
		r.run(5)
		r.agree()
		before := r.list(r.members[0])
		r.members[0].cluster.Restore(then)
		kosmos, onHost := name == "default", 0
		repotest.Eventually(t, "the manager did what follows", func() bool {
			inMember := r.list(r.members[0])
			onHost = len(r.list(r.host))
			// The member is asked too: before it is heard that it changed, all agree.
			n, first := r.differences()
			return len(inMember) == onHost+n && m.idle() && (onHost == 3 || kosmos && onHost <= 5) &&
				!slices.ContainsFunc(inMember, func(p corev1.Pod) bool {
					return p.Name > "p3" && slices.ContainsFunc(before, func(lost corev1.Pod) bool { return lost.UID == p.UID })
				}) &&
				kosmos == slices.ContainsFunc(first, func(d agree.Difference) bool { return d.Object == "default/p0" }) &&
				!slices.ContainsFunc(first, func(d agree.Difference) bool { return !kosmos || d.How != "extra" })
		}, func() any { return len(r.list(r.members[0])) })
		if got, want := m.hostCalls("DELETE", "pods"), 1+5-onHost; got < want { // p0, and those that the member lost
			t.Errorf("%d pods of the host are deleted, want at least %d", got, want)
		}
	})
}

// TestCredentialsChange holds that a member whose credentials are others for good is
// joined anew when its Cluster says them, that its pods are those that they were, and that
// one that came meanwhile runs.
func TestCredentialsChange(t *testing.T) {
	planetest.Each(t, presets(), func(t *testing.T, name string, change func(*tree.Options)) {
		r := newRig(t, shape{members: 1, nodes: 1, mode: api.LeafNode})
		m := r.manage(change)
		r.joined(m)
		r.creates(3)
		r.run(3)
		before, lists := r.uids(), m.memberCalls("LIST", "nodes")
		r.members[0].cluster.SetToken("another")
		r.create(pod("late"))
		repotest.Eventually(t, "it is turned away", func() bool { return value(t, m.registry, "tree_failures_total", "part=pods") > 0 })
		r.rekey("m0")
		r.run(4)
		for name, uid := range before {
			if got := r.uids()[name]; got != uid {
				t.Errorf("%s is another pod than before", name)
			}
		}
		m.rests()
		repotest.Equal(t, m.made(), 4, "pods made in the member")
		if got := m.memberCalls("LIST", "nodes") - lists; got < 1 {
			t.Errorf("%d lists of the member's nodes after it was joined anew", got)
		}
	})
}

// rekey writes the credentials of the first member as they are now into its Cluster.
func (r *rig) rekey(name string) {
	r.t.Helper()
	raw := repotest.Must(os.ReadFile(planetest.WriteKubeconfig(r.t, r.members[0].cluster.Endpoint())))(r.t)
	o := repotest.Must(r.kosmos(api.ResourceClusters).Get(r.t.Context(), name, metav1.GetOptions{}))(r.t)
	repotest.NoError(r.t, unstructured.SetNestedField(o.Object, base64.StdEncoding.EncodeToString(raw), "spec", "kubeconfig"))
	repotest.Must(r.kosmos(api.ResourceClusters).Update(r.t.Context(), o, metav1.UpdateOptions{}))(r.t)
}

// TestHostRestarts holds that nothing is lost while the host's API server is away: a pod
// that ended in its member meanwhile ends on the host, others stay, and leases are renewed
// again. With Kosmos' semantics it may be made again instead, when the host is listed
// before its end goes up once more.
func TestHostRestarts(t *testing.T) {
	planetest.Each(t, presets(), func(t *testing.T, name string, change func(*tree.Options)) {
		r := newRig(t, shape{members: 2, nodes: 1, mode: api.LeafNode})
		m := r.manage(change, soon, func(o *tree.Options) { o.LeaseInterval = leaseInterval })
		r.joined(m)
		for i := range 4 {
			r.create(pod(fmt.Sprint("p", i), on(fmt.Sprintf("m%d-n0", i%2))))
		}
		r.run(4)
		r.agree()
		before := r.uids()
		r.hosting.Stop()
		repotest.Eventually(t, "leases are not renewed", func() bool { return value(t, m.registry, "tree_failures_total", "part=leases") > 0 })
		now := int64(0)
		repotest.NoError(t, r.members[0].CoreV1().Pods("default").Delete(t.Context(), "p0", metav1.DeleteOptions{GracePeriodSeconds: &now}))
		repotest.Eventually(t, "its end cannot be told", func() bool { return value(t, m.registry, "tree_failures_total", "part=status") > 0 })
		repotest.NoError(t, r.hosting.Start())
		pods, again := 3, 0
		repotest.Eventually(t, "the end comes up, or is undone", func() bool {
			if name == "default" && m.made() == 5 {
				pods, again = 4, 1
			}
			return len(r.list(r.host)) == pods
		})
		renewed := m.hostCalls("UPDATE", "leases")
		repotest.Eventually(t, "leases are renewed again", func() bool { return m.hostCalls("UPDATE", "leases") > renewed+4 })
		r.create(pod("late", on("m1-n0")))
		r.run(pods + 1)
		r.agree()
		for _, name := range []string{"p1", "p2", "p3"} {
			if got := r.uids()[name]; got != before[name] {
				t.Errorf("%s is another pod than before", name)
			}
		}
		m.rests()
		repotest.Equal(t, m.made(), 5+again, "pods made in members")
	})
}

// TestRequestTimeout holds that a call into a black hole ends when the options say so.
func TestRequestTimeout(t *testing.T) {
	for _, timeout := range []time.Duration{0, 200 * time.Millisecond} {
		t.Run(timeout.String(), func(t *testing.T) {
			t.Parallel()
			s := shape{members: 1, nodes: 1, mode: api.LeafNode, unjoined: true}
			r := newRig(t, s)
			link := r.linked()
			r.join(s)
			m := r.manage(func(o *tree.Options) { calm(o); o.RequestTimeout, o.Retry = timeout, tree.RetryGrows })
			r.joined(m)
			m.rests()
			link.Stall(true)
			before := m.added("pods")
			r.create(pod("lost"))
			failed := func() float64 { return value(t, m.registry, "tree_failures_total", "part=pods") }
			repotest.Eventually(t, "a worker is at it", func() bool { return m.added("pods") > before })
			if timeout > 0 {
				repotest.Eventually(t, "its call ends, again and again", func() bool { return failed() >= 2 })
			} else if n := failed(); n != 0 {
				t.Errorf("%v calls without a timeout have failed", n)
			}
			link.Stall(false)
			r.run(1)
			r.agree()
		})
	}
}
