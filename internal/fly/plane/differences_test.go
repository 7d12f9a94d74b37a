package plane

import "github.com/windtunnel/windtunnel/internal/component"

// Difference is a setting in which a plane that Start starts differs from a
// cluster that kubeadm sets up, for the report. Addresses, ports and paths of
// files are not listed; what the scenario sets stands in Facts.
type Difference struct {
	Component string
	Flag      string // without dashes; empty for what is no flag
	Stock     string
	Ours      string
	Why       string
}

// Differences returns them for a durability, memory or fsync. Everything else,
// such as authorisers, admission plugins, API priority and fairness, client
// rates and log level, is the default of the release.
func Differences(durability string) []Difference {
	out := []Difference{
		{component.Etcd, "quota-backend-bytes", "2 GiB", "8 GiB, or three quarters of the disk space", "a run must not end at a default that clusters of its size raise"},
		{component.Etcd, "heartbeat-interval", "100 ms", "20 ms", "a single member elects itself after up to 10 of these at its start, and sends none later"},
		{component.Etcd, "election-timeout", "1 s", "100 ms", "as above: up to 1 s of the plane's start"},
		{component.APIServer, "advertise-address", "the machine's", advertisedTo + "1", "nothing listens outside of loopback, and nobody calls it"},
		{component.Scheduler, "leader-elect", "true", "false", "there is one, and a pause of the machine must not end it; costs 1 write per 2 s less"},
		{component.ControllerManager, "leader-elect", "true", "false", "as for the scheduler"},
		{component.ControllerManager, "cluster-signing-cert-file", "the cluster's CA", "not set", "the CA's key is never written; certificate requests are not signed"},
		{component.ControllerManager, "controllers", "*,bootstrapsigner,tokencleaner", "not set", "no node joins by a token; each controller costs 0.1 s of the plane's start"},
		{"", "", "RSA 2048 certificates and service account key", "ECDSA P-256", "made in a millisecond; signatures cost less CPU, checks of tokens more"},
		{"", "", "controllers' service accounts made by the controller-manager", "made by windtunnel", "120 requests at the controller-manager's own limit of 20 a second: over 4 s of the plane's start"},
		{"", "", "kube-proxy, CoreDNS and their objects", "none", "no container runs"},
	}
	if durability != durabilityFsync {
		out = append(out, Difference{component.Etcd, "unsafe-no-fsync", "false", "true", "durability: memory; writes are faster than on any disk"})
	}
	return out
}
