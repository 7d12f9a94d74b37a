// Package link computes the network between clusters as Kosmos' network-manager does:
// which devices, routes and neighbours each node is to have, so that pods of one cluster
// reach those of another by VXLAN.
//
// It is pure: package netns brings a configuration to a kernel, package netconfig keeps
// configurations at an API server. IP rules of hosts beside nftables are left out.
package link

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// Kosmos' devices, and the mark of what they carry.
const (
	Bridge      = "vx-bridge"   // between clusters
	Local       = "vx-local"    // from a node to its cluster's gateway
	Bridge6     = "vx-bridge-6" // those of IPv6, over IPv6
	Local6      = "vx-local-6"
	bridgeID    = 54
	localID     = 55
	bridgePort  = 4876
	localPort   = 4877
	bridge6ID   = 64
	local6ID    = 65
	bridge6Port = 4866
	local6Port  = 4867
	Overhead    = 50 // bytes that VXLAN over IPv4 adds: 14 of Ethernet, 20 of IP, 8 of UDP, 8 of VXLAN
	Overhead6   = 70 // the same over IPv6, whose header has 40
)

// DeviceNames returns the names of all devices that a configuration may have.
func DeviceNames() []string { return []string{Bridge, Local, Bridge6, Local6} }

// The families of addresses that a cluster's link has.
const (
	FamilyAll = "all"
	Family4   = "ipv4"
	Family6   = "ipv6"
)

// The network types of a cluster.
const (
	P2P     = "p2p"     // each node speaks to each of the others
	Gateway = "gateway" // a node speaks to its cluster's gateway, which speaks to other gateways
)

// Cluster is what the link knows of a cluster.
type Cluster struct {
	Name            string
	Type            string         // P2P or Gateway
	Family          string         // FamilyAll, Family4 or Family6; empty: all, as far as there are addresses
	Local           netip.Prefix   // of the addresses of Local; Kosmos' is 210.0.0.0/8
	Bridge          netip.Prefix   // of the addresses of Bridge; Kosmos' is 220.0.0.0/8
	Local6, Bridge6 netip.Prefix   // of IPv6; the zero ones: it has no link of IPv6
	PodCIDRs        []netip.Prefix // of all its nodes, which other clusters' gateways need alone
	ServiceCIDRs    []netip.Prefix
	Global          map[netip.Prefix]netip.Prefix // GlobalMap: ranges of pods, services or a node's pods, and what others know them by
}

// hasFamily says that a cluster's link is to have a family.
func (c *Cluster) hasFamily(f family) bool {
	return c.Family == "" || c.Family == FamilyAll || (c.Family == Family6) == f.six
}

// Node is what the link knows of a node.
type Node struct {
	Name, Cluster string
	IP            netip.Addr // IPv4, of the device that other nodes are reached by; the zero one: not known yet
	IP6           netip.Addr // the same of IPv6
	Device        string
	PodCIDRs      []netip.Prefix
	Gateway       bool // elected in its cluster
}

// Device is a VXLAN device.
type Device struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Addr    string `json:"addr"` // a prefix
	MAC     string `json:"mac"`
	BindDev string `json:"bindDev"` // that its packets leave by
	ID      int    `json:"id"`
	Port    int    `json:"port"`
}

// Route leads to a range of addresses.
type Route struct {
	CIDR string `json:"cidr"`
	GW   string `json:"gw"`
	Dev  string `json:"dev"`
}

// Rule is one of iptables.
type Rule struct {
	Table string `json:"table"`
	Chain string `json:"chain"`
	Rule  string `json:"rule"`
}

// Neighbour is an entry of a table of neighbours or of forwarding: behind MAC is IP.
type Neighbour struct {
	IP  string `json:"ip"`
	MAC string `json:"mac"`
	Dev string `json:"dev"`
}

// Config is what a node is to have: the spec of a NodeConfig. Its lists are sorted.
type Config struct {
	Devices  []Device    `json:"devices,omitempty"`
	Routes   []Route     `json:"routes,omitempty"`
	IPTables []Rule      `json:"iptables,omitempty"`
	FDBs     []Neighbour `json:"fdbs,omitempty"`
	ARPs     []Neighbour `json:"arps,omitempty"`
}

// everyMAC stands for packets whose receiver no entry of the forwarding table names.
const everyMAC = "00:00:00:00:00:00"

// addressIn returns the address of a device: the node's host bits in a range.
func addressIn(at netip.Prefix, node netip.Addr) netip.Prefix {
	base, host := at.Masked().Addr().AsSlice(), node.AsSlice()
	for i := range base {
		keep := min(max(at.Bits()-8*i, 0), 8) // bits of this byte that are the range's
		mask := byte(0xff << (8 - keep))
		base[i] = base[i]&mask | host[i]&^mask
	}
	a, _ := netip.AddrFromSlice(base)
	return netip.PrefixFrom(a, at.Bits())
}

// macOf returns the address of a node's device: the same whoever asks for it, and locally
// administered.
func macOf(node, device string) string {
	sum := sha256.Sum256([]byte(node + "/" + device))
	return net.HardwareAddr{0xa6, sum[0], sum[1], sum[2], sum[3], sum[4]}.String()
}

// sortEntries brings a configuration into the order of its texts, and leaves out what is
// there twice.
func (c *Config) sortEntries() {
	slices.SortFunc(c.Devices, func(a, b Device) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(c.Routes, func(a, b Route) int { return cmp.Or(cmp.Compare(a.CIDR, b.CIDR), cmp.Compare(a.GW, b.GW)) })
	byAddress := func(a, b Neighbour) int {
		return cmp.Or(cmp.Compare(a.Dev, b.Dev), cmp.Compare(a.IP, b.IP), cmp.Compare(a.MAC, b.MAC))
	}
	slices.SortFunc(c.FDBs, byAddress)
	slices.SortFunc(c.ARPs, byAddress)
	c.Routes, c.FDBs, c.ARPs = slices.Compact(c.Routes), slices.Compact(c.FDBs), slices.Compact(c.ARPs)
}

// Entries is how many devices, routes, rules and neighbours a configuration has.
func (c *Config) Entries() int {
	return len(c.Devices) + len(c.Routes) + len(c.IPTables) + len(c.FDBs) + len(c.ARPs)
}

// Validate says what is wrong with a cluster's ranges.
func (c *Cluster) Validate() error {
	if c.Type != P2P && c.Type != Gateway {
		return fmt.Errorf("cluster %s: network type %q: want %s or %s", c.Name, c.Type, P2P, Gateway)
	}
	if c.Family != "" && c.Family != FamilyAll && c.Family != Family4 && c.Family != Family6 {
		return fmt.Errorf("cluster %s: family of addresses %q: want %s, %s or %s", c.Name, c.Family, FamilyAll, Family4, Family6)
	}
	for _, f := range bothFamilies() {
		ranges := []netip.Prefix{c.Local, c.Bridge}
		if f.six {
			ranges = []netip.Prefix{c.Local6, c.Bridge6}
		}
		needed := c.hasFamily(f) && (!f.six || c.Family == Family6)
		for _, r := range ranges {
			if needed && !r.IsValid() || r.IsValid() && !f.hasAddress(r.Addr()) {
				return fmt.Errorf("cluster %s: %v is no range of %s addresses", c.Name, r, map[bool]string{false: "IPv4", true: "IPv6"}[f.six])
			}
		}
	}
	for from, to := range c.Global {
		if !from.IsValid() || !to.IsValid() || from.Bits() != to.Bits() || from.Addr().Is4() != to.Addr().Is4() {
			return fmt.Errorf("cluster %s: %v cannot stand for %v: their sizes differ", c.Name, to, from)
		}
	}
	return nil
}
