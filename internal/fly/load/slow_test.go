package load_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/load/informer"
	"github.com/windtunnel/windtunnel/internal/fly/load/reader"
	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
)

// An informer that stalls sees the end of its watch when it has read what came before it: it
// resumes then, from the last event.
func TestStalledInformerResumesFromWhatItRead(t *testing.T) {
	const stall = 300 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	var asked []string
	var ended, resumed time.Time
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		q.Del("timeoutSeconds")
		asked = append(asked, q.Encode())
		switch len(asked) {
		case 1:
			list("10", "")(w, r)
		case 2:
			ended = time.Now()
			bring(pod("MODIFIED", "11"), pod("MODIFIED", "12"))(w, r)
		default:
			resumed = time.Now()
			w.(http.Flusher).Flush()
			stop()
			<-r.Context().Done()
		}
	}, load.Options{})
	p := inform(t, informer.List, 1)
	p.Clients.Reader = func() load.Reader { return reader.New(reader.Speed{Stalls: true, For: stall}) }
	if err := b.Run(ctx, p); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	want := []string{"limit=500&resourceVersion=0", watching + "resourceVersion=10&watch=true", watching + "resourceVersion=12&watch=true"}
	if !slices.Equal(asked, want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
	if pause := resumed.Sub(ended); pause < stall {
		t.Errorf("resumed after %v, in the midst of a stall of %v", pause, stall)
	}
}

// valve is a reader that reads nothing until it is opened.
type valve struct{ open *atomic.Bool }

func (valve) Begin(clock.Time) {}

func (v valve) Read(now clock.Time, waiting int) (int, clock.Time) {
	if !v.open.Load() {
		return 0, now
	}
	return waiting, now
}

// informOfMaps is a plan of clients that are informers of config maps, and read them so.
func informOfMaps(t *testing.T, clients int, r load.Reader) load.Plan {
	t.Helper()
	f := repotest.Must(load.NewForm(discovery.Resource{Name: "configmaps", Root: "/api/v1", Plural: "configmaps", Namespaced: true},
		load.Target{Verb: "watch", AllNamespaces: true, Hold: time.Hour, Informer: informer.List}))(t)
	c := agents(clients, clients)
	c.Identity = func(int) load.Identity { return load.Identity{} }
	c.Reader = func() load.Reader { return r }
	return load.Plan{Step: "slow", Ops: []record.Op{f.Op("slow"), f.ListOp("slow")}, Count: clients, Pace: pace.Burst(), Clients: c,
		Build: func(_ int, req *load.Request) (bool, error) {
			f.Fill(req, "", "")
			req.ListOp = 1
			return true, nil
		}}
}

// Of a server that forgets soon what it has sent, informers that stalled get an error when
// they read on, and list again. A client beside them gets every event at once.
func TestStalledInformersOfAHollowServer(t *testing.T) {
	server, err := hollow.New(hollow.Options{HistoryBytes: 1 << 20})
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

	const clients, writes, size = 3, 60, 200_000 // more than two windows, and than the history
	var open atomic.Bool
	var listed, came atomic.Int64
	p := informOfMaps(t, clients, valve{&open})
	p.Done = func(r load.Result) {
		if r.Held == 0 && r.Outcome == record.OK && r.Op == 1 {
			listed.Add(1)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- b.Run(ctx, p) }()
	repotest.Eventually(t, "all watch", func() bool { return b.Progress().OK == 2*clients })

	const maps = "/api/v1/namespaces/default/configmaps"
	b.Client().Send(&wire.Request{Method: http.MethodGet, Path: maps + "?watch=true", Hold: time.Hour, Data: func(p []byte) { came.Add(int64(len(p))) }}, func(*wire.Response) {})
	for i := range writes {
		body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"big"},"data":{"n":"%d","x":%q}}`, i, bytes.Repeat([]byte("x"), size))
		req := &wire.Request{Method: http.MethodPut, Path: maps + "/big", ContentType: load.JSON, Body: body}
		if i == 0 {
			req.Method, req.Path = http.MethodPost, maps
		}
		if r, err := b.Client().Do(t.Context(), req); err != nil || !r.Success() {
			t.Fatalf("write %d: %v, %v", i, r, err)
		}
		repotest.Eventually(t, "the fast client has it", func() bool { return came.Load() > int64(i+1)*size })
	}
	open.Store(true)
	repotest.Eventually(t, "the slow clients have listed again", func() bool { return listed.Load() == 2*clients })
	stop()
	if err := <-ran; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if got := b.counts(t)["windtunnel_load_watches_ended_total expired"]; got != clients {
		t.Errorf("%v watches ended because they were too slow, want %d", got, clients)
	}
}
