package fleet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/edge/internal/api"
	"github.com/windtunnel/windtunnel/planes/edge/internal/link"
	"github.com/windtunnel/windtunnel/planes/edge/internal/trust"
)

// project is the ID that every KubeEdge edge has.
const project = "e632aba927ea4ac2b575ec1603d56f10"

// hubs are where edges connect, and whom they trust.
type hubs struct {
	list  []api.Hub
	token string
	pool  *x509.CertPool
	http  *http.Client
}

// find waits until the plane says where its hubs are.
func (f *Fleet) find(ctx context.Context) (hubs, error) {
	for {
		h, err := f.ask(ctx)
		if err == nil {
			return h, nil
		}
		if clock.Sleep(ctx, 200*time.Millisecond) != nil {
			return h, fmt.Errorf("find hubs: %w", err)
		}
	}
}

func (f *Fleet) ask(ctx context.Context) (h hubs, err error) {
	s, err := f.client.CoreV1().Secrets(api.Namespace).Get(ctx, api.SecretToken, metav1.GetOptions{})
	if err != nil {
		return h, err
	}
	h.token, h.http = string(s.Data[api.KeyToken]), trust.Unverified()
	c, err := f.client.CoreV1().ConfigMaps(api.Namespace).Get(ctx, api.ConfigMapHubs, metav1.GetOptions{})
	if err != nil {
		return h, err
	}
	var names []string
	for name := range c.Data {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		var x api.Hub
		if err := json.Unmarshal([]byte(c.Data[name]), &x); err != nil {
			return h, fmt.Errorf("hub %s: %w", name, err)
		}
		h.list = append(h.list, x)
	}
	if len(h.list) < f.o.Hubs {
		return h, fmt.Errorf("%d of %d hubs say where they are", len(h.list), f.o.Hubs)
	}
	h.pool, err = h.enroller(0).Authority(ctx)
	return h, err
}

func (h *hubs) enroller(i int) *trust.Enroller {
	x := h.list[i]
	return &trust.Enroller{Client: h.http, Token: h.token, Base: "https://" + net.JoinHostPort(x.Address, strconv.Itoa(x.Enrolment))}
}

// hub is the number of an edge's hub: the edges of each fleet spread over all hubs.
func (f *Fleet) hub(e *edge) int {
	i, _ := strconv.Atoi(e.name[strings.LastIndexByte(e.name, '-')+1:]) // prepare named it
	return i / f.o.Shards % len(f.hubs.list)
}

// dialNow lets a dialer take an edge; where all are busy it waits for one.
func (f *Fleet) dialNow(e *edge) {
	ctx := f.ctx()
	f.wait.Go(func() {
		select {
		case f.dials <- e:
		case <-ctx.Done():
		}
	})
}

// The times of KubeEdge's reconnects.
const (
	fixedWait  = 30 * time.Second
	fixedGap   = 5 * time.Second
	fixedDials = 5
	dialWithin = 30 * time.Second
	jitterMost = 30 * time.Second
)

// redial lets an edge dial again: lost, because its connection ended and not
// because a dial failed.
func (f *Fleet) redial(e *edge, lost bool) {
	e.mu.Lock()
	if lost {
		e.dials = 0
	}
	e.dials++
	n := e.dials
	e.mu.Unlock()
	var wait time.Duration
	switch {
	case f.o.Backoff == BackoffJitter:
		wait = rand.N(min(time.Second<<min(n, 10), jitterMost))
	case n%fixedDials == 1:
		wait = fixedWait
	default:
		wait = fixedGap
	}
	f.schedule.in(wait, func() { f.dialNow(e) })
}

func (f *Fleet) dialer(ctx context.Context) {
	for {
		select {
		case e := <-f.dials:
			f.dialing.Add(1)
			err := f.dial(ctx, e)
			f.dialing.Add(-1)
			if ctx.Err() != nil {
				return
			}
			f.metrics.dials.WithLabelValues(dialResult(err)).Inc()
			if err != nil {
				f.o.Log.Debug("dial failed", "edge", e.name, "error", err)
				f.redial(e, false)
			}
		case <-ctx.Done():
			return
		}
	}
}

// dialResult is a word for how a dial went.
func dialResult(err error) string {
	var timeout net.Error
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, link.ErrRefused):
		return "refused"
	case errors.Is(err, trust.ErrToken) || errors.Is(err, trust.ErrRequest):
		return "enrolment"
	}
	return "failed"
}

// dial connects an edge, which enrols first where it has no certificate.
func (f *Fleet) dial(ctx context.Context, e *edge) error {
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	certificate, err := f.certificate(ctx, e)
	if err != nil {
		return err
	}
	i := f.hub(e)
	x := f.hubs.list[i]
	o := link.Options{Crypto: f.o.Crypto, Bytes: &f.bytes, TLS: &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: f.hubs.pool, Certificates: []tls.Certificate{*certificate},
		CurvePreferences: []tls.CurveID{tls.X25519},
	}}
	if f.o.TLS == TLSResume {
		if e.tickets == nil {
			e.tickets = tls.NewLRUClientSessionCache(1)
		}
		o.TLS.ClientSessionCache = e.tickets
		o.TLS.VerifyConnection = func(s tls.ConnectionState) error {
			if s.DidResume {
				f.metrics.resumed.Inc()
			}
			return nil
		}
	}
	if f.o.Sources > 0 {
		o.Source = net.IPv4(127, 0, 0, byte(2+rand.N(f.o.Sources)))
	}
	header := http.Header{"node_id": {e.name}, "project_id": {project}, "ConnectionUse": {"msg"}}
	if f.quic != nil {
		return f.dialQUIC(ctx, e, x, o.TLS)
	}
	c, err := link.Dial(ctx, net.JoinHostPort(x.Address, strconv.Itoa(x.Websocket)), "/"+project+"/"+e.name+"/events", header, o)
	if err != nil {
		return err
	}
	c.SetHandler(e)
	e.opened(c)
	if err := f.poller.Add(c); err != nil {
		e.Ended(err)
	}
	return nil
}

// errNoQUIC says that a hub takes nobody by QUIC.
var errNoQUIC = errors.New("the hub does not listen for QUIC: start it with --quic")

// dialQUIC connects an edge by QUIC.
func (f *Fleet) dialQUIC(ctx context.Context, e *edge, to api.Hub, config *tls.Config) error {
	if to.QUIC == 0 {
		return errNoQUIC
	}
	config = config.Clone()
	config.ServerName = to.Address
	header := http.Header{"Node_id": {e.name}, "Project_id": {project}, "Connectionuse": {"msg"}}
	c, err := f.quic.Dial(ctx, net.JoinHostPort(to.Address, strconv.Itoa(to.QUIC)), header, config)
	if err != nil {
		return err
	}
	c.SetBytes(&f.bytes)
	e.opened(c)
	f.wait.Go(func() { c.Serve(e) })
	return nil
}

// certificate returns an edge's, or the one that all share. An edge of its own keeps
// it: a key and 600 bytes.
func (f *Fleet) certificate(ctx context.Context, e *edge) (*tls.Certificate, error) {
	own := &e.certificate
	if f.o.Certificates == CertificatesShared {
		f.sharing.Lock()
		defer f.sharing.Unlock()
		own = &f.shared
	}
	if *own != nil {
		return *own, nil
	}
	c, err := f.hubs.enroller(f.hub(e)).Certificate(ctx, e.name)
	if err != nil {
		return nil, err
	}
	*own = &c
	return &c, nil
}
