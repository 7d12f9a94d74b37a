package plane

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/machine/pki"
)

// group is the one that the load's and the fleet's users are in; cluster-admin
// is bound to it.
const group = "windtunnel"

// authorities are the three of a stock cluster. Their keys stay in memory.
type authorities struct{ cluster, etcd, frontProxy *pki.Authority }

func newAuthorities(now time.Time) (a authorities, err error) {
	var faults [3]error
	a.cluster, faults[0] = pki.NewAuthority("windtunnel", now)
	a.etcd, faults[1] = pki.NewAuthority("windtunnel-etcd", now)
	a.frontProxy, faults[2] = pki.NewAuthority("windtunnel-front-proxy", now)
	return a, errors.Join(faults[:]...)
}

func servedAt(name string, more ...string) pki.Subject {
	return pki.Subject{Name: name, DNS: append([]string{"localhost"}, more...), IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}
}

// writeCertificates writes what the components read from files.
func (a authorities) writeCertificates(dir pki.Folder, now time.Time) error {
	server := servedAt("kube-apiserver", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
	server.IPs = append(server.IPs, net.IPv4(10, 96, 0, 1)) // first of serviceRange
	files := []struct {
		by      *pki.Authority
		file    string
		subject pki.Subject
	}{
		{a.etcd, "etcd", servedAt("etcd")},
		{a.etcd, "etcd-peer", servedAt("etcd-peer")},
		{a.cluster, "apiserver", server},
		{a.cluster, "apiserver-kubelet-client", pki.Subject{Name: "kube-apiserver-kubelet-client", Groups: []string{group}}},
		{a.frontProxy, "front-proxy-client", pki.Subject{Name: "front-proxy-client"}},
		{a.cluster, "scheduler", servedAt("kube-scheduler")},
		{a.cluster, "controller-manager", servedAt("kube-controller-manager")},
	}
	for _, f := range files {
		pair, err := f.by.Issue(f.subject, now)
		if err != nil {
			return err
		}
		if err := dir.WritePair(f.file, pair); err != nil {
			return err
		}
	}
	private, public, err := pki.NewKey()
	return errors.Join(err,
		dir.Write("sa.key", private), dir.Write("sa.pub", public),
		dir.Write("ca.crt", a.cluster.PEM()), dir.Write("etcd-ca.crt", a.etcd.PEM()), dir.Write("front-proxy-ca.crt", a.frontProxy.PEM()))
}

// client is one that calls a server of the plane.
type client struct {
	by     *pki.Authority // its own, and the server's
	server string         // which component
	pair   pki.Pair
}

// clients are all that a proxy can stand in front of, by name.
type clients map[string]client

func (a authorities) newClients(now time.Time) (clients, error) {
	out := clients{}
	for name, subject := range map[string]pki.Subject{
		Admin:                       {Name: "windtunnel:admin", Groups: []string{"system:masters"}},
		Load:                        {Name: "windtunnel:load", Groups: []string{group}},
		Fleet:                       {Name: "windtunnel:fleet", Groups: []string{"system:nodes", group}},
		Observe:                     {Name: "windtunnel:observe", Groups: []string{"system:masters"}},
		component.Scheduler:         {Name: "system:kube-scheduler"},
		component.ControllerManager: {Name: "system:kube-controller-manager"},
		component.Etcd:              {Name: "kube-apiserver-etcd-client"},
	} {
		c := client{by: a.cluster, server: component.APIServer}
		if name == component.Etcd {
			c = client{by: a.etcd, server: component.Etcd}
		}
		var err error
		if c.pair, err = c.by.Issue(subject, now); err != nil {
			return nil, err
		}
		out[name] = c
	}
	return out, nil
}

// endpointOf returns the server, or the proxy in front of it, as that client.
func (c clients) endpointOf(name string, s site) endpoint.Endpoint {
	own := c[name]
	return endpoint.New(s.serverFor(name), own.by.PEM(), endpoint.Identity{Cert: own.pair.Cert, Key: own.pair.Key})
}

// identityEndpoints returns the endpoints of the API server by who uses them.
func (c clients) identityEndpoints(s site) map[string]endpoint.Endpoint {
	out := map[string]endpoint.Endpoint{}
	for _, who := range []string{Admin, Load, Fleet, Observe} {
		out[who] = c.endpointOf(who, s)
	}
	return out
}

// identifier makes the identity of a program.
type identifier func(name string) (endpoint.Endpoint, error)

// newIdentifier returns what makes users for programs at a server.
func (a authorities) newIdentifier(server string, c clock.Clock) identifier {
	return func(name string) (endpoint.Endpoint, error) {
		pair, err := a.cluster.Issue(pki.Subject{Name: "windtunnel:subject:" + name, Groups: []string{group, "system:serviceaccounts"}}, c.Wall(c.Now()))
		if err != nil {
			return endpoint.Endpoint{}, err
		}
		return endpoint.New(server, a.cluster.PEM(), endpoint.Identity{Cert: pair.Cert, Key: pair.Key}), nil
	}
}

// newIssuer returns what makes certificates of clients.
func (a authorities) newIssuer(c clock.Clock) func(user string, groups []string) (tls.Certificate, error) {
	return func(user string, groups []string) (tls.Certificate, error) {
		pair, err := a.cluster.Issue(pki.Subject{Name: user, Groups: groups}, c.Wall(c.Now()))
		if err != nil {
			return tls.Certificate{}, err
		}
		out, err := tls.X509KeyPair(pair.Cert, pair.Key)
		out.Leaf = nil // there are thousands, and the server is sent the certificate as it is
		return out, err
	}
}

// kubelets is how many more users the fleet has. Kubelets are a user each, and
// API priority and fairness deals each user a few queues: one user for
// thousands of nodes would be refused where they are not.
const kubelets = 63

// kubeletIdentities returns the fleet's further users, system:node-like.
func (a authorities) kubeletIdentities(now time.Time) ([]endpoint.Identity, error) {
	var out []endpoint.Identity
	for i := range kubelets {
		pair, err := a.cluster.Issue(pki.Subject{Name: fmt.Sprintf("windtunnel:fleet:%d", i), Groups: []string{"system:nodes", group}}, now)
		if err != nil {
			return nil, err
		}
		out = append(out, endpoint.Identity{Cert: pair.Cert, Key: pair.Key})
	}
	return out, nil
}

// writeFiles writes what the components among the clients read: kubeconfigs of
// scheduler and controller-manager, the API server's certificate for etcd.
func (c clients) writeFiles(s site) error {
	return errors.Join(
		c.endpointOf(component.Scheduler, s).WriteKubeconfig(s.pki.File("scheduler.conf")),
		c.endpointOf(component.ControllerManager, s).WriteKubeconfig(s.pki.File("controller-manager.conf")),
		s.pki.WritePair("apiserver-etcd-client", c[component.Etcd].pair))
}

// scrapeEndpoints returns an endpoint for each component's own port.
func (a authorities) scrapeEndpoints(s site, now time.Time) (map[string]endpoint.Endpoint, error) {
	out := map[string]endpoint.Endpoint{}
	observer := pki.Subject{Name: "windtunnel:observe", Groups: []string{"system:masters"}}
	for _, name := range s.counts.Processes() {
		by := a.cluster
		if component.Is(name, component.Etcd) {
			by = a.etcd
		}
		pair, err := by.Issue(observer, now)
		if err != nil {
			return nil, err
		}
		out[name] = endpoint.New(s.serverURL(name), by.PEM(), endpoint.Identity{Cert: pair.Cert, Key: pair.Key})
	}
	return out, nil
}
