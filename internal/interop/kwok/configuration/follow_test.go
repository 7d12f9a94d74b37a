package configuration

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// served is a server of custom resources: lists by path, and one watch each.
type served struct {
	mu     sync.Mutex
	lists  map[string]string // items of a list, by resource; absent: 404
	events map[string]chan string
}

func (s *served) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := strings.TrimPrefix(r.URL.Path, "/apis/kwok.x-k8s.io/v1alpha1/")
	s.mu.Lock()
	items, ok := s.lists[resource]
	events := s.events[resource]
	s.mu.Unlock()
	switch {
	case r.Header.Get("Accept") == "":
		http.Error(w, "no Accept", http.StatusNotAcceptable)
	case !ok:
		http.Error(w, `{"kind":"Status","code":404}`, http.StatusNotFound)
	case r.URL.Query().Get("watch") == "":
		fmt.Fprintf(w, `{"metadata":{"resourceVersion":"7"},"items":[%s]}`, items)
	default:
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		for {
			select {
			case e, ok := <-events:
				if !ok {
					return
				}
				fmt.Fprintln(w, e)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
}

func clientOf(t *testing.T, h http.Handler) *wire.Client {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	c := repotest.Must(wire.New(endpoint.New(server.URL, ca, endpoint.Identity{}), wire.Options{Clock: clock.Start()}))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func logsObject(name, version, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"kwok.x-k8s.io/v1alpha1","kind":"Logs","metadata":{"name":%q,"namespace":"a","resourceVersion":%q,"managedFields":[{}]},"spec":%s,"status":{}}`,
		name, version, spec)
}

func TestFollow(t *testing.T) {
	events := make(chan string)
	s := &served{
		lists: map[string]string{
			"logs":   logsObject("one", "5", `{"logs":[{"logsFile":"1"}]}`) + "," + logsObject("bad", "6", `{"logz":[]}`),
			"stages": `{"apiVersion":"kwok.x-k8s.io/v1alpha1","kind":"Stage","metadata":{"name":"s"},"spec":{"resourceRef":{"kind":"Pod"}}}`,
		},
		events: map[string]chan string{"logs": events},
	}
	var log bytes.Buffer
	var mu sync.Mutex
	logger := slog.New(slog.NewTextHandler(&locked{&mu, &log}, nil))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	states, ended := make(chan string, 10), make(chan error, 1)
	go func() {
		ended <- Follow(ctx, Source{Client: clientOf(t, s), Clock: clock.Start(), Kinds: []string{KindLogs, KindStage, KindMetric}, Log: logger},
			func(o *Objects) { states <- describe(o) })
	}()
	until := func(want string) {
		t.Helper()
		deadline := time.After(10 * time.Second)
		for last := ""; last != want; {
			select {
			case last = <-states:
			case <-deadline:
				t.Fatalf("%s, want %s", last, want)
			}
		}
	}
	until("one=1 stages=1 metrics=0")
	events <- `{"type":"ADDED","object":` + logsObject("two", "8", `{"logs":[{"logsFile":"2"}]}`) + `}`
	until("one=1 two=2 stages=1 metrics=0")
	events <- `{"type":"MODIFIED","object":` + logsObject("one", "9", `{"logs":[{"logsFile":"11"}]}`) + `}`
	until("one=11 two=2 stages=1 metrics=0")
	events <- `{"type":"DELETED","object":` + logsObject("two", "10", `{}`) + `}`
	until("one=11 stages=1 metrics=0")
	s.mu.Lock() // the kind that was not there is installed, and one goes away
	delete(s.lists, "logs")
	s.lists["metrics"] = `{"apiVersion":"kwok.x-k8s.io/v1alpha1","kind":"Metric","metadata":{"name":"m"},"spec":{"path":"/metrics/m","metrics":[]}}`
	s.mu.Unlock()
	close(events)
	until("stages=1 metrics=1")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{
		`msg="object left out" kind=Logs namespace=a name=bad err="Logs a/bad: spec.logz: there is no field \"logz\"; is it \"logs\"?"`,
		`msg="kind not served" kind=Metric err="follow /apis/kwok.x-k8s.io/v1alpha1/metrics: list: status 404: `,
	} {
		if n := strings.Count(log.String(), want); n != 1 {
			t.Errorf("%d times %s in\n%s", n, want, log.String())
		}
	}
}

// locked is a writer for many goroutines.
type locked struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func describe(o *Objects) string {
	var b strings.Builder
	for _, r := range o.Logs.Pods {
		fmt.Fprintf(&b, "%s=%s ", r.Name, r.Entries[0].LogsFile)
	}
	fmt.Fprintf(&b, "stages=%d metrics=%d", len(o.Stages), len(o.Metrics))
	return b.String()
}
