package plane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/machine/pki"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Program is something that is started beside the plane's own components and
// looked after as they are: a subject.
type Program struct {
	Name       string            // as faults, samples and logs say it; no component has it
	Path       string            // executable
	Args       []string          // without the executable
	Env        map[string]string // beside PATH, HOME and TMPDIR
	Dir        string            // working directory
	LogFile    string
	CPU        float64           // cores, 0 = no limit
	Memory     uint64            // bytes, 0 = no limit
	MetricsURL string            // empty: it serves none
	Scrape     endpoint.Endpoint // its Client may get MetricsURL
	// Ready is asked until it gives no error; nil: the program is ready once it
	// runs. It is asked again after each restart.
	Ready  func(context.Context) error
	Within time.Duration // for it to become ready; default 2 minutes
}

// programGrace is how long a program gets to end by itself: enough for a
// controller to give back a lease.
const programGrace = 2 * time.Second

// roomForDeaths is how many deaths are kept until somebody reads them.
const roomForDeaths = 16

// Launch starts a program and returns when it is ready. From then on it is one
// of Components: it can be hurt, Died reports its death, Close ends it before
// the components. It may be called on planes that were reached by a kubeconfig,
// too.
//
// A program that dies on the way is named with its last log lines
// (*process.DeathError). ErrClosed: the plane was closed meanwhile.
func (p *Plane) Launch(ctx context.Context, g Program) (Component, error) {
	if _, taken := p.Component(g.Name); taken {
		return Component{}, fmt.Errorf("start %s: %w", g.Name, errNameTaken)
	}
	if _, err := p.privateFolder(); err != nil {
		return Component{}, fmt.Errorf("start %s: %w", g.Name, err)
	}
	s := &supervisor{plane: p, turn: make(chan struct{}, 1), guest: true, ready: g.Ready, within: g.Within, spec: process.Spec{
		Name: g.Name, Path: g.Path, Args: g.Args, Env: append(ownEnvironment(), text.Pairs(g.Env)...), Dir: g.Dir,
		LogFile: g.LogFile, Limits: process.Limits{CPU: g.CPU, Memory: g.Memory},
	}}
	child, err := s.startProcess()
	if err != nil {
		return Component{}, err
	}
	c := Component{
		Name: g.Name, MetricsURL: g.MetricsURL, Scrape: g.Scrape, LogFile: g.LogFile,
		CPULimit: g.CPU, MemoryLimit: g.Memory, supervisor: s,
	}
	err = s.awaitReady(ctx, child)
	if err == nil {
		err = p.addComponent(c)
	}
	if err != nil {
		child.Kill()
		return Component{}, fmt.Errorf("start %s: %w", g.Name, err)
	}
	s.watchProcess(child)
	p.log.Info("started", "component", g.Name, "pid", child.PID(), "limited", child.Limited(),
		"cpu", g.CPU, "memory", unit.Bytes(g.Memory).Human())
	return c.current(), nil
}

// Join makes a process one of Components that somebody else has started and
// looks after: it is measured, and cannot be hurt.
func (p *Plane) Join(c Component) error {
	if _, taken := p.Component(c.Name); taken {
		return fmt.Errorf("join %s: %w", c.Name, errNameTaken)
	}
	c.supervisor = nil
	return p.addComponent(c)
}

var errNameTaken = errors.New("there is a component of that name")

// addComponent makes a component known.
func (p *Plane) addComponent(c Component) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return ErrClosed
	}
	p.components = append(p.components, c)
	return nil
}

// privateFolder returns the private folder of the run. A plane that was reached by a
// kubeconfig gets a reaper, and thereby one, with its first program.
func (p *Plane) privateFolder() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ended:
		return "", ErrClosed
	case p.reaper != nil:
		return p.reaper.Dir(), nil
	}
	executable := p.executable
	if executable == "" {
		path, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("find own executable: %w", err)
		}
		executable = path
	}
	reaper, err := process.StartReaper(executable, os.TempDir())
	if err != nil {
		return "", err
	}
	p.reaper = reaper
	return reaper.Dir(), nil
}

// Folder makes a private folder for what a program on this machine needs for a while. It goes
// with the run, however that ends.
func (p *Plane) Folder(name string) (string, error) {
	home, err := p.privateFolder()
	if err != nil {
		return "", fmt.Errorf("folder for %s: %w", name, err)
	}
	path := filepath.Join(home, name)
	return path, os.MkdirAll(path, 0o700)
}

// NewServerFolder is p.Folder with tls.crt, tls.key and ca.crt in it: a certificate for what a
// program serves on this machine, such as webhooks.
func NewServerFolder(p *Plane, name string) (string, error) {
	path, err := p.Folder(name)
	if err != nil {
		return "", err
	}
	now, folder := p.clock.Wall(p.clock.Now()), pki.Folder(path)
	authority, err := pki.NewAuthority("windtunnel-"+name, now)
	if err != nil {
		return "", fmt.Errorf("certificate for %s: %w", name, err)
	}
	pair, err := authority.Issue(servedAt(name), now)
	return path, errors.Join(err, folder.WritePair("tls", pair), folder.Write("ca.crt", authority.PEM()))
}

// Kubeconfig returns the path of a kubeconfig file for a program. At a plane
// that Start has started it holds a user of its own, windtunnel:subject:NAME,
// who may do everything and is queued by API priority and fairness as service
// accounts are: a program in a cluster would be one. At another it is the
// kubeconfig that the plane was reached by.
func (p *Plane) Kubeconfig(name string) (string, error) {
	if p.identify == nil {
		return p.kubeconfig, nil
	}
	home, err := p.privateFolder()
	if err != nil {
		return "", fmt.Errorf("kubeconfig for %s: %w", name, err)
	}
	e, err := p.identify(name)
	if err != nil {
		return "", fmt.Errorf("kubeconfig for %s: %w", name, err)
	}
	path := filepath.Join(home, name+".kubeconfig")
	return path, e.WriteKubeconfig(path)
}

// AdminKubeconfig returns the path of a kubeconfig file for commands that act for
// the person who runs windtunnel. It ends with the run, also when windtunnel is
// killed. Of a plane that was reached by a kubeconfig it is that file, with the
// plugins, files and proxies that it names.
func (p *Plane) AdminKubeconfig() (string, error) {
	if p.identify == nil {
		return p.kubeconfig, nil
	}
	home, err := p.privateFolder()
	if err != nil {
		return "", fmt.Errorf("kubeconfig for commands: %w", err)
	}
	path := filepath.Join(home, "admin.kubeconfig")
	return path, p.Endpoint(Admin).WriteKubeconfig(path)
}

// OwnerMark returns a variable, NAME=value, for the environment of a process that LookAfter is
// told of: what it starts ends with windtunnel, too, also in a session of its own. It is empty
// where nothing can be looked after.
func (p *Plane) OwnerMark() string {
	if _, err := p.privateFolder(); err != nil {
		return ""
	}
	return p.reaper.Mark()
}

// LookAfter lets a process with all of its group end with windtunnel, however that
// ends.
func (p *Plane) LookAfter(pid int) {
	if _, err := p.privateFolder(); err != nil {
		p.log.Warn("a command may outlive windtunnel if that is killed", "pid", pid, "error", err)
		return
	}
	p.reaper.Process(pid)
}

// FreePorts finds so many ports of this machine that nobody listens on, and that
// no outgoing connection will take.
func FreePorts(n int) ([]int, error) {
	var out []int
	var held []net.Listener
	defer func() {
		for _, l := range held {
			_ = l.Close() // nothing was accepted
		}
	}()
	low := lowestEphemeral()
	for range n {
		l, err := listenBelow(low)
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		held = append(held, l)
		if addr, ok := l.Addr().(*net.TCPAddr); ok {
			out = append(out, addr.Port)
		}
	}
	return out, nil
}

// EndPrograms ends the programs for good, all at once, and says whether there were any.
func (p *Plane) EndPrograms() bool {
	var all guard.Group
	found := false
	for _, s := range p.supervisors() {
		if s.guest {
			found = true
			s.preventStarts()
			all.Go(func() { s.currentProcess().Stop(programGrace) })
		}
	}
	all.Wait()
	return found
}
