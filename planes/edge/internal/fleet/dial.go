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

// findHubs waits until the plane says where its hubs are.
func (f *Fleet) findHubs(ctx context.Context) (hubs, error) {
	for {
		h, err := f.askHubs(ctx)
		if err == nil {
			return h, nil
		}
		if clock.Sleep(ctx, 200*time.Millisecond) != nil {
			return h, fmt.Errorf("find hubs: %w", err)
		}
	}
}

func (f *Fleet) askHubs(ctx context.Context) (h hubs, err error) {
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
	h.pool, err = h.newEnroller(0).Authority(ctx)
	return h, err
}

func (h *hubs) newEnroller(i int) *trust.Enroller {
	x := h.list[i]
	return &trust.Enroller{Client: h.http, Token: h.token, Base: "https://" + net.JoinHostPort(x.Address, strconv.Itoa(x.Enrolment))}
}

// hubOf is the number of an edge's hub: the edges of each fleet spread over all hubs.
func (f *Fleet) hubOf(d *driver) int {
	i, _ := strconv.Atoi(d.edge.name[strings.LastIndexByte(d.edge.name, '-')+1:]) // prepare named it
	return i / f.o.Shards % len(f.hubs.list)
}

// dialNow lets a dialer take an edge; where all are busy it waits for one.
func (f *Fleet) dialNow(d *driver) {
	ctx := f.ctx()
	f.wait.Go(func() {
		select {
		case f.dials <- d:
		case <-ctx.Done():
		}
	})
}

// dialTimeout is how long a dial may take, with its handshake and an enrolment.
const dialTimeout = 30 * time.Second

func (f *Fleet) runDialer(ctx context.Context) {
	for {
		select {
		case d := <-f.dials:
			f.dialing.Add(1)
			err := f.dialHub(ctx, d)
			f.dialing.Add(-1)
			if ctx.Err() != nil {
				return
			}
			f.metrics.dials.WithLabelValues(dialResult(err)).Inc()
			if err != nil {
				f.o.Log.Debug("dial failed", "edge", d.edge.name, "error", err)
				d.handleEvent(notConnected{})
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

// dialHub connects an edge, which enrols first where it has no certificate.
func (f *Fleet) dialHub(ctx context.Context, d *driver) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	certificate, err := f.certificateOf(ctx, d)
	if err != nil {
		return err
	}
	i := f.hubOf(d)
	x := f.hubs.list[i]
	o := link.Options{Crypto: f.o.Crypto, Bytes: &f.bytes, TLS: &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: f.hubs.pool, Certificates: []tls.Certificate{*certificate},
		CurvePreferences: []tls.CurveID{tls.X25519},
	}}
	if f.o.TLS == TLSResume {
		if d.tickets == nil {
			d.tickets = tls.NewLRUClientSessionCache(1)
		}
		o.TLS.ClientSessionCache = d.tickets
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
	header := http.Header{"node_id": {d.edge.name}, "project_id": {project}, "ConnectionUse": {"msg"}}
	if f.quic != nil {
		return f.dialQUIC(ctx, d, x, o.TLS)
	}
	c, err := link.Dial(ctx, net.JoinHostPort(x.Address, strconv.Itoa(x.Websocket)), "/"+project+"/"+d.edge.name+"/events", header, o)
	if err != nil {
		return err
	}
	c.SetHandler(d)
	d.setConnection(c)
	if err := f.poller.Add(c); err != nil {
		d.Ended(err)
	}
	return nil
}

// errNoQUIC says that a hub takes nobody by QUIC.
var errNoQUIC = errors.New("the hub does not listen for QUIC: start it with --quic")

// dialQUIC connects an edge by QUIC.
func (f *Fleet) dialQUIC(ctx context.Context, d *driver, to api.Hub, config *tls.Config) error {
	if to.QUIC == 0 {
		return errNoQUIC
	}
	config = config.Clone()
	config.ServerName = to.Address
	header := http.Header{"Node_id": {d.edge.name}, "Project_id": {project}, "Connectionuse": {"msg"}}
	c, err := f.quic.Dial(ctx, net.JoinHostPort(to.Address, strconv.Itoa(to.QUIC)), header, config)
	if err != nil {
		return err
	}
	c.SetBytes(&f.bytes)
	d.setConnection(c)
	f.wait.Go(func() { c.Serve(d) })
	return nil
}

// certificateOf returns an edge's, or the one that all share. An edge of its own keeps
// it: a key and 600 bytes.
func (f *Fleet) certificateOf(ctx context.Context, d *driver) (*tls.Certificate, error) {
	own := &d.certificate
	if f.o.Certificates == CertificatesShared {
		f.sharing.Lock()
		defer f.sharing.Unlock()
		own = &f.shared
	}
	if *own != nil {
		return *own, nil
	}
	c, err := f.hubs.newEnroller(f.hubOf(d)).Certificate(ctx, d.edge.name)
	if err != nil {
		return nil, err
	}
	*own = &c
	return &c, nil
}
