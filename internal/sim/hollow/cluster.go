package hollow

import (
	"fmt"
	"io"
	"net"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/backend"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/control"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/serve"
)

// Cluster is one hollow cluster. Its methods may be called from many goroutines.
type Cluster struct {
	Name string

	server   *Server
	address  string
	listener *tracked // nil at a shared port
	backend  *backend.Backend
	accounts *control.Accounts
	faults   *control.Faults
	http     *serve.Cluster
}

// Address returns where the cluster is: https://127.0.0.1:12345.
func (c *Cluster) Address() string { return c.address }

// Endpoint returns how to reach a cluster as a user that may do everything.
func (c *Cluster) Endpoint() endpoint.Endpoint {
	return endpoint.Bearer(c.address, c.server.ca, c.accounts.Admin())
}

// Client returns how to reach a cluster as a user that may do everything until
// Expire.
func (c *Cluster) Client() endpoint.Endpoint {
	return endpoint.Bearer(c.address, c.server.ca, c.accounts.Client())
}

// SetToken replaces the bearer token of Endpoint: requests with the former token are
// answered with 401, as when credentials expire.
func (c *Cluster) SetToken(token string) { c.accounts.SetAdmin(token) }

// Expire makes the credentials of Client expire: requests with them are answered with 401.
func (c *Cluster) Expire() { c.accounts.SetExpired(true) }

// Renew makes the credentials of Client valid again.
func (c *Cluster) Renew() { c.accounts.SetExpired(false) }

// Slow makes answers, but not watches, take so many times as long; 1: as long as they
// take.
func (c *Cluster) Slow(factor float64) { c.faults.SetFactor(factor) }

// Stop breaks all connections of a cluster and refuses new ones, as if its process
// had been killed. What it stores stays.
func (c *Cluster) Stop() {
	if c.faults.Stop() && c.listener != nil {
		c.listener.stopListening()
	}
}

// Start takes connections again, at the same address. The error says that another process
// has the port by now.
func (c *Cluster) Start() error {
	if !c.faults.IsDown() {
		return nil
	}
	if c.listener != nil {
		l, err := net.Listen("tcp", c.listener.address)
		if err != nil {
			return fmt.Errorf("listen for hollow cluster %s again: %w", c.Name, err)
		}
		c.serveAt(l)
	}
	c.faults.Start()
	return nil
}

// Compact forgets all events: watches and lists from before now are refused with
// 410, and clients that watch must list again.
func (c *Cluster) Compact() { c.backend.Registry().Store().Compact() }

// State is what a cluster stored at some time.
type State = registry.State

// Copy returns what a cluster stores now. Tables are copied one after another.
func (c *Cluster) Copy() State { return c.backend.Registry().Copy() }

// Restore gives a cluster what it had stored. Versions go on, as after a restored
// snapshot of etcd whose revision was bumped: watches see what changes.
func (c *Cluster) Restore(then State) { c.backend.Restore(then) }

// Save writes all objects of a cluster: as kubectl's List in JSON, or with documents
// set as one document of YAML each, as kwok's snapshots are.
func (c *Cluster) Save(w io.Writer, documents bool) error {
	return control.Save(w, c.backend.Registry(), documents)
}

// Load stores objects as they stand in a List, or in documents of JSON or YAML: with
// their status, and with their uids and times where they have them. An object that
// is there is replaced. Nothing is stored of what cannot be read; the error joins
// all faults. It returns how many objects were loaded.
func (c *Cluster) Load(r io.Reader) (int, error) { return control.Load(r, c.backend) }
