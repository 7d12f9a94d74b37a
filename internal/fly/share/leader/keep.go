package leader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/member"
	"github.com/windtunnel/windtunnel/internal/fly/share/message"
	"github.com/windtunnel/windtunnel/internal/fly/share/protocol"
	"github.com/windtunnel/windtunnel/internal/fly/subject"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/share"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// KeepNodes has the workers make the fleet's nodes, each its own, and waits until
// all can be scheduled to. They keep them alive until they leave.
func (w *Workers) KeepNodes(ctx context.Context) error {
	nodes := w.run.Workload.Scenario.Fleet.Nodes
	err := w.keepUntilEnd(ctx, message.Keep{Nodes: true}, func(worker int, said json.RawMessage) error {
		var got message.Nodes
		if err := json.Unmarshal(said, &got); err != nil {
			return err
		}
		part := share.Share{Index: worker - w.run.Workers, Of: w.run.Fleets}
		if want := (message.Nodes{Share: part, Nodes: part.Count(nodes)}); got != want {
			return fmt.Errorf("%w: it has planned other nodes than the leader: %+v, not %+v", message.ErrWorkers, got, want)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the fleet's %s did not all become schedulable: %w", unit.Count(nodes, "nodes"), err)
	}
	return nil
}

// ServeMembers has the fleet workers be a group of hollow members: of all the run's
// hollow members number i is worker i mod M's. It returns how each is reached.
func (w *Workers) ServeMembers(ctx context.Context, group member.HollowGroup) ([]member.HollowReach, int, error) {
	out := make([]member.HollowReach, len(group.Names))
	from := w.hollow
	w.hollow += len(group.Names)
	part := message.Keep{Members: &message.Members{Group: group, From: from}}
	err := w.keepUntilEnd(ctx, part, func(worker int, said json.RawMessage) error {
		var reach member.HollowReach
		if err := json.Unmarshal(said, &reach); err != nil {
			return err
		}
		mine, err := checkMembers(group.Names, from, share.Share{Index: worker - w.run.Workers, Of: w.run.Fleets}, reach.Addresses)
		for _, i := range mine {
			out[i] = reach
		}
		return err
	})
	return out, w.run.Fleets, err
}

// checkMembers returns which of a group's members are a worker's, of which the first is number
// from among those of the run, and says what is wrong with the addresses that it has for them.
func checkMembers(names []string, from int, its share.Share, addresses map[string]string) (mine []int, err error) {
	for i, name := range names {
		if !its.Has(from + i) {
			continue
		}
		if mine = append(mine, i); addresses[name] == "" {
			return nil, fmt.Errorf("%w: it does not have %s", message.ErrWorkers, name)
		}
	}
	if more := len(addresses) - len(mine); more != 0 {
		return nil, fmt.Errorf("%w: it has %s that are others'", message.ErrWorkers, unit.Count(more, "members"))
	}
	return mine, nil
}

// StartSubject has the fleet worker whose turn it is start a subject.
func (w *Workers) StartSubject(ctx context.Context, prepared *subject.Prepared) (fact record.SubjectFact, err error) {
	name := prepared.Name()
	worker := w.run.Workers + slices.Index(sharableSubjects(w.run.Workload.Scenario), name)%w.run.Fleets
	part := message.Subject{Name: name, Self: w.run.Self, Kubeconfig: prepared.Kubeconfig}
	if part.Folder, err = filepath.Abs(filepath.Dir(w.run.Workload.File)); err == nil {
		part.Logs, err = filepath.Abs(w.run.Dir.File(record.LogFolder))
	}
	if err == nil && w.run.Kubeconfig == "" {
		part.Identity, err = os.ReadFile(prepared.Kubeconfig)
	}
	if err != nil {
		return fact, fmt.Errorf("start %s: %w", name, err)
	}
	var started subject.Started
	one := protocol.Group{From: worker, Below: worker + 1}
	outcomes, _, err := w.leader.Do(ctx, one, message.Keep{Subject: &part}, func(int, json.RawMessage) error { return nil })
	switch {
	case err != nil:
		return fact, err
	case len(outcomes) != 1:
		return fact, fmt.Errorf("start %s: worker %d is not there: %w", name, worker, message.ErrWorkers)
	case outcomes[0].Err != nil:
		return fact, fmt.Errorf("worker %d: %w", worker, outcomes[0].Err)
	}
	if err := json.Unmarshal(outcomes[0].Ended, &started); err != nil {
		return fact, fmt.Errorf("worker %d: start %s: %w", worker, name, err)
	}
	w.subjects = true
	started.Fact.Worker = &worker
	return started.Fact, started.Join(w.run.Plane)
}

// endedWithin is how long workers may take to end their subjects.
const endedWithin = 30 * time.Second

// EndSubjects ends the subjects of the workers, which go on keeping what else they have, and
// says whether there were any.
func (w *Workers) EndSubjects(ctx context.Context) bool {
	if !w.subjects {
		return false
	}
	ctx, cancel := context.WithTimeoutCause(ctx, endedWithin, fmt.Errorf("within %v", endedWithin))
	defer cancel()
	if err := w.keepUntilEnd(ctx, message.Keep{EndSubjects: true}, func(int, json.RawMessage) error { return nil }); err != nil {
		w.run.Log.Warn("subjects of workers did not end", slog.Any("error", err))
	}
	return true
}

// keepUntilEnd has all who keep nodes do a part of what goes on until the end, and returns when it does.
func (w *Workers) keepUntilEnd(ctx context.Context, part message.Keep, check func(worker int, said json.RawMessage) error) error {
	who := w.run.keeperGroup()
	outcomes, _, err := w.leader.Do(ctx, who, part, check)
	if err != nil {
		return err
	}
	var errs []error
	for i, o := range outcomes {
		if o.Err != nil {
			errs = append(errs, fmt.Errorf("worker %d: %w", who.From+i, o.Err))
		}
	}
	return errors.Join(errs...)
}
