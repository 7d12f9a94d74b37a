package cleanup

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
)

// findOrphans returns what the dead controllers of a run have made and nobody of ours has
// labeled, and what waits for them: objects of kinds that the run has defined, which end with
// their definition, and what these own, directly or not. Of what they own only objects with a
// finalizer of the run's kinds are returned, such as a node that a provisioner of nodes has
// made: others are the garbage collector's. What cannot be listed is not found; the definition
// that is left says so.
func (s Sweeper) findOrphans(ctx context.Context, made []Found) (out []Found) {
	defined, known := definedBy(made), map[string]bool{}
	if len(defined) == 0 {
		return nil
	}
	for _, f := range made {
		known[f.UID] = true
	}
	served, _ := discovery.New(s.Client).Listable(ctx)
	of := map[string]bool{} // UIDs of objects of the run's kinds, and of what they own
	waits := false
	for _, f := range made {
		if defined[f.Resource] {
			of[f.UID], waits = true, waits || len(f.held) > 0
		}
	}
	for _, f := range s.listAll(ctx, served, func(r discovery.Resource) bool { return defined[r.Name] }) {
		if of[f.UID], waits = true, waits || len(f.held) > 0; !known[f.UID] {
			out = append(out, f)
		}
	}
	if !waits {
		return out
	}
	owned := s.listAll(ctx, served, func(r discovery.Resource) bool { return !defined[r.Name] && r.Plural != "events" })
	for grown := true; grown; {
		grown = false
		for _, f := range owned {
			if !of[f.UID] && slices.ContainsFunc(f.owners, func(uid string) bool { return of[uid] }) {
				of[f.UID], grown = true, true
			}
		}
	}
	for _, f := range owned {
		if f.release(defined); of[f.UID] && f.orphan && !known[f.UID] {
			out = append(out, f)
		}
	}
	return out
}

// release makes an object an orphan that has a finalizer of a group of kinds. Others' stay.
func (f *Found) release(kinds map[string]bool) {
	keep := slices.DeleteFunc(slices.Clone(f.held), func(finalizer string) bool {
		of, _, _ := strings.Cut(finalizer, "/")
		for kind := range kinds {
			if _, group, _ := strings.Cut(kind, "."); of == group || strings.HasSuffix(of, "."+group) {
				return true
			}
		}
		return false
	})
	if f.orphan = len(keep) < len(f.held); f.orphan && len(keep) > 0 {
		raw, _ := json.Marshal(keep) // strings
		f.keep = string(raw)
	}
}

// listAll lists the objects of resources that are wanted, as far as the user may.
func (s Sweeper) listAll(ctx context.Context, served []discovery.Resource, wanted func(discovery.Resource) bool) (out []Found) {
	for _, r := range served {
		if wanted(r) {
			_ = discovery.ListMetadata(ctx, s.Client, r.All(), "", func(o discovery.Metadata) {
				out = append(out, foundOf(r, o))
			})
		}
	}
	return uniqueByUID(out)
}
