package plane

import (
	"errors"
	"net"
	"time"

	"github.com/windtunnel/windtunnel/endpoint"
	"github.com/windtunnel/windtunnel/plane/component"
	"github.com/windtunnel/windtunnel/plane/pki"
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
		{a.etcd, "apiserver-etcd-client", pki.Subject{Name: "kube-apiserver-etcd-client"}},
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

// as returns the endpoint of a server for a new client certificate.
func as(by *pki.Authority, server string, who pki.Subject, now time.Time) (endpoint.Endpoint, error) {
	pair, err := by.Issue(who, now)
	if err != nil {
		return endpoint.Endpoint{}, err
	}
	return endpoint.New(server, by.PEM(), endpoint.Identity{Cert: pair.Cert, Key: pair.Key}), nil
}

// identities returns the endpoints of the API server by who uses them.
func (a authorities) identities(s site, now time.Time) (map[string]endpoint.Endpoint, error) {
	out := map[string]endpoint.Endpoint{}
	for who, subject := range map[string]pki.Subject{
		Admin:   {Name: "windtunnel:admin", Groups: []string{"system:masters"}},
		Load:    {Name: "windtunnel:load", Groups: []string{group}},
		Fleet:   {Name: "windtunnel:fleet", Groups: []string{"system:nodes", group}},
		Observe: {Name: "windtunnel:observe", Groups: []string{"system:masters"}},
	} {
		e, err := as(a.cluster, s.url(component.APIServer), subject, now)
		if err != nil {
			return nil, err
		}
		out[who] = e
	}
	return out, nil
}

// writeKubeconfigs writes those of scheduler and controller-manager.
func (a authorities) writeKubeconfigs(s site, now time.Time) error {
	for _, name := range []string{"scheduler", "controller-manager"} {
		e, err := as(a.cluster, s.url(component.APIServer), pki.Subject{Name: "system:kube-" + name}, now)
		if err != nil {
			return err
		}
		if err := e.WriteKubeconfig(s.pki.File(name + ".conf")); err != nil {
			return err
		}
	}
	return nil
}

// scrapes returns an endpoint for each component's own port.
func (a authorities) scrapes(s site, now time.Time) (map[string]endpoint.Endpoint, error) {
	out := map[string]endpoint.Endpoint{}
	observer := pki.Subject{Name: "windtunnel:observe", Groups: []string{"system:masters"}}
	for _, name := range component.Names() {
		by := a.cluster
		if name == component.Etcd {
			by = a.etcd
		}
		e, err := as(by, s.url(name), observer, now)
		if err != nil {
			return nil, err
		}
		out[name] = e
	}
	return out, nil
}
