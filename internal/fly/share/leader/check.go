package leader

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/windtunnel/windtunnel/internal/component/skew"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/share/message"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// Check says what keeps a run's load or fleet from being shared, before anything is started.
// Own says that the run starts its plane itself.
func (s Settings) Check(w *workload.Workload, own bool) error {
	if err := w.CheckAnswers(s.Workers); err != nil {
		return err
	}
	if err := s.checkNumbers(); err != nil || s.CountAll() == 0 {
		return err
	}
	if s.Pods != nil {
		if _, err := s.jobOptions("run"); err != nil {
			return err
		}
	}
	var errs []error
	if s.Workers > 0 {
		errs = append(errs, checkPath(w, own, plane.Load, "--workers"), w.CheckSharable(s.Workers))
	}
	if s.Fleets > 0 {
		errs = append(errs, checkPath(w, own, plane.Fleet, "--fleet-workers"), s.checkFleets(w))
	}
	return errors.Join(errs...)
}

// CheckFiles says what is wrong with the files by which workers are reached.
func (s Settings) CheckFiles() error {
	if s.Pods != nil && s.Pods.Kubeconfig != "" {
		if err := plane.CheckKubeconfig(s.Pods.Kubeconfig); err != nil {
			return fmt.Errorf("--worker-kubeconfig: %w", err)
		}
	}
	for i := range s.CountAll() {
		if s.Manual == nil {
			break
		}
		file := accessFile(s.Manual.Access, i, s.CountAll())
		if _, err := os.Lstat(file); err == nil {
			return fmt.Errorf("--worker-access %s: it is there already, and holds what the workers of another run need: remove it, or name another file", file)
		}
	}
	return nil
}

// checkPath refuses faults on the path of a client that workers do not take.
func checkPath(w *workload.Workload, own bool, client, flag string) error {
	if own || !slices.Contains(w.DisturbedClients(), client) {
		return nil
	}
	return fmt.Errorf("%s: a fault of the client %q needs a proxy before it, which workers of a cluster that is not the run's own go past; run it without %s", w.File, client, flag)
}

// checkFleets says what keeps a run's fleet from being shared.
func (s Settings) checkFleets(w *workload.Workload) error {
	var errs []error
	f, n := w.Scenario.Fleet, s.Fleets
	refuse := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: --fleet-workers %d: %s", w.File, n, fmt.Sprintf(format, args...)))
	}
	hollow, shared := hollowMembers(w.Scenario), len(sharableSubjects(w.Scenario))
	switch most := max(f.Nodes, hollow, shared); {
	case most == 0:
		refuse("the plane has no nodes that could be shared, there is neither hollow member nor sharable subject, and nodes of members stay where the leader is: leave it out")
	case f.Nodes == 0 && most < n:
		refuse("the scenario has %s and %s, and some workers would have none; use --fleet-workers %d or fewer", unit.Count(hollow, "hollow members"), unit.Count(shared, "sharable subjects"), most)
	case f.Nodes > 0 && f.Nodes < n:
		refuse("the fleet has %s, and some workers would have none; use --fleet-workers %d or fewer", unit.Count(f.Nodes, "nodes"), f.Nodes)
	case f.Connections > 0 && f.Connections < n:
		refuse("fleet.connections: %d are those of all workers, and some would have none; use --fleet-workers %d or fewer", f.Connections, f.Connections)
	}
	if err := s.checkSubjects(w); err != nil {
		errs = append(errs, err)
	}
	for step := range w.Scenario.AllSteps() {
		if u := step.Upgrade; u != nil && slices.Contains(w.Scenario.ChangeOf(u).Parts, skew.Nodes) {
			errs = append(errs, fmt.Errorf("%s:%d: step %q: %w: it upgrades all nodes in turn, of which each worker knows its own; leave nodes out of its parts, or run it without --fleet-workers", w.File, step.Line, step.Name, message.ErrWorkers))
		}
		if d := step.Fault; d != nil && (d.Nodes != nil || d.Pods != nil) {
			errs = append(errs, fmt.Errorf("%s:%d: step %q: %w: it chooses among all nodes and pods, of which each worker knows its own; run it without --fleet-workers", w.File, step.Line, step.Name, message.ErrWorkers))
		}
	}
	return errors.Join(errs...)
}

// checkSubjects refuses what a worker's subjects cannot be used for.
func (s Settings) checkSubjects(w *workload.Workload) error {
	var errs []error
	names := sharableSubjects(w.Scenario)
	if len(names) > 0 && s.isElsewhere() {
		errs = append(errs, fmt.Errorf("%s: subject %s is sharable, and talks to others over this machine's loopback, which workers elsewhere do not reach: use --worker-processes", w.File, names[0]))
	}
	for step := range w.Scenario.AllSteps() {
		if d := step.Fault; d != nil && slices.Contains(names, d.Component) {
			errs = append(errs, fmt.Errorf("%s:%d: step %q: %w: %s is a worker's process, which only its worker can disturb; run it without --fleet-workers", w.File, step.Line, step.Name, message.ErrWorkers, d.Component))
		}
	}
	return errors.Join(errs...)
}

// StartFirst says whether fleet workers have something to do before the plane's nodes are
// made: members and subjects come first.
func (s Settings) StartFirst(of *scenario.Scenario) bool {
	return s.Fleets > 0 && (hollowMembers(of) > 0 || len(sharableSubjects(of)) > 0)
}

// hollowMembers is how many hollow members a scenario has.
func hollowMembers(s *scenario.Scenario) (n int) {
	for i := range s.Members {
		if s.Members[i].Kind == scenario.HollowMember {
			n += s.Members[i].Count
		}
	}
	return n
}

// sharableSubjects are the names of the subjects that fleet workers can have, in order.
func sharableSubjects(s *scenario.Scenario) (names []string) {
	for _, x := range s.Subjects {
		if x.Sharable {
			names = append(names, x.Name)
		}
	}
	return names
}
