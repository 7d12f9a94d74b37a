package member

import (
	"errors"

	"github.com/windtunnel/windtunnel/internal/sim/hollow"
)

// ServeHollow makes clusters of a group's names, at an address of this machine; empty:
// the loopback's. Close the server after use.
func ServeHollow(group HollowGroup, host string) (*hollow.Server, HollowReach, error) {
	server, err := hollow.New(hollow.Options{Host: host, Models: hollow.Models{
		Nodes: group.Nodes, Heartbeats: group.Heartbeats, Binder: group.Binder, ServiceAccounts: group.ServiceAccounts,
		Stages: group.Stages, StagesDir: group.Folder,
	}})
	if err != nil {
		return nil, HollowReach{}, err
	}
	reach, err := makeHollow(server, group.Names)
	if err != nil {
		return nil, HollowReach{}, errors.Join(err, server.Close())
	}
	return server, reach, nil
}

// makeHollow makes clusters of these names.
func makeHollow(server *hollow.Server, names []string) (reach HollowReach, err error) {
	control, err := server.Control()
	if err != nil {
		return reach, err
	}
	to := control.Config("")
	reach.Control, reach.ControlToken, reach.Addresses = to.Host, to.BearerToken, map[string]string{}
	for _, name := range names {
		c, err := server.Cluster(name)
		if err != nil {
			return reach, err
		}
		config := c.Endpoint().Config("")
		reach.CA, reach.Token, reach.Client = config.CAData, config.BearerToken, c.Client().Config("").BearerToken
		reach.Addresses[name] = c.Address()
	}
	return reach, nil
}
