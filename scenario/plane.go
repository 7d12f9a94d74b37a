package scenario

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Plane describes the control plane.
type Plane struct {
	Durability string               `yaml:"durability"` // "memory" (default: no fsync, tmpfs where there is room) or "fsync"
	Release    string               `yaml:"release"`    // Kubernetes release, such as v1.36.3, built by "windtunnel plane build"; default: that of kube-plane beside windtunnel
	Etcd       string               `yaml:"etcd"`       // etcd release, such as v3.6.12 (default: that of "windtunnel plane build" for the release); a whole number sets etcdMembers
	Binaries   string               `yaml:"binaries"`   // folder with your own etcd, kube-apiserver, kube-scheduler and kube-controller-manager; relative to the file
	Limits     Limits               `yaml:"limits"`     // limits of all components together, by a control group; only on a plane that windtunnel starts
	Components map[string]Component `yaml:"components"` // by name: etcd, kube-apiserver, kube-scheduler, kube-controller-manager; etcd-0 is one of several members, and its settings are added to those of etcd

	EtcdMembers        int      `yaml:"etcdMembers"`        // number of etcd members, default 1; several are called etcd-0, etcd-1 ... and have the stock heartbeats and election timeouts
	APIServers         int      `yaml:"apiservers"`         // number of API servers, default 1; several are called kube-apiserver-0 ..., behind a balancer
	Schedulers         int      `yaml:"schedulers"`         // number of schedulers, default 1; several elect a leader, and one that exits is started again
	ControllerManagers int      `yaml:"controllerManagers"` // number of controller managers, default 1; several elect a leader, and one that exits is started again
	Balancer           Balancer `yaml:"balancer"`           // spreads the connections of all clients over several API servers

	Audit bool `yaml:"audit"` // counts the requests of each client of the plane, by verb and resource, from the API server's audit log; default false

	AllowUnsupportedSkew bool `yaml:"allowUnsupportedSkew"` // every upgrade step also does what the version skew policy does not allow, as with --allow-unsupported-skew; default false
}

// Balancer is a TCP load balancer: each new connection goes to the next API server that is
// ready. Connections that exist stay where they are.
type Balancer struct {
	Interval unit.Duration `yaml:"interval"` // time between requests to /readyz of each API server, and their timeout; default 1s
	Failures int           `yaml:"failures"` // failed requests in a row after which an API server gets no new connections, default 1
}

// Component changes one component of the plane.
type Component struct {
	Flags  map[string]string `yaml:"flags"`  // without dashes; they override windtunnel's own
	Env    map[string]string `yaml:"env"`    // such as GOGC
	CPU    float64           `yaml:"cpu"`    // cores, 0 = no limit
	Memory unit.Bytes        `yaml:"memory"` // 0 = no limit
}

func (p *Plane) setDefaults() {
	p.Durability = "memory"
	p.EtcdMembers, p.APIServers, p.Schedulers, p.ControllerManagers = 1, 1, 1, 1
	p.Balancer = defaultBalancer()
}

// readMembers takes a number of members that stands in the place of a release, and returns
// the path of that number. One that cannot be is left there, for checkReleases.
func (p *Plane) readMembers() string {
	if n, err := strconv.Atoi(p.Etcd); err == nil && n >= 1 && n <= maxInstances && (p.EtcdMembers == 1 || p.EtcdMembers == n) {
		p.EtcdMembers, p.Etcd = n, ""
		return "plane.etcd"
	}
	return "plane.etcdMembers"
}

func (b *Balancer) setDefaults() { *b = defaultBalancer() }

func defaultBalancer() Balancer { return Balancer{Interval: unit.Duration(time.Second), Failures: 1} }

// Components returns the names of a plane's components.
func Components() []string { return component.Names() }

// Count returns how many processes a component has.
func (p Plane) Count(name string) int {
	return min(maxInstances, max(1, map[string]int{
		component.Etcd: p.EtcdMembers, component.APIServer: p.APIServers,
		component.Scheduler: p.Schedulers, component.ControllerManager: p.ControllerManagers,
	}[name]))
}

// Processes returns the names of the processes of some components; none means all.
func (p Plane) Processes(of ...string) (out []string) {
	if len(of) == 0 {
		of = component.Names()
	}
	for _, name := range of {
		out = append(out, component.Instances(name, p.Count(name))...)
	}
	return out
}

// leaders are the names of those that lead several processes of a component.
func (p Plane) leaders() (out []string) {
	for _, name := range Components() {
		if name != component.APIServer && p.Count(name) > 1 {
			out = append(out, component.Leader(name))
		}
	}
	return out
}

// SettingsOf returns the settings of a process: those of its component, and over them its own.
func (p Plane) SettingsOf(process string) Component {
	name, _ := component.Of(process)
	out := p.Components[name]
	if process == name {
		return out
	}
	own := p.Components[process]
	out.Flags, out.Env = merged(out.Flags, own.Flags), merged(out.Env, own.Env)
	if own.CPU > 0 {
		out.CPU = own.CPU
	}
	if own.Memory > 0 {
		out.Memory = own.Memory
	}
	return out
}

func merged(all, own map[string]string) map[string]string {
	if len(own) == 0 {
		return all
	}
	out := maps.Clone(own)
	for name, value := range all {
		if _, set := out[name]; !set {
			out[name] = value
		}
	}
	return out
}

// namesOfComponents are the names that plane.components may have.
func (p Plane) namesOfComponents() []string {
	out := slices.Clone(Components())
	for _, name := range p.Processes() {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}
