package promql_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/promql"
	"github.com/windtunnel/windtunnel/internal/record/series"
)

func TestWhatThereIs(t *testing.T) {
	s := func(name, code string) seen {
		return seen{labels: labels.FromStrings("__name__", name, "code", code), value: 1}
	}
	db := open(t, recordStream(t, map[string][]look{
		"etcd":           {{at: 0, seen: []seen{s("a", "1"), s("b", "2")}}},
		"kube-apiserver": {{at: 10, seen: []seen{s("a", "3")}}},
	}))
	for _, c := range []struct {
		what, want string
		get        func() ([]string, error)
	}{
		{"names", "[__name__ code component instance job]", func() ([]string, error) { return db.LabelNames(promql.Selector{To: 10}) }},
		{"names of up", "[__name__ component instance job]", func() ([]string, error) {
			return db.LabelNames(promql.Selector{Match: []string{"up"}, To: 10})
		}},
		{"codes", "[1 2 3]", func() ([]string, error) { return db.LabelValues("code", promql.Selector{To: 10}) }},
		{"codes at first", "[1 2]", func() ([]string, error) { return db.LabelValues("code", promql.Selector{To: 9}) }},
		{"metrics of one job", "[a scrape_duration_seconds scrape_samples_scraped up]", func() ([]string, error) {
			return db.LabelValues("__name__", promql.Selector{Match: []string{`{job="kube-apiserver"}`}, To: 10})
		}},
		{"codes of two selectors", "[2 3]", func() ([]string, error) {
			return db.LabelValues("code", promql.Selector{Match: []string{"b", `{job="kube-apiserver"}`}, To: 10})
		}},
		{"of a label that nothing has", "[]", func() ([]string, error) { return db.LabelValues("nosuch", promql.Selector{To: 10}) }},
	} {
		if got, err := c.get(); err != nil || fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, %v, want %s", c.what, got, err, c.want)
		}
	}
	got, err := db.Series(promql.Selector{Match: []string{"a", `{code="1"}`}, To: 10})
	want := "[[{__name__ a} {code 1} {component etcd} {instance etcd} {job etcd}] [{__name__ a} {code 3} {component kube-apiserver} {instance kube-apiserver} {job kube-apiserver}]]"
	if err != nil || fmt.Sprint(got) != want {
		t.Errorf("series %v, %v, want %s", got, err, want)
	}
	for _, bad := range []string{"a{", "sum(a)", "{}", `{a=~".*"}`} {
		var fault *promql.ExprError
		if _, err := db.Series(promql.Selector{Match: []string{bad}}); !errors.As(err, &fault) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// A run is asked while it goes on.
func TestUpdateBetweenQueries(t *testing.T) {
	db := open(t, series.NewStore())
	stream := &record.Stream{Series: []record.Series{{Target: "etcd", Name: "c"}}}
	const scrapes = 200
	var wait sync.WaitGroup
	wait.Go(func() {
		for i := range scrapes {
			db.Update(func(s *series.Store) {
				v := s.Visitor(stream)
				at := clock.Time(i) * clock.Time(time.Second)
				v.Scrape(record.Scrape{Target: "etcd", At: at})
				v.Sample(record.Sample{Series: 0, At: at, Value: float64(i)})
			})
		}
	})
	for range 4 {
		wait.Go(func() {
			for last := -1.0; last < scrapes-1; {
				_, at, _ := db.Span()
				r, err := db.Instant(t.Context(), "c", at)
				if err != nil {
					t.Error(err)
					return
				}
				if len(r.Series) > 0 {
					if v := r.Series[0].Points[0].Value; v >= last {
						last = v
					} else {
						t.Errorf("%v after %v", v, last)
					}
				}
			}
		})
	}
	wait.Wait()
}

// BenchmarkQuantile is a quantile of all requests of a kube-apiserver, over the
// last minute of an hour: 300 histograms of 24 buckets.
func BenchmarkQuantile(b *testing.B) {
	var looks []look
	for n := range 720 {
		l := look{at: clock.Time(n) * clock.Time(5*time.Second)}
		for i := range 300 {
			for le := range 24 {
				l.seen = append(l.seen, seen{value: float64(n / 7 * le), labels: labels.FromStrings("__name__", "d_bucket", "resource", fmt.Sprint(i), "le", fmt.Sprint(le))})
			}
			if n > 1 { // the labels need not be made again
				break
			}
		}
		if n > 1 {
			l.seen = l.seen[:0]
			for _, s := range looks[0].seen {
				s.value *= float64(n / 7)
				l.seen = append(l.seen, s)
			}
		}
		looks = append(looks, l)
	}
	db := open(b, recordStream(b, map[string][]look{"kube-apiserver": looks}))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := db.Instant(b.Context(), "histogram_quantile(0.99, sum by (le) (rate(d_bucket[1m])))", clock.Time(time.Hour)); err != nil {
			b.Fatal(err)
		}
	}
}
