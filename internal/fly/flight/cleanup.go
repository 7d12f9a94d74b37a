package flight

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/cleanup"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/scenario"
)

// cleanUpTime bounds the deletion of what a run made in a cluster that outlives it; then that
// of its nodes.
const cleanUpTime = 3 * time.Minute

// newID makes up the id of a run: ten letters and digits, 50 bits.
func newID() string { return strings.ToLower(rand.Text()[:10]) }

// newStamp is what everything carries that the run makes in a cluster that is not its
// own; none on a plane that ends with it.
func (r *run) newStamp() object.Stamp {
	if r.ownsPlane() {
		return object.Stamp{}
	}
	s := object.Stamp{Run: r.id, Nodes: slices.ContainsFunc(r.scenario.Subjects, func(x scenario.Subject) bool { return len(x.Windtunnel) > 0 })}
	if f := r.scenario.Fleet; f.Nodes > 0 && f.Taint != scenario.TaintNone {
		s.Fleet = r.fleetName()
	}
	return s
}

// fleetName tells this run's nodes from those of others in a cluster that we
// share; on a plane of our own the default does.
func (r *run) fleetName() string {
	if r.ownsPlane() {
		return ""
	}
	return "windtunnel-" + r.id
}

// visit is the stay of a run in a cluster that is not its own.
type visit struct {
	client  *wire.Client // for what comes before and after; nil: the cluster is the run's own
	release func()       // of the lease that says that the run is there; nil: there is none
}

// cleanUp takes what this run made out of a cluster that goes on living, however
// the run ended: all that carries its stamp. Nodes go last, since pods end on
// them. A plane of our own is thrown away whole.
func (r *run) cleanUp(ctx context.Context) {
	if r.visit.client == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	if r.visit.release != nil {
		defer r.visit.release()
	}
	sweeper := cleanup.Sweeper{Client: r.visit.client, Within: cleanUpTime, Namespaces: r.workload.Rights().Namespaces(), Exact: !r.workload.WatchesPods()}
	err := sweeper.Sweep(ctx, r.id, nil)
	// A subject makes again what is taken from it, such as its lease, until it ends; before
	// that it takes its finalizers off.
	if r.endSubjects(ctx) && !errors.Is(err, cleanup.ErrNoAnswer) {
		err = sweeper.Sweep(ctx, r.id, nil)
	}
	if !errors.Is(err, cleanup.ErrNoAnswer) { // nor would it answer a deletion of nodes
		err = errors.Join(err, r.deleteNodes(ctx))
	}
	if err != nil {
		r.log.Warn("something may have been left behind", slog.String("remove", "windtunnel clean --kubeconfig "+r.options.Kubeconfig+" --run "+r.id), slog.Any("error", err))
	}
}

// endSubjects ends the subjects, wherever they are, and says whether there were any.
func (r *run) endSubjects(ctx context.Context) bool {
	found := r.plane != nil && r.plane.EndPrograms()
	found = r.subjects.endCaller() || found
	return r.workers != nil && r.workers.EndSubjects(ctx) || found
}

// deleteNodes ends the fleet's nodes: it makes no more of them.
func (r *run) deleteNodes(ctx context.Context) error {
	if r.fleet == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cleanUpTime, fmt.Errorf("%v have passed", cleanUpTime))
	defer cancel()
	return r.fleet.Delete(ctx)
}
