package h2_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// The floor of a lone event: what its bytes cost a server that has nothing else to do
// for a watcher than to wake the goroutine that waits for it and to write one record to
// a connection that was at rest. What BenchmarkLoneWrite does not show of an event is
// the server's own.

const (
	floorConnections = 100
	floorBytes       = 500 // about a pod in protobuf in its frame
	floorRest        = 5 * time.Millisecond
)

// BenchmarkLoneWrite is the CPU of the thread that writes: with the kernel's way over
// loopback to the reader's socket, and its waking, which are done in its time.
func BenchmarkLoneWrite(b *testing.B) {
	for _, way := range []string{"tcp", "tls"} {
		b.Run(way, func(b *testing.B) {
			writers, received := floorPairs(b, way == "tls")
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			message := make([]byte, floorBytes)
			var spent time.Duration
			n := int64(0)
			for b.Loop() {
				time.Sleep(floorRest)
				began := cpu(b, rusageThread)
				for _, w := range writers {
					if _, err := w.Write(message); err != nil {
						b.Fatal(err)
					}
				}
				spent += cpu(b, rusageThread) - began
				for n += floorConnections * floorBytes; received.Load() < n; {
					runtime.Gosched()
				}
			}
			b.ReportMetric(float64(spent.Microseconds())/float64(b.N*floorConnections), "cpu-us/write")
		})
	}
}

// BenchmarkLoneWake is the CPU of the process for each goroutine that a closed channel
// wakes, as a change wakes watches, and that waits again.
func BenchmarkLoneWake(b *testing.B) {
	var mu sync.Mutex
	changed, end := make(chan struct{}), make(chan struct{})
	current := func() chan struct{} { mu.Lock(); defer mu.Unlock(); return changed }
	var woken atomic.Int64
	var wait sync.WaitGroup
	for range floorConnections {
		wait.Go(func() {
			for {
				select {
				case <-current():
					woken.Add(1)
				case <-end:
					return
				}
			}
		})
	}
	began := cpu(b, syscall.RUSAGE_SELF)
	n := int64(0)
	for b.Loop() {
		time.Sleep(floorRest)
		mu.Lock()
		former := changed
		changed = make(chan struct{})
		mu.Unlock()
		close(former)
		for n += floorConnections; woken.Load() < n; {
			time.Sleep(time.Millisecond)
		}
	}
	b.ReportMetric(float64((cpu(b, syscall.RUSAGE_SELF)-began).Microseconds())/float64(b.N*floorConnections), "cpu-us/waiter")
	close(end)
	wait.Wait()
}

// floorPairs returns the servers' ends of connections whose other ends count what they
// are sent.
func floorPairs(b *testing.B, secure bool) (writers []net.Conn, received *atomic.Int64) {
	received = &atomic.Int64{}
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	config := certificate.TLS.Clone()
	certificate.Close()
	config.NextProtos, config.DynamicRecordSizingDisabled = nil, true
	l := repotest.Must(net.Listen("tcp", "127.0.0.1:0"))(b)
	defer l.Close()
	var reading sync.WaitGroup
	for range floorConnections {
		client := repotest.Must(net.Dial("tcp", l.Addr().String()))(b)
		server := repotest.Must(l.Accept())(b)
		if secure {
			client, server = tls.Client(client, &tls.Config{InsecureSkipVerify: true}), tls.Server(server, config) //nolint:gosec // to ourselves
		}
		reading.Go(func() {
			buffer := make([]byte, 4096)
			for {
				n, err := client.Read(buffer)
				received.Add(int64(n))
				if err != nil {
					return
				}
			}
		})
		if t, ok := server.(*tls.Conn); ok {
			if err := t.Handshake(); err != nil && !errors.Is(err, io.EOF) {
				b.Fatal(err)
			}
		}
		writers = append(writers, server)
		b.Cleanup(func() { _ = server.Close(); _ = client.Close() })
	}
	b.Cleanup(func() {
		for _, w := range writers {
			_ = w.Close()
		}
		reading.Wait()
	})
	return writers, received
}

// rusageThread is Linux' RUSAGE_THREAD.
const rusageThread = 1

func cpu(b *testing.B, who int) time.Duration {
	var u syscall.Rusage
	repotest.NoError(b, syscall.Getrusage(who, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
