package junit_test

import (
	"bytes"
	"encoding/xml"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/interop/junit"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func manifest() record.Manifest {
	return record.Manifest{
		Scenario: "density", Seed: 7, Started: time.Date(2026, 9, 14, 10, 22, 5, 0, time.UTC),
		Versions: map[string]string{"kubernetes": "v1.37.1", "etcd": "3.7.0"}, Parameters: map[string]any{"nodes": 100, "rate": 12.5},
		Machine: record.Machine{Cores: 2}, Fleet: record.FleetFacts{Nodes: 100},
	}
}

func judgement() slo.Judgement {
	met, missed, vague := 0.2134, 61.2, 0.93
	return slo.Judgement{
		Scenario: "density", Verdict: slo.Fail, Reasons: []string{"mean of pods running per second is 61.2/s, below its bound of 90/s."},
		Measures: map[string]slo.Measure{"run_seconds": {Value: 78.3, Unit: "seconds"}},
		Objectives: []slo.Result{
			{Name: "pods running per second", Statistic: "mean", Value: &missed, Unit: "1/s", Threshold: 90, AtLeast: true, Verdict: slo.Fail, Samples: 3000},
			{Name: "mutating calls", Labels: map[string]string{"verb": "PATCH", "resource": "pods"}, Statistic: "p99", Value: &vague, Unit: "seconds", Threshold: 1,
				Verdict: slo.Unknown, Samples: 137, Interval: &[2]float64{0.75, 1.25}, Warnings: []string{"the histogram only says that it lies between 0.75 and 1.25"}},
			{Name: "reads", Unit: "seconds", Threshold: 1, Verdict: slo.Unknown, Warnings: []string{"nothing was measured"}},
			{Name: "pod startup", Statistic: "p99", Value: &met, Unit: "seconds", Threshold: 5, Verdict: slo.Pass, Samples: 3150, Interval: &[2]float64{0.19, 0.24}},
		},
	}
}

func write(t *testing.T, m record.Manifest, j slo.Judgement) string {
	t.Helper()
	var out bytes.Buffer
	repotest.NoError(t, junit.Write(&out, m, j))
	return out.String()
}

func TestGolden(t *testing.T) {
	got := write(t, manifest(), judgement())
	const path = "testdata/fail.xml"
	repotest.Golden(t, path, got)
}

// counted is what a CI system reads.
type counted struct {
	Suites []struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Cases    []struct {
			Name    string    `xml:"name,attr"`
			Failure *struct{} `xml:"failure"`
			Error   *struct{} `xml:"error"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

func read(t *testing.T, text string) counted {
	t.Helper()
	var c counted
	if err := xml.Unmarshal([]byte(text), &c); err != nil {
		t.Fatalf("not well-formed: %v\n%s", err, text)
	}
	return c
}

func TestCounts(t *testing.T) {
	met := 1.0
	pass := slo.Result{Name: "a", Value: &met, Threshold: 2, Verdict: slo.Pass}
	fail := slo.Result{Name: "b", Value: &met, Threshold: 0.5, Verdict: slo.Fail}
	for name, c := range map[string]struct {
		j                       slo.Judgement
		tests, failures, errors int
	}{
		"pass":                       {slo.Judgement{Verdict: slo.Pass, Objectives: []slo.Result{pass}}, 1, 0, 0},
		"fail":                       {slo.Judgement{Verdict: slo.Fail, Objectives: []slo.Result{fail, pass}}, 2, 1, 0},
		"nothing judged":             {slo.Judgement{Verdict: slo.Unknown}, 1, 0, 1},
		"interrupted, all else fine": {slo.Judgement{Verdict: slo.Unknown, Reasons: []string{"interrupted"}, Objectives: []slo.Result{pass}}, 2, 0, 1},
		"interrupted and missed":     {slo.Judgement{Verdict: slo.Unknown, Objectives: []slo.Result{fail}}, 2, 1, 1},
	} {
		s := read(t, write(t, manifest(), c.j)).Suites[0]
		if s.Tests != c.tests || s.Failures != c.failures || s.Errors != c.errors || len(s.Cases) != c.tests {
			t.Errorf("%s: %d tests, %d failures, %d errors, %d cases", name, s.Tests, s.Failures, s.Errors, len(s.Cases))
		}
	}
}

func TestHostileTextStaysText(t *testing.T) {
	const odd = "\"'><failure/>&]]>\x00\x1b\n"
	m, j := manifest(), judgement()
	m.Scenario, m.Versions["odd"], m.Parameters["odd"] = odd, odd, odd
	for i := range j.Objectives {
		j.Objectives[i].Name, j.Objectives[i].Warnings, j.Objectives[i].Unit = odd, []string{odd}, odd
	}
	got := write(t, m, j)
	c := read(t, got).Suites[0]
	failures := 0
	for _, v := range c.Cases {
		if v.Failure != nil {
			failures++
		}
	}
	if failures != 1 || strings.ContainsAny(got, "\x00\x1b") {
		t.Errorf("%d failures, want 1; or control characters came through:\n%s", failures, got)
	}
}
