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
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// oracle judges a point; n is how many runs there were before.
type oracle func(point []float64, n int) slo.Verdict

func below(edge float64) oracle {
	return func(p []float64, _ int) slo.Verdict {
		if p[0] <= edge {
			return slo.Pass
		}
		return slo.Fail
	}
}

// under passes while x*y stays under an area.
func under(area float64) oracle {
	return func(p []float64, _ int) slo.Verdict {
		if p[0]*p[1] <= area {
			return slo.Pass
		}
		return slo.Fail
	}
}

// unsure is unknown above a load.
func unsure(inner oracle, above float64) oracle {
	return func(p []float64, n int) slo.Verdict {
		if p[0] > above {
			return slo.Unknown
		}
		return inner(p, n)
	}
}

// scripted gives these verdicts to the first runs.
func scripted(first string, then oracle) oracle {
	return func(p []float64, n int) slo.Verdict {
		if n < len(first) {
			return map[byte]slo.Verdict{'p': slo.Pass, 'f': slo.Fail, 'u': slo.Unknown}[first[n]]
		}
		return then(p, n)
	}
}

// fly runs a search to its end; its value is latency that grows with the load.
func fly(p capacity.Plan, o oracle) (runs []capacity.Run, last capacity.Step, trace string) {
	var out strings.Builder
	for {
		step := capacity.Next(p, runs)
		if step.Point == nil || len(runs) > 500 {
			fmt.Fprintf(&out, "end: %s\n", step.Why)
			return runs, step, out.String()
		}
		v := o(step.Point, len(runs))
		fmt.Fprintf(&out, "%s (run %d): %s\n", step.Why, step.Repeat+1, v)
		value := math.Exp(step.Point[0] / 2000)
		verdict := slo.Pass
		if v == slo.Fail {
			verdict = slo.Fail
		}
		reason := ""
		if v == slo.Unknown {
			reason = "windtunnel could not keep its own pace."
		}
		runs = append(runs, capacity.Run{Point: step.Point, Verdict: v, Reason: reason, Seconds: 10, Objectives: []capacity.Objective{
			{Name: "p99 of pod startup", Value: &value, Unit: "seconds", Threshold: 6.2, Verdict: verdict},
			{Name: "p99 of calls", Value: &value, Unit: "seconds", Threshold: 1000, Verdict: slo.Pass},
		}})
	}
}

func one(text string, o ...func(*capacity.Plan)) capacity.Plan {
	a, err := capacity.ParseAxis(text)
	if err != nil {
		panic(err)
	}
	a.Whole = true
	p := capacity.Plan{Axes: []capacity.Axis{a}, Resolution: 0.05, Repeats: 3, Columns: 5}
	for _, change := range o {
		change(&p)
	}
	return p
}

func two(x, y string) capacity.Plan {
	p := one(x)
	p.Axes = append(p.Axes, one(y).Axes[0])
	p.Resolution, p.Repeats, p.Columns = 0.1, 2, 4
	return p
}

// Each trace says what is flown, in order, and what comes out.
func TestTraces(t *testing.T) {
	for name, c := range map[string]struct {
		plan   capacity.Plan
		oracle oracle
	}{
		"linear":       {one("pods=1000..5000"), below(3700)},
		"log":          {one("pods=100..50000:log"), below(3700)},
		"all-pass":     {one("pods=1000..5000"), below(9000)},
		"none-passes":  {one("pods=1000..5000"), below(10)},
		"unknown-high": {one("pods=1000..5000"), unsure(below(9000), 3300)},
		"false-fail":   {one("pods=1000..5000"), scripted("pf", below(3700))},
		"false-pass":   {one("pods=1000..5000"), scripted("pppp", below(3700))},
		"one-unknown":  {one("pods=1000..5000"), scripted("pu", below(3700))},
		"runs-spent":   {one("pods=1000..5000", func(p *capacity.Plan) { p.MaxRuns = 4 }), below(3700)},
		"time-spent":   {one("pods=1000..5000", func(p *capacity.Plan) { p.Seconds = 35 }), below(3700)},
		"two":          {two("nodes=10..110", "pods=10..110"), under(3000)},
		"two-ends":     {two("nodes=10..110", "pods=40..140"), under(3000)},
		"two-all":      {two("nodes=10..110", "pods=10..110"), under(1e9)},
		"two-none":     {two("nodes=10..110", "pods=10..110"), under(1)},
	} {
		t.Run(name, func(t *testing.T) {
			runs, _, trace := fly(c.plan, c.oracle)
			r := capacity.Conclude(c.plan, runs)
			got := trace + fmt.Sprintf("\n%d runs, verdict %s\n%s\n%s", len(runs), r.Verdict, r.Sentence, strings.Join(append([]string{""}, r.Warnings...), "\n! "))
			path := filepath.Join("testdata", name+".trace")
			repotest.Golden(t, path, got)
		})
	}
}

// A sharp edge is found wherever it lies, between neighbouring values, each
// flown as often as asked, with few runs.
func TestSharpEdgesAreFound(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		text := "x=100..20000"
		if r.IntN(2) == 0 {
			text += ":log"
		}
		p := one(text)
		at := 100 + r.Float64()*19900
		runs, _, _ := fly(p, below(at))
		got := capacity.Conclude(p, runs)
		e := got.Edges[0]
		if got.Verdict != slo.Pass || e.Passing.Value > at || e.Failing != nil && e.Failing.Value <= at {
			t.Fatalf("%s, edge at %v: %s %+v", text, at, got.Verdict, e)
		}
		levels := p.Axes[0].Levels(p.Resolution)
		i := slices.Index(levels, e.Passing.Value)
		if e.Failing != nil && (levels[i+1] != e.Failing.Value || e.Failing.Failed != p.Repeats) || e.Passing.Passed != p.Repeats {
			t.Fatalf("%s, edge at %v: %+v and %+v", text, at, e.Passing, e.Failing)
		}
		if most := 20; len(runs) > most {
			t.Errorf("%s, edge at %v: %d runs, at most %d wanted", text, at, len(runs), most)
		}
	}
}

// A blurred edge, which passes with a chance that falls over a tenth of its load,
// is found near where it is one half.
func TestBlurredEdgesAreFound(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	const trials = 300
	near, most := 0, 0
	for range trials {
		at := 500 + 15000*r.Float64()
		p := one("x=100..20000:log", func(p *capacity.Plan) { p.Repeats = 5 })
		runs, last, _ := fly(p, func(point []float64, _ int) slo.Verdict {
			if r.Float64() < 0.03 {
				return slo.Unknown
			}
			if r.Float64() < 1/(1+math.Exp((point[0]-at)/(0.02*at))) {
				return slo.Pass
			}
			return slo.Fail
		})
		if last.Point != nil {
			t.Fatalf("no end after %d runs", len(runs))
		}
		most = max(most, len(runs))
		e := capacity.Conclude(p, runs).Edges[0]
		if e.Passing != nil && math.Abs(math.Log(e.Passing.Value/at)) < 0.1 {
			near++
		}
	}
	t.Logf("%d of %d near, at most %d runs", near, trials, most)
	if near < trials*95/100 || most > 60 {
		t.Errorf("%d of %d near, at most %d runs", near, trials, most)
	}
}

// Every point of the envelope passes and the next one up does not, whatever the
// shape of a frontier that falls.
func TestEnvelopes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for range 100 {
		p := two("a=10..1000:log", "b=10..1000")
		cut, power := 200+r.Float64()*1500, 0.3+2*r.Float64()
		passes := func(point []float64) bool { return math.Pow(point[0], power)+point[1] <= cut }
		runs, last, trace := fly(p, func(point []float64, _ int) slo.Verdict {
			if passes(point) {
				return slo.Pass
			}
			return slo.Fail
		})
		got := capacity.Conclude(p, runs)
		if last.Point != nil || got.Verdict == slo.Unknown {
			t.Fatalf("cut %v power %v: verdict %s\n%s", cut, power, got.Verdict, trace)
		}
		for _, e := range got.Edges {
			point := func(v float64) []float64 {
				if e.Axis == "a" {
					return []float64{v, e.Fixed["b"]}
				}
				return []float64{e.Fixed["a"], v}
			}
			if e.Passing != nil && !passes(point(e.Passing.Value)) || e.Failing != nil && passes(point(e.Failing.Value)) || !e.Done {
				t.Fatalf("cut %v power %v: %+v passing %+v failing %+v\n%s", cut, power, e, e.Passing, e.Failing, trace)
			}
		}
	}
}

// Runs in which nothing could be judged never make an edge.
func TestUnknownIsNeitherPassNorFail(t *testing.T) {
	p := one("pods=1000..5000")
	runs, _, _ := fly(p, func([]float64, int) slo.Verdict { return slo.Unknown })
	got := capacity.Conclude(p, runs)
	if got.Verdict != slo.Unknown || got.Edges[0].Passing != nil || len(runs) != p.Repeats+1 {
		t.Errorf("%d runs: %s, %+v", len(runs), got.Verdict, got.Edges[0])
	}
	if !strings.Contains(got.Sentence, "cannot be told") {
		t.Error(got.Sentence)
	}
	if none := capacity.Conclude(p, nil); none.Verdict != slo.Unknown || none.Limit != nil {
		t.Errorf("no run: %+v", none)
	}
}

func TestLimitAndKnee(t *testing.T) {
	p := one("pods=500..9000")
	runs, _, _ := fly(p, below(3700))
	got := capacity.Conclude(p, runs)
	if got.Limit == nil || got.Limit.Objective != "p99 of pod startup" || got.Limit.Failed != 3 || got.Limit.Of != 3 {
		t.Errorf("limit %+v", got.Limit)
	}
	if got.Knee == nil || got.Knee.X < 1000 || got.Knee.X > 6000 {
		t.Errorf("knee %+v of %+v", got.Knee, got.Limit.Curve)
	}
	open := append(slices.Clone(runs[:2]), capacity.Run{Point: []float64{4050}, Verdict: slo.Unknown, Objectives: runs[len(runs)-1].Objectives})
	if got := capacity.Conclude(p, open); got.Limit == nil || got.Limit.Failed != 0 || strings.Contains(got.Sentence, "gives way") {
		t.Errorf("where nothing is decided: %+v, %s", got.Limit, got.Sentence)
	}
	p = one("pods=500..3000")
	runs, _, _ = fly(p, below(3700))
	if got := capacity.Conclude(p, runs); got.Limit == nil || got.Limit.Objective != "p99 of pod startup" || got.Limit.Failed != 0 {
		t.Errorf("where all passes: %+v", got.Limit)
	}
}

func TestParseAxis(t *testing.T) {
	a, err := capacity.ParseAxis("pods=1e3..50000:log")
	if err != nil || a != (capacity.Axis{Name: "pods", From: 1000, To: 50000, Log: true}) {
		t.Errorf("%+v, %v", a, err)
	}
	for text, want := range map[string]string{
		"pods": "no name", "=1..2": "no name", "pods=1000": "no range", "pods=a..b": "no range", "pods=5..5": "no room",
		"pods=-5..5": "below 0", "pods=0..5:log": "above 0", "pods=1..NaN": "no range", "pods=1..2:lgo": "no range",
	} {
		if _, err := capacity.ParseAxis(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestLevels(t *testing.T) {
	whole := capacity.Axis{Name: "n", From: 1, To: 10, Whole: true}
	if got := fmt.Sprint(whole.Levels(0.01)); got != "[1 2 3 4 5 6 7 8 9 10]" {
		t.Errorf("whole numbers: %s", got)
	}
	log := capacity.Axis{Name: "n", From: 100, To: 10000, Log: true}
	levels := log.Levels(0.25)
	for i := range levels[1:] {
		if f := levels[i+1] / levels[i]; f > 1.2505 || f < 1.1 {
			t.Errorf("%v", levels)
		}
	}
	if levels[0] != 100 || levels[len(levels)-1] != 10000 {
		t.Errorf("ends of %v", levels)
	}
}

func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*capacity.Plan){
		"0 parameters":    func(p *capacity.Plan) { p.Axes = nil },
		"x twice":         func(p *capacity.Plan) { p.Axes = append(p.Axes, p.Axes[0]) },
		"whole number":    func(p *capacity.Plan) { p.Axes[0].From = 1.5 },
		"resolution 0":    func(p *capacity.Plan) { p.Resolution = 0 },
		"0 repeats":       func(p *capacity.Plan) { p.Repeats = 0 },
		"budget below 0":  func(p *capacity.Plan) { p.MaxRuns = -1 },
		"at least 2":      func(p *capacity.Plan) { *p = two("x=1..2", "y=1..2"); p.Columns = 1 },
		"no range from 5": func(p *capacity.Plan) { p.Axes[0].From = 5; p.Axes[0].To = 5 },
	} {
		p := one("x=1..10")
		change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := one("x=1..10").Validate(); err != nil {
		t.Error(err)
	}
}

func TestEnvelopeIsDrawn(t *testing.T) {
	for _, p := range []capacity.Plan{one("pods=1000..5000"), two("nodes=10..110", "pods=10..110")} {
		o := below(3700)
		if len(p.Axes) == 2 {
			o = under(3000)
		}
		runs, _, _ := fly(p, o)
		var out strings.Builder
		repotest.NoError(t, capacity.Envelope("x", p, runs).SVG(&out))
		for _, want := range []string{`var(--pass)`, `var(--fail)`, `class="area"`, p.Axes[0].Name} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %s in the picture", want)
			}
		}
	}
}

func ExampleNext() {
	plan := capacity.Plan{Axes: []capacity.Axis{{Name: "pods", From: 1000, To: 9000, Whole: true}}, Resolution: 0.25, Repeats: 1}
	var runs []capacity.Run
	for {
		step := capacity.Next(plan, runs)
		if step.Point == nil {
			break
		}
		verdict := slo.Pass
		if step.Point[0] > 6000 {
			verdict = slo.Fail
		}
		fmt.Println(step.Why, verdict)
		runs = append(runs, capacity.Run{Point: step.Point, Verdict: verdict})
	}
	fmt.Println(capacity.Conclude(plan, runs).Sentence)
	// Output:
	// pods=1000 the first pass
	// pods=3000 reaching out pass
	// pods=7000 reaching out fail
	// pods=5000 halving pass
	// pods 5,000 passes (1 of 1 runs passed), 7,000 does not (0 of 1 runs passed).
}
