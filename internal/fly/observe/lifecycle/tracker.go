package lifecycle

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// tracker follows one declared lifecycle: its objects, and what is linked to them. Events of
// its watches come from several goroutines; mu guards everything below it.
type tracker struct {
	records   *record.Writer
	lifecycle scenario.Lifecycle
	cluster   string // the member; empty: the plane
	label     string // whose value is an object's group
	phases    []phaseOf
	fate      *fate // shared with the trackers of other clusters

	mu    sync.Mutex
	own   own
	links []*link
	byKey map[string][]*tracked // only with links
}

// fate is what became of a lifecycle in all clusters.
type fate struct {
	seen atomic.Bool // an object of it
	told atomic.Bool // that it could not be measured
}

// phaseOf is one phase, compiled.
type phaseOf struct {
	scenario.Phase
	holds  *scenario.Condition // nil: that the object exists, or is deleted
	before set                 // those that are looked for first
	warned bool
}

// set is a set of phases, by their places in the lifecycle.
type set uint64

func bit(i int) set                 { return 1 << i }
func (s set) has(i int) bool        { return s&bit(i) != 0 }
func (s set) hasAll(other set) bool { return s&other == other }

// Places of the phases that every lifecycle has, above all of a scenario's.
const (
	isCreated  = 61
	isDeleting = 62
	isDeleted  = 63
)

// tracked is one object whose lifecycle is recorded.
type tracked struct {
	id     record.ObjectID
	seen   set
	counts []uint16 // by phase: how many linked objects reached it; nil where one is enough
	keys   []string // by which links find it
}

func newTracker(records *record.Writer, p *Probe, l scenario.Lifecycle) (*tracker, error) {
	t := &tracker{records: records, lifecycle: l, label: cmp.Or(l.Group, object.GroupLabel), fate: new(fate), byKey: map[string][]*tracked{}}
	t.own = own{tracker: t, state: newResourceState(l.Of, "", p), objects: map[string]*tracked{}}
	for _, one := range l.Links {
		to, err := newLink(t, p, one)
		if err != nil {
			return nil, fmt.Errorf("link %s: %w", one.Name, err)
		}
		t.links = append(t.links, to)
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
		t.phases = append(t.phases, p)
	}
	for _, to := range t.links {
		to.phases = t.phasesOn(to.Name)
	}
	return t, nil
}

// trackerFor returns the same tracker, which has seen nothing yet, of another cluster.
func (t *tracker) trackerFor(cluster string, p *Probe) *tracker {
	out := &tracker{records: t.records, lifecycle: t.lifecycle, cluster: cluster, label: t.label, phases: slices.Clone(t.phases), fate: t.fate, byKey: map[string][]*tracked{}}
	out.own = own{tracker: out, state: newResourceState(t.lifecycle.Of, cluster, p), objects: map[string]*tracked{}}
	for _, l := range t.links {
		out.links = append(out.links, l.copyFor(out, p))
	}
	return out
}

// displayName is the lifecycle's name, with the member's where it is in one.
func (t *tracker) displayName() string {
	if t.cluster == "" {
		return t.lifecycle.Name
	}
	return t.lifecycle.Name + " in " + t.cluster
}

// phasesOn are the places of the phases that are seen on a link; on the objects
// themselves without a name.
func (t *tracker) phasesOn(link string) []int {
	var out []int
	for i, p := range t.phases {
		if p.On == link {
			out = append(out, i)
		}
	}
	return out
}

// followedResources are the resources that are followed.
func (t *tracker) followedResources() []*resourceState {
	out := []*resourceState{t.own.resource()}
	for _, l := range t.links {
		out = append(out, l.resource())
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

func (b *body) decodedValue() (any, error) {
	if !b.done {
		b.decoded, b.err = scenario.DecodeObject(b.raw)
		b.done = true
	}
	return b.decoded, b.err
}

// evaluatePhases adds the phases among some that an object shows to those that it
// had reached. Phases of linked objects that are deleted are not looked at.
func (t *tracker) evaluatePhases(seen set, among []int, b *body) set {
	for _, i := range among {
		p := &t.phases[i]
		if seen.has(i) || p.Deleted || !seen.hasAll(p.before) {
			continue
		}
		if p.holds == nil {
			seen |= bit(i)
			continue
		}
		shown, err := b.decodedValue()
		holds := false
		if err == nil {
			holds, err = p.holds.HoldsOf(shown)
		}
		if err != nil {
			t.reportOnce(p, err)
		}
		if holds {
			seen |= bit(i)
		}
	}
	return seen
}

// reportOnce says once of a phase that it cannot be evaluated: it was asked for, and is not
// measured of all objects.
func (t *tracker) reportOnce(p *phaseOf, err error) {
	if p.warned {
		return
	}
	p.warned = true
	t.fate.told.Store(true)
	t.records.Event(record.Unmet(t.own.state.last, "lifecycle "+t.displayName(), record.NotMeasured, fmt.Sprintf("phase %s: %v", p.Name, err)))
}

// notePhase records that an object has reached a phase, the first time.
func (t *tracker) notePhase(o *tracked, i int, m bounded) {
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
		name = t.phases[i].Name
	}
	t.records.Phase(record.Phase{Object: o.id, Phase: name, At: m.at, Within: m.within})
}

// countReached notes that one more linked object has reached a phase.
func (t *tracker) countReached(o *tracked, i int, m bounded) {
	if want := t.phases[i].Count; want > 1 {
		if o.counts == nil {
			o.counts = make([]uint16, len(t.phases))
		}
		if o.counts[i] == ^uint16(0) {
			return
		}
		if o.counts[i]++; int(o.counts[i]) < want {
			return
		}
	}
	t.notePhase(o, i, m)
}

// own is the side of the objects themselves.
type own struct {
	tracker *tracker
	state   resourceState
	objects map[string]*tracked // by UID
}

func (s *own) resource() *resourceState { return &s.state }

// takeEvent takes one object as it is now.
func (s *own) takeEvent(e watch.Event, h *head) {
	t := s.tracker
	o, m := s.objects[h.Metadata.UID], s.state.dateEvent(e, h.Metadata.UID)
	b := &body{raw: e.Object}
	if o == nil {
		if e.Kind == watch.Deleted {
			return
		}
		o = t.addObject(h)
		s.objects[h.Metadata.UID] = o
		t.notePhase(o, isCreated, m)
		t.claimLinked(o, h, b)
	}
	if now := t.evaluatePhases(o.seen, t.phasesOn(""), b); now != o.seen {
		for i := range t.phases {
			if now.has(i) {
				t.notePhase(o, i, m)
			}
		}
	}
	if h.Metadata.DeletionTimestamp != "" {
		t.notePhase(o, isDeleting, m)
	}
	if e.Kind == watch.Deleted {
		s.endObject(h.Metadata.UID, o, m)
	}
}

// endUnlisted ends the objects that a list did not show.
func (s *own) endUnlisted(m bounded) {
	for _, uid := range s.state.listed.End(maps.Keys(s.objects)) {
		s.endObject(uid, s.objects[uid], m)
	}
}

func (s *own) endObject(uid string, o *tracked, m bounded) {
	t := s.tracker
	t.notePhase(o, isDeleted, m)
	delete(s.objects, uid)
	for _, key := range o.keys {
		t.byKey[key] = slices.DeleteFunc(t.byKey[key], func(x *tracked) bool { return x == o })
		if len(t.byKey[key]) == 0 {
			delete(t.byKey, key)
		}
	}
}

func (t *tracker) addObject(h *head) *tracked {
	t.fate.seen.Store(true)
	m := &h.Metadata
	return &tracked{id: t.records.Object(record.Object{
		Resource: t.own.state.name, Namespace: m.Namespace, Name: m.Name, UID: m.UID, Group: m.Labels[t.label], Lifecycle: t.lifecycle.Name, Cluster: t.cluster,
	})}
}
