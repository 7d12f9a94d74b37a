package proxy_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/plane/proxy"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// serve runs a server that gives each connection to do.
func serve(t testing.TB, do func(*net.TCPConn)) string {
	t.Helper()
	l := repotest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wait.Go(func() { defer c.Close(); do(c.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wait.Wait() })
	return l.Addr().String()
}

func echo(c *net.TCPConn) {
	_, _ = io.Copy(c, c)
	_ = c.CloseWrite()
}

func start(t testing.TB, o proxy.Options) *proxy.Proxy {
	t.Helper()
	r := repotest.Must(proxy.Start(o))(t)
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// A stalled link brings nothing, takes new connections all the same, and hands over
// what it held when it goes on.
func TestStall(t *testing.T) {
	r := start(t, proxy.Options{To: serve(t, echo)})
	old := dial(t, r.Addr())
	if _, err := io.WriteString(old, "a"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 3)
	if _, err := io.ReadFull(old, got[:1]); err != nil {
		t.Fatal(err)
	}
	r.Stall(true)
	r.Stall(true)
	young := dial(t, r.Addr())
	for _, c := range []*net.TCPConn{old, young} {
		if _, err := io.WriteString(c, "bcd"); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if n, err := c.Read(got); err == nil || n > 0 {
			t.Errorf("%d bytes came through, %v", n, err)
		}
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	}
	r.Stall(false)
	for _, c := range []*net.TCPConn{old, young} {
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "bcd" {
			t.Errorf("then %q came, %v", got, err)
		}
	}
	r.Stall(true) // closing does not wait for its end
}

func set(t testing.TB, r *proxy.Proxy, s proxy.Link) {
	t.Helper()
	repotest.NoError(t, r.Emulate(s))
}

func dial(t testing.TB, address string) *net.TCPConn {
	t.Helper()
	c := repotest.Must(net.Dial("tcp", address))(t)
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c.(*net.TCPConn)
}

// ask sends a byte and returns how long its echo took.
func ask(t testing.TB, c net.Conn) time.Duration {
	t.Helper()
	begin := time.Now()
	var b [1]byte
	if _, err := c.Write(b[:]); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, b[:]); err != nil {
		t.Fatal(err)
	}
	return time.Since(begin)
}

// takes measures until something takes no longer than it may: others may keep the
// machine busy. It may never take less than it must.
func takes(t testing.TB, least, slack time.Duration, measure func() time.Duration) {
	t.Helper()
	repotest.Eventually(t, fmt.Sprintf("takes %v to %v", least, least+slack), func() bool {
		got := measure()
		if got < least {
			t.Errorf("took %v, want at least %v", got, least)
		}
		return got <= least+slack
	})
}

func TestBytesPassUnchangedOverEveryLink(t *testing.T) {
	for name, link := range map[string]proxy.Link{
		"none":      {},
		"delay":     {RoundTrip: 20 * time.Millisecond},
		"jitter":    {RoundTrip: 2 * time.Millisecond, Jitter: 10 * time.Millisecond},
		"bandwidth": {BytesPerSecond: 8 << 20},
		"factor":    {AnswerFactor: 1.2},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, proxy.Options{To: serve(t, echo), Queue: 1 << 20})
			set(t, r, link)
			c := dial(t, r.Addr())
			random := rand.New(rand.NewPCG(3, 4))
			sent, got := sha256.New(), sha256.New()
			const total = 3 << 20
			go func() {
				var b [40_000]byte
				for left := total; left > 0; {
					part := b[:min(left, 1+random.IntN(len(b)))]
					for i := range part {
						part[i] = byte(random.Uint32())
					}
					sent.Write(part)
					_, _ = c.Write(part) // what is lost is seen below
					left -= len(part)
				}
				_ = c.CloseWrite()
			}()
			n, err := io.Copy(got, c) // ends by the half-close that came all the way round
			if err != nil || n != total || !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
				t.Fatalf("%d bytes back of %d: %v", n, total, err)
			}
			if s := r.Stats(); s.Up.Bytes != total || s.Down.Bytes != total || s.Total != 1 {
				t.Errorf("stats %+v", s)
			}
		})
	}
}

func TestRoundTripIsAddedAndCanBeChanged(t *testing.T) {
	r := start(t, proxy.Options{To: serve(t, echo)})
	c := dial(t, r.Addr())
	ask(t, c)
	for _, trip := range []time.Duration{50 * time.Millisecond, 0, 20 * time.Millisecond} {
		set(t, r, proxy.Link{RoundTrip: trip})
		if got := r.Link().RoundTrip; got != trip {
			t.Errorf("link says %v", got)
		}
		takes(t, trip, 15*time.Millisecond, func() time.Duration { return ask(t, c) })
	}
	// A new connection pays for its handshake, once.
	set(t, r, proxy.Link{RoundTrip: 40 * time.Millisecond})
	takes(t, 80*time.Millisecond, 20*time.Millisecond, func() time.Duration {
		begin := time.Now()
		c = dial(t, r.Addr())
		ask(t, c)
		return time.Since(begin)
	})
	takes(t, 40*time.Millisecond, 15*time.Millisecond, func() time.Duration { return ask(t, c) })
	if s := r.Stats(); s.Open < 2 || s.Down.Timed == 0 {
		t.Errorf("stats %+v", s)
	}
	if err := r.Emulate(proxy.Link{RoundTrip: -1}); err == nil || !strings.Contains(err.Error(), "negative") {
		t.Errorf("a negative round trip: %v", err)
	}
}

// Shorter delays do not let later bytes overtake earlier ones.
func TestOrderIsKeptWhenTheDelayShrinks(t *testing.T) {
	r := start(t, proxy.Options{To: serve(t, echo)})
	c := dial(t, r.Addr())
	begin := time.Now()
	for i := range byte(10) {
		set(t, r, proxy.Link{RoundTrip: time.Duration(10-i) * 20 * time.Millisecond})
		if _, err := c.Write([]byte{i}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
	}
	got := make([]byte, 10)
	if _, err := io.ReadFull(c, got); err != nil || !slices.IsSorted(got) {
		t.Errorf("%v, %v", got, err)
	}
	if took := time.Since(begin); took < 100*time.Millisecond {
		t.Errorf("all back after %v, though the first alone has to take 100 ms one way", took)
	}
}

// The delay is a pipeline: bytes that are on their way do not hold up others.
func TestDelayDoesNotCutThroughput(t *testing.T) {
	r := start(t, proxy.Options{To: serve(t, echo)})
	const trip, total = 200 * time.Millisecond, 32 << 20
	set(t, r, proxy.Link{RoundTrip: trip})
	c := dial(t, r.Addr())
	ask(t, c)
	begin := time.Now()
	go func() {
		b := make([]byte, 1<<20)
		for range total / len(b) {
			_, _ = c.Write(b)
		}
	}()
	if _, err := io.CopyN(io.Discard, c, total); err != nil {
		t.Fatal(err)
	}
	// In lock-step with reads of 32 KiB it would take 1,000 round trips: 200 s.
	took := time.Since(begin)
	if took > 40*trip {
		t.Errorf("%d MiB there and back took %v", total>>20, took)
	}
	t.Logf("%d MiB there and back in %v, queue full %d times", total>>20, took, r.Stats().Up.Full)
}

func TestBandwidth(t *testing.T) {
	r := start(t, proxy.Options{To: serve(t, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) })})
	set(t, r, proxy.Link{BytesPerSecond: 2 << 20})
	takes(t, 480*time.Millisecond, 120*time.Millisecond, func() time.Duration {
		begin := time.Now()
		var both sync.WaitGroup
		for range 2 { // 1 MiB in all, at 2 MiB/s
			c := dial(t, r.Addr())
			both.Go(func() {
				_, _ = c.Write(make([]byte, 512<<10))
				_ = c.CloseWrite()
				_, _ = c.Read(make([]byte, 1)) // the server ends when it has read all
			})
		}
		both.Wait()
		return time.Since(begin)
	})
}

// A receiver that does not read holds up its sender; nothing piles up.
func TestMemoryIsBounded(t *testing.T) {
	stop := make(chan struct{})
	r := start(t, proxy.Options{To: serve(t, func(c *net.TCPConn) {
		_ = c.SetReadBuffer(64 << 10)
		<-stop
	}), Queue: 1 << 20})
	defer close(stop)
	set(t, r, proxy.Link{RoundTrip: 10 * time.Millisecond})
	c := dial(t, r.Addr())
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	_ = c.SetWriteDeadline(time.Now().Add(2 * time.Second))
	n, err := io.Copy(c, io.LimitReader(zeros{}, 1<<30))
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Fatalf("%d bytes were taken: %v", n, err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("%d bytes of memory for a queue of 1 MiB", grown)
	}
	if s := r.Stats(); s.Up.Full == 0 {
		t.Errorf("a full queue is not counted: %+v", s)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

func TestCutResetsBothSides(t *testing.T) {
	seen := make(chan error, 3)
	r := start(t, proxy.Options{To: serve(t, func(c *net.TCPConn) {
		_, err := io.Copy(c, c)
		seen <- err
	})})
	var conns []*net.TCPConn
	for range 3 {
		c := dial(t, r.Addr())
		ask(t, c)
		conns = append(conns, c)
	}
	if n := r.Cut(); n != 3 {
		t.Errorf("%d connections were cut", n)
	}
	for _, c := range conns {
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the client sees %v", err)
		}
		if err := <-seen; !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the server sees %v", err)
		}
	}
	ask(t, dial(t, r.Addr()))
	if s := r.Stats(); s.Total != 4 {
		t.Errorf("stats %+v", s)
	}
}

func TestRefuse(t *testing.T) {
	r := start(t, proxy.Options{To: serve(t, echo)})
	old := dial(t, r.Addr())
	ask(t, old)
	for range 3 { // and again what is so already
		for range 2 {
			repotest.NoError(t, r.Refuse(true))
		}
		if _, err := net.Dial("tcp", r.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a connection that is refused: %v", err)
		}
		ask(t, old)
		for range 2 {
			repotest.NoError(t, r.Refuse(false))
		}
		ask(t, dial(t, r.Addr()))
	}
}

func TestClientOfADeadServerIsReset(t *testing.T) {
	l := repotest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	r := start(t, proxy.Options{To: l.Addr().String()})
	_ = l.Close()
	c, err := net.Dial("tcp", r.Addr())
	if err == nil {
		defer c.Close()
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client sees %v", err)
	}
}

// What a server sent before it died still arrives, and then its end.
func TestLastWordsOfAServerArrive(t *testing.T) {
	for name, linger := range map[string]int{"reset": 0, "close": -1} {
		t.Run(name, func(t *testing.T) {
			started := make(chan *proxy.Proxy, 1)
			r := start(t, proxy.Options{To: serve(t, func(c *net.TCPConn) {
				_, _ = c.Write([]byte("last words"))
				proxy := <-started
				repotest.Eventually(t, "the proxy has them", func() bool { return proxy.Stats().Down.Bytes == 10 })
				_ = c.SetLinger(linger)
				_ = c.Close()
			})})
			started <- r
			set(t, r, proxy.Link{RoundTrip: 200 * time.Millisecond})
			c := dial(t, r.Addr())
			go func() { // writing to a dead server must not lose them
				for range 20 {
					if _, err := c.Write([]byte("more")); err != nil {
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
			}()
			got := make([]byte, 10)
			if _, err := io.ReadFull(c, got); err != nil || string(got) != "last words" {
				t.Fatalf("%q, %v", got, err)
			}
			if _, err := c.Read(got); err == nil {
				t.Error("the end does not arrive")
			}
		})
	}
}

func TestCloseEndsEverything(t *testing.T) {
	before := runtime.NumGoroutine()
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts nobody: TLS never shakes hands
	repotest.NoError(t, err)
	defer l.Close()
	for _, o := range []proxy.Options{{To: l.Addr().String()}, {To: l.Addr().String(), TLS: &proxy.TLS{}}} {
		r := repotest.Must(proxy.Start(o))(t)
		set(t, r, proxy.Link{RoundTrip: time.Hour})
		c := dial(t, r.Addr())
		_, _ = c.Write([]byte("on the way for half an hour"))
		repotest.Eventually(t, "the connection is seen", func() bool { return r.Stats().Total == 1 })
		begin := time.Now()
		if err := errors.Join(r.Close(), r.Close()); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("Close took %v", took)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("the connection lives")
		}
		if err := r.Refuse(false); !errors.Is(err, proxy.ErrClosed) {
			t.Errorf("opened again after Close: %v", err)
		}
		if _, err := net.Dial("tcp", r.Addr()); err == nil {
			t.Error("the port is still open")
		}
	}
	repotest.Eventually(t, "no more goroutines than before", func() bool { return runtime.NumGoroutine() <= before })
}

func TestBadAddressIsAnError(t *testing.T) {
	for _, to := range []string{"", "localhost", "https://127.0.0.1:1"} {
		if r, err := proxy.Start(proxy.Options{To: to}); err == nil {
			t.Errorf("%q: no error, %v", to, r.Close())
		}
	}
}

// Without TLS of its own the proxy stretches one call after the other.
func TestAnswerFactorOfOneCallAtATime(t *testing.T) {
	const works = 60 * time.Millisecond
	r := start(t, proxy.Options{To: serve(t, func(c *net.TCPConn) {
		for b := make([]byte, 1); ; {
			if _, err := c.Read(b); err != nil {
				return
			}
			time.Sleep(works)
			_, _ = c.Write(b)
		}
	})})
	c := dial(t, r.Addr())
	for _, factor := range []float64{0, 1.5, 2, 1} {
		set(t, r, proxy.Link{AnswerFactor: factor, RoundTrip: 30 * time.Millisecond})
		ask(t, c)
		want := time.Duration(float64(works)*max(1, factor)) + 30*time.Millisecond
		takes(t, want, 25*time.Millisecond, func() time.Duration {
			time.Sleep(200 * time.Millisecond) // not a part of the answer's time
			return ask(t, c)
		})
	}
}
