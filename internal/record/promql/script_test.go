package promql_test

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/promql"
	"github.com/windtunnel/windtunnel/internal/record/series"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// epoch is the wall time of the clock's zero in these tests; it is no whole
// second, as that of a run is not.
var epoch = time.Date(2026, 5, 1, 12, 0, 0, 250_300_000, time.UTC)

// seen is what a scrape sees of a series: a value or a native histogram.
type seen struct {
	labels labels.Labels
	value  float64
	native *record.Histogram
}

// look is one scrape of a target.
type look struct {
	at     clock.Time
	failed bool
	seen   []seen
}

// recordStream writes looks as package scrape does, only what changed,
// and reads the stream back.
func recordStream(t testing.TB, targets map[string][]look) *series.Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), record.StreamFile)
	w := repotest.Must(record.Create(path))(t)
	for target, looks := range targets {
		known, last := map[string]record.SeriesID{}, map[string]seen{}
		for _, l := range looks {
			if l.failed {
				w.Event(record.Event{At: l.at, Type: record.EventScrapeFailed, Name: target})
				continue
			}
			scrape := record.Scrape{Target: target, At: l.at, Took: 10 * time.Millisecond, Points: len(l.seen)}
			now := map[string]seen{}
			for _, s := range l.seen {
				key := s.labels.String()
				id, ok := known[key]
				if !ok {
					id = w.Define(definition(target, s.labels))
					known[key] = id
				}
				before, live := last[key]
				switch {
				case s.native != nil && (!live || !s.native.Equal(before.native)):
					scrape.Histograms = append(scrape.Histograms, record.HistogramValue{Series: id, Value: s.native})
				case s.native == nil && (!live || before.value != s.value):
					scrape.Values = append(scrape.Values, record.Value{Series: id, Value: s.value})
				}
				now[key] = s
			}
			for key := range last {
				if _, still := now[key]; !still {
					scrape.Gone = append(scrape.Gone, known[key])
				}
			}
			last = now
			w.Scrape(&scrape)
			w.Event(record.Event{At: l.at, Type: record.EventScraped, Name: target})
		}
	}
	repotest.NoError(t, w.Close())
	return repotest.Must(series.Read(path))(t)
}

func definition(target string, l labels.Labels) record.Series {
	out := record.Series{Target: target, Name: l.Get(labels.MetricName)}
	l.Range(func(l labels.Label) {
		if l.Name != labels.MetricName {
			out.Labels = append(out.Labels, record.Label{Name: l.Name, Value: l.Value})
		}
	})
	return out
}

func open(t testing.TB, store *series.Store) *promql.DB {
	t.Helper()
	return repotest.Must(promql.Open(store, promql.Default(epoch)))(t)
}

// TestScripts runs testdata/*.test. A script is a small run and what is asked
// of it:
//
//	scrape TARGET every 5s        the lines below it are series in the notation
//	  up{a="b"} 0+10x4 _ 7 stale  of Prometheus' own tests, one value for each
//	  !failed 0x3 1               scrape; the values of !failed that are not 0
//	                              are scrapes that failed
//	instant 20s EXPR              the lines below it are the answer
//	  {a="b"} 40
//	range 0s 20s 5s EXPR
//	  {a="b"} 0 10 20 30 40
//	fails 20s EXPR                the line below it is the error, or its end
//	labels openshift              series get the labels of that labelling
//	rules every 5s                evaluates ClusterLoader2's rules
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.test")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			s := &script{t: t, file: file, targets: map[string][]look{}, options: promql.Default(epoch)}
			s.read()
		})
	}
}

type script struct {
	t       *testing.T
	file    string
	targets map[string][]look
	options promql.Options
	db      *promql.DB
}

func (s *script) read() {
	raw := repotest.Must(os.ReadFile(s.file))(s.t)
	var block []string
	at := 0
	in := bufio.NewScanner(strings.NewReader(string(raw)))
	for n := 1; in.Scan(); n++ {
		line := strings.TrimRight(in.Text(), " ")
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(strings.TrimSpace(line), "#"):
		case strings.HasPrefix(line, "  "):
			block = append(block, strings.TrimSpace(line))
		default:
			s.block(at, block)
			block, at = []string{line}, n
		}
	}
	s.block(at, block)
}

func (s *script) block(line int, block []string) {
	if len(block) == 0 {
		return
	}
	f := strings.Fields(block[0])
	if f[0] == "scrape" {
		s.scrape(f[1], s.duration(f[3]), block[1:])
		return
	}
	switch f[0] {
	case "labels":
		s.options.Labels = series.OpenShift
		return
	}
	_, expr, _ := strings.Cut(block[0], f[1])
	var r promql.Result
	var err error
	if f[0] == "range" {
		_, expr, _ = strings.Cut(expr, f[3])
		r, err = s.open().Range(s.t.Context(), strings.TrimSpace(expr), s.moment(f[1]), s.moment(f[2]), s.duration(f[3]))
	} else {
		r, err = s.open().Instant(s.t.Context(), strings.TrimSpace(expr), s.moment(f[1]))
	}
	if f[0] == "fails" {
		if err == nil || !strings.HasSuffix(err.Error(), block[1]) {
			s.t.Errorf("%s:%d: error %v, want %s", s.file, line, err, block[1])
		}
		return
	}
	if err != nil {
		s.t.Errorf("%s:%d: %v", s.file, line, err)
		return
	}
	var got []string
	for _, one := range r.Series {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s", one, values(one.Points))))
	}
	if r.Kind == promql.String {
		got = append(got, r.Text)
	}
	for _, w := range append(r.Warnings, r.Infos...) {
		got = append(got, "! "+w)
	}
	if want := block[1:]; strings.Join(got, "\n") != strings.Join(want, "\n") {
		s.t.Errorf("%s:%d: %s\ngot:\n  %s\nwant:\n  %s", s.file, line, expr, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// values writes points as scripts do: to six digits.
func values(points []promql.Point) string {
	var out []string
	for _, p := range points {
		if p.Histogram != nil {
			text := fmt.Sprintf("count:%v,sum:%v", p.Histogram.Count, p.Histogram.Sum)
			for _, b := range p.Histogram.Buckets {
				text += fmt.Sprintf(",%c%.6g,%.6g%c:%v", bracket(b.LowerClosed, "(["), b.Lower, b.Upper, bracket(b.UpperClosed, ")]"), b.Count)
			}
			out = append(out, text)
			continue
		}
		out = append(out, strconv.FormatFloat(p.Value, 'g', 6, 64))
	}
	return strings.Join(out, " ")
}

func bracket(closed bool, of string) byte {
	if closed {
		return of[1]
	}
	return of[0]
}

func (s *script) open() *promql.DB {
	if s.db == nil {
		var err error
		if s.db, err = promql.Open(recordStream(s.t, s.targets), s.options); err != nil {
			s.t.Fatal(err)
		}
	}
	return s.db
}

func (s *script) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatalf("%s: %v", s.file, err)
	}
	return d
}

func (s *script) moment(text string) clock.Time { return clock.Time(s.duration(text)) }

func (s *script) scrape(target string, every time.Duration, lines []string) {
	looks := s.targets[target]
	grow := func(n int) {
		for len(looks) < n {
			looks = append(looks, look{at: clock.Time(len(looks)) * clock.Time(every)})
		}
	}
	for _, line := range lines {
		failed := strings.HasPrefix(line, "!")
		l, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(strings.TrimPrefix(line, "!"))
		if err != nil {
			s.t.Fatalf("%s: %s: %v", s.file, line, err)
		}
		grow(len(values))
		for i, v := range values {
			switch {
			case failed:
				looks[i].failed = v.Value != 0
			case !v.Omitted && !value.IsStaleNaN(v.Value):
				looks[i].seen = append(looks[i].seen, seen{l, v.Value, recordedNative(v.Histogram)})
			}
		}
	}
	s.targets[target] = looks
}

// recordedNative is a histogram as a scrape would have recorded it.
func recordedNative(h *histogram.FloatHistogram) *record.Histogram {
	if h == nil {
		return nil
	}
	out := &record.Histogram{Schema: h.Schema, ZeroThreshold: h.ZeroThreshold, ZeroCount: uint64(h.ZeroCount), Count: uint64(h.Count), Sum: h.Sum}
	for it := h.PositiveBucketIterator(); it.Next(); {
		out.Positive = append(out.Positive, record.Bucket{Index: it.At().Index, Count: uint64(it.At().Count)})
	}
	for it := h.NegativeBucketIterator(); it.Next(); {
		out.Negative = append(out.Negative, record.Bucket{Index: it.At().Index, Count: uint64(it.At().Count)})
	}
	return out
}

func TestOptions(t *testing.T) {
	for says, change := range map[string]func(*promql.Options){
		"lookback": func(o *promql.Options) { o.Lookback = -1 },
		"interval": func(o *promql.Options) { o.Interval = 0 },
		"timeout":  func(o *promql.Options) { o.Timeout = 0 },
		"samples":  func(o *promql.Options) { o.MaxSamples = 0 },
		"epoch":    func(o *promql.Options) { o.Epoch = time.Time{} },
		"labels":   func(o *promql.Options) { o.Labels = nil },
	} {
		o := promql.Default(epoch)
		change(&o)
		if _, err := promql.Open(series.NewStore(), o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

func TestFaultsSayWhere(t *testing.T) {
	db := open(t, series.NewStore())
	for _, c := range []struct {
		expr, err    string
		line, column int
	}{
		{"sum(rate(a[5m])", "unclosed left parenthesis", 1, 16},
		{"sum by (x) (\n  rate(a)\n)", "expected type range vector in call to function \"rate\", got instant vector", 2, 8},
		{"a[5m", "unclosed left bracket", 1, 5},
		{"", "no expression found in input", 1, 1},
		{"nosuch(a)", "unknown function with name \"nosuch\"", 1, 1},
	} {
		_, err := db.Instant(t.Context(), c.expr, 0)
		var fault *promql.ExprError
		if !errors.As(err, &fault) || fault.Line != c.line || fault.Column != c.column || !strings.Contains(fault.Err.Error(), c.err) {
			t.Errorf("%q: %v", c.expr, err)
		}
		if checked := promql.Check(c.expr); checked == nil || checked.Error() != err.Error() {
			t.Errorf("%q: Check says %v", c.expr, checked)
		}
	}
	for expr, want := range map[string]string{"a[5m]": "values over a time", `"a"`: "a text, not a number", "a": "", "1": "", "rate(a[5m])": ""} {
		if err := promql.Check(expr); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: Check says %v, want %q", expr, err, want)
		}
	}
	if _, err := db.Range(t.Context(), "a[5m]", 0, 10, time.Second); err == nil || !strings.Contains(err.Error(), "invalid expression type") {
		t.Errorf("a range of ranges: %v", err)
	}
	if _, err := db.Range(t.Context(), "a", 10, 0, time.Second); err == nil {
		t.Error("a range that ends before it begins was evaluated")
	}
	if _, err := db.Range(t.Context(), "a", 0, 10, 0); err == nil {
		t.Error("a range without a step was evaluated")
	}
}

func TestLimits(t *testing.T) {
	looks := make([]look, 1000)
	for i := range looks {
		looks[i] = look{at: clock.Time(i) * clock.Time(time.Second), seen: []seen{{labels: labels.FromStrings("__name__", "a"), value: float64(i)}}}
	}
	o := promql.Default(epoch)
	o.MaxSamples = 100
	db, err := promql.Open(recordStream(t, map[string][]look{"etcd": looks}), o)
	repotest.NoError(t, err)
	last := clock.Time(999 * time.Second)
	if _, err := db.Range(t.Context(), "a", 0, last, time.Second); !errors.Is(err, promql.ErrTooMuch) {
		t.Errorf("1000 samples where 100 may be: %v", err)
	}
	ctx, cancel := contextCanceled(t)
	defer cancel()
	if _, err := db.Range(ctx, "a", 0, last, 100*time.Second); !errors.Is(err, promql.ErrCanceled) {
		t.Errorf("canceled: %v", err)
	}
	o = promql.Default(epoch)
	o.Timeout = time.Nanosecond
	if db, err = promql.Open(recordStream(t, map[string][]look{"etcd": looks}), o); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Range(t.Context(), "a", 0, last, time.Second); !errors.Is(err, promql.ErrTimeout) {
		t.Errorf("no time: %v", err)
	}
}

func TestSpanAndTimes(t *testing.T) {
	db := open(t, series.NewStore())
	if _, _, any := db.Span(); any {
		t.Error("an empty store has a span")
	}
	at := clock.Time(1500 * time.Millisecond)
	if w := db.Wall(at); !w.Equal(epoch.Add(1500*time.Millisecond)) || db.Moment(w) != at {
		t.Errorf("%v is %v, and back %v", at, w, db.Moment(w))
	}
	r, err := db.Instant(t.Context(), "time()", at)
	want := float64(epoch.Add(1500*time.Millisecond).UnixMilli()) / 1000
	if err != nil || r.Kind != promql.Scalar || math.Abs(r.Series[0].Points[0].Value-want) > 1e-6 {
		t.Errorf("time() = %+v, %v, want %v", r, err, want)
	}
}
