package proxy_test

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/plane/proxy"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

const (
	messageBytes = 100
	messageEvery = time.Second / 2000
)

// oneWay sends n small messages, 2,000 a second, and returns how long each was
// on its way.
func oneWay(t testing.TB, c clock.Clock, n int, connect func(server string) net.Conn) []time.Duration {
	t.Helper()
	took := make([]time.Duration, 0, n)
	done := make(chan struct{})
	server := serve(t, func(conn *net.TCPConn) {
		defer close(done)
		var message [messageBytes]byte
		for len(took) < n {
			if _, err := io.ReadFull(conn, message[:]); err != nil {
				return
			}
			took = append(took, c.Now().Sub(clock.Time(binary.BigEndian.Uint64(message[:]))))
		}
	})
	conn := connect(server)
	begin := c.Now()
	var message [messageBytes]byte
	for i := range n {
		time.Sleep(c.Until(begin.Add(time.Duration(i) * messageEvery)))
		binary.BigEndian.PutUint64(message[:], uint64(c.Now()))
		if _, err := conn.Write(message[:]); err != nil {
			t.Fatal(err)
		}
	}
	<-done
	if len(took) != n {
		t.Fatalf("%d of %d messages arrived", len(took), n)
	}
	slices.Sort(took)
	return took
}

// Delays are right within 1 ms at p99, on a quiet machine: one of which others
// take no more than a twentieth.
func TestDelayIsRightWithinAMillisecond(t *testing.T) {
	if testing.Short() {
		t.Skip("wants a quiet machine for some seconds")
	}
	const n, delay = 4000, 10 * time.Millisecond
	c := clock.Start()
	for range 5 {
		var r *proxy.Proxy
		others := takenByOthers(t)
		took := oneWay(t, c, n, func(server string) net.Conn {
			r = start(t, proxy.Options{To: server, Clock: c})
			conn := dial(t, r.Addr())
			set(t, r, proxy.Link{RoundTrip: 2 * delay})
			time.Sleep(2 * delay) // the connection is there: no handshake is delayed
			return conn
		})
		busy := others()
		least, middle, most := took[0]-delay, took[n/2]-delay, took[n*99/100]-delay
		t.Logf("late by %v at least, p50 %v, p99 %v; others took %.0f %% of the machine; %+v", least, middle, most, 100*busy, r.Stats().Up)
		if least < 0 {
			t.Fatalf("%v too early", -least)
		}
		if most <= time.Millisecond {
			return
		}
		if busy < 0.05 {
			t.Fatalf("p99 is %v late", most)
		}
	}
	t.Skip("the machine is not quiet")
}

// takenByOthers returns what tells how much of the machine other processes
// have taken since.
func takenByOthers(t testing.TB) func() float64 {
	t.Helper()
	read := func() (busy, all time.Duration) {
		raw, err := os.ReadFile("/proc/stat")
		if err != nil {
			t.Skip(err)
		}
		line, _, _ := strings.Cut(string(raw), "\n")
		for i, f := range strings.Fields(line)[1:9] { // user nice system idle iowait irq softirq steal
			n := repotest.Must(strconv.Atoi(f))(t)
			ticks := time.Duration(n) * 10 * time.Millisecond
			all += ticks
			if i != 3 && i != 4 {
				busy += ticks
			}
		}
		return busy - cpu(t), all
	}
	busy, all := read()
	return func() float64 {
		later, end := read()
		return float64(later-busy) / float64(end-all)
	}
}

// BenchmarkMessage sends 2,000 small messages a second one way and reports the CPU of
// the whole process for each: sender, proxy and receiver. The proxy's own is the
// difference to direct.
func BenchmarkMessage(b *testing.B) {
	c := clock.Start()
	for _, v := range []struct {
		name  string
		proxy bool
		link  proxy.Link
	}{
		{"direct", false, proxy.Link{}},
		{"proxy", true, proxy.Link{}},
		{"delayed", true, proxy.Link{RoundTrip: 20 * time.Millisecond}},
	} {
		b.Run(v.name, func(b *testing.B) {
			before := cpu(b)
			took := oneWay(b, c, b.N, func(server string) net.Conn {
				if !v.proxy {
					return dial(b, server)
				}
				r := start(b, proxy.Options{To: server, Clock: c})
				conn := dial(b, r.Addr())
				set(b, r, v.link)
				time.Sleep(20 * time.Millisecond) // the connection is there: no handshake is delayed
				return conn
			})
			b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-µs/message")
			b.ReportMetric(float64((took[len(took)*99/100] - v.link.RoundTrip/2).Microseconds()), "p99-µs-late")
		})
	}
}

// BenchmarkBulk passes large writes on.
func BenchmarkBulk(b *testing.B) {
	for _, v := range []struct {
		name string
		link proxy.Link
	}{{"proxy", proxy.Link{}}, {"delayed", proxy.Link{RoundTrip: 10 * time.Millisecond}}} {
		b.Run(v.name, func(b *testing.B) {
			r := start(b, proxy.Options{To: serve(b, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) })})
			set(b, r, v.link)
			conn := dial(b, r.Addr())
			chunk := make([]byte, 1<<20)
			b.SetBytes(int64(len(chunk)))
			before := cpu(b)
			for b.Loop() {
				if _, err := conn.Write(chunk); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-µs/MiB")
		})
	}
}

// cpu returns what this process has used.
func cpu(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	repotest.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
