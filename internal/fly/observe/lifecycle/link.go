package lifecycle

import (
	"maps"
	"slices"

	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/scenario"
)

// keptOrphans is how many deleted objects that belong to nobody are kept: their
// owner may still come, on a watch that is behind.
const keptOrphans = 1000

// link is the side of the objects that are linked to those whose lifecycles are
// recorded.
type link struct {
	scenario.Link
	tracker *tracker
	state   resourceState
	key     *scenario.Key // of the linked object; nil but by key
	to      *scenario.Key // of the other
	phases  []int         // that are seen here
	objects map[string]*linked
	orphans map[string][]*linked // by key: those that belong to nobody that is known
	ended   []*linked            // orphans that are deleted, the oldest first
}

// linked is one linked object.
type linked struct {
	owners []*tracked
	seen   set
	keys   []string
	early  []reached // what it has reached while it belonged to nobody
}

// reached is a phase and when it was.
type reached struct {
	phase int
	bounded
}

func newLink(t *tracker, p *Probe, l scenario.Link) (*link, error) {
	out := (&link{Link: l}).copyFor(t, p)
	if l.By != "key" {
		return out, nil
	}
	var err error
	if out.key, err = scenario.ParseKey(l.Key); err != nil {
		return nil, err
	}
	out.to, err = scenario.ParseKey(l.To)
	return out, err
}

// copyFor returns the same link, which has seen nothing yet, of a tracker.
func (l *link) copyFor(t *tracker, p *Probe) *link {
	return &link{
		Link: l.Link, tracker: t, state: newResourceState(l.Of, t.cluster, p), key: l.key, to: l.to, phases: l.phases,
		objects: map[string]*linked{}, orphans: map[string][]*linked{},
	}
}

func (l *link) resource() *resourceState { return &l.state }

// keysOf are the keys by which a linked object names those that it belongs to;
// links are told apart by their names.
func (l *link) keysOf(h *head, b *body) []string {
	var out []string
	add := func(text string) { out = append(out, l.Name+"\x00"+text) }
	m := &h.Metadata
	switch l.By {
	case "owner":
		for _, o := range m.OwnerReferences {
			add(o.UID)
		}
	case "label":
		if v := m.Labels[l.Label]; v != "" {
			add(v)
			add(m.Namespace + "/" + v)
		}
	case "name":
		add(m.Namespace + "/" + m.Name)
	case "key":
		if v := keyOf(l.key, b); v != "" {
			add(v)
		}
	}
	return out
}

// keysTo are the keys by which the link finds an object whose lifecycle is recorded.
func (l *link) keysTo(h *head, b *body) []string {
	m := &h.Metadata
	uid, name := l.Name+"\x00"+m.UID, l.Name+"\x00"+m.Namespace+"/"+m.Name
	switch l.By {
	case "owner":
		return []string{uid}
	case "label":
		return []string{uid, name}
	case "name":
		return []string{name}
	}
	if v := keyOf(l.to, b); v != "" {
		return []string{l.Name + "\x00" + v}
	}
	return nil
}

// keyOf is a key's value, empty where there is none.
func keyOf(k *scenario.Key, b *body) string {
	shown, err := b.decodedValue()
	if err != nil {
		return ""
	}
	text, err := k.Of(shown)
	if err != nil {
		return "" // an object of another shape belongs to nobody
	}
	return text
}

// claimLinked gives a new object what is linked to it already.
func (t *tracker) claimLinked(o *tracked, h *head, b *body) {
	var before []reached
	for _, l := range t.links {
		for _, key := range l.keysTo(h, b) {
			o.keys = append(o.keys, key)
			t.byKey[key] = append(t.byKey[key], o)
			for _, x := range slices.Clone(l.orphans[key]) {
				x.owners = append(x.owners, o)
				before = append(before, x.early...)
				l.forgetOrphan(x)
			}
		}
	}
	slices.SortStableFunc(before, func(a, b reached) int { return int(a.at.Sub(b.at)) })
	for _, r := range before {
		t.countReached(o, r.phase, r.bounded)
	}
}

// forgetOrphan takes a linked object off the list of those that belong to nobody.
func (l *link) forgetOrphan(x *linked) {
	for _, key := range x.keys {
		l.orphans[key] = slices.DeleteFunc(l.orphans[key], func(y *linked) bool { return y == x })
		if len(l.orphans[key]) == 0 {
			delete(l.orphans, key)
		}
	}
	x.keys, x.early = nil, nil
	l.ended = slices.DeleteFunc(l.ended, func(y *linked) bool { return y == x })
}

// takeEvent takes one linked object as it is now.
func (l *link) takeEvent(e watch.Event, h *head) {
	t, uid := l.tracker, h.Metadata.UID
	x, m := l.objects[uid], l.state.dateEvent(e, uid)
	b := &body{raw: e.Object}
	if x == nil {
		if e.Kind == watch.Deleted {
			return
		}
		x = &linked{}
		l.objects[uid] = x
	}
	if x.owners == nil {
		l.placeLinked(x, h, b)
	}
	l.notePhases(x, t.evaluatePhases(x.seen, l.phases, b), m)
	if e.Kind == watch.Deleted {
		l.endLinked(uid, x, m)
	}
}

// placeLinked finds whom a linked object belongs to, by the keys that it has now.
func (l *link) placeLinked(x *linked, h *head, b *body) {
	keys := l.keysOf(h, b)
	first := x.early
	if !slices.Equal(keys, x.keys) {
		l.forgetOrphan(x)
		x.early, x.keys = first, keys
		for _, key := range keys {
			l.orphans[key] = append(l.orphans[key], x)
		}
	}
	for _, key := range keys {
		for _, o := range l.tracker.byKey[key] {
			if !slices.Contains(x.owners, o) {
				x.owners = append(x.owners, o)
			}
		}
	}
	if x.owners == nil {
		return
	}
	l.forgetOrphan(x)
	for _, r := range first {
		for _, o := range x.owners {
			l.tracker.countReached(o, r.phase, r.bounded)
		}
	}
}

// notePhases notes the phases that are new.
func (l *link) notePhases(x *linked, now set, m bounded) {
	fresh := now &^ x.seen
	x.seen = now
	for _, i := range l.phases {
		switch {
		case !fresh.has(i):
		case x.owners == nil:
			x.early = append(x.early, reached{i, m})
		default:
			for _, o := range x.owners {
				l.tracker.countReached(o, i, m)
			}
		}
	}
}

// endUnlisted ends the linked objects that a list did not show.
func (l *link) endUnlisted(m bounded) {
	for _, uid := range l.state.listed.End(maps.Keys(l.objects)) {
		l.endLinked(uid, l.objects[uid], m)
	}
}

func (l *link) endLinked(uid string, x *linked, m bounded) {
	now := x.seen
	for _, i := range l.phases {
		if l.tracker.phases[i].Deleted {
			now |= bit(i)
		}
	}
	l.notePhases(x, now, m)
	delete(l.objects, uid)
	if x.owners != nil || len(x.keys) == 0 {
		return
	}
	if l.ended = append(l.ended, x); len(l.ended) > keptOrphans {
		l.forgetOrphan(l.ended[0])
	}
}
