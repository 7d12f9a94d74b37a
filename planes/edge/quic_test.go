package edge_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/edge/internal/hub"
	"github.com/windtunnel/windtunnel/planes/edge/internal/link"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
	"github.com/windtunnel/windtunnel/planes/edge/internal/stream"
	"github.com/windtunnel/windtunnel/planes/edge/internal/trust"
)

// dialQUIC connects to a hub by QUIC; whoever is let in is served.
func (g *gate) dialQUIC(d *stream.Dialer, node string, a *trust.Authority, header http.Header) (*stream.Conn, *stranger, error) {
	own := repotest.Must(a.Client(node, time.Now()))(g.t)
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: g.authority.Pool(), ServerName: g.where.Address, Certificates: []tls.Certificate{own}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := d.Dial(ctx, net.JoinHostPort(g.where.Address, strconv.Itoa(g.where.QUIC)), header, config)
	if err != nil {
		return nil, nil, err
	}
	s, done := &stranger{}, make(chan struct{})
	go func() { defer close(done); c.Serve(s) }()
	g.t.Cleanup(func() { _ = c.Close(); <-done })
	return c, s, nil
}

func dialer(t *testing.T) *stream.Dialer {
	d := repotest.Must(stream.NewDialer(net.IPv4(127, 0, 0, 1)))(t)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func namedQUIC(node string) http.Header {
	return http.Header{"Node_id": {node}, "Connectionuse": {"msg"}}
}

// TestQUICNotLetIn holds that who comes by QUIC is refused for the same reasons as by
// websocket, each counted, and that others are served meanwhile.
func TestQUICNotLetIn(t *testing.T) {
	g := newGate(t, func(o *hub.Options) {
		o.QUIC, o.LimitAnswer, o.NodeLimit, o.Authorize = true, hub.LimitClose, 1, true
	})
	d := dialer(t)
	conn, good, err := g.dialQUIC(d, "edge-0", g.authority, namedQUIC("edge-0"))
	repotest.NoError(t, err)
	g.refuses(namedQUIC, func(node string, a *trust.Authority, header http.Header) error {
		_, _, err := g.dialQUIC(d, node, a, header)
		if err != nil && a == g.authority && !errors.Is(err, link.ErrRefused) {
			t.Errorf("%s: %v, want to be told why", node, err)
		}
		return err
	})
	g.query(conn, good)
	if err := conn.Send(make([]byte, link.DefaultLimit+1)); err != nil {
		t.Log(err) // the hub may have ended it before it had all of it
	}
	repotest.Eventually(t, "an oversized message ends it", good.isEnded)
	repotest.Eventually(t, "that is counted", func() bool { return g.counter("edge_hub_sessions_ended_total", "reason=protocol broken") == 1 })
}

// TestQUICTwins holds that the newer one of two connections of a name is served, whatever
// they go over.
func TestQUICTwins(t *testing.T) {
	g := newGate(t, func(o *hub.Options) { o.QUIC = true })
	_, first := g.connected("edge-0")
	conn, second, err := g.dialQUIC(dialer(t), "edge-0", g.authority, namedQUIC("edge-0"))
	repotest.NoError(t, err)
	repotest.Eventually(t, "the older one ends", first.isEnded)
	g.query(conn, second)
	m := message.New(1, message.Route{Source: message.SourceWS, Group: message.GroupCloud, Operation: message.Keepalive, Resource: "node"}, []byte(`"ping"`))
	if err := conn.Send(m.Append(nil)); err != nil {
		t.Error(err)
	}
}
