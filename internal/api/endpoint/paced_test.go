package endpoint_test

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/windtunnel/windtunnel/internal/api/apitest"
	"github.com/windtunnel/windtunnel/internal/api/endpoint"
)

// What answers bring is read as fast as it comes.
func TestClientReadsLargeAnswers(t *testing.T) {
	const size = 100 << 20
	ep := apitest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		some := make([]byte, 1<<20)
		for range size / len(some) {
			_, _ = w.Write(some)
		}
	}))
	client, base, err := ep.Client()
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	answer, err := client.Get(base.String())
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if n, err := io.Copy(io.Discard, answer.Body); err != nil || n != size || time.Since(begin) > time.Minute {
		t.Errorf("%d bytes in %v, %v", n, time.Since(begin), err)
	}
}

// A server that sends PINGs and no answer is read slowly.
func TestClientIsNotFlooded(t *testing.T) {
	l, e := apitest.Listen(t)
	var sent atomic.Int64
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		f := http2.NewFramer(countingWriter{conn, &sent}, nil)
		for err = f.WriteSettings(); err == nil; {
			err = f.WritePing(false, [8]byte{})
		}
	}()
	took := unanswered(t, e)
	// Frames have 17 bytes and are sent one by one, in 39; sockets hold some megabytes.
	if most := int64(8<<20+2*256<<10*took.Seconds()) + 8<<20; sent.Load()*39/17 > most {
		t.Errorf("%d bytes were taken, want at most %d", sent.Load()*39/17, most)
	}
}

// unanswered asks a server that does not answer, for 5 s, and returns how long it took.
func unanswered(t *testing.T, e endpoint.Endpoint) time.Duration {
	t.Helper()
	client, base, err := e.Client()
	if err != nil {
		t.Fatal(err)
	}
	client.Timeout = 5 * time.Second
	begin := time.Now()
	if answer, err := client.Get(base.String()); err == nil {
		answer.Body.Close()
		t.Error("an answer")
	}
	return time.Since(begin)
}

type countingWriter struct {
	io.Writer
	n *atomic.Int64
}

func (w countingWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	w.n.Add(int64(n))
	return n, err
}

// A server that says GOAWAY on each connection is not connected to in a spin.
func TestClientConnectsSlowlyForNothing(t *testing.T) {
	l, e := apitest.Listen(t)
	var taken atomic.Int64
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			taken.Add(1)
			go func() {
				defer conn.Close()
				f := http2.NewFramer(conn, nil)
				_ = f.WriteSettings()
				_ = f.WriteGoAway(0, http2.ErrCodeNo, nil)
				_, _ = io.Copy(io.Discard, conn)
			}()
		}
	}()
	took := unanswered(t, e)
	const atOnce, each = 8 << 20 / (64 << 10), 256 << 10 / (64 << 10)
	if most := int64(atOnce + each*took.Seconds() + 2); taken.Load() > most {
		t.Errorf("%d connections in %v, want at most %d", taken.Load(), took, most)
	}
	t.Logf("%d connections in %v", taken.Load(), took)
}
