package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/member"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/share/message"
	"github.com/windtunnel/windtunnel/internal/fly/share/protocol"
	"github.com/windtunnel/windtunnel/internal/fly/stages"
	"github.com/windtunnel/windtunnel/internal/fly/subject"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/share"
	"github.com/windtunnel/windtunnel/internal/sim/fleet"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
	"github.com/windtunnel/windtunnel/scenario"
)

// keeper is a worker that keeps a share of the nodes alive, and has its share of hollow
// members and of subjects.
type keeper struct {
	worker
	plan     message.Plan
	scenario *scenario.Scenario
	config   scenario.Fleet
	options  fleet.Options
	host     string // this machine's address towards the leader

	mu       sync.Mutex
	fleet    *fleet.Fleet // nil: not yet, or not any more
	hollow   []*hollow.Server
	programs []*plane.Plane // each with a subject
	died     *message.Death // the first subject that ended by itself
	watching guard.Group
	leaving  chan struct{}
	over     bool
}

// newKeeper reads what the nodes do.
func newKeeper(p message.Plan, w worker) (*keeper, error) {
	var acts stages.Set
	e, workload, err := readPlan(p, p.FleetKubeconfig, &acts)
	if err != nil {
		return nil, err
	}
	part := share.Share{Index: w.index - p.Senders, Of: w.of - p.Senders}
	k := &keeper{worker: w, plan: p, scenario: workload.Scenario, config: workload.Scenario.Fleet, leaving: make(chan struct{})}
	k.options = fleet.Options{
		Endpoint: e, Records: w.records, Clock: w.clock, Log: w.log, Seed: p.Seed + uint64(part.Index), Name: p.FleetName, Share: part,
		Stamp: p.Stamp, Namespaces: workload.Owns, Stages: acts.Machine, Objects: acts.Objects, Version: p.Version,
		Connections: part.Portion(k.config.Connections),
	}
	k.host, err = ownAddress(w.leader)
	return k, err
}

// ownAddress is this machine's address towards a URL.
func ownAddress(to string) (string, error) {
	u, err := url.Parse(to)
	if err != nil {
		return "", fmt.Errorf("find the own address towards the leader: %w", err)
	}
	way, err := net.Dial("udp", u.Host) // sends nothing
	if err != nil {
		return "", fmt.Errorf("find the own address towards the leader: %w", err)
	}
	defer way.Close()
	host, _, err := net.SplitHostPort(way.LocalAddr().String())
	return host, err
}

// Prepare gets a part ready: nodes and subjects begin with Send, members are there when
// it returns, since their addresses are what the leader is told.
func (k *keeper) Prepare(_ context.Context, raw json.RawMessage) (protocol.Task, error) {
	var part message.Keep
	if err := json.Unmarshal(raw, &part); err != nil {
		return nil, fmt.Errorf("read what is to be kept: %w", err)
	}
	switch {
	case part.Nodes:
		return (*nodesTask)(k), nil
	case part.Members != nil:
		return k.serveMembers(*part.Members)
	case part.Subject != nil && !k.local:
		return nil, fmt.Errorf("subject %s: %w", part.Subject.Name, errNotLocal)
	case part.Subject != nil:
		return &subjectTask{k, *part.Subject}, nil
	case part.EndSubjects:
		return (*endTask)(k), nil
	}
	return nil, fmt.Errorf("%w: a part that this program does not know", message.ErrWorkers)
}

var errLeft = errors.New("the run is over")

// addEnd has something ended by Leave, or ends it at once where that was before.
func (k *keeper) addEnd(add, end func()) error {
	k.mu.Lock()
	over := k.over
	if !over {
		add()
	}
	k.mu.Unlock()
	if over {
		end()
		return errLeft
	}
	return nil
}

// serveMembers makes the worker's share of hollow members.
func (k *keeper) serveMembers(part message.Members) (protocol.Task, error) {
	folder, err := os.MkdirTemp("", "windtunnel-worker-") // stages in files are read when members are made
	if err != nil {
		return nil, fmt.Errorf("make a folder for stages: %w", err)
	}
	defer os.RemoveAll(folder)
	if err := k.plan.WriteFiles(folder); err != nil {
		return nil, err
	}
	group := part.Group
	group.Folder, group.Names = folder, nil
	for i, name := range part.Group.Names {
		if k.options.Share.Has(part.From + i) {
			group.Names = append(group.Names, name)
		}
	}
	server, reach, err := member.ServeHollow(group, k.host)
	if err != nil {
		return nil, err
	}
	if err := k.addEnd(func() { k.hollow = append(k.hollow, server) }, func() { k.endLogged("hollow members", server.Close) }); err != nil {
		return nil, err
	}
	return membersTask{reach}, nil
}

// membersTask is members that are there.
type membersTask struct{ reach member.HollowReach }

// Prepared tells the leader how they are reached.
func (t membersTask) Prepared() any { return t.reach }

// Send does nothing: they are there.
func (t membersTask) Send(context.Context, clock.Time) (any, error) { return struct{}{}, nil }

// nodesTask makes the worker's share of the plane's nodes.
type nodesTask keeper

// Prepared tells the leader which nodes.
func (t *nodesTask) Prepared() any {
	return message.Nodes{Share: t.options.Share, Nodes: t.options.Share.Count(t.config.Nodes)}
}

// Send makes the nodes, and returns when all of them can be scheduled to. They live on
// after it. When ctx ends before, no more are made.
func (t *nodesTask) Send(ctx context.Context, begin clock.Time) (any, error) {
	k := (*keeper)(t)
	if clock.Sleep(ctx, k.clock.Until(begin)) != nil {
		return nil, context.Cause(ctx)
	}
	f, err := fleet.Start(context.WithoutCancel(ctx), k.config, k.options)
	if err != nil {
		return nil, err
	}
	if err := k.addEnd(func() { k.fleet = f }, func() { k.endLogged("the fleet", f.Close) }); err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, time.Duration(k.config.Within))
	defer cancel()
	err = f.Ready(waiting)
	if ctx.Err() != nil {
		k.Leave()
	}
	return struct{}{}, err
}

// subjectTask starts one of the worker's subjects.
type subjectTask struct {
	*keeper
	part message.Subject
}

// Prepared has nothing to tell: the subject begins when those before it are ready.
func (t *subjectTask) Prepared() any { return struct{}{} }

// Send starts it, and returns when it is ready. It lives on after it.
func (t *subjectTask) Send(ctx context.Context, _ clock.Time) (any, error) {
	i := slices.IndexFunc(t.scenario.Subjects, func(x scenario.Subject) bool { return x.Name == t.part.Name })
	if i < 0 {
		return nil, fmt.Errorf("%w: there is no subject %s", message.ErrWorkers, t.part.Name)
	}
	beside, err := t.planeBeside()
	if err != nil {
		return nil, err
	}
	if err := t.addEnd(func() { t.programs = append(t.programs, beside) }, func() { t.endLogged(t.part.Name, beside.Close) }); err != nil {
		return nil, err
	}
	prepared, err := subject.Prepare(t.scenario.Subjects[i], subject.Options{
		Plane: beside, Folder: t.part.Folder, LogDir: t.part.Logs, Self: t.part.Self, Stamp: t.plan.Stamp, Seed: t.plan.Seed,
	})
	if err != nil {
		return nil, err
	}
	started, err := prepared.StartHere(ctx)
	if err == nil {
		t.watching.Go(func() { t.watchSubject(beside) })
	}
	return started, err
}

// planeBeside is where the subject is started: its kubeconfig is its own.
func (t *subjectTask) planeBeside() (*plane.Plane, error) {
	var identify func(string) (endpoint.Endpoint, error)
	if len(t.part.Identity) > 0 {
		e, err := endpoint.Parse(t.part.Identity)
		if err != nil {
			return nil, err
		}
		identify = func(string) (endpoint.Endpoint, error) { return e, nil }
	}
	return plane.Beside(t.part.Kubeconfig, identify, plane.Options{Log: t.log, Clock: t.clock})
}

// endTask ends the worker's subjects before it leaves.
type endTask keeper

// Prepared has nothing to tell.
func (t *endTask) Prepared() any { return struct{}{} }

// Send ends them, and returns when they have. The worker says how it stands meanwhile.
func (t *endTask) Send(context.Context, clock.Time) (any, error) {
	k := (*keeper)(t)
	k.mu.Lock()
	programs := k.programs
	k.programs = nil
	k.mu.Unlock()
	ended := make(chan struct{})
	k.watching.Go(func() { defer close(ended); k.endSubjects(programs) })
	<-ended
	return struct{}{}, nil
}

// endSubjects ends subjects, all at once.
func (k *keeper) endSubjects(programs []*plane.Plane) {
	var all guard.Group
	for _, p := range programs {
		all.Go(func() { k.endLogged("a subject", p.Close) })
	}
	all.Wait()
}

// watchSubject tells when the subject ends by itself.
func (k *keeper) watchSubject(beside *plane.Plane) {
	select {
	case death := <-beside.Died():
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.died == nil && !k.over {
			k.died = &message.Death{Subject: death.Component, Why: death.Err.Error()}
		}
	case <-k.leaving:
	}
}

// Progress is how many of the nodes are schedulable, and whether a subject is gone.
func (k *keeper) Progress() any {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := message.Progress{Died: k.died}
	if k.fleet != nil {
		out.Nodes = k.fleet.Stats().Schedulable
	}
	return out
}

// endLogged ends something, which is no reason to leave the rest.
func (k *keeper) endLogged(what string, end func() error) {
	if err := end(); err != nil {
		k.log.Warn(what+" did not end cleanly", slog.Any("error", err))
	}
}

// Leave ends all that the worker keeps: nodes, then subjects, then members.
func (k *keeper) Leave() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return
	}
	k.over = true
	close(k.leaving)
	if k.fleet != nil {
		k.endLogged("the fleet", k.fleet.Close)
	}
	k.endSubjects(k.programs)
	for _, server := range k.hollow {
		k.endLogged("hollow members", server.Close)
	}
	k.fleet, k.programs, k.hollow = nil, nil, nil
}

func (k *keeper) close() {
	k.Leave()
	k.watching.Wait()
}
