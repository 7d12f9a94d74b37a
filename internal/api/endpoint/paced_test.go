package endpoint

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// asked is how long a client waits for an answer. The clock of these tests stands still while
// anything is done, so that only what the pacing holds up takes time.
const asked = 5 * time.Second

// ask asks a server in memory, which serve is for each connection, and hands what comes of it
// to look, all in a bubble.
func ask(t *testing.T, serve func(*tls.Conn), look func(t *testing.T, answer *http.Response, err error, begun time.Time)) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS() // for its certificate
	defer s.Close()
	e := New("https://example.com", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), Identity{})
	synctest.Test(t, func(t *testing.T) {
		ended, end := context.WithCancel(t.Context())
		connect := func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			context.AfterFunc(ended, func() { _ = ours.Close() })
			go func() {
				conn := tls.Server(theirs, &tls.Config{Certificates: s.TLS.Certificates, NextProtos: []string{"h2"}})
				defer conn.Close()
				if conn.HandshakeContext(context.Background()) == nil {
					serve(conn)
				}
			}()
			return ours, nil
		}
		client, base, err := e.pacedClient(&pacing{clock: clock.Start(), connect: connect})
		repotest.NoError(t, err)
		client.Timeout = asked
		begun := time.Now()
		answer, err := client.Get(base.String())
		look(t, answer, err, begun)
		end()
		time.Sleep(time.Minute) // what is held up ends
	})
}

// unanswered says that a server gave no answer, in the time that the client has.
func unanswered(t *testing.T, answer *http.Response, err error, begun time.Time) {
	t.Helper()
	if err == nil {
		answer.Body.Close()
		t.Error("an answer")
	}
	if took := time.Since(begun); took != asked {
		t.Errorf("it took %v", took)
	}
}

// What answers bring is read as fast as it comes.
func TestClientReadsLargeAnswers(t *testing.T) {
	const size = 100 << 20
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		some := make([]byte, 1<<20)
		for range size / len(some) {
			_, _ = w.Write(some)
		}
	})
	serve := func(conn *tls.Conn) { new(http2.Server).ServeConn(conn, &http2.ServeConnOpts{Handler: handler}) }
	ask(t, serve, func(t *testing.T, answer *http.Response, err error, begun time.Time) {
		repotest.NoError(t, err)
		defer answer.Body.Close()
		if n, err := io.Copy(io.Discard, answer.Body); err != nil || n != size || time.Since(begun) > 0 {
			t.Errorf("%d bytes, held up for %v, %v", n, time.Since(begun), err)
		}
	})
}

// A server that sends PINGs and no answer is read slowly.
func TestClientIsNotFlooded(t *testing.T) {
	var pings bytes.Buffer
	for f := http2.NewFramer(&pings, nil); pings.Len() < 8<<10; {
		_ = f.WritePing(false, [8]byte{})
	}
	var sent atomic.Int64
	serve := func(conn *tls.Conn) {
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		for err := http2.NewFramer(conn, nil).WriteSettings(); err == nil; {
			_, err = conn.Write(pings.Bytes())
			sent.Add(int64(pings.Len()))
		}
	}
	ask(t, serve, unanswered)
	allowed := int64(idleBytes + idleRate*asked.Seconds())
	if n := sent.Load(); n < allowed/2 || n > allowed+allowed/100 { // TLS has bytes of its own, and buffers
		t.Errorf("%d bytes were taken, want about %d", n, allowed)
	}
}

// A server that says GOAWAY on each connection is not connected to in a spin.
func TestClientConnectsSlowlyForNothing(t *testing.T) {
	var taken atomic.Int64
	serve := func(conn *tls.Conn) {
		taken.Add(1)
		left := make(chan struct{})
		go func() { _, _ = io.Copy(io.Discard, conn); close(left) }()
		f := http2.NewFramer(conn, nil)
		_ = f.WriteSettings()
		_ = f.WriteGoAway(0, http2.ErrCodeNo, nil)
		<-left
	}
	ask(t, serve, unanswered)
	allowed := int64((idleBytes + idleRate*asked.Seconds()) / dialBytes)
	if n := taken.Load(); n < allowed/2 || n > allowed+1 {
		t.Errorf("%d connections, want about %d", n, allowed)
	}
}
