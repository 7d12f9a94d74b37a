package series_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/series"
)

// filled is a store of one counter: scraped at 10, 20 ..., with a sample where
// the value changed.
func filled(samples map[clock.Time]float64, scrapes ...clock.Time) *series.Series {
	s := series.NewStore()
	defined := []record.Series{{Target: "t", Name: "c"}}
	for _, at := range scrapes {
		if v, ok := samples[at]; ok {
			s.Add(defined, record.Sample{Series: 0, At: at, Value: v})
		}
		s.Event(record.Event{At: at, Type: record.EventScraped, Name: "t"})
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
	s.Event(record.Event{At: 10, Type: record.EventScraped, Name: "t"})
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

// A bucket does not show a restart after which it soon holds as much as before:
// that of all values does.
func TestRestartOfAHistogram(t *testing.T) {
	s := series.NewStore()
	defined := []record.Series{
		{Target: "t", Name: "lat_bucket", Labels: []record.Label{{Name: "le", Value: "1"}}},
		{Target: "t", Name: "lat_bucket", Labels: []record.Label{{Name: "le", Value: "2"}}},
		{Target: "t", Name: "lat_bucket", Labels: []record.Label{{Name: "le", Value: "+Inf"}}},
	}
	for i, scrape := range [][]float64{{3, 3, 100}, {3, 4, 90}, {5, 6, 95}} {
		at := clock.Time(10 * (i + 1))
		for id, v := range scrape {
			if i == 0 || v != []float64{3, 3, 100}[id] {
				s.Add(defined, record.Sample{Series: record.SeriesID(id), At: at, Value: v})
			}
		}
		s.Event(record.Event{At: at, Type: record.EventScraped, Name: "t"})
	}
	groups, _ := s.Histograms(series.HistogramQuery{Target: "t", Family: "lat", From: 10, To: 30})
	if want := []float64{5, 6, 95}; len(groups) != 1 || !slices.Equal(groups[0].Counts, want) {
		t.Errorf("%+v, want %v", groups, want)
	}
}

// The name of a component stands for all of its processes, whose increases and histograms
// are added up; each can be asked for by its own name.
func TestProcessesOfAComponent(t *testing.T) {
	s := series.NewStore()
	var defined []record.Series
	for _, target := range []string{"etcd-0", "etcd-1", "etcd-10", "etcdx"} {
		defined = append(defined, record.Series{Target: target, Name: "c"}, record.Series{Target: target, Name: "lat_bucket", Labels: []record.Label{{Name: "le", Value: "+Inf"}}})
		for i, at := range []clock.Time{10, 20} {
			s.Event(record.Event{At: at, Type: record.EventScraped, Name: target})
			for n := range 2 {
				s.Add(defined, record.Sample{Series: record.SeriesID(len(defined) - 2 + n), At: at, Value: float64(i * (len(defined)/2 + n))})
			}
		}
	}
	for target, want := range map[string]struct{ series, sum, scrapes, count float64 }{
		"etcd": {3, 1 + 2 + 3, 2, 2 + 3 + 4}, "etcd-1": {1, 2, 2, 3}, "etcd-10": {1, 3, 2, 4}, "etcdx": {1, 4, 2, 5}, "etcd-2": {}, "kube-apiserver": {},
	} {
		all := s.Select(target, "c", nil)
		sum := 0.0
		for _, one := range all {
			rise, _ := one.Increase(10, 20)
			sum += rise
		}
		count := 0.0
		groups, _ := s.Histograms(series.HistogramQuery{Target: target, Family: "lat", From: 10, To: 20})
		if len(groups) > 0 {
			count = groups[0].Counts[0]
		}
		if float64(len(all)) != want.series || sum != want.sum || float64(len(s.Scrapes(target))) != want.scrapes || count != want.count {
			t.Errorf("%s: %d series with %v, %d scrapes, histogram of %v; want %v", target, len(all), sum, len(s.Scrapes(target)), count, want)
		}
	}
	for target, want := range map[string]string{"etcd-1": "[{component etcd} {instance etcd-1} {job etcd}]", "etcd": "[{component etcd} {instance etcd} {job etcd}]", "member-1": "[{component member-1} {instance member-1} {job member-1}]"} {
		if got := fmt.Sprint(series.Plain(target)); got != want {
			t.Errorf("labels of %s: %s, want %s", target, got, want)
		}
	}
}
