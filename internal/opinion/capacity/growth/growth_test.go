package growth_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/capacity/growth"
	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// made makes up runs of growing size, two of each.
func made() (out []compare.Run) {
	r := rand.New(rand.NewPCG(5, 5))
	noise := func(v float64) float64 { return v * math.Exp(0.02*r.NormFloat64()) }
	for i, pods := range []float64{500, 500, 1000, 1000, 2000, 2000, 4000, 4000, 8000, 8000} {
		measure := func(v float64, unit string) slo.Measure { return slo.Measure{Value: noise(v), Unit: unit} }
		out = append(out, compare.Run{
			Name: fmt.Sprintf("run-%02d", i), Scenario: "scenario: made-up\n",
			Manifest: record.Manifest{Scenario: "made-up", Parameters: map[string]any{"pods": pods, "rate": 10.0},
				Started: time.Date(2026, 1, 2, 3, 4, i, 0, time.UTC), Versions: map[string]string{"kubernetes": "v1.37.1"},
				Machine: record.Machine{Cores: 2}, Fleet: record.FleetFacts{Nodes: 10 * (1 + i/2)}},
			Judgement: slo.Judgement{Verdict: slo.Pass, Measures: map[string]slo.Measure{
				"cpu_seconds_kube_apiserver":      measure(2+0.02*pods, "seconds"),
				"peak_rss_bytes_etcd":             measure(6e7+3000*pods+3*pods*pods, "bytes"),
				"pod_startup_p99_seconds":         measure(0.05, "seconds"),
				"pod_startup_p90_seconds":         measure(0.04, "seconds"),
				"pods_running_per_second":         measure(50, "pods/s"),
				"cpu_seconds_windtunnel":          measure(1, "seconds"),
				"deleting_to_deleted_p99_seconds": {Value: 0, Unit: "seconds"},
			}},
			Facts: &compare.Facts{Ended: record.Event{Detail: record.Detail{Reason: record.Done}}, Counters: []compare.Count{{Name: "created: pods", Unit: "objects", Value: pods}, {Name: "created: deployments.apps", Unit: "objects", Value: pods / 10}}},
		})
	}
	return out
}

func TestGoldenFiles(t *testing.T) {
	runs := made()
	runs = append(runs, compare.Run{Name: "cut", Scenario: runs[0].Scenario, Manifest: runs[0].Manifest, Facts: &compare.Facts{}})
	runs[10].Manifest.Started = time.Time{}
	runs[1].Judgement.Verdict = slo.Unknown
	f := repotest.Must(growth.Fit(runs, growth.Options{Project: []float64{16000, 50000}}))(t)
	for name, write := range map[string]func(io.Writer) error{
		"fits.txt": func(w io.Writer) error { return f.Write(w, false) }, "fits.md": func(w io.Writer) error { return f.Write(w, true) }, "fits.json": f.JSON,
	} {
		var got bytes.Buffer
		repotest.NoError(t, write(&got))
		path := filepath.Join("testdata", name)
		repotest.Golden(t, path, got.Bytes())
	}
	shapes := map[string]string{}
	for _, q := range f.Quantities {
		shapes[q.Key] = q.Shape
		if !strings.Contains(q.Sentence, "projected, not measured") {
			t.Errorf("a projection without its label: %s", q.Sentence)
		}
	}
	for key, want := range map[string]string{"cpu_seconds_kube_apiserver": growth.Linear, "peak_rss_bytes_etcd": growth.Superlinear, "pod_startup_p99_seconds": growth.Constant} {
		if shapes[key] != want {
			t.Errorf("%s is %s, want %s", key, shapes[key], want)
		}
	}
	if len(shapes) != 3 {
		t.Errorf("fitted: %v", shapes)
	}
}

func TestSizes(t *testing.T) {
	for against, want := range map[string]float64{"": 8000, "pods": 8000, "nodes": 50, "objects": 8800, "apps": 800, "deployments.apps": 800, "cpu_seconds_kube_apiserver": 162} {
		f, err := growth.Fit(made(), growth.Options{Against: against, Only: []string{"peak_rss_bytes_etcd"}})
		if err != nil {
			t.Errorf("%s: %v", against, err)
			continue
		}
		if got := f.Sizes[len(f.Sizes)-1]; math.Abs(got-want) > 0.1*want {
			t.Errorf("against %q: %v, want %v", against, got, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r []compare.Run) []compare.Run
		o      growth.Options
		want   string
	}{
		"other scenario": {func(r []compare.Run) []compare.Run { r[3].Manifest.Scenario = "other"; return r }, growth.Options{}, "different scenarios"},
		"other machine":  {func(r []compare.Run) []compare.Run { r[3].Manifest.Machine.Cores = 64; return r }, growth.Options{}, "different machines"},
		"other text":     {func(r []compare.Run) []compare.Run { r[3].Scenario = "other"; return r }, growth.Options{}, "texts of their scenarios differ"},
		"a copy":         {func(r []compare.Run) []compare.Run { return append(r, r[0]) }, growth.Options{}, "they are one run"},
		"too few":        {func(r []compare.Run) []compare.Run { return r[:4] }, growth.Options{}, "4 runs are too few"},
		"cut short": {func(r []compare.Run) []compare.Run {
			r[4].Facts = &compare.Facts{}
			return r[:5]
		}, growth.Options{}, "left out: run-04: its records have no end"},
		"two sizes": {func(r []compare.Run) []compare.Run {
			return append(r[:4:4], func() []compare.Run {
				more := made()[2:4]
				more[0].Name, more[1].Name = "x", "y"
				more[0].Manifest.Started, more[1].Manifest.Started = time.Time{}, time.Time{}
				return more
			}()...)
		}, growth.Options{}, "2 different pods are too few"},
		"no size":       {func(r []compare.Run) []compare.Run { return r }, growth.Options{Against: "gateways"}, `no size "gateways"`},
		"nothing":       {func(r []compare.Run) []compare.Run { return r }, growth.Options{Only: []string{"nothing"}}, "no measure that is asked for"},
		"two vary":      {func(r []compare.Run) []compare.Run { r[0].Manifest.Parameters["rate"] = 20.0; return r }, growth.Options{}, "2 parameters vary (pods, rate)"},
		"no projection": {func(r []compare.Run) []compare.Run { return r }, growth.Options{Project: []float64{-1}}, "no projection to -1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := growth.Fit(c.change(made()), c.o)
			if !errors.Is(err, growth.ErrRefused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	if _, err := growth.Fit(nil, growth.Options{}); !errors.Is(err, growth.ErrRefused) {
		t.Errorf("no run: %v", err)
	}
}

// Where something gives way among the sizes no curve is called by a name, and
// nothing is projected.
func TestNoCurveComesNear(t *testing.T) {
	runs := made()
	for i, latency := range []float64{5.4, 5.2, 4.6, 4.8, 5.2, 5.5, 32, 40, 276, 260} {
		runs[i].Judgement.Measures["pod_startup_p99_seconds"] = slo.Measure{Value: latency / 1000, Unit: "seconds"}
	}
	f := repotest.Must(growth.Fit(runs, growth.Options{Only: []string{"pod_startup_p99"}}))(t)
	q := f.Quantities[0]
	if q.Shape != growth.Unclear || len(q.Projections) != 0 || !strings.Contains(q.Sentence, "no curve comes near") {
		t.Errorf("%s: %s", q.Shape, q.Sentence)
	}
	var out strings.Builder
	if err := f.Write(&out, false); err != nil || !strings.Contains(out.String(), "none within 30 %") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// What else differs than the size is named.
func TestDoubts(t *testing.T) {
	runs := made()
	runs[0].Manifest.Parameters["rate"] = 20.0
	runs[9].Manifest.Versions = map[string]string{"kubernetes": "v1.38.0"}
	f := repotest.Must(growth.Fit(runs, growth.Options{Against: "pods", Project: []float64{1e6}}))(t)
	text := strings.Join(f.Warnings, "\n")
	for _, want := range []string{"Parameter rate is not the same", "version of kubernetes is not the same", "more than 4 times the largest size"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// What every run has hides no slope, and noise is no slope: flatness is asked of the
// growth against the noise. What is called constant is not projected to many times
// as much.
func TestGrowthAgainstNoise(t *testing.T) {
	const MiB = 1 << 20
	for name, c := range map[string]struct {
		sizes, values []float64
		project       float64
		shape         string
		least, most   float64 // of the projection
	}{
		"etcd, growing": {[]float64{2, 5, 10, 15, 20}, []float64{128, 131, 136.5, 141, 146}, 5000, growth.Linear, 2000, 8000},
		"a large base":  {[]float64{2, 5, 10, 15, 20}, []float64{322, 329, 340, 352, 363}, 5000, growth.Linear, 5000, 20000},
		"noise":         {[]float64{2, 5, 10, 15, 20}, []float64{340, 322, 347, 330, 338}, 40, growth.Constant, 330, 345},
		"noise, far":    {[]float64{2, 5, 10, 15, 20}, []float64{340, 322, 347, 330, 338}, 5000, growth.Unclear, 330, 345},
	} {
		runs := made()[:5]
		for i := range runs {
			runs[i].Manifest.Parameters["pods"] = c.sizes[i]
			runs[i].Judgement.Measures["peak_rss_bytes_etcd"] = slo.Measure{Value: c.values[i] * MiB, Unit: "bytes"}
		}
		f := repotest.Must(growth.Fit(runs, growth.Options{Only: []string{"peak_rss_bytes_etcd"}, Project: []float64{c.project}}))(t)
		q := f.Quantities[0]
		p := q.Projections[0]
		if q.Shape != c.shape || p.Value.Value < c.least*MiB || p.Value.Value > c.most*MiB {
			t.Errorf("%s: %s, %s, projected %v", name, q.Shape, q.Sentence, p)
		}
		if q.Shape == growth.Constant && p.Interval[1] > growth.Hidden*p.Value.Value {
			t.Errorf("%s: constant, and projected to %v", name, p)
		}
	}
}
