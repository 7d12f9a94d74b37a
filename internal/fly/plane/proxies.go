package plane

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/plane/proxy"
	"github.com/windtunnel/windtunnel/internal/machine/pki"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// ProxyNames returns the names that Options.Proxies may hold.
func ProxyNames() []string {
	return []string{component.Scheduler, component.ControllerManager, component.Etcd, Admin, Load, Fleet, Observe}
}

// Proxy returns the proxy of a client, or nil: see Options.Proxies and AddProxy.
func (p *Plane) Proxy(name string) *proxy.Proxy {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.proxies[name]
}

// AddProxy puts a proxy between an identity and the API server: from now on
// Endpoint(who) leads through it. It is for planes reached by kubeconfig and for
// later thoughts; clients made before do not come through it. Close closes it.
func (p *Plane) AddProxy(who string) (*proxy.Proxy, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.proxies[who]; ok {
		return r, nil
	}
	e, ok := p.endpoints[who]
	if !ok {
		return nil, fmt.Errorf("proxy for %q: %w", who, errNoIdentity)
	}
	if p.ended {
		return nil, fmt.Errorf("proxy for %s: %w", who, ErrClosed)
	}
	to, err := e.Address()
	if err != nil {
		return nil, fmt.Errorf("proxy for %s: %w", who, err)
	}
	r, err := proxy.Start(proxy.Options{To: to, Clock: p.clock})
	if err != nil {
		return nil, fmt.Errorf("proxy for %s: %w", who, err)
	}
	via, err := e.Via(r.Addr())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("proxy for %s: %w", who, err), r.Close())
	}
	p.setProxyLocked(who, r)
	p.endpoints[who] = via
	return r, nil
}

var errNoIdentity = errors.New("it is none of " + Admin + ", " + Load + ", " + Fleet + ", " + Observe)

// setProxyLocked notes a proxy.
func (p *Plane) setProxyLocked(name string, r *proxy.Proxy) {
	if p.proxies == nil {
		p.proxies = map[string]*proxy.Proxy{}
	}
	p.proxies[name] = r
}

// KeepProxy has Close end another proxy, which Proxy returns by that name from now on.
func (p *Plane) KeepProxy(name string, r *proxy.Proxy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setProxyLocked(name, r)
}

// checkProxies finds names that are none, and flags that lead past a proxy.
func checkProxies(cfg scenario.Plane, names []string) error {
	past := map[string][]string{ // the scenario's flags of whom, by proxy
		component.Etcd:              {component.APIServer, "etcd-servers"},
		component.Scheduler:         {component.Scheduler, "kubeconfig", "master"},
		component.ControllerManager: {component.ControllerManager, "kubeconfig", "master"},
	}
	var faults []error
	for _, name := range names {
		if !slices.Contains(ProxyNames(), name) {
			faults = append(faults, fmt.Errorf("proxy for %q: it is none of %s", name, strings.Join(ProxyNames(), ", ")))
			continue
		}
		if name == component.Etcd && cfg.Count(name) > 1 {
			faults = append(faults, fmt.Errorf("proxy for etcd: the plane has %s: disturb one of them instead", unit.Count(cfg.Count(name), "members")))
		}
		if past[name] == nil {
			continue
		}
		for _, flagged := range past[name][1:] {
			if value, ok := valueOf(cfg.Components[past[name][0]].Flags, flagged); ok {
				faults = append(faults, fmt.Errorf("proxy for %s: flag %s=%s of %s leads past it", name, flagged, value, past[name][0]))
			}
		}
	}
	return errors.Join(faults...)
}

// startProxies starts those that are asked for and returns their URLs.
func (p *Plane) startProxies(s site, all clients, o Options) (map[string]string, error) {
	urls := map[string]string{}
	for i, name := range slices.Compact(slices.Sorted(slices.Values(o.Proxies))) {
		c := all[name]
		to := s.apiURL()
		if c.server == component.Etcd {
			to = s.serverURL(component.Etcd)
		}
		options := proxy.Options{To: strings.TrimPrefix(to, "https://"), Clock: o.Clock, Seed: o.Seed + uint64(i)}
		if o.TerminateTLS {
			var err error
			if options.TLS, err = c.openTLS(o.Clock.Wall(o.Clock.Now())); err != nil {
				return nil, fmt.Errorf("proxy for %s: %w", name, err)
			}
		}
		r, err := proxy.Start(options)
		if err != nil {
			return nil, fmt.Errorf("proxy for %s: %w", name, err)
		}
		p.KeepProxy(name, r)
		urls[name] = "https://" + r.Addr()
	}
	return urls, nil
}

// openTLS returns what lets a proxy stand between a client and its server.
func (c client) openTLS(now time.Time) (*proxy.TLS, error) {
	return openTLSFor(c.by, []pki.Pair{c.pair}, now)
}

// openTLSFor is the same for several clients of a server that an authority vouches for.
func openTLSFor(by *pki.Authority, clients []pki.Pair, now time.Time) (*proxy.TLS, error) {
	issued, err := by.Issue(servedAt("proxy"), now)
	if err != nil {
		return nil, err
	}
	shown, err := tls.X509KeyPair(issued.Cert, issued.Key)
	if err != nil {
		return nil, fmt.Errorf("read the proxy's certificate: %w", err)
	}
	out := &proxy.TLS{Certificate: shown, Roots: x509.NewCertPool()}
	out.Roots.AppendCertsFromPEM(by.PEM())
	for _, pair := range clients {
		own, err := tls.X509KeyPair(pair.Cert, pair.Key)
		if err != nil {
			return nil, fmt.Errorf("read the client's certificate: %w", err)
		}
		out.Clients = append(out.Clients, own)
	}
	return out, nil
}

func (p *Plane) closeProxies() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var faults []error
	for _, r := range p.proxies {
		faults = append(faults, r.Close())
	}
	return errors.Join(append(faults, p.peers.Close())...)
}
