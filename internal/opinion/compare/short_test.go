package compare_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/diagnose"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// limited makes up n runs of each side; those of B wait in priority and fairness.
func limited(n int) (a, b []compare.Run) {
	a, b = newSource(11, 0.04).sides(n, 1)
	for _, r := range a {
		r.Judgement.Measures["apf_queued_max_requests"] = slo.Measure{Unit: "requests"}
	}
	for i := range a {
		a[i].Findings = []diagnose.Finding{}
	}
	for i := range b {
		m := b[i].Judgement.Measures
		m["apf_wait_p99_seconds"] = slo.Measure{Value: 66 * m["apf_wait_p99_seconds"].Value, Unit: "seconds"}
		m["apf_queued_max_requests"] = slo.Measure{Value: float64(11 + i), Unit: "requests"}
		b[i].Findings = []diagnose.Finding{{Rank: 1, Cause: diagnose.APF, Component: "kube-apiserver", Score: 0.78}}
		b[i].Manifest.Parameters["inflight"] = 3
	}
	for i, r := range slices.Concat(a, b) {
		r.Judgement.Measures["queued"] = slo.Measure{Value: float64(i % n), Unit: "requests", Own: true, Better: "lower"}
	}
	return a, b
}

func compared(t *testing.T, n int, o compare.Options) *compare.Comparison {
	t.Helper()
	a, b := limited(n)
	return repotest.Must(compare.Compare(a, b, o))(t)
}

func measureOf(t *testing.T, c *compare.Comparison, key string) compare.Measure {
	t.Helper()
	i := slices.IndexFunc(c.Measures, func(m compare.Measure) bool { return m.Key == key })
	if i < 0 {
		t.Fatalf("%s is not compared", key)
	}
	return c.Measures[i]
}

// What priority and fairness did is compared although nobody judges it: surely with six runs a side,
// with four where it is asked for by name, and with three it is shown to lie apart.
func TestIndicatorsAreCompared(t *testing.T) {
	for _, v := range []struct {
		runs int
		only []string
		want compare.Outcome
	}{{3, nil, compare.Inconclusive}, {4, []string{"apf"}, compare.Worse}, {6, nil, compare.Worse}} {
		c := compared(t, v.runs, compare.Options{Only: v.only})
		for _, key := range []string{"apf_wait_p99_seconds", "apf_queued_max_requests"} {
			m := measureOf(t, c, key)
			if m.Outcome != v.want || m.Apart != (v.want == compare.Inconclusive) || m.Besides != (v.only == nil) {
				t.Errorf("%d runs, only %v: %s is %s, apart %v, besides %v", v.runs, v.only, key, m.Outcome, m.Apart, m.Besides)
			}
		}
		if v.only != nil && len(c.Measures) != 2 {
			t.Errorf("only %v: %d measures", v.only, len(c.Measures))
		}
	}
}

func TestWarnsOfFewRuns(t *testing.T) {
	few, enough := compared(t, 3, compare.Options{}), compared(t, 4, compare.Options{})
	const want = "3 runs each cannot show any difference: with so few runs, chance alone separates the sides too often (4 each can show one in judged measures and those of --measure, 6 in all)."
	if !slices.Contains(few.Warnings, want) || slices.ContainsFunc(enough.Warnings, func(s string) bool { return strings.Contains(s, "cannot show") }) {
		t.Errorf("3 runs: %q; 4 runs: %q", few.Warnings, enough.Warnings)
	}
}

// The short form stands on one terminal, whatever there is to say.
func TestShortFits(t *testing.T) {
	for _, runs := range []int{1, 3, 6} {
		a, b := limited(runs)
		for i := range b {
			b[i].Judgement.Verdict = slo.Unknown
			b[i].Judgement.Reasons = []string{strings.Repeat("the machine was busy and ", 9)}
			for n := range 12 {
				b[i].Manifest.Parameters[fmt.Sprintf("parameter-%d", n)] = strings.Repeat("x", 60)
			}
			for n := range 40 {
				key := fmt.Sprintf("a_measure_of_the_scenario_with_a_long_name_%d", n)
				a[i].Judgement.Measures[key] = slo.Measure{Value: 1, Unit: "things", Own: true, Better: "lower"}
				b[i].Judgement.Measures[key] = slo.Measure{Value: 12345.678, Unit: "things", Own: true, Better: "lower"}
			}
		}
		c := repotest.Must(compare.Compare(a, b, compare.Options{NameA: strings.Repeat("a", 100)}))(t)
		var out strings.Builder
		repotest.NoError(t, c.Short(&out, "--all shows everything"))
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > 80 {
				t.Errorf("%d characters: %s", n, line)
			}
		}
		if len(lines) > 40 || !strings.Contains(lines[len(lines)-1], "more measures: --all shows everything") {
			t.Errorf("%d runs: %d lines\n%s", runs, len(lines), out.String())
		}
	}
}

func TestShortGolden(t *testing.T) {
	for name, runs := range map[string]int{"short-3.txt": 3, "short-6.txt": 6} {
		var out strings.Builder
		c := compared(t, runs, compare.Options{NameA: "inflight=400", NameB: "inflight=3", Asked: []string{"parameter inflight"}})
		repotest.NoError(t, c.Short(&out, "--all shows everything"))
		repotest.Golden(t, "testdata/"+name, out.String())
	}
}

func TestNamed(t *testing.T) {
	for _, v := range []struct {
		pattern string
		want    bool
	}{
		{"apf", true}, {"APF-wait", true}, {"p99 apf", true}, {"apf_*", true}, {"*wait*", true}, {"wait", true},
		{"wait*", false}, {"queue", false}, {"[", false},
	} {
		if got := compare.Named([]string{v.pattern}, "apf_wait_p99_seconds", "p99 apf wait"); got != v.want {
			t.Errorf("%q: %v", v.pattern, got)
		}
	}
	if !compare.Named([]string{"life_vmi"}, "lifecycle_vmi_created_to_running_p99_seconds", "") {
		t.Error("a former word is not known")
	}
	a, b := limited(3)
	_, err := compare.Compare(a, b, compare.Options{Only: []string{"apff"}})
	if !errors.Is(err, compare.ErrRefused) || !strings.Contains(err.Error(), `--measure apff`) || !strings.Contains(err.Error(), `did you mean "apf"`) {
		t.Errorf("a slip: %v", err)
	}
}

// An objective is compared, once where it is a measure, too; a gate counts it,
// but not what nobody judges.
func TestObjectivesAreCompared(t *testing.T) {
	a, b := newSource(12, 0.01).sides(6, 1)
	for i, r := range slices.Concat(a, b) {
		p99, lost := r.Judgement.Measures["pod_startup_p99_seconds"].Value, float64(i/6*100+i%3)
		all := []slo.Result{{Name: "pod startup", SLI: "pod-startup", Statistic: "p99", Value: &p99, Unit: "seconds"}, {Name: "lost", SLI: "promql", Statistic: "value", Value: &lost, Unit: "things"}}
		for _, verb := range []string{"PATCH", "POST"} {
			all = append(all, slo.Result{Name: "mutating calls", Labels: map[string]string{"verb": verb}, Statistic: "p99", Value: &lost, Unit: "seconds"})
		}
		if i < 6 {
			a[i].Judgement.Objectives = all
		} else {
			b[i-6].Judgement.Objectives = all
		}
	}
	c := repotest.Must(compare.Compare(a, b, compare.Options{FailAbove: 0.2}))(t)
	if m := measureOf(t, c, "pod_startup_p99_seconds"); !m.Own || m.Besides {
		t.Errorf("%+v", m)
	}
	if m := measureOf(t, c, "objective_value_of_lost"); !m.Own || m.Besides || m.Outcome != compare.Worse {
		t.Errorf("%+v", m)
	}
	if m := measureOf(t, c, "objective_p99_of_mutating_calls__patch_"); !m.Besides {
		t.Errorf("%+v", m)
	}
	if c.Gate.Verdict != slo.Fail && c.Gate.Verdict != slo.Unknown || slices.ContainsFunc(c.Gate.Failed, func(key string) bool { return strings.Contains(key, "mutating") }) {
		t.Errorf("%+v", c.Gate)
	}
}

// far makes up n runs of each side whose pods per second are five times those of A, beside
// many latencies of one long name that differ in its middle.
func far(t *testing.T, n int) *compare.Comparison {
	t.Helper()
	a, b := newSource(5, 0.04).sides(n, 1)
	for i, r := range slices.Concat(a, b) {
		rate, slow := 19.4, 0.1
		if i >= n {
			rate, slow = 99.4, 1.3
		}
		r.Judgement.Measures["pods_running_per_second"] = slo.Measure{Value: rate + float64(i%n), Unit: "pods/s"}
		r.Judgement.Measures["scheduling_rate_rate_pods_per_second"] = slo.Measure{Value: rate, Unit: "pods/s"}
		for k, resource := range []string{"deployments.apps", "pods", "replicasets.apps", "configmaps", "nodes/status", "leases.coordination.k8s.io", "events", "namespaces"} {
			r.Judgement.Measures["call_latency_p99_seconds_mutating-calls-of-"+resource+"-in-one-namespace"] = slo.Measure{Value: slow + float64(i%n+5*k)/1000, Unit: "seconds"}
		}
	}
	return repotest.Must(compare.Compare(a, b, compare.Options{NameA: "rate=20", NameB: "rate=100"}))(t)
}

// The terminal has the answer before anything else, and every title in full.
func TestShortAnswersFirst(t *testing.T) {
	b := &strings.Builder{}
	repotest.NoError(t, far(t, 3).Short(b, "--all shows everything"))
	repotest.Golden(t, "testdata/short-far.txt", b.String())
	lines := strings.Split(b.String(), "\n")
	if !strings.HasPrefix(lines[4], "pods running per second: 20.4 pods/s in A, 100 pods/s in B, ×4.9 (better?)") {
		t.Errorf("the answer is not first: %q", lines[4])
	}
	for _, line := range lines[4:] {
		if strings.Contains(line, "…") || utf8.RuneCountInString(line) > 80 {
			t.Errorf("line %q", line)
		}
	}
}

// A row's change is that of its medians, whatever single runs do.
func TestChangeIsThatOfMedians(t *testing.T) {
	a, b := newSource(5, 0.04).sides(5, 1)
	for i, v := range []float64{1, 1.1, 2.44, 2.5, 2.6} {
		a[i].Judgement.Measures["call_latency_p99_seconds"] = slo.Measure{Value: v, Unit: "seconds"}
	}
	for i, v := range []float64{2.1, 2.2, 2.24, 2.9, 3.2} {
		b[i].Judgement.Measures["call_latency_p99_seconds"] = slo.Measure{Value: v, Unit: "seconds"}
	}
	c := repotest.Must(compare.Compare(a, b, compare.Options{}))(t)
	m := measureOf(t, c, "call_latency_p99_seconds")
	if m.Ratio == nil || *m.Ratio != m.B.Median/m.A.Median {
		t.Errorf("A %v, B %v, ratio %v", m.A.Median, m.B.Median, *m.Ratio)
	}
	if m.Interval == nil || m.Interval[0] > *m.Ratio || m.Interval[1] < *m.Ratio {
		t.Errorf("interval %v does not contain the ratio %v", m.Interval, *m.Ratio)
	}
}

// A terminal shows the first published figures, and counts the others.
func TestShortShowsPublishedFigures(t *testing.T) {
	var out strings.Builder
	repotest.NoError(t, example(t).Short(&out, "--all shows them"))
	for _, want := range []string{"\np99 pod startup: published 900 ms in A; here 634 ms in A.\n", "\np99 pod startup: published -50 %; here -33 % (-38 % to -21 %).\n", "\n1 more published figure.\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the terminal lacks %q:\n%s", want, &out)
		}
	}
	if n := strings.Count(out.String(), "\n"); n > 40 {
		t.Errorf("%d lines", n)
	}
}
