package fleet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
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

// findHubs waits until the plane says where its hubs are. It logs what it waits for, each
// reason once.
func (f *Fleet) findHubs(ctx context.Context) (hubs, error) {
	said := ""
	for {
		h, err := f.askHubs(ctx)
		if err == nil {
			return h, nil
		}
		if reason := err.Error(); reason != said && ctx.Err() == nil {
			f.o.Log.Info("fleet waits for its hubs; --hub-addresses and --token name them", "reason", reason)
			said = reason
		}
		if clock.Sleep(ctx, 200*time.Millisecond) != nil {
			return h, fmt.Errorf("find hubs: %w", err)
		}
	}
}

func (f *Fleet) askHubs(ctx context.Context) (h hubs, err error) {
	h.token, h.http = f.o.Token, trust.Unverified()
	if h.token == "" {
		s, err := f.client.CoreV1().Secrets(api.Namespace).Get(ctx, api.SecretToken, metav1.GetOptions{})
		if err != nil {
			return h, fmt.Errorf("token: %w", err)
		}
		h.token = string(s.Data[api.KeyToken])
	}
	if h.list, err = f.o.givenHubs(); err == nil && len(h.list) == 0 {
		h.list, err = f.publishedHubs(ctx)
	}
	if err != nil {
		return h, err
	}
	h.pool, err = h.newEnroller(0).Authority(ctx)
	return h, err
}

// givenHubs returns the hubs that the user has named.
func (o *Options) givenHubs() (out []api.Hub, err error) {
	for _, text := range o.HubAddresses {
		address, enrolment, _ := strings.Cut(text, "/")
		host, socket, err := net.SplitHostPort(address)
		x := api.Hub{Address: host}
		if err == nil {
			x.Websocket, err = strconv.Atoi(socket)
		}
		if err == nil {
			x.Enrolment, err = strconv.Atoi(enrolment)
		}
		if err != nil || host == "" {
			return nil, fmt.Errorf("hub-addresses %q: want HOST:PORT/PORT such as 192.0.2.1:10000/10002", text)
		}
		out = append(out, x)
	}
	return out, nil
}

// publishedHubs returns the hubs that say at the API server where they are.
func (f *Fleet) publishedHubs(ctx context.Context) (out []api.Hub, err error) {
	c, err := f.client.CoreV1().ConfigMaps(api.Namespace).Get(ctx, api.ConfigMapHubs, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("addresses of hubs: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Data)) {
		var x api.Hub
		if err := json.Unmarshal([]byte(c.Data[name]), &x); err != nil {
			return nil, fmt.Errorf("hub %s: %w", name, err)
		}
		out = append(out, x)
	}
	if len(out) < f.o.Hubs {
		return nil, fmt.Errorf("%d of %d hubs say where they are", len(out), f.o.Hubs)
	}
	return out, nil
}

func (h *hubs) newEnroller(i int) *trust.Enroller {
	x := h.list[i]
	return &trust.Enroller{Client: h.http, Token: h.token, Base: "https://" + net.JoinHostPort(x.Address, strconv.Itoa(x.Enrolment))}
}

// hubsOf returns the hubs that an edge tries at a dial, by their numbers. Without a balancer the
// edges of each fleet spread over all hubs.
func (f *Fleet) hubsOf(d *driver) []int {
	i, _ := strconv.Atoi(d.edge.name[strings.LastIndexByte(d.edge.name, '-')+1:]) // prepare named it
	n := len(f.hubs.list)
	turn := rand.N(n)
	if f.o.Balance == BalanceRoundRobin {
		turn = int(f.turns.Add(1) % int64(n))
	}
	return hubOrder(f.o.Balance, i/f.o.Shards%n, n, turn)
}

// hubOrder returns the hubs that an edge tries, of n: its own, or behind a balancer all, from
// the one on whose turn it is.
func hubOrder(balance string, own, n, turn int) (out []int) {
	if balance == BalanceFixed {
		return []int{own}
	}
	for i := range n {
		out = append(out, (turn+i)%n)
	}
	return out
}

// isAway reports whether a dial failed because no hub listens there, which a balancer knows.
func isAway(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

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

// dialHub connects an edge to its hub, or to the first one that is there.
func (f *Fleet) dialHub(ctx context.Context, d *driver) (err error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	for _, i := range f.hubsOf(d) {
		if err = f.dialOne(ctx, d, i); !isAway(err) {
			return err
		}
	}
	return err
}

// dialOne connects an edge to a hub. It enrols first where it has no certificate.
func (f *Fleet) dialOne(ctx context.Context, d *driver, i int) error {
	certificate, err := f.certificateOf(ctx, d, i)
	if err != nil {
		return err
	}
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
	c.SetHandler(f.handlerOf(d, c))
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
	f.wait.Go(func() { c.Serve(f.handlerOf(d, c)) })
	return nil
}

// certificateOf returns an edge's, or the one that all share. An edge of its own keeps
// it: a key and 600 bytes.
func (f *Fleet) certificateOf(ctx context.Context, d *driver, hub int) (*tls.Certificate, error) {
	own := &d.certificate
	if f.o.Certificates == CertificatesShared {
		f.sharing.Lock()
		defer f.sharing.Unlock()
		own = &f.shared
	}
	if *own != nil {
		return *own, nil
	}
	c, err := f.hubs.newEnroller(hub).Certificate(ctx, d.edge.name)
	if err != nil {
		return nil, err
	}
	*own = &c
	return &c, nil
}
