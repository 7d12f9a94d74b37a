package scrape_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/protobuf/proto"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/observe/scrape"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/series"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// flown is everything that a scraper wrote.
type flown struct {
	samples []string // KEY VALUE in the order of writing
	marks   []record.Event
}

func fly(t *testing.T, targets []scrape.Target, o scrape.Options, do func(*scrape.Scraper)) flown {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r.wt")
	w := repotest.Must(record.Create(path))(t)
	do(scrape.New(w, clock.Start(), targets, o))
	repotest.NoError(t, w.Close())
	var out flown
	repotest.Must(record.Read(path, func(s *record.Stream) record.Visitor {
		return record.Visitor{
			Sample: func(v record.Sample) {
				out.samples = append(out.samples, fmt.Sprintf("%s %v", s.Series[v.Series].Key(), v.Value))
			},
			Histogram: func(v record.HistogramSample) {
				out.samples = append(out.samples, fmt.Sprintf("%s %+v", s.Series[v.Series].Key(), *v.Value))
			},
			Gone: func(v record.Gone) {
				out.samples = append(out.samples, fmt.Sprintf("gone %s", s.Series[v.Series].Key()))
			},
			Event: func(m record.Event) { out.marks = append(out.marks, m) },
		}
	}))(t)
	return out
}

func serve(t testing.TB, h http.HandlerFunc) scrape.Target {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return scrape.Target{Name: "kube-apiserver", URL: s.URL + "/metrics", Client: s.Client()}
}

func TestOnlyWhatChangedIsWritten(t *testing.T) {
	var depth atomic.Int64
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "identity" {
			t.Error("compression was asked for")
		}
		n := depth.Add(1)
		fmt.Fprintf(w, "workqueue_depth{name=\"job\"} %d\napiserver_request_total{code=\"200\"} 7\nprocess_cpu_seconds_total 1\n", n/2)
		if n < 3 {
			fmt.Fprintln(w, "passing 5")
		}
	})
	got := fly(t, []scrape.Target{target}, scrape.Options{}, func(s *scrape.Scraper) {
		for range 4 {
			s.Scrape(t.Context())
		}
	})
	want := []string{
		`workqueue_depth{target="kube-apiserver",name="job"} 0`, `apiserver_request_total{target="kube-apiserver",code="200"} 7`,
		`passing{target="kube-apiserver"} 5`, `workqueue_depth{target="kube-apiserver",name="job"} 1`,
		`gone passing{target="kube-apiserver"}`, `workqueue_depth{target="kube-apiserver",name="job"} 2`,
	}
	if fmt.Sprint(got.samples) != fmt.Sprint(want) {
		t.Errorf("samples %q, want %q", got.samples, want)
	}
	if len(got.marks) != 4 || got.marks[3].Type != record.EventScraped || got.marks[3].Name != "kube-apiserver" {
		t.Errorf("marks %v", got.marks)
	}
}

// A target that can answers in protobuf, native histograms and all.
func TestNativeHistogramsAreKept(t *testing.T) {
	h := &dto.Histogram{SampleCount: proto.Uint64(3), SampleSum: proto.Float64(2), Schema: proto.Int32(3),
		PositiveSpan: []*dto.BucketSpan{{Offset: proto.Int32(1), Length: proto.Uint32(1)}}, PositiveDelta: []int64{3}}
	family := &dto.MetricFamily{Name: proto.String("lat"), Help: proto.String("Latency."), Type: dto.MetricType_HISTOGRAM.Enum(), Metric: []*dto.Metric{{Histogram: h}}}
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		format := expfmt.Negotiate(r.Header)
		w.Header().Set("Content-Type", string(format))
		if err := expfmt.NewEncoder(w, format).Encode(family); err != nil {
			t.Error(err)
		}
		*h.SampleCount, h.PositiveDelta[0] = 4, 4
	})
	got := fly(t, []scrape.Target{target}, scrape.Options{}, func(s *scrape.Scraper) {
		s.Scrape(t.Context())
		s.Scrape(t.Context())
	})
	want := []string{
		`lat_count{target="kube-apiserver"} 3`, `lat_sum{target="kube-apiserver"} 2`,
		`lat{target="kube-apiserver"} {Schema:3 ZeroThreshold:0 ZeroCount:0 Count:3 Sum:2 Positive:[{Index:1 Count:3}] Negative:[]}`,
		`lat_count{target="kube-apiserver"} 4`,
		`lat{target="kube-apiserver"} {Schema:3 ZeroThreshold:0 ZeroCount:0 Count:4 Sum:2 Positive:[{Index:1 Count:4}] Negative:[]}`,
	}
	if fmt.Sprint(got.samples) != fmt.Sprint(want) {
		t.Errorf("samples %q, want %q", got.samples, want)
	}
}

// The series of a member have its name as a label, beside one of their own.
func TestSeriesOfAMember(t *testing.T) {
	target := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "objects{resource=\"pods\",a=\"b\"} 3\nown{cluster=\"x\"} 1\n")
	})
	target.Cluster = "far-1"
	f := fly(t, []scrape.Target{target}, scrape.Options{}, func(s *scrape.Scraper) { s.Scrape(t.Context()) })
	want := []string{`objects{target="kube-apiserver",a="b",cluster="far-1",resource="pods"} 3`, `own{target="kube-apiserver",cluster="far-1",exported_cluster="x"} 1`}
	for _, one := range want {
		if !slices.Contains(f.samples, one) {
			t.Errorf("%s is not among %q", one, f.samples)
		}
	}
}

func TestKeepAndDrop(t *testing.T) {
	const body = "workqueue_depth 1\nworkqueue_depths 2\nlat_sum 3\nlat_bucket{le=\"1\"} 4\nprocess_cpu_seconds_total 5\ngo_goroutines 6\n"
	for _, c := range []struct {
		what    string
		options scrape.Options
		process bool
		want    string
	}{
		{"everything but what usage measures", scrape.Options{}, false, "1 2 4 3 6"},
		{"and that too, of elsewhere", scrape.Options{}, true, "1 2 4 3 5 6"},
		{"a family", scrape.Options{Keep: []string{"lat", "workqueue_depth"}}, false, "1 4 3"},
		{"all that begin so", scrape.Options{Keep: []string{"workqueue_*"}}, true, "1 2 5"},
		{"all but", scrape.Options{Drop: []string{"workqueue_*", "lat"}}, false, "6"},
		{"drop wins", scrape.Options{Keep: []string{"workqueue_*"}, Drop: []string{"workqueue_depth", "process_*"}}, true, "2"},
	} {
		target := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
		target.Process = c.process
		got := fly(t, []scrape.Target{target}, c.options, func(s *scrape.Scraper) { s.Scrape(t.Context()) })
		slices.Sort(got.samples)
		var values []string
		for _, name := range []string{"workqueue_depth{", "workqueue_depths{", "lat_bucket{", "lat_sum{", "process", "go_"} {
			for _, s := range got.samples {
				if strings.HasPrefix(s, name) {
					values = append(values, s[strings.LastIndexByte(s, ' ')+1:])
				}
			}
		}
		if strings.Join(values, " ") != c.want || len(values) != len(got.samples) {
			t.Errorf("%s: %q", c.what, got.samples)
		}
	}
}

// Each way to fail is marked with what went wrong, and the next scrape is made.
func TestFailuresAreMarked(t *testing.T) {
	var n atomic.Int64
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch n.Add(1) {
		case 1:
			http.Error(w, "not for you", http.StatusForbidden)
		case 2:
			fmt.Fprintln(w, "workqueue_depth{name= 5")
		case 3:
			<-r.Context().Done() // too slow
		case 4:
			fmt.Fprintln(w, "workqueue_depth{name=\"job\"} 5")
		default:
			panic(http.ErrAbortHandler)
		}
	})
	got := fly(t, []scrape.Target{target}, scrape.Options{Timeout: 50 * time.Millisecond}, func(s *scrape.Scraper) {
		for range 5 {
			s.Scrape(t.Context())
		}
	})
	for i, says := range []string{"403 Forbidden: not for you", "parse metrics", "deadline exceeded", "", "scrape kube-apiserver"} {
		kind := record.EventScrapeFailed
		if says == "" {
			kind = record.EventScraped
		}
		if m := got.marks[i]; m.Type != kind || !strings.Contains(m.Text, says) {
			t.Errorf("mark %d = %+v, want %s %q", i, m, kind, says)
		}
	}
	if len(got.samples) != 1 {
		t.Errorf("samples %q", got.samples)
	}
}

// A target that hangs does not keep the others waiting, and Run ends with its
// context, without blaming a target for it.
func TestRunScrapesEachInItsOwnTime(t *testing.T) {
	hangs := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	hangs.Name = "hangs"
	var n atomic.Int64
	works := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "workqueue_depth 5"); n.Add(1) })
	got := fly(t, []scrape.Target{hangs, works}, scrape.Options{Every: 5 * time.Millisecond, Timeout: time.Minute}, func(s *scrape.Scraper) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx) }()
		repotest.Eventually(t, "five scrapes", func() bool { return n.Load() >= 5 })
		cancel()
		<-done
	})
	for _, m := range got.marks {
		if m.Name != "kube-apiserver" || m.Type != record.EventScraped {
			t.Errorf("mark %+v", m)
		}
	}
	if len(got.marks) < 4 {
		t.Errorf("only %d scrapes", len(got.marks))
	}
}

// An apiServer's exposition in size and shape: histograms by verb, resource and
// scope, classic and native, of which one in five gets more values before each
// scrape.
type apiServer struct {
	families   []*dto.MetricFamily
	rng        *rand.Rand
	text, wire []byte
}

func newAPIServer(b *testing.B, resources int) *apiServer {
	a := &apiServer{rng: rand.New(rand.NewPCG(1, 2))}
	for _, name := range []string{
		"apiserver_request_sli_duration_seconds", "apiserver_request_duration_seconds", "apiserver_response_sizes",
		"apiserver_request_body_size_bytes", "field_validation_request_duration_seconds", "etcd_request_duration_seconds",
	} {
		f := &dto.MetricFamily{Name: &name, Help: proto.String("[ALPHA] Something about each verb, group, version, resource, subresource, scope and component."), Type: dto.MetricType_HISTOGRAM.Enum()}
		for i := range resources {
			for _, verb := range []string{"GET", "LIST", "PATCH", "POST", "PUT"} {
				f.Metric = append(f.Metric, newMetric("component", "apiserver", "group", fmt.Sprintf("group-%d.k8s.io", i%20), "resource", fmt.Sprint("resource", i),
					"scope", "resource", "subresource", "status", "verb", verb, "version", "v1"))
			}
		}
		a.families = append(a.families, f)
	}
	a.step(b, 1)
	return a
}

func newMetric(labels ...string) *dto.Metric {
	h := &dto.Histogram{SampleCount: proto.Uint64(0), SampleSum: proto.Float64(0), Schema: proto.Int32(3), ZeroThreshold: proto.Float64(1e-128), ZeroCount: proto.Uint64(0),
		PositiveSpan: []*dto.BucketSpan{{Offset: proto.Int32(-40), Length: proto.Uint32(40)}}, PositiveDelta: make([]int64, 40)}
	for le := range 23 {
		h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: proto.Float64(float64(le) / 8), CumulativeCount: proto.Uint64(0)})
	}
	m := &dto.Metric{Histogram: h}
	for i := 0; i < len(labels); i += 2 {
		m.Label = append(m.Label, &dto.LabelPair{Name: &labels[i], Value: &labels[i+1]})
	}
	return m
}

// step gives values to one histogram in so many.
func (a *apiServer) step(b *testing.B, in int) {
	var text, wire bytes.Buffer
	for _, f := range a.families {
		for _, m := range f.Metric {
			if a.rng.IntN(in) > 0 {
				continue
			}
			h, le := m.Histogram, a.rng.IntN(23)
			*h.SampleCount++
			*h.SampleSum += 0.001 * float64(le+1)
			for i := le; i < len(h.Bucket); i++ {
				*h.Bucket[i].CumulativeCount++
			}
			h.PositiveDelta[le]++
			h.PositiveDelta[le+1]--
		}
		repotest.NoError(b, expfmt.NewEncoder(&text, expfmt.NewFormat(expfmt.TypeTextPlain)).Encode(f))
		repotest.NoError(b, expfmt.NewEncoder(&wire, expfmt.NewFormat(expfmt.TypeProtoDelim)).Encode(f))
	}
	a.text, a.wire = text.Bytes(), wire.Bytes()
}

// BenchmarkScrape is the cost of one scrape of a kube-apiserver's 15,000 points
// in either format: the server sends bytes that are there already, so that the
// cost is ours.
func BenchmarkScrape(b *testing.B) {
	for _, format := range []expfmt.FormatType{expfmt.TypeTextPlain, expfmt.TypeProtoDelim} {
		b.Run(map[expfmt.FormatType]string{expfmt.TypeTextPlain: "text", expfmt.TypeProtoDelim: "protobuf"}[format], func(b *testing.B) {
			a := newAPIServer(b, 20)
			size := 0
			target := serve(b, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", string(expfmt.NewFormat(format)))
				body := a.text
				if format == expfmt.TypeProtoDelim {
					body = a.wire
				}
				size = len(body)
				_, _ = w.Write(body)
			})
			path := filepath.Join(b.TempDir(), "r.wt")
			w := repotest.Must(record.Create(path))(b)
			defer w.Close()
			s := scrape.New(w, clock.Start(), []scrape.Target{target}, scrape.Options{})
			s.Scrape(b.Context())
			defined := flushed(b, w, path)
			b.ReportAllocs()
			var cpu time.Duration
			for b.Loop() {
				b.StopTimer()
				a.step(b, 5)
				before := processTime(b)
				b.StartTimer()
				s.Scrape(b.Context())
				b.StopTimer()
				cpu += processTime(b) - before
				b.StartTimer()
			}
			b.ReportMetric(cpu.Seconds()*1000/float64(b.N), "cpu-ms/scrape")
			b.ReportMetric(float64(size)/1e6, "MB")
			b.ReportMetric(float64(flushed(b, w, path)-defined)/float64(b.N), "B/scrape")
		})
	}
}

// flushed is how large the record stream is, with all that was written.
func flushed(b *testing.B, w *record.Writer, path string) int64 {
	w.Event(record.Event{Type: record.EventWarned})
	info := repotest.Must(os.Stat(path))(b)
	return info.Size()
}

// processTime is the CPU time of this process.
func processTime(b *testing.B) time.Duration {
	var use syscall.Rusage
	repotest.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &use))
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// BenchmarkFirstSight is the cost of points that were never seen before, which
// each scrape of a plane that grows has some of.
func BenchmarkFirstSight(b *testing.B) {
	a := newAPIServer(b, 20)
	for format, body := range map[series.Format][]byte{series.Text: a.text, series.Protobuf: a.wire} {
		b.Run(map[series.Format]string{series.Text: "text", series.Protobuf: "protobuf"}[format], func(b *testing.B) {
			var d series.Delta
			for b.Loop() {
				repotest.NoError(b, series.NewTracker(nil).Update(format, body, &d))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(d.Points), "ns/point")
		})
	}
}

// A target that has a new label value for each request is cut, and costs nothing from
// then on; the others are read as before.
func TestATargetWithoutBoundIsCut(t *testing.T) {
	asked := 0
	bad := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		for i := range 110 {
			fmt.Fprintf(w, "m{id=\"%d-%d\"} 1\n", asked, i)
		}
	})
	bad.Name = "operator"
	good := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "fine 1") })
	got := fly(t, []scrape.Target{bad, good}, scrape.Options{Most: 300}, func(s *scrape.Scraper) {
		for range 5 {
			s.Scrape(t.Context())
		}
	})
	var cut, sound int
	for _, m := range got.marks {
		switch {
		case m.Type == record.EventCut && m.Name == "operator" && m.Count == 300:
			cut++
		case m.Type == record.EventScraped && m.Name == "kube-apiserver":
			sound++
		}
	}
	if cut != 1 || asked != 3 || sound != 5 {
		t.Errorf("cut %d times after %d readings; %d readings of the other", cut, asked, sound)
	}
}
