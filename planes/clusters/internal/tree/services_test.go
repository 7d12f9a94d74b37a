package tree

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

type slice = discoveryv1.EndpointSlice

// copyOf is what a member has of a name: of the tree, or somebody else's.
type copyOf struct {
	own bool
	is  string // what it says
}

// serviceWorld is a service on a hub and in one member, both without a server: what is
// decided is done to the objects, and the events of that go into queues.
type serviceWorld struct {
	o         Options
	export    *api.Mark
	there     bool
	slices    map[string]*slice // of the hub, by name; a label says what their endpoints are
	imported  *api.Mark
	service   *copyOf // of the member
	copies    map[string]copyOf
	keys      []string // of the member's queue
	waiting   []string // that failed, and go again
	exporting bool     // the hub's queue
	r         *rand.Rand
	journal
}

const serviceKey, labelIs = "default/web", "is"

func newServiceWorld(way, end string) *serviceWorld {
	w := &serviceWorld{o: Default(), slices: map[string]*slice{}, copies: map[string]copyOf{}}
	w.o.Import, w.o.ImportEnd = way, end
	return w
}

func (w *serviceWorld) pair() servicePair {
	return servicePair{exported: w.export != nil && w.export.DeletionTimestamp == nil, there: w.there, imported: w.imported}
}

func (w *serviceWorld) add(keys ...string) {
	for _, key := range keys {
		if key != "" && !slices.Contains(w.keys, key) {
			w.keys = append(w.keys, key)
		}
	}
}

func (w *serviceWorld) all() []*slice {
	var out []*slice
	for _, name := range slices.Sorted(maps.Keys(w.slices)) {
		out = append(out, w.slices[name])
	}
	return out
}

// changed lets the member look at the service.
func (w *serviceWorld) changed() { w.add(w.pair().queueKeys(serviceKey, w.all(), &w.o)...) }

// sliceChanged is the event of a slice of the hub, as sliceEvent handles it.
func (w *serviceWorld) sliceChanged(s *slice) {
	exported := w.pair().exported
	w.exporting = w.exporting || needsMark(s, exported, &w.o)
	if exported {
		w.add(w.pair().sliceKey(serviceKey, s.Name, &w.o))
	}
}

// settle does what follows until nothing is queued; what failed is tried again once.
func (w *serviceWorld) settle() bool {
	w.add(w.waiting...)
	w.waiting = nil
	for range 60 {
		switch {
		case w.exporting:
			w.exporting = false
			w.reconcileExport()
		case len(w.keys) > 0:
			i := 0
			if w.r != nil {
				i = w.r.IntN(len(w.keys))
			}
			key := w.keys[i]
			w.keys = slices.Delete(w.keys, i, i+1)
			w.reconcile(key)
		default:
			return true
		}
	}
	return false
}

func (w *serviceWorld) reconcileExport() {
	exported := w.pair().exported
	for _, s := range w.all() {
		if next := decideMark(s, exported, &w.o); next != nil {
			w.say("hub: write the mark of %s", s.Name)
			w.slices[s.Name] = next // its endpoints are the same, so that no event follows
		}
	}
	if w.export == nil {
		return
	}
	if change := finalizerChange(w.export, w.o.ImportEnd); change != nil {
		w.say("hub: write the finalizer of the export")
		change(w.export)
		if w.export.DeletionTimestamp != nil {
			w.export = nil
			w.exporting = true
			w.changed()
		}
	}
}

func (w *serviceWorld) reconcile(key string) {
	p := w.pair()
	if _, ok := strings.CutPrefix(key, prefixEnd); ok {
		w.end(p)
		return
	}
	name, one := strings.CutPrefix(key, serviceKey+"/")
	action := p.decideService(&w.o)
	if one {
		action = p.decideSlice(w.slices[name] != nil, &w.o)
	}
	if action == serviceKeep {
		return
	}
	w.say("member: %s", action)
	ok := true
	switch action {
	case serviceWrite:
		ok = w.writeAll()
	case serviceWriteSlice:
		ok = w.writeSlice(w.slices[name])
	case serviceDeleteSlice:
		w.takeSlice(name)
	}
	if !ok {
		w.say("member: it goes again")
		w.waiting = append(w.waiting, key)
	}
}

// taken tells whether what has a name in the member must not be written over.
func (w *serviceWorld) taken(there copyOf, found bool) bool {
	if w.o.ImportEnd != ImportEndAll {
		return false
	}
	o := &metav1.ObjectMeta{}
	if there.own {
		o.Labels = map[string]string{api.LabelGlobal: "true"}
	}
	return nameTaken(o, found) != nil
}

func (w *serviceWorld) writeService() bool {
	if !w.there || w.service != nil && w.taken(*w.service, true) {
		return false
	}
	if w.o.ImportEnd == ImportEndAll && w.service != nil && !w.service.own {
		w.never("somebody else's service is written over")
	}
	w.service = &copyOf{own: true}
	return true
}

func (w *serviceWorld) writeSlice(s *slice) bool {
	there, found := w.copies[s.Name]
	if w.taken(there, found) {
		return false
	}
	if !found && w.o.Import == ImportDirect && !w.writeService() {
		return false
	}
	if w.o.ImportEnd == ImportEndAll && found && !there.own {
		w.never("somebody else's slice is written over")
	}
	w.copies[s.Name] = copyOf{own: true, is: s.Labels[labelIs]}
	return true
}

func (w *serviceWorld) writeAll() bool {
	if !w.writeService() {
		return false
	}
	for _, s := range w.all() {
		if !w.writeSlice(s) {
			return false
		}
	}
	was, addresses := w.imported.DeepCopyObject().(*api.Mark), ""
	for _, s := range w.all() {
		addresses += s.Name + " " + s.Labels[labelIs] + ","
	}
	metav1.SetMetaDataAnnotation(&w.imported.ObjectMeta, api.AnnotationAddresses, addresses)
	w.finalizer()
	if !reflect.DeepEqual(was, w.imported) && isNews(was, w.imported, &w.o) { // a write of what is there is no event
		w.changed()
	}
	w.takeOld()
	return true
}

func (w *serviceWorld) finalizer() {
	if change := finalizerChange(w.imported, w.o.ImportEnd); change != nil {
		w.say("member: write the finalizer of the import")
		change(w.imported)
	}
}

func (w *serviceWorld) takeSlice(name string) {
	if there, found := w.copies[name]; found && there.own {
		delete(w.copies, name)
	}
}

func (w *serviceWorld) takeOld() {
	if w.o.ImportEnd != ImportEndAll {
		return
	}
	var own []*slice
	for name, c := range w.copies {
		if c.own {
			own = append(own, &slice{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
	}
	for _, s := range oldSlices(w.all(), own) {
		w.say("member: delete slice %s", s.Name)
		w.takeSlice(s.Name)
	}
}

func (w *serviceWorld) end(p servicePair) {
	switch p.decideEnd(&w.o) {
	case serviceCleanUp:
		if w.o.Import == ImportDirect {
			w.finalizer()
		}
		w.takeOld()
	case serviceTakeBack:
		w.takeBack(p)
	}
}

func (w *serviceWorld) takeBack(p servicePair) {
	w.say("member: %s", serviceTakeBack)
	kosmos := w.o.ImportEnd == ImportEndOwn
	if !kosmos || w.service != nil && w.service.own {
		if w.service != nil && w.service.own {
			w.service = nil
		}
		maps.DeleteFunc(w.copies, func(_ string, c copyOf) bool { return c.own })
	}
	if p.imported == nil {
		return
	}
	if change := forgetChange(p.imported); change != nil {
		w.say("member: write what the import says")
		change(p.imported)
		if p.imported.DeletionTimestamp != nil {
			w.imported = nil
			w.changed()
		}
	}
}

// act plays an event: SIDE VERB WHAT.
func (w *serviceWorld) act(event string, name, is string) {
	marks := map[string]**api.Mark{"hub export": &w.export, "hub unexport": &w.export, "member import": &w.imported, "member unimport": &w.imported}
	switch event {
	case "hub export", "member import":
		*marks[event] = &api.Mark{}
		w.markChanged(event)
	case "hub unexport", "member unimport":
		if m := *marks[event]; len(m.Finalizers) > 0 {
			m.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		} else {
			*marks[event] = nil
		}
		w.markChanged(event)
	case "hub create-service", "hub delete-service":
		w.there = event == "hub create-service"
		if w.o.ImportEnd == ImportEndAll && w.pair().exported {
			w.changed()
		}
	case "hub slice":
		s := &slice{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{labelIs: is}}}
		if old := w.slices[name]; old != nil && isMarked(old) {
			s.Labels[api.LabelExported] = "true"
		}
		w.slices[name] = s
		w.sliceChanged(s)
	case "hub delete-slice":
		s := w.slices[name]
		delete(w.slices, name)
		w.sliceChanged(s)
	case "member create-service": // its own
		w.service = &copyOf{}
	case "member delete-service":
		w.service = nil
	case "manager restart":
		w.restart()
	}
}

func (w *serviceWorld) markChanged(event string) {
	w.exporting = w.exporting || strings.HasPrefix(event, "hub")
	w.changed()
}

// restart is what caches tell when they are filled: exports, imports, and copies of those
// that look at these.
func (w *serviceWorld) restart() {
	w.keys, w.waiting, w.exporting = nil, nil, w.export != nil
	for _, s := range w.all() {
		w.sliceChanged(s)
	}
	if w.imported != nil {
		w.changed()
	}
	if w.o.ImportEnd == ImportEndAll && (w.service != nil && w.service.own || len(w.copies) > 0) {
		w.add(prefixEnd + serviceKey)
	}
}

// String says what both sides have.
func (w *serviceWorld) String() string {
	hub, member := []string{}, []string{}
	if w.there {
		hub = append(hub, "web")
	}
	for _, s := range w.all() {
		mark := ""
		if isMarked(s) {
			mark = " marked"
		}
		hub = append(hub, fmt.Sprintf("%s(%s)%s", s.Name, s.Labels[labelIs], mark))
	}
	if w.service != nil && w.service.own {
		member = append(member, "web")
	} else if w.service != nil {
		member = append(member, "web of its own")
	}
	for _, name := range slices.Sorted(maps.Keys(w.copies)) {
		member = append(member, fmt.Sprintf("%s(%s)", name, w.copies[name].is))
	}
	return fmt.Sprintf("hub: %s%s | member: %s%s", strings.Join(hub, " "), markText(w.export, ", exported"), strings.Join(member, " "), markText(w.imported, ", imported"))
}

func markText(m *api.Mark, is string) string {
	if m == nil {
		return ""
	}
	if m.DeletionTimestamp != nil {
		return is + " (ending)"
	}
	return is
}

// TestServices plays what a member gets of a service, and what goes again.
func TestServices(t *testing.T) {
	var w *serviceWorld
	repotest.Trace(t, "testdata/services.trace", func(t *testing.T, s repotest.Step) string {
		if way := s.Args["import"]; way != "" {
			w = newServiceWorld(way, s.Args["import-end"])
			return ""
		}
		name := ""
		if len(s.Words) > 1 {
			name = s.Words[1]
		}
		return play(t, s, w, func() { w.act(s.Name+" "+s.Words[0], name, s.Args["is"]) })
	})
}

// playServices lets something happen that can, and returns what.
func playServices(r *rand.Rand, w *serviceWorld) string {
	name, is := fmt.Sprint("s", r.IntN(3)), fmt.Sprint(r.IntN(3))
	events := []string{"manager restart", "hub slice", "hub slice"}
	add := func(can bool, event string) {
		if can {
			events = append(events, event)
		}
	}
	add(w.slices[name] != nil, "hub delete-slice")
	add(!w.there, "hub create-service")
	add(w.there, "hub delete-service")
	add(w.export == nil, "hub export")
	add(w.export != nil, "hub unexport")
	add(w.imported == nil, "member import")
	add(w.imported != nil, "member unimport")
	add(w.service == nil, "member create-service")
	add(w.service != nil && !w.service.own, "member delete-service")
	event := events[r.IntN(len(events))]
	w.act(event, name, is)
	return strings.Join([]string{event, name, is}, " ")
}

// TestServicesConverge holds, whatever happens on both sides, that the manager comes to
// rest, never writes over or deletes what is not the tree's, and that with import-end=all
// a member has just what it asks for of what the hub exports.
func TestServicesConverge(t *testing.T) {
	for seed := range uint64(800) {
		r := rand.New(rand.NewPCG(seed, 0))
		w := newServiceWorld([]string{ImportMCS, ImportDirect}[r.IntN(2)], []string{ImportEndOwn, ImportEndAll}[r.IntN(2)])
		w.r = r
		l := tale{seed, []string{w.o.Import + " " + w.o.ImportEnd}}
		for range 16 {
			for range 1 + r.IntN(2) {
				l.story = append(l.story, playServices(r, w))
			}
			own := w.service != nil && !w.service.own
			l.rest(t, w, func() {})
			l.rest(t, w, func() { // again, with what failed
				if own && w.o.ImportEnd == ImportEndAll && (w.service == nil || w.service.own) {
					w.never("a service of the member's own is gone")
				}
				w.checkAgreement()
			})
		}
	}
}

func (w *serviceWorld) checkAgreement() {
	if w.o.ImportEnd != ImportEndAll || w.service != nil && !w.service.own {
		return
	}
	wants := w.pair().isWanted(&w.o)
	want := map[string]copyOf{}
	for _, s := range w.all() {
		if wants {
			want[s.Name] = copyOf{own: true, is: s.Labels[labelIs]}
		}
	}
	if !maps.Equal(w.copies, want) {
		w.never("the member's slices are not the hub's")
	}
	if service := w.service != nil; service && !wants || !service && len(want) > 0 {
		w.never("the member's service is not the hub's")
	}
	for _, s := range w.all() {
		if isMarked(s) != w.pair().exported {
			w.never("a slice says wrongly whether members may import it")
		}
	}
}
