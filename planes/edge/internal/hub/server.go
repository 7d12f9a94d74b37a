package hub

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/link"
	"github.com/windtunnel/windtunnel/planes/edge/internal/trust"
)

// loadAuthority returns the authority of the plane, which the first hub makes: hubs that
// start together agree by who was first at the API server.
func (h *Hub) loadAuthority(ctx context.Context) (*trust.Authority, error) {
	secrets := h.client.CoreV1().Secrets(api.Namespace)
	a, err := trust.NewAuthority(h.o.Now())
	if err != nil {
		return nil, err
	}
	_, err = secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: api.SecretAuthority},
		Data:       map[string][]byte{api.KeyAuthority: a.DER, api.KeyAuthorityKey: a.Key()},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("keep the authority: %w", err)
	}
	s, err := secrets.Get(ctx, api.SecretAuthority, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the authority: %w", err)
	}
	if a, err = trust.ReadAuthority(s.Data[api.KeyAuthority], s.Data[api.KeyAuthorityKey]); err != nil {
		return nil, err
	}
	return a, h.renewToken(ctx, a)
}

// renewToken writes the token by which edges enrol, as it is done each 12 h.
func (h *Hub) renewToken(ctx context.Context, a *trust.Authority) error {
	secrets := h.client.CoreV1().Secrets(api.Namespace)
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: api.SecretToken},
		Data:       map[string][]byte{api.KeyToken: []byte(a.Token(h.o.Now().Add(trust.TokenLasts)))},
	}
	_, err := secrets.Create(ctx, s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(ctx, s, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("keep the token: %w", err)
	}
	return nil
}

// serveEdges listens, says where, and takes edges until ctx ends.
func (h *Hub) serveEdges(ctx context.Context) (err error) {
	before := h.earlierAddress(ctx)
	sockets, err := h.listenOn(ctx, h.o.WebsocketPort, before.Websocket)
	if err != nil {
		return err
	}
	enrolment, err := h.listenOn(ctx, h.o.EnrolmentPort, before.Enrolment)
	if err != nil {
		return errors.Join(err, sockets.Close())
	}
	certificate, err := h.authority.Server([]net.IP{net.ParseIP(h.o.Address)}, nil, h.o.Now())
	if err != nil {
		return errors.Join(err, sockets.Close(), enrolment.Close())
	}
	server := &http.Server{
		Handler: h.authority.Handler(h.o.Now, func(path string, code int) { h.metrics.enrolments.WithLabelValues(path, strconv.Itoa(code)).Inc() }),
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequestClientCert,
		},
		ReadHeaderTimeout: 10 * time.Second, ErrorLog: nil,
	}
	h.wait.Go(func() { _ = server.ServeTLS(enrolment, "", "") }) // ends with ErrServerClosed
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: h.authority.Pool(),
	}
	if h.o.Crypto { // every connection has a copy of this, which would make a key of its own
		var key [32]byte
		_, _ = rand.Read(key[:]) // it never fails
		config.SetSessionTicketKeys([][32]byte{key})
	}
	var accepting sync.WaitGroup
	accepting.Go(func() { h.acceptConnections(ctx, sockets.(*net.TCPListener), config) })
	streams := 0
	if h.o.QUIC {
		streams, err = h.listenQUIC(ctx, &accepting, config, before.QUIC)
	}
	where := api.Hub{
		Address: h.o.Address, Websocket: sockets.Addr().(*net.TCPAddr).Port, Enrolment: enrolment.Addr().(*net.TCPAddr).Port, QUIC: streams,
	}
	if err == nil {
		err = h.publishAddress(ctx, where)
	}
	if ctx.Err() != nil { // ended while it said so, it has not failed
		err = nil
	}
	if err == nil {
		h.o.Log.Info("hub runs", "name", h.o.Name, "websocket", sockets.Addr().String(), "enrolment", enrolment.Addr().String())
		h.o.Registry.Ready()
		<-ctx.Done()
	}
	err = errors.Join(err, sockets.Close(), server.Close())
	accepting.Wait()
	return err
}

// listenOn listens on a port that is given, or on the one of before, or on a free one.
func (h *Hub) listenOn(ctx context.Context, given, before int) (net.Listener, error) {
	var l net.ListenConfig
	port := given
	if port == 0 {
		port = before
	}
	out, err := l.Listen(ctx, "tcp", net.JoinHostPort(h.o.Address, strconv.Itoa(port)))
	if err != nil && given == 0 && before != 0 {
		out, err = l.Listen(ctx, "tcp", net.JoinHostPort(h.o.Address, "0"))
	}
	if err != nil {
		return nil, fmt.Errorf("listen for edges: %w", err)
	}
	return out, nil
}

// earlierAddress returns where this hub was, if it was there before.
func (h *Hub) earlierAddress(ctx context.Context) (p api.Hub) {
	if c, err := h.client.CoreV1().ConfigMaps(api.Namespace).Get(ctx, api.ConfigMapHubs, metav1.GetOptions{}); err == nil {
		_ = json.Unmarshal([]byte(c.Data[h.o.Name]), &p) // what is no place is none
	}
	return p
}

// publishAddress says where fleets find the hub.
func (h *Hub) publishAddress(ctx context.Context, where api.Hub) error {
	text, err := json.Marshal(where)
	if err != nil {
		return err
	}
	maps := h.client.CoreV1().ConfigMaps(api.Namespace)
	own := map[string]string{h.o.Name: string(text)}
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: api.ConfigMapHubs}, Data: own}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		var patch []byte
		if patch, err = json.Marshal(map[string]any{"data": own}); err == nil {
			_, err = maps.Patch(ctx, api.ConfigMapHubs, types.MergePatchType, patch, metav1.PatchOptions{})
		}
	}
	if err != nil {
		return fmt.Errorf("say where the hub is: %w", err)
	}
	return nil
}

// newAdmission lets so many handshakes a second go as the options say, of one way in.
func (h *Hub) newAdmission() flowcontrol.RateLimiter {
	if h.o.Admit <= 0 {
		return flowcontrol.NewFakeAlwaysRateLimiter()
	}
	return flowcontrol.NewTokenBucketRateLimiter(float32(h.o.Admit), max(int(h.o.Admit/10), 1))
}

// acceptConnections takes connections, no faster than they are admitted.
func (h *Hub) acceptConnections(ctx context.Context, l *net.TCPListener, config *tls.Config) {
	var wait sync.WaitGroup
	defer wait.Wait()
	admit := h.newAdmission()
	for admit.Wait(ctx) == nil {
		c, err := l.AcceptTCP()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // no descriptor is left: those who wait may be taken later
			h.metrics.connects.WithLabelValues("not accepted").Inc()
			time.Sleep(100 * time.Millisecond)
			continue
		}
		wait.Go(func() { h.connectEdge(ctx, c, config) })
	}
}

var (
	errNoName = errors.New("no node_id")
	errLimit  = errors.New("this hub has as many edges as it takes")
	errName   = errors.New("the certificate is another node's")
	errUse    = errors.New("no ConnectionUse: msg")
)

// connectEdge opens an edge's websocket and makes it a session.
func (h *Hub) connectEdge(ctx context.Context, raw *net.TCPConn, config *tls.Config) {
	began := h.o.Clock.Now()
	shaking, cancel := ctx, context.CancelFunc(func() {})
	if h.o.HandshakeTimeout > 0 {
		shaking, cancel = context.WithTimeout(ctx, h.o.HandshakeTimeout)
	}
	defer cancel()
	s := &session{hub: h, over: make(chan struct{})}
	var deaf error
	conn, err := link.Accept(shaking, raw, link.Options{TLS: config, Crypto: h.o.Crypto, Bytes: &h.bytes}, func(q *http.Request, state *tls.ConnectionState) error {
		var why error
		deaf, why = h.admitEdge(s, q.Header, state)
		return why
	})
	if err != nil {
		h.metrics.connects.WithLabelValues(refusalReason(err)).Inc()
		h.o.Log.Debug("edge refused", "node", s.node, "peer", raw.RemoteAddr().String(), "error", err)
		return
	}
	conn.SetWriteTimeout(h.o.WriteTimeout)
	s.conn = conn
	s.last.Store(int64(h.o.Clock.Now()))
	if deaf != nil {
		conn.SetHandler(h.unserved(s, deaf))
		_ = h.poller.Add(conn) // one that has ended already needs none
		return
	}
	h.metrics.handshake.WithLabelValues().Observe(h.o.Clock.Now().Sub(began).Seconds())
	h.beginSession(ctx, s, func() error {
		conn.SetHandler(s)
		return h.poller.Add(conn)
	})
}

// unserved returns what takes the messages of an edge that KubeEdge's hub leaves connected
// without serving it: one beyond the node limit is heard.
func (h *Hub) unserved(s *session, why error) link.Handler {
	h.metrics.connects.WithLabelValues("unserved: " + why.Error()).Inc()
	if errors.Is(why, errLimit) {
		s.mute = true
		return s
	}
	return deafened{}
}

// deafened is a peer that is not heard and does not know it.
type deafened struct{}

func (deafened) Message([]byte) error { return nil }
func (deafened) Ended(error)          {}

// admitEdge says why an edge is not let in, or where that is KubeEdge's answer, why it is let
// in and not served.
func (h *Hub) admitEdge(s *session, header http.Header, state *tls.ConnectionState) (unserved, why error) {
	s.node = header.Get("Node_id")
	why = h.refuseEdge(s.node, header.Get("ConnectionUse"), state)
	if (errors.Is(why, errLimit) || errors.Is(why, errUse)) && h.o.LimitAnswer == LimitSilent {
		return why, nil
	}
	return nil, why
}

func (h *Hub) refuseEdge(node, use string, state *tls.ConnectionState) error {
	switch {
	case node == "":
		return errNoName
	case use != "msg":
		return errUse
	case h.o.Authorize && (state == nil || len(state.PeerCertificates) == 0 || state.PeerCertificates[0].Subject.CommonName != trust.NamePrefix+node):
		return errName
	case h.sessions.get(node) == nil && h.sessions.len() >= h.maxSessions():
		return errLimit
	}
	return nil
}

// maxSessions is how many edges are served. KubeEdge's hub looks whether it has more than its
// limit before it counts the edge that comes, and so serves one more.
func (h *Hub) maxSessions() int {
	if h.o.LimitAnswer == LimitSilent {
		return h.o.NodeLimit + 1
	}
	return h.o.NodeLimit
}

// refusalReason is a word for why a connection did not come about.
func refusalReason(err error) string {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var verify *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.Is(err, errNoName):
		return "no name"
	case errors.Is(err, errUse):
		return "no ConnectionUse"
	case errors.Is(err, errLimit):
		return "limit"
	case errors.Is(err, errName):
		return "name of another"
	case errors.As(err, &unknown):
		return "unknown authority"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "certificate expired"
	case errors.As(err, &verify):
		return "bad certificate"
	case errors.Is(err, link.ErrRefused):
		return "no websocket"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "handshake timeout"
	case errors.Is(err, io.EOF):
		return "left"
	}
	return "handshake failed"
}

// beginSession makes a session its node's and lets it be read.
func (h *Hub) beginSession(ctx context.Context, s *session, read func() error) {
	old, ok := h.sessions.add(s, h.maxSessions())
	if !ok {
		h.metrics.connects.WithLabelValues("limit").Inc()
		_ = s.conn.Close() // it never fails, and nobody reads it
		return
	}
	if old != nil {
		old.closeWithReason("a newer connection of the node")
	}
	h.metrics.connects.WithLabelValues("ok").Inc()
	if err := read(); err != nil {
		h.endSession(s, err)
		return
	}
	for _, m := range h.sessions.takeUnsent(s.node) {
		s.enqueue(m)
	}
	h.wait.Go(func() {
		h.annotateNode(ctx, s.node)
		h.resyncReturned(ctx, s)
	})
}

// keepUnsent keeps what waits of a session that has ended.
func (h *Hub) keepUnsent(s *session) {
	left := s.takeUnrecorded()
	if now := h.sessions.keepUnsent(s.node, left); now != nil {
		for _, m := range left {
			now.enqueue(m)
		}
	}
}

// endSession takes a session out. Its node may have a newer one, which stays.
func (h *Hub) endSession(s *session, err error) {
	h.sessions.remove(s)
	s.finishSession()
	if h.o.Queues == QueuesV111 && !s.mute {
		h.keepUnsent(s)
	}
	reason := "closed by the edge"
	if why := s.reason.Load(); why != nil {
		reason = *why
	} else if errors.Is(err, link.ErrSlow) {
		reason = "does not read"
	} else if errors.Is(err, link.ErrTooLarge) || errors.Is(err, link.ErrProtocol) {
		reason = "protocol broken"
	} else if err != nil && !errors.Is(err, io.EOF) {
		reason = "connection lost"
	}
	h.metrics.ended.WithLabelValues(reason).Inc()
}
