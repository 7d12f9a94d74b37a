package network

import (
	"fmt"
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
		if err := tryRule(); err != nil {
			missing = append(missing, fmt.Sprintf("rules of nftables that masquerade (%v)", err))
		}
		if len(missing) > 0 {
			return fmt.Errorf("%w: it has no %s", ErrNetwork, strings.Join(missing, ", no "))
		}
		return nil
	})
}

// tryRule makes a rule that masquerades in the namespace that the thread is in.
func tryRule() error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	table := c.AddTable(&nftables.Table{Name: "try", Family: nftables.TableFamilyIPv4})
	chain := c.AddChain(&nftables.Chain{Name: "try", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource})
	c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Masq{}}})
	return c.Flush()
}
