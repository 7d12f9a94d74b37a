package scrape_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/clock"
	"github.com/windtunnel/windtunnel/observe/scrape"
	"github.com/windtunnel/windtunnel/record"
)

// flown is everything that a scraper wrote.
type flown struct {
	samples []string // KEY VALUE in the order of writing
	marks   []record.Mark
}

func fly(t *testing.T, targets []scrape.Target, o scrape.Options, do func(*scrape.Scraper)) flown {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r.wt")
	w, err := record.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	do(scrape.New(w, clock.Start(), targets, o))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var out flown
	_, err = record.Read(path, func(s *record.Stream) record.Visitor {
		return record.Visitor{
			Sample: func(v record.Sample) {
				if series := s.Series[v.Series]; series.Name != "scrape_duration_seconds" {
					out.samples = append(out.samples, fmt.Sprintf("%s %v", series.Key(), v.Value))
				}
			},
			Mark: func(m record.Mark) { out.marks = append(out.marks, m) },
		}
	})
	if err != nil {
		t.Fatal(err)
	}
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
		fmt.Fprintf(w, "workqueue_depth{name=\"job\"} %d\napiserver_request_total{code=\"200\"} 7\nunwanted 5\nprocess_cpu_seconds_total 1\n", depth.Add(1)/2)
	})
	got := fly(t, []scrape.Target{target}, scrape.Options{}, func(s *scrape.Scraper) {
		for range 4 {
			s.Scrape(t.Context())
		}
	})
	want := []string{
		`workqueue_depth{target="kube-apiserver",name="job"} 0`, `apiserver_request_total{target="kube-apiserver",code="200"} 7`,
		`workqueue_depth{target="kube-apiserver",name="job"} 1`, `workqueue_depth{target="kube-apiserver",name="job"} 2`,
	}
	if fmt.Sprint(got.samples) != fmt.Sprint(want) {
		t.Errorf("samples %q, want %q", got.samples, want)
	}
	if len(got.marks) != 4 || got.marks[3].Kind != record.MarkScrape || got.marks[3].Name != "kube-apiserver" {
		t.Errorf("marks %v", got.marks)
	}
}

func TestProcessMetricsOfElsewhere(t *testing.T) {
	target := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "process_cpu_seconds_total 1.5") })
	target.Process = true
	got := fly(t, []scrape.Target{target}, scrape.Options{}, func(s *scrape.Scraper) { s.Scrape(t.Context()) })
	if len(got.samples) != 1 {
		t.Errorf("samples %q", got.samples)
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
		kind := record.MarkNotScrape
		if says == "" {
			kind = record.MarkScrape
		}
		if m := got.marks[i]; m.Kind != kind || !strings.Contains(m.Text, says) {
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
		for n.Load() < 5 {
			time.Sleep(time.Millisecond)
		}
		cancel()
		<-done
	})
	for _, m := range got.marks {
		if m.Name != "kube-apiserver" || m.Kind != record.MarkScrape {
			t.Errorf("mark %+v", m)
		}
	}
	if len(got.marks) < 4 {
		t.Errorf("only %d scrapes", len(got.marks))
	}
}

// An apiServer's exposition in size and shape: histograms by verb, resource and
// scope, most of which nobody keeps.
type apiServer struct {
	body   []byte
	values []int // where the last digit of a value stands
	rng    *rand.Rand
}

func newAPIServer(resources int) *apiServer {
	a := &apiServer{rng: rand.New(rand.NewPCG(1, 2))}
	var b bytes.Buffer
	for _, family := range []string{
		"apiserver_request_sli_duration_seconds", "apiserver_request_duration_seconds", "apiserver_response_sizes",
		"apiserver_request_body_size_bytes", "field_validation_request_duration_seconds", "etcd_request_duration_seconds",
	} {
		fmt.Fprintf(&b, "# HELP %s [ALPHA] Something about each verb, group, version, resource, subresource, scope and component.\n# TYPE %s histogram\n", family, family)
		for i := range resources {
			for _, verb := range []string{"GET", "LIST", "PATCH", "POST", "PUT"} {
				labels := fmt.Sprintf(`component="apiserver",group="group-%d.k8s.io",resource="resource%d",scope="resource",subresource="status",verb="%s",version="v1"`, i%20, i, verb)
				for le := range 24 {
					fmt.Fprintf(&b, "%s_bucket{%s,le=\"%d\"} %d\n", family, labels, le, 1000+a.rng.IntN(9000))
					a.values = append(a.values, b.Len()-2)
				}
				fmt.Fprintf(&b, "%s_sum{%s} %v\n%s_count{%s} %d\n", family, labels, a.rng.Float64()*1e4, family, labels, a.rng.IntN(9000))
			}
		}
	}
	a.body = b.Bytes()
	return a
}

// step changes one value in five.
func (a *apiServer) step() {
	for _, i := range a.values {
		if a.rng.IntN(5) == 0 {
			a.body[i] = '0' + byte(a.rng.IntN(10))
		}
	}
}

// BenchmarkScrape is the cost of one scrape of a kube-apiserver's 3 MB; the
// server's share is in it, since both run in this process.
func BenchmarkScrape(b *testing.B) {
	a := newAPIServer(20)
	target := serve(b, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(a.body)
	})
	w, err := record.Create(filepath.Join(b.TempDir(), "r.wt"))
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	s := scrape.New(w, clock.Start(), []scrape.Target{target}, scrape.Options{})
	s.Scrape(b.Context())
	b.ReportAllocs()
	var whole syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &whole)
	before := whole.Utime.Nano() + whole.Stime.Nano()
	for b.Loop() {
		b.StopTimer()
		a.step()
		b.StartTimer()
		s.Scrape(b.Context())
	}
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &whole)
	b.ReportMetric(float64(whole.Utime.Nano()+whole.Stime.Nano()-before)/1e6/float64(b.N), "cpu-ms/scrape")
	b.ReportMetric(float64(len(a.body))/1e6, "MB")
}
