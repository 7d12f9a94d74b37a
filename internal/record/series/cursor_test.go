package series_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/series"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// read writes a stream and reads its samples.
func read(t testing.TB, write func(*record.Writer)) *series.Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), record.StreamFile)
	w := repotest.Must(record.Create(path))(t)
	write(w)
	repotest.NoError(t, w.Close())
	return repotest.Must(series.Read(path))(t)
}

// trace writes what a cursor goes through: TIME=VALUE, TIME=end for a sample
// that says that the series ends.
func trace(c *series.Cursor, more bool) string {
	var out []string
	for ; more; more = c.Next() {
		out = append(out, show(c))
	}
	return strings.Join(out, " ")
}

func show(c *series.Cursor) string {
	switch {
	case c.Stale():
		return fmt.Sprintf("%d=end", c.At())
	case c.IsHistogram():
		return fmt.Sprintf("%d=%d", c.At(), c.Histogram().Count)
	}
	return fmt.Sprintf("%d=%v", c.At(), c.Value())
}

// run is a target that is scraped at 10, 20 ... 90: c is there from 20 on, stays
// as it is, is gone from 50 to 60 and at 80 the target cannot be read.
func run(w *record.Writer) {
	c := w.Define(record.Series{Target: "t", Name: "c"})
	h := w.Define(record.Series{Target: "t", Name: "h"})
	one := &record.Histogram{Count: 1, Positive: []record.Bucket{{Index: 1, Count: 1}}}
	two := &record.Histogram{Count: 2, Positive: []record.Bucket{{Index: 1, Count: 2}}}
	for at := clock.Time(10); at <= 90; at += 10 {
		s := record.Scrape{Target: "t", At: at, Took: 2, Points: int(at)}
		switch at {
		case 20:
			s.Values = []record.Value{{Series: c, Value: 5}}
			s.Histograms = []record.HistogramValue{{Series: h, Value: one}}
		case 40:
			s.Values = []record.Value{{Series: c, Value: 7}}
		case 50:
			s.Gone = []record.SeriesID{c}
		case 70:
			s.Values = []record.Value{{Series: c, Value: 7}}
			s.Histograms = []record.HistogramValue{{Series: h, Value: two}}
		case 80:
			w.Event(record.Event{Type: record.EventScrapeFailed, Name: "t", At: at})
			continue
		}
		w.Scrape(&s)
		w.Event(record.Event{Type: record.EventScraped, Name: "t", At: at})
	}
	// A process is sampled at 11, 21 and 31; its memory stays as it is.
	cpu := w.Series(record.Series{Target: "t", Name: "cpu"})
	memory := w.Series(record.Series{Target: "t", Name: "memory"})
	w.Sample(record.Sample{Series: cpu, At: 11, Value: 1})
	w.Sample(record.Sample{Series: memory, At: 11, Value: 100})
	w.Sample(record.Sample{Series: cpu, At: 21, Value: 2})
	w.Sample(record.Sample{Series: cpu, At: 31, Value: 3})
}

func TestCursorGivesEverySample(t *testing.T) {
	store := read(t, run)
	for name, want := range map[string]string{
		"c":                       "20=5 30=5 40=7 50=end 70=7 80=end 90=7",
		"h":                       "20=1 30=1 40=1 50=1 60=1 70=2 80=end 90=2",
		"cpu":                     "11=1 21=2 31=3",
		"memory":                  "11=100 21=100 31=100",
		"up":                      "10=1 20=1 30=1 40=1 50=1 60=1 70=1 80=0 90=1",
		"scrape_samples_scraped":  "10=10 20=20 30=30 40=40 50=50 60=60 70=70 90=90",
		"scrape_duration_seconds": strings.Replace("10=V 20=V 30=V 40=V 50=V 60=V 70=V 90=V", "V", "2e-09", -1),
	} {
		c := store.Named(name)[0].Cursor()
		if got := trace(c, c.Next()); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if first, last, any := store.Span(); !any || first != 10 || last != 90 {
		t.Errorf("span %d to %d, %v", first, last, any)
	}
}

// Seek comes to the same samples as Next, from wherever it starts, but for the
// end of a series that was told before.
func TestSeekSkipsOnly(t *testing.T) {
	store := read(t, run)
	for _, name := range []string{"c", "h", "cpu", "up"} {
		one := store.Named(name)[0]
		for steps := range 5 {
			for to := clock.Time(0); to <= 100; to += 5 {
				all, c := one.Cursor(), one.Cursor()
				more := false
				for range steps {
					more = all.Next() && c.Next()
				}
				if steps > 0 && !more {
					continue // at the end there is nothing to seek
				}
				if steps == 0 || all.At() < to {
					for more = all.Next(); more && all.At() < to; more = all.Next() {
					}
				}
				want, got := trace(all, more), trace(c, c.Seek(to))
				if got != want {
					t.Errorf("%s: after %d steps, Seek(%d): %s, want %s", name, steps, to, got, want)
				}
			}
		}
	}
}

func TestExposedLabels(t *testing.T) {
	store := read(t, func(w *record.Writer) {
		for i, labels := range [][]record.Label{nil, {{Name: "component", Value: "apiserver"}, {Name: "job", Value: "x"}}, {{Name: "a", Value: ""}, {Name: "z", Value: "1"}}} {
			id := w.Define(record.Series{Target: "kube-apiserver", Name: "m", Labels: labels})
			w.Sample(record.Sample{Series: id, At: clock.Time(i)})
		}
	})
	for i, want := range []string{
		"[{component kube-apiserver} {instance kube-apiserver} {job kube-apiserver}]",
		"[{component apiserver} {exported_job x} {instance kube-apiserver} {job kube-apiserver}]",
		"[{component kube-apiserver} {instance kube-apiserver} {job kube-apiserver} {z 1}]",
	} {
		if got := fmt.Sprint(store.Named("m")[i].Exposed(series.Plain)); got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
	for target, want := range map[string]string{
		"kube-apiserver": "[{apiserver kube-apiserver} {component kube-apiserver} {container kube-apiserver} {instance kube-apiserver} {job apiserver} {namespace openshift-kube-apiserver} {node kube-apiserver} {pod kube-apiserver} {service apiserver}]",
		"kube-scheduler": "[{component kube-scheduler} {container kube-scheduler} {instance kube-scheduler} {job scheduler} {namespace openshift-kube-scheduler} {node kube-scheduler} {pod kube-scheduler} {service scheduler}]",
	} {
		labels := series.OpenShift(target)
		slices.SortFunc(labels, func(a, b record.Label) int { return strings.Compare(a.Name, b.Name) })
		if got := fmt.Sprint(labels); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
}

// What a crash left behind can be asked up to there.
func TestScrapeWithoutItsMark(t *testing.T) {
	store := read(t, func(w *record.Writer) {
		c := w.Define(record.Series{Target: "t", Name: "c"})
		w.Scrape(&record.Scrape{Target: "t", At: 10, Values: []record.Value{{Series: c, Value: 5}}})
		w.Event(record.Event{Type: record.EventScraped, Name: "t", At: 10})
		w.Scrape(&record.Scrape{Target: "t", At: 20})
	})
	c := store.Named("c")[0].Cursor()
	if got := trace(c, c.Next()); got != "10=5 20=5" {
		t.Errorf("%s", got)
	}
	if got := store.Scrapes("t"); !slices.Equal(got, []clock.Time{10, 20}) {
		t.Errorf("scrapes %v", got)
	}
}
