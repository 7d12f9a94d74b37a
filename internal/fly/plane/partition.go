package plane

import (
	"errors"
	"fmt"
	"strings"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/plane/peers"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/scenario"
)

// checkPeerProxies finds flags of etcd that lead past the proxies between members.
func checkPeerProxies(cfg scenario.Plane, wanted bool) error {
	var faults []error
	for _, member := range cfg.Processes(component.Etcd) {
		for _, flagged := range []string{"initial-advertise-peer-urls", "initial-cluster"} {
			if value, ok := valueOf(cfg.SettingsOf(member).Flags, flagged); ok && wanted {
				faults = append(faults, fmt.Errorf("partition of etcd members: flag %s=%s of %s leads past the proxies between them", flagged, value, member))
			}
		}
	}
	return errors.Join(faults...)
}

// startPeerProxies joins the members of a plane's etcd.
func startPeerProxies(p *Plane, cfg scenario.Plane, s site, o Options) (*peers.Network, error) {
	return peers.Start(peers.Options{
		Members: cfg.Processes(component.Etcd), Clock: o.Clock, Seed: o.Seed,
		Listens: func(member string) string { return strings.TrimPrefix(s.serverURL(peerOf(member)), "https://") },
		Process: func(member string) int {
			c, _ := p.Component(member)
			return c.PID
		},
	})
}

// Partition cuts an etcd member from the other members: no byte passes between them. Its
// clients still reach it.
func (c Component) Partition() error { return c.changePartition(FaultPartition, (*peers.Network).Cut) }

// Join undoes Partition.
func (c Component) Join() error { return c.changePartition(FaultJoin, (*peers.Network).Join) }

func (c Component) changePartition(kind string, change func(*peers.Network, string)) error {
	return c.disturb(kind, func(*process.Process) (string, error) {
		network := c.supervisor.plane.peers
		if network == nil || !component.Is(c.Name, component.Etcd) {
			return "", fmt.Errorf("only members of an etcd that a run starts for a scenario with this fault can be cut from each other: %w", ErrNoFault)
		}
		change(network, c.Name)
		return "", nil
	})
}
