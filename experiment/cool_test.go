package experiment

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/endpoint"
	"github.com/windtunnel/windtunnel/gate"
	"github.com/windtunnel/windtunnel/plane"
)

func TestTerminating(t *testing.T) {
	b := newBench(t, head(1)+"- {name: a, create: {body: map, count: 2, pace: {burst: true}}}\n")
	if err := b.steps(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.server.mu.Lock()
	b.server.objects["/api/v1/namespaces/n-1/configmaps/a-1"]["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	b.server.objects["/api/v1/namespaces/n-1/configmaps/a-1"]["metadata"].(map[string]any)["finalizers"] = []string{"x/y"}
	b.server.mu.Unlock()
	var f gate.Facts
	b.terminating(t.Context(), &f)
	if got := gate.Findings(f); !slices.Equal(got, []string{"1 configmaps terminating, held by finalizer x/y (n-1/a-1)"}) {
		t.Errorf("%q", got)
	}
	b.server.mu.Lock()
	b.server.refuse = func(string, string) int { return http.StatusForbidden }
	b.server.mu.Unlock()
	f = gate.Facts{}
	if b.terminating(t.Context(), &f); len(f.Unread) != 3 {
		t.Errorf("%q", f.Unread)
	}
}

func TestQueues(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "workqueue_depth{name=\"job\"} 3\n")
	}))
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	c := plane.Component{Name: "kcm", PID: os.Getpid(), MetricsURL: server.URL + "/metrics", Scrape: endpoint.New(server.URL, ca, endpoint.Identity{})}
	depths := map[string]float64{}
	if err := queues(t.Context(), c, depths); err != nil || depths["kcm job"] != 3 {
		t.Errorf("%v, %v", depths, err)
	}
	server.Close()
	if err := queues(t.Context(), c, depths); err == nil {
		t.Error("a component that is gone has queues")
	}
}
