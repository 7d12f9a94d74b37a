package link

import (
	"cmp"
	"net/netip"
	"slices"
)

// Topology is all clusters and nodes, in the order of their names, with what is looked
// up in them.
type Topology struct {
	nodes []Node // those that have a part in it
	views []*view
}

// NewTopology looks at clusters and nodes. Nodes without an address and of clusters that
// are not known have no part in it yet.
func NewTopology(clusters []Cluster, nodes []Node) *Topology {
	t := &Topology{}
	clusters = slices.SortedFunc(slices.Values(clusters), func(a, b Cluster) int { return cmp.Compare(a.Name, b.Name) })
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, f := range bothFamilies() {
		t.views = append(t.views, newView(f, clusters, nodes))
	}
	for _, n := range nodes {
		if slices.ContainsFunc(t.views, func(v *view) bool { return v.node[n.Name] != nil }) {
			t.nodes = append(t.nodes, n)
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
	c := &Config{}
	for _, v := range t.views {
		if known := v.node[n.Name]; known != nil {
			v.addFamily(known, c)
		}
	}
	c.sortEntries()
	return c
}

// addFamily adds what a node has of a family.
func (v *view) addFamily(n *viewNode, c *Config) {
	own := n.cluster
	if v.hasBridge(n) {
		c.Devices = append(c.Devices, Device{"vxlan", v.bridge, addressIn(own.bridge, n.at).String(), macOf(n.Name, v.bridge), n.Device, v.bridgeID, v.bridgePort})
		v.knowBridges(n, c)
	}
	if own.kind == Gateway {
		c.Devices = append(c.Devices, Device{"vxlan", v.local, addressIn(own.local, n.at).String(), macOf(n.Name, v.local), n.Device, v.localID, v.localPort})
		v.knowLocals(n, c)
	}
	for _, remote := range v.clusters {
		if remote != own {
			v.addRemoteRoutes(n, remote, c)
		}
	}
	if n.Gateway && own.kind == Gateway {
		c.IPTables = append(c.IPTables,
			Rule{"nat", "POSTROUTING", "-s " + own.local.String() + " -o " + v.bridge + " -j MASQUERADE"}, // of its own cluster's hosts
			Rule{"nat", "POSTROUTING", "-s " + own.bridge.String() + " -j MASQUERADE"})                    // of other clusters' hosts, which its nodes have no way to
	}
	if v.hasBridge(n) {
		v.addTranslation(own, c)
	}
}

// hasBridge says that a node has a device between clusters.
func (v *view) hasBridge(n *viewNode) bool { return n.cluster.kind == P2P || v.isGateway(n) }

func (v *view) isGateway(n *viewNode) bool { return n.cluster.gateway == n }

// knowBridges makes a node know all others that have a device between clusters, those of
// its own cluster too.
func (v *view) knowBridges(n *viewNode, c *Config) {
	for _, peer := range v.nodes {
		if peer != n && v.hasBridge(peer) {
			c.addPeer(peer, v.bridge, addressIn(peer.cluster.bridge, peer.at).Addr())
		}
	}
}

// knowLocals makes a node know its gateway, and a gateway the nodes of its cluster.
func (v *view) knowLocals(n *viewNode, c *Config) {
	for _, peer := range n.cluster.members {
		if peer != n && (v.isGateway(n) || v.isGateway(peer)) {
			c.addPeer(peer, v.local, addressIn(peer.cluster.local, peer.at).Addr())
		}
	}
}

// addPeer adds a peer's device: where its packets go, by its address and for all whose
// receiver is not known, and what its MAC address is.
func (c *Config) addPeer(peer *viewNode, device string, at netip.Addr) {
	address, underlay := macOf(peer.Name, device), peer.at.String()
	c.FDBs = append(c.FDBs, Neighbour{underlay, everyMAC, device}, Neighbour{underlay, address, device})
	c.ARPs = append(c.ARPs, Neighbour{at.String(), address, device})
}

// addRemoteRoutes adds the ways to a remote cluster's pods and services. Services are behind its
// gateway, whatever its type is.
func (v *view) addRemoteRoutes(n *viewNode, remote *viewCluster, c *Config) {
	own := n.cluster
	if !v.hasBridge(n) { // by the own gateway
		if own.gateway != nil {
			via := addressIn(own.local, own.gateway.at).Addr()
			c.addRoutes(via, v.local, own.withoutOverlaps(remote.pods)...)
			c.addRoutes(via, v.local, own.withoutOverlaps(remote.services)...)
		}
		return
	}
	gateway := remote.gateway
	if gateway != nil {
		c.addRoutes(addressIn(remote.bridge, gateway.at).Addr(), v.bridge, own.withoutOverlaps(remote.services)...)
	}
	switch {
	case remote.kind == P2P:
		for _, peer := range remote.members {
			c.addRoutes(addressIn(remote.bridge, peer.at).Addr(), v.bridge, own.withoutOverlaps(peer.pods)...)
		}
	case gateway != nil:
		c.addRoutes(addressIn(remote.bridge, gateway.at).Addr(), v.bridge, own.withoutOverlaps(remote.pods)...)
	}
}

func (c *Config) addRoutes(via netip.Addr, dev string, to ...netip.Prefix) {
	for _, p := range to {
		c.Routes = append(c.Routes, Route{p.String(), via.String(), dev})
	}
}

// addTranslation adds a cluster's GlobalMap: what comes for a global range goes to the one
// that stands behind it, address by address; what leaves from there comes from the global
// range's first address. Answers find their way by what the kernel remembers.
func (v *view) addTranslation(own *viewCluster, c *Config) {
	for _, m := range own.global {
		c.IPTables = append(c.IPTables,
			Rule{"nat", "PREROUTING", "-d " + m.to.String() + " -i " + v.bridge + " -j NETMAP --to " + m.from.String()},
			Rule{"nat", "POSTROUTING", "-s " + m.from.String() + " -o " + v.bridge + " -j SNAT --to-source " + m.to.Masked().Addr().String()})
	}
}
