package plane

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/plane/peers"
	"github.com/windtunnel/windtunnel/internal/machine/pki"
	"github.com/windtunnel/windtunnel/scenario"
)

// loopback is the only address that anything of a plane listens on.
const loopback = "127.0.0.1"

// peerOf is the key of an etcd member's second port.
func peerOf(member string) string { return member + "-peer" }

// site is where the things of one plane are.
type site struct {
	folder  string            // private, of this run
	pki     pki.Folder        // certificates, keys and kubeconfigs
	ports   map[string]int    // by process, and peerOf an etcd member
	proxies map[string]string // URLs by client; see Options.Proxies
	counts  scenario.Plane    // how many there are of each component
	peers   *peers.Network    // between etcd members; nil: they reach each other directly
	front   string            // URL of the balancer; empty where there is one API server
	fsync   bool
	quota   uint64 // bytes that etcd's data may take
	etcd36  bool   // etcd is of 3.6 or newer: flags have lost their "experimental"
}

func (s site) dataDir(member string) string { return s.folder + "/" + member }

// several tells whether a component has more than one process.
func (s site) several(name string) bool { return s.counts.Count(name) > 1 }

func (s site) serverURL(port string) string {
	return "https://" + loopback + ":" + strconv.Itoa(s.ports[port])
}

// peerURL returns where the other etcd members reach a member.
func (s site) peerURL(member string) string {
	if s.peers != nil {
		return "https://" + s.peers.Addr(member)
	}
	return s.serverURL(peerOf(member))
}

// serverFor returns where a client finds its server: at the proxy, if it has one.
func (s site) serverFor(client string) string {
	if url, ok := s.proxies[client]; ok {
		return url
	}
	if client == component.Etcd {
		return s.etcdURLs()
	}
	return s.apiURL()
}

// apiURL returns where clients find the API servers.
func (s site) apiURL() string {
	if s.front != "" {
		return s.front
	}
	return s.serverURL(component.APIServer)
}

// etcdURLs returns where an API server finds etcd: at all of its members.
func (s site) etcdURLs() string {
	var out []string
	for _, member := range s.counts.Processes(component.Etcd) {
		out = append(out, s.serverURL(member))
	}
	return strings.Join(out, ",")
}

// flagValue is one flag of a component; its value is never a secret.
type flagValue struct{ name, value string }

// flagsOf returns windtunnel's own flags of a process.
func flagsOf(process string, s site) []flagValue {
	switch name, number := component.Of(process); name {
	case component.Etcd:
		return etcdFlags(s, process)
	case component.APIServer:
		return apiServerFlags(s, process, number)
	case component.Scheduler:
		return clientFlags(s, process, "scheduler")
	case component.ControllerManager:
		return append(clientFlags(s, process, "controller-manager"),
			flagValue{"cluster-name", "kubernetes"},
			flagValue{"root-ca-file", s.pki.Cert("ca")},
			flagValue{"service-account-private-key-file", s.pki.Key("sa")},
			flagValue{"service-cluster-ip-range", serviceRange},
			flagValue{"use-service-account-credentials", "true"},
		)
	default:
		return nil
	}
}

// etcdFlags are those of a member. A single one elects itself sooner; several have the
// stock heartbeats and election timeouts.
func etcdFlags(s site, process string) []flagValue {
	name, members := "windtunnel", []string(nil)
	if s.several(component.Etcd) {
		name = process
		for _, member := range s.counts.Processes(component.Etcd) {
			members = append(members, member+"="+s.peerURL(member))
		}
	} else {
		members = []string{name + "=" + s.serverURL(peerOf(process))}
	}
	out := []flagValue{
		{"name", name},
		{"data-dir", s.dataDir(process)},
		{"listen-client-urls", s.serverURL(process)},
		{"advertise-client-urls", s.serverURL(process)},
		{"listen-peer-urls", s.serverURL(peerOf(process))},
		{"initial-advertise-peer-urls", s.peerURL(process)},
		{"initial-cluster", strings.Join(members, ",")},
		{"cert-file", s.pki.Cert("etcd")},
		{"key-file", s.pki.Key("etcd")},
		{"trusted-ca-file", s.pki.Cert("etcd-ca")},
		{"client-cert-auth", "true"},
		{"peer-cert-file", s.pki.Cert("etcd-peer")},
		{"peer-key-file", s.pki.Key("etcd-peer")},
		{"peer-trusted-ca-file", s.pki.Cert("etcd-ca")},
		{"peer-client-cert-auth", "true"},
		{"snapshot-count", "10000"},
		{"quota-backend-bytes", strconv.FormatUint(s.quota, 10)},
	}
	if !s.several(component.Etcd) {
		out = append(out, flagValue{"heartbeat-interval", "20"}, flagValue{"election-timeout", "100"})
	}
	if s.etcd36 {
		out = append(out, flagValue{"feature-gates", "InitialCorruptCheck=true"}, flagValue{"watch-progress-notify-interval", "5s"})
	}
	if !s.fsync {
		out = append(out, flagValue{"unsafe-no-fsync", "true"})
	}
	return out
}

const serviceRange = "10.96.0.0/12"

func apiServerFlags(s site, process string, number int) []flagValue {
	out := []flagValue{
		{"advertise-address", advertisedTo + strconv.Itoa(number+1)},
		{"bind-address", loopback},
		{"secure-port", strconv.Itoa(s.ports[process])},
		{"allow-privileged", "true"},
		{"authorization-mode", "Node,RBAC"},
		{"client-ca-file", s.pki.Cert("ca")},
		{"enable-admission-plugins", "NodeRestriction"},
		{"enable-bootstrap-token-auth", "true"},
		{"etcd-servers", s.serverFor(component.Etcd)},
		{"etcd-cafile", s.pki.Cert("etcd-ca")},
		{"etcd-certfile", s.pki.Cert("apiserver-etcd-client")},
		{"etcd-keyfile", s.pki.Key("apiserver-etcd-client")},
		{"kubelet-client-certificate", s.pki.Cert("apiserver-kubelet-client")},
		{"kubelet-client-key", s.pki.Key("apiserver-kubelet-client")},
		{"kubelet-preferred-address-types", "InternalIP,ExternalIP,Hostname"},
		{"proxy-client-cert-file", s.pki.Cert("front-proxy-client")},
		{"proxy-client-key-file", s.pki.Key("front-proxy-client")},
		{"requestheader-allowed-names", "front-proxy-client"},
		{"requestheader-client-ca-file", s.pki.Cert("front-proxy-ca")},
		{"requestheader-extra-headers-prefix", "X-Remote-Extra-"},
		{"requestheader-group-headers", "X-Remote-Group"},
		{"requestheader-username-headers", "X-Remote-User"},
		{"service-account-issuer", "https://kubernetes.default.svc.cluster.local"},
		{"service-account-key-file", s.pki.File("sa.pub")},
		{"service-account-signing-key-file", s.pki.Key("sa")},
		{"service-cluster-ip-range", serviceRange},
		{"tls-cert-file", s.pki.Cert("apiserver")},
		{"tls-private-key-file", s.pki.Key("apiserver")},
	}
	return append(out, auditFlags(s, process)...)
}

// advertisedTo begins what the Service "kubernetes" gets as its endpoints, one for each API
// server. They refuse a loopback address there and would take the machine's own, on
// which nothing listens, or fail where there is none. These belong to
// documentation (RFC 5737): they are nobody's, and no simulated pod ever calls them.
const advertisedTo = "192.0.2."

// clientFlags are those that scheduler and controller-manager share. Their
// ports authenticate by client certificate and authorise by asking the API
// server, which they need not do for system:masters.
func clientFlags(s site, process, file string) []flagValue {
	kubeconfig := s.pki.File(file + ".conf")
	name, _ := component.Of(process)
	return []flagValue{
		{"kubeconfig", kubeconfig},
		{"authentication-kubeconfig", kubeconfig},
		{"authorization-kubeconfig", kubeconfig},
		{"bind-address", loopback},
		{"secure-port", strconv.Itoa(s.ports[process])},
		{"tls-cert-file", s.pki.Cert(file)},
		{"tls-private-key-file", s.pki.Key(file)},
		{"client-ca-file", s.pki.Cert("ca")},
		{"requestheader-client-ca-file", s.pki.Cert("front-proxy-ca")},
		{"leader-elect", strconv.FormatBool(s.several(name))},
	}
}

// commandLine writes the command line: windtunnel's flags in their order, each
// with the user's value if there is one, then what else the user has set.
func commandLine(own []flagValue, users map[string]string) []string {
	rest := map[string]string{}
	for name, value := range users {
		rest[flagName(name)] = value
	}
	var out []string
	for _, f := range own {
		if value, ok := rest[f.name]; ok {
			f.value = value
			delete(rest, f.name)
		}
		out = append(out, fmt.Sprintf("--%s=%s", f.name, f.value))
	}
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		out = append(out, fmt.Sprintf("--%s=%s", name, rest[name]))
	}
	return out
}

// flagName writes a flag's name in its usual form: the components take
// underscores for dashes, and people write leading dashes.
func flagName(s string) string {
	return strings.ReplaceAll(strings.TrimLeft(s, "-"), "_", "-")
}

// valueOf returns the user's value of a flag.
func valueOf(users map[string]string, name string) (string, bool) {
	for k, v := range users {
		if flagName(k) == name {
			return v, true
		}
	}
	return "", false
}
