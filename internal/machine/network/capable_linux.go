package network

import (
	"fmt"
	"net"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
)

// Try makes a namespace with what networks between namespaces are built of: a device of
// each kind (veth, bridge, VXLAN, tun) and a rule that masquerades, and lets go of it. Its
// error names what this process may not do or this kernel does not have.
func Try() error {
	held, err := NewNamespace()
	if err != nil {
		return err
	}
	defer held.Close()
	return held.Namespace().Do(func() error {
		var missing []string
		for _, make := range []func(netlink.LinkAttrs) netlink.Link{
			func(a netlink.LinkAttrs) netlink.Link { return &netlink.Veth{LinkAttrs: a, PeerName: "peer"} },
			func(a netlink.LinkAttrs) netlink.Link { return &netlink.Bridge{LinkAttrs: a} },
			func(a netlink.LinkAttrs) netlink.Link { return &netlink.Vxlan{LinkAttrs: a, VxlanId: 1, Port: 4789} },
			func(a netlink.LinkAttrs) netlink.Link {
				return &netlink.Tuntap{LinkAttrs: a, Mode: netlink.TUNTAP_MODE_TUN}
			},
		} {
			attrs := netlink.NewLinkAttrs()
			attrs.Name = "try"
			device := make(attrs)
			if err := netlink.LinkAdd(device); err != nil {
				missing = append(missing, fmt.Sprintf("%s (%v)", device.Type(), err))
				continue
			}
			if err := netlink.LinkDel(device); err != nil {
				return fmt.Errorf("%w: delete a device: %w", ErrNetwork, err)
			}
		}
		if err := tryRule(nftables.TableFamilyIPv4); err != nil {
			missing = append(missing, fmt.Sprintf("rules of nftables that masquerade (%v)", err))
		}
		if len(missing) > 0 {
			return fmt.Errorf("%w: it has no %s", ErrNetwork, strings.Join(missing, ", no "))
		}
		return nil
	})
}

// TryIPv6 does the same for networks of IPv6: an address, a VXLAN device whose packets go by
// IPv6, and a rule that masquerades.
func TryIPv6() error {
	held, err := NewNamespace()
	if err != nil {
		return err
	}
	defer held.Close()
	return held.Namespace().Do(func() error {
		if err := trySix(); err != nil {
			return fmt.Errorf("%w: no IPv6: %w", ErrNetwork, err)
		}
		return nil
	})
}

// trySix builds a device of IPv6 in the namespace that the thread is in.
func trySix() error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "try"
	device := &netlink.Vxlan{LinkAttrs: attrs, VxlanId: 1, Port: 4789, Group: net.IPv6zero}
	if err := netlink.LinkAdd(device); err != nil {
		return fmt.Errorf("vxlan by IPv6: %w", err)
	}
	a, err := netlink.ParseAddr("fd00::1/64")
	if err == nil {
		err = netlink.AddrAdd(device, a)
	}
	if err == nil {
		err = netlink.LinkSetUp(device) // which opens its socket
	}
	if err != nil {
		return fmt.Errorf("address: %w", err)
	}
	if err := tryRule(nftables.TableFamilyIPv6); err != nil {
		return fmt.Errorf("rules of nftables that masquerade: %w", err)
	}
	return nil
}

// tryRule makes a rule that masquerades in the namespace that the thread is in.
func tryRule(family nftables.TableFamily) error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	table := c.AddTable(&nftables.Table{Name: "try", Family: family})
	chain := c.AddChain(&nftables.Chain{Name: "try", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource})
	c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Masq{}}})
	return c.Flush()
}
