package flight_test

import (
	"log/slog"
	"path/filepath"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestDeclaredLifecycles flies testdata/lifecycles.yaml on a real plane: what its lives
// say is in the verdict, with what was seen on linked objects in its place.
func TestDeclaredLifecycles(t *testing.T) {
	bin := repotest.Binary(t)
	p := repotest.Must(plane.Start(t.Context(), scenario.Plane{}, plane.Options{LogDir: t.TempDir(), Executable: bin}))(t)
	t.Cleanup(func() { _ = p.Close() })
	out := t.TempDir()
	kubeconfig := filepath.Join(out, "kubeconfig")
	repotest.NoError(t, p.Endpoint(plane.Admin).WriteKubeconfig(kubeconfig))
	r, err := flight.Run(t.Context(), flight.Options{
		File: "testdata/lifecycles.yaml", Kubeconfig: kubeconfig, Out: filepath.Join(out, "run"), Log: slog.New(slog.DiscardHandler), Versions: map[string]string{},
	})
	if err != nil || r.Err != nil {
		t.Fatal(err, r.Err)
	}
	for _, o := range r.Judgement.Objectives {
		want := map[string]int{"application": 10, "pods of front": 5, "jobs": 10, "nodes": 4, "gadgets": 0, "failed calls of the load": 30}[o.Name]
		if o.Samples != want || want > 0 && o.Value == nil || (o.Verdict == slo.Unknown) != (want == 0) {
			t.Errorf("%+v", o)
		}
	}
	if !slices.Equal(unmet(r.Judgement), []string{"lifecycle late", "lifecycle unused"}) {
		t.Errorf("not measured: %+v", r.Judgement.Unmet)
	}
	values := map[string]float64{}
	for _, s := range r.Judgement.Lifecycles {
		t.Logf("%s %s: %s to %s: %d objects, %d censored, p50 %v", s.Lifecycle, s.Group, s.From, s.To, s.Samples, s.Censored, *s.Values[0].Value)
		if s.Group == "" {
			values[s.Lifecycle+" "+s.From+" "+s.To] = *s.Values[0].Value
		}
	}
	created, ready, whole := values["application created podsCreated"], values["application created podsReady"], values["application created ready"]
	if !(created > 0 && created < ready && ready <= whole+0.1) { // two watches are not in step
		t.Errorf("pods created after %v s, ready after %v s, the application after %v s", created, ready, whole)
	}
	if m := r.Judgement.Measures["lifecycles_application_deleted"]; m.Value != 10 {
		t.Errorf("%v applications deleted", m.Value)
	}
}

// unmet are the names of what did not come about, sorted.
func unmet(j slo.Judgement) (out []string) {
	for _, u := range j.Unmet {
		out = append(out, u.Asked)
	}
	slices.Sort(out)
	return out
}
