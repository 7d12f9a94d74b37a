package scenario

import (
	"net/netip"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/unit"
)

// Network measures a path between two addresses of this machine, which may be in
// network namespaces, or from this machine to that of a worker: with echoes, with
// streams, or with both at the same time. It sends nothing to the plane. Objectives on
// network-round-trip, network-loss, network-throughput, network-cpu or
// network-packet-cpu bound the results.
type Network struct {
	From   NetworkEnd    `yaml:"from"`   // sending end
	To     NetworkEnd    `yaml:"to"`     // answering and receiving end; its address is required, except for a worker
	Echo   *Echo         `yaml:"echo"`   // measure round trips
	Stream *Stream       `yaml:"stream"` // measure throughput
	For    unit.Duration `yaml:"for"`    // duration, default 10s
	Path   string        `yaml:"path"`   // name of a path that several steps measure in turns: objectives on network-turns-round-trip and network-turns-throughput are about all turns of the path; default: the step is no turn
}

// NetworkEnd is one end of a path.
type NetworkEnd struct {
	Namespace string `yaml:"namespace"` // network namespace: a name as in ip netns, or a path such as /proc/PID/ns/net; default: windtunnel's own
	Address   string `yaml:"address"`   // IP address; sending end: default chosen by the system
	Own       string `yaml:"own"`       // answering end: its own address, if others reach it by another one (NAT); default: address
	Worker    *int   `yaml:"worker"`    // answering end: number of the worker (--workers) that answers on its machine; its default address is the one from which it reaches this process
}

// Echo sends datagrams that are sent back. Each is sent when it is due, independent of
// earlier ones.
type Echo struct {
	Rate     float64       `yaml:"rate"`     // echoes per second; default 1000
	Random   bool          `yaml:"random"`   // exponential gaps from the seed instead of even ones
	Protocol string        `yaml:"protocol"` // udp (default; windtunnel answers) or icmp (the kernel answers; the sender needs CAP_NET_RAW)
	Size     int           `yaml:"size"`     // bytes of payload, 8 to 65000; default 56, as in ping
	Timeout  unit.Duration `yaml:"timeout"`  // time without an answer after which an echo is lost; default 1s
}

// Stream sends data over TCP, as fast as the path allows.
type Stream struct {
	Count int `yaml:"count"` // connections at the same time, 1 to 64; default 1
}

// Defaults and bounds of what is sent through a network.
const (
	DefaultNetworkFor  = 10 * time.Second
	DefaultEchoRate    = 1000.0
	DefaultEchoSize    = 56
	DefaultEchoTimeout = time.Second
	maxEchoRate        = 100_000.0
	minEchoSize        = 8
	minFarEchoSize     = 24 // an echo to another process shows a token
	maxEchoSize        = 65_000
	maxStreams         = 64
)

func (n *Network) setDefaults() { n.For = unit.Duration(DefaultNetworkFor) }
func (s *Stream) setDefaults()  { s.Count = 1 }
func (e *Echo) setDefaults() {
	e.Rate, e.Protocol, e.Size, e.Timeout = DefaultEchoRate, "udp", DefaultEchoSize, unit.Duration(DefaultEchoTimeout)
}

func (c stepChecker) checkNetwork(path string, n *Network) {
	from := c.networkEnd(path+".from", n.From)
	to := c.networkEnd(path+".to", n.To)
	switch {
	case n.To.Address == "" && n.To.Worker == nil:
		c.reportAt(path+".to.address", "network.to.address: an address is needed")
	case from.IsValid() && to.IsValid() && from.Is4() != to.Is4():
		c.reportAt(path+".to.address", "network.to.address: %s and %s are not of one family", from, to)
	case n.From.Worker != nil:
		c.reportAt(path+".from.worker", "network.from.worker: belongs to the end that answers")
	case n.To.Worker != nil && *n.To.Worker < 0:
		c.reportAt(path+".to.worker", "network.to.worker: %d is not 0 or more", *n.To.Worker)
	case n.From.Own != "":
		c.reportAt(path+".from.own", "network.from.own: belongs to the end that answers")
	}
	if own := c.checkIPAddress(path+".to.own", "network.own", n.To.Own); own.IsValid() && to.IsValid() && own.Is4() != to.Is4() {
		c.reportAt(path+".to.own", "network.to.own: %s and %s are not of one family", own, to)
	}
	c.checkPositiveTime(path+".for", "network.for", n.For)
	if n.Echo == nil && n.Stream == nil {
		c.reportAt(path, "network: echo, stream or both are needed")
	}
	if e := n.Echo; e != nil {
		at := path + ".echo"
		c.checkWord(at+".protocol", "echo.protocol", e.Protocol)
		c.checkPositiveTime(at+".timeout", "echo.timeout", e.Timeout)
		if !(e.Rate > 0 && e.Rate <= maxEchoRate) {
			c.reportAt(at+".rate", "echo.rate: %g is not above 0 and at most %g", e.Rate, maxEchoRate)
		}
		minSize := minEchoSize
		if n.To.Worker != nil && e.Protocol != "icmp" {
			minSize = minFarEchoSize
		}
		if e.Size < minSize || e.Size > maxEchoSize {
			c.reportAt(at+".size", "echo.size: %d is not %d to %d", e.Size, minSize, maxEchoSize)
		}
	}
	if s := n.Stream; s != nil && (s.Count < 1 || s.Count > maxStreams) {
		c.reportAt(path+".stream.count", "stream.count: %d is not 1 to %d", s.Count, maxStreams)
	}
}

// networkEnd checks one end and returns its address; the zero one where it has none.
func (c stepChecker) networkEnd(path string, e NetworkEnd) netip.Addr {
	if strings.Contains(e.Namespace, "/") && !strings.HasPrefix(e.Namespace, "/") || e.Namespace == ".." {
		c.reportAt(path+".namespace", "network.namespace: %q is neither a name nor a path from the root", clipText(e.Namespace))
	}
	return c.checkIPAddress(path+".address", "network.address", e.Address)
}

// checkIPAddress checks an IP address and returns it; the zero one where there is none.
func (c stepChecker) checkIPAddress(path, name, text string) netip.Addr {
	if text == "" {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		c.reportAt(path, "%s: %q is not an IP address", name, clipText(text))
		return netip.Addr{}
	}
	return a.Unmap()
}
