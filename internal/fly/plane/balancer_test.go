package plane

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/plane/proxy"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// A trace says what the servers answer (+0: server 0 is ready, -0: not) and where
// connections (c) go then.
func TestRotation(t *testing.T) {
	for _, c := range []struct {
		servers, failures int
		trace, want       string
	}{
		{3, 1, "c c", "none none"},
		{3, 1, "+0 +1 +2 c c c c", "0 1 2 0"},
		{3, 1, "+0 +1 +2 -1 c c c c", "0 2 0 2"},
		{3, 1, "+0 +1 +2 c -1 c c +1 c c c", "0 2 0 1 2 0"},
		{2, 1, "+0 +1 -0 -1 c +0 c c", "none 0 0"},
		{2, 2, "+0 +1 -0 c c -0 c c", "0 1 1 1"},
		{2, 2, "+0 +1 -0 +0 -0 c c", "0 1"},
		{2, 3, "-0 -1 c +1 c", "none 1"},
		{1, 1, "+0 c c", "0 0"},
	} {
		r := newRotation(c.servers, c.failures)
		var got []string
		for _, word := range strings.Fields(c.trace) {
			if word == "c" {
				next := fmt.Sprint(r.next())
				if next == "-1" {
					next = "none"
				}
				if (next == "none") == r.healthy() {
					t.Errorf("%s: a connection goes to %s, and healthy is %v", c.trace, next, r.healthy())
				}
				got = append(got, next)
				continue
			}
			r.note(int(word[1]-'0'), word[0] == '+')
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%d servers, %d failures, %s: %s, want %s", c.servers, c.failures, c.trace, text, c.want)
		}
	}
}

// While no server is ready the balancer refuses connections, and tells once when that begins and
// ends: a client sees what a load balancer without a backend shows it.
func TestBalancerWithoutServer(t *testing.T) {
	ready := make([]atomic.Bool, 2)
	b := &balancer{rotation: newRotation(2, 1)}
	var asks []*Asker
	for i := range ready {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if !ready[i].Load() {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}))
		defer server.Close()
		base := repotest.Must(url.Parse(server.URL))(t)
		asks, b.servers = append(asks, &Asker{server.Client(), base, bodyBytes}), append(b.servers, base.Host)
	}
	b.settings.Interval = 1 << 40 // the timeout of a question: longer than any test
	b.proxy = repotest.Must(proxy.Start(proxy.Options{Choose: func(_, _ net.Addr) string { return b.servers[0] }}))(t)
	defer b.proxy.Close()
	for _, c := range []struct {
		ready   [2]bool
		told    string
		refuses bool
	}{
		{[2]bool{true, true}, ServerReady, false},
		{[2]bool{true, true}, "", false},
		{[2]bool{false, true}, "", false},
		{[2]bool{false, false}, NoServer, true},
		{[2]bool{false, false}, "", true},
		{[2]bool{false, true}, ServerReady, false},
	} {
		for i := range ready {
			ready[i].Store(c.ready[i])
		}
		told := ""
		for i, ask := range asks {
			told += b.ask(t.Context(), i, ask)
		}
		if told != c.told {
			t.Errorf("ready %v: told %q, want %q", c.ready, told, c.told)
		}
		conn, err := net.Dial("tcp", b.proxy.Addr())
		if refused := errors.Is(err, syscall.ECONNREFUSED); refused != c.refuses || err != nil && !refused {
			t.Errorf("ready %v: %v", c.ready, err)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
}
