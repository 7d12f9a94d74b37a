package series_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/windtunnel/windtunnel/clock"
	"github.com/windtunnel/windtunnel/record"
	"github.com/windtunnel/windtunnel/series"
)

const exposition = `# HELP apiserver_request_total [STABLE] Counter of requests.
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",verb="GET",resource="pods"} 12
apiserver_request_total{code="201",verb="POST",resource="pods"} 3.5e+03
# TYPE workqueue_depth gauge
workqueue_depth{name="a \"quoted\" } name\\"} 7
# TYPE lat histogram
lat_bucket{le="0.1"} 1
lat_bucket{le="+Inf"} 4
lat_sum 2.5
lat_count 4
# TYPE quiet summary
quiet{quantile="0.5"} NaN
quiet_sum 0
quiet_count 0
go_goroutines 91 1700000000000
spaced   {a="b"}   5
`

func all(string) bool { return true }

func show(points []series.Point) string {
	var b strings.Builder
	for _, p := range points {
		fmt.Fprintf(&b, "%s%v %v\n", p.Name, p.Labels, p.Value)
	}
	return b.String()
}

func TestParseText(t *testing.T) {
	points, err := series.Parse(strings.NewReader(exposition), "text/plain; version=0.0.4; charset=utf-8", all)
	if err != nil {
		t.Fatal(err)
	}
	want := `apiserver_request_total[{code 200} {resource pods} {verb GET}] 12
apiserver_request_total[{code 201} {resource pods} {verb POST}] 3500
workqueue_depth[{name a "quoted" } name\}] 7
lat_bucket[{le 0.1}] 1
lat_bucket[{le +Inf}] 4
lat_sum[] 2.5
lat_count[] 4
quiet[{quantile 0.5}] NaN
quiet_sum[] 0
quiet_count[] 0
go_goroutines[] 91
spaced[{a b}] 5
`
	if got := show(points); got != want {
		t.Errorf("points:\n%swant:\n%s", got, want)
	}
}

// The two formats of one registry give the same points.
func TestParseProtobuf(t *testing.T) {
	text := "# TYPE a counter\na{x=\"1\"} 5\n# TYPE lat histogram\nlat_bucket{le=\"0.1\"} 1\nlat_bucket{le=\"+Inf\"} 4\nlat_sum 2.5\nlat_count 4\n# TYPE z gauge\nz 1\n"
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var body bytes.Buffer
	format := expfmt.NewFormat(expfmt.TypeProtoDelim)
	enc := expfmt.NewEncoder(&body, format)
	for _, name := range []string{"a", "lat", "z"} {
		if err := enc.Encode(families[name]); err != nil {
			t.Fatal(err)
		}
	}
	accept := func(name string) bool { return name != "z" && name != "lat_sum" }
	got, err := series.Parse(&body, string(format), accept)
	if err != nil {
		t.Fatal(err)
	}
	want, err := series.Parse(strings.NewReader(text), "text/plain", accept)
	if err != nil {
		t.Fatal(err)
	}
	order := func(a, b series.Point) int {
		return strings.Compare(a.Name+fmt.Sprint(a.Labels), b.Name+fmt.Sprint(b.Labels))
	}
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if !reflect.DeepEqual(got, want) || len(got) != 4 {
		t.Errorf("protobuf:\n%stext:\n%s", show(got), show(want))
	}
}

func TestFaultyExpositions(t *testing.T) {
	for _, c := range []struct{ body, says string }{
		{"a{b=\"c\" 5\n", "parse metrics"},
		{"a five\n", "parse metrics"},
		{"a{b=\"c\"} 5 6 7\n", "parse metrics"},
		{"a{b=\"c\"}\n", "parse metrics"},
	} {
		_, err := series.Parse(strings.NewReader(c.body), "text/plain", all)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v", c.body, err)
		}
	}
	if _, err := series.ReadAll(zeros{}, nil, 10_000); !errors.Is(err, series.ErrTooLarge) {
		t.Errorf("an endless exposition: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// A tracker tells what changed, and only that.
func TestTracker(t *testing.T) {
	tr := series.NewTracker(func(name string) bool { return name != "b" })
	read := func(body string) (out []string) {
		t.Helper()
		if err := tr.Update([]byte(body), func(i int, v float64) {
			out = append(out, fmt.Sprintf("%d %s=%v", i, tr.Point(i).Name, v))
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, c := range []struct {
		body string
		want []string
	}{
		{"a{x=\"1\"} 1\nb 2\nc NaN\n", []string{"0 a=1", "1 c=NaN"}},
		{"a{x=\"1\"} 1\nb 3\nc NaN\n", nil},
		{"a{x=\"1\"} 2\na{x=\"2\"} 0\nab 4\nb 3\nc 1", []string{"0 a=2", "1 c=1", "2 a=0", "3 ab=4"}},
		{"", nil},
		{"t{x=\"y\"} 1 1700000000000\n", []string{"4 t=1"}}, // with a timestamp
		{"t{x=\"y\"} 1 1700000005000\n", nil},
		{"t{x=\"y\"} 2 1700000010000\n", []string{"4 t=2"}},
	} {
		if got := read(c.body); !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, want %v", c.body, got, c.want)
		}
	}
}

// Whatever the text is, reading it fast gives what Prometheus' own parser gives.
func FuzzTrackerAgreesWithThePrometheusParser(f *testing.F) {
	f.Add(exposition)
	f.Add("a{b=\"c\"} 3 # {x=\"y\"} 4\n")
	f.Add("{\"a.b\",c=\"d\"} 3\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := series.Parse(strings.NewReader(text), "text/plain", all)
		if err != nil {
			return
		}
		p := expfmt.NewTextParser(model.UTF8Validation)
		// Comments may carry types, which change how samples are grouped, not
		// what they are.
		var plain strings.Builder
		for line := range strings.Lines(text) {
			if line = strings.TrimRight(line, "\n"); line != "" && line[0] != '#' {
				plain.WriteString(line + "\n")
			}
		}
		families, err := p.TextToMetricFamilies(strings.NewReader(plain.String()))
		if err != nil {
			t.Fatalf("%q was accepted: %v", text, err)
		}
		want := map[string][]float64{}
		for _, family := range families {
			for _, m := range family.Metric {
				want[key(family.GetName(), m)] = append(want[key(family.GetName(), m)], m.GetUntyped().GetValue())
			}
		}
		for _, g := range got {
			k := g.Name + fmt.Sprint(g.Labels)
			if !slices.ContainsFunc(want[k], func(v float64) bool { return v == g.Value || math.IsNaN(v) && math.IsNaN(g.Value) }) {
				t.Fatalf("%q gave %s %v, Prometheus' parser %v", text, k, g.Value, want)
			}
		}
	})
}

func key(name string, m *dto.Metric) string {
	var labels []record.Label
	for _, l := range m.Label {
		labels = append(labels, record.Label{Name: l.GetName(), Value: l.GetValue()})
	}
	slices.SortFunc(labels, func(a, b record.Label) int { return strings.Compare(a.Name, b.Name) })
	return name + fmt.Sprint(labels)
}

// filled is a store of one counter: scraped at 10, 20 ..., with a sample where
// the value changed.
func filled(samples map[clock.Time]float64, scrapes ...clock.Time) *series.Series {
	s := series.NewStore()
	defined := []record.Series{{Target: "t", Name: "c"}}
	for _, at := range scrapes {
		if v, ok := samples[at]; ok {
			s.Add(defined, record.Sample{Series: 0, At: at, Value: v})
		}
		s.Mark(record.Mark{At: at, Kind: record.MarkScrape, Name: "t"})
	}
	return s.Select("t", "c", nil)[0]
}

func TestIncrease(t *testing.T) {
	for _, c := range []struct {
		name     string
		samples  map[clock.Time]float64
		from, to clock.Time
		want     float64
		known    bool
	}{
		{"between two samples", map[clock.Time]float64{10: 5, 20: 9, 40: 12}, 20, 40, 3, true},
		{"unchanged", map[clock.Time]float64{10: 5}, 20, 40, 0, true},
		{"from between samples", map[clock.Time]float64{10: 5, 20: 9, 40: 12}, 25, 39, 0, true},
		{"there from the first look on", map[clock.Time]float64{10: 5, 40: 12}, 0, 40, 7, true},
		{"new since the first look", map[clock.Time]float64{30: 4, 40: 12}, 0, 40, 12, true},
		{"new within the time", map[clock.Time]float64{30: 4}, 20, 40, 4, true},
		{"a restart", map[clock.Time]float64{10: 5, 20: 9, 30: 2, 40: 3}, 10, 40, 7, true},
		{"nothing yet", map[clock.Time]float64{30: 4}, 0, 20, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := filled(c.samples, 10, 20, 30, 40)
			if got, ok := s.Increase(c.from, c.to); got != c.want || ok != c.known {
				t.Errorf("Increase(%d, %d) = %v, %v, want %v, %v", c.from, c.to, got, ok, c.want, c.known)
			}
		})
	}
}

func TestValuesOverTime(t *testing.T) {
	s := filled(map[clock.Time]float64{10: 5, 20: 9, 40: 2}, 10, 20, 30, 40)
	if _, ok := s.At(9); ok {
		t.Error("a value from before the first sample")
	}
	for at, want := range map[clock.Time]float64{10: 5, 19: 5, 20: 9, 39: 9, 100: 2} {
		if v, ok := s.At(at); !ok || v != want {
			t.Errorf("At(%d) = %v, %v, want %v", at, v, ok, want)
		}
	}
	if v, _ := s.Last(); v != 2 {
		t.Errorf("Last = %v", v)
	}
	if v, _ := s.Max(25, 45); v != 9 {
		t.Errorf("Max(25, 45) = %v: 9 is still in effect at 25", v)
	}
	if v, _ := s.Max(40, 45); v != 2 {
		t.Errorf("Max(40, 45) = %v", v)
	}
}

func TestHistogramsAreAddedUpByLabels(t *testing.T) {
	s := series.NewStore()
	var defined []record.Series
	put := func(at clock.Time, version, verb, le string, v float64) {
		labels := []record.Label{{Name: "le", Value: le}, {Name: "verb", Value: verb}, {Name: "version", Value: version}}
		id := slices.IndexFunc(defined, func(d record.Series) bool { return reflect.DeepEqual(d.Labels, labels) })
		if id < 0 {
			id = len(defined)
			defined = append(defined, record.Series{Target: "t", Name: "lat_bucket", Labels: labels})
		}
		s.Add(defined, record.Sample{Series: record.SeriesID(id), At: at, Value: v})
	}
	for _, version := range []string{"v1", "v2"} {
		for i, le := range []string{"1", "+Inf"} {
			put(10, version, "GET", le, float64(i))
			put(20, version, "GET", le, float64(10*i+5))
			put(20, version, "PUT", le, 0)
		}
	}
	s.Mark(record.Mark{At: 10, Kind: record.MarkScrape, Name: "t"})
	groups, known := s.Histograms(series.HistogramQuery{Target: "t", Family: "lat", By: []string{"verb"}, From: 10, To: 20})
	if !known || len(groups) != 1 {
		t.Fatalf("%d groups, known %v: %+v", len(groups), known, groups)
	}
	g := groups[0]
	if g.Labels[0].Value != "GET" || !slices.Equal(g.UpTo, []float64{1, math.Inf(1)}) || !slices.Equal(g.Counts, []float64{10, 28}) {
		t.Errorf("%+v", g)
	}
	if _, known := s.Histograms(series.HistogramQuery{Target: "t", Family: "none"}); known {
		t.Error("a family without series is known")
	}
}

func ExampleTracker() {
	t := series.NewTracker(func(name string) bool { return name == "workqueue_depth" })
	for _, body := range []string{
		"workqueue_depth{name=\"job\"} 3\ngo_goroutines 90\n",
		"workqueue_depth{name=\"job\"} 3\ngo_goroutines 95\n",
		"workqueue_depth{name=\"job\"} 0\ngo_goroutines 91\n",
	} {
		if err := t.Update([]byte(body), func(i int, v float64) { fmt.Println(t.Point(i).Labels, v) }); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// [{name job}] 3
	// [{name job}] 0
}
