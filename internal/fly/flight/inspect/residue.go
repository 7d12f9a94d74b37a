package inspect

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/flight/preflight"
)

// Who made an object is told by who manages its fields: windtunnel's clients
// all begin so.
const (
	ours        = "windtunnel"
	oursFleet   = "windtunnel-fleet"
	aliveWithin = time.Minute // a lease renewed so recently is that of a fleet that runs
)

// renewal is when the fleets of others renewed a lease last.
type renewal struct {
	last  time.Time  // by the server's clock; zero: there is none
	seen  clock.Time // when it was first seen, by ours
	moved bool       // from one look to another
}

// isFleetAlive tells whether a fleet runs whose newest lease was renewed at last, when
// the newest time of what anybody else wrote is that. Both are times of the
// server: its clock may be far from ours. Where nobody else wrote anything, ours
// has to do.
func (i *Inspector) isFleetAlive(last, others time.Time) bool {
	now, was := i.Clock.Now(), &i.renewed
	if last.After(was.last) {
		*was = renewal{last, now, !was.last.IsZero()}
	}
	if others.IsZero() {
		others = i.Clock.Wall(now)
	}
	switch {
	case last.IsZero() || now.Sub(was.seen) >= aliveWithin:
		return false
	case was.moved:
		return true
	}
	return others.Sub(last) < aliveWithin
}

// AddLeftovers lists the objects of all served resources and notes those that are on
// their way out, and those that an earlier run left behind. A fleet that runs in
// the cluster by itself belongs to it.
func (i *Inspector) AddLeftovers(ctx context.Context, s *preflight.State) {
	var left, nodes []preflight.Object
	var last, others time.Time
	i.listObjects(ctx, s, nil, func(resource string, o discovery.Metadata) {
		one := addTerminating(resource, o, s)
		mine, fleet := false, true
		for _, f := range o.ManagedFields {
			switch {
			case !strings.HasPrefix(f.Manager, ours):
				others = latestOf(others, f.Time)
				continue
			case f.Manager == oursFleet && strings.HasPrefix(resource, "leases."):
				last = latestOf(last, f.Time)
			}
			mine, fleet = true, fleet && f.Manager == oursFleet
		}
		switch {
		case o.DeletionTimestamp != "" || !mine:
		case i.Run != "" && o.Labels[object.RunLabel] == i.Run, i.Installed.Has(resource, o.Namespace, o.Name): // this run's
		case fleet:
			nodes = append(nodes, one)
		default:
			left = append(left, one)
		}
	})
	if !i.isFleetAlive(last, others) {
		left = append(left, nodes...)
	}
	s.Leftovers = left
}

func latestOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// addTerminating notes an object that is on its way out. Of others it does not matter what
// would hold them.
func addTerminating(resource string, o discovery.Metadata, s *preflight.State) preflight.Object {
	one := preflight.Object{Resource: resource, Namespace: o.Namespace, Name: o.Name}
	if o.DeletionTimestamp != "" {
		one.Finalizers = o.Finalizers
		s.Terminating = append(s.Terminating, one)
	}
	return one
}

// AddTerminating notes the objects that are on their way out. In a plane of our
// own that had so many stored objects at first it lists only what the run has
// touched, and what there is more of than at first: its calls are among those
// that the run measures.
func (i *Inspector) AddTerminating(ctx context.Context, s *preflight.State, stored map[string]float64, touched map[string]bool) {
	var some func(resource string) bool
	if i.Own && stored != nil {
		some = func(resource string) bool { return touched[resource] || i.stored[resource] > stored[resource] }
	}
	i.listObjects(ctx, s, some, func(resource string, o discovery.Metadata) { addTerminating(resource, o, s) })
}

// listObjects lists the objects of all served resources but events, which come and
// go by themselves, or of those that some says. What is not for us to read is
// left out.
func (i *Inspector) listObjects(ctx context.Context, s *preflight.State, some func(resource string) bool, each func(resource string, o discovery.Metadata)) {
	all, err := i.served, error(nil)
	if all == nil {
		all, err = discovery.New(i.Client).Listable(ctx)
	}
	switch {
	case err != nil && len(all) == 0:
		s.Unread = append(s.Unread, err.Error())
	case err != nil:
		s.Down = append(s.Down, strings.ReplaceAll(err.Error(), "\n", "; "))
	default:
		i.served = all
	}
	var missed discovery.Unlisted
	for _, one := range all {
		if one.Plural == "events" || some != nil && !some(one.Name) {
			continue
		}
		err := discovery.ListMetadata(ctx, i.Client, one.All(), "", func(o discovery.Metadata) { each(one.Name, o) })
		var status *wire.StatusError
		if refused := errors.As(err, &status) && slices.Contains([]int{http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed}, status.Code); !refused {
			missed.Add(one.Name, err)
		}
	}
	if err := missed.Err(len(all)); err != nil {
		s.Unread = append(s.Unread, err.Error())
	}
}
