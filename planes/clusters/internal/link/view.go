package link

import (
	"cmp"
	"net/netip"
	"slices"
)

// family is what the link has once for each family of addresses.
type family struct {
	six                                      bool
	bridge, local                            string
	bridgeID, localID, bridgePort, localPort int
}

func bothFamilies() []family {
	return []family{
		{false, Bridge, Local, bridgeID, localID, bridgePort, localPort},
		{true, Bridge6, Local6, bridge6ID, local6ID, bridge6Port, local6Port},
	}
}

// hasAddress says that an address is of the family.
func (f family) hasAddress(a netip.Addr) bool { return a.IsValid() && a.Is6() == f.six }

// onlyOwn returns the ranges of the family.
func (f family) onlyOwn(all []netip.Prefix) (out []netip.Prefix) {
	for _, p := range all {
		if f.hasAddress(p.Addr()) {
			out = append(out, p)
		}
	}
	return out
}

// view is the topology as one family of addresses has it.
type view struct {
	family
	clusters []*viewCluster
	nodes    []*viewNode
	node     map[string]*viewNode
}

// viewCluster is a cluster that has a link in a family.
type viewCluster struct {
	kind           string
	bridge, local  netip.Prefix
	own            []netip.Prefix // of its pods and services, as it has them itself
	pods, services []netip.Prefix // as others know them
	global         []mapped
	gateway        *viewNode
	members        []*viewNode
}

// viewNode is a node with an address of a family.
type viewNode struct {
	*Node
	cluster *viewCluster
	at      netip.Addr
	pods    []netip.Prefix // as others know them
}

// mapped is an entry of a GlobalMap.
type mapped struct{ from, to netip.Prefix }

// newView looks at clusters and nodes that are sorted by their names.
func newView(f family, clusters []Cluster, nodes []Node) *view {
	v, byName := &view{family: f, node: map[string]*viewNode{}}, map[string]*viewCluster{}
	for i := range clusters {
		if c := f.clusterView(&clusters[i]); c != nil {
			v.clusters, byName[clusters[i].Name] = append(v.clusters, c), c
		}
	}
	for i := range nodes {
		n := &nodes[i]
		c, at := byName[n.Cluster], n.IP
		if f.six {
			at = n.IP6
		}
		if c == nil || !f.hasAddress(at) {
			continue
		}
		one := &viewNode{Node: n, cluster: c, at: at, pods: c.globalRanges(f.onlyOwn(n.PodCIDRs))}
		v.nodes, v.node[n.Name] = append(v.nodes, one), one
		c.members = append(c.members, one)
		if n.Gateway && c.gateway == nil {
			c.gateway = one
		}
	}
	return v
}

// clusterView returns one as the family has it; nil: it has no link in it.
func (f family) clusterView(c *Cluster) *viewCluster {
	out := &viewCluster{kind: c.Type, bridge: c.Bridge, local: c.Local}
	if f.six {
		out.bridge, out.local = c.Bridge6, c.Local6
	}
	if !c.hasFamily(f) || !out.bridge.IsValid() || !out.local.IsValid() {
		return nil
	}
	for from, to := range c.Global {
		if f.hasAddress(from.Addr()) {
			out.global = append(out.global, mapped{from, to})
		}
	}
	slices.SortFunc(out.global, func(a, b mapped) int { return cmp.Compare(a.from.String(), b.from.String()) })
	pods, services := f.onlyOwn(c.PodCIDRs), f.onlyOwn(c.ServiceCIDRs)
	out.own = append(slices.Clone(pods), services...)
	out.pods, out.services = out.globalRanges(pods), out.globalRanges(services)
	return out
}

// globalRanges returns ranges as other clusters know them: a range that is mapped as it stands,
// and no part of one, goes by its global one.
func (c *viewCluster) globalRanges(own []netip.Prefix) (out []netip.Prefix) {
	for _, p := range own {
		if i := slices.IndexFunc(c.global, func(m mapped) bool { return m.from == p }); i >= 0 {
			p = c.global[i].to
		}
		out = append(out, p)
	}
	return out
}

// withoutOverlaps leaves out ranges that overlap the cluster's own: a way to another cluster's
// would take packets from its own pods.
func (c *viewCluster) withoutOverlaps(all []netip.Prefix) (out []netip.Prefix) {
	for _, p := range all {
		if !slices.ContainsFunc(c.own, p.Overlaps) {
			out = append(out, p)
		}
	}
	return out
}
