// Package accuracy_test proves that the instruments measure what they say they do:
// each proof sets up a truth that is known beforehand and holds what a run
// reports against it. It has tests only, which take minutes and the machine to
// themselves: they run when WINDTUNNEL_ACCURACY is set, as `make test-accuracy`
// does.
package accuracy_test

import (
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// boot starts a stock plane and returns a kubeconfig for it.
func boot(t *testing.T) string {
	t.Helper()
	p := repotest.Must(plane.Start(t.Context(), scenario.Plane{}, plane.Options{LogDir: t.TempDir(), Executable: repotest.Binary(t)}))(t)
	t.Cleanup(func() { _ = p.Close() })
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	repotest.NoError(t, p.Endpoint(plane.Admin).WriteKubeconfig(kubeconfig))
	return kubeconfig
}

// TestCounts holds the calls of the records against apiserver_request_total,
// verb by verb and code by code. That metric does not say who called: the calls
// are on a resource that nobody but the run touches, so that all of the
// increase is by its user agent.
func TestCounts(t *testing.T) {
	long(t)
	r, err := flight.Run(t.Context(), flight.Options{
		File: "testdata/counts.yaml", Kubeconfig: boot(t), Out: filepath.Join(t.TempDir(), "run"),
		Log: slog.New(slog.DiscardHandler), Versions: map[string]string{},
	})
	if err != nil || r.Err != nil {
		t.Fatal(err, r.Err)
	}
	ours, theirs := ourCalls(t, r.Dir), serverCalls(t, r.Dir)
	if len(ours) < 7 { // POST 201 409 422, GET 200 404, PATCH 200, PUT 200, DELETE 200 404
		t.Errorf("calls of only %d kinds: %v", len(ours), ours)
	}
	for _, kind := range slices.Sorted(maps.Keys(theirs)) {
		if ours[kind] != theirs[kind] {
			t.Errorf("%s: the server counted %d, the records have %d", kind, theirs[kind], ours[kind])
		}
	}
	total := 0
	for _, kind := range slices.Sorted(maps.Keys(ours)) {
		if _, known := theirs[kind]; !known {
			t.Errorf("%s: the records have %d, the server none", kind, ours[kind])
		}
		total += ours[kind]
	}
	t.Logf("%d calls of %d kinds agree: %v", total, len(ours), ours)
}

const untouched = "podtemplates"

// ourCalls counts the answered calls of the load by verb and code, as the
// server's metrics name them.
func ourCalls(t *testing.T, dir record.Dir) map[string]int {
	t.Helper()
	verbs := map[string]string{"create": "POST", "get": "GET", "patch": "PATCH", "update": "PUT", "delete": "DELETE"}
	out := map[string]int{}
	repotest.Must(record.Read(dir.File(record.StreamFile), func(s *record.Stream) record.Visitor {
		return record.Visitor{Call: func(c record.Call) {
			if op := s.Ops[c.Op]; op.Resource == untouched {
				out[verbs[op.Verb]+" "+strconv.Itoa(int(c.Code))]++
			}
		}}
	}))(t)
	return out
}

// serverCalls is by how much the server's own count rose. Informers list and
// watch the resource; the run does neither.
func serverCalls(t *testing.T, dir record.Dir) map[string]int {
	t.Helper()
	facts := repotest.Must(run.Collect(dir.File(record.StreamFile), record.Manifest{}))(t)
	out := map[string]int{}
	for _, s := range facts.Series.Select("kube-apiserver", "apiserver_request_total", map[string]string{"resource": untouched}) {
		rise, ok := s.Increase(facts.Begin, facts.End)
		if verb := s.Label("verb"); ok && rise > 0 && verb != "LIST" && verb != "WATCH" {
			out[fmt.Sprintf("%s %s", verb, s.Label("code"))] += int(rise)
		}
	}
	return out
}
