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
}

// String is RESOURCE NAMESPACE/NAME.
func (f Found) String() string {
	if f.Namespace == "" {
		return f.Resource + " " + f.Name
	}
	return f.Resource + " " + f.Namespace + "/" + f.Name
}

// Find lists what carries the stamp of a run, of any run where it is empty, over
// all resources that the server serves and lists, but events, which end by
// themselves. unread says what could not be looked at; err is why nothing could.
func Find(ctx context.Context, client discovery.Doer, run string) (found []Found, unread, err error) {
	served, incomplete := discovery.New(client).Listable(ctx)
	if len(served) == 0 {
		return nil, nil, cmp.Or(incomplete, errors.New("the server serves nothing"))
	}
	selector := object.RunLabel
	if run != "" {
		selector += "=" + run
	}
	faults := []error{incomplete}
	var mu sync.Mutex
	var wait guard.Group
	turn := make(chan struct{}, atOnce)
	for _, r := range served {
		if r.Plural == "events" {
			continue
		}
		turn <- struct{}{}
		wait.Go(func() {
			defer func() { <-turn }()
			list, err := findOf(ctx, client, r, selector)
			mu.Lock()
			defer mu.Unlock()
			found, faults = append(found, list...), append(faults, err)
		})
	}
	wait.Wait()
	slices.SortFunc(found, func(a, b Found) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return once(found), errors.Join(faults...), nil
}

// tries is how often a resource is listed that a server does not answer for yet, such
// as one that was defined a moment ago.
const tries = 5

func findOf(ctx context.Context, client discovery.Doer, r discovery.Resource, selector string) (out []Found, err error) {
	for range tries {
		out, err = listOf(ctx, client, r, selector)
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

func listOf(ctx context.Context, client discovery.Doer, r discovery.Resource, selector string) (out []Found, err error) {
	err = discovery.ListMetadata(ctx, client, r.All(), selector, func(o discovery.Metadata) {
		run := o.Labels[object.RunLabel]
		if run == "" || o.UID == "" {
			return // a server that does not know of selectors
		}
		f := Found{Object: Object{r.Object(o.Namespace, o.Name), o.UID}, Run: run, Resource: r.Name, Namespace: o.Namespace, Name: o.Name, Created: o.Created}
		for _, owner := range o.OwnerReferences {
			f.owners = append(f.owners, owner.UID)
		}
		out = append(out, f)
	})
	var status *wire.StatusError
	if errors.As(err, &status) && (status.Code == http.StatusNotFound || status.Code == http.StatusMethodNotAllowed) {
		return nil, nil // it is not served any more, or was never to be listed
	}
	return out, err
}

// once leaves out the objects that are served under a second name.
func once(found []Found) (out []Found) {
	seen := map[string]bool{}
	for _, f := range found {
		if !seen[f.UID] {
			seen[f.UID] = true
			out = append(out, f)
		}
	}
	return out
}

// rounds is how often Sweep looks whether there is more: controllers may have made
// something of what was just being deleted.
const rounds = 3

// Sweeper deletes what runs have made.
type Sweeper struct {
	Client discovery.Doer
	Within time.Duration // for each part of it: one that hangs takes nothing from the others
	// Orphaned says that nobody plays the run's nodes any more. They go first then:
	// pods on them end only because the cluster's own controller misses the node.
	Orphaned bool
}

// Sweep deletes what carries the stamp of a run, and waits until it is gone. The
// error says what was left behind.
func (s Sweeper) Sweep(ctx context.Context, run string) error {
	for range rounds {
		found, unread, err := Find(ctx, s.Client, run)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return unread
		}
		if err := s.Remove(ctx, found); err != nil {
			return errors.Join(err, unread)
		}
	}
	return nil
}

// Remove deletes what Find has found in the order in which it does least harm:
// what intercepts the calls of others, then namespaces with all that is in them
// and what is in the namespaces of others, then what is in none, definitions
// last. What has an owner among them goes with it.
func (s Sweeper) Remove(ctx context.Context, found []Found) error {
	uids, spaces := map[string]bool{}, map[string]bool{}
	for _, f := range found {
		uids[f.UID] = true
		if f.Resource == "namespaces" {
			spaces[f.Name] = true
		}
	}
	var parts [4][]Object
	for _, f := range found {
		owned := slices.ContainsFunc(f.owners, func(uid string) bool { return uids[uid] })
		if !owned && !spaces[f.Namespace] {
			parts[s.part(f)] = append(parts[s.part(f)], f.Object)
		}
	}
	var faults []error
	for _, part := range parts {
		if len(part) > 0 {
			faults = append(faults, s.removePart(ctx, part))
		}
	}
	return errors.Join(faults...)
}

func (s Sweeper) removePart(ctx context.Context, part []Object) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Within, fmt.Errorf("%v have passed", s.Within))
	defer cancel()
	return deleteAll(ctx, s.Client, part)
}

// part says with which part of all an object is deleted.
func (s Sweeper) part(f Found) int {
	plural, group, _ := strings.Cut(f.Resource, ".")
	switch {
	case s.Orphaned && f.Resource == "nodes", group == "admissionregistration.k8s.io", group == "apiregistration.k8s.io":
		return 0
	case f.Namespace != "", f.Resource == "namespaces":
		return 1
	case plural == "customresourcedefinitions":
		return 3
	}
	return 2
}
