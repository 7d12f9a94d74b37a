package hub

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"

	"github.com/windtunnel/windtunnel/planes/edge/internal/stream"
)

// listenQUIC takes edges by QUIC until ctx ends, on the port of before or on a free one.
func (h *Hub) listenQUIC(ctx context.Context, accepting *sync.WaitGroup, config *tls.Config, before int) (port int, err error) {
	admit := h.newAdmission().TryAccept
	config = config.Clone()
	config.ClientAuth, config.VerifyConnection = tls.RequireAnyClientCert, h.verifyEdge
	l, err := stream.Listen(net.JoinHostPort(h.o.Address, strconv.Itoa(before)), config, h.o.HandshakeTimeout, admit)
	if err != nil && before != 0 {
		l, err = stream.Listen(net.JoinHostPort(h.o.Address, "0"), config, h.o.HandshakeTimeout, admit)
	}
	if err != nil {
		return 0, err
	}
	accepting.Go(func() {
		var wait sync.WaitGroup
		for {
			c, err := l.Accept(ctx)
			if err != nil {
				break // the listener is closed, or ctx has ended
			}
			wait.Go(func() { h.connectQUIC(ctx, c) })
		}
		_ = l.Close() // nothing can be done about it
		wait.Wait()
	})
	return l.Port(), nil
}

// verifyEdge checks an edge's certificate here and not in crypto/tls, whose refusals QUIC
// tells nobody of: they are counted.
func (h *Hub) verifyEdge(state tls.ConnectionState) error {
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: h.authority.Pool(), CurrentTime: h.o.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		h.metrics.connects.WithLabelValues(refusalReason(err)).Inc()
	}
	return err
}

// connectQUIC makes a connection by QUIC a session.
func (h *Hub) connectQUIC(ctx context.Context, c *stream.Conn) {
	began := h.o.Clock.Now()
	greeting, cancel := ctx, context.CancelFunc(func() {})
	if h.o.HandshakeTimeout > 0 {
		greeting, cancel = context.WithTimeout(ctx, h.o.HandshakeTimeout)
	}
	defer cancel()
	c.SetWriteTimeout(h.o.WriteTimeout)
	c.SetBytes(&h.bytes)
	s := &session{hub: h, over: make(chan struct{}), conn: c}
	var deaf error
	err := c.Welcome(greeting, func(header http.Header, state *tls.ConnectionState) (why error) {
		deaf, why = h.admitEdge(s, header, state)
		return why
	})
	if err != nil {
		reason := refusalReason(err)
		if errors.Is(greeting.Err(), context.DeadlineExceeded) {
			reason = "handshake timeout"
		}
		h.metrics.connects.WithLabelValues(reason).Inc()
		h.o.Log.Debug("edge refused", "node", s.node, "error", err)
		return
	}
	s.last.Store(int64(h.o.Clock.Now()))
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	if deaf != nil {
		handler := h.unserved(s, deaf)
		h.wait.Go(func() { defer stop(); c.Serve(handler) })
		return
	}
	h.metrics.handshake.WithLabelValues().Observe(h.o.Clock.Now().Sub(began).Seconds())
	h.beginSession(ctx, s, func() error {
		h.wait.Go(func() { defer stop(); c.Serve(s) })
		return nil
	})
}
