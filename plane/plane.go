// Package plane starts and stops a control plane (etcd, kube-apiserver,
// kube-scheduler and kube-controller-manager) as child processes, or attaches
// to one that exists, and says how to reach it, as whom, and what it is.
//
// It sends no load, reads no metrics and judges nothing. Package experiment and
// the verb `up` call it. What leaves the defaults of a stock cluster is listed
// by Differences.
package plane

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/clock"
	"github.com/windtunnel/windtunnel/endpoint"
	"github.com/windtunnel/windtunnel/plane/component"
	"github.com/windtunnel/windtunnel/plane/process"
	"github.com/windtunnel/windtunnel/record"
)

// The identities at a plane that Start has started.
const (
	Admin   = "admin"   // system:masters: set-up, and the user's own kubectl
	Load    = "load"    // user windtunnel:load: cluster-admin by RBAC, queued by API priority and fairness as a tenant is
	Fleet   = "fleet"   // user windtunnel:fleet in system:nodes: queued as kubelets are
	Observe = "observe" // system:masters, thus never queued: the instrument must not wait behind what it measures
)

// Death says that a component ended that nobody had asked to.
type Death struct {
	Component string
	Err       error // *process.DeathError: how, and the last log lines
}

// Component is one process of the plane.
type Component struct {
	Name        string
	PID         int               // 0: not a process of windtunnel's
	MetricsURL  string            // https://127.0.0.1:PORT/metrics
	Scrape      endpoint.Endpoint // its Client may get MetricsURL
	LogFile     string
	CPULimit    float64           // cores asked for; 0 = none
	MemoryLimit uint64            // bytes asked for; 0 = none
	Limited     bool              // the limits above are in force
	Cgroups     map[string]string // folder by controller (cpu, memory); empty without limits
	process     *process.Process
}

// Kill ends the component with SIGKILL; no Death is reported.
func (c Component) Kill() error {
	if c.process == nil {
		return fmt.Errorf("kill %s: %w", c.Name, ErrNotOurs)
	}
	c.process.Kill()
	return nil
}

// Pause holds the component where it is, as a machine that hangs would.
func (c Component) Pause() error {
	if c.process == nil {
		return fmt.Errorf("pause %s: %w", c.Name, ErrNotOurs)
	}
	return c.process.Pause()
}

// Continue lets a paused component go on.
func (c Component) Continue() error {
	if c.process == nil {
		return fmt.Errorf("continue %s: %w", c.Name, ErrNotOurs)
	}
	return c.process.Continue()
}

// Plane is a control plane that can be flown.
type Plane struct {
	endpoints  map[string]endpoint.Endpoint
	components []Component
	scrapes    map[string]endpoint.Endpoint // by component
	facts      record.PlaneFacts
	versions   map[string]string
	warnings   []string
	keeper     *process.Keeper
	log        *slog.Logger
	clock      clock.Clock
	died       chan Death
	watchers   sync.WaitGroup
	closing    sync.Once
	closeErr   error
}

// Endpoint returns the address and the identity who: Admin, Load, Fleet or
// Observe. With a kubeconfig they are all the kubeconfig's user.
func (p *Plane) Endpoint(who string) endpoint.Endpoint { return p.endpoints[who] }

// Components returns what can be scraped and, if windtunnel started it, limited
// and hurt. Of a plane reached by kubeconfig it is the API server alone.
func (p *Plane) Components() []Component { return slices.Clone(p.components) }

// Component returns one component by name.
func (p *Plane) Component(name string) (Component, bool) {
	for _, c := range p.components {
		if c.Name == name {
			return c, true
		}
	}
	return Component{}, false
}

// Facts says what plane this is, for the manifest.
func (p *Plane) Facts() record.PlaneFacts { return p.facts }

// Versions returns the versions of kubernetes and etcd, as linked or as the
// programs or the server report them; with binaries also by component where
// they differ from kubernetes.
func (p *Plane) Versions() map[string]string { return maps.Clone(p.versions) }

// Warnings says what is not as it was asked for, a line each.
func (p *Plane) Warnings() []string { return slices.Clone(p.warnings) }

// Died reports components that ended by themselves. It is never closed.
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
// for the first. On a plane reached by kubeconfig it does nothing.
func (p *Plane) Close() error {
	p.closing.Do(func() { p.closeErr = p.close() })
	return p.closeErr
}

func (p *Plane) close() error {
	var clients sync.WaitGroup
	for _, name := range []string{component.Scheduler, component.ControllerManager} {
		clients.Go(func() { p.stop(name, graceClients) })
	}
	clients.Wait()
	p.stop(component.APIServer, graceAPIServer)
	p.stop(component.Etcd, graceEtcd)
	p.watchers.Wait()
	var faults []error
	for _, c := range p.components {
		if c.process == nil {
			continue
		}
		var death *process.DeathError
		if err := c.process.Err(); err != nil && !errors.As(err, &death) {
			faults = append(faults, err)
		}
	}
	if p.keeper != nil {
		faults = append(faults, p.keeper.Close())
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("close plane: %w", err)
	}
	return nil
}

func (p *Plane) stop(name string, grace time.Duration) {
	if c, ok := p.Component(name); ok && c.process != nil {
		c.process.Stop(grace)
	}
}

// Abort kills every component at once. A Close that is under way then ends in a
// moment, and one is needed all the same: for a second Ctrl-C.
func (p *Plane) Abort() {
	var all sync.WaitGroup
	for _, c := range p.components {
		if c.process != nil {
			all.Go(c.process.Kill)
		}
	}
	all.Wait()
}
