package network

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// Device is what a network device of a namespace has counted since it was made.
type Device struct {
	Name, Kind                     string // Kind: veth, vxlan, bridge, device ...
	SentPackets, SentBytes         uint64
	ReceivedPackets, ReceivedBytes uint64
	SentDropped, ReceivedDropped   uint64
	SentErrors, ReceivedErrors     uint64
}

// Devices reads the counters of all devices of a namespace but its loopback.
func Devices(at Namespace) (out []Device, err error) {
	err = at.Do(func() error {
		links, err := netlink.LinkList()
		if err != nil {
			return fmt.Errorf("%w: list devices of %s: %w", ErrNetwork, at, err)
		}
		for _, l := range links {
			a := l.Attrs()
			if a.Statistics == nil || a.Name == "lo" {
				continue
			}
			s := a.Statistics
			out = append(out, Device{Name: a.Name, Kind: l.Type(),
				SentPackets: s.TxPackets, SentBytes: s.TxBytes, ReceivedPackets: s.RxPackets, ReceivedBytes: s.RxBytes,
				SentDropped: s.TxDropped, ReceivedDropped: s.RxDropped, SentErrors: s.TxErrors, ReceivedErrors: s.RxErrors})
		}
		return nil
	})
	return out, err
}
