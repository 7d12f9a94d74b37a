package clusters_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/tree"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
)

// meddle runs a manager of whose pods the first waits, in the middle of being made, for
// another writer: the host's ConfigMap has been read, and the note that the member has a
// copy is not written yet.
func (r *rig) meddle(change func(*tree.Options), act func()) *manager {
	r.t.Helper()
	var once sync.Once
	m := r.manage(change, calm, func(o *tree.Options) {
		planetest.Before(o.Config, func(q *http.Request) {
			if q.Method == http.MethodPut && strings.HasSuffix(q.URL.Path, "/configmaps/settings") {
				once.Do(act)
			}
		})
	})
	r.joined(m)
	m.rests()
	r.settings()
	return m
}

// TestConflict holds that a pod is made once, and with what is true by then, when what it
// needs is written by somebody else while it is made.
func TestConflict(t *testing.T) {
	planetest.Each(t, presets(), func(t *testing.T, _ string, change func(*tree.Options)) {
		r := newRig(t, shape{members: 1, nodes: 1, mode: api.LeafNode})
		maps := r.host.CoreV1().ConfigMaps("default")
		m := r.meddle(change, func() {
			c, err := maps.Get(t.Context(), "settings", metav1.GetOptions{})
			if err == nil {
				c.Data["level"] = "debug"
				_, err = maps.Update(t.Context(), c, metav1.UpdateOptions{})
			}
			if err != nil {
				t.Error(err)
			}
		})
		r.create(pod("p", withSettings))
		r.run(1)
		r.agree()
		repotest.Equal(t, value(t, m.registry, "rest_client_requests_total", "code=409", "verb=UPDATE", "resource=configmaps"), 1, "writes of the ConfigMap that meet a conflict")
		m.rests()
		repotest.Equal(t, m.made(), 1, "pods made")
		c, err := r.members[0].CoreV1().ConfigMaps("default").Get(t.Context(), "settings", metav1.GetOptions{})
		if err != nil || c.Data["level"] != "debug" {
			t.Errorf("the member has %v, want what the other writer wrote: %v", c.Data, err)
		}
		if c, err = maps.Get(t.Context(), "settings", metav1.GetOptions{}); err != nil || c.Data["level"] != "debug" || c.Annotations[api.AnnotationOwners] != "m0" {
			t.Errorf("the host has %v, %v: %v", c.Data, c.Annotations, err)
		}
	})
}

// taken runs a manager that finds the name of a pod taken when it is about to make it.
func (r *rig) taken(change func(*tree.Options), other func(host *corev1.Pod) *corev1.Pod) *manager {
	r.t.Helper()
	m := r.meddle(change, func() {
		host, err := r.host.CoreV1().Pods("default").Get(r.t.Context(), "p", metav1.GetOptions{})
		if err == nil {
			_, err = r.members[0].CoreV1().Pods("default").Create(r.t.Context(), other(host), metav1.CreateOptions{})
		}
		if err != nil {
			r.t.Error(err)
		}
	})
	r.create(pod("p", withSettings, on("m0-n0")))
	repotest.Eventually(r.t, "the name is taken", func() bool {
		return value(r.t, m.registry, "rest_client_requests_total", "code=409", "verb=CREATE", "resource=pods") == 1
	})
	return m
}

// others is a pod of a member that somebody else made.
func others(*corev1.Pod) *corev1.Pod {
	p := pod("p", on("m0-n0"))
	p.Spec.NodeSelector, p.Spec.Tolerations = nil, nil
	return p
}

// treesFor is one that a tree made for a pod of the host.
func treesFor(uid string) *corev1.Pod {
	p := others(nil)
	p.Labels, p.Annotations = map[string]string{api.LabelPod: "true"}, map[string]string{api.AnnotationHostUID: uid}
	return p
}

// TestNameIsTakenByATree holds that a pod which is there already, since a manager made it
// and was killed before it heard so, is that of the host; and that one which was made for
// another is taken for it with Kosmos' semantics, and gives way where UIDs are compared.
func TestNameIsTakenByATree(t *testing.T) {
	for name, change := range presets() {
		for whose, uid := range map[string]string{"its own": "", "another's": "0-1-2"} {
			t.Run(name+"/"+whose, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, shape{members: 1, nodes: 1, mode: api.LeafNode})
				m := r.taken(change, func(host *corev1.Pod) *corev1.Pod {
					if uid != "" {
						return treesFor(uid)
					}
					return treesFor(string(host.UID))
				})
				r.run(1)
				wrong, made := uid != "" && name == "default", 0
				if uid != "" && !wrong {
					made = 1
				}
				if !wrong {
					r.agree()
				}
				m.rests()
				repotest.Equal(t, m.made(), made, "pods made")
				if got := value(t, m.registry, "tree_wrong_pod_writes_total"); got > 0 != wrong {
					t.Errorf("%v writes for another's pod", got)
				}
				host := repotest.Must(r.host.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{}))(t)
				there := r.list(r.members[0])
				if len(there) != 1 || (there[0].Annotations[api.AnnotationHostUID] == string(host.UID)) == wrong {
					t.Errorf("the member has %v for %s", there, host.UID)
				}
				r.delete("p")
				repotest.Eventually(t, "both are gone", func() bool {
					_, err := r.host.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
					return apierrors.IsNotFound(err) && len(r.list(r.members[0])) == 0
				})
			})
		}
	}
}
