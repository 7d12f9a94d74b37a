package record_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// scraped is everything that a reader saw of scrapes, a line each.
func scraped(t testing.TB, path string) (*record.Stream, []string) {
	t.Helper()
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	s := repotest.Must(record.Read(path, func(s *record.Stream) record.Visitor {
		return record.Visitor{
			Scrape: func(v record.Scrape) { say("%s at %d took %v points %d", v.Target, v.At, v.Took, v.Points) },
			Sample: func(v record.Sample) { say("%s at %d = %v", s.Series[v.Series].Key(), v.At, v.Value) },
			Histogram: func(v record.HistogramSample) {
				say("%s at %d = %+v", s.Series[v.Series].Key(), v.At, *v.Value)
			},
			Gone: func(v record.Gone) { say("%s at %d gone", s.Series[v.Series].Key(), v.At) },
		}
	}))(t)
	return s, out
}

func TestScrapesAreRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.wt")
	w := repotest.Must(record.Create(path))(t)
	w.Family(record.Family{Name: "c", Type: "counter", Help: "What is counted."})
	w.Family(record.Family{Name: "c", Type: "gauge"}) // the first says what it is
	c := w.Define(record.Series{Target: "etcd", Name: "c", Labels: []record.Label{{"a", "1"}, {"b", "1"}}})
	g := w.Define(record.Series{Target: "etcd", Name: "g"})
	h := w.Define(record.Series{Target: "etcd", Name: "h"})
	one := &record.Histogram{Schema: 3, Count: 2, Sum: 1, Positive: []record.Bucket{{-7, 2}}}
	two := &record.Histogram{Schema: 3, Count: 4, Sum: 2.5, Positive: []record.Bucket{{-7, 3}, {2, 1}}}
	// The order of values is the writer's affair.
	w.Scrape(&record.Scrape{Target: "etcd", At: 10, Took: time.Millisecond, Points: 3,
		Values: []record.Value{{g, 0.5}, {c, 7}}, Histograms: []record.HistogramValue{{h, one}}})
	w.Scrape(&record.Scrape{Target: "etcd", At: 20, Points: 2,
		Values: []record.Value{{c, 9}}, Histograms: []record.HistogramValue{{h, two}}, Gone: []record.SeriesID{g}})
	w.Scrape(&record.Scrape{Target: "etcd", At: 30, Values: []record.Value{{c, 2}, {g, math.Copysign(0, -1)}}})
	repotest.NoError(t, w.Close())
	stream, got := scraped(t, path)
	want := []string{
		`etcd at 10 took 1ms points 3`,
		`c{target="etcd",a="1",b="1"} at 10 = 7`,
		`g{target="etcd"} at 10 = 0.5`,
		`h{target="etcd"} at 10 = {Schema:3 ZeroThreshold:0 ZeroCount:0 Count:2 Sum:1 Positive:[{Index:-7 Count:2}] Negative:[]}`,
		`etcd at 20 took 0s points 2`,
		`c{target="etcd",a="1",b="1"} at 20 = 9`,
		`h{target="etcd"} at 20 = {Schema:3 ZeroThreshold:0 ZeroCount:0 Count:4 Sum:2.5 Positive:[{Index:-7 Count:3} {Index:2 Count:1}] Negative:[]}`,
		`g{target="etcd"} at 20 gone`,
		`etcd at 30 took 0s points 0`,
		`c{target="etcd",a="1",b="1"} at 30 = 2`,
		`g{target="etcd"} at 30 = -0`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("read\n%q, want\n%q", got, want)
	}
	if fmt.Sprint(stream.Families) != "[{c counter What is counted.}]" {
		t.Errorf("families %v", stream.Families)
	}
}

// Whatever a histogram becomes, what is told of it makes it so, and one that
// only grows takes a few bytes.
func TestHistogramsAreToldByWhatChanged(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	h, decoded, last := &record.Histogram{Schema: 3, ZeroThreshold: 1e-9}, &record.Histogram{}, &record.Histogram{}
	grown, size := 0, 0
	for i := range 2000 {
		anew := false
		switch rng.IntN(50) {
		case 0: // a restart
			h, anew = &record.Histogram{Schema: 3, ZeroThreshold: 1e-9}, true
		case 1: // a coarser one
			h.Schema, anew = 8-h.Schema, true
		case 2: // a count that falls
			h.Count, anew = h.Count/2, true
		case 3:
			h.Negative = grow(rng, h.Negative)
		}
		h.Positive = grow(rng, h.Positive)
		h.Count += 2
		h.ZeroCount += uint64(rng.IntN(2))
		h.Sum += rng.Float64()
		b := record.AppendHistogram(nil, last, h)
		if !anew && i > 0 {
			grown, size = grown+1, size+len(b)
		}
		rest, err := record.DecodeHistogram(append(b, 1, 2, 3), decoded)
		if err != nil || len(rest) != 3 || !decoded.Equal(h) {
			t.Fatalf("%d: decoded %+v, %v, want %+v", i, decoded, err, h)
		}
		last = h.Clone()
	}
	if mean := float64(size) / float64(grown); mean > 25 {
		t.Errorf("%.1f bytes for each growth by two values", mean)
	}
}

// grow adds a value to a bucket, new or old.
func grow(rng *rand.Rand, buckets []record.Bucket) []record.Bucket {
	index := int32(rng.IntN(60) - 30)
	i, found := slices.BinarySearchFunc(buckets, index, func(b record.Bucket, i int32) int { return int(b.Index) - int(i) })
	if !found {
		buckets = slices.Insert(buckets, i, record.Bucket{Index: index})
	}
	buckets[i].Count++
	return buckets
}

func FuzzDecodeHistogram(f *testing.F) {
	f.Add(record.AppendHistogram(nil, &record.Histogram{}, &record.Histogram{Schema: 3, Count: 2, Positive: []record.Bucket{{-7, 2}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		h := &record.Histogram{Schema: 3, Count: 9, Positive: []record.Bucket{{-7, 2}, {3, 7}}}
		if _, err := record.DecodeHistogram(b, h); err != nil {
			return
		}
		if !slices.IsSortedFunc(h.Positive, func(a, b record.Bucket) int { return int(a.Index) - int(b.Index) }) {
			t.Fatalf("%x: %+v", b, h)
		}
	})
}

// BenchmarkScrape is the cost of a scrape of a kube-apiserver in which one value
// in ten changed.
func BenchmarkScrape(b *testing.B) {
	w := repotest.Must(record.Create(filepath.Join(b.TempDir(), "r.wt")))(b)
	defer w.Close()
	for i := range 20_000 {
		w.Define(record.Series{Target: "kube-apiserver", Name: "c", Labels: []record.Label{{"le", fmt.Sprint(i)}}})
	}
	defined := w.Size()
	var s record.Scrape
	n := 0
	for b.Loop() {
		n++
		s = record.Scrape{Target: "kube-apiserver", At: clock.Time(n), Values: s.Values[:0]}
		for i := range 2000 {
			s.Values = append(s.Values, record.Value{Series: record.SeriesID(10 * i), Value: float64(n * i)})
		}
		w.Scrape(&s)
	}
	b.ReportMetric(float64(w.Size()-defined)/float64(n), "B/scrape")
	b.ReportMetric(float64(defined)/20_000, "B/series")
}
