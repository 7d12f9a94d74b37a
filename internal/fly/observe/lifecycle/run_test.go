package lifecycle_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/observe/lifecycle"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
	"github.com/windtunnel/windtunnel/scenario"
)

// unsteady is an API server that serves widgets late, cuts a watch in the
// middle of an event, forgets versions, and refuses for a moment, as one does
// that was restarted.
type unsteady struct {
	mu      sync.Mutex
	asked   int // for the group's discovery
	lists   int
	watches []string // the versions that they began from
}

func widget(name, version, phase string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"n","uid":"uid-%[1]s","resourceVersion":%q},"status":{"phase":%q}}`, name, version, phase)
}

func (s *unsteady) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.URL.Path == "/apis/example.org/v1":
		if s.asked++; s.asked < 3 {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, `{"resources":[{"name":"widgets","kind":"Widget","namespaced":true}]}`)
	case r.URL.Path == "/api/v1/namespaces":
		fmt.Fprint(w, `{"metadata":{"resourceVersion":"1"},"items":[]}`)
	case r.URL.Query().Get("watch") == "":
		s.list(w, r)
	default:
		s.watches = append(s.watches, r.URL.Query().Get("resourceVersion"))
		s.watch(w, r, len(s.watches))
	}
}

func (s *unsteady) list(w http.ResponseWriter, r *http.Request) {
	s.lists++
	switch s.lists {
	case 1:
		fmt.Fprintf(w, `{"metadata":{"resourceVersion":"10"},"items":[%s]}`, widget("a", "9", ""))
	case 2: // as an API server that has been started anew and knows of no such resource yet
		http.NotFound(w, r)
	default:
		fmt.Fprintf(w, `{"metadata":{"resourceVersion":"30"},"items":[%s,%s]}`, widget("b", "25", "Ready"), widget("c", "26", ""))
	}
}

func (s *unsteady) watch(w http.ResponseWriter, r *http.Request, n int) {
	flush := func(format string, args ...any) {
		fmt.Fprintf(w, format, args...)
		w.(http.Flusher).Flush()
	}
	switch n {
	case 1: // b comes; the event of d is cut off
		flush(`{"type":"ADDED","object":%s}`+"\n", widget("b", "11", ""))
		flush(`{"type":"ADDED","obj`)
		time.Sleep(20 * time.Millisecond)
		panic(http.ErrAbortHandler)
	case 2: // from 11: d again, whole, and once more; then a is gone
		flush(`{"type":"ADDED","object":%s}`+"\n", widget("d", "12", ""))
		flush(`{"type":"ADDED","object":%s}`+"\n", widget("d", "12", ""))
		flush(`{"type":"DELETED","object":%s}`+"\n", widget("a", "13", ""))
		flush(`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"15"}}}` + "\n")
	case 3: // from 15
		flush(`{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old resource version: 15 (20)"}}` + "\n")
	default:
		flush(`{"type":"MODIFIED","object":%s}`+"\n", widget("c", "31", "Ready"))
		flush(`{"type":"DELETED","object":%s}`+"\n", widget("b", "32", "Ready"))
		flush(`{"type":"ADDED","object":%s}`+"\n", widget("last", "33", ""))
		s.mu.Unlock()
		<-r.Context().Done()
		s.mu.Lock()
	}
}

func TestAnUnsteadyServerLosesAndDoublesNothing(t *testing.T) {
	plane := &unsteady{}
	server := httptest.NewUnstartedServer(plane)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	c := clock.Start()
	client := repotest.Must(wire.New(endpoint.New(server.URL, ca, endpoint.Identity{}), wire.Options{Clock: c}))(t)
	t.Cleanup(func() { _ = client.Close() })
	path := filepath.Join(t.TempDir(), "r.wt")
	records := repotest.Must(record.Create(path))(t)
	d := repotest.Must(lifecycle.Declare(records, c, nil, []scenario.Lifecycle{scenario.Lifecycle{Name: "w", Of: "example.org/v1 Widget",
		Phases: []scenario.Phase{{Name: "ready", When: "{.status.phase}=Ready"}}}.Resolved()}))(t)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	var wait sync.WaitGroup
	wait.Go(func() { d.Run(ctx, client, discovery.New(client)) })
	if err := d.Synced(ctx); err != nil { // not served: nothing to wait for
		t.Fatal(err)
	}
	repotest.Eventually(t, "the last object's phase", func() bool { return strings.Contains(phasesOf(t, path), "last created") })
	stop()
	wait.Wait()
	repotest.NoError(t, records.Close())
	// a was there within the time in which nobody served it; d vanished and b
	// became ready while the watch was interrupted.
	if got, want := phasesOf(t, path), "a created~, b created, d created, a deleted, b ready~, c created~, d deleted~, c ready, b deleted, last created"; got != want {
		t.Errorf("recorded %s\nwant     %s", got, want)
	}
	plane.mu.Lock()
	defer plane.mu.Unlock()
	if want := []string{"10", "11", "15", "30"}; !slices.Equal(plane.watches, want) {
		t.Errorf("watched from %v, want %v", plane.watches, want)
	}
}

// Pods of others are not even read where only those with a label are wanted.
func TestPodsWithoutTheLabelAreNotRecorded(t *testing.T) {
	c := clock.Start()
	server := apitest.New(t)
	client := apitest.Client(t, server.Endpoint(), c)
	path := filepath.Join(t.TempDir(), "r.wt")
	records := repotest.Must(record.Create(path))(t)
	create := func(name, label string) {
		t.Helper()
		body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"n","labels":{%q:"r1"}}}`, name, label)
		r, err := client.Do(t.Context(), &wire.Request{Method: "POST", Path: "/api/v1/namespaces/n/pods", ContentType: "application/json", Body: body})
		if err != nil || !r.Success() {
			t.Fatalf("%v, %+v", err, r)
		}
	}
	create("theirs-before", "their.own/run")
	create("ours-before", "windtunnel.dev/run")
	o := lifecycle.New(records).WithLabel("windtunnel.dev/run", "r1")
	ctx, stop := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() { _ = o.Run(ctx, client, c) })
	<-o.Synced()
	create("theirs", "their.own/run")
	create("ours", "windtunnel.dev/run")
	repotest.Eventually(t, "our pod's creation", func() bool { return strings.Contains(phasesOf(t, path), "ours created") })
	stop()
	wait.Wait()
	repotest.NoError(t, records.Close())
	if got, want := phasesOf(t, path), "ours-before unknown~ever, ours created"; got != want {
		t.Errorf("recorded %s, want %s", got, want)
	}
}

// TestKindsThatNobodyServes holds that a lifecycle of a kind that was never served is
// requested and not measured.
func TestKindsThatNobodyServes(t *testing.T) {
	server := apitest.New(t, apitest.Resource{Version: "example.org/v1", Plural: "widgets", Kind: "Widget", Namespaced: true})
	c := clock.Start()
	client := repotest.Must(wire.New(server.Endpoint(), wire.Options{Clock: c}))(t)
	t.Cleanup(func() { _ = client.Close() })
	path := filepath.Join(t.TempDir(), "r.wt")
	records := repotest.Must(record.Create(path))(t)
	of := func(name, kind string) scenario.Lifecycle {
		return scenario.Lifecycle{Name: name, Of: "example.org/v1 " + kind, Phases: []scenario.Phase{{Name: "ready", When: "{.status.phase}=Ready"}}}.Resolved()
	}
	d := repotest.Must(lifecycle.Declare(records, c, nil, []scenario.Lifecycle{of("served", "Widget"), of("not", "Gadget")}))(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wait sync.WaitGroup
	wait.Go(func() { d.Run(ctx, client, discovery.New(client)) })
	repotest.NoError(t, d.Synced(ctx))
	stop()
	wait.Wait()
	repotest.NoError(t, records.Close())
	var unmet []string
	if _, err := record.Read(path, func(*record.Stream) record.Visitor {
		return record.Visitor{Event: func(e record.Event) {
			if e.Type == record.EventUnmet {
				unmet = append(unmet, fmt.Sprint(e.Name, ": ", e.State, ": ", e.Text))
			}
		}}
	}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"lifecycle not: not-measured: nobody served example.org/v1 Gadget"}; !slices.Equal(unmet, want) {
		t.Errorf("unmet: %q, want %q", unmet, want)
	}
}

// phasesOf are the phases recorded, in their order; ~ stands behind those that
// are known within bounds only.
func phasesOf(t *testing.T, path string) string {
	t.Helper()
	var out []string
	repotest.Must(record.Read(path, func(s *record.Stream) record.Visitor {
		return record.Visitor{Phase: func(p record.Phase) {
			text := s.Objects[p.Object].Name + " " + p.Phase
			if p.Within == record.Ever {
				text += "~ever"
			} else if p.Within > 0 {
				text += "~"
			}
			out = append(out, text)
		}}
	}))(t)
	return strings.Join(out, ", ")
}
