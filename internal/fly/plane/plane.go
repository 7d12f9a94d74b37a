// Package plane starts and stops a control plane (etcd, kube-apiserver,
// kube-scheduler and kube-controller-manager) as child processes, or attaches
// to one that exists, and says how to reach it, as whom, and what it is.
//
// It sends no load, reads no metrics and judges nothing. What leaves the defaults
// of a stock cluster stands in differences_test.go, which holds it true.
package plane

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/plane/peers"
	"github.com/windtunnel/windtunnel/internal/fly/plane/proxy"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/record"
)

// The identities at a plane that Start has started.
const (
	Admin   = "admin"   // system:masters: set-up, and the user's own kubectl
	Load    = "load"    // user windtunnel:load: cluster-admin by RBAC, queued by API priority and fairness as a tenant is
	Fleet   = "fleet"   // user windtunnel:fleet in system:nodes: queued as kubelets are
	Observe = "observe" // system:masters, thus never queued: the instrument must not wait behind what it measures
)

// Client is the identity at members of what is tested: the user in the kubeconfig of each.
// It and Load are those whose credentials a fault can let expire.
const Client = "client"

// Death says that a component ended that nobody had asked to.
type Death struct {
	Component string
	Member    bool  // a member's API server: the others live on
	Err       error // *process.DeathError: how, and the last log lines
}

// Plane is a control plane that can be flown.
type Plane struct {
	// Issue makes the certificate of a user with groups; nil where windtunnel does not have the
	// plane's authority.
	Issue func(user string, groups []string) (tls.Certificate, error)

	executable string                       // see Options; empty: this one
	kubeconfig string                       // that it was reached by
	identify   identifier                   // of the users of programs; nil where windtunnel made no certificates
	scrapes    map[string]endpoint.Endpoint // by component
	facts      record.PlaneFacts
	versions   map[string]string
	reaper     *process.Reaper
	group      *process.Group // of all components; nil: they share no limits
	log        *slog.Logger
	clock      clock.Clock
	onFault    func(FaultEvent)
	died       chan Death
	watchers   guard.Group
	closing    sync.Once
	closeErr   error

	mu         sync.Mutex
	components []Component                  // as they were started
	endpoints  map[string]endpoint.Endpoint // by who uses them
	proxies    map[string]*proxy.Proxy      // by whose they are
	balancer   *balancer                    // nil: there is one API server
	peers      *peers.Network               // between etcd members; nil: none was asked for
	warnings   []string

	withoutLimits []Unlimited
	ended         bool
}

// Endpoint returns the address and the identity who: Admin, Load, Fleet or
// Observe. With a kubeconfig they are all the kubeconfig's user. Where there is
// a proxy for who, the address is the proxy's.
func (p *Plane) Endpoint(who string) endpoint.Endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.endpoints[who]
}

// Components returns what can be scraped and, if windtunnel started it, limited
// and hurt, as it is now: a restart changes the PID. Of a plane reached by
// kubeconfig it is the API server alone. Programs come last.
func (p *Plane) Components() []Component {
	out := p.listComponents()
	for i, c := range out {
		out[i] = c.current()
	}
	return out
}

// Component returns one component by name, as it is now.
func (p *Plane) Component(name string) (Component, bool) {
	for _, c := range p.listComponents() {
		if c.Name == name {
			return c.current(), true
		}
	}
	return Component{}, false
}

// listComponents returns the components as they were started.
func (p *Plane) listComponents() []Component {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.components)
}

// Facts says what plane this is, for the manifest.
func (p *Plane) Facts() record.PlaneFacts { return p.facts }

// Cgroups returns the folder, by controller, of the control group that all components
// are in; none where they share no limits.
func (p *Plane) Cgroups() map[string]string { return p.group.Cgroups() }

// Versions returns the versions of kubernetes and etcd, as linked or as the
// programs or the server report them; with binaries also by component where
// they differ from kubernetes.
func (p *Plane) Versions() map[string]string { return maps.Clone(p.versions) }

// Warnings says what is not as it was asked for, a line each.
func (p *Plane) Warnings() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.warnings)
}

// Died reports components that ended by themselves, not those that a fault has
// ended. It is never closed.
func (p *Plane) Died() <-chan Death { return p.died }

// How long each component gets to end by itself. All data are thrown away, so
// nothing is lost by killing one; kube-apiserver would take up to a minute.
const (
	graceClients   = time.Second // scheduler and controller-manager
	graceAPIServer = 2 * time.Second
	graceEtcd      = time.Second
)

// Close stops what was started and removes every process, control group and
// folder of it, within some 5 seconds. It is idempotent; a second caller waits
// for the first. Of a plane reached by kubeconfig only its proxies end.
func (p *Plane) Close() error {
	p.closing.Do(func() { p.closeErr = p.close() })
	return p.closeErr
}

func (p *Plane) close() error {
	p.leaveSeats()
	p.EndPrograms()
	p.stopServers()
	p.stopComponents(graceClients, component.Scheduler, component.ControllerManager)
	p.balancer.stop()
	p.stopComponents(graceAPIServer, component.APIServer)
	p.stopComponents(graceEtcd, component.Etcd)
	p.watchers.Wait()
	var faults []error
	for _, s := range p.supervisors() {
		var death *process.DeathError
		if err := s.currentProcess().Err(); err != nil && !errors.As(err, &death) {
			faults = append(faults, err)
		}
	}
	faults = append(faults, p.closeProxies(), p.group.Close())
	if p.reaper != nil {
		faults = append(faults, p.reaper.Close())
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("close plane: %w", err)
	}
	return nil
}

// seats are the places of the components that windtunnel has started.
func (p *Plane) supervisors() (out []*supervisor) {
	for _, c := range p.listComponents() {
		if c.supervisor != nil {
			out = append(out, c.supervisor)
		}
	}
	return out
}

// leaveSeats sees to it that no restart, not even one that is under way, starts
// a process from now on.
func (p *Plane) leaveSeats() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	for _, s := range p.supervisors() {
		s.preventStarts()
	}
}

// stopComponents stops all processes of some components at once.
func (p *Plane) stopComponents(grace time.Duration, names ...string) {
	var all guard.Group
	for _, s := range p.supervisors() {
		of, _ := component.Of(s.spec.Name)
		if !s.guest && s.role == NoRole && slices.Contains(names, of) {
			all.Go(func() { s.currentProcess().Stop(grace) })
		}
	}
	all.Wait()
}
