package load_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/load/informer"
	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
)

// inform is a plan of clients that are informers of pods.
func inform(t *testing.T, form informer.Form, clients int) load.Plan {
	t.Helper()
	f := repotest.Must(load.NewForm(discovery.Resource{Name: "pods", Root: "/api/v1", Plural: "pods", Namespaced: true},
		load.Target{Verb: "watch", AllNamespaces: true, Hold: time.Hour, Informer: form}))(t)
	return load.Plan{Step: "inform", Ops: []record.Op{f.Op("inform"), f.ListOp("inform")}, Count: clients, Pace: pace.Burst(), Clients: agents(clients, clients),
		Build: func(_ int, req *load.Request) (bool, error) {
			f.Fill(req, "", "")
			req.ListOp = 1
			return true, nil
		}}
}

// script answers the requests of each client in turn, and notes what they were.
type script struct {
	mu    sync.Mutex
	asked map[string][]string
	steps []http.HandlerFunc
	done  func() // every client has come to the end of the script
	users int
}

func (x *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, q := r.Header.Get("Impersonate-User"), r.URL.Query()
	q.Del("timeoutSeconds") // it is drawn
	x.mu.Lock()
	n := len(x.asked[user])
	x.asked[user] = append(x.asked[user], q.Encode())
	ended := 0
	for _, asked := range x.asked {
		if len(asked) > len(x.steps) {
			ended++
		}
	}
	if ended == x.users && n == len(x.steps) {
		x.done()
	}
	x.mu.Unlock()
	if n < len(x.steps) {
		x.steps[n](w, r)
		return
	}
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

func list(version, next string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":%q,"continue":%q},"items":[{"metadata":{"resourceVersion":"1"}}]}`, version, next)
	}
}

// bring is a watch that brings these events and ends.
func bring(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for _, e := range events {
			fmt.Fprintln(w, e)
		}
	}
}

func pod(event, version string) string {
	return fmt.Sprintf(`{"type":%q,"object":{"kind":"Pod","apiVersion":"v1","metadata":{"annotations":{"resourceVersion\"":"x"},"name":"p","resourceVersion":%q},"spec":{"x":{"metadata":{"resourceVersion":"9"}}}}}`, event, version)
}

const (
	gone       = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old resource version","reason":"Expired","code":410}}`
	initialEnd = `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"20","annotations":{"k8s.io/initial-events-end":"true"}}}}`
)

// play lets two clients play a script and returns the bench and what the first asked.
func play(t *testing.T, form informer.Form, steps ...http.HandlerFunc) (*bench, []string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	x := &script{asked: map[string][]string{}, steps: steps, done: stop, users: 2}
	b := newBench(t, x.ServeHTTP, load.Options{})
	if err := b.Run(ctx, inform(t, form, x.users)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range x.users {
		if user := fmt.Sprint("agent-", i); !slices.Equal(x.asked[user], x.asked["agent-0"]) {
			t.Errorf("%s asked %v, agent-0 %v", user, x.asked[user], x.asked["agent-0"])
		}
	}
	return b, x.asked["agent-0"]
}

const (
	watching = "allowWatchBookmarks=true&"
	initial  = "&resourceVersionMatch=NotOlderThan&sendInitialEvents=true"
)

// TestInformersThatList: a list in pages, a watch from its version, a watch that resumes
// where the last event or bookmark was, and a list once more when that is gone.
func TestInformersThatList(t *testing.T) {
	b, asked := play(t, informer.List,
		list("10", "next"), list("10", ""),
		bring(pod("ADDED", "11"), pod("MODIFIED", "12")),
		bring(strings.Replace(pod("BOOKMARK", "15"), `"spec"`, `"s"`, 1)),
		bring(gone), list("20", ""))
	want := []string{
		"limit=500&resourceVersion=0", "continue=next&limit=500",
		watching + "resourceVersion=10&watch=true", watching + "resourceVersion=12&watch=true", watching + "resourceVersion=15&watch=true",
		"limit=500&resourceVersion=15", watching + "resourceVersion=20&watch=true", // the first list came in pages: so do all
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked\n%s\nwant\n%s", strings.Join(asked, "\n"), strings.Join(want, "\n"))
	}
	counts := b.counts(t)
	for name, want := range map[string]float64{
		"windtunnel_load_relists_total": 2, "windtunnel_load_watches_ended_total expired": 2, "windtunnel_load_watches_ended_total closed": 4,
		"windtunnel_load_watches_broken_total": 0, "windtunnel_load_relist_bytes_total": 2 * 133,
	} {
		if counts[name] != want {
			t.Errorf("%s is %v, want %v", name, counts[name], want)
		}
	}
	// The last watches of the script may end before their headers are read.
	if n := counts["windtunnel_load_watch_recovery_seconds_count"]; n < 4 || n > 6 {
		t.Errorf("%v recoveries", n)
	}
}

// counts closes the records and returns the last value of each series: of the plain ones
// by name, of those with a reason by name and reason.
func (b *bench) counts(t *testing.T) map[string]float64 {
	t.Helper()
	repotest.NoError(t, b.records.Close())
	counts := map[string]float64{}
	repotest.Must(record.Read(b.path, func(s *record.Stream) record.Visitor {
		return record.Visitor{Sample: func(v record.Sample) {
			series := s.Series[v.Series]
			name := series.Name
			for _, l := range series.Labels {
				if l.Name == "reason" {
					name += " " + l.Value
				}
			}
			counts[name] = v.Value
		}}
	}))(t)
	return counts
}

// TestInformersThatWatchWhatExists: a watch with initial events, which goes on where they
// end; a server that has none; one that ends in their midst.
func TestInformersThatWatchWhatExists(t *testing.T) {
	_, asked := play(t, informer.WatchList,
		bring(pod("ADDED", "3"), pod("ADDED", "2")), // in no order, and without their end
		bring(pod("ADDED", "3"), initialEnd, pod("ADDED", "21")),
		bring(gone),
		bring(gone), // with the version of what it has, and then with none
		bring(pod("ADDED", "30"), initialEnd),
		bring(gone),
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnprocessableEntity) },
		list("40", ""))
	want := []string{
		watching + initial[1:] + "&watch=true", watching + initial[1:] + "&watch=true",
		watching + "resourceVersion=21&watch=true",
		watching + "resourceVersion=21" + initial + "&watch=true", watching + initial[1:] + "&watch=true",
		watching + "resourceVersion=20&watch=true",
		watching + "resourceVersion=20" + initial + "&watch=true", "resourceVersion=20",
		watching + "resourceVersion=40&watch=true",
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked\n%s\nwant\n%s", strings.Join(asked, "\n"), strings.Join(want, "\n"))
	}
}

// TestInformersHeedTheServer: Retry-After, and what is recorded of it.
func TestInformersHeedTheServer(t *testing.T) {
	busy := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	}
	b, asked := play(t, informer.List, busy, list("10", ""), busy)
	want := []string{"limit=500&resourceVersion=0", "limit=500&resourceVersion=0", watching + "resourceVersion=10&watch=true", watching + "resourceVersion=10&watch=true"}
	if !slices.Equal(asked, want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
	failed := 0
	for _, c := range b.calls(t) {
		if c.Code != http.StatusTooManyRequests {
			continue
		}
		if failed++; !c.Again || c.Outcome != record.Failed {
			t.Errorf("call %+v", c)
		}
	}
	if failed != 4 {
		t.Errorf("%d calls refused, want 4", failed)
	}
}

// TestInformersOfARealServer: informers of both forms at a hollow cluster that is stopped,
// is started again, and forgets its events.
func TestInformersOfARealServer(t *testing.T) {
	for name, form := range map[string]informer.Form{"list": informer.List, "watchList": informer.WatchList} {
		t.Run(name, func(t *testing.T) {
			server, err := hollow.New(hollow.Options{})
			repotest.NoError(t, err)
			defer server.Close()
			cluster := repotest.Must(server.Cluster("one"))(t)
			b := &bench{path: filepath.Join(t.TempDir(), "r.wt")}
			if b.records, err = record.Create(b.path); err != nil {
				t.Fatal(err)
			}
			if b.Generator, err = load.New(load.Options{Endpoint: cluster.Endpoint(), Records: b.records, Clock: clock.Start()}); err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			create := func(name string) {
				r, err := b.Client().Do(t.Context(), &wire.Request{Method: http.MethodPost, Path: "/api/v1/namespaces/default/pods", ContentType: load.JSON,
					Body: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q},"spec":{"containers":[{"name":"c","image":"i"}]}}`, name)})
				if err != nil || !r.Success() {
					t.Fatalf("create %s: %v, %v", name, r, err)
				}
			}
			create("a")
			const clients = 5
			ctx, stop := context.WithCancel(t.Context())
			p := inform(t, form, clients)
			p.Clients.Identity = func(int) load.Identity { return load.Identity{} }
			var lists, ended atomic.Int64
			p.Done = func(r load.Result) {
				switch {
				case r.Held > 0:
					ended.Add(1)
				case r.Outcome == record.OK:
					lists.Add(1)
				}
			}
			open := func() int64 { return int64(b.Progress().OK) - lists.Load() - ended.Load() }
			ran := make(chan error, 1)
			go func() { ran <- b.Run(ctx, p) }()
			repotest.Eventually(t, "all informers watch", func() bool { return open() == clients })
			cluster.Stop()
			repotest.Eventually(t, "all watches have ended", func() bool { return open() == 0 })
			repotest.NoError(t, cluster.Start())
			repotest.Eventually(t, "all informers watch again", func() bool { return open() == clients })
			cluster.Stop()
			repotest.Eventually(t, "all watches have ended once more", func() bool { return open() == 0 })
			if _, err := cluster.Load(strings.NewReader(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b","namespace":"default"}}`)); err != nil {
				t.Fatal(err)
			}
			cluster.Compact()
			repotest.NoError(t, cluster.Start())
			repotest.Eventually(t, "all informers watch at last", func() bool { return open() == clients })
			stop()
			if err := <-ran; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			counts := b.counts(t)
			// A watch that ends within a second without an event, or whose stream the server resets,
			// lists again at the first stop, too.
			if relists, recovered := counts["windtunnel_load_relists_total"], counts["windtunnel_load_watch_recovery_seconds_count"]; relists < clients || recovered < 2*clients || relists > recovered {
				t.Errorf("%v relists and %v recoveries, want %d and %d at least", relists, recovered, clients, 2*clients)
			}
		})
	}
}
