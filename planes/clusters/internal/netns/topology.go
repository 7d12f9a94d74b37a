package netns

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/windtunnel/windtunnel/internal/machine/network"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/link"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
)

// The networks of pods within a cluster.
const (
	CNIRouted = "routed" // by routes between nodes, as Calico's BGP
	CNIVXLAN  = "vxlan"  // by a VXLAN device of its own, as Calico's and Flannel's
)

// How packets between gateways are encrypted.
const (
	EncryptNone      = "none"      // Kosmos knows no other
	EncryptWireGuard = "wireguard" // by WireGuard between gateways, in place of VXLAN, as Submariner may
)

// Options say what stands.
type Options struct {
	NetworkType string // link.P2P or link.Gateway, of both clusters
	CNI         string // CNIRouted or CNIVXLAN, of cluster A
	Family      string // link.Family4, link.Family6 or link.FamilyAll; empty: IPv4
	Overlap     bool   // both clusters have the same range of pods, and each knows the other's by another one (GlobalMap)
	Encrypt     string // EncryptNone or EncryptWireGuard; empty: none
	Bandwidth   uint64 // of what each machine sends, bits a second; 0: whatever the machine can
	Unlinked    bool   // the link is somebody else's to bring, by Apply
	NoRules     bool   // rules of iptables are left out: pods reach each other without them, hosts do not
}

// Words declares what a user may choose.
func (o *Options) Words() words.Set {
	return words.Set{
		words.Of(&o.NetworkType, "network-type", "network type of both clusters",
			words.Default(link.P2P, "node to node"), words.Or(link.Gateway, "by one gateway of each cluster")),
		words.Of(&o.CNI, "cni", "how pods of one cluster reach each other", words.Default(CNIRouted, ""), words.Or(CNIVXLAN, "")),
		words.Of(&o.Family, "ip-family", "IP family of the linked addresses",
			words.Default(link.Family4, ""), words.Or(link.Family6, ""), words.Or(link.FamilyAll, "")),
		words.Of(&o.Overlap, "overlap", "give both clusters the same range of pods, and let each reach the other's by another range (GlobalMap)", words.Default(false, "")),
		words.Of(&o.Encrypt, "encrypt", "encryption of packets between gateways, WireGuard in user space",
			words.Default(EncryptNone, ""), words.Or(EncryptWireGuard, "")),
		words.Of(&o.Bandwidth, "bandwidth", "maximum send bandwidth of a machine in `BITS` per second; 0: no limit", words.Default(uint64(0), "")),
		words.Of(&o.Unlinked, "agents", "let agents bring to machines what a network-manager computes, and elect gateways; default: the link stands from the start", words.Default(false, "")),
	}
}

// Validate says what is wrong with what a user may choose.
func (o *Options) Validate() error {
	all := o.complete()
	errs := []error{all.Words().Check()}
	switch {
	case o.Encrypt == EncryptWireGuard && o.NetworkType != link.Gateway:
		errs = append(errs, fmt.Errorf("encrypt %s: it is between gateways, which network-type %s has none of", o.Encrypt, o.NetworkType))
	case o.Encrypt == EncryptWireGuard && o.Unlinked:
		errs = append(errs, fmt.Errorf("encrypt %s: its ends stand where gateways were at the begin: they cannot be elected", o.Encrypt))
	}
	if o.Encrypt == EncryptWireGuard && (o.hasIPv6() || o.Overlap) {
		errs = append(errs, fmt.Errorf("encrypt %s: it is for IPv4, and for ranges that do not overlap", o.Encrypt))
	}
	if o.Bandwidth > 0 && o.Bandwidth < minBandwidth {
		errs = append(errs, fmt.Errorf("bandwidth %d: want at least %s a second", o.Bandwidth, unit.Count(uint64(minBandwidth), "bits")))
	}
	return errors.Join(errs...)
}

// complete returns options in which what may be empty is not.
func (o *Options) complete() Options {
	out := *o
	out.Family, out.Encrypt = cmp.Or(o.Family, link.Family4), cmp.Or(o.Encrypt, EncryptNone)
	return out
}

// Devices and what is said of them.
const (
	uplink  = "eth0" // of a machine and of a pod
	anyPod  = "169.254.1.1"
	anyPod6 = "fe80::1"
	podPort = "pod0" // of a machine, to its pod
	cni     = "cni"  // the VXLAN device of CNIVXLAN
	cniID   = 4096   // as Calico's
	cniPort = 4789   // the port of RFC 7348
	linkMTU = 1500   // of a machine's uplink

	minBandwidth = 1e6 // bits a second: below it a packet takes longer than the bucket is deep
)

// Topology is cluster A with the machines a1, its gateway, and a2, in one subnet, and
// cluster B with b1 in another; on each machine runs a pod.
type Topology struct {
	options Options
	spaces  map[string]*network.Held // router, a1, a2, b1, pod-a1, pod-a2, pod-b1
	ends    []func()                 // of tunnels
}

// Build makes it. What was made is gone again when it fails.
func Build(o Options) (*Topology, error) {
	o = o.complete()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.hasIPv6() {
		if err := network.TryIPv6(); err != nil {
			return nil, err
		}
	}
	t := &Topology{options: o, spaces: map[string]*network.Held{}}
	if err := t.buildAll(); err != nil {
		return nil, errors.Join(fmt.Errorf("build the topology: %w", err), t.Close())
	}
	return t, nil
}

// At returns a namespace by its name, which is one that Names has.
func (t *Topology) At(name string) network.Namespace { return t.spaces[name].Namespace() }

// Names returns the names of the namespaces: of the router, the machines and their pods.
func (t *Topology) Names() []string {
	names := []string{"router"}
	for _, m := range t.options.bothMachines() {
		names = append(names, m.Name, "pod-"+m.Name)
	}
	return names
}

// Close lets go of all namespaces, with what is in them.
func (t *Topology) Close() error {
	var errs []error
	for _, end := range t.ends {
		end()
	}
	t.ends = nil
	for name, held := range t.spaces {
		errs = append(errs, held.Close())
		delete(t.spaces, name)
	}
	return errors.Join(errs...)
}

func (t *Topology) buildAll() error {
	for _, name := range t.Names() {
		held, err := network.NewNamespace()
		if err != nil {
			return err
		}
		t.spaces[name] = held
		if err := held.Namespace().Do(t.silenceIPv6); err != nil {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
	}
	if err := t.makeRouter(); err != nil {
		return fmt.Errorf("router: %w", err)
	}
	all := t.options.bothMachines()
	for i := range all {
		if err := t.joinMachine(&all[i]); err != nil {
			return fmt.Errorf("machine %s: %w", all[i].Name, err)
		}
	}
	if err := t.connectCluster(t.options.CNI, &all[0], &all[1]); err != nil {
		return fmt.Errorf("network of cluster a: %w", err)
	}
	if t.options.Unlinked {
		return nil
	}
	configs := link.NewTopology(t.Clusters(), t.Nodes()).Full()
	if t.options.Encrypt == EncryptWireGuard {
		if err := t.encryptConfigs(configs); err != nil {
			return err
		}
	}
	for name, c := range configs {
		if err := t.Apply(name, c); err != nil {
			return fmt.Errorf("machine %s: %w", name, err)
		}
	}
	return nil
}

// Apply makes a machine have what a configuration asks for.
func (t *Topology) Apply(machine string, c *link.Config) error {
	if t.options.NoRules {
		without := *c
		without.IPTables, c = nil, &without
	}
	return Apply(t.At(machine), c)
}

// Power gives a machine its network, or takes it: what leads to the rest is a cable that
// somebody pulls, and what the machine has itself stays as it is.
func (t *Topology) Power(name string, on bool) error {
	all := t.options.bothMachines()
	i := slices.IndexFunc(all, func(m machine) bool { return m.Name == name })
	if i < 0 {
		return fmt.Errorf("there is no machine %s", name)
	}
	return t.At("router").Do(func() error {
		port := all[i].port
		if on {
			return raiseDevice(port)
		}
		found, err := netlink.LinkByName(port)
		if err != nil {
			return fmt.Errorf("device %s: %w", port, err)
		}
		return netlink.LinkSetDown(found)
	})
}

// makeRouter makes the bridge of A's subnet, and lets packets pass.
func (t *Topology) makeRouter() error {
	return t.At("router").Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "subnet-a"
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
			return fmt.Errorf("bridge: %w", err)
		}
		if t.options.hasIPv6() {
			if err := addAddress(attrs.Name, routerA6+"/64"); err != nil {
				return err
			}
		}
		return errors.Join(addAddress(attrs.Name, routerA+"/24"), t.enableForwarding())
	})
}

// silenceIPv6 leaves IPv6 out where it is not asked for: a device that is raised would ask for
// neighbours and routers by packets that nobody sent. Where it is, addresses are used without
// asking whether others have them, and no router is looked for.
func (t *Topology) silenceIPv6() error {
	const all, next = "net/ipv6/conf/all/", "net/ipv6/conf/default/"
	if !t.options.hasIPv6() {
		if _, err := os.Stat("/proc/sys/" + all); errors.Is(err, fs.ErrNotExist) {
			return nil // a kernel without IPv6
		}
		return errors.Join(writeSetting(all+"disable_ipv6", "1"), writeSetting(next+"disable_ipv6", "1"))
	}
	var errs []error
	for _, name := range []string{"accept_dad", "accept_ra", "autoconf", "router_solicitations"} {
		errs = append(errs, writeSetting(all+name, "0"), writeSetting(next+name, "0"))
	}
	return errors.Join(errs...)
}

// enableForwarding lets packets pass that are not for this namespace.
func (t *Topology) enableForwarding() error {
	err := errors.Join(writeSetting("net/ipv4/ip_forward", "1"), loosenPathFilter("all"), loosenPathFilter("default"))
	if t.options.hasIPv6() {
		err = errors.Join(err, writeSetting("net/ipv6/conf/all/forwarding", "1"))
	}
	return err
}

// joinMachine joins a machine to the router and its pod to the machine.
func (t *Topology) joinMachine(m *machine) error {
	if err := t.joinNamespaces("router", m.port, m.Name, uplink); err != nil {
		return err
	}
	gateway, gateway6 := routerA, routerA6
	err := t.At("router").Do(func() error {
		if m.Cluster != "b" {
			return attachToBridge(m.port, "subnet-a")
		}
		gateway, gateway6 = routerB, routerB6
		err := addAddress(m.port, gateway+"/24")
		if t.options.hasIPv6() {
			err = errors.Join(err, addAddress(m.port, gateway6+"/64"))
		}
		return err
	})
	if err != nil {
		return err
	}
	err = t.At(m.Name).Do(func() error {
		err := errors.Join(t.enableForwarding(), addAddress(uplink, m.IP.String()+"/24"), addRoute("0.0.0.0/0", gateway, uplink), limitBandwidth(uplink, t.options.Bandwidth))
		if t.options.hasIPv6() {
			err = errors.Join(err, addAddress(uplink, m.IP6.String()+"/64"), addRoute("::/0", gateway6, uplink))
		}
		return err
	})
	if err != nil {
		return err
	}
	return t.joinPod(m)
}

// joinPod joins a pod by routes of single addresses, as Calico does: the machine answers for
// every other address (proxy ARP), and by IPv6 has one that is the same on all machines.
func (t *Topology) joinPod(m *machine) error {
	name := "pod-" + m.Name
	if err := t.joinNamespaces(m.Name, podPort, name, uplink); err != nil {
		return err
	}
	err := t.At(m.Name).Do(func() error {
		err := errors.Join(raiseDevice(podPort), writeSetting("net/ipv4/conf/"+podPort+"/proxy_arp", "1"),
			writeSetting("net/ipv4/neigh/"+podPort+"/proxy_delay", "0"), addRoute(hostPrefix(m.pod), "", podPort))
		if t.options.hasIPv6() {
			err = errors.Join(err, addAddress(podPort, anyPod6+"/64"), addRoute(hostPrefix(m.pod6), "", podPort))
		}
		return err
	})
	if err != nil {
		return err
	}
	return t.At(name).Do(func() error {
		found, err := netlink.LinkByName(uplink)
		if err != nil {
			return fmt.Errorf("device of the pod: %w", err)
		}
		overhead := link.Overhead
		if t.options.hasIPv6() {
			overhead = link.Overhead6
		}
		if t.options.Encrypt == EncryptWireGuard {
			overhead = secretOverhead
		}
		if err := netlink.LinkSetMTU(found, found.Attrs().MTU-overhead); err != nil {
			return fmt.Errorf("MTU of the pod: %w", err)
		}
		err = errors.Join(addAddress(uplink, hostPrefix(m.pod)), addRoute(anyPod+"/32", "", uplink), addRoute("0.0.0.0/0", anyPod, uplink))
		if t.options.hasIPv6() {
			err = errors.Join(err, addAddress(uplink, hostPrefix(m.pod6)), addRoute("::/0", anyPod6, uplink))
		}
		return err
	})
}

// connectCluster makes pods of a cluster's two machines reach each other.
func (t *Topology) connectCluster(kind string, all ...*machine) error {
	for i, m := range all {
		peer := all[1-i]
		err := t.At(m.Name).Do(func() error {
			if kind != CNIRouted {
				return makeOverlay(m, peer)
			}
			err := addRoute(peer.PodCIDRs[0].String(), peer.IP.String(), uplink)
			if t.options.hasIPv6() {
				err = errors.Join(err, addRoute(peer.PodCIDRs[1].String(), peer.IP6.String(), uplink))
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("machine %s: %w", m.Name, err)
		}
	}
	return nil
}

// makeOverlay makes a VXLAN device whose one neighbour is a peer.
func makeOverlay(m, peer *machine) error {
	own := func(x *machine) string { return "a6:00:00:00:00:" + fmt.Sprintf("%02x", x.IP.As4()[3]) }
	device := link.Device{Name: cni, Addr: hostPrefix(m.PodCIDRs[0].Addr()), MAC: own(m), BindDev: uplink, ID: cniID, Port: cniPort}
	if err := applyDevice(device); err != nil {
		return err
	}
	found, err := netlink.LinkByName(cni)
	if err != nil {
		return fmt.Errorf("device %s: %w", cni, err)
	}
	index := found.Attrs().Index
	if err := netlink.NeighAppend(neighbourEntry(neighbour{unix.AF_BRIDGE, index, peer.IP.String(), own(peer)})); err != nil {
		return fmt.Errorf("neighbour %s: %w", peer.IP, err)
	}
	if len(m.PodCIDRs) > 1 { // it carries IPv6 by IPv4
		err := errors.Join(writeSetting("net/ipv6/conf/"+cni+"/disable_ipv6", "0"), addAddress(cni, hostPrefix(m.PodCIDRs[1].Addr())))
		if err != nil {
			return err
		}
	}
	for _, pods := range peer.PodCIDRs {
		at := pods.Addr().String()
		if err := netlink.NeighAppend(neighbourEntry(neighbour{familyOf(at), index, at, own(peer)})); err != nil {
			return fmt.Errorf("neighbour %s: %w", at, err)
		}
		if err := addRoute(pods.String(), at, cni); err != nil {
			return err
		}
	}
	return nil
}

// joinNamespaces puts the ends of a pair of devices into two namespaces.
func (t *Topology) joinNamespaces(a, deviceA, b, deviceB string) error {
	other, err := os.Open(string(t.At(b)))
	if err != nil {
		return fmt.Errorf("namespace %s: %w", b, err)
	}
	defer other.Close()
	return t.At(a).Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = deviceA
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: deviceB, PeerNamespace: netlink.NsFd(int(other.Fd()))}); err != nil {
			return fmt.Errorf("pair %s, %s: %w", deviceA, deviceB, err)
		}
		return raiseDevice(deviceA)
	})
}

// limitBandwidth lets a device send no more than so many bits a second, by a bucket of a few
// milliseconds; 0: as many as it can.
func limitBandwidth(device string, bitsPerSecond uint64) error {
	if bitsPerSecond == 0 {
		return nil
	}
	found, err := netlink.LinkByName(device)
	if err != nil {
		return fmt.Errorf("device %s: %w", device, err)
	}
	const (
		ticks = 64 << 10 // the bucket's depth: of 64 ns each
		queue = 1 << 20  // bytes that wait for it
	)
	err = netlink.QdiscAdd(&netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: found.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		Rate:       bitsPerSecond / 8, Limit: queue, Buffer: ticks, Minburst: linkMTU + 14,
	})
	if err != nil {
		return fmt.Errorf("bandwidth of %s: %w", device, err)
	}
	return nil
}

func raiseDevice(device string) error {
	found, err := netlink.LinkByName(device)
	if err != nil {
		return fmt.Errorf("device %s: %w", device, err)
	}
	if err := netlink.LinkSetUp(found); err != nil {
		return fmt.Errorf("raise %s: %w", device, err)
	}
	return nil
}

func attachToBridge(device, bridge string) error {
	d, err := netlink.LinkByName(device)
	if err != nil {
		return fmt.Errorf("device %s: %w", device, err)
	}
	b, err := netlink.LinkByName(bridge)
	if err != nil {
		return fmt.Errorf("bridge %s: %w", bridge, err)
	}
	if err := netlink.LinkSetMaster(d, b); err != nil {
		return fmt.Errorf("put %s into %s: %w", device, bridge, err)
	}
	return raiseDevice(bridge)
}

// addRoute adds a route; without a gateway what it leads to is behind the device itself.
func addRoute(to, via, device string) error {
	found, err := netlink.LinkByName(device)
	if err != nil {
		return fmt.Errorf("device %s: %w", device, err)
	}
	_, prefix, err := net.ParseCIDR(to)
	if err != nil {
		return fmt.Errorf("route: %w", err)
	}
	r := &netlink.Route{LinkIndex: found.Attrs().Index, Dst: prefix, Scope: netlink.SCOPE_LINK}
	if via != "" {
		r.Gw, r.Scope, r.Flags = gatewayOf(via), netlink.SCOPE_UNIVERSE, int(netlink.FLAG_ONLINK)
	}
	if err := netlink.RouteAdd(r); err != nil {
		return fmt.Errorf("route to %s: %w", to, err)
	}
	return nil
}
