package plane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/plane/release"
	"github.com/windtunnel/windtunnel/internal/machine/pki"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/scenario"
)

// Options say where a plane is started.
type Options struct {
	LogDir     string       // gets NAME.log of each component
	Executable string       // the tool, which holds the reaper and has the components beside it; default: this one
	Log        *slog.Logger // default: none
	Clock      clock.Clock  // of the run; default: a new one
	BaseDir    string       // the scenario file's folder: relative paths in the scenario and in flags begin here
	// Proxies names those whose connections lead through a proxy of the plane's:
	// kube-scheduler, kube-controller-manager, Admin, Load, Fleet and Observe on
	// their way to kube-apiserver, and etcd for kube-apiserver's way to it. A
	// proxy changes nothing until a link is set; it costs some CPU of windtunnel.
	Proxies []string
	// TerminateTLS lets the proxies see single calls: AnswerFactor is then right
	// for calls that share a connection (proxy.TLS). It costs more CPU.
	TerminateTLS bool
	// PeerProxies leads the connections between several etcd members through proxies, so that a
	// member can be cut from the others.
	PeerProxies bool
	Seed        uint64           // of the proxies' jitter
	Rights      []Right          // Attach: what the user must be allowed to do
	OnFault     func(FaultEvent) // called with each fault that was made; from the caller's goroutine
}

// attempts is how often a start is tried when somebody else takes a port
// between its choice and its use.
const attempts = 3

// Start starts a plane and returns when pods can be created in it. Ended ctx
// or any fault leaves nothing behind; later, ctx means nothing to the plane.
//
// A component that dies on the way is named with its last log lines
// (*process.DeathError). Other errors: release.ErrAbsent, ErrPortTaken,
// ErrNoSpace.
func Start(ctx context.Context, cfg scenario.Plane, o Options) (*Plane, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	if cfg.Durability == "" {
		cfg.Durability = durabilityMemory
	}
	if err := errors.Join(checkPlane(cfg), checkProxies(cfg, o.Proxies), checkPeerProxies(cfg, o.PeerProxies)); err != nil {
		return nil, fmt.Errorf("start plane: %w", err)
	}
	run, err := findPrograms(ctx, cfg, o)
	if err != nil {
		return nil, fmt.Errorf("start plane: %w", err)
	}
	begin := o.Clock.Now()
	if removed, err := process.Sweep(baseFolders()...); err != nil || len(removed) > 0 {
		o.Log.Warn("removed what a killed run had left", "folders", removed, "error", err)
	}
	for try := 1; ; try++ {
		p := &Plane{
			died: make(chan Death, roomForDeaths), versions: run.versions, log: o.Log, clock: o.Clock, onFault: o.OnFault,
			executable: o.Executable,
		}
		err := p.startComponents(ctx, cfg, run, o)
		if err == nil {
			p.facts.Ready = o.Clock.Now().Sub(begin).Seconds()
			return p, nil
		}
		err = errors.Join(fmt.Errorf("start plane: %w", err), p.Close())
		if try == attempts || !lostPort(err) || ctx.Err() != nil {
			return nil, err
		}
		o.Log.Warn("a port was taken by somebody else, trying again with others", "attempt", try)
	}
}

// WithDefaults fills in what is left out, and makes paths absolute.
func (o Options) WithDefaults() (Options, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == (clock.Clock{}) {
		o.Clock = clock.Start()
	}
	var err error
	if o.BaseDir, err = filepath.Abs(o.BaseDir); err != nil {
		return o, fmt.Errorf("start plane: %w", err)
	}
	if o.LogDir != "" {
		if o.LogDir, err = filepath.Abs(o.LogDir); err != nil {
			return o, fmt.Errorf("start plane: %w", err)
		}
		if err := os.MkdirAll(o.LogDir, 0o700); err != nil {
			return o, fmt.Errorf("start plane: %w", err)
		}
	}
	if o.Executable != "" {
		if o.Executable, err = filepath.Abs(o.Executable); err != nil {
			return o, fmt.Errorf("start plane: %w", err)
		}
	}
	return o, nil
}

// checkPlane finds what no start can mend.
func checkPlane(cfg scenario.Plane) error {
	var faults []error
	if cfg.Durability != durabilityMemory && cfg.Durability != durabilityFsync {
		faults = append(faults, fmt.Errorf("durability %q is neither memory nor fsync", cfg.Durability))
	}
	known := slices.Concat(component.Names(), cfg.Processes())
	for _, name := range slices.Sorted(maps.Keys(cfg.Components)) {
		if !slices.Contains(known, name) {
			faults = append(faults, fmt.Errorf("component %q is none of %s", name, strings.Join(known, ", ")))
		}
	}
	return errors.Join(faults...)
}

// startComponents starts the components and waits until the plane is ready. On an error
// the caller closes p.
func (p *Plane) startComponents(ctx context.Context, cfg scenario.Plane, run programs, o Options) error {
	place, warning, err := chooseFolder(cfg.Durability, dataFolders())
	if err != nil {
		return err
	}
	p.addWarning(warning)
	ports, err := choosePorts(cfg)
	if err != nil {
		return err
	}
	if p.reaper, err = process.StartReaper(run.reaper, place.base); err != nil {
		return err
	}
	s := site{
		folder: p.reaper.Dir(), ports: ports, fsync: cfg.Durability == durabilityFsync, counts: cfg,
		quota: quotaFor(place) / uint64(cfg.Count(component.Etcd)), etcd36: atLeast(run.versions[component.Etcd], 3, 6),
	}
	if o.PeerProxies && s.several(component.Etcd) {
		if p.peers, err = startPeerProxies(p, cfg, s, o); err != nil {
			return err
		}
		s.peers = p.peers
	}
	if s.several(component.APIServer) {
		if p.balancer, err = newBalancer(p, cfg, s, o); err != nil {
			return err
		}
		p.KeepProxy(balancerName, p.balancer.proxy)
		s.front = "https://" + p.balancer.proxy.Addr()
	}
	if err := p.makeCertificates(&s, o); err != nil {
		return err
	}
	if cfg.Components = maps.Clone(cfg.Components); cfg.Components != nil {
		for _, process := range cfg.Processes(component.Scheduler) {
			if cfg.Components[process], err = withConnection(process, cfg.SettingsOf(process), s, o.BaseDir); err != nil {
				return err
			}
		}
	}
	p.facts = record.PlaneFacts{Kind: run.kind, Durability: cfg.Durability, DataOn: dataOn(cfg, s), Build: buildFact(run.release)}
	if err := s.writeAuditPolicy(); err != nil {
		return err
	}
	p.makeCgroup(cfg.Limits)
	return flight{p, cfg, run, o, s}.bringUp(ctx)
}

// makeCertificates makes all certificates, the proxies, the identities and the
// kubeconfigs.
func (p *Plane) makeCertificates(s *site, o Options) error {
	folder, err := pki.NewFolder(filepath.Join(s.folder, "pki"))
	if err != nil {
		return err
	}
	s.pki = folder
	now := o.Clock.Wall(o.Clock.Now())
	a, err := newAuthorities(now)
	if err != nil {
		return err
	}
	clients, err := a.newClients(now)
	if err != nil {
		return err
	}
	if s.proxies, err = p.startProxies(*s, clients, o); err != nil {
		return err
	}
	if err := errors.Join(a.writeCertificates(s.pki, now), clients.writeFiles(*s)); err != nil {
		return err
	}
	p.endpoints = clients.identityEndpoints(*s)
	p.identify = a.newIdentifier(s.apiURL(), o.Clock)
	p.Issue = a.newIssuer(o.Clock)
	more, err := a.kubeletIdentities(now)
	if err != nil {
		return err
	}
	p.endpoints[Fleet] = p.endpoints[Fleet].Many(more)
	p.scrapes, err = a.scrapeEndpoints(*s, now)
	return err
}

func dataOn(cfg scenario.Plane, s site) string {
	if dir, ok := valueOf(cfg.Components[component.Etcd].Flags, "data-dir"); ok {
		return storageOf(dir)
	}
	return storageOf(s.dataDir(component.Etcd))
}

// flight is all that a component is started from.
type flight struct {
	plane *Plane
	cfg   scenario.Plane
	run   programs
	o     Options
	site  site
}

// hostnameVariable gives an API server of kube-plane a name for its host. Its identity is a
// hash of that: several on one host would share a Lease, and not know of each other.
const hostnameVariable = "KUBE_PLANE_HOSTNAME"

// launchComponent starts one process and watches over it.
func (f flight) launchComponent(name string) error {
	p := f.plane
	own := f.cfg.SettingsOf(name)
	of, _ := component.Of(name)
	env := append(threadEnv(p.facts, own), text.Pairs(own.Env)...)
	if of == component.APIServer && name != of {
		env = append(env, hostnameVariable+"="+name)
	}
	path, args := f.run.release.Command(of)
	flags := commandLine(flagsOf(name, f.site), own.Flags)
	s := &supervisor{plane: p, turn: make(chan struct{}, 1), commandFor: f.commandFor(name), spec: process.Spec{
		Name: name, Path: path, Args: append(args, flags...),
		Env: append(ownEnvironment(), env...), Dir: f.o.BaseDir,
		LogFile: filepath.Join(f.o.LogDir, name+".log"),
		Limits:  process.Limits{CPU: own.CPU, Memory: uint64(own.Memory)}, Within: p.group,
	}}
	child, err := s.startProcess()
	if err != nil {
		return err
	}
	if err := p.addComponent(Component{
		Name: name, MetricsURL: f.site.serverURL(name) + "/metrics", Scrape: p.scrapes[name], LogFile: child.LogFile(), AuditLog: f.site.auditLog(name),
		CPULimit: own.CPU, MemoryLimit: uint64(own.Memory), supervisor: s,
	}); err != nil {
		child.Kill()
		return err
	}
	p.facts.Components = append(p.facts.Components, record.ComponentFact{
		Name: name, Args: flags, Env: env,
		CPULimit: own.CPU, MemoryLimit: uint64(own.Memory), Limited: child.Limited(), Client: ClientLimitOf(flags, f.o.BaseDir),
	})
	if p.group != nil && len(child.Cgroups()) == 0 {
		p.facts.Limited = false // what it takes is not in the plane's limits
	}
	s.watchProcess(child)
	f.o.Log.Info("started", "component", name, "pid", child.PID(), "limited", child.Limited(),
		"cpu", own.CPU, "memory", own.Memory.Human())
	return nil
}

// commandFor returns how a process is started from the executables of another release.
func (f flight) commandFor(name string) func(release.Plane) (path string, args []string) {
	return func(to release.Plane) (string, []string) {
		of, _ := component.Of(name)
		there := f.site
		there.etcd36 = atLeast(to.Etcd, 3, 6)
		path, args := to.Command(of)
		return path, append(args, commandLine(flagsOf(name, there), f.cfg.SettingsOf(name).Flags)...)
	}
}

func (p *Plane) addWarning(warning string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if warning != "" && !slices.Contains(p.warnings, warning) {
		p.warnings = append(p.warnings, warning)
	}
}

// ownEnvironment is what the components get of windtunnel's environment. The
// rest stays out: GOGC or ETCD_... of somebody's shell would change a run
// without standing in its manifest.
func ownEnvironment() []string {
	var out []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			out = append(out, name+"="+value)
		}
	}
	return out
}
