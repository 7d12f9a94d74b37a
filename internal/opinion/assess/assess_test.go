package assess_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/assess"
	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/diagnose"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func values() map[string]any {
	return map[string]any{"objects": int64(100), "bytes": int64(10), "rate": 20.0, "workers": int64(4), "qps": -1.0, "restart": false}
}

func grows(name, value string) bool { return name == "objects" && value == "200" }

// The plan names the runs: those of each size, and of each other parameter at the largest size.
func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name  string
		asked assess.Asked
		grows func(name, value string) bool
		want  string // arms; of an error a part
	}{
		{"found by names and effect", nil, grows, "[objects=25 objects=50 objects=100 workers=1 workers=16 restart=true]"},
		{"values of the user", assess.Asked{assess.Size: "objects=200,50", assess.Rate: "rate=20", assess.Workers: "workers=4,1", assess.Limiter: "qps=5,-1"}, nil,
			"[objects=50 objects=200 workers=1 qps=5 restart=true]"},
		{"another size", assess.Asked{assess.Size: "bytes", assess.Rate: "rate=20", assess.Workers: "workers=4", assess.Restart: "restart=true"}, nil, "[bytes=3 bytes=5 bytes=10]"},
		{"two sizes", nil, func(name, _ string) bool { return name == "objects" || name == "bytes" }, "bytes, objects; name the size with --size-param"},
		{"no size", nil, func(string, string) bool { return false }, "objects: none; name the size"},
		{"one size", assess.Asked{assess.Size: "objects=5"}, nil, "at least two values"},
		{"no such parameter", assess.Asked{assess.Workers: "worker=1,2"}, grows, `--workers-param worker: the scenario has no such parameter (did you mean "workers"?)`},
		{"no number", assess.Asked{assess.Size: "objects=many,2"}, nil, "want numbers above 0"},
		{"twice", assess.Asked{assess.Size: "objects=2,2"}, nil, "want different values"},
		{"a comma too many", assess.Asked{assess.Limiter: "qps=2,"}, grows, "want different values"},
	} {
		p, err := assess.NewPlan(values(), c.asked, 2, c.grows)
		var arms []string
		for _, a := range p.Arms {
			arms = append(arms, a.Name)
		}
		got := fmt.Sprint(arms)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) || (err != nil) != !strings.HasPrefix(c.want, "[") || err != nil && !errors.Is(err, assess.ErrPlan) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Arms take turns forwards and backwards, and stay at the largest size.
func TestTurns(t *testing.T) {
	p, err := assess.NewPlan(values(), assess.Asked{assess.Size: "objects=1,9", assess.Rate: "rate=1", assess.Workers: "workers=4,2", assess.Restart: "restart=false"}, 2, nil)
	repotest.NoError(t, err)
	if got := fmt.Sprint(p.Turns(), p.Arms[2].Set, p.Runs()); got != "[[0 0] [1 0] [2 0] [2 1] [1 1] [0 1]] map[objects:9 workers:2] 6" {
		t.Error(got)
	}
}

// made makes up a run of an operator: its requests and objects follow the size, its latency
// the number of workers; the largest size fails.
func made(p assess.Plan, arm, repeat int) assess.Observation {
	set := p.Arms[arm].Set
	of := func(name string) (v float64) {
		if _, err := fmt.Sscan(set[name], &v); err != nil {
			panic(err)
		}
		return v
	}
	n, noise := of("objects"), 1+0.01*float64(repeat)
	ready, memory, sent, verdict := 0.1*n/of("workers")*noise, (30e6+50e3*n)*noise, 5*n, slo.Pass
	if set["restart"] == "true" {
		memory, sent = memory*1.5, sent+3*n
	}
	var findings []diagnose.Finding
	result := slo.Result{Name: "ready", SLI: "lifecycle", Statistic: "p99", Value: &ready, Unit: "seconds", Threshold: 4, Verdict: slo.Pass}
	if ready > result.Threshold {
		verdict, result.Verdict = slo.Fail, slo.Fail
		findings = []diagnose.Finding{{Cause: diagnose.WorkQueue, Sentence: "Work queue of operator: 40 items waiting on average."}}
	}
	asked := of("rate")
	parameters := map[string]any{}
	for name := range set {
		parameters[name] = set[name]
	}
	return assess.Observation{
		Arm: arm, Requests: map[string]float64{"operator: PUT": sent, "kube-scheduler: POST": n}, Webhooks: assess.Webhooks{Writes: n},
		Run: compare.Run{
			Manifest: record.Manifest{Parameters: parameters}, Findings: findings,
			Facts: &compare.Facts{Ended: record.Event{Detail: record.Detail{Reason: record.Done}}, Counters: []compare.Count{
				{Name: "created: pods", Unit: "objects", Value: n}, {Name: "server: PUT widgets.example.com/status", Unit: "requests/pod", Value: sent / n}, {Name: "server: LIST widgets.example.com", Unit: "requests/pod", Value: 2 / n},
				{Name: "etcd: create widgets", Unit: "requests/pod", Value: 1}, {Name: "log written: etcd", Unit: "bytes/pod", Value: 3000 * noise},
			}},
			Judgement: slo.Judgement{Verdict: verdict, Objectives: []slo.Result{result}, Rates: []run.Rate{{Name: "objects ready of fill", Unit: "objects/s", Asked: asked, Achieved: min(asked, 35*noise)}},
				Measures: slo.Measures{"peak_rss_bytes_operator": {Value: memory, Unit: "bytes"}, "cpu_seconds_operator": {Value: 0.01 * n * noise, Unit: "seconds"}}},
		},
	}
}

// The search for the sustained rate goes where the runs lead it, and finds what a program
// sustains: fewer runs than a ladder that is as fine.
func TestNextRate(t *testing.T) {
	for _, c := range []struct {
		name, flown, says string
		sustains          float64
		unknown           bool
	}{
		{name: "within", sustains: 35, flown: "20 40 80 25.2 31.75", says: "at most 35"},
		{name: "below the scenario's own", sustains: 12, flown: "20 40 12.6 15.87", says: "at most 12"},
		{name: "below all", sustains: 1, flown: "20 40 12.6 10", says: "at most 1 "},
		{name: "above all", sustains: 1e6, flown: "20 40 80 160 320 640", says: "no knee among these rates"},
		{name: "no verdict", sustains: 35, unknown: true, flown: "20", says: "two are needed"},
	} {
		p, err := assess.NewPlan(values(), assess.Asked{assess.Size: "objects=50,100", assess.Workers: "workers=4,1", assess.Limiter: "qps=-1", assess.Restart: "restart=false"}, 2, nil)
		repotest.NoError(t, err)
		var all []assess.Observation
		fly := func(arm, repeat int) {
			o := made(p, arm, repeat)
			for i := range o.Run.Judgement.Rates {
				r := &o.Run.Judgement.Rates[i]
				r.Achieved = min(r.Asked, c.sustains*(1+0.01*float64(repeat)))
			}
			if c.unknown {
				o.Run.Judgement.Verdict = slo.Unknown
			}
			all = append(all, o)
		}
		for _, turn := range p.Turns() {
			fly(turn[0], turn[1])
		}
		flown := []string{p.Arms[1].Set["rate"]}
		for arm, ok := p.NextRate(all); ok && len(flown) < 20; arm, ok = p.NextRate(all) {
			flown = append(flown, p.Arms[arm].Set["rate"])
			fly(arm, 0)
			fly(arm, 1)
		}
		says := ""
		for _, a := range assess.Answers(p, assess.Subject{Programs: []string{"operator"}}, all) {
			if a.About == string(assess.Rate) {
				says = strings.Join(a.Sentences, " ")
			}
		}
		if got := strings.Join(flown, " "); got != c.flown || !strings.Contains(says, c.says) {
			t.Errorf("%s: flown %s, want %s; %s", c.name, got, c.flown, says)
		}
		if s, _ := p.Sweep(assess.Rate); len(s.Values) != len(flown) || !slices.IsSortedFunc(s.Values, func(a, b string) int { return cmp.Compare(numberOf(a), numberOf(b)) }) {
			t.Errorf("%s: %v", c.name, s.Values)
		}
	}
}

func numberOf(s string) (v float64) {
	_, _ = fmt.Sscan(s, &v)
	return v
}

// Parameters that are texts have values of their own.
func TestTexts(t *testing.T) {
	all := values()
	all["limiter"], all["resync"], all["threads"] = "5/10", "30s", int64(10)
	delete(all, "qps")
	delete(all, "workers")
	p := repotest.Must(assess.NewPlan(all, nil, 2, grows))(t)
	got := ""
	for _, topic := range []assess.Topic{assess.Workers, assess.Limiter, assess.Resync} {
		s, _ := p.Sweep(topic)
		got += fmt.Sprint(s.Param, s.Values, " ")
	}
	if want := "threads[3 10 40] limiter[1.25/3 5/10 20/40] resync[30s 1m0s] "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func madeAll(t *testing.T) (assess.Plan, []assess.Observation) {
	t.Helper()
	p, err := assess.NewPlan(values(), assess.Asked{assess.Size: "objects=50,100,200", assess.Rate: "rate=10,20,40,80,160", assess.Limiter: "qps=-1"}, 2, nil)
	repotest.NoError(t, err)
	var all []assess.Observation
	for _, turn := range p.Turns() {
		all = append(all, made(p, turn[0], turn[1]))
	}
	return p, all
}

func TestGoldenPages(t *testing.T) {
	p, all := madeAll(t)
	s := assess.Subject{Programs: []string{"operator"}, Seed: 1}
	for _, kind := range []assess.Kind{assess.Operator, assess.Release} {
		f := assess.File{Format: assess.Format, Kind: kind, Scenario: "made-up", Set: map[string]string{}, Subject: s, Machine: record.Machine{Cores: 2, CPU: "a CPU"},
			Versions: map[string]string{"kubernetes": "v1.37.1"}, Plan: p, Finished: len(all), LeftOut: []string{}, Level: "Level: measured.", Answers: assess.Answers(p, s, all), Claims: assess.Claims(p, s, all)}
		var page bytes.Buffer
		repotest.NoError(t, f.Write(&page, true))
		repotest.Golden(t, filepath.Join("testdata", string(kind)+".md"), page.Bytes())
	}
	repotest.Golden(t, filepath.Join("testdata", "claims.yaml"), assess.ClaimsFile(assess.Claims(p, s, all)))
}

// What was not measured has a reason and no figure.
func TestWhatWasNotMeasured(t *testing.T) {
	p, all := madeAll(t)
	s := assess.Subject{Programs: []string{"operator"}}
	ended := func(o assess.Observation) assess.Observation {
		o.Run.Facts = &compare.Facts{}
		return o
	}
	for _, c := range []struct {
		name, about string
		change      func(o assess.Observation) (assess.Observation, bool)
		want        string
	}{
		{"no parameter", "limiter", nil, "name the scenario's parameter with --limiter-param"},
		{"one size finished", "memory", func(o assess.Observation) (assess.Observation, bool) { return ended(o), o.Arm != 2 }, "2 runs of 1 size finished"},
		{"no memory recorded", "memory", func(o assess.Observation) (assess.Observation, bool) {
			o.Run.Judgement.Measures = nil
			return o, true
		}, "No such figure was recorded"},
		{"no counters", "requests", func(o assess.Observation) (assess.Observation, bool) {
			o.Run.Facts, o.Requests = &compare.Facts{Ended: o.Run.Facts.Ended}, nil
			return o, true
		}, "No such figure was recorded"},
		{"restart ended early", "restart", func(o assess.Observation) (assess.Observation, bool) {
			return ended(o), p.Arms[o.Arm].Set["restart"] == "true"
		}, "1 value of restart finished"},
		{"no rates", "rate", func(o assess.Observation) (assess.Observation, bool) {
			o.Run.Judgement.Rates = nil
			return o, true
		}, "0 values of rate have runs with a verdict and a rate"},
		{"rates without a verdict", "rate", func(o assess.Observation) (assess.Observation, bool) {
			o.Run.Judgement.Verdict = slo.Unknown
			o.Run.Judgement.Reasons = []string{"late."}
			return o, true
		}, "Of rate=160: its verdict is unknown: late."},
		{"no verdict", "limits", func(o assess.Observation) (assess.Observation, bool) {
			o.Run.Judgement.Verdict = slo.Unknown
			o.Run.Judgement.Reasons = []string{"noisy."}
			return o, true
		}, "At objects=50 it cannot be told: its verdict is unknown: noisy."},
		{"no request durations", "webhook", func(o assess.Observation) (assess.Observation, bool) {
			o.Webhooks = assess.Webhooks{}
			return o, true
		}, "were not recorded"},
	} {
		var of []assess.Observation
		for _, o := range all {
			if c.change != nil {
				if changed, yes := c.change(o); yes {
					o = changed
				}
			}
			of = append(of, o)
		}
		for _, a := range assess.Answers(p, s, of) {
			if text := strings.Join(a.Sentences, " "); a.About == c.about && (a.Measured || !strings.Contains(text, c.want) || len(a.Lines) > 0) {
				t.Errorf("%s: measured %t: %s, want %s", c.name, a.Measured, text, c.want)
			}
		}
	}
}

// A change that is shown is claimed with its interval, rounded outwards.
func TestChangeClaims(t *testing.T) {
	c := &compare.Comparison{Measures: []compare.Measure{
		{Key: "cpu_seconds_operator", Title: "CPU of operator", Outcome: compare.Worse, Interval: &[2]float64{1.10004, 1.20006}},
		{Key: "peak_rss_bytes_operator", Title: "memory", Outcome: compare.Inconclusive, Interval: &[2]float64{0.9, 1.1}},
	}}
	c.A.Name, c.B.Name = "off", "on"
	got := assess.ChangeClaims(c)
	if len(got) != 1 || got[0].Min != "0.1" || got[0].Max != "0.2001" || got[0].Says != "CPU of operator changes by 10 % to 20 % from off to on" {
		t.Errorf("%+v", got)
	}
}

func TestNoise(t *testing.T) {
	_, all := madeAll(t)
	if got := assess.Noise(all); got != "" {
		t.Error(got)
	}
	all[3].Run.Judgement.Measures["host_others_share"] = slo.Measure{Value: 0.5, Unit: "ratio"}
	if got := assess.Noise(all); !strings.HasPrefix(got, "Noisy machine: in 1 of 20 runs") || !strings.Contains(got, "at most 50 %") {
		t.Error(got)
	}
}

func TestLengths(t *testing.T) {
	of := func(seconds ...float64) (out []assess.Observation) {
		for _, v := range seconds {
			out = append(out, assess.Observation{Run: compare.Run{Judgement: slo.Judgement{Measures: slo.Measures{"run_seconds": {Value: v, Unit: "seconds"}}}}})
		}
		return out
	}
	for _, c := range []struct {
		name    string
		off, on []assess.Observation
		want    string
	}{
		{"longer", of(20, 21, 22), of(60, 63, 66), "The runs last 21 s without it and 63 s with it"},
		{"shorter", of(60), of(20), "The runs last 60 s without it and 20 s with it"},
		{"alike", of(20, 21), of(21, 22), ""},
		{"not measured", of(0), of(20), ""},
	} {
		if got := assess.Lengths(c.off, c.on); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
