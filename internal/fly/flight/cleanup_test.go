package flight

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
)

// ofOthers makes the server a cluster of somebody else.
func (b *bench) ofOthers() {
	b.options.Kubeconfig, b.visit.client = "somebody else's", b.client
	b.namespaces.stamp = b.newStamp()
}

// TestLeaveNeedsNoRecords deletes a run's namespaces when its disk is full.
func TestLeaveNeedsNoRecords(t *testing.T) {
	b := newBench(t, head(2)+"- {pause: 1ms}\n")
	b.ofOthers()
	for i := range 2 {
		b.server.Add("/api/v1/namespaces/"+b.workload.Namespace(i), map[string]any{"metadata": map[string]any{"labels": map[string]any{object.RunLabel: b.id}}})
	}
	if err := b.dir.records.Close(); err != nil {
		t.Fatal(err)
	}
	tries := 0
	b.server.Inject(func(r *http.Request) *apitest.Injection {
		if r.Method == http.MethodDelete {
			if tries++; tries == 1 {
				return &apitest.Injection{Code: http.StatusTooManyRequests}
			}
		}
		return nil
	})
	b.cleanUp(t.Context())
	if left := b.server.Names("/api/v1/namespaces"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestLeaveKeepsForgedLabels leaves a cluster in which somebody has put the run's label on an
// object while the run was under way: by hand, or by copying a manifest out of it.
func TestLeaveKeepsForgedLabels(t *testing.T) {
	b := newBench(t, head(1)+"- {pause: 1ms}\n")
	b.ofOthers()
	labeledBy := func(path, manager string) {
		b.server.Add(path, map[string]any{"metadata": map[string]any{
			"labels": map[string]any{object.RunLabel: b.id},
			"managedFields": []any{map[string]any{"manager": manager, "apiVersion": "v1",
				"fieldsV1": map[string]any{"f:metadata": map[string]any{"f:labels": map[string]any{"f:" + object.RunLabel: map[string]any{}}}}}},
		}})
	}
	labeledBy("/api/v1/namespaces/forged", "kubectl-label")
	labeledBy("/api/v1/namespaces/"+b.workload.Namespace(0), "windtunnel-load")
	b.cleanUp(t.Context())
	if left := b.server.Names("/api/v1/namespaces"); !slices.Equal(left, []string{"forged"}) {
		t.Errorf("left %v, want the forged one alone", left)
	}
}

// TestLeaveAfterLostAnswers leaves a cluster on which one namespace was made
// although the server gave up, and others were there before.
func TestLeaveAfterLostAnswers(t *testing.T) {
	b := newBench(t, head(3)+"- {pause: 1ms}\n")
	b.ofOthers()
	for _, i := range []int{1, 2} {
		b.server.Add("/api/v1/namespaces/"+b.workload.Namespace(i), map[string]any{})
	}
	b.server.Inject(func(r *http.Request) *apitest.Injection {
		var made map[string]any
		if err := json.NewDecoder(r.Body).Decode(&made); r.Method != http.MethodPost || err != nil {
			return nil
		}
		switch made["metadata"].(map[string]any)["name"] {
		case b.workload.Namespace(0): // it is stored, and the answer lost
			return &apitest.Injection{Code: http.StatusGatewayTimeout, Done: true}
		case b.workload.Namespace(1):
			return &apitest.Injection{Code: http.StatusInternalServerError}
		}
		return &apitest.Injection{Code: http.StatusConflict}
	})
	if err := b.namespaces.createAll(t.Context(), b.generator, b.client); err == nil {
		t.Fatal("a run that has not got its namespaces goes on")
	}
	b.cleanUp(t.Context())
	if left, want := b.server.Names("/api/v1/namespaces"), []string{b.workload.Namespace(1), b.workload.Namespace(2)}; !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
}
