// Package netns brings the network between clusters to the kernel, in network namespaces
// of this machine that stand for nodes: VXLAN devices, routes and neighbours as package
// link computes them, and the machines, pods and networks of clusters around them.
//
// It needs CAP_SYS_ADMIN and CAP_NET_ADMIN. Nothing leaves the namespaces, and all of it
// is gone when the process that holds them ends.
package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/windtunnel/windtunnel/internal/machine/network"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/link"
)

// Kosmos' own table of routes, and the priority of the rule that leads there.
const (
	table    = 200
	priority = 200
)

// Apply makes a namespace have what a configuration asks for, and nothing of an earlier
// one: what stands already as it should be is not touched.
func Apply(at network.Namespace, c *link.Config) error {
	return at.Do(func() error {
		if err := applyDevices(c.Devices); err != nil {
			return err
		}
		if err := applyNeighbours(c); err != nil {
			return err
		}
		if err := applyRoutes(c.Routes); err != nil {
			return err
		}
		return applyRules(c.IPTables)
	})
}

// applyDevices makes VXLAN devices, and removes those of ours that are not asked for.
func applyDevices(want []link.Device) error {
	keep := map[string]bool{}
	for _, d := range want {
		keep[d.Name] = true
		if err := applyDevice(d); err != nil {
			return fmt.Errorf("device %s: %w", d.Name, err)
		}
	}
	for _, name := range link.DeviceNames() {
		if found, err := netlink.LinkByName(name); err == nil && !keep[name] {
			if err := netlink.LinkDel(found); err != nil {
				return fmt.Errorf("delete device %s: %w", name, err)
			}
		}
	}
	return nil
}

func applyDevice(d link.Device) error {
	parent, err := netlink.LinkByName(d.BindDev)
	if err != nil {
		return fmt.Errorf("%s, which it is bound to: %w", d.BindDev, err)
	}
	mac, err := net.ParseMAC(d.MAC)
	if err != nil {
		return fmt.Errorf("mac: %w", err)
	}
	found, err := netlink.LinkByName(d.Name)
	if err == nil && isSameDevice(found, d, parent.Attrs().Index, mac) {
		return nil
	}
	if err == nil {
		if err := netlink.LinkDel(found); err != nil {
			return err
		}
	}
	attrs, six := netlink.NewLinkAttrs(), isSix(d.Addr)
	attrs.Name, attrs.HardwareAddr, attrs.MTU = d.Name, mac, parent.Attrs().MTU-link.Overhead
	device := &netlink.Vxlan{VxlanId: d.ID, Port: d.Port, VtepDevIndex: parent.Attrs().Index}
	if six { // what it carries goes by IPv6, too: no receiver of its own is how the kernel is told
		device.Group, attrs.MTU = net.IPv6zero, parent.Attrs().MTU-link.Overhead6
	}
	device.LinkAttrs = attrs
	if err := netlink.LinkAdd(device); err != nil {
		return fmt.Errorf("add: %w", err)
	}
	if err := disableOwnAddresses(d.Name, six); err != nil {
		return err
	}
	if err := addAddress(d.Name, d.Addr); err != nil || six {
		return err
	}
	return loosenPathFilter(d.Name)
}

// isSix says that a text that starts with an address is one of IPv6.
func isSix(address string) bool { return strings.Contains(address, ":") }

// familyOf is the kernel's word for the family of such a text.
func familyOf(address string) int {
	if isSix(address) {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// disableOwnAddresses keeps the kernel from giving a device addresses of IPv6 of its own, by which it
// would send what nobody asked for. A device of IPv4 has none at all.
func disableOwnAddresses(device string, six bool) error {
	own := "net/ipv6/conf/" + device
	if six {
		return writeSetting(own+"/addr_gen_mode", "1")
	}
	if _, err := os.Stat(filepath.Join("/proc/sys", own)); errors.Is(err, fs.ErrNotExist) {
		return nil // a kernel without IPv6
	}
	return writeSetting(own+"/disable_ipv6", "1")
}

// isSameDevice says that a device is as it should be.
func isSameDevice(found netlink.Link, d link.Device, parent int, mac net.HardwareAddr) bool {
	v, ok := found.(*netlink.Vxlan)
	if !ok || v.VxlanId != d.ID || v.Port != d.Port || v.VtepDevIndex != parent || v.Attrs().HardwareAddr.String() != mac.String() {
		return false
	}
	all, err := netlink.AddrList(found, familyOf(d.Addr))
	return err == nil && len(all) == 1 && all[0].IPNet.String() == d.Addr
}

// addAddress gives a device an address and raises it. The address brings no route: all
// that is behind a device has routes of its own.
func addAddress(device, prefix string) error {
	found, err := netlink.LinkByName(device)
	if err != nil {
		return fmt.Errorf("device %s: %w", device, err)
	}
	a, err := netlink.ParseAddr(prefix)
	if err != nil {
		return fmt.Errorf("address of %s: %w", device, err)
	}
	if isSix(prefix) {
		a.Flags = unix.IFA_F_NODAD // nobody else has it: the kernel need not ask for a second before it is used
	}
	if err := netlink.AddrAdd(found, a); err != nil {
		return fmt.Errorf("address %s of %s: %w", prefix, device, err)
	}
	if err := netlink.LinkSetUp(found); err != nil {
		return fmt.Errorf("raise %s: %w", device, err)
	}
	return nil
}

// loosenPathFilter lets answers come in by another device than packets to their sender leave by
// (RFC 3704, 2.4): a gateway's answers do.
func loosenPathFilter(device string) error {
	return writeSetting("net/ipv4/conf/"+device+"/rp_filter", "2")
}

// writeSetting writes a kernel's setting of the namespace that the thread is in.
func writeSetting(name, value string) error {
	if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0o600); err != nil {
		return fmt.Errorf("setting %s: %w", name, err)
	}
	return nil
}

// neighbour is an entry as the kernel and a configuration both name it.
type neighbour struct {
	family, device int
	ip, mac        string
}

// applyNeighbours makes the tables of neighbours and of forwarding those of a
// configuration.
func applyNeighbours(c *link.Config) error {
	want, devices := map[neighbour]bool{}, map[string]int{}
	for _, d := range c.Devices {
		found, err := netlink.LinkByName(d.Name)
		if err != nil {
			return fmt.Errorf("device %s: %w", d.Name, err)
		}
		devices[d.Name] = found.Attrs().Index
	}
	for _, e := range c.ARPs {
		want[neighbour{familyOf(e.IP), devices[e.Dev], e.IP, e.MAC}] = true
	}
	for _, e := range c.FDBs {
		want[neighbour{unix.AF_BRIDGE, devices[e.Dev], e.IP, e.MAC}] = true
	}
	for name, index := range devices {
		if err := removeUnwanted(index, want); err != nil {
			return fmt.Errorf("neighbours of %s: %w", name, err)
		}
	}
	for e := range want {
		if err := netlink.NeighAppend(neighbourEntry(e)); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("neighbour %s, %s: %w", e.ip, e.mac, err)
		}
	}
	return nil
}

// removeUnwanted removes what is not wanted of a device, and takes what stands from the wanted.
func removeUnwanted(device int, want map[neighbour]bool) error {
	for _, family := range []int{unix.AF_INET, unix.AF_INET6, unix.AF_BRIDGE} {
		all, err := netlink.NeighList(device, family)
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		for _, n := range all {
			e := neighbour{family, device, n.IP.String(), n.HardwareAddr.String()}
			switch {
			case n.State&netlink.NUD_PERMANENT == 0 || n.IP == nil: // the kernel's own
			case want[e]:
				delete(want, e)
			default:
				if err := netlink.NeighDel(neighbourEntry(e)); err != nil {
					return fmt.Errorf("delete %s: %w", n.IP, err)
				}
			}
		}
	}
	return nil
}

func neighbourEntry(e neighbour) *netlink.Neigh {
	mac, _ := net.ParseMAC(e.mac) // of package link, or the kernel's
	n := &netlink.Neigh{LinkIndex: e.device, Family: e.family, State: netlink.NUD_PERMANENT, IP: net.ParseIP(e.ip), HardwareAddr: mac}
	if e.family == unix.AF_BRIDGE {
		n.Flags = netlink.NTF_SELF
	}
	return n
}

// applyRoutes makes Kosmos' tables of routes, one of each family, those of a configuration.
func applyRoutes(want []link.Route) error {
	of := map[int][]link.Route{}
	for _, w := range want {
		of[familyOf(w.CIDR)] = append(of[familyOf(w.CIDR)], w)
	}
	return errors.Join(syncRoutes(unix.AF_INET, of[unix.AF_INET]), syncRoutes(unix.AF_INET6, of[unix.AF_INET6]))
}

func syncRoutes(family int, want []link.Route) error {
	have, err := netlink.RouteListFiltered(family, &netlink.Route{Table: table}, netlink.RT_FILTER_TABLE)
	if len(want) == 0 && len(have) == 0 { // nor has a kernel without the family any
		return nil
	}
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	if err := ensureRule(family); err != nil {
		return err
	}
	missing := map[string]*netlink.Route{}
	for _, w := range want {
		r, err := newRoute(w)
		if err != nil {
			return err
		}
		missing[routeKey(r)] = r
	}
	for i := range have {
		if k := routeKey(&have[i]); missing[k] != nil {
			delete(missing, k)
		} else if err := netlink.RouteDel(&have[i]); err != nil {
			return fmt.Errorf("delete route %s: %w", k, err)
		}
	}
	for k, r := range missing {
		if err := netlink.RouteAdd(r); err != nil {
			return fmt.Errorf("route %s: %w", k, err)
		}
	}
	return nil
}

// routeKey names a route by all that Kosmos sets of one.
func routeKey(r *netlink.Route) string {
	return fmt.Sprintf("%v via %v dev %d", r.Dst, r.Gw, r.LinkIndex)
}

// newRoute is onlink where it has a gateway: that is behind the device though no route says
// so.
func newRoute(w link.Route) (*netlink.Route, error) {
	found, err := netlink.LinkByName(w.Dev)
	if err != nil {
		return nil, fmt.Errorf("route to %s: device %s: %w", w.CIDR, w.Dev, err)
	}
	_, to, err := net.ParseCIDR(w.CIDR)
	if err != nil {
		return nil, fmt.Errorf("route: %w", err)
	}
	r := &netlink.Route{LinkIndex: found.Attrs().Index, Dst: to, Table: table}
	if w.GW == "" { // all of the range is behind the device itself
		r.Scope = netlink.SCOPE_LINK
	} else {
		r.Gw, r.Flags = gatewayOf(w.GW), int(netlink.FLAG_ONLINK)
	}
	return r, nil
}

// gatewayOf is an address in as many bytes as its family has.
func gatewayOf(address string) net.IP {
	ip := net.ParseIP(address)
	if four := ip.To4(); four != nil {
		return four
	}
	return ip
}

func ensureRule(family int) error {
	rules, err := netlink.RuleList(family)
	if err != nil {
		return fmt.Errorf("list rules: %w", err)
	}
	for _, r := range rules {
		if r.Table == table {
			return nil
		}
	}
	rule := netlink.NewRule()
	rule.Table, rule.Priority, rule.Family = table, priority, family
	if err := netlink.RuleAdd(rule); err != nil {
		return fmt.Errorf("rule to table %d: %w", table, err)
	}
	return nil
}

// hostPrefix is the prefix of one address alone.
func hostPrefix(a netip.Addr) string { return netip.PrefixFrom(a, a.BitLen()).String() }
