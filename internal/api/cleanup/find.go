package cleanup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Found is an object that carries the stamp of a run.
type Found struct {
	Object
	Run       string
	Resource  string // as discovery.Resource.Name
	Namespace string // empty: it is in none
	Name      string
	Created   time.Time // by the server's clock
	owners    []string  // their UIDs
	by        []string  // the managers that have put the label there
	managed   bool      // the server keeps managers of the object's fields
	held      []string  // by these finalizers
}

// String is RESOURCE NAMESPACE/NAME.
func (f Found) String() string {
	if f.Namespace == "" {
		return f.Resource + " " + f.Name
	}
	return f.Resource + " " + f.Namespace + "/" + f.Name
}

// Look is a look for what runs have made.
type Look struct {
	Client     discovery.Doer
	Run        string             // of this run alone; empty: of any
	Namespaces []string           // where it looks for what the user may not list in all of them
	Looked     func(done, of int) // told after each resource; may be nil
	Exact      bool               // nothing lies where the user may not look: a run that had the rights for it
}

// Find lists what carries the stamp of a run, of any run where it is empty, over
// all resources that the server serves and lists, but events, which end by
// themselves. unread says what could not be looked at; err is why nothing could.
func (l Look) Find(ctx context.Context) (found []Found, unread, err error) {
	client, run := l.Client, l.Run
	served, incomplete := discovery.New(client).Listable(ctx)
	if len(served) == 0 {
		return nil, nil, cmp.Or(incomplete, errors.New("the server serves nothing"))
	}
	selector := object.RunLabel
	if run != "" {
		selector += "=" + run
	}
	var refused []string
	var missed discovery.Unlisted
	var mu sync.Mutex
	var wait guard.Group
	turn := make(chan struct{}, atOnce)
	done := 0
	for _, r := range served {
		if r.Plural == "events" {
			continue
		}
		turn <- struct{}{}
		wait.Go(func() {
			defer func() { <-turn }()
			list, err := l.findOf(ctx, r, selector)
			mu.Lock()
			defer mu.Unlock()
			done++
			if l.Looked != nil {
				l.Looked(done, len(served))
			}
			if found = append(found, list...); isForbidden(err) && l.Exact {
				return
			} else if isForbidden(err) {
				refused = append(refused, r.Name)
			} else {
				missed.Add(r.Name, err)
			}
		})
	}
	wait.Wait()
	slices.SortFunc(found, func(a, b Found) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return uniqueByUID(found), errors.Join(incomplete, missed.Err(len(served)), unlistedError(refused, len(served))), nil
}

// unlistedError says in one sentence which resources the user may not list.
func unlistedError(refused []string, of int) error {
	if len(refused) == 0 {
		return nil
	}
	slices.Sort(refused)
	names := strings.Join(refused[:min(len(refused), maxNamed)], ", ")
	if len(refused) > maxNamed {
		names += " ..."
	}
	return fmt.Errorf("%d of %d resources %w: %s", len(refused), of, errMayNot, names)
}

var errMayNot = errors.New("may not be listed by this user")

func isForbidden(err error) bool {
	var status *wire.StatusError
	return errors.As(err, &status) && status.Code == http.StatusForbidden
}

// tries is how often a resource is listed that a server does not answer for yet, such
// as one that was defined a moment ago.
const tries = 5

func (l Look) findOf(ctx context.Context, r discovery.Resource, selector string) (out []Found, err error) {
	out, err = l.listWithRetries(ctx, r, r.All(), selector)
	if !isForbidden(err) || !r.Namespaced {
		return out, err
	}
	for _, namespace := range l.Namespaces {
		list, here := l.listWithRetries(ctx, r, r.Collection(namespace), selector)
		if out = append(out, list...); here == nil {
			err = nil // where it may look it did
		}
	}
	return out, err
}

// listWithRetries lists until a server that is busy, or not ready, has answered.
func (l Look) listWithRetries(ctx context.Context, r discovery.Resource, path, selector string) (out []Found, err error) {
	for range tries {
		out, err = listOf(ctx, l.Client, r, path, selector, l.Run)
		var status *wire.StatusError
		if !errors.As(err, &status) || status.Code != http.StatusTooManyRequests && status.Code < http.StatusInternalServerError {
			break
		}
		if clock.Sleep(ctx, 10*pollEvery) != nil {
			break
		}
	}
	return out, err
}

func listOf(ctx context.Context, client discovery.Doer, r discovery.Resource, path, selector, only string) (out []Found, err error) {
	err = discovery.ListMetadata(ctx, client, path, selector, func(o discovery.Metadata) {
		run := o.Labels[object.RunLabel]
		if run == "" || o.UID == "" || only != "" && run != only {
			return // a server that does not know of selectors
		}
		out = append(out, foundOf(r, o))
	})
	var status *wire.StatusError
	if errors.As(err, &status) && (status.Code == http.StatusNotFound || status.Code == http.StatusMethodNotAllowed) {
		return nil, nil // it is not served any more, or was never to be listed
	}
	return out, err
}

func foundOf(r discovery.Resource, o discovery.Metadata) Found {
	f := Found{
		Object: Object{Path: r.Object(o.Namespace, o.Name), UID: o.UID}, Run: o.Labels[object.RunLabel], Resource: r.Name, Namespace: o.Namespace, Name: o.Name, Created: o.Created,
		by: labeledBy(o), managed: len(o.ManagedFields) > 0, held: o.Finalizers,
	}
	for _, owner := range o.OwnerReferences {
		f.owners = append(f.owners, owner.UID)
	}
	return f
}

// uniqueByUID leaves out the objects that are served under a second name.
func uniqueByUID(found []Found) (out []Found) {
	seen := map[string]bool{}
	for _, f := range found {
		if !seen[f.UID] {
			seen[f.UID] = true
			out = append(out, f)
		}
	}
	return out
}

// rounds is how often Sweep removes what it finds: controllers may have made something
// of what was just being deleted, and what is owned by owned objects ends one after another.
const rounds = 8

// ErrNoAnswer says that a sweep ended because the server did not say what it serves.
var ErrNoAnswer = errors.New("the cluster does not answer")

// Sweeper deletes what runs have made.
type Sweeper struct {
	Client discovery.Doer
	Within time.Duration // for all deletions together; a part that hangs leaves the later ones some of it
	// Orphaned says that nobody plays the run's nodes any more, nor are its controllers there.
	// The nodes go first then, and pods on them are deleted without a grace period. Objects that wait for a controller of the run lose their finalizers.
	Orphaned bool
	// Namespaces are where it looks for what the user may not list in all of them.
	Namespaces []string
	Exact      bool // see Look
}

// Sweep deletes what a run has made, waits until it is gone, and looks a last time. first
// is what was found already; nil: it looks. The error says what was left, and why.
func (s Sweeper) Sweep(ctx context.Context, run string, first []Found) error {
	var before []Found
	var faults error
	pause := collectedFirst
	var within deadline // from the first deletion on: what a slow cluster takes to say what it has is not counted
	for round := 0; ; round++ {
		found, unread := first, error(nil)
		if round > 0 || first == nil {
			var err error
			if found, unread, err = s.findPatiently(ctx, run); err != nil {
				return errors.Join(faults, ErrNoAnswer, err)
			}
		}
		made, others := Prove(found, before)
		switch {
		case len(made) == 0 && faults == nil && pause < collectedLast && (hasOrphans(others) || unread != nil && !errors.Is(unread, errMayNot)) && clock.Sleep(ctx, pause) == nil:
			pause *= 2
			continue
		case len(made) == 0, faults != nil: // what could not be deleted then cannot be now
			return errors.Join(faults, Foreign(others), unread)
		case round >= rounds:
			return errors.Join(remainError(made), Foreign(others), unread)
		}
		if before == nil {
			within = newDeadline(s.Within)
		}
		if s.Orphaned {
			made = append(made, s.findOrphans(ctx, made)...)
		}
		before = append(before, made...)
		faults = s.remove(ctx, within, made)
	}
}

// findPatiently looks again when the server has not said what it serves: it may be busy, or
// start again.
func (s Sweeper) findPatiently(ctx context.Context, run string) (found []Found, unread, err error) {
	pause := time.Second
	for try := 1; ; try++ {
		found, unread, err = (Look{Client: s.Client, Run: run, Namespaces: s.Namespaces, Exact: s.Exact}).Find(ctx)
		if err == nil || try == tries || clock.Sleep(ctx, pause) != nil {
			return found, unread, err
		}
		pause *= 2
	}
}

// An API that an aggregated server answered is served for a moment after the run's APIService
// is gone: what could not be looked at is looked at again.
//
// An object may belong to one of the run's by an owner that does not carry the label, such as
// the pod of a Job of a CronJob. It is not deleted, for want of proof, but the cluster's
// garbage collector may be about to: it is looked for again after pauses that double.
const collectedFirst, collectedLast = 500 * time.Millisecond, 10 * time.Second

// hasOrphans says whether there are objects with owners that were not found.
func hasOrphans(others []Found) bool {
	there := map[string]bool{}
	for _, f := range others {
		there[f.UID] = true
	}
	return slices.ContainsFunc(others, func(f Found) bool {
		return slices.ContainsFunc(f.owners, func(uid string) bool { return !there[uid] })
	})
}

// remainError says what is there still, or again.
func remainError(left []Found) error {
	names := make([]string, 0, maxNamed)
	for _, f := range left[:min(len(left), maxNamed)] {
		names = append(names, f.String())
	}
	return fmt.Errorf("%s left after %s, or made again: %s", unit.Count(len(left), "objects"), unit.Count(rounds, "deletions"), strings.Join(names, ", "))
}

// remove deletes objects in the order in which it does least harm:
// what intercepts the calls of others, then namespaces with all that is in them
// and what is in the namespaces of others, then what is in none, definitions
// last. What has an owner among them goes with it, but for owners in a ring.
func (s Sweeper) remove(ctx context.Context, all deadline, found []Found) error {
	byUID, spaces, nodes := map[string]Found{}, map[string]bool{}, map[string]bool{}
	var pods []Object
	for _, f := range found {
		byUID[f.UID] = f
		switch f.Resource {
		case "namespaces":
			spaces[f.Name] = true
		case "nodes":
			nodes[f.Name] = true
		case "pods":
			pods = append(pods, f.Object)
		}
	}
	var parts [4][]Object
	defined := definedBy(found)
	for _, f := range found {
		f.orphan = f.orphan || s.Orphaned && len(f.held) > 0 && defined[f.Resource]
		if f.orphan || !f.goesWithOwner(byUID) && !spaces[f.Namespace] {
			parts[s.deletionPart(f)] = append(parts[s.deletionPart(f)], f.Object)
		}
	}
	var faults []error
	later := 0 // parts that are not empty
	for _, part := range parts {
		later += min(len(part), 1)
	}
	for i, part := range parts {
		if len(part) > 0 {
			later--
			faults = append(faults, s.removePart(ctx, all, later, part))
		}
		if i == 0 && s.Orphaned && len(nodes) > 0 { // the nodes are gone now
			var wait guard.Group
			ending, done := context.WithCancel(ctx)
			wait.Go(func() { endPods(ending, s.Client, nodes, pods) })
			defer wait.Wait()
			defer done()
		}
	}
	return errors.Join(faults...)
}

// definitions are the objects by which a run defines kinds of its own; each is named as its
// resource.
const definitions = "customresourcedefinitions.apiextensions.k8s.io"

// definedBy returns the resources that a run itself has defined. Finalizers of their objects
// are its controllers'; those of all other objects may be somebody else's.
func definedBy(found []Found) map[string]bool {
	out := map[string]bool{}
	for _, f := range found {
		if f.Resource == definitions {
			out[f.Name] = true
		}
	}
	return out
}

// goesWithOwner says whether an object goes with one that is deleted: whether going from owner
// to owner leads to one that has none here. A ring of owners leads nowhere.
func (f Found) goesWithOwner(byUID map[string]Found) bool {
	seen := map[string]bool{f.UID: true}
	for at := f; ; {
		next := slices.IndexFunc(at.owners, func(uid string) bool { return byUID[uid].UID != "" })
		if next < 0 {
			return at.UID != f.UID
		}
		if at = byUID[at.owners[next]]; seen[at.UID] {
			return false
		}
		seen[at.UID] = true
	}
}

// removePart deletes a part, before as many later ones.
func (s Sweeper) removePart(ctx context.Context, all deadline, later int, part []Object) error {
	share := ShareOf(all.left(), later)
	ctx, cancel := context.WithTimeoutCause(ctx, share, fmt.Errorf("%v have passed", share.Round(time.Millisecond)))
	defer cancel()
	return deleteAll(ctx, s.Client, part)
}

// deadline is when a sweep gives up.
type deadline struct {
	clock  clock.Clock
	within time.Duration
}

func newDeadline(within time.Duration) deadline { return deadline{clock.Start(), within} }

func (d deadline) left() time.Duration {
	return max(0, d.within-d.clock.Now().Sub(0))
}

// laterShare is what each part that is still to come is left of a deadline, where there is
// as much: enough to delete what does not hang.
const laterShare = 10 * time.Second

// ShareOf is how much of the time that is left a part may take, before as many later ones.
func ShareOf(left time.Duration, later int) time.Duration {
	return left - time.Duration(later)*min(laterShare, left/time.Duration(later+1))
}

// deletionPart says with which part of all an object is deleted.
func (s Sweeper) deletionPart(f Found) int {
	_, group, _ := strings.Cut(f.Resource, ".")
	switch {
	case s.Orphaned && f.Resource == "nodes", group == "admissionregistration.k8s.io", group == "apiregistration.k8s.io":
		return 0
	case f.Namespace != "", f.Resource == "namespaces":
		return 1
	case f.Resource == definitions:
		return 3
	}
	return 2
}
