package edge_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windtunnel/windtunnel/internal/api/apitest"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/edge/internal/fleet"
	"github.com/windtunnel/windtunnel/planes/edge/internal/hub"
)

// phaseOf is the phase of a pod that a request writes, if it writes one.
func phaseOf(q *http.Request) corev1.PodPhase {
	var p corev1.Pod
	if q.Method != http.MethodPatch || !strings.Contains(q.URL.Path, "/pods/") || json.NewDecoder(q.Body).Decode(&p) != nil {
		return ""
	}
	return p.Status.Phase
}

// TestStatusesInOrder holds that a status which hangs undoes a later one where any worker
// takes any request, and does not where those about one pod are one worker's.
func TestStatusesInOrder(t *testing.T) {
	for requests, want := range map[string]corev1.PodPhase{hub.RequestsAny: corev1.PodPending, hub.RequestsOrdered: corev1.PodRunning} {
		t.Run(requests, func(t *testing.T) {
			t.Parallel()
			g := newGate(t, func(o *hub.Options) { o.Requests = requests })
			g.server.AddNode(edgeNode("edge-0"))
			g.pods(0, 1, 1)
			own, _, err := g.dial("edge-0", g.authority, named("edge-0"))
			if err != nil {
				t.Fatal(err)
			}
			var written atomic.Int32
			g.server.Fault(func(q *http.Request) *apitest.Fault {
				switch phaseOf(q) {
				case corev1.PodPending:
					return &apitest.Fault{Delay: 4 * time.Second} // longer than the other takes on any machine
				case corev1.PodRunning:
					written.Add(1)
				}
				return nil
			})
			for _, phase := range []string{"Pending", "Running"} {
				if err := own.Send([]byte(`{"header":{"msg_id":"` + phase + `","timestamp":1},"route":{"source":"edged","group":"meta","operation":"patch","resource":"default/podpatch/p0"},` +
					`"content":"{\"status\":{\"phase\":\"` + phase + `\"}}"}`)); err != nil {
					t.Fatal(err)
				}
			}
			repotest.Eventually(t, "both are on their way", func() bool {
				return written.Load() == 1 && g.server.Count("PATCH /api/v1/namespaces/default/pods/p0/status") == 2
			})
			time.Sleep(5 * time.Second) // in which the one that hangs would be written, were it the last
			repotest.Eventually(t, string(want)+" is what stands", func() bool { return g.server.Pods()[0].Status.Phase == want })
		})
	}
}

// TestErrorsWithoutAReason holds that an edge takes an error which gives no reason for
// none of success: what it says of its pod goes again.
func TestErrorsWithoutAReason(t *testing.T) {
	r := newRig(t)
	r.settings("info")
	r.hub(nil)
	var refused atomic.Bool
	r.server.Fault(func(q *http.Request) *apitest.Fault {
		if phaseOf(q) == corev1.PodRunning && refused.CompareAndSwap(false, true) {
			return &apitest.Fault{Code: http.StatusServiceUnavailable}
		}
		return nil
	})
	r.fleet(1, nil)
	repotest.Eventually(t, "the edge joins", func() bool { return len(r.server.Nodes()) == 1 })
	r.pods(0, 1, 1)
	repotest.Eventually(t, "the pod runs", func() bool { return r.running() == 1 })
	if !refused.Load() {
		t.Error("nothing was refused")
	}
}

// TestUndoneStatusIsSaidAgain holds that an edge whose pod comes back as pending, though
// it runs, says so again after a while, and does not where it comes back as running before.
func TestUndoneStatusIsSaidAgain(t *testing.T) {
	r := newRig(t)
	r.settings("info")
	r.hub(nil)
	r.fleet(1, func(o *fleet.Options) { o.CompareAfter = 3 * time.Second })
	repotest.Eventually(t, "the edge joins", func() bool { return len(r.server.Nodes()) == 1 })
	r.pods(0, 1, 1)
	repotest.Eventually(t, "the pod runs", func() bool { return r.running() == 1 })
	r.converged()
	const path = "/api/v1/namespaces/default/pods/p0"
	set := func(phase corev1.PodPhase, label string) {
		apitest.Change(r.server, path, func(p *corev1.Pod) { p.Status.Phase, p.Labels = phase, map[string]string{"changed": label} })
	}
	set(corev1.PodPending, "1")
	repotest.Eventually(t, "it runs again", func() bool { return r.running() == 1 })
	r.converged()
	said := r.server.Count("PATCH " + path + "/status")
	set(corev1.PodPending, "2")
	set(corev1.PodRunning, "3")
	r.converged()
	time.Sleep(4 * time.Second) // in which it would be said
	if now := r.server.Count("PATCH " + path + "/status"); now != said {
		t.Errorf("%d statuses are said of a pod that is known to run", now-said)
	}
}
