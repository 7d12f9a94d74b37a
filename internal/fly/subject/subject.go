// Package subject starts what is tested on a plane, such as an operator: it
// gives it a kubeconfig, ports and limits, installs what it needs at the API
// server, and waits until it is ready.
//
// It looks after no process: package plane does, and kills, pauses, restarts and
// ends it as it does with components. It measures nothing. Package flight
// calls it.
package subject

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/fly/build"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// ErrNoProgram says that a subject's command is not there or cannot be executed.
var ErrNoProgram = errors.New("no such program")

// Options say where subjects are started.
type Options struct {
	Plane   *plane.Plane
	Folder  string       // the scenario's: relative commands begin here, and it is the working directory
	Members string       // folder of the members' kubeconfigs; empty: there are none
	LogDir  string       // gets NAME.log
	Self    string       // version of windtunnel, for subjects that it is itself
	Stamp   object.Stamp // of what the load makes, in a cluster that is not the run's own; else zero
	Seed    uint64       // of the run
}

// Prepared is a subject with all that its command line and URLs are made of.
type Prepared struct {
	Kubeconfig string // path
	MetricsURL string // empty: it serves none
	subject    scenario.Subject
	vars       map[string]string
	options    Options
}

// Prepare gives a subject its kubeconfig and its ports. It starts nothing.
func Prepare(x scenario.Subject, o Options) (*Prepared, error) {
	var err error
	if o.Folder, err = filepath.Abs(o.Folder); err != nil {
		return nil, fmt.Errorf("subject %s: %w", x.Name, err)
	}
	if o.LogDir, err = filepath.Abs(o.LogDir); err != nil {
		return nil, fmt.Errorf("subject %s: %w", x.Name, err)
	}
	if err := os.MkdirAll(o.LogDir, 0o700); err != nil {
		return nil, fmt.Errorf("subject %s: make a folder for logs: %w", x.Name, err)
	}
	p := &Prepared{subject: x, options: o}
	if p.Kubeconfig, err = o.Plane.Kubeconfig(x.Name); err != nil {
		return nil, err
	}
	ports, err := plane.FreePorts(3)
	if err != nil {
		return nil, fmt.Errorf("subject %s: %w", x.Name, err)
	}
	if x.Metrics != nil && x.Metrics.Port > 0 {
		ports[0] = x.Metrics.Port
	}
	metrics := strconv.Itoa(ports[0])
	p.vars = map[string]string{
		scenario.VarKubeconfig: p.Kubeconfig, scenario.VarMetricsPort: metrics,
		scenario.VarProbePort: strconv.Itoa(ports[1]), scenario.VarWebhookPort: strconv.Itoa(ports[2]), scenario.VarLogs: o.LogDir, scenario.VarMembers: o.Members, scenario.VarSeed: strconv.FormatUint(o.Seed, 10),
	}
	if !x.External {
		if p.vars[scenario.VarFiles], err = plane.NewServerFolder(o.Plane, x.Name); err != nil {
			return nil, err
		}
	}
	env := map[string]string{}
	for name, text := range x.Env {
		if env[name], err = p.expandVariables(text); err != nil {
			return nil, err
		}
	}
	maps.Copy(p.vars, env)
	for name, value := range map[string]string{scenario.VarRun: o.Stamp.Run, scenario.VarFleet: o.Stamp.Fleet} {
		if value != "" {
			p.vars[name] = value
		}
	}
	if x.Metrics != nil {
		if p.MetricsURL, err = p.expandVariables(x.Metrics.At(metrics)); err != nil {
			return nil, err
		}
	}
	return p, p.writeFiles()
}

// expandVariables fills in variables; validation has seen to it that they are known.
func (p *Prepared) expandVariables(text string) (string, error) {
	out, err := scenario.ExpandVariables(text, p.vars)
	if err != nil {
		return "", fmt.Errorf("subject %s: %w", p.subject.Name, err)
	}
	return out, nil
}

// Start starts a prepared subject and returns when it is ready. Its log is
// NAME.log. The errors are those of plane.Launch, and ErrNoProgram.
func (p *Prepared) Start(ctx context.Context) (record.SubjectFact, error) {
	x, o := p.subject, p.options
	path, sum, err := p.executable()
	if err != nil {
		return record.SubjectFact{}, fmt.Errorf("subject %s: %w", x.Name, err)
	}
	args, err := p.expandArgs()
	if err != nil {
		return record.SubjectFact{}, err
	}
	ready, err := p.newProbe()
	if err != nil {
		return record.SubjectFact{}, err
	}
	component, err := o.Plane.Launch(ctx, plane.Program{
		Name: x.Name, Path: path, Args: args, Env: p.vars, Dir: o.Folder, LogFile: filepath.Join(o.LogDir, x.Name+".log"),
		CPU: x.Limits.CPU, Memory: uint64(x.Limits.Memory), MetricsURL: p.MetricsURL, Scrape: p.metricsEndpoint(),
		Ready: ready, Within: time.Duration(x.Ready.Within),
	})
	if err != nil {
		if ctx.Err() == nil {
			err = explainRelease(err, path, o.Plane.Versions()["kubernetes"])
		}
		return record.SubjectFact{}, err
	}
	return p.newFact(ctx, component, path, sum, args), nil
}

// newFact describes what was started. The environment is the scenario's alone: what
// every subject gets differs from run to run and says nothing.
func (p *Prepared) newFact(ctx context.Context, c plane.Component, path, sum string, args []string) record.SubjectFact {
	f := record.SubjectFact{Command: path, ComponentFact: record.ComponentFact{
		Name: c.Name, Args: args, CPULimit: c.CPULimit, MemoryLimit: c.MemoryLimit, Limited: c.Limited,
		Client: plane.ClientLimitOf(args, p.options.Folder),
	}}
	for _, name := range slices.Sorted(maps.Keys(p.subject.Env)) {
		f.Env = append(f.Env, name+"="+p.vars[name])
	}
	if len(p.subject.Windtunnel) > 0 {
		f.Version = p.options.Self
		return f
	}
	f.Version, f.SHA256 = programVersion(ctx, path, p.subject.Version), sum
	if sum == "" {
		f.SHA256 = build.SHA256Of(path)
	}
	return f
}

// executable returns the path of the program, and its SHA-256 where finding it has shown that.
func (p *Prepared) executable() (path, sum string, err error) {
	switch {
	case len(p.subject.Windtunnel) > 0:
		path, err = os.Executable()
	case p.subject.Build != nil:
		path, sum, err = builtProgram(*p.subject.Build)
	default:
		path, err = findExecutable(p.subject.Command, p.options.Folder)
	}
	return path, sum, err
}

// expandArgs returns the arguments of the program.
func (p *Prepared) expandArgs() ([]string, error) {
	given := p.subject.Args
	if len(p.subject.Windtunnel) > 0 {
		given = p.subject.Windtunnel
	}
	args := []string{} // in the manifest, too
	for _, text := range given {
		arg, err := p.expandVariables(text)
		if err != nil {
			return nil, err
		}
		args = append(args, arg)
	}
	return args, nil
}

// findExecutable finds an executable: a path from the scenario's folder, or a name in PATH.
func findExecutable(command, folder string) (string, error) {
	path := command
	if strings.Contains(command, "/") && !filepath.IsAbs(command) {
		var err error
		if path, err = filepath.Abs(filepath.Join(folder, command)); err != nil {
			return "", fmt.Errorf("%w: %w", ErrNoProgram, err)
		}
	}
	found, err := exec.LookPath(path)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoProgram, err)
	}
	return filepath.Abs(found)
}

// metricsEndpoint returns who may read the metrics.
func (p *Prepared) metricsEndpoint() endpoint.Endpoint {
	if p.MetricsURL == "" {
		return endpoint.Endpoint{}
	}
	return endpoint.Plain(serverOf(p.MetricsURL))
}

// servedWithin is how long the process that started windtunnel, which is ready,
// has to serve metrics.
const servedWithin = 2 * time.Second

// Joined makes the process that started windtunnel the subject. Where it serves no
// metrics, unread says so: they are not looked for any more.
func (p *Prepared) Joined(ctx context.Context, pid int) (fact record.SubjectFact, unread, err error) {
	if p.MetricsURL != "" {
		ctx, cancel := context.WithTimeout(ctx, servedWithin)
		ask := askPage(p.MetricsURL)
		unread = retryUntil(ctx, func() (bool, error) { err := ask(ctx); return err == nil, err })
		cancel()
		if unread != nil {
			p.MetricsURL = ""
		}
	}
	c := plane.Component{Name: p.subject.Name, PID: pid, MetricsURL: p.MetricsURL, Scrape: p.metricsEndpoint()}
	if err := p.options.Plane.Join(c); err != nil {
		return record.SubjectFact{}, nil, err
	}
	f := record.SubjectFact{ComponentFact: record.ComponentFact{Name: c.Name, Args: []string{}}}
	executable := "/proc/" + strconv.Itoa(pid) + "/exe"
	f.Version, f.SHA256 = programVersion(ctx, executable, nil), build.SHA256Of(executable)
	return f, unread, nil
}

// Started is a subject that a worker has started and looks after.
type Started struct {
	Fact       record.SubjectFact `json:"fact"`
	PID        int                `json:"pid"`
	MetricsURL string             `json:"metricsURL,omitempty"`
}

// StartHere is Start for another process, which lets the subject Join its plane.
func (p *Prepared) StartHere(ctx context.Context) (out Started, err error) {
	if out.Fact, err = p.Start(ctx); err != nil {
		return out, err
	}
	c, _ := p.options.Plane.Component(p.subject.Name)
	out.PID, out.MetricsURL = c.PID, p.MetricsURL
	return out, nil
}

// Join makes the subject one of a plane's components: it is measured, and cannot be hurt.
func (s Started) Join(p *plane.Plane) error {
	c := plane.Component{
		Name: s.Fact.Name, PID: s.PID, MetricsURL: s.MetricsURL, CPULimit: s.Fact.CPULimit, MemoryLimit: s.Fact.MemoryLimit, Limited: s.Fact.Limited,
	}
	if s.MetricsURL != "" {
		c.Scrape = endpoint.Plain(serverOf(s.MetricsURL))
	}
	return p.Join(c)
}

// Name returns the subject's name.
func (p *Prepared) Name() string { return p.subject.Name }

// Find says whether a subject's program is there; the errors are ErrNoProgram and those of
// program.Cache.Find.
func Find(x scenario.Subject, folder string) (err error) {
	switch {
	case x.Build != nil:
		_, err = FindBuilt(*x.Build)
	case x.Command != "":
		_, err = findExecutable(x.Command, folder)
	}
	if err != nil {
		return fmt.Errorf("subject %s: %w", x.Name, err)
	}
	return nil
}
