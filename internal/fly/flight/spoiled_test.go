package flight_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/fly/flight/preflight"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

const afterwards = `scenario: afterwards
parameters: {unclean: tag, prefix: a, wait: 3s}
namespaces: {prefix: "${prefix}"}
preflight: {wait: "${wait}", dirty: "${unclean}", tolerate: [host]}
bodies:
  map:
    text: |
      {apiVersion: v1, kind: ConfigMap, metadata: {name: "{{ .Name }}"}}
steps:
- {name: fill, create: {body: map, count: 20, pace: {constant: 100}}}
objectives:
- {sli: call-success, min: 1}
`

// cluster is a plane that several runs share, and its kubeconfig.
func cluster(t *testing.T) (*plane.Plane, string) {
	t.Helper()
	bin := repotest.Binary(t)
	p := repotest.Must(plane.Start(t.Context(), scenario.Plane{}, plane.Options{LogDir: t.TempDir(), Executable: bin}))(t)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	repotest.NoError(t, p.Endpoint(plane.Admin).WriteKubeconfig(kubeconfig))
	return p, kubeconfig
}

// call sends one request and wants this status.
func call(t *testing.T, p *plane.Plane, method, path, body string, want int) {
	t.Helper()
	client, base, err := p.Endpoint(plane.Admin).Client()
	repotest.NoError(t, err)
	req := repotest.Must(http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(base.String(), "/")+path, strings.NewReader(body)))(t)
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	answer := repotest.Must(client.Do(req))(t)
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != want {
		t.Fatalf("%s %s: %s %s", method, path, answer.Status, text)
	}
}

// TestSpoiledRun is the run that a report found spoiled only afterwards: the
// one before it had left objects whose finalizer nobody removed.
func TestSpoiledRun(t *testing.T) {
	p, kubeconfig := cluster(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "afterwards.yaml")
	repotest.NoError(t, os.WriteFile(file, []byte(afterwards), 0o600))
	// A clean plane is waited for as long as a busy machine takes to look at it.
	const busy = "2m"
	fly := func(name, unclean, wait string) flight.Result {
		r := repotest.Must(flight.Run(t.Context(), flight.Options{File: file, Kubeconfig: kubeconfig, Out: filepath.Join(dir, "runs", name),
			Set: map[string]string{"unclean": unclean, "prefix": name, "wait": wait}, Log: slog.New(slog.DiscardHandler), Versions: map[string]string{}}))(t)
		return r
	}
	gateOf := func(r flight.Result) *record.PreflightFacts {
		_, m, err := record.OpenDir(string(r.Dir))
		if err != nil || m.Preflight == nil {
			t.Fatalf("%v, %+v", err, m)
		}
		return m.Preflight
	}
	first := fly("first", "stop", busy)
	if g := gateOf(first); first.Err != nil || !g.Clean || g.Cluster == "" || len(g.ProbeWrites) == 0 || g.Heap["kube-apiserver"] <= 0 {
		t.Fatalf("the first run: %v, %+v", first.Err, g)
	}
	const maps = "/api/v1/namespaces/default/configmaps"
	call(t, p, http.MethodPost, maps, `{"metadata":{"name":"vmi-17","finalizers":["test.windtunnel.dev/unmount"]}}`, http.StatusCreated)
	call(t, p, http.MethodDelete, maps+"/vmi-17", "", http.StatusOK)
	held := record.PreflightFinding{Kind: preflight.Terminating, Text: "1 configmap terminating, held by finalizer test.windtunnel.dev/unmount (default/vmi-17)"}

	refused := fly("refused", "stop", "10s")
	if !errors.Is(refused.Err, flight.ErrDirty) || !strings.Contains(refused.Err.Error(), held.Text) || refused.Judgement.Verdict != slo.Unknown {
		t.Errorf("the gate let it pass: %v, %s", refused.Err, refused.Judgement.Verdict)
	}
	tagged := fly("tagged", "tag", "10s")
	g := gateOf(tagged)
	if tagged.Err != nil || g.Clean || g.Waited < 3 || g.First != "first" || !slices.Contains(g.Findings, held) {
		t.Errorf("%v, %+v", tagged.Err, g)
	}
	j := tagged.Judgement
	reasons := strings.Join(j.Reasons, " ")
	late := j.Verdict == slo.Unknown && strings.Contains(reasons, "could not keep its own pace") // on a busy machine
	if j.Verdict != slo.Pass && !late || !strings.Contains(reasons, held.Text) {
		t.Errorf("%s, %q", j.Verdict, j.Reasons)
	}
	call(t, p, http.MethodPatch, maps+"/vmi-17", `{"metadata":{"finalizers":null}}`, http.StatusOK)
	after := fly("after", "stop", busy)
	if g := gateOf(after); after.Err != nil || !g.Clean || g.First != "first" {
		t.Errorf("the run after: %v, %+v", after.Err, g)
	}
}
