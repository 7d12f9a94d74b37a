package consistency

import (
	"maps"
	"slices"

	"github.com/windtunnel/windtunnel/internal/record"
)

// watched is what a watch has brought so far.
type watched struct {
	*history
	name    string
	objects map[string]Access // by key, as the watch shows them
	listing map[string]Access // of a list under way
	seen    map[uint64]string // values by version of events since the last list
	from    uint64            // the version of that list; 0: there was none
	last    uint64            // the greatest version so far
}

// checkWatch checks that a watch brings every change once, in the order of versions: each
// that was acknowledged, or that another watch brought. What it did not bring while it was interrupted, its next list has.
func (h *history) checkWatch(server string, events []Access) {
	w := watched{history: h, name: "the watch of " + named(server), objects: map[string]Access{}, listing: map[string]Access{}}
	complete := false
	for _, e := range events {
		switch e.Event {
		case record.AccessListed:
			w.listing[e.Key] = e
		case record.AccessList:
			w.endSegment()
			w.objects, w.listing = w.listing, map[string]Access{}
			w.from, w.last, w.seen = e.Version, e.Version, map[uint64]string{}
		case record.AccessBookmark:
			w.last = max(w.last, e.Version)
		case record.AccessEnd:
			complete = e.acknowledged()
		default:
			w.addEvent(e)
		}
	}
	w.endSegment()
	if !complete {
		h.report.Incomplete = append(h.report.Incomplete, w.name+" did not come to the last write")
		return
	}
	for _, s := range h.lists {
		if s.server == server && s.complete {
			h.compare(Missed, w.objects, s.items, s.done, w.name, "the final list")
		}
	}
}

func (w *watched) addEvent(e Access) {
	if e.Version <= w.last {
		w.violate(Missed, e.Key, "%s brought version %d after version %d", w.name, e.Version, w.last)
	}
	w.last = max(w.last, e.Version)
	if w.seen != nil {
		w.seen[e.Version] = e.Value
	}
	if before, there := w.objects[e.Key]; there && before.UID != e.UID {
		w.violate(Missed, e.Key, "%s did not bring the deletion of UID %s", w.name, before.UID)
	}
	if e.Event == record.AccessDeleted {
		delete(w.objects, e.Key)
	} else {
		w.objects[e.Key] = e
	}
}

// endSegment checks that the events since the last list have every change that is known
// between its version and the last one of the watch.
func (w *watched) endSegment() {
	if w.from == 0 {
		return
	}
	for _, version := range slices.Sorted(maps.Keys(w.changes)) {
		a := w.changes[version]
		value, seen := w.seen[version]
		if version > w.from && version <= w.last && (!seen || value != a.Value) {
			w.violate(Missed, a.Key, "%s did not bring value %q of version %d", w.name, a.Value, version)
		}
	}
}
