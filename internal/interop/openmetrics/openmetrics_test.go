package openmetrics_test

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

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/interop/openmetrics"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/series"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

var epoch = time.Date(2026, 5, 1, 12, 0, 0, 250_300_000, time.UTC)

// flown makes a run directory with these records.
func flown(t testing.TB, write func(*record.Writer)) record.Dir {
	t.Helper()
	dir := repotest.Must(record.CreateDir(filepath.Join(t.TempDir(), "run")))(t)
	repotest.NoError(t, dir.WriteJSON(record.ManifestFile, record.Manifest{Format: record.Format, Started: epoch}))
	w := repotest.Must(record.Create(dir.File(record.StreamFile)))(t)
	write(w)
	repotest.NoError(t, w.Close())
	return dir
}

func second(s float64) clock.Time { return clock.Time(s * float64(time.Second)) }

// run is a small run with one of everything.
func run(w *record.Writer) {
	for _, f := range []record.Family{
		{Name: "calls_total", Type: "counter", Help: "Calls, \"all\" of them.\nAnd more."},
		{Name: "odd_count", Type: "counter"}, {Name: "depth", Type: "gauge"}, {Name: "lat", Type: "histogram", Help: "Latency."},
		{Name: "pause", Type: "summary"}, {Name: "taken_total", Type: "counter"}, {Name: "taken", Type: "gauge"},
	} {
		w.Family(f)
	}
	define := func(name string, labels ...record.Label) record.SeriesID {
		return w.Define(record.Series{Target: "etcd", Name: name, Labels: labels})
	}
	all := []record.SeriesID{
		define("calls_total", record.Label{Name: "path", Value: "a\\b\"c\nd"}),
		define("odd_count"), define("depth", record.Label{Name: "job", Value: "x"}),
		define("lat_bucket", record.Label{Name: "le", Value: "+Inf"}, record.Label{Name: "verb", Value: "GET"}),
		define("lat_bucket", record.Label{Name: "le", Value: "1"}, record.Label{Name: "verb", Value: "GET"}),
		define("lat_count", record.Label{Name: "verb", Value: "GET"}), define("lat_sum", record.Label{Name: "verb", Value: "GET"}),
		define("pause", record.Label{Name: "quantile", Value: "0.5"}), define("pause_sum"), define("pause_count"),
		define("taken_total"), define("taken"), define("nobody_described"), define("a.b"),
	}
	native := define("lat", record.Label{Name: "verb", Value: "GET"})
	values := []float64{1, 2, 3, 5, 4, 5, 2.5, math.NaN(), 0, 0, 1, 1, math.Inf(1), 1}
	first := record.Scrape{Target: "etcd", At: second(1), Took: 2 * time.Millisecond, Points: 15}
	for i, id := range all {
		first.Values = append(first.Values, record.Value{Series: id, Value: values[i]})
	}
	first.Histograms = []record.HistogramValue{{Series: native, Value: &record.Histogram{Count: 5}}}
	w.Scrape(&first)
	w.Scrape(&record.Scrape{Target: "etcd", At: second(6.001), Took: 3 * time.Millisecond, Points: 14,
		Values: []record.Value{{Series: all[3], Value: 6}, {Series: all[5], Value: 6}, {Series: all[6], Value: 4}}, Gone: []record.SeriesID{all[2]}})
	w.Sample(record.Sample{Series: w.Series(record.Series{Target: "etcd", Name: "process_cpu_seconds_total"}), At: second(2), Value: 0.25})
}

func TestGolden(t *testing.T) {
	var out bytes.Buffer
	written, err := openmetrics.Write(&out, string(flown(t, run)), openmetrics.Options{Extra: []record.Label{{Name: "run", Value: "r1"}}})
	repotest.NoError(t, err)
	want := repotest.Must(os.ReadFile("testdata/run.om"))(t)
	if out.String() != string(want) {
		t.Errorf("written:\n%s", out.String())
	}
	if want := (openmetrics.Written{Families: 12, Series: 17, Samples: 32, Natives: 1, Unnamed: 1}); written != want {
		t.Errorf("%+v, want %+v", written, want)
	}
}

func TestKeep(t *testing.T) {
	var out bytes.Buffer
	repotest.Must(openmetrics.Write(&out, string(flown(t, run)), openmetrics.Options{Keep: []string{"taken*", "depth"}, Labels: series.OpenShift}))(t)
	var names []string
	for line := range strings.Lines(out.String()) {
		if line[0] != '#' {
			names = append(names, line[:strings.IndexByte(line, '{')])
		}
	}
	if got := strings.Join(slices.Compact(names), " "); got != "depth taken taken_total" || !strings.Contains(out.String(), `namespace="openshift-etcd"`) {
		t.Errorf("%s:\n%s", got, out.String())
	}
}

func TestFaults(t *testing.T) {
	dir := flown(t, run)
	if _, err := openmetrics.Write(io.Discard, t.TempDir(), openmetrics.Options{}); !errors.Is(err, record.ErrNotRun) {
		t.Errorf("no run: %v", err)
	}
	if _, err := openmetrics.Write(io.Discard, string(dir), openmetrics.Options{Extra: []record.Label{{Name: "a-b"}}}); err == nil {
		t.Error("a faulty label was taken")
	}
	if _, err := openmetrics.Write(full{}, string(dir), openmetrics.Options{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a full disk: %v", err)
	}
}

// A small file cannot fill a disk: the text repeats at each scrape what the records
// say once.
func TestTextIsBounded(t *testing.T) {
	dir := flown(t, func(w *record.Writer) {
		first := record.Scrape{Target: "etcd", At: second(1)}
		for i := range 1000 {
			first.Values = append(first.Values, record.Value{Value: 1, Series: w.Define(record.Series{Target: "etcd", Name: "m",
				Labels: []record.Label{{Name: "l", Value: fmt.Sprint(i, strings.Repeat("x", 1000))}}})})
		}
		for i := range 1000 {
			w.Scrape(&first)
			first = record.Scrape{Target: "etcd", At: second(float64(i + 2))}
		}
	})
	var counted counter
	if _, err := openmetrics.Write(&counted, string(dir), openmetrics.Options{Most: 10 << 20}); !errors.Is(err, openmetrics.ErrTooLarge) || counted > 10<<20 {
		t.Errorf("%d bytes, %v", counted, err)
	}
	info := repotest.Must(os.Stat(dir.File(record.StreamFile)))(t)
	counted = 0
	if _, err := openmetrics.Write(&counted, string(dir), openmetrics.Options{}); !errors.Is(err, openmetrics.ErrTooLarge) || int64(counted) > max(256<<20, 1000*info.Size()) {
		t.Errorf("%d bytes of %d, %v", counted, info.Size(), err)
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// What is written is what the run holds, as Prometheus' own parser reads it:
// every sample of every series, at its time.
func TestPrometheusReadsWhatWasScraped(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	dir := flown(t, func(w *record.Writer) { someScrapes(rng, w) })
	var out bytes.Buffer
	written := repotest.Must(openmetrics.Write(&out, string(dir), openmetrics.Options{}))(t)
	got := parsed(t, out.Bytes())
	store := repotest.Must(series.Read(dir.File(record.StreamFile)))(t)
	want, samples := map[string]string{}, 0
	for _, name := range store.Names() {
		for _, s := range store.Named(name) {
			b := labels.NewScratchBuilder(8)
			b.Add(labels.MetricName, name)
			for _, l := range s.Exposed(series.Plain) {
				if l.Name == "le" && !strings.ContainsAny(l.Value, ".I") {
					l.Value += ".0" // as Prometheus writes it
				}
				b.Add(l.Name, l.Value)
			}
			b.Sort()
			for c := s.Cursor(); c.Next(); {
				if !c.Stale() {
					want[b.Labels().String()] += fmt.Sprintf(" %d=%v", epoch.Add(time.Duration(c.At())).UnixMilli(), c.Value())
					samples++
				}
			}
		}
	}
	if samples != written.Samples || len(want) != written.Series || samples < 1000 {
		t.Errorf("%d samples of %d series, written %+v", samples, len(want), written)
	}
	for key, w := range want {
		if got[key] != w {
			t.Errorf("%s:\ngot %.300s\nwant %.300s", key, got[key], w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d series, want %d", len(got), len(want))
	}
}

// parsed is the samples of every series, in the order of the text.
func parsed(t *testing.T, text []byte) map[string]string {
	t.Helper()
	out := map[string]string{}
	p := textparse.NewOpenMetricsParser(text, labels.NewSymbolTable())
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		repotest.NoError(t, err)
		if entry != textparse.EntrySeries {
			continue
		}
		_, at, v := p.Series()
		var l labels.Labels
		p.Labels(&l)
		out[l.String()] += fmt.Sprintf(" %d=%v", *at, v)
	}
}

// someScrapes are those of two targets whose series come, go and change, and
// that cannot always be read.
func someScrapes(rng *rand.Rand, w *record.Writer) {
	w.Family(record.Family{Name: "c_total", Type: "counter"})
	w.Family(record.Family{Name: "lat", Type: "histogram"})
	for _, target := range []string{"etcd", "kube-apiserver"} {
		var ids []record.SeriesID
		for i := range 4 {
			n := record.Label{Name: "n", Value: fmt.Sprint(i)}
			ids = append(ids, w.Define(record.Series{Target: target, Name: "c_total", Labels: []record.Label{n}}),
				w.Define(record.Series{Target: target, Name: "g", Labels: []record.Label{n}}))
			for _, le := range []string{"0.5", "1", "+Inf"} {
				ids = append(ids, w.Define(record.Series{Target: target, Name: "lat_bucket", Labels: []record.Label{{Name: "le", Value: le}, n}}))
			}
			ids = append(ids, w.Define(record.Series{Target: target, Name: "lat_sum", Labels: []record.Label{n}}),
				w.Define(record.Series{Target: target, Name: "lat_count", Labels: []record.Label{n}}))
		}
		live := map[record.SeriesID]bool{}
		for i := range 60 {
			at := second(5*float64(i) + rng.Float64())
			if rng.IntN(10) == 0 {
				w.Event(record.Event{Type: record.EventScrapeFailed, Name: target, At: at})
				continue
			}
			s := record.Scrape{Target: target, At: at, Points: len(ids)}
			for _, id := range ids {
				switch {
				case live[id] && rng.IntN(20) == 0:
					s.Gone = append(s.Gone, id)
					live[id] = false
				case rng.IntN(3) == 0:
					s.Values = append(s.Values, record.Value{Series: id, Value: rng.NormFloat64()})
					live[id] = true
				}
			}
			w.Scrape(&s)
		}
	}
}
