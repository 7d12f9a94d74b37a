package network

import (
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
)

// Try makes a namespace with a device of each kind that networks between namespaces are
// built of (veth, bridge, VXLAN), and lets go of it. Its error names what this process
// may not do or this kernel does not have.
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
		if len(missing) > 0 {
			return fmt.Errorf("%w: no devices of the kinds %s", ErrNetwork, strings.Join(missing, ", "))
		}
		return nil
	})
}
