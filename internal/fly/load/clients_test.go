package load_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/load/informer"
	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
)

// TestBucket: a full bucket gives its burst at once, and then one token in each gap,
// whatever the client asks for.
func TestBucket(t *testing.T) {
	const gap, burst = 20 * time.Millisecond, 3
	for _, tt := range []struct {
		name      string
		asks, may []int // milliseconds
	}{
		{"burst, then the rate", []int{0, 0, 0, 0, 0, 0}, []int{0, 0, 0, 20, 40, 60}},
		{"below the rate nothing waits", []int{0, 20, 40, 60, 80}, []int{0, 20, 40, 60, 80}},
		{"tokens come back", []int{0, 0, 0, 0, 50, 50, 50}, []int{0, 0, 0, 20, 50, 60, 80}},
		{"a long rest fills it to the brim and no further", []int{0, 9000, 9000, 9000, 9000}, []int{0, 9000, 9000, 9000, 9020}},
	} {
		var b load.Bucket
		var got []int
		for _, ms := range tt.asks {
			at := b.Take(clock.Time(ms)*clock.Time(time.Millisecond), gap, burst)
			got = append(got, int(at.Sub(0)/time.Millisecond))
		}
		if !slices.Equal(got, tt.may) {
			t.Errorf("%s: asked at %v it gives %v, want %v", tt.name, tt.asks, got, tt.may)
		}
	}
}

// TestBucketKeepsItsRate: a client that always asks for more gets its rate within 1 %.
func TestBucketKeepsItsRate(t *testing.T) {
	for _, qps := range []float64{0.3, 5, 7, 50, 333, 3000} {
		var b load.Bucket
		gap, calls, at := time.Duration(float64(time.Second)/qps), int(100*qps)+1000, clock.Time(0)
		for range calls {
			at = b.Take(at, gap, 10)
		}
		if got := float64(calls-1) / at.Seconds(); got < 0.99*qps || got > 1.01*qps*float64(calls)/float64(calls-10) {
			t.Errorf("%v requests/s come out as %v", qps, got)
		}
	}
}

// agents is a population of such a size.
func agents(count, connections int) *load.Clients {
	return &load.Clients{Name: "agents", Count: count, Connections: connections, Identity: func(i int) load.Identity {
		return load.Identity{User: fmt.Sprint("agent-", i), Groups: []string{"agents", fmt.Sprint("zone-", i%2)}, UserAgent: fmt.Sprint("agent/", i)}
	}}
}

// TestClientsTakeTurns: each client has its identity, and its connection or its share of one.
func TestClientsTakeTurns(t *testing.T) {
	var mu sync.Mutex
	order := map[string]int{}              // who sent a body
	places := map[string]map[string]bool{} // addresses of connections, by client
	b := newBench(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		who := fmt.Sprint(r.Header["Impersonate-User"], r.Header["Impersonate-Group"], r.Header["User-Agent"])
		order[string(body)+" "+who]++
		user := r.Header.Get("Impersonate-User")
		if places[user] == nil {
			places[user] = map[string]bool{}
		}
		places[user][r.RemoteAddr] = true
	}, load.Options{})
	p := plan(18, time.Millisecond)
	p.Clients = agents(6, 3)
	repotest.NoError(t, b.Run(t.Context(), p))
	mu.Lock()
	defer mu.Unlock()
	for i := range 18 {
		c := i % 6
		want := fmt.Sprintf("object %d [agent-%d] [agents zone-%d] [agent/%d]", i, c, c%2, c)
		if order[want] != 1 {
			t.Errorf("%q came %d times", want, order[want])
		}
	}
	all := map[string]bool{}
	for user, at := range places {
		if maps.Copy(all, at); len(at) != 1 {
			t.Errorf("%s used %d connections", user, len(at))
		}
	}
	if len(places) != 6 || len(all) != 3 || !maps.Equal(places["agent-1"], places["agent-4"]) {
		t.Errorf("connections %v", places)
	}
	for _, op := range b.ops(t) {
		if op.Clients != "agents" {
			t.Errorf("operation %+v", op)
		}
	}
}

// TestClientsOfSeveralPlans: clients that are opened once keep their connections and limiters
// from plan to plan.
func TestClientsOfSeveralPlans(t *testing.T) {
	var mu sync.Mutex
	connections := map[string]bool{}
	b := newBench(t, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		connections[r.Header.Get("Impersonate-User")+" "+r.RemoteAddr] = true
	}, load.Options{})
	seen := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(connections)
	}
	p := plan(6, time.Millisecond)
	p.Clients = agents(3, 3)
	p.Clients.QPS, p.Clients.Burst = 0.001, 4
	end, err := b.OpenClients(t.Context(), p.Clients)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // with limiters of their own each plan could send two a client, with new ones four
		if err := b.Run(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if n := seen(); n != 3 {
		t.Errorf("%d connections of 3 clients", n)
	}
	short, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, context.Canceled)
	defer cancel()
	if err := b.Run(short, p); !errors.Is(err, context.Canceled) {
		t.Errorf("limiters that are empty: %v", err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if err := b.Run(t.Context(), p); err != nil || seen() != 6 {
		t.Errorf("opened anew: %v, %d connections", err, seen())
	}
}

// ops closes the records and reads the operations back.
func (b *bench) ops(t *testing.T) []record.Op {
	t.Helper()
	repotest.NoError(t, b.records.Close())
	stream := repotest.Must(record.Read(b.path, func(*record.Stream) record.Visitor { return record.Visitor{} }))(t)
	return stream.Ops
}

// TestLimitersHoldCallsBack: each client sends no faster than its limiter lets it, what the
// limiter takes is told apart from what the generator takes, and one client's limiter
// holds up no other client.
func TestLimitersHoldCallsBack(t *testing.T) {
	b := newBench(t, func(http.ResponseWriter, *http.Request) {}, load.Options{})
	const clients, calls, qps, burst = 4, 80, 100, 5
	p := load.Plan{Ops: plan(1, 1).Ops, Count: calls, Pace: pace.Burst(), Build: post, Clients: agents(clients, clients)}
	p.Clients.QPS, p.Clients.Burst = qps, burst
	repotest.NoError(t, b.Run(t.Context(), p))
	done := b.calls(t)
	if len(done) != calls {
		t.Fatalf("%d calls, want %d", len(done), calls)
	}
	free, sent := 0, []clock.Time{}
	for _, c := range done {
		if c.Throttled == 0 {
			free++
		}
		if c.Lateness() < 0 || c.Outcome != record.OK {
			t.Errorf("call %+v is late by %v", c, c.Lateness())
		}
		sent = append(sent, c.Sent)
	}
	slices.Sort(sent)
	// Who is not held back has a token of a full bucket, or came when there was one again.
	if free < clients*burst || free == calls {
		t.Errorf("%d calls went at once, want %d at least", free, clients*burst)
	}
	if took, least := sent[calls-1].Sub(done[0].Due), time.Duration(calls/clients-burst)*time.Second/qps; took < least {
		t.Errorf("%d calls of %d clients took %v, want %v or more", calls, clients, took, least)
	}
}

// TestRetriesAndPagesTakeTokens: a client's limiter counts all requests that it sends.
func TestRetriesAndPagesTakeTokens(t *testing.T) {
	var mu sync.Mutex
	tries := 0
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch tries++; {
		case r.Method == http.MethodPost && tries == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.Method == http.MethodGet && !strings.Contains(r.URL.RawQuery, "continue"):
			fmt.Fprint(w, `{"metadata":{"continue":"x"},"items":[]}`)
		default:
			fmt.Fprint(w, `{"metadata":{},"items":[]}`)
		}
	}, load.Options{})
	p := load.Plan{Ops: plan(1, 1).Ops, Count: 3, Pace: pace.Closed(1), Retry: load.Retry{Times: 1, Delay: 1}, Clients: agents(1, 1),
		Build: func(i int, req *load.Request) (bool, error) {
			if i == 1 {
				req.Method, req.Path, req.Pages = http.MethodGet, "/x?limit=1", true
				return true, nil
			}
			return post(i, req)
		}}
	p.Clients.QPS, p.Clients.Burst = 50, 1
	before := time.Now()
	repotest.NoError(t, b.Run(t.Context(), p))
	took := time.Since(before)
	done := b.calls(t)
	if len(done) != 5 { // a try, its retry, two pages, the last call
		t.Fatalf("%d calls: %+v", len(done), done)
	}
	if took < 80*time.Millisecond {
		t.Errorf("five requests at 50/s took %v", took)
	}
}

// TestManyClientsAreSmall: 5,000 clients with a connection and a limiter each take at most 30 KB
// each. It prints how late calls were at 2,000/s, which tells as much about the machine.
func TestManyClientsAreSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("opens 5,000 connections")
	}
	const clients, most = 5000, 30_000
	e := hollowProcess(t)
	file := filepath.Join(t.TempDir(), "r.wt")
	records, err := record.Create(file)
	repotest.NoError(t, err)
	defer records.Close()
	g := repotest.Must(load.New(load.Options{Endpoint: e, Records: records, Clock: clock.Start()}))(t)
	defer g.Close()
	population := agents(clients, clients)
	population.QPS, population.Burst = 5, 10
	before, used := occupied(), int64(0)
	end, err := g.OpenClients(t.Context(), population)
	if err != nil {
		t.Fatal(err)
	}
	var ended, failed int
	var mu sync.Mutex
	p := load.Plan{Ops: []record.Op{op("get")}, Count: clients, Pace: pace.Constant(2000), Clients: population,
		Build: func(_ int, req *load.Request) (bool, error) {
			req.Method, req.Path = http.MethodGet, "/api/v1/namespaces/default"
			return true, nil
		},
		Done: func(r load.Result) {
			mu.Lock()
			defer mu.Unlock()
			if r.Outcome != record.OK {
				failed++
			}
			if ended++; ended == clients {
				used = occupied() - before
			}
		}}
	for range 4 {
		if err := g.Run(t.Context(), p); err != nil || failed > 0 {
			t.Fatalf("%d calls failed: %v", failed, err)
		}
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if err := records.Close(); err != nil {
		t.Fatal(err)
	}
	var late []time.Duration
	_, err = record.Read(file, func(*record.Stream) record.Visitor {
		return record.Visitor{Call: func(c record.Call) { late = append(late, c.Sent.Sub(c.Due)) }}
	})
	if err != nil || len(late) != 4*clients {
		t.Fatalf("%d calls: %v", len(late), err)
	}
	slices.Sort(late)
	t.Logf("%d bytes per client; at 2,000 calls/s 99 %% were sent at most %v after they were due", used/clients, late[len(late)*99/100])
	if used/clients > most {
		t.Errorf("%d bytes per client, want at most %d", used/clients, most)
	}
}

// hollowProcess starts a hollow cluster in a process of its own, which ends with the test.
func hollowProcess(t *testing.T) endpoint.Endpoint {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	server := exec.Command(os.Args[0], "-test.run", "^TestHollowProcess$")
	server.Env = append(os.Environ(), kubeconfigVariable+"="+kubeconfig)
	hold, err := server.StdinPipe()
	if err == nil {
		err = server.Start()
	}
	repotest.NoError(t, err)
	t.Cleanup(func() {
		_ = hold.Close()
		_ = server.Wait()
	})
	var e endpoint.Endpoint
	repotest.Eventually(t, "the hollow cluster serves", func() bool {
		e, err = endpoint.FromKubeconfig(kubeconfig, "")
		return err == nil
	})
	return e
}

// kubeconfigVariable says where the process of a hollow cluster writes its kubeconfig.
const kubeconfigVariable = "WINDTUNNEL_TEST_HOLLOW_KUBECONFIG"

// TestHollowProcess is the hollow cluster of another test, in a process of its own.
func TestHollowProcess(t *testing.T) {
	kubeconfig := os.Getenv(kubeconfigVariable)
	if kubeconfig == "" {
		t.Skip("it belongs to another test")
	}
	server := repotest.Must(hollow.New(hollow.Options{}))(t)
	defer server.Close()
	cluster, err := server.Cluster("one")
	if err == nil {
		err = cluster.Endpoint().WriteKubeconfig(kubeconfig + ".new")
	}
	if err == nil {
		err = os.Rename(kubeconfig+".new", kubeconfig)
	}
	repotest.NoError(t, err)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the other test has ended
}

// occupied is what lives on the heap and the stacks.
func occupied() int64 {
	heap := inUse()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return heap + int64(m.StackInuse)
}

// TestClientsOpenTheirWatchesAgain: a watch of a client that a server cuts or ends is opened
// again as long as its time is not over, also where the server refuses it for a while.
func TestClientsOpenTheirWatchesAgain(t *testing.T) {
	var mu sync.Mutex
	opened := map[string]int{}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
		user := r.Header.Get("Impersonate-User")
		mu.Lock()
		opened[user]++
		n := opened[user]
		both := opened["agent-0"] == 3 && opened["agent-1"] == 3
		mu.Unlock()
		if n == 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, `{"type":"ADDED","object":{}}`)
		w.(http.Flusher).Flush()
		switch {
		case n == 1 && user == "agent-0":
			panic(http.ErrAbortHandler) // its connection is cut
		case n == 1: // its answer ends
		default:
			if both {
				stop()
			}
			<-r.Context().Done()
		}
	}, load.Options{})
	p := load.Plan{Ops: []record.Op{op("watch")}, Count: 2, Pace: pace.Burst(), Clients: agents(2, 2),
		Build: func(_ int, req *load.Request) (bool, error) {
			req.Method, req.Path, req.Hold = http.MethodGet, "/x?watch=1", time.Hour
			return true, nil
		}}
	if err := b.Run(ctx, p); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	outcomes := map[record.Outcome]int{}
	for _, c := range b.calls(t) {
		outcomes[c.Outcome]++
	}
	// The end may come before the answers of the last two are read.
	if ok := outcomes[record.OK]; ok < 2 || ok+outcomes[record.Unknown] != 4 || outcomes[record.Failed] != 2 {
		t.Errorf("watches ended as %v, want 2 refused and 4 open", outcomes)
	}
}

// TestClientsThatCannotConnectAreNotLate: the time that a client waits for its connection is the
// server's, not lateness of the generator.
func TestClientsThatCannotConnectAreNotLate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.wt")
	records := repotest.Must(record.Create(path))(t)
	g := repotest.Must(load.New(load.Options{Endpoint: endpoint.Plain("https://127.0.0.1:1"), Records: records, Clock: clock.Start()}))(t)
	defer g.Close()
	p := plan(6, time.Millisecond)
	p.Clients = agents(2, 2)
	repotest.NoError(t, g.Run(t.Context(), p))
	b := &bench{path: path, records: records}
	for _, c := range b.calls(t) {
		if c.Outcome != record.Failed || c.Sent >= c.Done || c.Sent < c.Due {
			t.Errorf("call %+v", c)
		}
	}
}

// TestPausesBeforeWatches: clients whose watches a server ended together come back apart.
func TestPausesBeforeWatches(t *testing.T) {
	c, seen := load.Clients{Seed: 7}, map[time.Duration]bool{}
	for i := range 100 {
		for failures, first := range []time.Duration{800 * time.Millisecond, 1600 * time.Millisecond, 3200 * time.Millisecond} {
			pause := c.PauseBefore(i, failures)
			if pause < first || pause >= 2*first {
				t.Fatalf("client %d after %d failures: %v", i, failures, pause)
			}
			seen[pause] = true
		}
		if pause := c.PauseBefore(i, 60); pause < 30*time.Second || pause > time.Minute {
			t.Fatalf("client %d in the end: %v", i, pause)
		}
	}
	if len(seen) < 290 {
		t.Errorf("300 pauses have %d values", len(seen))
	}
}

// TestManyInformersAreSmall: 5,000 informers with a connection and a limiter each take at most
// 30 KB each while they watch.
func TestManyInformersAreSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("opens 5,000 connections")
	}
	const clients, most = 5000, 30_000
	records := repotest.Must(record.Create(filepath.Join(t.TempDir(), "r.wt")))(t)
	defer records.Close()
	g := repotest.Must(load.New(load.Options{Endpoint: hollowProcess(t), Records: records, Clock: clock.Start()}))(t)
	defer g.Close()
	p := inform(t, informer.WatchList, clients)
	p.Clients.QPS, p.Clients.Burst = 5, 10
	p.Pace = pace.Constant(2000)
	before := occupied()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx, p) }()
	repotest.Eventually(t, "all informers watch", func() bool { return g.Progress().OK == clients })
	used := occupied() - before
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	t.Logf("%d bytes per informer", used/clients)
	if used/clients > most {
		t.Errorf("%d bytes per informer, want at most %d", used/clients, most)
	}
}
