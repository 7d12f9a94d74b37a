package plane

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/plane/component"
	"github.com/windtunnel/windtunnel/internal/plane/proxy"
	"github.com/windtunnel/windtunnel/scenario"
)

// Relayable returns the names that Options.Relays may hold.
func Relayable() []string {
	return []string{component.Scheduler, component.ControllerManager, component.Etcd, Admin, Load, Fleet, Observe}
}

// Relay returns the relay of a client, or nil: see Options.Relays and Through.
func (p *Plane) Relay(name string) *proxy.Relay {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.relays[name]
}

// Through puts a relay between an identity and the API server: from now on
// Endpoint(who) leads through it. It is for planes reached by kubeconfig and for
// later thoughts; clients made before do not come through it. Close closes it.
func (p *Plane) Through(who string) (*proxy.Relay, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.relays[who]; ok {
		return r, nil
	}
	e, ok := p.endpoints[who]
	if !ok {
		return nil, fmt.Errorf("relay for %q: %w", who, errNoIdentity)
	}
	if p.ended {
		return nil, fmt.Errorf("relay for %s: %w", who, ErrClosed)
	}
	to, err := e.Address()
	if err != nil {
		return nil, fmt.Errorf("relay for %s: %w", who, err)
	}
	r, err := proxy.Start(proxy.Options{To: to, Clock: p.clock})
	if err != nil {
		return nil, fmt.Errorf("relay for %s: %w", who, err)
	}
	via, err := e.Via(r.Addr())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("relay for %s: %w", who, err), r.Close())
	}
	p.keepRelay(who, r)
	p.endpoints[who] = via
	return r, nil
}

var errNoIdentity = errors.New("it is none of " + Admin + ", " + Load + ", " + Fleet + ", " + Observe)

// keepRelay notes a relay; the caller holds mu.
func (p *Plane) keepRelay(name string, r *proxy.Relay) {
	if p.relays == nil {
		p.relays = map[string]*proxy.Relay{}
	}
	p.relays[name] = r
}

// checkRelays finds names that are none, and flags that lead past a relay.
func checkRelays(cfg scenario.Plane, names []string) error {
	past := map[string][]string{ // the scenario's flags of whom, by relay
		component.Etcd:              {component.APIServer, "etcd-servers"},
		component.Scheduler:         {component.Scheduler, "kubeconfig", "master"},
		component.ControllerManager: {component.ControllerManager, "kubeconfig", "master"},
	}
	var faults []error
	for _, name := range names {
		if !slices.Contains(Relayable(), name) {
			faults = append(faults, fmt.Errorf("relay for %q: it is none of %s", name, strings.Join(Relayable(), ", ")))
			continue
		}
		if past[name] == nil {
			continue
		}
		for _, flagged := range past[name][1:] {
			if value, ok := valueOf(cfg.Components[past[name][0]].Flags, flagged); ok {
				faults = append(faults, fmt.Errorf("relay for %s: flag %s=%s of %s leads past it", name, flagged, value, past[name][0]))
			}
		}
	}
	return errors.Join(faults...)
}

// startRelays starts those that are asked for and returns their URLs.
func (p *Plane) startRelays(s site, all clients, o Options) (map[string]string, error) {
	urls := map[string]string{}
	for i, name := range slices.Compact(slices.Sorted(slices.Values(o.Relays))) {
		c := all[name]
		options := proxy.Options{To: strings.TrimPrefix(s.url(c.server), "https://"), Clock: o.Clock, Seed: o.Seed + uint64(i)}
		if o.OpenRelays {
			var err error
			if options.TLS, err = c.opened(o.Clock.Wall(o.Clock.Now())); err != nil {
				return nil, fmt.Errorf("relay for %s: %w", name, err)
			}
		}
		r, err := proxy.Start(options)
		if err != nil {
			return nil, fmt.Errorf("relay for %s: %w", name, err)
		}
		p.mu.Lock()
		p.keepRelay(name, r)
		p.mu.Unlock()
		urls[name] = "https://" + r.Addr()
	}
	return urls, nil
}

// opened returns what lets a relay stand between a client and its server.
func (c client) opened(now time.Time) (*proxy.TLS, error) {
	issued, err := c.by.Issue(servedAt("relay"), now)
	if err != nil {
		return nil, err
	}
	shown, err := tls.X509KeyPair(issued.Cert, issued.Key)
	if err != nil {
		return nil, fmt.Errorf("read the relay's certificate: %w", err)
	}
	own, err := tls.X509KeyPair(c.pair.Cert, c.pair.Key)
	if err != nil {
		return nil, fmt.Errorf("read the client's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.by.PEM())
	return &proxy.TLS{Certificate: shown, Clients: []tls.Certificate{own}, Roots: roots}, nil
}

func (p *Plane) closeRelays() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var faults []error
	for _, r := range p.relays {
		faults = append(faults, r.Close())
	}
	return errors.Join(faults...)
}
