package fleet_test

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
	"github.com/windtunnel/windtunnel/internal/sim/fleet"
	"github.com/windtunnel/windtunnel/internal/unit"
)

func TestStartErrors(t *testing.T) {
	s := apitest.New(t)
	s.Inject(func(r *http.Request) *apitest.Injection {
		if r.URL.Path == "/api/v1/pods" {
			return &apitest.Injection{Code: 403}
		}
		return nil
	})
	_, err := fleet.Start(t.Context(), config(1), fleet.Options{Endpoint: s.Endpoint(), Clock: clock.Start()})
	if err == nil || !strings.Contains(err.Error(), "list pods") || !strings.Contains(err.Error(), "403") {
		t.Errorf("got %v", err)
	}
	bad := config(1)
	bad.Capacity = map[string]string{"cpu": "many"}
	_, err = fleet.Start(t.Context(), bad, fleet.Options{Endpoint: s.Endpoint(), Clock: clock.Start()})
	if err == nil || !strings.Contains(err.Error(), `capacity cpu: "many"`) {
		t.Errorf("got %v", err)
	}
}

func TestReadyGivesUp(t *testing.T) {
	s := apitest.New(t)
	taintFor(s, time.Hour)
	cfg := config(3)
	cfg.Within = unit.Duration(3 * time.Second)
	f := start(t, s, cfg)
	repotest.Eventually(t, "created", func() bool { return f.Stats().Created == 3 })
	err := f.Ready(t.Context())
	if !errors.Is(err, fleet.ErrNotReady) || !strings.Contains(err.Error(), "0 of 3 nodes are schedulable (3 created)") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := start(t, apitest.New(t), config(0)).Ready(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records")
	w := repotest.Must(record.Create(path))(t)
	s := apitest.New(t)
	f := repotest.Must(fleet.Start(t.Context(), config(2), fleet.Options{Endpoint: s.Endpoint(), Clock: clock.Start(), Records: w}))(t)
	ready(t, f)
	s.AddPod(apitest.Pod("p", "node-000000"))
	repotest.Eventually(t, "pod", func() bool { return f.Stats().Running == 1 })
	s.EndPod("default", "p")
	// A watch may show the deletion before its own answer comes.
	repotest.Eventually(t, "pod gone", func() bool { s := f.Stats(); return s.Pods == 0 && s.InFlight == 0 })
	repotest.NoError(t, errors.Join(f.Close(), w.Close()))
	got := readCalls(t, path)
	for _, want := range []string{"create nodes", "create leases.coordination.k8s.io", "patch pods/status", "delete pods"} {
		if got[want] == 0 {
			t.Errorf("no call of %q; there are %v", want, got)
		}
	}
	if got["create nodes"] != 2 || got["patch pods/status"] != 1 {
		t.Errorf("%v", got)
	}
}

// readCalls counts the successful calls of a stream and checks their times.
func readCalls(t *testing.T, path string) map[string]int {
	t.Helper()
	got := map[string]int{}
	repotest.Must(record.Read(path, func(stream *record.Stream) record.Visitor {
		return record.Visitor{Call: func(c record.Call) {
			op := stream.Ops[c.Op]
			if op.Source != "fleet" || op.Scope != "resource" || c.Outcome != record.OK {
				t.Errorf("%+v %+v", op, c)
			}
			if c.Due > c.Sent || c.Sent > c.Done || c.Due == 0 {
				t.Errorf("%s: due %v, sent %v, done %v", op.Verb, c.Due, c.Sent, c.Done)
			}
			name := op.Verb + " " + op.Resource
			if op.Subresource != "" {
				name += "/" + op.Subresource
			}
			got[name]++
		}}
	}))(t)
	return got
}
