package capacity_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/capacity"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// plane is a simulated one: what it achieves of a point. A rate asked of 0 is a
// closed loop with as many calls under way as the last value says.
type plane func(point []float64, n int) (asked, achieved float64)

// upTo keeps up with what is asked for, and does no more than a capacity.
func upTo(most float64) plane {
	return func(p []float64, _ int) (float64, float64) {
		asked := p[len(p)-1]
		return asked, min(asked, most)
	}
}

// collapsing does less the more is asked beyond its capacity.
func collapsing(most float64) plane {
	return func(p []float64, _ int) (float64, float64) {
		asked := p[len(p)-1]
		if asked <= most {
			return asked, asked
		}
		return asked, most * math.Sqrt(most/asked)
	}
}

// soft saturates slowly: half of its capacity at half of it.
func soft(most float64) plane {
	return func(p []float64, _ int) (float64, float64) {
		asked := p[len(p)-1]
		return asked, most * (1 - math.Exp(-asked/most))
	}
}

// closed does with n calls under way what Little's law lets it, up to a capacity.
func closed(each, most float64) plane {
	return func(p []float64, _ int) (float64, float64) { return 0, min(each*p[0], most) }
}

// shrinking does less the larger the first value is.
func shrinking(most float64) plane {
	return func(p []float64, n int) (float64, float64) { return upTo(most/p[0])(p, n) }
}

// noisy varies what a plane achieves by a relative standard deviation.
func noisy(inner plane, deviation float64, seed uint64) plane {
	r := rand.New(rand.NewPCG(seed, 1))
	return func(p []float64, n int) (float64, float64) {
		asked, achieved := inner(p, n)
		achieved *= math.Exp(deviation * r.NormFloat64())
		if asked > 0 {
			achieved = min(asked, achieved)
		}
		return asked, achieved
	}
}

// rated makes a run of what a plane does.
func rated(point []float64, v slo.Verdict, asked, achieved float64) capacity.Run {
	r := run.Rate{Name: "pods running of fill", Step: "fill", Unit: "pods/s", Asked: asked, Achieved: achieved}
	if asked == 0 {
		r.Parallel = int(point[len(point)-1])
	}
	calls := run.Rate{Name: "calls of fill", Step: "fill", Unit: "calls/s", Asked: asked / 10, Parallel: r.Parallel, Achieved: asked / 10}
	return capacity.Run{Point: point, Verdict: v, Seconds: 10, Rates: []run.Rate{r, calls}, Bound: "client-throttle (kube-controller-manager)"}
}

// pursue flies a search for the throughput to its end. What is asked beyond a
// value cannot be judged.
func pursue(t *testing.T, p capacity.Plan, of plane, unknownAbove float64) (runs []capacity.Run, trace string) {
	t.Helper()
	p.Goal = capacity.ThroughputGoal
	var out strings.Builder
	for {
		step := capacity.Next(p, runs)
		if step.Point == nil {
			fmt.Fprintf(&out, "end: %s\n", step.Why)
			return runs, out.String()
		}
		if len(runs) > 300 {
			t.Fatalf("no end:\n%s", out.String())
		}
		asked, achieved := of(step.Point, len(runs))
		v := slo.Pass
		if step.Point[len(step.Point)-1] > unknownAbove {
			v = slo.Unknown
		}
		r := rated(step.Point, v, asked, achieved)
		runs = append(runs, r)
		fmt.Fprintf(&out, "%s (run %d): %s\n", step.Why, step.Repeat+1, p.Short(r))
	}
}

func throughputPlan(axes ...string) capacity.Plan {
	p := capacity.Plan{Goal: capacity.ThroughputGoal, Resolution: 0.1, Repeats: 3, Columns: 3}
	for _, text := range axes {
		p.Axes = append(p.Axes, one(text).Axes[0])
	}
	return p
}

// Each trace says what is flown, in order, and what comes out.
func TestThroughputTraces(t *testing.T) {
	for name, c := range map[string]struct {
		plan    capacity.Plan
		of      plane
		unknown float64
	}{
		"plateau":    {throughputPlan("rate=50..400"), upTo(60), math.Inf(1)},
		"follows":    {throughputPlan("rate=50..200"), upTo(1000), math.Inf(1)},
		"at-once":    {throughputPlan("rate=50..400"), upTo(20), math.Inf(1)},
		"at-the-end": {throughputPlan("rate=50..200"), upTo(195), math.Inf(1)},
		"collapse":   {throughputPlan("rate=50..400"), collapsing(60), math.Inf(1)},
		"soft":       {throughputPlan("rate=10..400:log"), soft(60), math.Inf(1)},
		"closed":     {throughputPlan("clients=1..64:log"), closed(10, 85), math.Inf(1)},
		"unjudged":   {throughputPlan("rate=50..400"), upTo(120), 200},
		"columns":    {throughputPlan("nodes=1..5", "rate=10..200"), shrinking(150), math.Inf(1)},
	} {
		t.Run(name, func(t *testing.T) {
			runs, trace := pursue(t, c.plan, c.of, c.unknown)
			r := capacity.Conclude(c.plan, runs)
			got := trace + fmt.Sprintf("\n%d runs, verdict %s\n%s\n%s", len(runs), r.Verdict, r.Sentence, strings.Join(append([]string{""}, r.Warnings...), "\n! "))
			repotest.Golden(t, filepath.Join("testdata", "throughput-"+name+".trace"), got)
		})
	}
}

func TestSustained(t *testing.T) {
	load := func(asked float64, achieved ...float64) capacity.Load {
		return capacity.Load{Value: asked, Asked: asked, Demand: asked, Achieved: achieved}
	}
	pool := func(n float64, achieved ...float64) capacity.Load {
		return capacity.Load{Value: n, Demand: n, Achieved: achieved}
	}
	for _, c := range []struct {
		name     string
		loads    []capacity.Load
		shape    capacity.Shape
		value    float64
		runs     int
		from, to float64
	}{
		{"nothing", nil, capacity.Unmeasured, 0, 0, 0, 0},
		{"none judged", []capacity.Load{load(50)}, capacity.Unmeasured, 0, 0, 0, 0},
		{"keeps up", []capacity.Load{load(50, 50), load(100, 100), load(200, 199)}, capacity.Following, 199, 1, 200, 200},
		{"as was seen", []capacity.Load{load(50, 49), load(100, 62), load(200, 58)}, capacity.Plateau, 60, 2, 100, 200},
		{"one load beyond", []capacity.Load{load(50, 50), load(100, 62)}, capacity.Open, 62, 1, 100, 100},
		{"next to each other", []capacity.Load{load(50, 50), load(100, 62), load(105, 62)}, capacity.Open, 62, 1, 100, 100},
		{"still grows", []capacity.Load{load(50, 50), load(100, 80), load(200, 120)}, capacity.Open, 120, 1, 200, 200},
		{"a little more", []capacity.Load{load(10, 10), load(16.82, 14.9, 14.8), load(20, 15.7), load(80, 16.4)}, capacity.Plateau, 15.45, 4, 16.82, 80},
		{"a fifth more, half of it done", []capacity.Load{load(50, 50), load(100, 90), load(120, 99)}, capacity.Open, 99, 1, 120, 120},
		{"collapses", []capacity.Load{load(50, 50), load(100, 60), load(200, 30)}, capacity.Plateau, 60, 1, 100, 100},
		{"on the way up", []capacity.Load{load(50, 50), load(58, 58), load(100, 60), load(200, 60)}, capacity.Plateau, 60, 2, 100, 200},
		{"a pool", []capacity.Load{pool(1, 10), pool(2, 20), pool(4, 39), pool(8, 40)}, capacity.Plateau, 39.5, 2, 4, 8},
		{"a pool that grows", []capacity.Load{pool(1, 10), pool(2, 20), pool(4, 39)}, capacity.Open, 39, 1, 4, 4},
	} {
		got := capacity.Sustained(c.loads)
		if got.Shape != c.shape || math.Abs(got.Value-c.value) > 1e-9 || got.Runs != c.runs || got.From != c.from || got.To != c.to {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// Whatever the capacity, with noise as runs have it, the estimate is near it, and
// its interval holds it more often than not at the level that it claims, but for
// the choice of loads.
func TestThroughputIsFound(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	held, n := 0, 150
	for i := range n {
		most := 15 + r.Float64()*150
		p := throughputPlan("rate=10..400:log")
		runs, trace := pursue(t, p, noisy(upTo(most), 0.02, uint64(i)), math.Inf(1))
		got := capacity.Conclude(p, runs).Throughputs[0]
		if got.Shape != capacity.Plateau || math.Abs(got.Value/most-1) > 0.06 {
			t.Fatalf("capacity %v: %+v\n%s", most, got, trace)
		}
		if got.Interval != nil && got.Interval[0] <= most && most <= got.Interval[1] {
			held++
		}
		if len(runs) > 20 {
			t.Errorf("capacity %v: %d runs\n%s", most, len(runs), trace)
		}
	}
	t.Logf("%d of %d intervals hold the capacity", held, n)
	if held < n*8/10 {
		t.Errorf("%d of %d intervals hold the capacity", held, n)
	}
}

// A plain search whose passing runs fell short says so where it said that the
// most was asked for.
func TestParted(t *testing.T) {
	p := one("rate=50..200")
	p.Repeats = 1
	run := func(rate, achieved float64) capacity.Run {
		r := rated([]float64{rate}, slo.Pass, rate, achieved)
		r.Objectives = []capacity.Objective{{Name: "mean of pods per second", Unit: "1/s", Threshold: 12.5, AtLeast: true, Rate: "pods running of fill"}}
		return r
	}
	r := capacity.Conclude(p, []capacity.Run{run(50, 49), run(100, 62), run(200, 58)})
	if want := "rate 200 passes (1 of 1 runs passed), but only 58 of the 200 pods/s asked for were achieved."; r.Sentence != want {
		t.Errorf("%s\nwant %s", r.Sentence, want)
	}
	want := "rate=200 passes, but pods running of fill came to 58 of the 200 pods/s asked for (29 %; below 95 % is short): the objective mean of pods per second wants no more than 12.5 pods/s."
	if len(r.Warnings) != 2 || r.Warnings[0] != want || !strings.Contains(r.Warnings[1], "--goal throughput") {
		t.Errorf("%q\nwant %s", r.Warnings, want)
	}
	if r := capacity.Conclude(p, []capacity.Run{run(50, 50), run(100, 100), run(200, 195)}); !strings.Contains(r.Sentence, "the most that was asked for") || len(r.Warnings) != 0 {
		t.Errorf("%s %q", r.Sentence, r.Warnings)
	}
}

// Asked stands beside achieved in each form.
func TestAskedBesideAchieved(t *testing.T) {
	plain, goal := one("rate=50..400"), throughputPlan("rate=50..400")
	runs, _ := pursue(t, goal, upTo(60), math.Inf(1))
	envelope := throughputPlan("nodes=1..5", "rate=10..200")
	many, _ := pursue(t, envelope, shrinking(150), math.Inf(1))
	for name, s := range map[string]capacity.State{
		"envelope": {Scenario: "small", Plan: envelope, Runs: many, Result: capacity.Conclude(envelope, many)},
		"goal":     {Scenario: "small", Plan: goal, Runs: runs, Result: capacity.Conclude(goal, runs)},
		"plain":    {Scenario: "small", Plan: plain, Runs: runs, Result: capacity.Conclude(plain, runs)},
	} {
		var terminal, markdown strings.Builder
		repotest.NoError(t, s.Write(&terminal, false))
		repotest.NoError(t, s.Write(&markdown, true))
		repotest.Golden(t, filepath.Join("testdata", "throughput-"+name+".txt"), terminal.String())
		repotest.Golden(t, filepath.Join("testdata", "throughput-"+name+".md"), markdown.String())
		for line := range strings.SplitSeq(terminal.String(), "\n") {
			if len([]rune(line)) > 80 {
				t.Errorf("%s: %d columns: %s", name, len([]rune(line)), line)
			}
		}
		if !strings.Contains(text(t, s.JSON), `"achieved": 60`) && name != "envelope" {
			t.Errorf("%s: no rate in JSON", name)
		}
	}
}

func TestThroughputIsDrawn(t *testing.T) {
	for name, c := range map[string]struct {
		plan capacity.Plan
		of   plane
		want []string
	}{
		"one": {throughputPlan("rate=50..400"), noisy(upTo(60), 0.02, 1), []string{"the plateau is at", ">asked<", `class="area"`}},
		"two": {throughputPlan("nodes=1..5", "rate=10..200"), noisy(shrinking(150), 0.02, 1), []string{"the line is the throughput", `class="area"`, "polyline"}},
	} {
		runs, _ := pursue(t, c.plan, c.of, math.Inf(1))
		var out strings.Builder
		repotest.NoError(t, capacity.Envelope("x", c.plan, runs).SVG(&out))
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %s in\n%s", name, want, out.String())
			}
		}
	}
}

// The rate is one that the parameter changes, of objects rather than of calls; an
// own one wins.
func TestRateName(t *testing.T) {
	at := func(fill, single float64) capacity.Run {
		r := rated([]float64{fill}, slo.Pass, fill, fill)
		r.Rates = append(r.Rates, run.Rate{Name: "pods running of single", Unit: "pods/s", Asked: single, Achieved: single})
		return r
	}
	p := one("rate=1..9")
	if got := p.RateName([]capacity.Run{at(1, 50), at(2, 50)}); got != "pods running of fill" {
		t.Error(got)
	}
	if got := p.RateName([]capacity.Run{at(1, 50)}); got != "pods running of single" {
		t.Error(got)
	}
	if got := p.RateName(nil); got != "" {
		t.Error(got)
	}
	p.Rate = "calls of fill"
	if got := p.RateName([]capacity.Run{at(1, 50)}); got != p.Rate {
		t.Error(got)
	}
}

// A parameter that asks for nothing has no throughput, which is said.
func TestNothingGrowsWithTheParameter(t *testing.T) {
	p := throughputPlan("nodes=10..40")
	runs, _ := pursue(t, p, func([]float64, int) (float64, float64) { return 50, 50 }, math.Inf(1))
	r := capacity.Conclude(p, runs)
	if !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "grows with nodes") }) {
		t.Errorf("%q", r.Warnings)
	}
}

// Where a declared lifecycle is of no step's group, its calls are no answer: the
// search says what is left out, and why.
func TestCallsAreNoThroughputOfObjects(t *testing.T) {
	p := throughputPlan("rate=5..40:log")
	var runs []capacity.Run
	for _, rate := range []float64{5, 40} {
		runs = append(runs, capacity.Run{Point: []float64{rate}, Verdict: slo.Pass, Seconds: 1,
			Rates: []run.Rate{{Name: "calls of make", Step: "make", Unit: "calls/s", Asked: rate, Achieved: rate, LeftOut: []string{"queue"}}}})
	}
	r := capacity.Conclude(p, runs)
	if r.Verdict != slo.Unknown || r.Rate != "" || !strings.Contains(strings.Join(r.Warnings, " "), "Lifecycle queue is left out") {
		t.Errorf("%s, rate %q: %s; %q", r.Verdict, r.Rate, r.Sentence, r.Warnings)
	}
	p.Rate = "calls of make"
	if r := capacity.Conclude(p, runs); r.Rate != "calls of make" || !strings.Contains(r.Sentence, "40 calls/s") {
		t.Errorf("asked for by name: %s", r.Sentence)
	}
}
