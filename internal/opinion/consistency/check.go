package consistency

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// history is an index of accesses.
type history struct {
	report  Report
	writes  []Access
	byValue map[string]Access   // creates and updates by value
	deletes map[string][]Access // by key: those that may have been done to any object of it
	gone    map[string]Access   // acknowledged deletes, by UID
	acked   map[string][]Access // acknowledged creates and updates, by key
	lists   []*snapshot         // final ones, in the order of their end
	watches map[string][]Access // by server, as they came
	changes map[uint64]Access   // by version: those that were acknowledged, or that a watch brought
}

// snapshot is what a read saw of some keys.
type snapshot struct {
	server     string
	sent, done clock.Time
	items      map[string]Access
	complete   bool
}

// Check checks the accesses of one step, in any order but that the events of each watch
// are in theirs.
func Check(all []Access) Report {
	h := &history{byValue: map[string]Access{}, deletes: map[string][]Access{}, gone: map[string]Access{},
		acked: map[string][]Access{}, watches: map[string][]Access{}, changes: map[uint64]Access{}}
	for _, a := range all {
		h.add(a)
	}
	h.collectLists(all)
	h.report.Gap = longestGap(h.writes)
	if len(h.writes) > 0 && h.report.Acknowledged == 0 {
		h.report.Incomplete = append(h.report.Incomplete, fmt.Sprintf("none of %d writes was acknowledged, so that none could be lost", len(h.writes)))
	}
	h.checkValues(all)
	h.checkOrder()
	h.checkCreations()
	for _, a := range all {
		if a.Verb == Get && (a.acknowledged() || a.Code == 404) {
			h.checkRead(Stale, a.Key, a, a.acknowledged(), "a read")
		}
	}
	h.checkLists()
	for _, server := range slices.Sorted(maps.Keys(h.watches)) {
		h.checkWatch(server, h.watches[server])
	}
	return h.report
}

func (h *history) violate(rule Rule, key, format string, args ...any) {
	h.report.Violations = append(h.report.Violations, Violation{rule, key, fmt.Sprintf(format, args...)})
}

// add indexes an access.
func (h *history) add(a Access) {
	switch {
	case a.Verb == Watch:
		h.report.Reads++
		h.watches[a.Server] = append(h.watches[a.Server], a)
		if _, known := h.changes[a.Version]; !known && (a.Event == record.AccessChanged || a.Event == record.AccessDeleted) {
			h.changes[a.Version] = a
		}
		return
	case !a.write():
		h.report.Reads++
		return
	}
	h.writes = append(h.writes, a)
	switch {
	case a.acknowledged():
		h.report.Acknowledged++
	case !a.refused():
		h.report.Unknown++
	}
	if a.Verb == Delete {
		h.addDelete(a)
		return
	}
	h.byValue[a.Value] = a
	if a.acknowledged() {
		h.acked[a.Key] = append(h.acked[a.Key], a)
		h.changes[a.Version] = a
	}
}

func (h *history) addDelete(a Access) {
	switch {
	case a.refused():
	case !a.acknowledged() || a.UID == "":
		h.deletes[a.Key] = append(h.deletes[a.Key], a)
	default:
		if _, twice := h.gone[a.UID]; twice {
			h.violate(Doubled, a.Key, "two deletions of UID %s were acknowledged", a.UID)
		}
		h.gone[a.UID] = a
	}
}

// collectLists gathers the final lists: their items come before their end.
func (h *history) collectLists(all []Access) {
	open := map[string]*snapshot{}
	for _, a := range all {
		if a.Verb != List {
			continue
		}
		s := open[a.Server]
		if s == nil {
			s = &snapshot{server: a.Server, items: map[string]Access{}}
			open[a.Server] = s
			h.lists = append(h.lists, s)
		}
		if a.Key != "" {
			s.items[a.Key] = a
			continue
		}
		s.sent, s.done, s.complete = a.Sent, a.Done, a.acknowledged()
		if !s.complete {
			h.report.Incomplete = append(h.report.Incomplete, fmt.Sprintf("%s answered no list at the end", named(a.Server)))
		}
	}
	if len(h.lists) == 0 {
		h.report.Incomplete = append(h.report.Incomplete, "no list was read at the end")
	}
	slices.SortStableFunc(h.lists, func(a, b *snapshot) int { return cmp.Compare(a.done, b.done) })
}

func named(server string) string {
	if server == "" {
		return "the API server"
	}
	return server
}

// place is where a value was seen first.
type place struct {
	uid     string
	version uint64
}

// checkValues checks that each value that was seen was written, and was done once.
func (h *history) checkValues(all []Access) {
	seen, told := map[string]place{}, map[string]bool{}
	for _, a := range all {
		if a.Value == "" && (a.write() || a.Key == "" || a.UID == "") || !a.acknowledged() {
			continue
		}
		w, written := h.byValue[a.Value]
		switch {
		case told[a.Value]:
		case !written:
			told[a.Value] = true
			h.violate(Invented, a.Key, "value %q at version %d was never written", a.Value, a.Version)
		case w.refused():
			told[a.Value] = true
			h.violate(Invented, a.Key, "the write of value %q was refused with %d, and it is there at version %d", a.Value, w.Code, a.Version)
		case w.Key != a.Key || a.Done < w.Sent:
			told[a.Value] = true
			h.violate(Invented, a.Key, "value %q was seen before it was written, or in another object than %s", a.Value, w.Key)
		case a.Event == record.AccessDeleted: // it has the version of the deletion
		default:
			first, again := seen[a.Value]
			if !again {
				seen[a.Value] = place{a.UID, a.Version}
			} else if first != (place{a.UID, a.Version}) {
				told[a.Value] = true
				h.violate(Doubled, a.Key, "value %q is at version %d of UID %s and at version %d of UID %s", a.Value, first.version, first.uid, a.Version, a.UID)
			}
			if !again && !w.acknowledged() {
				h.report.TookEffect++
			}
		}
	}
}

// checkOrder checks that a write that was sent after another was acknowledged has a greater
// version, and that none has that of another: of all keys, since they share one store.
func (h *history) checkOrder() {
	var bySent []Access
	for _, a := range h.writes {
		if a.acknowledged() && a.Version > 0 {
			bySent = append(bySent, a)
		}
	}
	byDone := slices.Clone(bySent)
	slices.SortFunc(bySent, func(a, b Access) int { return cmp.Compare(a.Sent, b.Sent) })
	slices.SortFunc(byDone, func(a, b Access) int { return cmp.Compare(a.Done, b.Done) })
	var greatest Access
	versions, next := map[uint64]Access{}, 0
	for _, b := range bySent {
		for ; next < len(byDone) && byDone[next].Done < b.Sent; next++ {
			if byDone[next].Version > greatest.Version {
				greatest = byDone[next]
			}
		}
		if b.Version < greatest.Version {
			h.violate(Unordered, b.Key, "value %q has version %d; value %q, acknowledged before it was sent, has %d", b.Value, b.Version, greatest.Value, greatest.Version)
		}
		if a, twice := versions[b.Version]; twice {
			h.violate(Unordered, b.Key, "values %q and %q have the same version %d", a.Value, b.Value, b.Version)
		}
		versions[b.Version] = b
	}
}

// checkCreations checks that between two acknowledged creations of a key something may have
// deleted the first object.
func (h *history) checkCreations() {
	for _, key := range slices.Sorted(maps.Keys(h.acked)) {
		var creates []Access
		for _, a := range h.acked[key] {
			if a.Verb == Create {
				creates = append(creates, a)
			}
		}
		slices.SortFunc(creates, func(a, b Access) int { return cmp.Compare(a.Version, b.Version) })
		for i := 1; i < len(creates); i++ {
			if first := creates[i-1]; !h.mayBeGone(first, creates[i].Done) {
				h.violate(Doubled, key, "two creations were acknowledged, versions %d and %d, and no deletion between them", first.Version, creates[i].Version)
			}
		}
	}
}

// mayBeGone tells whether the object that an acknowledged write was of may be deleted by who
// looks until t.
func (h *history) mayBeGone(w Access, t clock.Time) bool {
	if d, deleted := h.gone[w.UID]; deleted && d.mayBeDoneBy(t) {
		return true
	}
	return slices.ContainsFunc(h.deletes[w.Key], func(d Access) bool {
		return d.mayBeDoneBy(t) && (!d.acknowledged() || d.Done > w.Sent) // one that had ended before did not delete what came later
	})
}

// checkRead checks what was read of a key against all that was acknowledged before the read
// was sent.
func (h *history) checkRead(rule Rule, key string, got Access, found bool, who string) {
	if d, deleted := h.gone[got.UID]; found && deleted && d.Done < got.Sent {
		h.violate(rule, key, "%s has UID %s, whose deletion was acknowledged before", who, got.UID)
		return
	}
	for _, w := range h.acked[key] {
		same := found && got.UID == w.UID
		switch {
		case w.Done >= got.Sent:
			continue
		case !same && h.mayBeGone(w, got.Done):
			continue
		case !same:
			h.violate(rule, key, "%s has no object of UID %s, whose value %q was acknowledged at version %d", who, w.UID, w.Value, w.Version)
		case got.Version < w.Version || got.Version == w.Version && got.Value != w.Value:
			h.violate(rule, key, "%s has value %q at version %d; value %q was acknowledged at version %d", who, got.Value, got.Version, w.Value, w.Version)
		default:
			continue
		}
		return // one is enough of a key
	}
}

// checkLists checks the final lists against the writes, and each against the first.
func (h *history) checkLists() {
	var first *snapshot
	for _, s := range h.lists {
		if !s.complete {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(h.acked)) {
			got, found := s.items[key]
			got.Sent, got.Done = s.sent, s.done
			h.checkRead(Lost, key, got, found, "the final list of "+named(s.server))
		}
		if first == nil {
			first = s
			continue
		}
		h.compare(Diverged, first.items, s.items, s.done, "the final list of "+named(first.server), "that of "+named(s.server))
	}
}

// compare holds what two readers know against each other. A write whose outcome is unknown
// may be done between them.
func (h *history) compare(rule Rule, a, b map[string]Access, until clock.Time, one, other string) {
	keys := map[string]bool{}
	for k := range a {
		keys[k] = true
	}
	for k := range b {
		keys[k] = true
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		x, y := a[key], b[key]
		if x.UID == y.UID && x.Version == y.Version && x.Value == y.Value || h.unsettled(key, until) {
			continue
		}
		h.violate(rule, key, "%s has value %q at version %d, %s %q at %d", one, x.Value, x.Version, other, y.Value, y.Version)
	}
}

// unsettled tells whether a write of a key may be done at any time.
func (h *history) unsettled(key string, until clock.Time) bool {
	return slices.ContainsFunc(h.writes, func(w Access) bool {
		return w.Key == key && !w.acknowledged() && w.mayBeDoneBy(until)
	})
}
