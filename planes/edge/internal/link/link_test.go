package link_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/edge/internal/link"
	"github.com/windtunnel/windtunnel/planes/edge/internal/trust"
)

// peer is one end in a test; it answers what its reply says.
type peer struct {
	mu    sync.Mutex
	got   []string
	ended error
	done  bool
	reply func(raw []byte) error
}

func (p *peer) Message(raw []byte) error {
	p.mu.Lock()
	p.got = append(p.got, string(raw))
	p.mu.Unlock()
	if p.reply != nil {
		return p.reply(raw)
	}
	return nil
}

func (p *peer) Ended(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended, p.done = err, true
}

func (p *peer) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.got
}

func (p *peer) end() (error, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended, p.done
}

// configs returns both ends' TLS, with certificates of one authority.
func configs(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	now := time.Now()
	a := repotest.Must(trust.NewAuthority(now))(t)
	certificate := repotest.Must(a.Server([]net.IP{net.IPv4(127, 0, 0, 1)}, nil, now))(t)
	own := repotest.Must(a.Client("edge-0", now))(t)
	return &tls.Config{Certificates: []tls.Certificate{certificate}, ClientCAs: a.Pool(), ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12},
		&tls.Config{Certificates: []tls.Certificate{own}, RootCAs: a.Pool(), MinVersion: tls.VersionTLS12}
}

// listen accepts connections that echo, until the test ends.
func listen(t testing.TB, poller *link.Poller, o link.Options) string {
	t.Helper()
	l := repotest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			raw, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				c, err := link.Accept(t.Context(), raw.(*net.TCPConn), o, func(q *http.Request, _ *tls.ConnectionState) error {
					if q.Header.Get("Node_id") == "" {
						return errors.New("no node_id")
					}
					return nil
				})
				if err != nil {
					return
				}
				c.SetHandler(&peer{reply: c.Send})
				if err := poller.Add(c); err != nil {
					t.Error(err)
				}
			}()
		}
	}()
	return l.Addr().String()
}

func newPoller(t testing.TB) *link.Poller {
	t.Helper()
	p := repotest.Must(link.NewPoller(context.Background()))(t)
	t.Cleanup(p.Close)
	return p
}

func header() http.Header { return http.Header{"node_id": {"edge-0"}} }

// TestEcho holds that messages of every size come back as they were sent, with
// our records, with crypto/tls at either end, with TLS 1.2 and without TLS.
func TestEcho(t *testing.T) {
	server, client := configs(t)
	old := client.Clone()
	old.MaxVersion = tls.VersionTLS12
	for _, c := range []struct {
		name           string
		server, client link.Options
	}{
		{"records", link.Options{TLS: server}, link.Options{TLS: client}},
		{"crypto at the edge", link.Options{TLS: server}, link.Options{TLS: client, Crypto: true}},
		{"crypto at the hub", link.Options{TLS: server, Crypto: true}, link.Options{TLS: client}},
		{"TLS 1.2", link.Options{TLS: server}, link.Options{TLS: old}},
		{"plain", link.Options{}, link.Options{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			poller := newPoller(t)
			address := listen(t, poller, c.server)
			conn := repotest.Must(link.Dial(t.Context(), address, "/e632aba927ea4ac2b575ec1603d56f10/edge-0/events", header(), c.client))(t)
			p := &peer{}
			conn.SetHandler(p)
			repotest.NoError(t, poller.Add(conn))
			var want []string
			for _, size := range []int{0, 1, 125, 126, 4096, 65535, 65536, 1 << 20} {
				want = append(want, strings.Repeat(string(rune('a'+size%26)), size))
				repotest.NoError(t, conn.Send([]byte(want[len(want)-1])))
			}
			repotest.Eventually(t, "all come back", func() bool { return len(p.all()) == len(want) })
			for i, got := range p.all() {
				if got != want[i] {
					t.Errorf("message %d: %d bytes came back of %d", i, len(got), len(want[i]))
				}
			}
			_ = conn.Close()
			repotest.Eventually(t, "the handler is told", func() bool { _, done := p.end(); return done })
		})
	}
}

// TestRefused holds what a hub answers to who is not let in.
func TestRefused(t *testing.T) {
	server, client := configs(t)
	_, stranger := configs(t)
	stranger.RootCAs = client.RootCAs
	nobody := &tls.Config{RootCAs: client.RootCAs, MinVersion: tls.VersionTLS12}
	address := listen(t, newPoller(t), link.Options{TLS: server})
	for _, c := range []struct {
		name   string
		config *tls.Config
		header http.Header
		want   string
	}{
		{"no node", client, http.Header{}, "403"},
		{"another authority", stranger, header(), ""}, // the hub's alert, or a reset that is faster
		{"no certificate", nobody, header(), ""},
	} {
		_, err := link.Dial(t.Context(), address, "/x/edge-0/events", c.header, link.Options{TLS: c.config})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// TestTooLarge holds that a message beyond the limit ends the connection before
// it is taken into memory.
func TestTooLarge(t *testing.T) {
	poller := newPoller(t)
	address := listen(t, poller, link.Options{Limit: 1000})
	conn := repotest.Must(link.Dial(t.Context(), address, "/x/edge-0/events", header(), link.Options{}))(t)
	p := &peer{}
	conn.SetHandler(p)
	repotest.NoError(t, poller.Add(conn))
	_ = conn.Send(bytes.Repeat([]byte("x"), 1001))
	repotest.Eventually(t, "the hub ends it", func() bool { _, done := p.end(); return done })
	if got := p.all(); len(got) > 0 {
		t.Errorf("%d messages came back", len(got))
	}
}

// BenchmarkResting says what a connection at rest costs: both ends of it.
func BenchmarkResting(b *testing.B) {
	server, client := configs(b)
	for _, crypto := range []bool{false, true} {
		b.Run(fmt.Sprintf("crypto=%v", crypto), func(b *testing.B) { resting(b, server, client, crypto) })
	}
}

func resting(b *testing.B, server, client *tls.Config, crypto bool) {
	poller := newPoller(b)
	address := listen(b, poller, link.Options{TLS: server, Crypto: crypto})
	const count = 1000
	var conns []*link.Conn
	before := live()
	for b.Loop() {
		for range count {
			conn := repotest.Must(link.Dial(b.Context(), address, "/x/edge-0/events", header(), link.Options{TLS: client, Crypto: crypto}))(b)
			p := &peer{}
			conn.SetHandler(p)
			repotest.NoError(b, poller.Add(conn))
			_ = conn.Send([]byte("ping"))
			repotest.Eventually(b, "an answer", func() bool { return len(p.all()) == 1 })
			conns = append(conns, conn)
		}
	}
	b.ReportMetric(float64(live()-before)/float64(len(conns)), "B/connection")
	for _, c := range conns {
		_ = c.Close()
	}
}

// live returns the bytes of heap and stacks that live.
func live() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
