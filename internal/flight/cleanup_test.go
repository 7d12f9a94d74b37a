package flight

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/plane"
)

// TestLeaveNeedsNoRecords deletes a run's namespaces when its disk is full.
func TestLeaveNeedsNoRecords(t *testing.T) {
	b := newBench(t, head(2)+"- {pause: 1ms}\n")
	b.namespaces.ours = []bool{true, true}
	for i := range b.namespaces.ours {
		b.server.Objects["/api/v1/namespaces/"+b.workload.Namespace(i)] = map[string]any{"metadata": map[string]any{"name": b.workload.Namespace(i)}}
	}
	b.options.Kubeconfig, b.plane = "somebody else's", &plane.Plane{}
	if err := b.dir.records.Close(); err != nil {
		t.Fatal(err)
	}
	tries := 0
	b.server.Mu.Lock()
	b.server.Refuse = func(method, _ string) int {
		if method == http.MethodDelete {
			if tries++; tries == 1 {
				return http.StatusTooManyRequests
			}
		}
		return 0
	}
	b.server.Mu.Unlock()
	b.leave(t.Context())
	if left := b.server.Names("/api/v1/namespaces"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestLeaveAfterLostAnswers leaves a cluster on which one namespace was made
// although the server gave up, and others were there before.
func TestLeaveAfterLostAnswers(t *testing.T) {
	b := newBench(t, head(3)+"- {pause: 1ms}\n")
	b.namespaces.stamp = "of this run"
	path := func(i int) string { return "/api/v1/namespaces/" + b.workload.Namespace(i) }
	for _, i := range []int{1, 2} {
		b.server.Objects[path(i)] = map[string]any{"metadata": map[string]any{"name": b.workload.Namespace(i)}}
	}
	b.server.Mu.Lock()
	b.server.Refuse = func(method, at string) int {
		var made map[string]any
		if err := json.Unmarshal([]byte(b.server.Bodies[method+" "+at]), &made); method != http.MethodPost || err != nil {
			return 0
		}
		switch made["metadata"].(map[string]any)["name"] {
		case b.workload.Namespace(0): // it is stored, and the answer lost
			b.server.Objects[path(0)] = made
			return http.StatusGatewayTimeout
		case b.workload.Namespace(1):
			return http.StatusInternalServerError
		}
		return http.StatusConflict
	}
	b.server.Mu.Unlock()
	if err := b.namespaces.create(t.Context(), b.generator, b.client); err == nil {
		t.Fatal("a run that has not got its namespaces goes on")
	}
	b.options.Kubeconfig, b.plane = "somebody else's", &plane.Plane{}
	b.leave(t.Context())
	if left, want := b.server.Names("/api/v1/namespaces"), []string{b.workload.Namespace(1), b.workload.Namespace(2)}; !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
}
