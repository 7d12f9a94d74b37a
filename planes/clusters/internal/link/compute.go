package link

import (
	"cmp"
	"net/netip"
	"slices"
)

// Topology is all clusters and nodes, in the order of their names, with what is looked
// up in them.
type Topology struct {
	nodes    []Node
	clusters []Cluster
	cluster  map[string]*Cluster
	gateway  map[string]*Node   // of a cluster
	members  map[string][]*Node // of a cluster
}

// NewTopology looks at clusters and nodes. Nodes without an address and of clusters that
// are not known have no part in it yet.
func NewTopology(clusters []Cluster, nodes []Node) *Topology {
	t := &Topology{cluster: map[string]*Cluster{}, gateway: map[string]*Node{}, members: map[string][]*Node{}}
	t.clusters = slices.SortedFunc(slices.Values(clusters), func(a, b Cluster) int { return cmp.Compare(a.Name, b.Name) })
	for i := range t.clusters {
		t.cluster[t.clusters[i].Name] = &t.clusters[i]
	}
	for _, n := range nodes {
		if n.IP.Is4() && t.cluster[n.Cluster] != nil {
			t.nodes = append(t.nodes, n)
		}
	}
	slices.SortFunc(t.nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	for i := range t.nodes {
		n := &t.nodes[i]
		t.members[n.Cluster] = append(t.members[n.Cluster], n)
		if n.Gateway && t.gateway[n.Cluster] == nil {
			t.gateway[n.Cluster] = n
		}
	}
	return t
}

// Full computes the configuration of every node, as Kosmos does at each event.
func (t *Topology) Full() map[string]*Config {
	out := make(map[string]*Config, len(t.nodes))
	for i := range t.nodes {
		out[t.nodes[i].Name] = t.Of(&t.nodes[i])
	}
	return out
}

// Of computes the configuration of one node.
func (t *Topology) Of(n *Node) *Config {
	c, own := &Config{}, t.cluster[n.Cluster]
	if t.bridges(n) {
		c.Devices = append(c.Devices, Device{"vxlan", Bridge, within(own.Bridge, n.IP).String(), mac(n.Name, Bridge), n.Device, bridgeID, bridgePort})
		t.bridge(n, c)
	}
	if own.Type == Gateway {
		c.Devices = append(c.Devices, Device{"vxlan", Local, within(own.Local, n.IP).String(), mac(n.Name, Local), n.Device, localID, localPort})
		t.local(n, c)
	}
	for i := range t.clusters {
		if remote := &t.clusters[i]; remote != own {
			t.lead(n, remote, c)
		}
	}
	if n.Gateway {
		c.IPTables = append(c.IPTables, Rule{"nat", "POSTROUTING", "-s " + own.Local.String() + " -o " + Bridge + " -j MASQUERADE"})
	}
	c.sort()
	return c
}

// bridges says that a node has a device between clusters.
func (t *Topology) bridges(n *Node) bool { return t.cluster[n.Cluster].Type == P2P || t.isGateway(n) }

func (t *Topology) isGateway(n *Node) bool {
	gateway := t.gateway[n.Cluster]
	return gateway != nil && gateway.Name == n.Name
}

// bridge makes a node know all others that have a device between clusters, those of its
// own cluster too.
func (t *Topology) bridge(n *Node, c *Config) {
	for i := range t.nodes {
		if peer := &t.nodes[i]; peer.Name != n.Name && t.bridges(peer) {
			c.know(peer, Bridge, within(t.cluster[peer.Cluster].Bridge, peer.IP).Addr())
		}
	}
}

// local makes a node know its gateway, and a gateway the nodes of its cluster.
func (t *Topology) local(n *Node, c *Config) {
	for _, peer := range t.members[n.Cluster] {
		if peer.Name != n.Name && (t.isGateway(n) || t.isGateway(peer)) {
			c.know(peer, Local, within(t.cluster[peer.Cluster].Local, peer.IP).Addr())
		}
	}
}

// know adds a peer's device: where its packets go, by its address and for all whose
// receiver is not known, and what its MAC address is.
func (c *Config) know(peer *Node, device string, at netip.Addr) {
	address, underlay := mac(peer.Name, device), peer.IP.String()
	c.FDBs = append(c.FDBs, Neighbour{underlay, everyMAC, device}, Neighbour{underlay, address, device})
	c.ARPs = append(c.ARPs, Neighbour{at.String(), address, device})
}

// lead adds the ways to a remote cluster's pods and services. Services are behind its
// gateway, whatever its type is.
func (t *Topology) lead(n *Node, remote *Cluster, c *Config) {
	if !t.bridges(n) { // by the own gateway
		if gateway := t.gateway[n.Cluster]; gateway != nil {
			via := within(t.cluster[n.Cluster].Local, gateway.IP).Addr()
			c.route(via, Local, remote.PodCIDRs...)
			c.route(via, Local, remote.services()...)
		}
		return
	}
	gateway := t.gateway[remote.Name]
	if gateway != nil {
		c.route(within(remote.Bridge, gateway.IP).Addr(), Bridge, remote.services()...)
	}
	switch {
	case remote.Type == P2P:
		for _, peer := range t.members[remote.Name] {
			c.route(within(remote.Bridge, peer.IP).Addr(), Bridge, peer.PodCIDRs...)
		}
	case gateway != nil:
		c.route(within(remote.Bridge, gateway.IP).Addr(), Bridge, remote.PodCIDRs...)
	}
}

func (c *Cluster) services() []netip.Prefix {
	if c.ServiceCIDR.IsValid() {
		return []netip.Prefix{c.ServiceCIDR}
	}
	return nil
}

func (c *Config) route(via netip.Addr, dev string, to ...netip.Prefix) {
	for _, p := range to {
		c.Routes = append(c.Routes, Route{p.String(), via.String(), dev})
	}
}
