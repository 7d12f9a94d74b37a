// Package vm is the VM plane, the first reference plane under test: KubeVirt's
// mechanisms as far as its published scale tests turn on them, with real
// controllers on a real API server. It says what the plane is made of (Options)
// and by which commands it is started (Commands).
//
// It starts nothing itself: package subject and people do. The processes are
// verbs of windtunnel: vm-webhook, vm-controller and vm-agent. What is modelled
// and what is real, docs/reproducing-kubevirt-density.md says.
package vm

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/subject/kit/limiter"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/planes/vm/agent"
)

// Options say what VM plane to run.
type Options struct {
	Limiter           limiter.Rate  `json:"limiter"`           // of the controller's client, QPS/BURST; default 200/400
	Threads           int           `json:"threads"`           // workers on instances; default 10
	OtherThreads      int           `json:"otherThreads"`      // workers on machines, migrations and nodes; default 3
	Shards            int           `json:"shards"`            // controllers that share the instances; default 1
	StatusSubresource bool          `json:"statusSubresource"` // instances have one; KubeVirt's have not
	DropNoopEvents    bool          `json:"dropNoopEvents"`    // the controller does not queue events that change nothing it looks at
	Events            bool          `json:"events"`            // event objects are written, at the cost of calls; default true
	OverheadRatio     float64       `json:"overheadRatio"`     // times the launcher's memory overhead; default 1
	QEMUTimeout       unit.Duration `json:"qemuTimeout"`       // the launcher gives up a machine that has not started by then; default 240s
	NodeTimeout       unit.Duration `json:"nodeTimeout"`       // a node without heartbeat for so long is unresponsive; default 5m
	Migrations        Migrations    `json:"migrations"`
	Webhook           Webhook       `json:"webhook"`
	Agents            Agents        `json:"agents"`
}

// Migrations bound migrations that run at the same time.
type Migrations struct {
	PerCluster int `json:"perCluster"` // default 5
	PerSource  int `json:"perSource"`  // from one node; default 2
}

// Webhook is the admission webhook.
type Webhook struct {
	Off        bool `json:"off"`        // the controller then sets first phase and finalizer
	CreateOnly bool `json:"createOnly"` // later writes do not pass through it
}

// Agents are the nodes' part.
type Agents struct {
	Processes  int           `json:"processes"`  // that share the nodes; default 1
	Limiter    limiter.Rate  `json:"limiter"`    // of each node's client; default 5/10, as virt-handler's before v1.7
	Threads    int           `json:"threads"`    // workers of each node; default 10
	Nodes      string        `json:"nodes"`      // label selector of the nodes that get one; default all
	Scope      string        `json:"scope"`      // node (default) or cluster: what each watches
	MaxDevices int           `json:"maxDevices"` // machines that fit on a node; default 1000
	Heartbeat  unit.Duration `json:"heartbeat"`  // default 60s, with jitter
	Hypervisor string        `json:"hypervisor"` // model (default) or qemu
	Model      Model         `json:"model"`
	Faults     Faults        `json:"faults"`
	Seed       uint64        `json:"seed"` // of the model's times and of the faults; default 1
}

// Model is how long things take on a simulated node: a declared model.
type Model struct {
	Concurrency int           `json:"concurrency"` // machines started or unmounted at the same time; default 6
	Start       unit.Duration `json:"start"`       // median; default 4s
	Spread      float64       `json:"spread"`      // sigma of the logarithm of every time; default 0.25
	Guest       unit.Duration `json:"guest"`       // median, until the guest says its addresses; default 5s
	Stop        unit.Duration `json:"stop"`        // median; default 2s
	Unmount     unit.Duration `json:"unmount"`     // of each attempt; default 200ms
	Bandwidth   int64         `json:"bandwidth"`   // of migrations, bytes per second; default 128 Mi
}

// Faults go wrong on purpose when machines are taken away.
type Faults struct {
	Selector     string        `json:"selector"`     // label selector of the instances concerned; default all
	UnmountShare float64       `json:"unmountShare"` // of them, those whose disks cannot be unmounted
	UnmountFor   unit.Duration `json:"unmountFor"`   // from the first attempt; default 5m
	UnmountTakes unit.Duration `json:"unmountTakes"` // each failing attempt holds a turn for so long; default 5s
	StuckShare   float64       `json:"stuckShare"`   // of them, those whose finalizer stays
	StuckFor     unit.Duration `json:"stuckFor"`     // default 5m
}

// Default returns a plane as KubeVirt was after the published scale test: the
// controller's limit 200/400, the agents' 5/10.
func Default() Options {
	m := agent.DefaultModel()
	return Options{
		Limiter: limiter.Rate{QPS: 200, Burst: 400}, Threads: 10, OtherThreads: 3, Shards: 1, Events: true, OverheadRatio: 1,
		QEMUTimeout: unit.Duration(240 * time.Second), NodeTimeout: unit.Duration(5 * time.Minute),
		Migrations: Migrations{PerCluster: 5, PerSource: 2},
		Agents: Agents{
			Processes: 1, Limiter: limiter.Rate{QPS: 5, Burst: 10}, Threads: 10, Scope: agent.ScopeNode, MaxDevices: 1000,
			Heartbeat: unit.Duration(time.Minute), Hypervisor: agent.HypervisorModel, Seed: 1,
			Model: Model{
				Concurrency: m.Concurrency, Start: unit.Duration(m.Start), Spread: m.Spread, Guest: unit.Duration(m.Guest),
				Stop: unit.Duration(m.Stop), Unmount: unit.Duration(m.Unmount), Bandwidth: m.Bandwidth,
			},
			Faults: Faults{UnmountFor: unit.Duration(5 * time.Minute), UnmountTakes: unit.Duration(5 * time.Second), StuckFor: unit.Duration(5 * time.Minute)},
		},
	}
}

// Parse reads options, YAML or JSON, over the defaults. An unknown field is a fault.
func Parse(text []byte) (Options, error) {
	o := Default()
	if err := yaml.UnmarshalStrict(text, &o); err != nil {
		return o, fmt.Errorf("vm: %w", err)
	}
	return o, o.Validate()
}

// Validate joins all that is wrong.
func (o *Options) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("vm: "+format, args...))
		}
	}
	check(o.Threads > 0, "threads %d: want at least 1", o.Threads)
	check(o.OtherThreads > 0, "otherThreads %d: want at least 1", o.OtherThreads)
	check(o.Shards > 0 && o.Shards <= 64, "shards %d: want 1 to 64", o.Shards)
	check(o.OverheadRatio > 0, "overheadRatio %g: want more than 0", o.OverheadRatio)
	check(o.QEMUTimeout >= 0, "qemuTimeout is negative")
	check(o.NodeTimeout > 0, "nodeTimeout: want more than 0")
	check(o.Migrations.PerCluster > 0 && o.Migrations.PerSource > 0, "migrations: want at least 1 of each")
	a := &o.Agents
	check(a.Processes > 0 && a.Processes <= 64, "agents.processes %d: want 1 to 64", a.Processes)
	check(a.Threads > 0, "agents.threads %d: want at least 1", a.Threads)
	check(a.MaxDevices > 0, "agents.maxDevices %d: want at least 1", a.MaxDevices)
	check(a.Heartbeat > 0, "agents.heartbeat: want more than 0")
	check(slices.Contains([]string{agent.ScopeNode, agent.ScopeCluster}, a.Scope), "agents.scope %q: want node or cluster", a.Scope)
	check(slices.Contains([]string{agent.HypervisorModel, agent.HypervisorQEMU}, a.Hypervisor), "agents.hypervisor %q: want model or qemu", a.Hypervisor)
	for _, err := range []error{o.Limiter.Validate(), a.Limiter.Validate(), a.Model.as().Validate(), a.Faults.as().Validate()} {
		if err != nil {
			faults = append(faults, fmt.Errorf("vm: %w", err))
		}
	}
	return errors.Join(faults...)
}

func (m Model) as() agent.Model {
	return agent.Model{
		Concurrency: m.Concurrency, Start: time.Duration(m.Start), Spread: m.Spread, Guest: time.Duration(m.Guest),
		Stop: time.Duration(m.Stop), Unmount: time.Duration(m.Unmount), Bandwidth: m.Bandwidth,
	}
}

func (f Faults) as() agent.Faults {
	return agent.Faults{
		Selector: f.Selector, UnmountShare: f.UnmountShare, UnmountFor: time.Duration(f.UnmountFor), UnmountTakes: time.Duration(f.UnmountTakes),
		StuckShare: f.StuckShare, StuckFor: time.Duration(f.StuckFor),
	}
}

// Command is one process of the plane.
type Command struct {
	Name   string   // unique: vm-webhook, vm-controller, vm-agent, or with a number where there are several
	Args   []string // of the windtunnel program, the verb first
	Listen string   // host:port of /metrics, /healthz and /readyz
}

// Processes returns how many processes the plane has, each of which needs an
// address for its metrics.
func (o *Options) Processes() int {
	n := o.Shards + o.Agents.Processes
	if !o.Webhook.Off {
		n++
	}
	return n
}

// Commands returns the processes in the order in which they are to be started:
// each should answer /readyz before the next. listen holds an address of this
// host for each of Processes.
func (o *Options) Commands(kubeconfig string, listen []string) ([]Command, error) {
	if len(listen) < o.Processes() {
		return nil, fmt.Errorf("vm: %d addresses for %d processes", len(listen), o.Processes())
	}
	var out []Command
	add := func(verb string, k, of int, flags []string) {
		c := Command{Name: verb, Listen: listen[len(out)]}
		c.Args = append([]string{verb, "--kubeconfig", kubeconfig, "--listen", c.Listen}, flags...)
		if of > 1 {
			c.Name += "-" + strconv.Itoa(k)
			c.Args = append(c.Args, "--shard", strconv.Itoa(k)+"/"+strconv.Itoa(of))
		}
		out = append(out, c)
	}
	for k := range o.Shards {
		add("vm-controller", k+1, o.Shards, o.controllerFlags())
	}
	if !o.Webhook.Off {
		add("vm-webhook", 1, 1, []string{"--create-only=" + strconv.FormatBool(o.Webhook.CreateOnly)})
	}
	for k := range o.Agents.Processes {
		add("vm-agent", k+1, o.Agents.Processes, o.agentFlags())
	}
	return out, nil
}

func (o *Options) controllerFlags() []string {
	return []string{
		"--limiter", o.Limiter.String(), "--threads", strconv.Itoa(o.Threads), "--other-threads", strconv.Itoa(o.OtherThreads),
		"--status-subresource=" + strconv.FormatBool(o.StatusSubresource), "--drop-noop-events=" + strconv.FormatBool(o.DropNoopEvents),
		"--events=" + strconv.FormatBool(o.Events), "--overhead-ratio", number(o.OverheadRatio), "--qemu-timeout", text(o.QEMUTimeout),
		"--node-timeout", text(o.NodeTimeout), "--migrations-per-cluster", strconv.Itoa(o.Migrations.PerCluster),
		"--migrations-per-source", strconv.Itoa(o.Migrations.PerSource),
	}
}

func (o *Options) agentFlags() []string {
	a := &o.Agents
	return []string{
		"--limiter", a.Limiter.String(), "--threads", strconv.Itoa(a.Threads), "--nodes", a.Nodes, "--scope", a.Scope,
		"--max-devices", strconv.Itoa(a.MaxDevices), "--heartbeat", text(a.Heartbeat), "--hypervisor", a.Hypervisor,
		"--status-subresource=" + strconv.FormatBool(o.StatusSubresource), "--events=" + strconv.FormatBool(o.Events),
		"--qemu-timeout", text(o.QEMUTimeout), "--seed", strconv.FormatUint(a.Seed, 10),
		"--concurrency", strconv.Itoa(a.Model.Concurrency), "--start", text(a.Model.Start), "--spread", number(a.Model.Spread),
		"--guest", text(a.Model.Guest), "--stop", text(a.Model.Stop), "--unmount", text(a.Model.Unmount),
		"--bandwidth", strconv.FormatInt(a.Model.Bandwidth, 10),
		"--fault-selector", a.Faults.Selector, "--unmount-failures", number(a.Faults.UnmountShare), "--unmount-fails-for", text(a.Faults.UnmountFor),
		"--unmount-failure-takes", text(a.Faults.UnmountTakes), "--stuck-finalizers", number(a.Faults.StuckShare), "--stuck-for", text(a.Faults.StuckFor),
	}
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

func text(d unit.Duration) string { return time.Duration(d).String() }
