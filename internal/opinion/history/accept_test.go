package history_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/history"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/stats"
)

func accept(t *testing.T, f *history.File, a history.Acceptance) {
	t.Helper()
	repotest.NoError(t, f.Accept(a))
}

// TestAcceptOfAMeasure accepts the change of one of two measures, with a reason: the other
// one fails builds still, and so does what changes later.
func TestAcceptOfAMeasure(t *testing.T) {
	const cpu, memory = "cpu_ms_per_pod_kube_apiserver", "peak_rss_bytes_kube_apiserver"
	r := rand.New(rand.NewPCG(3, 9))
	f := entries(cpu, "ms/pod", slices.Concat(noisy(r, 20, 1), noisy(r, 11, 2))...)
	for i, v := range slices.Concat(noisy(r, 20, 1), noisy(r, 11, 3)) {
		f.Entries[i].Measures[memory] = slo.Measure{Value: v, Unit: "bytes"}
	}
	o := history.Options{FailAbove: 0.05, Changes: stats.NewChanges(1)}
	failed := func() []string { return look(t, f, o).Gate.Failed }
	if got := failed(); len(got) != 2 {
		t.Fatalf("before: %q fail", got)
	}
	accept(t, f, history.Acceptance{Measures: []string{"cpu_ms_per_pod"}, Reason: "audit log on", Owner: "team plane"})
	if got := failed(); !slices.Equal(got, []string{memory}) {
		t.Errorf("one is accepted: %q fail", got)
	}
	raw, err := f.Encode()
	repotest.NoError(t, err)
	if f, err = history.Decode("x", raw); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := look(t, f, o).Write(&text, false, false); err != nil || !strings.Contains(text.String(), "(accepted by team plane: audit log on)") {
		t.Errorf("%v:\n%s", err, &text)
	}
	accept(t, f, history.Acceptance{Reason: "the rest too"})
	if got := failed(); len(got) != 0 {
		t.Errorf("all are accepted: %q fail", got)
	}
	later := entries(cpu, "ms/pod", noisy(r, 11, 8)...)
	for i := range later.Entries {
		e := later.Entries[i]
		e.Started = f.Entries[30].Started.Add(e.Started.Sub(later.Entries[0].Started) + 1e9)
		e.Setting = f.Entries[30].Setting
		e.Measures[memory] = f.Entries[25+i%5].Measures[memory]
		f.Entries = append(f.Entries, e)
	}
	if got := failed(); !slices.Equal(got, []string{cpu}) {
		t.Errorf("changed once more: %q fail", got)
	}
}

func TestAcceptRefuses(t *testing.T) {
	f := entries("cpu_ms_per_pod_kube_apiserver", "ms/pod", 1, 2)
	for _, tt := range []struct {
		a    history.Acceptance
		want string
	}{
		{history.Acceptance{Measures: []string{"cpu_ms_per_pods"}}, "no measure of"},
		{history.Acceptance{Measures: []string{"cpu_ms_per_pod_kube_apiservr"}}, `did you mean "cpu_ms_per_pod_kube_apiserver"?`},
		{history.Acceptance{Reason: strings.Repeat("x", 501)}, "at most 500 bytes"},
	} {
		if err := f.Accept(tt.a); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.40v: %v, want %q", tt.a, err, tt.want)
		}
	}
	for i := range f.Entries {
		f.Entries[i].LeftOut = "it was killed"
	}
	if err := f.Accept(history.Acceptance{}); err == nil || !strings.Contains(err.Error(), "no run that came to its end") {
		t.Errorf("nothing to accept: %v", err)
	}
}
