package history_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/history"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// source makes up runs, an hour apart, with 3 % of noise.
type source struct {
	r *rand.Rand
	n int
}

func newSource(seed uint64) *source { return &source{r: rand.New(rand.NewPCG(seed, 9))} }

// run makes up a run; slower is by what factor pods start later.
func (s *source) run(slower float64, version string) compare.Run {
	s.n++
	noise := func(v float64) float64 { return v * math.Exp(0.03*s.r.NormFloat64()) }
	return compare.Run{
		Name: fmt.Sprintf("run-%03d", s.n), Scenario: "scenario: made-up\n",
		Manifest: record.Manifest{Format: record.Format, Scenario: "made-up", Seed: 1, Started: time.Date(2026, 1, 2, s.n, 0, 0, 0, time.UTC),
			Parameters: map[string]any{"pods": 100.0}, Versions: map[string]string{"kubernetes": version}, Machine: record.Machine{Cores: 2}},
		Judgement: slo.Judgement{Verdict: slo.Pass, Measures: map[string]slo.Measure{
			"pod_startup_p99_seconds":       {Value: noise(0.1 * slower), Unit: "seconds"},
			"pods_running_per_second":       {Value: noise(80), Unit: "pods/s"},
			"cpu_ms_per_pod_kube_apiserver": {Value: noise(20), Unit: "ms/pod"},
			"cpu_seconds_kube_apiserver":    {Value: noise(2), Unit: "seconds"},
			"host_busy_share":               {Value: noise(0.5), Unit: "ratio"},
		}},
		Facts: &compare.Facts{Ended: record.Event{Detail: record.Detail{Reason: record.Done}}},
	}
}

func (s *source) runs(n int, slower float64, version string) (out []compare.Run) {
	for range n {
		out = append(out, s.run(slower, version))
	}
	return out
}

func file(t *testing.T, runs ...compare.Run) *history.File {
	t.Helper()
	f := &history.File{}
	repotest.NoError(t, f.Add(runs...))
	return f
}

func look(t *testing.T, f *history.File, o history.Options) *history.Report {
	t.Helper()
	return repotest.Must(history.Look(f, o))(t)
}

func TestGoldenFiles(t *testing.T) {
	s := newSource(1)
	old := s.runs(2, 1, "v1.36.0")
	for i := range old {
		old[i].Manifest.Parameters = map[string]any{"pods": 50.0}
	}
	cut := s.run(1, "v1.37.0")
	cut.Facts = &compare.Facts{}
	runs := slices.Concat(old, s.runs(15, 1, "v1.37.0"), []compare.Run{cut}, s.runs(10, 1.25, "v1.38.0"))
	r := look(t, file(t, runs...), history.Options{FailAbove: 0.05})
	for name, write := range map[string]func(io.Writer) error{
		"history.txt": func(w io.Writer) error { return r.Write(w, false, false) }, "history.md": func(w io.Writer) error { return r.Write(w, true, true) }, "history.json": r.JSON,
	} {
		var got bytes.Buffer
		repotest.NoError(t, write(&got))
		path := filepath.Join("testdata", name)
		repotest.Golden(t, path, got.Bytes())
	}
	m := r.Measures[0]
	if m.Key != "pod_startup_p99_seconds" || len(m.Changes) != 1 || m.Changes[0].Run != "run-019" || len(r.Measures) != 3 {
		t.Errorf("%+v", m)
	}
	if want := "kubernetes v1.38.0 in place of v1.37.0"; !strings.Contains(m.Changes[0].Sentence, want) {
		t.Errorf("%q, want %q", m.Changes[0].Sentence, want)
	}
}

// A history without a change shows one in at most 5 of 100, in any measure; one
// of 20 % is seen within ten runs.
func TestAlarmsAndSensitivity(t *testing.T) {
	alarms, seen := 0, 0
	const trials = 40
	changes := stats.NewChanges(1)
	for i := range uint64(trials) {
		s := newSource(100 + i)
		r := look(t, file(t, s.runs(40, 1, "v")...), history.Options{Changes: changes})
		if slices.ContainsFunc(r.Measures, func(m history.Measure) bool { return len(m.Changes) > 0 }) {
			alarms++
		}
		s = newSource(200 + i)
		r = look(t, file(t, slices.Concat(s.runs(25, 1, "v"), s.runs(10, 1.2, "v"))...), history.Options{Changes: changes, FailAbove: 0.05})
		if r.Gate.Verdict == slo.Fail && slices.Equal(r.Gate.Failed, []string{"pod_startup_p99_seconds"}) {
			seen++
		}
	}
	if alarms > trials*10/100 || seen < trials*9/10 {
		t.Errorf("%d alarms, %d seen of %d", alarms, seen, trials)
	}
}

func TestGate(t *testing.T) {
	s, changes := newSource(3), stats.NewChanges(1)
	slow := slices.Concat(s.runs(20, 1, "v"), s.runs(10, 1.3, "v"))
	gate := func(f *history.File, above float64) slo.Verdict {
		return look(t, f, history.Options{FailAbove: above, Changes: changes}).Gate.Verdict
	}
	f := file(t, slow...)
	if v := gate(f, 0.05); v != slo.Fail {
		t.Errorf("slower by 30 %%: %s", v)
	}
	if v := gate(f, 0.5); v != slo.Pass {
		t.Errorf("within the bound: %s", v)
	}
	accept(t, f, history.Acceptance{})
	if v := gate(f, 0.05); v != slo.Pass {
		t.Errorf("accepted: %s", v)
	}
	repotest.NoError(t, f.Add(s.runs(10, 1.8, "v")...))
	if v := gate(f, 0.05); v != slo.Fail {
		t.Errorf("slower again, after it was accepted: %s", v)
	}
	repotest.NoError(t, f.Add(s.runs(10, 1.3, "v")...))
	if v := gate(f, 0.05); v != slo.Pass {
		t.Errorf("mended: %s", v)
	}
	if v := gate(file(t, newSource(4).runs(4, 1, "v")...), 0.05); v != slo.Unknown {
		t.Errorf("four runs: %s", v)
	}
	s = newSource(5)
	faster := slices.Concat(s.runs(20, 1.3, "v"), s.runs(10, 1, "v"))
	if v := gate(file(t, faster...), 0.05); v != slo.Pass {
		t.Errorf("faster: %s", v)
	}
}

func TestFile(t *testing.T) {
	s := newSource(6)
	runs := s.runs(5, 1, "v")
	f := file(t, runs[3], runs[0], runs[2]) // any order
	accept(t, f, history.Acceptance{})
	again := runs[3]
	again.Judgement.Measures = map[string]slo.Measure{}
	repotest.NoError(t, f.Add(runs[1], again))
	var names []string
	for _, e := range f.Entries {
		names = append(names, e.Name)
	}
	if got := strings.Join(names, " "); got != "run-001 run-002 run-003 run-004" || !f.Entries[3].Accepted || len(f.Entries[3].Measures) != 0 {
		t.Errorf("%s: %+v", got, f.Entries[3])
	}
	raw := repotest.Must(f.Encode())(t)
	g := repotest.Must(history.Decode("h", raw))(t)
	second, err := g.Encode()
	if err != nil || !bytes.Equal(raw, second) {
		t.Errorf("not the same bytes: %v", err)
	}
	if strings.Contains(string(raw), "host_busy_share") {
		t.Error("a measure that is not judged is kept")
	}
	f.Keep(2)
	if len(f.Entries) != 2 || f.Entries[0].Name != "run-003" {
		t.Errorf("kept %+v", f.Entries)
	}
}

// A file that an earlier build has carried is read, and written as it was but
// for former words.
func TestKeptFile(t *testing.T) {
	raw := repotest.Must(os.ReadFile(filepath.Join("testdata", "kept.json")))(t)
	f := repotest.Must(history.Decode("kept.json", raw))(t)
	if again, err := f.Encode(); err != nil || !bytes.Equal(bytes.ReplaceAll(raw, []byte(`"life_`), []byte(`"lifecycle_`)), again) {
		t.Errorf("%v: written as\n%s", err, again)
	}
	r := look(t, f, history.Options{})
	if len(r.Runs) != 2 || !r.Runs[1].Accepted || len(r.Measures) != 5 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "it was interrupted") {
		t.Errorf("%+v", r)
	}
}

func TestRefusals(t *testing.T) {
	s := newSource(7)
	f := file(t, s.runs(3, 1, "v")...)
	other := s.run(1, "v")
	other.Manifest.Scenario = "other"
	if err := f.Add(other); !errors.Is(err, history.ErrRefused) || !strings.Contains(err.Error(), "a run of other, and the history is of made-up") {
		t.Error(err)
	}
	timeless := s.run(1, "v")
	timeless.Manifest.Started = time.Time{}
	if err := f.Add(timeless); !errors.Is(err, history.ErrRefused) {
		t.Error(err)
	}
	if _, err := history.Look(&history.File{Scenario: "x"}, history.Options{}); !errors.Is(err, history.ErrRefused) {
		t.Error(err)
	}
	for text, want := range map[string]string{
		`{"format": 2}`: "h: format 2, this version reads format 1", `{`: "h:1: not JSON", `[]`: "h: it is a list",
		`{"format": 1, "entries": [{"name": "a", "started": "2026-01-02T00:00:00Z"}, {"name": "b", "started": "2026-01-01T00:00:00Z"}]}`: "entry 2 (b) is not in the order of time",
	} {
		if _, err := history.Decode("h", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// What is not of the newest run's setting is left out by name, with the reason.
func TestSettings(t *testing.T) {
	for what, change := range map[string]func(*compare.Run){
		"the scenario's text": func(r *compare.Run) { r.Scenario = "other" },
		"its parameters":      func(r *compare.Run) { r.Manifest.Parameters = map[string]any{"pods": 5.0} },
		"the machine":         func(r *compare.Run) { r.Manifest.Machine.Cores = 64 },
	} {
		s := newSource(8)
		runs := s.runs(6, 1, "v")
		for i := range 3 {
			change(&runs[i])
		}
		r := look(t, file(t, runs...), history.Options{})
		if want := "run-003 and 2 runs before it are left out: " + what + " changed after it."; len(r.Runs) != 3 || len(r.Warnings) != 1 || r.Warnings[0] != want {
			t.Errorf("%d runs, %q, want %q", len(r.Runs), r.Warnings, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	s := newSource(9)
	whole := &history.File{}
	repotest.NoError(f, whole.Add(s.runs(8, 1, "v")...))
	raw := repotest.Must(whole.Encode())(f)
	f.Add(raw)
	f.Add([]byte(`{"format":1,"entries":[{"started":"2026-01-01T00:00:00Z"}]}`))
	changes := stats.NewChanges(1)
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, err := history.Decode("h", raw)
		if err != nil {
			return
		}
		r, err := history.Look(h, history.Options{FailAbove: 0.1, Changes: changes})
		if err != nil {
			return
		}
		if err := r.Write(io.Discard, true, true); err != nil {
			t.Error(err)
		}
	})
}

func ExampleLook() {
	var f history.File
	s := newSource(10)
	if err := f.Add(slices.Concat(s.runs(20, 1, "v1.37.0"), s.runs(10, 1.5, "v1.38.0"))...); err != nil {
		fmt.Println(err)
		return
	}
	r, err := history.Look(&f, history.Options{Only: []string{"pod_startup"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Measures[0].Changes[0].Sentence)
	// Output: p99 pod startup changed from 98.8 ms to 149 ms (50.5 % worse) with run-021: kubernetes v1.38.0 in place of v1.37.0
}
