package controller

import (
	"encoding/json"
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
)

// driftRig is a drift without a watch, told what a watch would.
type driftRig struct {
	*drift
	t     *testing.T
	clock clock.Time
	woken []string
}

var ofConfigMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func newDriftRig(t *testing.T) *driftRig {
	r := &driftRig{t: t}
	r.drift = &drift{
		now: func() clock.Time { return r.clock }, every: time.Minute, enqueue: func(key string) { r.woken = append(r.woken, key) },
		seed: maphash.MakeSeed(), kinds: map[uint64]*source{}, states: map[object]*state{}, held: map[string][]object{},
	}
	r.kinds[r.hashParts(ofConfigMaps.String())] = &source{open: true}
	return r
}

func (r *driftRig) source() driftOf { return driftOf{r.drift, r.hashParts(ofConfigMaps.String())} }

func managed(name, raw string) api.ManagedResource {
	m := api.ManagedResource{Raw: json.RawMessage(raw)}
	m.APIVersion, m.Kind, m.Namespace, m.Name = "v1", "ConfigMap", "n", name
	return m
}

// is returns an object from VERSION or VERSION/GENERATION[ KEY=VALUE ...].
func is(name, text string) *metav1.PartialObjectMetadata {
	fields := strings.Fields(text)
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: "u", Labels: map[string]string{api.LabelName: "a", api.LabelNamespace: "n"}}}
	version, generation, ok := strings.Cut(fields[0], "/")
	if o.ResourceVersion = version; ok {
		o.Generation, _ = strconv.ParseInt(generation, 10, 64)
	}
	for _, f := range fields[1:] {
		k, v, _ := strings.Cut(f, "=")
		o.Labels[k] = v
	}
	return o
}

// TestDrift holds when an object has to be read again, and when a pass is brought about.
func TestDrift(t *testing.T) {
	for name, tt := range map[string]struct {
		do    string // one word after another, with what it is about
		reads bool
		wakes int
	}{
		"nobody has looked":            {"list", true, 0},
		"as it was":                    {"list;follow;same 5", false, 0},
		"the watch is behind":          {"follow;same 5", true, 0},
		"the watch comes later":        {"follow;same 5;list 5", false, 0},
		"changed":                      {"list;follow;same 5;event 6", true, 1},
		"changed before it was read":   {"list;follow;event 6;same 6", false, 1},
		"changed after it was read":    {"list;follow;event 6;same 5", true, 1},
		"an event that came late":      {"list;follow;same 6;event 5;event 6", false, 1},
		"put right":                    {"list;follow;same 5;event 6;changed;event 7;same 7", false, 2},
		"put right, not seen yet":      {"list;follow;same 5;event 6;changed", true, 1},
		"deleted":                      {"list;follow;same 5;delete", true, 1},
		"gone from the list":           {"list;follow;same 5;list", true, 1},
		"in the list as it was":        {"list;follow;same 5;list 5", false, 0},
		"its status changed":           {"list;follow;same 5/1;event 6/1", false, 0},
		"its specification changed":    {"list;follow;same 5/1;event 6/2", true, 1},
		"a label changed":              {"list;follow;same 5/1;event 6/1 x=y", true, 1},
		"of another application now":   {"list;follow;same 5/1;event 6/1 app.oam.dev/name=b", true, 1},
		"rendered as something else":   {"list;follow;same 5;render", true, 0},
		"no longer held":               {"list;follow;same 5;drop;event 6", true, 0},
		"the watch cannot be opened":   {"list;follow;same 5;shut", true, 0},
		"changed all the time":         {"list;follow;same 1;event 2;event 3;event 4;event 5;event 6;event 7", true, maxWakes},
		"changed all the time, longer": {"list;follow;same 1;event 2;event 3;event 4;event 5;wait;event 6;event 7", true, maxWakes + 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := newDriftRig(t)
			raw := `{"a":1}`
			for _, step := range strings.Split(tt.do, ";") {
				word, rest, _ := strings.Cut(step, " ")
				r.step(word, rest, &raw)
			}
			repotest.Equal(t, !r.isUnchanged("n/a", ofConfigMaps, managed("m", raw)), tt.reads, "it is read")
			if len(r.woken) != tt.wakes || slices.ContainsFunc(r.woken, func(key string) bool { return key != "n/a" }) {
				t.Errorf("%v were woken, want n/a %d times", r.woken, tt.wakes)
			}
		})
	}
}

func (r *driftRig) step(word, rest string, raw *string) {
	r.t.Helper()
	m := managed("m", *raw)
	var err error
	switch word {
	case "list":
		var all []any
		if rest != "" {
			all = append(all, is("m", rest))
		}
		err = r.source().Replace(all, "")
	case "follow":
		r.followObject("n/a", ofConfigMaps, m)
	case "same":
		r.markUnchanged("n/a", ofConfigMaps, m, is("m", rest))
	case "changed":
		r.markChanged("n/a", ofConfigMaps, m)
	case "event":
		err = r.source().Update(is("m", rest))
	case "delete":
		err = r.source().Delete(is("m", "9"))
	case "render":
		*raw = `{"a":2}`
	case "drop":
		r.retainObjects("n/a", nil)
	case "shut":
		r.kinds[r.source().kind].open = false
	case "wait":
		r.clock += clock.Time(time.Minute)
	default:
		r.t.Fatalf("%q", word)
	}
	if err != nil {
		r.t.Error(err)
	}
}

// TestDriftForgets holds that nothing is kept of what no application holds.
func TestDriftForgets(t *testing.T) {
	r := newDriftRig(t)
	for _, name := range []string{"x", "y"} {
		r.followObject("n/a", ofConfigMaps, managed(name, "{}"))
	}
	r.followObject("n/b", ofConfigMaps, managed("x", "{}")) // it is b's now
	r.retainObjects("n/a", []api.ManagedResource{managed("y", "{}")})
	if names := slices.Sorted(maps.Keys(r.held)); len(r.states) != 2 || !slices.Equal(names, []string{"n/a", "n/b"}) || len(r.held["n/a"]) != 1 {
		t.Errorf("kept: %v, %d states", r.held, len(r.states))
	}
	r.forgetApplication("n/a")
	r.forgetApplication("n/b")
	if len(r.states)+len(r.held) != 0 {
		t.Errorf("kept: %v, %d states", r.held, len(r.states))
	}
}

// TestLooks holds that a look tells apart what differs, however it is written.
func TestLooks(t *testing.T) {
	r := newDriftRig(t)
	seen := map[uint64]string{}
	for _, text := range []string{"1", "2", "1/1", "1/2", "1/1 a=b", "1/1 a=bc", "1/1 ab=c", "1/1 a=b c=d", "1/1 a=1:bc"} {
		look := r.fingerprintOf(is("m", text))
		if other, ok := seen[look]; ok {
			t.Errorf("%q looks like %q", text, other)
		}
		seen[look] = text
	}
	if r.fingerprintOf(is("m", "1/3")) != r.fingerprintOf(is("m", "2/3")) {
		t.Error("a status makes another look")
	}
}
