package flight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/share/protocol"
	"github.com/windtunnel/windtunnel/internal/fly/steps"
	"github.com/windtunnel/windtunnel/internal/fly/steps/inventory"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	facts "github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/share"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// WorkerArg is the first argument with which windtunnel is a worker of a run. The
// others are the path of a file with a protocol.Access as JSON, the worker's number, and
// the path of the file for its records.
const WorkerArg = "worker"

// StandardInput in place of the path of an access file has a worker read its standard input.
const StandardInput = "-"

// WorkerSettings says who sends a run's load, and who keeps its nodes alive. Those who send are
// numbered first.
type WorkerSettings struct {
	Workers  int            // who send; 0: the process that leads the run does
	Fleets   int            // who keep nodes alive; 0: the process that leads the run does
	Tolerate int            // so many may be lost without the verdict being unknown for it
	Pods     *Pods          // nil: they are processes of this machine
	Manual   *ManualWorkers // nil: likewise
}

// ManualWorkers says how workers find this process that somebody starts, on whatever machine.
type ManualWorkers struct {
	Access string // file that gets what they need, a secret, or one for each of several; it must not exist, and is removed at the end
	Leader string // HOST or HOST:PORT that they reach this process at; empty: this machine's loopback
}

// isElsewhere says that workers may be on other machines.
func (c WorkerSettings) isElsewhere() bool { return c.Pods != nil || c.Manual != nil }

// ErrWorkers says that the load cannot be shared as was asked for.
var ErrWorkers = errors.New("workers")

// checkNumbers says what is wrong with the numbers.
func (c WorkerSettings) checkNumbers() error {
	switch {
	case c.Workers < 0 || c.Workers > c.maxWorkers():
		return fmt.Errorf("--workers %d: want 1 to %d", c.Workers, c.maxWorkers())
	case c.Fleets < 0 || c.countAll() > c.maxWorkers():
		return fmt.Errorf("--fleet-workers %d: want 1 or more, and %s at most in all", c.Fleets, unit.Count(c.maxWorkers(), "workers"))
	case c.Tolerate < 0 || c.Tolerate > 0 && c.Tolerate >= c.countAll():
		return fmt.Errorf("--tolerate-workers %d: want fewer than the %s", c.Tolerate, unit.Count(c.countAll(), "workers"))
	}
	return nil
}

// countAll is how many workers there are.
func (c WorkerSettings) countAll() int { return c.Workers + c.Fleets }

// senderGroup are those who send.
func (c WorkerSettings) senderGroup() protocol.Group { return protocol.Group{Below: c.Workers} }

// checkCrew says what keeps a run's load or fleet from being shared, before anything is
// started.
func (r *run) checkCrew() error {
	c := r.options.Workers
	if err := r.workload.CheckAnswers(c.Workers); err != nil {
		return err
	}
	if err := c.checkNumbers(); err != nil || c.countAll() == 0 {
		return err
	}
	if c.Pods != nil {
		if _, err := c.jobOptions(r.id); err != nil {
			return err
		}
	}
	var errs []error
	if c.Workers > 0 {
		errs = append(errs, r.checkWay(plane.Load, "--workers"), r.workload.CheckSharable(c.Workers))
	}
	if c.Fleets > 0 {
		errs = append(errs, r.checkWay(plane.Fleet, "--fleet-workers"), r.checkFleets())
	}
	return errors.Join(errs...)
}

// checkWay refuses faults on the way of a client that workers do not go.
func (r *run) checkWay(client, flag string) error {
	if r.ownsPlane() || !slices.Contains(r.workload.DisturbedClients(), client) {
		return nil
	}
	return fmt.Errorf("%s: a fault of the client %q needs a proxy before it, which workers of a cluster that is not the run's own go past; run it without %s", r.options.File, client, flag)
}

// How many workers share a load at most: on one machine, and in pods, of as many of
// which a leader has taken the streams.
const (
	maxWorkerProcesses = 256
	maxWorkerPods      = 1000
)

func (c WorkerSettings) maxWorkers() int {
	if c.Pods != nil {
		return maxWorkerPods
	}
	return maxWorkerProcesses
}

// workerGroup are the workers of a run: processes of this machine, or pods of a host.
type workerGroup struct {
	run       *run
	leader    *protocol.Leader
	processes []*process.Process
	host      *host    // nil: they are processes
	access    []string // files that say where the leader is to workers that somebody starts
	wait      guard.Group
	leaving   chan struct{}
}

// workersWithin is how long workers may take to come, and to bring the rest of their
// records.
const workersWithin = 2 * time.Minute

// startCrew starts the workers, if there are to be any, and waits until all have come.
func (r *run) startCrew(ctx context.Context) error {
	if r.options.Workers.countAll() == 0 || r.workers != nil {
		return nil
	}
	return r.trackPart(ctx, "workers", func() error {
		c := &workerGroup{run: r, leaving: make(chan struct{})}
		r.atEnd(c.close)
		err := c.startWorkers(ctx)
		if err == nil {
			r.workers = c
		}
		if err == nil && r.options.Workers.Workers > 0 {
			r.created.TrackChanges()
		}
		return err
	})
}

func (c *workerGroup) startWorkers(ctx context.Context) error {
	folder, err := c.run.dir.Folder(record.WorkersFolder)
	if err != nil {
		return err
	}
	binary, err := protocol.Binary()
	if err != nil {
		return err
	}
	plan, err := c.encodePlan()
	if err != nil {
		return err
	}
	o := protocol.Options{
		Workers: c.run.options.Workers.countAll(), Clock: c.run.clock, Folder: string(folder), Plan: plan, Binary: binary,
		Clocks: c.tellClock, Lost: c.tellLost, Progress: c.run.senders.takeProgress,
	}
	if err := c.listenFor(ctx, &o); err != nil {
		return err
	}
	if c.leader, err = protocol.Lead(o); err != nil {
		return err
	}
	switch {
	case c.host != nil:
		err = c.startPods(ctx)
	case c.run.options.Workers.Manual != nil:
		err = c.tellAccess(c.run.options.Workers.Manual.Access)
	default:
		err = c.startProcesses(folder)
	}
	if err != nil {
		return err
	}
	coming, cancel := context.WithTimeoutCause(ctx, workersWithin, fmt.Errorf("within %v", workersWithin))
	defer cancel()
	return c.host.explainMissing(ctx, c.leader.Joined(coming))
}

// listenFor says where the leader listens for workers of other machines.
func (c *workerGroup) listenFor(ctx context.Context, o *protocol.Options) (err error) {
	var name string
	switch settings := c.run.options.Workers; {
	case settings.Pods != nil:
		if c.host, err = c.openHost(ctx); err != nil {
			return err
		}
		o.Listen, name, err = c.host.leaderAddress(settings.Pods.Leader)
	case settings.Manual != nil && settings.Manual.Leader != "":
		o.Listen, name = listenAt(settings.Manual.Leader)
	default:
		return nil
	}
	if err == nil {
		err = c.checkReach(name)
	}
	o.Hosts = []string{name}
	return err
}

// tellAccess writes what workers that somebody starts need to find this process: a file for
// each, which does not let it join as another.
func (c *workerGroup) tellAccess(path string) error {
	for i := range c.run.options.Workers.countAll() {
		access, err := json.Marshal(c.leader.Access().For(i))
		if err != nil {
			return fmt.Errorf("say where the leader is: %w", err)
		}
		if err := c.writeAccess(accessFile(path, i, c.run.options.Workers.countAll()), access); err != nil {
			return fmt.Errorf("say where the leader is: %w", err)
		}
	}
	return nil
}

// accessFile is the path of worker i's file: access.json for the only one, else
// access-0.json, access-1.json and so on.
func accessFile(path string, i, of int) string {
	if of == 1 {
		return path
	}
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + "-" + strconv.Itoa(i) + ext
}

func (c *workerGroup) writeAccess(path string, access []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	c.access = append(c.access, path)
	_, err = file.Write(access)
	return errors.Join(err, file.Close())
}

// encodePlan is what workers are given.
func (c *workerGroup) encodePlan() ([]byte, error) {
	r := c.run
	files, err := filesOf(r.scenario, r.workload.File, r.options.Workers.Fleets > 0)
	if err != nil {
		return nil, err
	}
	p := workerPlan{
		Text: r.native, Set: r.settings, Seed: r.scenario.Seed, Files: files, Stamp: r.newStamp(), Destructive: r.workload.Destructive,
		Senders: r.options.Workers.Workers, FleetName: r.fleetName(), Version: r.options.Versions["windtunnel"],
	}
	if r.options.Workers.isElsewhere() && r.plane.Endpoint(plane.Load).Renewable() {
		return nil, errors.New("the kubeconfig of the plane has its credentials from a program or a file, which workers elsewhere do not have: name one that holds a token or a certificate")
	}
	if !r.ownsPlane() && !r.options.Workers.isElsewhere() { // its credentials may be a plugin's, which runs where the file says
		if p.Cluster, err = filepath.Abs(r.options.Kubeconfig); err != nil {
			return nil, fmt.Errorf("kubeconfig: %w", err)
		}
		return p.encodeJSON()
	}
	if p.Kubeconfig, err = r.plane.Endpoint(plane.Load).Kubeconfig(); err != nil {
		return nil, err
	}
	if p.FleetKubeconfig, err = r.plane.Endpoint(plane.Fleet).Kubeconfig(); err != nil {
		return nil, err
	}
	return p.encodeJSON()
}

// startProcesses starts the workers as processes of this machine. The kernel ends them
// with this one. How they find the leader is on no disk; what they write for a while, such as
// a kubeconfig, is in a folder that goes with the run.
func (c *workerGroup) startProcesses(folder record.Dir) error {
	scratch, err := c.run.plane.Folder("workers")
	if err != nil {
		return err
	}
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own executable: %w", err)
	}
	here, err := os.Getwd() // the run directory may be relative to it
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	for i := range c.run.options.Workers.countAll() {
		name := "worker-" + strconv.Itoa(i)
		access, err := json.Marshal(c.leader.Access().For(i))
		if err != nil {
			return fmt.Errorf("say where the leader is: %w", err)
		}
		p, err := process.Start(process.Spec{
			Name: name, Path: executable, Args: []string{WorkerArg, StandardInput, strconv.Itoa(i), folder.File("spool-" + strconv.Itoa(i) + ".wt")},
			Env: append(os.Environ(), "TMPDIR="+scratch), Dir: here, Input: access, LogFile: c.run.dir.File(record.LogFolder + "/" + name + ".log"),
		}, nil)
		if err != nil {
			return err
		}
		c.processes = append(c.processes, p)
		c.wait.Go(func() { c.watchProcess(i, p) })
	}
	return nil
}

// watchProcess says that a worker is lost when its process has ended before the run.
func (c *workerGroup) watchProcess(worker int, p *process.Process) {
	<-p.Done()
	select {
	case <-c.leaving:
	default:
		why := errors.New("its process has ended")
		if err := p.Err(); err != nil {
			why = err
		}
		c.leader.Lose(worker, why)
	}
}

// close has the workers leave, and ends those that do not.
func (c *workerGroup) close() {
	close(c.leaving)
	if c.leader != nil {
		ctx, cancel := context.WithTimeout(context.Background(), workersWithin)
		if err := c.leader.Leave(ctx); err != nil {
			c.run.dir.addWarning(err.Error())
		}
		cancel()
	}
	if c.host != nil {
		if c.host.stop != nil {
			c.host.stop()
		}
		if err := c.host.close(); err != nil {
			c.run.dir.addWarning(err.Error())
		}
	}
	patience := time.NewTimer(stopWorkerWithin) // those that were told to leave end by themselves
	defer patience.Stop()
	for _, p := range c.processes {
		select {
		case <-p.Done():
		case <-patience.C:
			patience.Reset(0)
		}
		p.Stop(stopWorkerWithin)
	}
	c.wait.Wait()
	if c.leader != nil {
		if err := c.leader.Close(); err != nil {
			c.run.log.Warn("the leader of the workers did not end cleanly", slog.Any("error", err))
		}
	}
	for _, path := range c.access {
		_ = os.Remove(path) // it may be gone
	}
}

// stopWorkerWithin is how long a worker that was told to leave may take to end.
const stopWorkerWithin = 5 * time.Second

func (c *workerGroup) tellClock(worker int, at clock.Time, stands protocol.Clock) {
	c.run.dir.records.Event(record.Event{At: at, Type: record.EventWorkerClock, Detail: record.Detail{
		Worker: worker, Offset: stands.Offset, Bound: stands.Bound, Jumped: stands.Jumped,
	}})
}

func (c *workerGroup) tellLost(worker int, why error) {
	c.run.senders.noteLost(worker)
	step := c.run.progress.stepName()
	c.run.dir.records.Event(record.Event{At: c.run.clock.Now(), Type: record.EventWorkerLost, Name: step, Text: why.Error(), Detail: record.Detail{Worker: worker}})
	c.run.log.Warn("a worker is lost", slog.Int("worker", worker), slog.String("step", step), slog.Any("error", why))
}

// Send has the workers send a part of the load.
func (c *workerGroup) Send(ctx context.Context, part steps.Part, known inventory.Changes, plan load.Plan) ([]inventory.Changes, error) {
	asked, err := plan.Asked()
	if err != nil {
		return nil, err
	}
	mine := planDigest(asked, plan)
	records := c.run.dir.records
	records.Event(record.Event{At: c.run.clock.Now(), Type: record.EventLoadAsked, Name: part.Step, Detail: asked})
	outcomes, at, err := c.leader.Do(ctx, c.run.options.Workers.senderGroup(), order{Part: part, Known: known}, func(_ int, said json.RawMessage) error {
		var p prepared
		if err := json.Unmarshal(said, &p); err != nil {
			return err
		}
		if p.Digest != mine {
			return fmt.Errorf("%w: it has planned other calls of step %s than the leader", ErrWorkers, part)
		}
		return nil
	})
	if at == 0 {
		return nil, err
	}
	var seen []inventory.Changes
	var failed error
	for i, o := range outcomes {
		its := share.Share{Index: i, Of: len(outcomes)}
		e := record.Event{At: at, Type: record.EventWorkerShare, Name: part.Step, Detail: record.Detail{Worker: i, Count: its.Count(asked.Count)}}
		switch {
		case errors.Is(o.Err, protocol.ErrLost):
			e.Text = o.Err.Error()
			c.replayLost(i, at, o.Clock, plan)
		case o.Err != nil:
			e.Text = o.Err.Error()
			failed = errors.Join(failed, fmt.Errorf("worker %d: %w", i, o.Err))
		}
		if err == nil {
			records.Event(e)
		}
		var said sentPart
		if o.Ended != nil && json.Unmarshal(o.Ended, &said) == nil {
			seen = append(seen, said.Seen)
		}
	}
	if err == nil {
		err = failed
	}
	return seen, err
}

// replayLost tells a plan how those calls ended of a worker that was lost in it that its
// records have: what it would have said of the objects.
func (c *workerGroup) replayLost(worker int, begin clock.Time, stands protocol.Clock, plan load.Plan) {
	if plan.Done == nil {
		return
	}
	from := begin.Add(-stands.Offset - stands.Bound)
	ops := map[record.Op]int{}
	for i, op := range plan.Ops {
		ops[op] = i
	}
	err := facts.EndedCalls(c.run.dir.Dir, worker, func(of record.Op, v record.Call) {
		if op, ok := ops[of]; ok && v.Due >= from {
			plan.Done(load.Result{
				Index: int(v.Number) - 1, Op: op, Attempt: int(v.Attempt), Reached: v.Reached, Last: true, Outcome: v.Outcome,
				Response: &wire.Response{Code: int(v.Code), Err: lostAnswer(v)},
			})
		}
	})
	if err != nil {
		c.run.log.Warn("the records of a lost worker cannot be read", slog.Int("worker", worker), slog.Any("error", err))
	}
}

// lostAnswer is the error of a call whose answer the records do not have.
func lostAnswer(v record.Call) error {
	if v.Outcome == record.OK || v.Code >= http.StatusBadRequest {
		return nil
	}
	return errors.New("its worker was lost")
}
