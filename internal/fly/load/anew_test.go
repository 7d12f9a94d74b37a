package load_test

import (
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// Calls of a plan with Anew come by a connection each, retries too; those of others share
// what is open.
func TestAnewConnectionForEachCall(t *testing.T) {
	for _, anew := range []bool{false, true} {
		var from sync.Map
		var calls atomic.Int64
		b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
			from.Store(r.RemoteAddr, true)
			if calls.Add(1) == 5 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}, load.Options{Connections: 1, Most: 1})
		p := plan(20, time.Millisecond)
		p.Anew, p.Retry = anew, load.Retry{Times: 1, Delay: time.Millisecond}
		repotest.NoError(t, b.Run(t.Context(), p))
		connections := 0
		from.Range(func(any, any) bool { connections++; return true })
		if want := map[bool]int{false: 1, true: 21}[anew]; connections != want {
			t.Errorf("anew %v: 21 calls came by %d connections, want %d", anew, connections, want)
		}
		repotest.NoError(t, b.Close())
		repotest.NoError(t, b.records.Close())
		stream, err := record.Read(b.path, func(*record.Stream) record.Visitor { return record.Visitor{} })
		if want := map[bool]string{true: record.NewConnection}[anew]; err != nil || stream.Ops[0].Connection != want {
			t.Errorf("anew %v: the records say %+v: %v", anew, stream.Ops, err)
		}
	}
}

// A server that takes no new connections serves the calls on connections that are open, and
// none of those that open their own. The time of a handshake is the call's.
func TestAnewConnectionsOfAServerThatTakesNone(t *testing.T) {
	const handshake = 20 * time.Millisecond
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		time.Sleep(handshake)
		return nil, nil
	}}
	s.StartTLS()
	defer s.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	b := newBench(t, nil, load.Options{})
	member := repotest.Must(b.AddMember(endpoint.New(s.URL, ca, endpoint.Identity{}), 0))(t)
	defer func() { _ = b.Close() }()
	for i, want := range []struct {
		anew   bool
		failed int64
	}{{false, 0}, {true, 0}, {false, 0}, {true, 5}} {
		if i == 2 {
			_ = s.Listener.Close()
		}
		p := plan(5, time.Millisecond)
		p.Anew = want.anew
		p.Build = func(i int, req *load.Request) (bool, error) {
			req.Member = member
			return post(i, req)
		}
		var failed atomic.Int64
		p.Done = func(r load.Result) {
			if r.Outcome != record.OK {
				failed.Add(1)
			} else if took := r.Response.Done.Sub(r.Response.Sent); want.anew && took < handshake {
				t.Errorf("a call took %v without its handshake", took)
			}
		}
		repotest.NoError(t, b.Run(t.Context(), p))
		if failed.Load() != want.failed {
			t.Errorf("plan %d, anew %v: %d of 5 calls failed, want %d", i, want.anew, failed.Load(), want.failed)
		}
	}
}
