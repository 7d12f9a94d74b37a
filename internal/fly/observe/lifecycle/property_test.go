package lifecycle

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// world is a made-up plane: its objects, and what two watches have still to
// show of it.
type world struct {
	*script
	random *rand.Rand
	now    int
	next   int                       // of the next UID
	live   map[string]*thing         // owners by UID
	parts  map[string]*thing         // parts by UID
	queue  map[string][]func(at int) // by side
	ever   map[string]bool           // owners that some event or list has shown
}

type thing struct {
	name, uid, owner string
	state            int  // of an owner: 0, 1 busy, 2 done
	had, lost        bool // an owner: it has had a part, and lost one
}

func worldLife() scenario.Lifecycle {
	return scenario.Lifecycle{Name: "w", Of: "owners.example.org",
		Links: []scenario.Link{{Name: "part", Of: "parts.example.org"}},
		Phases: []scenario.Phase{{Name: "busy", When: `self.status.state in ["1", "2"]`}, {Name: "done", When: `self.status.state == "2"`},
			{Name: "had", On: "part"}, {Name: "lost", On: "part", Deleted: true}}}
}

// send is one event, as it is now, for a watch to show later.
func (w *world) send(side string, kind watch.Kind, x thing) {
	w.queue[side] = append(w.queue[side], func(at int) { w.show(side, kind, x, at) })
}

func (w *world) show(side string, kind watch.Kind, x thing, at int) {
	fields := []string{"uid=" + x.uid, fmt.Sprintf("state=%d", x.state)}
	if x.owner != "" {
		fields = append(fields, "owner="+x.owner)
	} else {
		w.ever[x.uid] = true
	}
	e := watch.Event{Kind: kind, Object: jsonObject(w.t, x.name, fields), At: clock.Time(at)}
	h := repotest.Must(decodeHead(e.Object))(w.t)
	w.side(side).takeEvent(e, h)
}

func (w *world) pick(of map[string]*thing) *thing {
	keys := slices.Sorted(maps.Keys(of))
	if len(keys) == 0 {
		return nil
	}
	return of[keys[w.random.IntN(len(keys))]]
}

func (w *world) uid() string {
	w.next++
	return fmt.Sprintf("u%d", w.next)
}

// change does one thing to the plane.
func (w *world) change() {
	switch o, p := w.pick(w.live), w.pick(w.parts); w.random.IntN(6) {
	case 0, 1: // names come again
		x := &thing{name: fmt.Sprintf("n%d", w.random.IntN(8)), uid: w.uid()}
		if slices.ContainsFunc(slices.Collect(maps.Values(w.live)), func(y *thing) bool { return y.name == x.name }) {
			return
		}
		w.live[x.uid] = x
		w.send("own", watch.Added, *x)
	case 2:
		if o != nil && o.state < 2 {
			o.state++
			w.send("own", watch.Modified, *o)
		}
	case 3:
		if o != nil {
			x := &thing{name: "p", uid: w.uid(), owner: o.uid}
			w.parts[x.uid] = x
			o.had = true
			w.send("part", watch.Added, *x)
		}
	case 4:
		if p != nil {
			delete(w.parts, p.uid)
			if o := w.live[p.owner]; o != nil {
				o.lost = true
			}
			w.send("part", watch.Deleted, *p)
		}
	case 5:
		if o != nil && w.random.IntN(3) == 0 {
			delete(w.live, o.uid)
			w.send("own", watch.Deleted, *o)
		}
	}
}

// tear drops what a watch has still to show and lists anew; now and then the
// list fails half way and is begun again. It returns the owners whose parts may
// have come and gone unseen.
func (w *world) tear(side string) {
	w.queue[side] = nil
	of := w.live
	if side == "part" {
		of = w.parts
		for _, o := range w.live { // what nobody saw nobody can demand
			o.had, o.lost = false, false
		}
		for _, p := range w.parts {
			if o := w.live[p.owner]; o != nil {
				o.had = true
			}
		}
	}
	for rounds := 1 + w.random.IntN(2); rounds > 0; rounds-- {
		w.side(side).resource().requestedAt = clock.Time(w.now)
		w.side(side).resource().listBegin()
		for _, uid := range slices.Sorted(maps.Keys(of)) {
			if rounds == 1 || w.random.IntN(2) == 0 {
				w.show(side, watch.Listed, *of[uid], w.now)
			}
		}
	}
	m := w.side(side).resource().dateListed(clock.Time(w.now))
	w.side(side).endUnlisted(m)
	w.side(side).resource().listEnd()
}

// deliver shows the next event of a watch, sometimes twice.
func (w *world) deliver(side string) {
	if q := w.queue[side]; len(q) > 0 {
		w.queue[side] = q[1:]
		q[0](w.now)
	}
}

// TestNoInterleavingLosesOrDoubles plays random lifecycles under random interruptions of two
// watches that are not in step. Each object that was ever shown has one lifecycle,
// each phase once; those that live by the records are those that live; what they
// have gone through is what they are.
func TestNoInterleavingLosesOrDoubles(t *testing.T) {
	for seed := range uint64(150) {
		w := &world{script: newScript(t, worldLife(), nil), random: rand.New(rand.NewPCG(seed, 1)),
			live: map[string]*thing{}, parts: map[string]*thing{}, queue: map[string][]func(int){}, ever: map[string]bool{}}
		sides := []string{"own", "part"}
		for _, s := range sides {
			w.tear(s)
		}
		for range 300 {
			w.now++
			switch w.random.IntN(20) {
			case 0:
				w.tear(sides[w.random.IntN(2)])
			case 1, 2, 3, 4, 5, 6, 7:
				w.change()
			default:
				w.deliver(sides[w.random.IntN(2)])
			}
		}
		for len(w.queue["own"])+len(w.queue["part"]) > 0 {
			w.now++
			w.deliver(sides[w.random.IntN(2)])
		}
		w.check(seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func (w *world) check(seed uint64) {
	w.t.Helper()
	repotest.NoError(w.t, w.records.Close())
	phases := map[string][]string{} // by UID
	ids := map[string]int{}
	repotest.Must(record.Read(filepath.Clean(w.path), func(s *record.Stream) record.Visitor {
		seen := map[record.ObjectID]bool{}
		return record.Visitor{Phase: func(p record.Phase) {
			uid := s.Objects[p.Object].UID
			phases[uid] = append(phases[uid], p.Phase)
			if !seen[p.Object] {
				seen[p.Object] = true
				ids[uid]++
			}
			if p.At.Add(-p.Within) > clock.Time(w.now) || p.Within < 0 {
				w.t.Errorf("seed %d: %s %s at %d within %d", seed, uid, p.Phase, p.At, p.Within)
			}
		}}
	}))(w.t)
	for uid := range w.ever {
		if ids[uid] != 1 {
			w.t.Errorf("seed %d: %s has %d lifecycles", seed, uid, ids[uid])
		}
	}
	for uid, list := range phases {
		if slices.Sort(list); len(slices.Compact(slices.Clone(list))) != len(list) {
			w.t.Errorf("seed %d: %s: %v", seed, uid, list)
		}
		if dead := slices.Contains(list, "deleted"); dead == (w.live[uid] != nil) {
			w.t.Errorf("seed %d: %s lives: %v, by the records: %v", seed, uid, w.live[uid] != nil, list)
		}
	}
	for uid, x := range w.live {
		want := append([]string{"busy", "done"}[:x.state:x.state], "created")
		got := slices.DeleteFunc(slices.Clone(phases[uid]), func(p string) bool { return p == "had" || p == "lost" })
		if slices.Sort(want); !slices.Equal(got, want) {
			w.t.Errorf("seed %d: %s is %s, by the records %v", seed, uid, strings.Join(want, " "), got)
		}
		if x.had && !slices.Contains(phases[uid], "had") || x.lost && !slices.Contains(phases[uid], "lost") {
			w.t.Errorf("seed %d: %s had a part %v and lost one %v, by the records %v", seed, uid, x.had, x.lost, phases[uid])
		}
	}
}

func FuzzDecodeHead(f *testing.F) {
	f.Add(jsonObject(f, "a", []string{"owner=x", "label.a=b", "deleting=", "phase=Running", "cond=Ready"}))
	f.Add([]byte(`{"metadata":{"uid":"u","labels":null,"ownerReferences":[null]},"status":{"n":1e999}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, err := decodeHead(raw)
		if (err == nil) == (h == nil) || h != nil && h.Metadata.UID == "" {
			t.Fatalf("%v and %v", h, err)
		}
		if h == nil {
			return
		}
		s := newScript(t, machineLifecycle(), nil)
		for _, to := range []string{"pod", "own", "pod"} {
			for _, kind := range []watch.Kind{watch.Listed, watch.Added, watch.Modified, watch.Deleted} {
				s.side(to).takeEvent(watch.Event{Kind: kind, Object: raw, At: 1}, h)
			}
		}
		repotest.NoError(t, s.records.Close())
	})
}
