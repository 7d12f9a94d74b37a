package tree

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

// TestCopies holds what becomes of what a member has of a ConfigMap's name, after a change
// on the hub and when a pod needs it. A copy is written when the hub's says something else,
// with Kosmos' semantics always, and what is the member's own is left alone.
func TestCopies(t *testing.T) {
	hub := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "a"}, Data: map[string]string{"level": "info"}}
	copied := func(level string) *corev1.ConfigMap {
		c := &corev1.ConfigMap{Data: map[string]string{"level": level}}
		c.Labels = map[string]string{api.LabelGlobal: "true"}
		return c
	}
	own := &corev1.ConfigMap{Data: map[string]string{"level": "mine"}}
	for name, c := range map[string]struct {
		member       *corev1.ConfigMap // nil: none
		gone         bool              // the hub has it no more
		cached, live copyAction        // dependents
		needed       copyAction        // by a pod
	}{
		"none":        {nil, false, "", "", copyCreate},
		"the same":    {copied("info"), false, copyKeep, copyWrite, copyKeep},
		"another":     {copied("debug"), false, copyWrite, copyWrite, copyKeep},
		"of no hub's": {copied("info"), true, copyDelete, copyDelete, ""},
		"its own":     {own, false, copyKeep, copyKeep, copyKeep},
		"only its":    {own, true, copyKeep, copyKeep, ""},
	} {
		for dependents, want := range map[string]copyAction{DependentsCached: c.cached, DependentsLive: c.live} {
			o := Default()
			o.Dependents = dependents
			kind := (&tree{o: o, hub: newTestHub()}).configMaps()
			if want != "" {
				repotest.Equal(t, kind.decideChanged(hub, !c.gone, c.member), want, "%s, %s, after a change", name, dependents)
			}
			if c.needed == "" {
				continue
			}
			repotest.Equal(t, kind.decideNeeded(hub, c.member, c.member != nil), c.needed, "%s, %s, when a pod needs it", name, dependents)
		}
	}
}

// newTestHub is one that nothing is asked of.
func newTestHub() *hub { return &hub{client: &api.Client{}} }
