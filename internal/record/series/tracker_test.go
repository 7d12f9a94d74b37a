package series_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/series"
	"github.com/windtunnel/windtunnel/internal/repotest"
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

// reading is a tracker and every point that it ever told of, as text.
type reading struct {
	t      testing.TB
	format series.Format
	*series.Tracker
	names []string
	delta series.Delta
}

func newReading(t testing.TB, format series.Format, accept func(string) bool) *reading {
	return &reading{t: t, format: format, Tracker: series.NewTracker(accept)}
}

// read reads an exposition and tells the delta, a line each: NAME LABELS VALUE,
// or "gone" and the name and labels.
func (r *reading) read(body []byte) []string {
	r.t.Helper()
	repotest.NoError(r.t, r.Update(r.format, body, &r.delta))
	return r.told()
}

func (r *reading) told() (out []string) {
	for _, p := range r.delta.New {
		r.names = append(r.names, p.Name+fmt.Sprint(p.Labels))
	}
	for _, c := range r.delta.Changed {
		out = append(out, fmt.Sprintf("%s %v", r.names[c.Index], c.Value))
	}
	for _, h := range r.delta.Histograms {
		out = append(out, fmt.Sprintf("%s %+v", r.names[h.Index], *h.Value))
	}
	for _, i := range r.delta.Gone {
		out = append(out, "gone "+r.names[i])
	}
	return out
}

func TestText(t *testing.T) {
	r := newReading(t, series.Text, nil)
	got := strings.Join(r.read([]byte(exposition)), "\n")
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
spaced[{a b}] 5`
	if got != want {
		t.Errorf("points:\n%s\nwant:\n%s", got, want)
	}
	if families := fmt.Sprint(r.delta.Families); families != "[{apiserver_request_total counter [STABLE] Counter of requests.} {lat histogram } {quiet summary } {workqueue_depth gauge }]" {
		t.Errorf("families %s", families)
	}
}

// protobuf puts what a text says into the other format, histograms and all.
func protobuf(t testing.TB, text string) []byte {
	t.Helper()
	p := expfmt.NewTextParser(model.UTF8Validation)
	families := repotest.Must(p.TextToMetricFamilies(strings.NewReader(text)))(t)
	var names []string
	for name := range families {
		names = append(names, name)
	}
	slices.Sort(names)
	var body bytes.Buffer
	for _, name := range names {
		if _, err := protodelim.MarshalTo(&body, families[name]); err != nil {
			t.Fatal(err)
		}
	}
	return body.Bytes()
}

// The two formats give the same points.
func TestProtobufAgreesWithText(t *testing.T) {
	accept := func(name string) bool { return name != "workqueue_depth" && name != "lat_sum" }
	text := strings.ReplaceAll(exposition, " 1700000000000", "")
	got := newReading(t, series.Protobuf, accept).read(protobuf(t, text))
	want := newReading(t, series.Text, accept).read([]byte(text))
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || len(got) != 10 {
		t.Errorf("protobuf:\n%s\ntext:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestFaultyExpositions(t *testing.T) {
	for _, body := range []string{"a{b=\"c\" 5\n", "a five\n", "a{b=\"c\"} 5 6 7\n", "a{b=\"c\"}\n"} {
		err := series.NewTracker(nil).Update(series.Text, []byte(body), &series.Delta{})
		if err == nil || !strings.Contains(err.Error(), "parse metrics") {
			t.Errorf("%q: %v", body, err)
		}
	}
	whole := protobuf(t, "# TYPE a histogram\na_bucket{x=\"1\",le=\"1\"} 5\na_count{x=\"1\"} 5\n")
	for n := 1; n < len(whole); n++ {
		err := series.NewTracker(nil).Update(series.Protobuf, whole[:n], &series.Delta{})
		if err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	if _, err := series.ReadAll(zeros{}, nil, 10_000); !errors.Is(err, series.ErrTooLarge) {
		t.Errorf("an endless exposition: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestFormatOf(t *testing.T) {
	for contentType, want := range map[string]series.Format{
		"": series.Text, "text/plain; version=0.0.4; charset=utf-8": series.Text,
		"application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited; escaping=underscores": series.Protobuf,
	} {
		if got, err := series.FormatOf(contentType); err != nil || got != want {
			t.Errorf("%q: %v, %v", contentType, got, err)
		}
	}
	for _, contentType := range []string{"text/html", "application/vnd.google.protobuf; encoding=text", ";"} {
		if _, err := series.FormatOf(contentType); !errors.Is(err, series.ErrFormat) {
			t.Errorf("%q: %v", contentType, err)
		}
	}
}

// Only what changed is told, in either format, whatever comes, goes and moves.
func TestOnlyWhatChangedIsTold(t *testing.T) {
	notB := func(name string) bool { return name != "b" }
	both := []*reading{newReading(t, series.Text, notB), newReading(t, series.Protobuf, notB)}
	for _, c := range []struct {
		what, body string
		want       []string
	}{
		{"first", "a{x=\"1\"} 1\nb 2\nc NaN\n", []string{"a[{x 1}] 1", "c[] NaN"}},
		{"only b, which is not accepted", "a{x=\"1\"} 1\nb 3\nc NaN\n", nil},
		{"new ones between", "a{x=\"0\"} 3\na{x=\"1\"} 2\na{x=\"2\"} 0\nab 4\nb 3\nc 1\n",
			[]string{"a[{x 1}] 2", "c[] 1", "a[{x 0}] 3", "a[{x 2}] 0", "ab[] 4"}},
		{"the same again", "a{x=\"0\"} 3\na{x=\"1\"} 2\na{x=\"2\"} 0\nab 4\nb 3\nc 1\n", nil},
		{"in another order", "a{x=\"2\"} 0\na{x=\"0\"} 3\na{x=\"1\"} 7\nab 4\nb 3\nc 1\n", []string{"a[{x 1}] 7"}},
		{"one of a family gone", "a{x=\"2\"} 0\na{x=\"1\"} 7\nab 4\nb 3\nc 1\n", []string{"gone a[{x 0}]"}},
		{"a family gone", "a{x=\"2\"} 0\na{x=\"1\"} 7\nb 3\nc 1\n", []string{"gone ab[]"}},
		{"back with the values they had", "a{x=\"2\"} 0\na{x=\"0\"} 3\na{x=\"1\"} 7\nab 4\nb 3\nc 1\n", []string{"a[{x 0}] 3", "ab[] 4"}},
		{"nothing", "", []string{"gone a[{x 0}]", "gone a[{x 1}]", "gone a[{x 2}]", "gone ab[]", "gone c[]"}},
		{"all back", "a{x=\"1\"} 7\nc 1\n", []string{"a[{x 1}] 7", "c[] 1"}},
	} {
		for _, r := range both {
			body := []byte(c.body)
			if r.format == series.Protobuf {
				body = protobuf(t, c.body)
			}
			got := r.read(body)
			slices.Sort(got)
			want := slices.Clone(c.want)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s, format %d: %q, want %q", c.what, r.format, got, want)
			}
		}
	}
}

// A timestamp is no part of what a point is.
func TestTimestamps(t *testing.T) {
	r := newReading(t, series.Text, nil)
	for _, c := range []struct {
		body string
		want []string
	}{
		{"t{x=\"y\"} 1 1700000000000\n", []string{"t[{x y}] 1"}},
		{"t{x=\"y\"} 1 1700000005000\n", nil},
		{"t{x=\"y\"} 2 1700000010000\n", []string{"t[{x y}] 2"}},
	} {
		if got := r.read([]byte(c.body)); !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, want %v", c.body, got, c.want)
		}
	}
}

// What a faulty exposition said is not lost: the next sound one tells it, and
// what was new, and what is gone since the one before.
func TestAfterAFaultEverythingIsTold(t *testing.T) {
	sound, next := "a 1\nb 1\nc{x=\"1\"} 1\n", "a 2\nd 1\nc{x=\"1\"} 1\n"
	want := []string{"a[] 2", "c[{x 1}] 1", "d[] 1", "gone b[]"}
	faulty := map[series.Format][]byte{
		series.Text:     []byte("a 2\nb 2\nd 1\nc{x=\"2\"} 1\nc five\n"),
		series.Protobuf: append(protobuf(t, "a 2\nb 2\nd 1\nc{x=\"2\"} 1\n"), 200),
	}
	for format, bad := range faulty {
		r := newReading(t, format, nil)
		body, after := []byte(sound), []byte(next)
		if format == series.Protobuf {
			body, after = protobuf(t, sound), protobuf(t, next)
		}
		r.read(body)
		if err := r.Update(format, bad, &r.delta); err == nil || len(r.told()) > 0 {
			t.Fatalf("format %d: err %v, told %v", format, err, r.told())
		}
		got := r.read(after)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("format %d: %q, want %q", format, got, want)
		}
		if got := r.read(after); len(got) > 0 {
			t.Errorf("format %d: again %q", format, got)
		}
	}
	r := newReading(t, series.Text, nil)
	r.read([]byte(sound))
	if err := r.Update(series.Protobuf, nil, &r.delta); !errors.Is(err, series.ErrFormat) {
		t.Errorf("another format: %v", err)
	}
}

// observed is a histogram with classic and native buckets, as client_golang
// serves it.
func observed(sum float64, counts ...int64) *dto.Histogram {
	h := &dto.Histogram{
		SampleSum: &sum, SampleCount: proto.Uint64(0), Schema: proto.Int32(3), ZeroThreshold: new(1e-128), ZeroCount: proto.Uint64(1),
		PositiveSpan: []*dto.BucketSpan{{Offset: proto.Int32(-4), Length: proto.Uint32(2)}, {Offset: proto.Int32(3), Length: new(uint32(len(counts) - 2))}},
	}
	*h.SampleCount++
	var last int64
	for _, n := range counts {
		h.PositiveDelta = append(h.PositiveDelta, n-last)
		last = n
		*h.SampleCount += uint64(n)
	}
	h.Bucket = []*dto.Bucket{{UpperBound: proto.Float64(1), CumulativeCount: new(uint64(1 + counts[0] + counts[1]))}}
	return h
}

func histogramBody(t testing.TB, h *dto.Histogram) []byte {
	t.Helper()
	family := &dto.MetricFamily{Name: new("lat"), Type: dto.MetricType_HISTOGRAM.Enum(), Metric: []*dto.Metric{{
		Label: []*dto.LabelPair{{Name: new("verb"), Value: new("GET")}}, Histogram: h}}}
	var b bytes.Buffer
	if _, err := protodelim.MarshalTo(&b, family); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestNativeHistograms(t *testing.T) {
	r := newReading(t, series.Protobuf, nil)
	for _, c := range []struct {
		what string
		h    *dto.Histogram
		want []string
	}{
		{"first", observed(2.5, 1, 0, 2), []string{
			"lat_count[{verb GET}] 4", "lat_sum[{verb GET}] 2.5", "lat_bucket[{le 1} {verb GET}] 2", "lat_bucket[{le +Inf} {verb GET}] 4",
			"lat[{verb GET}] {Schema:3 ZeroThreshold:1e-128 ZeroCount:1 Count:4 Sum:2.5 Positive:[{Index:-4 Count:1} {Index:1 Count:2}] Negative:[]}"}},
		{"unchanged", observed(2.5, 1, 0, 2), nil},
		{"one more bucket", observed(3.5, 1, 0, 2, 7), []string{
			"lat_count[{verb GET}] 11", "lat_sum[{verb GET}] 3.5", "lat_bucket[{le +Inf} {verb GET}] 11",
			"lat[{verb GET}] {Schema:3 ZeroThreshold:1e-128 ZeroCount:1 Count:11 Sum:3.5 Positive:[{Index:-4 Count:1} {Index:1 Count:2} {Index:2 Count:7}] Negative:[]}"}},
	} {
		if got := r.read(histogramBody(t, c.h)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
	if got := r.read(nil); len(got) != 5 {
		t.Errorf("gone: %q", got)
	}
	// Of a resolution that there is not, and of custom buckets, nothing is kept but
	// what is classic: a target must not end the run by what it serves.
	for _, schema := range []int32{9, -5, -53, math.MaxInt32, math.MinInt32} {
		odd := observed(2.5, 1, 0, 2)
		odd.Schema = &schema
		if got := newReading(t, series.Protobuf, nil).read(histogramBody(t, odd)); len(got) != 4 {
			t.Errorf("schema %d: %q", schema, got)
		}
	}
	// A native histogram without values is told from a classic one by its span.
	none := &dto.Histogram{SampleCount: proto.Uint64(0), SampleSum: proto.Float64(0), Schema: proto.Int32(3),
		PositiveSpan: []*dto.BucketSpan{{Offset: proto.Int32(0), Length: proto.Uint32(0)}}}
	if got := newReading(t, series.Protobuf, nil).read(histogramBody(t, none)); len(got) != 3 {
		t.Errorf("an empty one: %q", got)
	}
}

// New bounds of a classic histogram are new points, lost ones are gone.
func TestBoundsMayChange(t *testing.T) {
	r := newReading(t, series.Protobuf, nil)
	h := func(bounds ...float64) []byte {
		out := &dto.Histogram{SampleCount: proto.Uint64(9), SampleSum: proto.Float64(1)}
		for _, b := range bounds {
			out.Bucket = append(out.Bucket, &dto.Bucket{UpperBound: new(b), CumulativeCount: proto.Uint64(3)})
		}
		return histogramBody(t, out)
	}
	r.read(h(1, 2))
	if got := r.read(h(1, 1.5, 2)); !slices.Equal(got, []string{"lat_bucket[{le 1.5} {verb GET}] 3"}) {
		t.Errorf("one more: %q", got)
	}
	if got := r.read(h(1, 1.5)); !slices.Equal(got, []string{"gone lat_bucket[{le 2} {verb GET}]"}) {
		t.Errorf("one less: %q", got)
	}
}

// Whatever the text is, reading it fast gives what Prometheus' own parser gives.
func FuzzTextAgreesWithThePrometheusParser(f *testing.F) {
	f.Add(exposition)
	f.Add("a{b=\"c\"} 3 # {x=\"y\"} 4\n")
	f.Add("{\"a.b\",c=\"d\"} 3\n")
	f.Fuzz(func(t *testing.T, text string) {
		tr := series.NewTracker(nil)
		var d series.Delta
		if err := tr.Update(series.Text, []byte(text), &d); err != nil {
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
		for _, c := range d.Changed {
			p := d.New[c.Index]
			k := p.Name + fmt.Sprint(p.Labels)
			if !slices.ContainsFunc(want[k], func(v float64) bool { return v == c.Value || math.IsNaN(v) && math.IsNaN(c.Value) }) {
				t.Fatalf("%q gave %s %v, Prometheus' parser %v", text, k, c.Value, want)
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

// Whatever the bytes are, reading them fast gives what the generated code gives.
func FuzzProtobufAgreesWithTheGeneratedCode(f *testing.F) {
	f.Add(protobuf(f, strings.ReplaceAll(exposition, " 1700000000000", "")))
	f.Add(histogramBody(f, observed(2.5, 1, 0, 2)))
	f.Fuzz(func(t *testing.T, body []byte) {
		var d series.Delta
		if err := series.NewTracker(nil).Update(series.Protobuf, body, &d); err != nil {
			return
		}
		want := map[string][]float64{}
		in := bytes.NewReader(body)
		for in.Len() > 0 {
			var family dto.MetricFamily
			if err := (protodelim.UnmarshalOptions{MaxSize: 1 << 20}).UnmarshalFrom(in, &family); err != nil {
				return // what is not looked at may be damaged
			}
			samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, &family)
			if err != nil || !consistent(&family) {
				return
			}
			for _, s := range samples {
				want[string(s.Metric["__name__"])] = append(want[string(s.Metric["__name__"])], float64(s.Value))
			}
		}
		for _, c := range d.Changed {
			p := d.New[c.Index]
			if w, known := want[p.Name]; known && !slices.ContainsFunc(w, func(v float64) bool { return v == c.Value || math.IsNaN(v) && math.IsNaN(c.Value) }) {
				t.Fatalf("%x gave %v %v, the generated code %v", body, p, c.Value, want)
			}
		}
	})
}

// consistent says whether each metric has the value of its family's type, and
// no other, and whether every field is of the type that it should be.
func consistent(family *dto.MetricFamily) bool {
	raw, err := proto.Marshal(family)
	known := &dto.MetricFamily{}
	if err != nil || (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, known) != nil || !proto.Equal(family, known) {
		return false
	}
	for _, m := range family.Metric {
		has := map[dto.MetricType]bool{
			dto.MetricType_COUNTER: m.Counter != nil, dto.MetricType_GAUGE: m.Gauge != nil, dto.MetricType_SUMMARY: m.Summary != nil,
			dto.MetricType_UNTYPED: m.Untyped != nil, dto.MetricType_HISTOGRAM: m.Histogram != nil,
		}
		for kind, there := range has {
			if there != (kind == family.GetType()) {
				return false
			}
		}
	}
	return true
}

func ExampleTracker() {
	t := series.NewTracker(func(name string) bool { return name == "workqueue_depth" })
	var d series.Delta
	for _, body := range []string{
		"workqueue_depth{name=\"job\"} 3\ngo_goroutines 90\n",
		"workqueue_depth{name=\"job\"} 3\ngo_goroutines 95\n",
		"workqueue_depth{name=\"job\"} 0\ngo_goroutines 91\n",
	} {
		if err := t.Update(series.Text, []byte(body), &d); err != nil {
			fmt.Println(err)
		}
		fmt.Println(d.Changed)
	}
	// Output:
	// [{0 3}]
	// []
	// [{0 0}]
}
