package netns

import (
	"fmt"
	"net/netip"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/link"
)

// machine is a node with a pod on it.
type machine struct {
	link.Node
	port      string // of the router
	pod, pod6 netip.Addr
	known     netip.Prefix // what the other cluster knows its pods by
	known6    netip.Prefix
}

// Addresses of IPv4 are of the range for benchmarks (RFC 2544, RFC 6890), 198.18.0.0/15:
// below 198.18.96.0 machines, above it pods, in 198.19.0.0/16 the devices of the link. Those
// of IPv6 are local ones (RFC 4193): machines in fd00::/16, pods in fd10::/16, what others
// know pods by in fd14::/16 and fd15::/16, devices in fd21::/16 and fd22::/16. A router
// joins the two subnets of machines.
const (
	routerA  = "198.18.1.254"
	routerB  = "198.18.2.254"
	routerA6 = "fd00:1::fe"
	routerB6 = "fd00:2::fe"
)

// place is where a machine is and what its pods are.
type place struct {
	name, cluster string
	subnet, last  byte
	pods, known   byte   // the third byte of a range of pods' addresses, and of what others know it by
	pods6, known6 string // the ranges of IPv6
	gateway       bool
}

// bothMachines are those of both clusters; the gateways are those that stand where none are
// elected. Where ranges overlap, b1's pods have the range and the address of a1's.
func (o *Options) bothMachines() []machine {
	places := []place{
		{name: "a1", cluster: "a", subnet: 1, last: 1, pods: 101, known: 149, pods6: "fd10:101", known6: "fd14:101", gateway: true},
		{name: "a2", cluster: "a", subnet: 1, last: 2, pods: 102, known: 150, pods6: "fd10:102", known6: "fd14:102"},
		{name: "b1", cluster: "b", subnet: 2, last: 1, pods: 201, known: 229, pods6: "fd10:201", known6: "fd15:101", gateway: true},
	}
	if o.Overlap {
		places[2].pods, places[2].pods6 = places[0].pods, places[0].pods6
	}
	var out []machine
	for _, p := range places {
		m := machine{port: "to-" + p.name, pod: netip.AddrFrom4([4]byte{198, 18, p.pods, 10}), Node: link.Node{
			Name: p.name, Cluster: p.cluster, Device: uplink, Gateway: p.gateway, IP: netip.AddrFrom4([4]byte{198, 18, p.subnet, p.last}),
			PodCIDRs: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, p.pods, 0}), 24)}},
			known: netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, p.known, 0}), 24)}
		if o.hasIPv6() {
			m.IP6 = netip.MustParseAddr(fmt.Sprintf("fd00:%d::%d", p.subnet, p.last))
			m.pod6, m.known6 = netip.MustParseAddr(p.pods6+"::10"), netip.MustParsePrefix(p.known6+"::/64")
			m.PodCIDRs = append(m.PodCIDRs, netip.MustParsePrefix(p.pods6+"::/64"))
		}
		out = append(out, m)
	}
	return out
}

// hasIPv6 says that machines and pods have addresses of IPv6, too.
func (o *Options) hasIPv6() bool { return o.Family == link.Family6 || o.Family == link.FamilyAll }

// bothClusters are both. Where their ranges overlap each goes by another one: of gateways the
// cluster's at once, of P2P each node's.
func (o *Options) bothClusters() []link.Cluster {
	ranges := map[string][2][2]string{ // of each family, its own and what others know it by
		"a": {{"198.18.96.0/20", "198.18.144.0/20"}, {"fd10:100::/24", "fd14:100::/24"}},
		"b": {{"198.18.192.0/20", "198.18.224.0/20"}, {"fd10:200::/24", "fd15:100::/24"}},
	}
	if o.Overlap {
		b := ranges["b"]
		b[0][0], b[1][0] = ranges["a"][0][0], ranges["a"][1][0]
		ranges["b"] = b
	}
	var out []link.Cluster
	for _, name := range []string{"a", "b"} {
		c := link.Cluster{Name: name, Type: o.NetworkType, Family: o.Family, Local: netip.MustParsePrefix("198.19.128.0/17"), Bridge: netip.MustParsePrefix("198.19.0.0/17")}
		if o.hasIPv6() {
			c.Local6, c.Bridge6 = netip.MustParsePrefix("fd21::/16"), netip.MustParsePrefix("fd22::/16")
		}
		if o.Overlap {
			c.Global = map[netip.Prefix]netip.Prefix{}
		}
		for i, r := range ranges[name] {
			if i > 0 && !o.hasIPv6() {
				break
			}
			own, known := netip.MustParsePrefix(r[0]), netip.MustParsePrefix(r[1])
			c.PodCIDRs = append(c.PodCIDRs, own)
			if o.Overlap && o.NetworkType == link.Gateway {
				c.Global[own] = known
			}
		}
		if o.Overlap && o.NetworkType == link.P2P {
			o.mapNodes(&c)
		}
		out = append(out, c)
	}
	return out
}

// mapNodes maps the ranges of a cluster's nodes.
func (o *Options) mapNodes(c *link.Cluster) {
	for _, m := range o.bothMachines() {
		if m.Cluster != c.Name {
			continue
		}
		for i, known := range []netip.Prefix{m.known, m.known6}[:len(m.PodCIDRs)] {
			c.Global[m.PodCIDRs[i]] = known
		}
	}
}

// Clusters returns both, Nodes their machines, as the link knows them.
func (t *Topology) Clusters() []link.Cluster { return t.options.bothClusters() }

// Nodes returns the machines as the link knows them.
func (t *Topology) Nodes() (out []link.Node) {
	for _, m := range t.options.bothMachines() {
		out = append(out, m.Node)
	}
	return out
}

// Machines returns the addresses of the machines by their names.
func (t *Topology) Machines(six bool) map[string]netip.Addr {
	return t.addressesByName(six, func(m *machine) (netip.Addr, netip.Addr) { return m.IP, m.IP6 })
}

// Pods returns the addresses of pods by their machine's name, as they have them.
func (t *Topology) Pods(six bool) map[string]netip.Addr {
	return t.addressesByName(six, func(m *machine) (netip.Addr, netip.Addr) { return m.pod, m.pod6 })
}

// Known returns the addresses that the other cluster knows pods by, by their machine's name.
func (t *Topology) Known(six bool) map[string]netip.Addr {
	if !t.options.Overlap {
		return t.Pods(six)
	}
	return t.addressesByName(six, func(m *machine) (netip.Addr, netip.Addr) {
		if !m.pod6.IsValid() {
			return moveAddress(m.pod, m.known), netip.Addr{}
		}
		return moveAddress(m.pod, m.known), moveAddress(m.pod6, m.known6)
	})
}

// moveAddress returns an address's host bits in another range.
func moveAddress(a netip.Addr, to netip.Prefix) netip.Addr {
	out, from := to.Addr().AsSlice(), a.AsSlice()
	for i := to.Bits() / 8; i < len(out); i++ { // all ranges here end with a byte
		out[i] = from[i]
	}
	moved, _ := netip.AddrFromSlice(out)
	return moved
}

func (t *Topology) addressesByName(six bool, of func(*machine) (netip.Addr, netip.Addr)) map[string]netip.Addr {
	out, all := map[string]netip.Addr{}, t.options.bothMachines()
	for i := range all {
		four, other := of(&all[i])
		if out[all[i].Name] = four; six {
			out[all[i].Name] = other
		}
	}
	return out
}
