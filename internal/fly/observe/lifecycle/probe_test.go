package lifecycle

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

const ms = clock.Time(time.Millisecond)

// probeTo returns a probe that writes to a new stream.
func probeTo(t *testing.T) (p *Probe, records *record.Writer, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "p.wt")
	records = repotest.Must(record.Create(path))(t)
	return NewProbe(records, clock.Start()), records, path
}

// written returns the values of samples and the texts of warnings of a stream.
func written(t *testing.T, records *record.Writer, path string) (lags []float64, warnings []string) {
	t.Helper()
	repotest.NoError(t, records.Close())
	repotest.Must(record.Read(path, func(*record.Stream) record.Visitor {
		return record.Visitor{
			Sample: func(v record.Sample) { lags = append(lags, v.Value) },
			Event: func(m record.Event) {
				if m.Type == record.EventWarned {
					warnings = append(warnings, m.Text)
				}
			},
		}
	}))(t)
	return lags, warnings
}

// TestPromptWatchHasALagOfNothing tells a watch that is never late, which has a
// lag of 0, from one of which nobody knows, which has none.
func TestPromptWatchHasALagOfNothing(t *testing.T) {
	for _, tt := range []struct {
		name string
		play func(*Probe)
		want []float64
	}{
		{"no answer", func(p *Probe) { p.uncertaintyOf("pods", 150, 150*ms) }, nil},
		{"no event", func(p *Probe) { p.addAnswer(answer{100, 100 * ms, 101 * ms}) }, nil},
		{"shown before an answer knew of it", func(p *Probe) {
			p.addAnswer(answer{100, 100 * ms, 101 * ms})
			p.uncertaintyOf("pods", 150, 150*ms)
			p.uncertaintyOf("pods", 160, 160*ms)
			p.addAnswer(answer{155, 350 * ms, 351 * ms})
		}, []float64{0}},
		{"no answer knows of it yet", func(p *Probe) {
			p.addAnswer(answer{100, 100 * ms, 101 * ms})
			p.uncertaintyOf("pods", 150, 150*ms)
			p.addAnswer(answer{120, 120 * ms, 121 * ms})
		}, nil},
		{"ahead in a store that is no more", func(p *Probe) {
			p.addAnswer(answer{100, 100 * ms, 101 * ms})
			p.uncertaintyOf("pods", 110, 150*ms)
			p.addAnswer(answer{5, 200 * ms, 201 * ms})
			p.addAnswer(answer{110, 300 * ms, 301 * ms})
		}, nil},
		{"late", func(p *Probe) {
			p.addAnswer(answer{100, 100 * ms, 101 * ms})
			p.addAnswer(answer{200, 350 * ms, 351 * ms})
			p.uncertaintyOf("pods", 150, 1351*ms)
		}, []float64{1}},
	} {
		p, records, path := probeTo(t)
		tt.play(p)
		p.writeLag()
		if got, _ := written(t, records, path); !slices.Equal(got, tt.want) {
			t.Errorf("%s: lags %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestProbeWithoutAnAnswerIsSaid runs a probe against a server that refuses it,
// and against one that answers.
func TestProbeWithoutAnAnswerIsSaid(t *testing.T) {
	for _, refuses := range []bool{true, false} {
		asked := make(chan string, 100)
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked <- r.URL.Path
			if refuses {
				http.Error(w, "no", http.StatusForbidden)
				return
			}
			_, _ = w.Write([]byte(`{"metadata":{"resourceVersion":"7"},"items":[]}`))
		}))
		server.EnableHTTP2 = true
		server.StartTLS()
		ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		client := repotest.Must(wire.New(endpoint.New(server.URL, ca, endpoint.Identity{}), wire.Options{Clock: clock.Start()}))(t)
		p, records, path := probeTo(t)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { p.Run(ctx, client); close(done) }()
		// A list of a resource that the official SLOs speak of would add a row to them.
		if path := <-asked; !strings.HasPrefix(path, "/apis/apiregistration.k8s.io/") {
			t.Errorf("asked for %s", path)
		}
		<-asked // the first one was answered
		stop()
		<-done
		_, warnings := written(t, records, path)
		if said := len(warnings) == 1 && strings.Contains(warnings[0], "403"); said != refuses || len(warnings) > 1 {
			t.Errorf("refused %v: warnings %q", refuses, warnings)
		}
		_ = client.Close()
		server.Close()
	}
}

// TestHowLongAWatchIsWhole holds until when all is known of what a watch was
// to show: what a gap hides came about since then.
func TestHowLongAWatchIsWhole(t *testing.T) {
	p, records, _ := probeTo(t)
	defer records.Close()
	for _, b := range []answer{{100, 100 * ms, 110 * ms}, {200, 350 * ms, 360 * ms}, {200, 600 * ms, 610 * ms}, {300, 850 * ms, 860 * ms}} {
		p.addAnswer(b)
	}
	for _, tt := range []struct {
		name string
		show func(*watchState)
		want clock.Time
	}{
		{"a list shows what was there when it was asked for", func(s *watchState) {
			s.requestedAt = 1000 * ms
			s.listBegin()
			s.dateEvent(watch.Event{Kind: watch.Listed, At: 4000 * ms}, "u")
			s.listEnd()
		}, 1000 * ms},
		{"a prompt event", func(s *watchState) { s.dateEvent(watch.Event{Kind: watch.Added, Version: 300, At: 870 * ms}, "u") }, 870 * ms},
		{"an event that was held up", func(s *watchState) { s.dateEvent(watch.Event{Kind: watch.Added, Version: 250, At: 5000 * ms}, "u") }, 600 * ms},
		{"a bookmark that was held up", func(s *watchState) { s.noteBookmark(5000*ms, 200) }, 600 * ms},
		{"a bookmark of the newest version", func(s *watchState) { s.noteBookmark(5000*ms, 300) }, 5000 * ms},
		{"a bookmark without a number", func(s *watchState) { s.noteBookmark(5000*ms, 0) }, 5000 * ms},
		{"what is older takes nothing back", func(s *watchState) { s.noteBookmark(5000*ms, 300); s.noteBookmark(6000*ms, 200) }, 5000 * ms},
	} {
		s := newWatchState("pods", "", p)
		tt.show(&s)
		s.began = true
		if s.last != tt.want {
			t.Errorf("%s: whole until %d ms, want %d", tt.name, s.last/ms, tt.want/ms)
		}
		if got, want := s.dateListed(7000*ms).within, (7000 * ms).Sub(tt.want); got != want {
			t.Errorf("%s: within %v, want %v", tt.name, got, want)
		}
	}
	before := p.lag["configmaps"]
	quiet := newWatchState("configmaps", "", p)
	quiet.noteBookmark(9000*ms, 150)
	if after, known := p.lag["configmaps"]; known || after != before {
		t.Errorf("a bookmark of a quiet resource made a lag of %v", after)
	}
}
