package protocol

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func newLeader(t *testing.T, n int, change func(*Options)) *Leader {
	t.Helper()
	o := Options{Workers: n, Clock: clock.Start(), Folder: t.TempDir(), Plan: []byte("plan"), Binary: "same", LostAfter: time.Minute}
	if change != nil {
		change(&o)
	}
	l := repotest.Must(Lead(o))(t)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// testWorkers are the workers of a test, in this process.
type testWorkers struct {
	t       *testing.T
	leader  *Leader
	clocks  []clock.Clock
	writers []*record.Writer
	paths   []string
	errs    []error
	wait    sync.WaitGroup
	cancels []context.CancelFunc
}

// sent is a task that writes so many calls.
type sent struct {
	records *record.Writer
	op      record.OpID
	calls   int
	began   *atomic.Int64 // on the worker's clock
	clock   clock.Clock
	wait    bool // until it is stopped
}

func (s sent) Prepared() any { return "prepared" }

func (s sent) Send(ctx context.Context, begin clock.Time) (any, error) {
	if clock.Sleep(ctx, s.clock.Until(begin)) != nil {
		return nil, context.Cause(ctx)
	}
	s.began.Store(int64(s.clock.Now()))
	for i := range s.calls {
		at := begin.Add(time.Duration(i) * time.Microsecond)
		s.records.Call(record.Call{Op: s.op, Due: at, Sent: at + 10, Done: at + 30, Code: 200, Number: uint32(i + 1)})
	}
	if s.wait {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return s.calls, nil
}

// duty counts the parts that were prepared. When it leaves it records a call.
type duty struct {
	prepare func(body json.RawMessage) Task
	parts   atomic.Int64
	records *record.Writer
	op      record.OpID
}

func (d *duty) Prepare(_ context.Context, body json.RawMessage) (Task, error) {
	d.parts.Add(1)
	return d.prepare(body), nil
}

func (d *duty) Progress() any { return d.parts.Load() }
func (d *duty) Leave()        { d.records.Call(record.Call{Op: d.op, Due: 1, Sent: 2, Done: 3, Code: 200}) }

// join starts workers that serve until the run is over.
func join(t *testing.T, l *Leader, n int, task func(worker int, body json.RawMessage, s sent) Task) *testWorkers {
	t.Helper()
	c := &testWorkers{t: t, leader: l, errs: make([]error, n)}
	for i := range n {
		path := filepath.Join(t.TempDir(), "spool.wt")
		records := repotest.Must(record.Create(path))(t)
		own := clock.Start()
		c.clocks, c.writers, c.paths = append(c.clocks, own), append(c.writers, records), append(c.paths, path)
		ctx, cancel := context.WithCancel(t.Context())
		c.cancels = append(c.cancels, cancel)
		w, err := Join(ctx, l.Access(i), Identity{Index: i, Binary: "same"}, WorkerOptions{Clock: own, Log: slog.New(slog.DiscardHandler)})
		repotest.NoError(t, err)
		op := records.Op(record.Op{Source: "load", Step: "s", Verb: "get"})
		c.wait.Go(func() {
			defer w.Close()
			c.errs[i] = w.Serve(ctx, records, path, &duty{prepare: func(body json.RawMessage) Task {
				return task(i, body, sent{records: records, op: op, clock: own, began: &atomic.Int64{}})
			}, records: records, op: op})
			_ = records.Close()
		})
	}
	t.Cleanup(func() {
		for _, cancel := range c.cancels {
			cancel()
		}
		c.wait.Wait()
	})
	return c
}

// end has the workers leave and checks that the leader has every byte.
func (c *testWorkers) end() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	repotest.NoError(c.t, c.leader.Leave(ctx))
	c.wait.Wait()
	for i, path := range c.paths {
		if c.errs[i] != nil {
			c.t.Errorf("worker %d: %v", i, c.errs[i])
		}
		own := repotest.Must(os.ReadFile(path))(c.t)
		if kept, err := os.ReadFile(c.leader.File(i)); err != nil || !bytes.Equal(own, kept) {
			c.t.Errorf("worker %d: the leader has %d bytes, the worker %d (%v)", i, len(kept), len(own), err)
		}
	}
}

func accept(int, json.RawMessage) error { return nil }

// A part is done by those whom it is for, and the leader is told where each stands, also
// of what is told just before it ends.
func TestAPartIsForSome(t *testing.T) {
	var mu sync.Mutex
	parts := map[int]string{}
	l := newLeader(t, 4, func(o *Options) {
		o.Progress = func(worker int, body json.RawMessage) {
			mu.Lock()
			defer mu.Unlock()
			parts[worker] = string(body)
		}
	})
	c := join(t, l, 4, func(worker int, _ json.RawMessage, s sent) Task { s.calls = worker; return s })
	repotest.NoError(t, l.Joined(t.Context()))
	for _, g := range []Group{{1, 3}, {2, 4}, {}} {
		out, _, err := l.Do(t.Context(), g, nil, accept)
		repotest.NoError(t, err)
		if want := g.Below - g.From; len(out) != want && g != (Group{}) || len(out) == 0 || string(out[0].Ended) != fmt.Sprint(g.From) {
			t.Errorf("group %+v: outcomes %+v", g, out)
		}
	}
	mu.Lock()
	if got := fmt.Sprint(parts); got != "map[0:1 1:2 2:3 3:2]" {
		t.Errorf("parts by worker: %s", got)
	}
	mu.Unlock()
	c.end()
}

func TestWorkersDoPartsTogether(t *testing.T) {
	var clocks atomic.Int64
	l := newLeader(t, 3, func(o *Options) { o.Clocks = func(int, clock.Time, Clock) { clocks.Add(1) } })
	c := join(t, l, 3, func(worker int, body json.RawMessage, s sent) Task {
		_ = json.Unmarshal(body, &s.calls)
		s.calls += worker
		return s
	})
	repotest.NoError(t, l.Joined(t.Context()))
	for part := range 4 {
		out, at, err := l.Do(t.Context(), Group{}, 1000*part, func(_ int, said json.RawMessage) error {
			if string(said) != `"prepared"` {
				return errors.New("it said " + string(said))
			}
			return nil
		})
		repotest.NoError(t, err)
		for i, o := range out {
			if o.Err != nil || string(o.Ended) != fmt.Sprint(1000*part+i) || o.Clock.Bound > time.Minute || at <= 0 {
				t.Errorf("part %d of worker %d: %+v", part, i, o)
			}
		}
	}
	c.end()
	if n := clocks.Load(); n < 12 {
		t.Errorf("clocks were told %d times, want 3 in each of 4 parts", n)
	}
	for i := range 3 {
		calls := 0
		if _, err := record.Read(l.File(i), func(*record.Stream) record.Visitor {
			return record.Visitor{Call: func(record.Call) { calls++ }}
		}); err != nil || calls != 6000+4*i+1 { // one when it left
			t.Errorf("worker %d: %d calls in its stream, want %d (%v)", i, calls, 6000+4*i+1, err)
		}
	}
}

// What a worker that prepares something else would send is sent by nobody.
func TestAWorkerThatPlansOtherCallsStopsThePart(t *testing.T) {
	l := newLeader(t, 2, nil)
	var began atomic.Int64
	c := join(t, l, 2, func(_ int, _ json.RawMessage, s sent) Task { s.began = &began; return s })
	_, _, err := l.Do(t.Context(), Group{}, nil, func(worker int, _ json.RawMessage) error {
		if worker == 1 {
			return errors.New("other calls")
		}
		return nil
	})
	if !errors.Is(err, ErrUnequal) || !strings.Contains(err.Error(), "worker 1") || began.Load() != 0 {
		t.Errorf("error %v, begun at %d", err, began.Load())
	}
	c.end()
}

func TestAPartIsStoppedWhenTheRunIs(t *testing.T) {
	l := newLeader(t, 2, nil)
	var began atomic.Int64
	c := join(t, l, 2, func(_ int, _ json.RawMessage, s sent) Task { s.began, s.wait = &began, true; return s })
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		_, _, err := l.Do(ctx, Group{}, nil, accept)
		done <- err
	}()
	repotest.Eventually(t, "a worker has begun", func() bool { return began.Load() > 0 })
	cancel(errors.New("enough"))
	if err := <-done; err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("error %v", err)
	}
	c.end()
}

func TestWhoMayNotTakePart(t *testing.T) {
	l := newLeader(t, 2, func(o *Options) { o.LostAfter = time.Second })
	options := WorkerOptions{Clock: clock.Start(), Log: slog.New(slog.DiscardHandler)}
	refused := func(name string, a Access, id Identity, want string) {
		t.Helper()
		if _, err := Join(t.Context(), a, id, options); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	first := Identity{Index: 0, Binary: "same"}
	if _, err := Join(t.Context(), l.Access(0), first, options); err != nil {
		t.Fatal(err)
	}
	stranger := l.Access(1)
	stranger.Token = "guessed"
	refused("another token", stranger, Identity{Index: 1, Binary: "same"}, "this is not the token of worker")
	refused("the access of another worker", l.Access(0), Identity{Index: 1, Binary: "same"}, "this is not the token of worker")
	refused("a twin", l.Access(0), first, "a second one is refused")
	refused("another build", l.Access(1), Identity{Index: 1, Binary: "other"}, "another build")
	refused("one too many", l.Access(1), Identity{Index: 2, Binary: "same"}, "numbered from 0 to 1")
	l.Lose(1, errors.New("it died"))
	if err := l.Joined(t.Context()); !errors.Is(err, ErrLost) {
		t.Errorf("a worker that died before it came: %v", err)
	}
	if _, _, err := l.Do(canceled(t), Group{}, nil, accept); err == nil {
		t.Error("a part was done without workers")
	}
	refused("too late", l.Access(1), Identity{Index: 1, Binary: "same"}, "too late")
}

// Whoever has the run's token can ask for a worker's place. He learns nothing by it once
// the worker is there: not its secret, not its token, and not the plan, which the leader
// has forgotten when all have it.
func TestATwinLearnsNothing(t *testing.T) {
	l := newLeader(t, 1, nil)
	client := trusting(t, l)
	ask := func(method, path, token string, body any, into any) error {
		w := &Worker{access: l.Access(0), client: client, clock: clock.Start(), goneFor: time.Minute, token: token}
		return w.request(t.Context(), method, path, body, into)
	}
	mine := hello{Binary: "same", Secret: "mine"}
	var once, twice welcome
	if err := errors.Join(ask("POST", "/join", "", mine, &once), ask("POST", "/join", "", mine, &twice)); err != nil || once.Token != twice.Token || string(twice.Plan) != "plan" {
		t.Fatalf("whoever did not get the answer asks again: %v", err)
	}
	for name, h := range map[string]hello{"another secret": {Binary: "same", Secret: "guessed"}, "no secret": {Binary: "same"}} {
		err := ask("POST", "/join", "", h, nil)
		if !errors.Is(err, ErrRefused) || strings.Contains(err.Error(), "mine") || strings.Contains(err.Error(), once.Token) {
			t.Errorf("%s: %v", name, err)
		}
	}
	repotest.NoError(t, ask("GET", "/time", once.Token, nil, nil))
	if err := ask("POST", "/join", "", mine, nil); !errors.Is(err, ErrRefused) {
		t.Errorf("the worker has shown its token, and a process with its secret joins: %v", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.options.Plan != nil {
		t.Error("the leader keeps the plan that all have")
	}
}

// trusting is a client that knows the leader's authority.
func trusting(t *testing.T, l *Leader) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(l.Access(0).CA) {
		t.Fatal("no certificate")
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}, ForceAttemptHTTP2: true}}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// A worker cannot have the leader keep what nobody asked for.
func TestReportsOfNoPartAreNotKept(t *testing.T) {
	l := newLeader(t, 1, nil)
	m := l.workers[0]
	m.joined, m.token = true, "t"
	w := &Worker{access: l.Access(0), client: trusting(t, l), clock: clock.Start(), goneFor: time.Minute, token: "t"}
	l.sendLocked(message{What: begin})
	for what, want := range map[string]bool{ready: true, ended: true, "whatever": false, underWay: true} {
		if err := w.request(t.Context(), "POST", "/report", report{Of: 1, What: what}, nil); (err == nil) != want {
			t.Errorf("%s: %v", what, err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(m.reports) > 0 {
		t.Errorf("%v are kept", m.reports)
	}
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// A worker that falls silent is lost, the others go on, and what it still brings is
// kept.
func TestALostWorkerHoldsNobodyUp(t *testing.T) {
	lost := make(chan int, 2)
	l := newLeader(t, 2, func(o *Options) {
		o.LostAfter = 2 * time.Second
		o.Lost = func(worker int, _ error) { lost <- worker }
	})
	var began atomic.Int64
	c := join(t, l, 2, func(worker int, _ json.RawMessage, s sent) Task {
		s.calls = 10
		if worker == 1 {
			s.began, s.wait = &began, true
		}
		return s
	})
	var out []Outcome
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		out, _, err = l.Do(t.Context(), Group{}, nil, accept)
	}()
	repotest.Eventually(t, "worker 1 has begun", func() bool { return began.Load() > 0 })
	c.cancels[1]()
	<-done
	if err != nil || out[0].Err != nil || !errors.Is(out[1].Err, ErrLost) && !strings.Contains(fmt.Sprint(out[1].Err), "canceled") {
		t.Fatalf("%v, outcomes %+v", err, out)
	}
	out, _, err = l.Do(t.Context(), Group{}, nil, accept)
	if err != nil || out[0].Err != nil || !errors.Is(out[1].Err, ErrLost) || <-lost != 1 || l.Left() != 1 {
		t.Errorf("the part after it: %v, outcomes %+v", err, out)
	}
}

// Pieces that come twice, too late, too early or damaged change nothing: in the end the
// stream is what was written.
func TestPiecesInAnyOrder(t *testing.T) {
	whole, ends := stream(t)
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		k, err := createSpool(filepath.Join(t.TempDir(), "0.wt"))
		repotest.NoError(t, err)
		size := int64(0)
		for size < int64(len(whole)) {
			from, _ := slices.BinarySearch(ends, int(size))
			from = max(0, min(from+r.IntN(5)-2, len(ends)-2))
			if r.IntN(3) == 0 {
				from, _ = slices.BinarySearch(ends, int(size))
			}
			to := min(from+1+r.IntN(3), len(ends)-1)
			piece := bytes.Clone(whole[ends[from]:ends[to]])
			damaged := r.IntN(4) == 0
			if damaged {
				piece[r.IntN(len(piece))] ^= 1 << r.IntN(8)
			}
			before := size
			if size, err = k.appendPiece(int64(ends[from]), piece); damaged && size != before {
				t.Fatalf("seed %d: a damaged piece was taken", seed)
			} else if !damaged && err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		repotest.NoError(t, k.closeFile())
		if got, err := os.ReadFile(k.path); err != nil || !bytes.Equal(got, whole) {
			t.Fatalf("seed %d: %d bytes kept of %d (%v)", seed, len(got), len(whole), err)
		}
	}
}

// stream returns a stream and where its blocks end, 0 included.
func stream(t *testing.T) (whole []byte, ends []int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r.wt")
	w, err := record.Create(path)
	repotest.NoError(t, err)
	op := w.Op(record.Op{Source: "load", Verb: "get"})
	for i := range 40 {
		for range 1 + i%5 {
			w.Call(record.Call{Op: op, Due: clock.Time(i), Number: uint32(i + 1)})
		}
		w.Flush()
		if info, err := os.Stat(path); err != nil {
			t.Fatal(err)
		} else {
			ends = append(ends, int(info.Size()))
		}
	}
	repotest.NoError(t, w.Close())
	if whole, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return whole, append([]int{0}, ends...)
}

// A leader that takes its time holds no worker up, and loses nothing.
func TestASlowLeaderLosesNothing(t *testing.T) {
	l := newLeader(t, 1, nil)
	inner := l.server.Handler
	var slow, lost atomic.Int64
	l.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/records" {
			switch n := slow.Add(1); {
			case n%3 == 0: // it is taken, and the answer is lost
				inner.ServeHTTP(discard{http.Header{}}, r)
				lost.Add(1)
				panic(http.ErrAbortHandler)
			case n%3 == 1:
				time.Sleep(300 * time.Millisecond)
			}
		}
		inner.ServeHTTP(w, r)
	})
	c := join(t, l, 1, func(_ int, _ json.RawMessage, s sent) Task { s.calls = 200_000; return s })
	begun := time.Now()
	out, _, err := l.Do(t.Context(), Group{}, nil, accept)
	if err != nil || out[0].Err != nil {
		t.Fatalf("%v, %+v", err, out)
	}
	t.Logf("200,000 calls in %v", time.Since(begun))
	c.end()
	if lost.Load() == 0 {
		t.Error("no answer was lost")
	}
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// A leader that stood still has heard nobody meanwhile: who falls silent later is lost
// then, and not at once.
func TestALeaderThatStoodStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience = 5 * time.Second
		c := clock.Start()
		m := &workerState{joined: true}
		l := &Leader{options: Options{Clock: c, LostAfter: patience}, workers: []*workerState{m}, changed: make(chan struct{})}
		looks := 0
		_ = l.waitUntil(t.Context(), func() bool {
			if looks++; looks == 3 {
				time.Sleep(3 * patience)
			}
			return m.lost != nil
		})
		if after := time.Duration(c.Now()); after < 4*patience || after > 5*patience {
			t.Errorf("lost after %v, of which the leader stood still for %v", after, 3*patience)
		}
	})
}

// Without a leader a worker ends what it does, soon.
func TestWithoutALeaderWorkersStop(t *testing.T) {
	l := newLeader(t, 1, nil)
	path := filepath.Join(t.TempDir(), "spool.wt")
	records := repotest.Must(record.Create(path))(t)
	defer records.Close()
	w, err := Join(t.Context(), l.Access(0), Identity{Binary: "same"}, WorkerOptions{Clock: clock.Start(), Log: slog.New(slog.DiscardHandler), LeaderGoneAfter: 2 * time.Second})
	repotest.NoError(t, err)
	defer w.Close()
	var began atomic.Int64
	served := make(chan error, 1)
	go func() {
		served <- w.Serve(t.Context(), records, path, &duty{records: records, prepare: func(json.RawMessage) Task {
			return sent{records: records, clock: clock.Start(), began: &began, wait: true}
		}})
	}()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); _, _, _ = l.Do(ctx, Group{}, nil, accept) }()
	repotest.Eventually(t, "the worker has begun", func() bool { return began.Load() > 0 })
	_ = l.server.Close()
	if err := <-served; !errors.Is(err, ErrLeaderGone) {
		t.Errorf("the worker ended with %v", err)
	}
	l.Lose(0, errors.New("it ended"))
	<-done
}
