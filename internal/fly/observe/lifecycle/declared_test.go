package lifecycle

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// script plays events into the watches of one lifecycle and tells what was recorded.
type script struct {
	t       testing.TB
	path    string
	records *record.Writer
	tracker *tracker
}

func newScript(t testing.TB, l scenario.Lifecycle, p *Probe) *script {
	t.Helper()
	s := &script{t: t, path: filepath.Join(t.TempDir(), "r.wt")}
	var err error
	if s.records, err = record.Create(s.path); err != nil {
		t.Fatal(err)
	}
	if s.tracker, err = newTracker(s.records, p, l.Resolved()); err != nil {
		t.Fatal(err)
	}
	return s
}

// side returns the watch of a word: own, or a link's name.
func (s *script) side(word string) side {
	for _, l := range s.tracker.links {
		if l.Name == word {
			return l
		}
	}
	if word != "own" {
		s.t.Fatalf("no side %q", word)
	}
	return &s.tracker.own
}

// play plays "[TIME] SIDE KIND [NAME [FIELD=VALUE]...]" lines. KIND is LIST, END,
// ABSENT or one of an event; the fields are those of object.
func (s *script) play(text string) {
	s.t.Helper()
	kinds := map[string]watch.Kind{"LISTED": watch.Listed, "ADDED": watch.Added, "MODIFIED": watch.Modified, "DELETED": watch.Deleted}
	for line := range strings.SplitSeq(text, ";") {
		words := strings.Fields(line)
		if len(words) < 3 {
			s.t.Fatalf("line %q", line)
		}
		var at clock.Time
		if _, err := fmt.Sscan(words[0], &at); err != nil {
			s.t.Fatal(err)
		}
		to := s.side(words[1])
		s.tracker.mu.Lock()
		switch words[2] {
		case "LIST":
			to.resource().requestedAt = at
			to.resource().listBegin()
		case "END":
			m := to.resource().dateListed(at)
			to.endUnlisted(m)
			to.resource().listEnd()
		case "ABSENT":
			to.resource().absent = at
		default:
			e := watch.Event{Kind: kinds[words[2]], Object: jsonObject(s.t, words[3], words[4:]), At: at, Version: uint64(at)}
			for _, w := range words {
				if version, ok := strings.CutPrefix(w, "v="); ok {
					e.Version, _ = strconv.ParseUint(version, 10, 64)
				}
			}
			h := repotest.Must(decodeHead(e.Object))(s.t)
			to.takeEvent(e, h)
		}
		s.tracker.mu.Unlock()
	}
}

// jsonObject writes an object: uid=U (default uid-NAME), owner=UID, label.K=V,
// phase=P, cond=TYPE, deleting=, any other field in its status.
func jsonObject(t testing.TB, name string, fields []string) []byte {
	t.Helper()
	metadata := map[string]any{"name": name, "namespace": "n", "uid": "uid-" + name}
	status, labels, conditions := map[string]any{}, map[string]string{}, []any{}
	for _, f := range fields {
		k, v, _ := strings.Cut(f, "=")
		switch label, isLabel := strings.CutPrefix(k, "label."); {
		case isLabel:
			labels[label] = v
		case k == "uid":
			metadata["uid"] = v
		case k == "owner":
			metadata["ownerReferences"] = []any{map[string]any{"uid": v}}
		case k == "cond":
			conditions = append(conditions, map[string]any{"type": v, "status": "True"})
		case k == "deleting":
			metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
		default:
			status[k] = v
		}
	}
	metadata["labels"], status["conditions"] = labels, conditions
	return repotest.Must(json.Marshal(map[string]any{"metadata": metadata, "status": status}))(t)
}

// recorded closes the records and returns "NAME PHASE TIME" of each phase, with
// how long before it may have been.
func (s *script) recorded() string {
	s.t.Helper()
	repotest.NoError(s.t, s.records.Close())
	var out []string
	repotest.Must(record.Read(s.path, func(r *record.Stream) record.Visitor {
		return record.Visitor{Phase: func(p record.Phase) {
			text := fmt.Sprintf("%s %s %d", r.Objects[p.Object].Name, p.Phase, int64(p.At))
			if p.Within == record.Ever {
				text += "-ever"
			} else if p.Within > 0 {
				text += fmt.Sprintf("-%d", int64(p.Within))
			}
			out = append(out, text)
		}}
	}))(s.t)
	return strings.Join(out, ", ")
}

func machineLifecycle() scenario.Lifecycle {
	return scenario.Lifecycle{Name: "m", Of: "machines.example.org",
		Links: []scenario.Link{{Name: "pod", Of: "pods"}},
		Phases: []scenario.Phase{
			{Name: "podCreated", On: "pod"}, {Name: "podReady", On: "pod", Condition: "Ready"},
			{Name: "scheduled", When: `self.status.phase in ["Scheduled", "Running"]`}, {Name: "running", When: "{.status.phase}=Running"},
			{Condition: "Ready"}, {Name: "podDeleted", On: "pod", Deleted: true},
		}}
}

func TestDeclaredLives(t *testing.T) {
	replicas := scenario.Lifecycle{Name: "app", Of: "apps.example.org",
		Links:  []scenario.Link{{Name: "web", Of: "deployments.apps", By: "label", Label: "app"}},
		Phases: []scenario.Phase{{Name: "two", On: "web", Count: 2}, {Name: "bothReady", On: "web", Count: 2, Condition: "Ready"}}}
	ordered := scenario.Lifecycle{Name: "o", Of: "o.example.org", InOrder: true,
		Phases: []scenario.Phase{{Condition: "A"}, {Condition: "B"}, {Condition: "C"}}}
	keyed := scenario.Lifecycle{Name: "k", Of: "claims.example.org",
		Links: []scenario.Link{{Name: "volume", Of: "volumes.example.org", By: "key", Key: "self.metadata.namespace + '/' + self.status.claim", To: "self.metadata.namespace + '/' + self.metadata.name"},
			{Name: "same", Of: "twins.example.org", By: "name"}},
		Phases: []scenario.Phase{{Name: "bound", On: "volume"}, {Name: "twin", On: "same"}}}
	const started = "0 own LIST; 0 own END; 0 pod LIST; 0 pod END;"
	for _, tt := range []struct {
		name         string
		of           scenario.Lifecycle
		script, want string
	}{
		{"a whole lifecycle on two watches", machineLifecycle(),
			started + "1 own ADDED a; 2 pod ADDED p owner=uid-a; 3 pod MODIFIED p owner=uid-a cond=Ready; 4 own MODIFIED a phase=Scheduled; 5 own MODIFIED a phase=Running cond=Ready;" +
				"6 own MODIFIED a phase=Running deleting=; 7 pod DELETED p owner=uid-a; 8 own DELETED a deleting=",
			"a created 1, a podCreated 2, a podReady 3, a scheduled 4, a running 5, a ready 5, a deleting 6, a podDeleted 7, a deleted 8"},
		{"a pod that is seen before its owner keeps its times", machineLifecycle(),
			started + "1 pod ADDED p owner=uid-a; 2 pod MODIFIED p owner=uid-a cond=Ready; 3 pod ADDED q owner=uid-b; 4 own ADDED a phase=Running; 5 pod DELETED q owner=uid-b; 6 own ADDED b",
			"a created 4, a podCreated 1, a podReady 2, a scheduled 4, a running 4, b created 6, b podCreated 3, b podDeleted 5"},
		{"pods of nobody, and one that is adopted later", machineLifecycle(),
			started + "1 own ADDED a; 2 pod ADDED p; 3 pod ADDED q owner=uid-x; 4 pod MODIFIED q owner=uid-a",
			"a created 1, a podCreated 3"},
		{"an echo changes nothing; a condition that ceases to hold neither", machineLifecycle(),
			started + "1 own ADDED a phase=Running cond=Ready; 2 own ADDED a phase=Running; 3 own MODIFIED a; 4 own MODIFIED a phase=Running cond=Ready",
			"a created 1, a scheduled 1, a running 1, a ready 1"},
		{"one name, two lifecycles", machineLifecycle(),
			started + "1 own ADDED a uid=1; 2 own DELETED a uid=1; 3 own ADDED a uid=2 phase=Running; 4 own DELETED z",
			"a created 1, a deleted 2, a created 3, a scheduled 3, a running 3"},
		{"what was there before has no bound; what came since nobody served it has one", machineLifecycle(),
			"1 own LIST; 2 own LISTED a phase=Scheduled; 3 own END; 4 own MODIFIED a phase=Running; 1 pod ABSENT; 5 pod LIST; 6 pod LISTED p owner=uid-a; 6 pod END; 7 pod MODIFIED p owner=uid-a cond=Ready",
			"a created 2-ever, a scheduled 2-ever, a running 4, a podCreated 6-5, a podReady 7"},
		{"a gap: what changed, came and went in it is dated between", machineLifecycle(),
			started + "1 own ADDED a; 2 own ADDED b phase=Scheduled; 3 own ADDED c; 10 own LIST; 10 own LISTED a phase=Running; 10 own LISTED b phase=Scheduled; 10 own LISTED d phase=Scheduled; 10 own END;" +
				"12 own MODIFIED b phase=Running; 13 own MODIFIED d phase=Running",
			"a created 1, b created 2, b scheduled 2, c created 3, a scheduled 10-7, a running 10-7, d created 10-7, d scheduled 10-7, c deleted 10-7, b running 12, d running 13"},
		{"a list that fails half way bounds nothing", machineLifecycle(),
			started + "3 own ADDED a; 10 own LIST; 10 own LISTED a; 20 own LIST; 20 own LISTED a phase=Scheduled; 20 own END",
			"a created 3, a scheduled 20-17"},
		{"an interrupted watch of the pods", machineLifecycle(),
			started + "1 own ADDED a; 2 pod ADDED p owner=uid-a; 9 pod LIST; 9 pod END; 9 own MODIFIED a phase=Running",
			"a created 1, a podCreated 2, a podDeleted 9-7, a scheduled 9, a running 9"},
		{"so many of them, by label, name or uid", replicas,
			"0 own LIST; 0 own END; 0 web LIST; 0 web END; 1 own ADDED a; 2 web ADDED x label.app=a; 3 web MODIFIED x label.app=a cond=Ready; 4 web ADDED y label.app=uid-a cond=Ready; 5 web ADDED z label.app=a cond=Ready",
			"a created 1, a two 4, a bothReady 4"},
		{"in order", ordered,
			"0 own LIST; 0 own END; 1 own ADDED a cond=B; 2 own MODIFIED a cond=C; 3 own MODIFIED a cond=A cond=B; 4 own MODIFIED a cond=C; 5 own MODIFIED a cond=A",
			"a created 1, a a 3, a b 3, a c 4"},
		{"by key and by name", keyed,
			"0 own LIST; 0 own END; 0 volume LIST; 0 volume END; 1 own ADDED a; 2 volume ADDED v; 3 volume MODIFIED v claim=a; 4 same ADDED b; 5 same ADDED a",
			"a created 1, a bound 2, a twin 5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript(t, tt.of, nil)
			s.play(tt.script)
			if got := s.recorded(); got != tt.want {
				t.Errorf("recorded %s\nwant     %s", got, tt.want)
			}
		})
	}
}

func TestAConditionThatCannotBeEvaluatedIsSaidOnce(t *testing.T) {
	s := newScript(t, scenario.Lifecycle{Name: "m", Of: "x", Phases: []scenario.Phase{{Name: "odd", When: "self.status.n > 3"}}}, nil)
	s.play("0 own LIST; 0 own END; 1 own ADDED a n=text; 2 own MODIFIED a n=text")
	if got := s.recorded(); got != "a created 1" {
		t.Errorf("recorded %s", got)
	}
	told := 0
	_, err := record.Read(s.path, func(*record.Stream) record.Visitor {
		return record.Visitor{Event: func(m record.Event) {
			if m.Type == record.EventUnmet && m.Name == "lifecycle m" && strings.HasPrefix(m.Text, "phase odd: condition: ") {
				told++
			}
		}}
	})
	if err != nil || told != 1 {
		t.Errorf("told %d times, %v", told, err)
	}
}

// TestUnseenLifecycles holds that an object in any cluster counts, and that a lifecycle of which
// something else was told is not told again.
func TestUnseenLifecycles(t *testing.T) {
	for _, c := range []struct {
		name string
		play func(here, member *script)
		want int
	}{
		{"no object", func(here, _ *script) { here.play("0 own LIST; 0 own END") }, 1},
		{"one here", func(here, _ *script) { here.play("0 own LIST; 0 own END; 1 own ADDED a n=1") }, 0},
		{"one in a member", func(_, member *script) { member.play("0 own LIST; 0 own END; 1 own ADDED a n=1") }, 0},
		{"told that it is not served", func(_, member *script) { member.tracker.fate.told.Store(true) }, 0},
	} {
		here := newScript(t, scenario.Lifecycle{Name: "m", Of: "x"}, nil)
		member := *here
		member.tracker = here.tracker.trackerFor("member-1", nil)
		c.play(here, &member)
		if got := (&Declared{all: []*tracker{here.tracker}}).Unseen(); len(got) != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestDeadOrphansAreForgotten keeps what belongs to nobody from growing.
func TestDeadOrphansAreForgotten(t *testing.T) {
	s := newScript(t, machineLifecycle(), nil)
	s.play("0 own LIST; 0 own END; 0 pod LIST; 0 pod END")
	for i := range 3 * keptOrphans {
		s.play(fmt.Sprintf("1 pod ADDED p%d owner=uid-x%d; 2 pod DELETED p%d owner=uid-x%d", i, i, i, i))
	}
	l := s.tracker.links[0]
	if len(l.ended) != keptOrphans || len(l.orphans) != keptOrphans || len(l.objects) != 0 {
		t.Errorf("%d ended, %d keys, %d objects", len(l.ended), len(l.orphans), len(l.objects))
	}
	s.play(fmt.Sprintf("5 own ADDED x%d", 3*keptOrphans-1))
	if got, want := s.recorded(), fmt.Sprintf("x%d created 5, x%[1]d podCreated 1, x%[1]d podDeleted 2", 3*keptOrphans-1); got != want {
		t.Errorf("recorded %s, want %s", got, want)
	}
}

// TestStalledWatchIsLag: what a watch shows long after it happened is dated
// between two answers of the probe, so that the time between two phases that came
// at once is not 0.
func TestStalledWatchIsLag(t *testing.T) {
	records := repotest.Must(record.Create(filepath.Join(t.TempDir(), "p.wt")))(t)
	defer records.Close()
	const ms = 1_000_000
	p := NewProbe(records, clock.Start())
	for _, b := range []answer{{100 * ms, 90 * ms, 95 * ms}, {300 * ms, 290 * ms, 310 * ms}, {300 * ms, 590 * ms, 600 * ms}, {900 * ms, 890 * ms, 900 * ms}} {
		p.addAnswer(b)
	}
	for _, tt := range []struct{ version, at, want int64 }{
		{320 * ms, 321 * ms, 0},                     // no answer knew of it
		{290 * ms, 330 * ms, 0},                     // late by less than the bound
		{290 * ms, 2000 * ms, 1910 * ms},            // it happened after the first answer was asked
		{320 * ms, 2000 * ms, 1410 * ms},            // after the third was
		{50 * ms, 2000 * ms, 0},                     // before anybody asked, or of another store
		{901 * ms, 2000 * ms, 0}, {0, 2000 * ms, 0}, // nobody can tell
	} {
		if got := p.uncertaintyOf("pods", uint64(tt.version), clock.Time(tt.at)); int64(got) != tt.want {
			t.Errorf("version %d at %d: %d, want %d", tt.version/ms, tt.at/ms, got, tt.want)
		}
	}
	if got := p.lag["pods"].Milliseconds(); got != 1690 {
		t.Errorf("lag %d ms", got)
	}
	p.addAnswer(answer{5, 3000 * ms, 3001 * ms})
	if got := p.uncertaintyOf("pods", 7, 4000*ms); got != 0 || len(p.answers) != 1 {
		t.Errorf("another store: %d, %d answers", got, len(p.answers))
	}

	s := newScript(t, scenario.Lifecycle{Name: "m", Of: "x", Phases: []scenario.Phase{{Condition: "Ready"}}}, p)
	p.answers = []answer{{10, 9, 11}, {1000, 999, 1001}, {2e9, 2e9 - 1, 2e9 + 1}, {3e9, 3e9 - 1, 3e9 + 1}}
	s.play("0 own LIST; 0 own END; 500000000 own ADDED a; 4000000000 own ADDED b v=1500000000; 4000000001 own MODIFIED b v=1900000000 cond=Ready; 4000000002 own MODIFIED a cond=Ready")
	if got, want := s.recorded(), "a created 500000000, b created 4000000000-3999999001, b ready 4000000001-3999999002, a ready 4000000002"; got != want {
		t.Errorf("recorded %s\nwant     %s", got, want)
	}
}
