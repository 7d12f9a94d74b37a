package compare_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// example is a comparison that has one of everything.
func example(t *testing.T) *compare.Comparison {
	t.Helper()
	s := newSource(3, 0.06)
	a, b := s.sides(6, 1)
	for i := range b {
		m := b[i].Judgement.Measures
		for _, k := range []string{"pod_startup_p50_seconds", "pod_startup_p90_seconds", "pod_startup_p99_seconds"} {
			m[k] = slo.Measure{Value: 0.7 * m[k].Value, Unit: "seconds"}
		}
		m["cpu_ms_per_pod_etcd"] = slo.Measure{Value: 2.5 * m["cpu_ms_per_pod_etcd"].Value, Unit: "ms/pod"}
		b[i].Manifest.Parameters["rate"] = 200
		b[i].Manifest.Plane.Durability = "fsync"
		b[i].Facts.Counters[0].Value = 2
		b[i].Facts.Counters[1].Value += 1
	}
	publish := func(runs []compare.Run, isA scenario.Holds) {
		half := -0.5
		for i := range runs {
			runs[i].Published = []scenario.Published{
				{Measure: "pod_startup_p99_seconds", Value: 0.9, Unit: "seconds", Source: "a report", When: isA, Differences: "100 nodes"},
				{Measure: "pod_startup_p99_seconds", Change: &half, Source: "a report", When: true, From: isA, To: !isA},
				{Measure: "cpu_ms_per_pod_etcd", Change: &half, Source: "a report", When: true, From: !isA, To: isA},
				{Measure: "cpu_ms_per_pod_etcd", Value: 3, Unit: "ms/pod", Source: "of other parameters", When: false},
				{Measure: "nowhere", Value: 3, Unit: "seconds", Source: "a report", When: true},
			}
		}
	}
	publish(a, true)
	publish(b, false)
	for _, r := range slices.Concat(a, b) {
		r.Judgement.Measures["running_to_ready_p99_seconds"] = slo.Measure{Unit: "seconds"}
	}
	a[1].Judgement.Verdict, a[1].Judgement.Reasons = slo.Unknown, []string{"windtunnel could not keep its own pace."}
	b[2].Facts.Ended.Reason = record.Interrupted
	c, err := compare.Compare(a, b, compare.Options{NameA: "rate=100", NameB: "rate=200", Asked: []string{"parameter rate"}, FailAbove: 0.05})
	repotest.NoError(t, err)
	return c
}

func TestGoldenFiles(t *testing.T) {
	c := example(t)
	for name, write := range map[string]func(io.Writer) error{"comparison.txt": c.Text, "comparison.md": c.Markdown, "comparison.json": c.JSON} {
		var got bytes.Buffer
		repotest.NoError(t, write(&got))
		path := filepath.Join("testdata", name)
		repotest.Golden(t, path, got.Bytes())
	}
}

// A comparison that an older version wrote is read in today's words.
func TestOldWords(t *testing.T) {
	read := func(name string) (c compare.Comparison) {
		raw := repotest.Must(os.ReadFile(filepath.Join("testdata", name)))(t)
		repotest.NoError(t, json.Unmarshal(raw, &c))
		return c
	}
	old, now := read("comparison-old-words.json"), read("comparison.json")
	seen := map[compare.Outcome]bool{}
	for _, m := range old.Measures {
		seen[m.Outcome] = true
		i := slices.IndexFunc(now.Measures, func(n compare.Measure) bool { return n.Key == m.Key })
		if i < 0 || m.Outcome != now.Measures[i].Outcome {
			t.Errorf("%s: %s, now %+v", m.Key, m.Outcome, now.Measures)
		}
	}
	var alike compare.Outcome
	if err := json.Unmarshal([]byte(`"alike"`), &alike); err != nil || alike != compare.Equivalent || !seen[compare.Inconclusive] {
		t.Errorf("outcomes: %q, %v, %v", alike, seen, err)
	}
	if len(old.Gate.Inconclusive) == 0 || !reflect.DeepEqual(old.Gate, now.Gate) {
		t.Errorf("gate %+v, now %+v", old.Gate, now.Gate)
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		change func(a, b []compare.Run) ([]compare.Run, []compare.Run)
		want   string
	}{
		"other scenario": {func(a, b []compare.Run) ([]compare.Run, []compare.Run) {
			b[0].Manifest.Scenario = "other"
			return a, b
		}, "different scenarios, made-up and other"},
		"other text": {func(a, b []compare.Run) ([]compare.Run, []compare.Run) {
			b[0].Scenario = "scenario: made-up\nsteps: []\n"
			return a, b
		}, "texts of their scenarios differ"},
		"same run": {func(a, b []compare.Run) ([]compare.Run, []compare.Run) {
			return a, append(b, a[0])
		}, "they are one run"},
		"a copy": {func(a, b []compare.Run) ([]compare.Run, []compare.Run) {
			b[0].Manifest.Started = a[0].Manifest.Started
			return a, b
		}, "they are one run"},
		"no run left": {func(a, b []compare.Run) ([]compare.Run, []compare.Run) {
			b[0].Facts.Ended.Reason = ""
			return a, b[:1]
		}, "no run of B came to its end: b-02: its records have no end: it was killed"},
		"no run": {func(a, b []compare.Run) ([]compare.Run, []compare.Run) { return nil, b }, "no run of A"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newSource(4, 0.04).sides(2, 1)
			a, b = c.change(a, b)
			_, err := compare.Compare(a, b, compare.Options{})
			if !errors.Is(err, compare.ErrRefused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestUnfit(t *testing.T) {
	for _, c := range []struct {
		facts   *compare.Facts
		verdict slo.Verdict
		want    string
	}{
		{&compare.Facts{Ended: record.Event{Detail: record.Detail{Reason: record.Done}}}, slo.Unknown, ""},
		{nil, slo.Fail, ""},
		{nil, slo.Unknown, "its verdict is unknown, and its records are not there to tell why"},
		{&compare.Facts{Ended: record.Event{Detail: record.Detail{Reason: record.Done}}, CutOff: true}, slo.Pass, "its records are cut off"},
		{&compare.Facts{Ended: record.Event{Detail: record.Detail{Reason: record.Interrupted}}}, slo.Unknown, "it was interrupted"},
		{&compare.Facts{Ended: record.Event{Text: "etcd died: exit status 1\nlog", Detail: record.Detail{Reason: record.Broken}}}, slo.Unknown, "it was stopped: etcd died: exit status 1"},
		{&compare.Facts{Ended: record.Event{Detail: record.Detail{Reason: record.Broken}}}, slo.Unknown, "it was stopped"},
	} {
		r := compare.Run{Facts: c.facts, Judgement: slo.Judgement{Verdict: c.verdict}}
		if got := r.Unfit(); got != c.want {
			t.Errorf("%+v, verdict %s: %q, want %q", c.facts, c.verdict, got, c.want)
		}
	}
}

// Every fact that differs is named, and what belongs to one run only is not.
func TestDifferences(t *testing.T) {
	a, b := newSource(5, 0.04).sides(2, 1)
	for i := range b {
		m := &b[i].Manifest
		m.Versions["kubernetes"] = "v1.38.0"
		m.Machine.Kernel = "Linux 7"
		m.Seed = uint64(i)
		m.Plane.Components[0].Args = append(m.Plane.Components[0].Args, "--quota=1", "--feature=x", "--hash-seed=7")
		m.Plane.Components[0].CPULimit = 1.5
		b[i].Scenario = "scenario: made-up # b\n"
	}
	for _, r := range slices.Concat(a, b) {
		etcd := &r.Manifest.Plane.Components[0]
		etcd.Args = append(etcd.Args, fmt.Sprintf("--seed=%d", r.Manifest.Seed))
	}
	got := repotest.Must(compare.Compare(a, b, compare.Options{Asked: []string{"version kubernetes"}}))(t)
	var lines []string
	for _, d := range got.Differences {
		line := d.Fact + ": " + d.A + " → " + d.B
		if d.Asked {
			line += " asked"
		}
		lines = append(lines, line)
	}
	want := []string{
		"etcd --feature: – → x", "etcd --hash-seed: – → 7", "etcd --quota: – → 1", "etcd cpu limit: 0 → 1.5", "machine kernel: none → Linux 7",
		"version kubernetes: v1.37.1 → v1.38.0 asked", "seeds: 1 → 0 1", "scenario line 1: scenario: made-up → scenario: made-up # b",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("differences\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

func TestFormatChange(t *testing.T) {
	for ratio, want := range map[float64]string{
		1: "0 %", 1.0004: "0 %", 0.9996: "0 %", 1.18: "+18 %", 0.957: "-4.3 %", 3.21: "×3.2", 60.4: "×60", 0.5: "-50 %", 1.999: "+100 %",
		0.11: "-89 %", 0.1: "÷10", 0.0163: "÷61", 1 / 2970.: "÷2,970", 0: "-100 %",
	} {
		if got := compare.FormatChange(ratio); got != want {
			t.Errorf("%v is written %s, want %s", ratio, got, want)
		}
	}
}

// Counters of different machines are compared, latencies are not.
func TestOtherMachine(t *testing.T) {
	a, b := newSource(6, 0.04).sides(4, 2)
	for i := range b {
		b[i].Manifest.Machine.Cores = 64
	}
	got := repotest.Must(compare.Compare(a, b, compare.Options{FailAbove: 0.05}))(t)
	if len(got.Measures) != 0 || len(got.Counters) != 3 || got.Gate.Verdict != slo.Unknown {
		t.Errorf("%d measures, %d counters, gate %s", len(got.Measures), len(got.Counters), got.Gate.Verdict)
	}
}

func TestGate(t *testing.T) {
	for _, c := range []struct {
		name   string
		runs   int
		spread float64
		slower float64
		above  float64
		want   slo.Verdict
	}{
		{"much worse", 8, 0.02, 1.3, 0.05, slo.Fail},
		{"worse by less than the bound", 8, 0.01, 1.1, 0.2, slo.Pass},
		{"better", 8, 0.01, 0.7, 0.05, slo.Pass},
		{"equivalent", 8, 0.01, 1, 0.05, slo.Pass},
		{"too noisy to tell", 5, 0.3, 1, 0.05, slo.Unknown},
		{"too few to tell", 2, 0.01, 2, 0.05, slo.Unknown},
	} {
		a, b := newSource(8, c.spread).sides(c.runs, c.slower)
		got := repotest.Must(compare.Compare(a, b, compare.Options{FailAbove: c.above}))(t)
		if got.Gate.Verdict != c.want {
			t.Errorf("%s: %s, want %s: failed %v, inconclusive %v", c.name, got.Gate.Verdict, c.want, got.Gate.Failed, got.Gate.Inconclusive)
		}
	}
}

// A rate is the better the higher it is.
func TestRatesAreBetterWhenHigher(t *testing.T) {
	a, b := newSource(9, 0.01).sides(5, 1)
	for i := range a {
		a[i].Judgement.Measures["pods_running_per_second"] = slo.Measure{Value: 100 + float64(i), Unit: "pods/s"}
		b[i].Judgement.Measures["pods_running_per_second"] = slo.Measure{Value: 50 + float64(i), Unit: "pods/s"}
	}
	got := repotest.Must(compare.Compare(a, b, compare.Options{FailAbove: 0.1, Only: []string{"pods_"}}))(t)
	if len(got.Measures) != 1 || got.Measures[0].Outcome != compare.Worse || got.Gate.Verdict != slo.Fail {
		t.Fatalf("%+v, gate %+v", got.Measures, got.Gate)
	}
	if want := "pods running per second is 49 % lower in B (47 to 51 %, 5 runs each)"; got.Measures[0].Sentence != want {
		t.Errorf("%q, want %q", got.Measures[0].Sentence, want)
	}
}

// A fall to a fiftieth is said as a factor, its smaller end first.
func TestFallOfManyTimes(t *testing.T) {
	a, b := newSource(9, 0.01).sides(5, 1)
	for i := range a {
		a[i].Judgement.Measures["pods_seconds"] = slo.Measure{Value: 100, Unit: "seconds"}
		b[i].Judgement.Measures["pods_seconds"] = slo.Measure{Value: 1 + float64(i)/2, Unit: "seconds"}
	}
	got := repotest.Must(compare.Compare(a, b, compare.Options{Only: []string{"pods_"}}))(t)
	if want := "pods seconds is lower by a factor of 50 in B (33 to 100, 5 runs each)"; len(got.Measures) != 1 || got.Measures[0].Sentence != want {
		t.Errorf("%+v, want %q", got.Measures, want)
	}
}

// What a scenario is called does not write in the terminal or the comment.
func TestNamesDoNoHarm(t *testing.T) {
	a, b := newSource(10, 0.04).sides(1, 1)
	a[0].Name, b[0].Name = "a\x1b[31m", "b"
	a[0].Manifest.Parameters["x"] = "<img src=x> @all | `y`\n# z"
	a[0].Judgement.Verdict = slo.Unknown
	got := repotest.Must(compare.Compare(a, b, compare.Options{NameA: "[a](http://x)"}))(t)
	var text, markdown strings.Builder
	repotest.NoError(t, errors.Join(got.Text(&text), got.Markdown(&markdown)))
	for _, bad := range []string{"\x1b", "<img", " @all", "[a](", "\n# z"} {
		if strings.Contains(markdown.String(), bad) {
			t.Errorf("Markdown holds %q:\n%s", bad, markdown.String())
		}
	}
	if strings.Contains(text.String(), "\x1b") {
		t.Errorf("text holds an escape:\n%q", text.String())
	}
}

func TestOpen(t *testing.T) {
	dir := record.Dir(t.TempDir())
	if _, err := compare.Open(string(dir)); !errors.Is(err, record.ErrNotRun) {
		t.Errorf("an empty folder: %v", err)
	}
	write := func(name, content string) {
		repotest.NoError(t, dir.Write(name, []byte(content)))
	}
	write(record.ManifestFile, `{"format": 99}`)
	if _, err := compare.Open(string(dir)); err == nil || !strings.Contains(err.Error(), "format 99, this version reads formats 1 to 2") {
		t.Errorf("another version: %v", err)
	}
	write(record.ManifestFile, `{"format": 1, "scenario": "x"}`)
	if _, err := compare.Open(string(dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("neither verdict nor records: %v", err)
	}
	write(record.VerdictFile, `{"verdict": "fail"}`)
	if r, err := compare.Open(string(dir)); err != nil || r.Facts != nil || r.Judgement.Verdict != slo.Fail {
		t.Errorf("with a verdict: %+v, %v", r, err)
	}
	write(record.VerdictFile, `{`)
	if _, err := compare.Open(string(dir)); err == nil {
		t.Error("a damaged verdict is believed")
	}
	write(record.VerdictFile, `{"verdict": "fail"}`)
	write(record.StreamFile, "not records")
	if _, err := compare.Open(string(dir)); err == nil || !strings.Contains(err.Error(), string(dir)) {
		t.Errorf("damaged records: %v", err)
	}
}
