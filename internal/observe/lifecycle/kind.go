package lifecycle

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// kind is one declared life: its objects, and what is linked to them. Events of
// its watches come from several goroutines; mu guards everything below it.
type kind struct {
	records *record.Writer
	life    scenario.Lifecycle
	label   string // whose value is an object's group
	phases  []phaseOf

	mu    sync.Mutex
	own   own
	links []*link
	byKey map[string][]*tracked // only with links
}

// phaseOf is one phase, compiled.
type phaseOf struct {
	scenario.Phase
	holds  *scenario.Condition // nil: that the object exists, or is gone
	before set                 // those that are looked for first
	warned bool
}

// set is a set of phases, by their places in the life.
type set uint64

func bit(i int) set                { return 1 << i }
func (s set) has(i int) bool       { return s&bit(i) != 0 }
func (s set) holds(other set) bool { return s&other == other }

// Places of the phases that every life has, above all of a scenario's.
const (
	isCreated  = 61
	isDeleting = 62
	isDeleted  = 63
)

// tracked is one object whose life is recorded.
type tracked struct {
	id     record.ObjectID
	seen   set
	counts []uint16 // by phase: how many linked objects reached it; nil where one is enough
	keys   []string // by which links find it
}

func newKind(records *record.Writer, p *Pulse, l scenario.Lifecycle) (*kind, error) {
	k := &kind{records: records, life: l, label: cmp.Or(l.Group, object.GroupLabel), byKey: map[string][]*tracked{}}
	k.own = own{kind: k, eyesOf: newEyes(l.Of, p), objects: map[string]*tracked{}}
	for _, one := range l.Links {
		to, err := newLink(k, p, one)
		if err != nil {
			return nil, fmt.Errorf("link %s: %w", one.Name, err)
		}
		k.links = append(k.links, to)
	}
	for i, one := range l.Phases {
		p := phaseOf{Phase: one}
		if one.When != "" {
			var err error
			if p.holds, err = scenario.ParseCondition(one.When); err != nil {
				return nil, fmt.Errorf("phase %s: %w", one.Name, err)
			}
		}
		for earlier := range i {
			if l.InOrder && l.Phases[earlier].On == one.On && !l.Phases[earlier].Deleted {
				p.before |= bit(earlier)
			}
		}
		k.phases = append(k.phases, p)
	}
	for _, to := range k.links {
		to.phases = k.on(to.Name)
	}
	return k, nil
}

// on are the places of the phases that are seen on a link; on the objects
// themselves without a name.
func (k *kind) on(link string) []int {
	var out []int
	for i, p := range k.phases {
		if p.On == link {
			out = append(out, i)
		}
	}
	return out
}

// sides are the resources that are followed.
func (k *kind) sides() []*eyes {
	out := []*eyes{k.own.eyes()}
	for _, l := range k.links {
		out = append(out, l.eyes())
	}
	return out
}

// head is what is read of every object, whatever its resource.
type head struct {
	Metadata struct {
		object.Metadata
		Labels          map[string]string `json:"labels"`
		OwnerReferences []struct {
			UID string `json:"uid"`
		} `json:"ownerReferences"`
	} `json:"metadata"`
}

var errNoUID = errors.New("no uid")

func decodeHead(raw []byte) (*head, error) {
	h := &head{}
	if err := json.Unmarshal(raw, h); err != nil {
		return nil, err
	}
	if h.Metadata.UID == "" {
		return nil, errNoUID
	}
	return h, nil
}

// body is an object's JSON, decoded when a condition first wants it.
type body struct {
	raw     []byte
	decoded any
	err     error
	done    bool
}

func (b *body) value() (any, error) {
	if !b.done {
		b.decoded, b.err = scenario.DecodeObject(b.raw)
		b.done = true
	}
	return b.decoded, b.err
}

// evaluate adds the phases among some that an object shows to those that it
// had reached. Phases of linked objects that are gone are not looked at.
func (k *kind) evaluate(seen set, among []int, b *body) set {
	for _, i := range among {
		p := &k.phases[i]
		if seen.has(i) || p.Deleted || !seen.holds(p.before) {
			continue
		}
		if p.holds == nil {
			seen |= bit(i)
			continue
		}
		shown, err := b.value()
		holds := false
		if err == nil {
			holds, err = p.holds.HoldsOf(shown)
		}
		if err != nil {
			k.warn(p, err)
		}
		if holds {
			seen |= bit(i)
		}
	}
	return seen
}

// warn says once of a phase that it cannot be told.
func (k *kind) warn(p *phaseOf, err error) {
	if p.warned {
		return
	}
	p.warned = true
	k.records.Event(record.Event{At: k.own.eyesOf.last, Type: record.EventWarned, Text: fmt.Sprintf("life %s: phase %s: %v", k.life.Name, p.Name, err)})
}

// reach records that an object has reached a phase, the first time.
func (k *kind) reach(o *tracked, i int, m moment) {
	if o.seen.has(i) {
		return
	}
	o.seen |= bit(i)
	name := ""
	switch i {
	case isCreated:
		name = record.PhaseCreated
	case isDeleting:
		name = record.PhaseDeleting
	case isDeleted:
		name = record.PhaseDeleted
	default:
		name = k.phases[i].Name
	}
	k.records.Phase(record.Phase{Object: o.id, Phase: name, At: m.at, Within: m.within})
}

// count notes that one more linked object has reached a phase.
func (k *kind) count(o *tracked, i int, m moment) {
	if want := k.phases[i].Count; want > 1 {
		if o.counts == nil {
			o.counts = make([]uint16, len(k.phases))
		}
		if o.counts[i] == ^uint16(0) {
			return
		}
		if o.counts[i]++; int(o.counts[i]) < want {
			return
		}
	}
	k.reach(o, i, m)
}

// own is the side of the objects themselves.
type own struct {
	kind    *kind
	eyesOf  eyes
	objects map[string]*tracked // by UID
}

func (s *own) eyes() *eyes { return &s.eyesOf }

// event takes one object as it is now.
func (s *own) event(e watch.Event, h *head) {
	k := s.kind
	o, m := s.objects[h.Metadata.UID], s.eyesOf.event(e, h.Metadata.UID)
	b := &body{raw: e.Object}
	if o == nil {
		if e.Kind == watch.Deleted {
			return
		}
		o = k.add(h)
		s.objects[h.Metadata.UID] = o
		k.reach(o, isCreated, m)
		k.claim(o, h, b)
	}
	if now := k.evaluate(o.seen, k.on(""), b); now != o.seen {
		for i := range k.phases {
			if now.has(i) {
				k.reach(o, i, m)
			}
		}
	}
	if h.Metadata.DeletionTimestamp != "" {
		k.reach(o, isDeleting, m)
	}
	if e.Kind == watch.Deleted {
		s.gone(h.Metadata.UID, o, m)
	}
}

// vanish ends the objects that a list did not show.
func (s *own) vanish(m moment) {
	for _, uid := range s.eyesOf.listed.End(maps.Keys(s.objects)) {
		s.gone(uid, s.objects[uid], m)
	}
}

func (s *own) gone(uid string, o *tracked, m moment) {
	k := s.kind
	k.reach(o, isDeleted, m)
	delete(s.objects, uid)
	for _, key := range o.keys {
		k.byKey[key] = slices.DeleteFunc(k.byKey[key], func(x *tracked) bool { return x == o })
		if len(k.byKey[key]) == 0 {
			delete(k.byKey, key)
		}
	}
}

func (k *kind) add(h *head) *tracked {
	m := &h.Metadata
	return &tracked{id: k.records.Object(record.Object{
		Resource: k.own.eyesOf.name, Namespace: m.Namespace, Name: m.Name, UID: m.UID, Group: m.Labels[k.label], Life: k.life.Name,
	})}
}
