package clusters_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/tree"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
)

// kosmos is the preset of the release.
func kosmos(*tree.Options) {}

func presets() map[string]func(*tree.Options) {
	return map[string]func(*tree.Options){"default": kosmos, "improved": improved}
}

// TestLifeOfPods holds in every leaf mode, with either preset, that members become nodes, that pods run there
// with what they need, that changes and deletions come through, and that nothing is left
// over.
func TestLifeOfPods(t *testing.T) {
	for _, c := range []struct {
		mode   string
		leaves int
		change func(*tree.Options)
	}{{api.LeafNode, 6, improved}, {api.LeafParty, 4, kosmos}, {api.LeafAll, 2, kosmos}} {
		t.Run(c.mode, func(t *testing.T) {
			t.Parallel()
			const pods = 12
			r := newRig(t, shape{members: 2, nodes: 3, mode: c.mode})
			m := r.manage(c.change)
			r.joined(m)
			if got := r.nodes(); len(got) != c.leaves {
				t.Errorf("virtual nodes %v, want %d", got, c.leaves)
			}
			r.settings()
			r.creates(pods, withSettings)
			r.run(pods)
			r.agree()
			spread(r, pods)
			follows(r)
			for _, p := range r.list(r.host)[:pods/2] {
				r.delete(p.Name)
			}
			r.run(pods / 2)
			r.agree()
			for _, p := range r.list(r.host) {
				r.delete(p.Name)
			}
			r.run(0)
			r.forgets()
			r.agree()
		})
	}
}

// spread holds that both members have pods, each with what the host's pod had and on
// a node of their own.
func spread(r *rig, pods int) {
	r.t.Helper()
	sum := 0
	for _, m := range r.members {
		own := r.list(m)
		if len(own) == 0 {
			r.t.Errorf("member %s has no pod", m.name)
		}
		for _, p := range own {
			if p.Labels[api.LabelPod] != "true" || len(p.Spec.Tolerations) > 0 || p.Spec.NodeName[:2] != m.name {
				r.t.Errorf("pod %s of %s: labels %v, tolerations %v, node %s", p.Name, m.name, p.Labels, p.Spec.Tolerations, p.Spec.NodeName)
			}
		}
		sum += len(own)
	}
	if sum != pods {
		r.t.Errorf("members have %d pods, want %d", sum, pods)
	}
	for _, p := range r.list(r.host) {
		if p.Labels[api.LabelPod] != "true" || p.Status.PodIP == "" {
			r.t.Errorf("pod %s of the host: labels %v, address %q", p.Name, p.Labels, p.Status.PodIP)
		}
	}
}

// follows holds that copies follow the host's ConfigMap.
func follows(r *rig) {
	r.t.Helper()
	maps := r.host.CoreV1().ConfigMaps("default")
	c := repotest.Must(maps.Get(r.t.Context(), "settings", metav1.GetOptions{}))(r.t)
	c.Data["level"] = "debug"
	repotest.Must(maps.Update(r.t.Context(), c, metav1.UpdateOptions{}))(r.t)
	for _, m := range r.members {
		repotest.Eventually(r.t, "the copy in "+m.name+" follows", func() bool {
			c, err := m.CoreV1().ConfigMaps("default").Get(r.t.Context(), "settings", metav1.GetOptions{})
			return err == nil && c.Data["level"] == "debug" && c.Labels[api.LabelGlobal] == "true"
		})
	}
}

// forgets deletes what pods needed.
func (r *rig) forgets() {
	r.t.Helper()
	repotest.NoError(r.t, r.host.CoreV1().ConfigMaps("default").Delete(r.t.Context(), "settings", metav1.DeleteOptions{}))
	repotest.NoError(r.t, r.host.CoreV1().Secrets("default").Delete(r.t.Context(), "secret", metav1.DeleteOptions{}))
}

// TestLeases holds that leaves have leases, which are renewed as long as the member
// answers.
func TestLeases(t *testing.T) {
	r := newRig(t, shape{members: 1, nodes: 2, mode: api.LeafNode})
	m := r.manage(func(o *tree.Options) { o.LeaseInterval = leaseInterval })
	r.joined(m)
	leases := r.host.CoordinationV1().Leases("kube-node-lease")
	renewals := func() int { return m.hostCalls("UPDATE", "leases") }
	repotest.Eventually(t, "leases are renewed", func() bool { return renewals() > 4 })
	l, err := leases.Get(t.Context(), "m0-n0", metav1.GetOptions{})
	if err != nil || *l.Spec.LeaseDurationSeconds != 40 {
		t.Fatal(l, err)
	}
	r.members[0].cluster.SetToken("another") // as when credentials expire
	failed := func() int { return int(value(t, m.registry, "tree_failures_total", "part=leases")) }
	repotest.Eventually(t, "the member does not answer", func() bool { return failed() > 1 })
	before, since := renewals(), failed()
	repotest.Eventually(t, "that goes on", func() bool { return failed() > since+3 })
	if got := renewals(); got != before {
		t.Errorf("%d renewals for a member that does not answer", got-before)
	}
}

const leaseInterval = 20 * time.Millisecond

// TestLeaveWithPods holds what becomes of the pods of a member that leaves: they stay in
// it and on the host, as they are, and nobody looks after them. With Kosmos' semantics so
// does their node; where the node goes they belong to none of the host's.
func TestLeaveWithPods(t *testing.T) {
	planetest.Each(t, presets(), func(t *testing.T, name string, change func(*tree.Options)) {
		r := newRig(t, shape{members: 2, nodes: 1, mode: api.LeafAll})
		m := r.manage(change)
		r.joined(m)
		for name, node := range map[string]string{"p0": "kosmos-m0", "p1": "kosmos-m0", "p2": "kosmos-m1"} {
			r.create(pod(name, on(node)))
		}
		r.run(3)
		r.agree()
		r.unjoin("m0", m)
		r.delete("p0")
		r.delete("p2") // of the one that stays
		repotest.Eventually(t, "the pod of the other member is gone", func() bool { return len(r.list(r.host)) == 2 && m.idle() })
		for _, p := range r.list(r.host) {
			if p.Spec.NodeName != "kosmos-m0" || p.Status.Phase != corev1.PodRunning || (p.DeletionTimestamp != nil) != (p.Name == "p0") {
				t.Errorf("the host has %s on %s, %s, deleted at %v", p.Name, p.Spec.NodeName, p.Status.Phase, p.DeletionTimestamp)
			}
		}
		left := r.list(r.members[0])
		if len(left) != 2 || left[0].DeletionTimestamp != nil || left[1].DeletionTimestamp != nil {
			t.Errorf("the member that left has %d pods, want those two", len(left))
		}
		want := map[string]int{"nodes": 1}
		if name == "improved" {
			want = map[string]int{"extra": 2}
		}
		var got map[string]int
		repotest.Eventually(t, "what is left is told", func() bool {
			got = map[string]int{}
			_, all := r.differences()
			for _, d := range all {
				got[d.How]++
			}
			return maps.Equal(got, want)
		}, func() any { return fmt.Sprint(got) })
	})
}

// unjoin deletes a Cluster and waits until it is gone.
func (r *rig) unjoin(name string, m *manager) {
	r.t.Helper()
	clusters := r.kosmos(api.ResourceClusters)
	repotest.NoError(r.t, clusters.Delete(r.t.Context(), name, metav1.DeleteOptions{}))
	repotest.Eventually(r.t, "the Cluster is gone", func() bool {
		_, err := clusters.Get(r.t.Context(), name, metav1.GetOptions{})
		return err != nil && value(r.t, m.registry, "tree_members") == float64(len(r.members)-1)
	})
}

// TestToken holds that a pod gets the host's token and authority in the place of its
// member's.
func TestToken(t *testing.T) {
	r := newRig(t, shape{members: 1, nodes: 1, mode: api.LeafNode})
	r.joined(r.manage())
	ctx := t.Context()
	authority := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: api.NameRootCA}, Data: map[string]string{"ca.crt": "host"}}
	repotest.Must(r.host.CoreV1().ConfigMaps("default").Create(ctx, authority, metav1.CreateOptions{}))(t)
	r.create(pod("p", func(p *corev1.Pod) {
		p.Spec.ServiceAccountName = "builder"
		p.Spec.Volumes = []corev1.Volume{{Name: "t", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: api.NameRootCA}}},
		}}}}}
	}))
	secrets := r.host.CoreV1().Secrets("default")
	repotest.Eventually(t, "a Secret for the token is asked for, which the token controller then fills", func() bool {
		s, err := secrets.Get(ctx, api.TokenName("builder"), metav1.GetOptions{})
		if err == nil && s.Annotations[corev1.ServiceAccountNameKey] == "builder" {
			s.Data = map[string][]byte{corev1.ServiceAccountTokenKey: []byte("token")}
			_, err = secrets.Update(ctx, s, metav1.UpdateOptions{})
		}
		return err == nil
	})
	r.run(1)
	member := r.members[0].CoreV1()
	s, err := member.Secrets("default").Get(ctx, api.TokenName("builder"), metav1.GetOptions{})
	if err != nil || string(s.Data[corev1.ServiceAccountTokenKey]) != "token" {
		t.Errorf("%v: %v", err, s)
	}
	c, err := member.ConfigMaps("default").Get(ctx, api.NameHostCA, metav1.GetOptions{})
	if err != nil || c.Data["ca.crt"] != "host" {
		t.Errorf("%v: %v", err, c)
	}
	p := r.list(r.members[0])[0]
	sources := p.Spec.Volumes[0].Projected.Sources
	if sources[0].Secret == nil || sources[0].Secret.Items[0].Path != "token" || sources[1].ConfigMap.Name != api.NameHostCA {
		t.Errorf("the pod has %+v", sources)
	}
	r.agree()
}
