package run

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// A declared lifecycle whose objects are of no step's group is named beside the rate of
// the calls that made them.
func TestLifecyclesThatAreLeftOutOfRates(t *testing.T) {
	for group, want := range map[string][]string{"": {"queue"}, "make": nil} {
		path := filepath.Join(t.TempDir(), record.StreamFile)
		w := repotest.Must(record.Create(path))(t)
		w.Event(record.Event{At: at(1), Type: record.EventRunBegan})
		w.Event(record.Event{At: at(1), Type: record.EventStepBegan, Name: "make"})
		w.Event(record.Event{At: at(1), Type: record.EventLoadAsked, Name: "make", Detail: record.Detail{Count: 3, Rate: 1}})
		op := w.Op(record.Op{Source: Load, Step: "make", Verb: "create", Resource: "queues.a"})
		for i := range 3 {
			s := float64(1 + i)
			w.Call(record.Call{Op: op, Due: at(s), Sent: at(s), Done: at(s + 0.1), Code: 201, Outcome: record.OK})
			id := w.Object(record.Object{Resource: "queues.a", Name: string(rune('a' + i)), UID: string(rune('a' + i)), Group: group, Lifecycle: "queue"})
			w.Phase(record.Phase{Object: id, Phase: record.PhaseCreated, At: at(s + 0.1)})
			w.Phase(record.Phase{Object: id, Phase: "ready", At: at(2*s + 0.1)})
		}
		w.Event(record.Event{At: at(9), Type: record.EventStepEnded, Name: "make"})
		w.Event(record.Event{At: at(9), Type: record.EventRunEnded, Detail: record.Detail{Reason: record.Done}})
		repotest.NoError(t, w.Close())
		f := repotest.Must(Collect(path, record.Manifest{}))(t)
		rates := f.Rates(nil)
		if group == "" {
			if as := f.Rates(map[string]string{"make": "queues"}); len(as) != 1 {
				t.Errorf("%+v", as)
			}
		} else if as := f.Rates(map[string]string{"other": "make"}); len(as) != 2 {
			t.Errorf("%+v", as)
		}
		last := rates[len(rates)-1]
		if last.Unit != "calls/s" || !slices.Equal(last.LeftOut, want) || (want == nil) != (len(rates) == 2) {
			t.Errorf("group %q: %+v", group, rates)
		}
	}
}

// The objects of a step belong to it by the group that the scenario gives them.
func TestStepOfAGroup(t *testing.T) {
	f := &Facts{Steps: []Step{{Name: "a"}, {Name: "b"}, {Name: "c"}}}
	got := f.stepOf(map[string]string{"a": "pods", "b": "maps", "c": "maps"})
	if got["pods"] != "a" || got["maps"] != "" || got["a"] != "" {
		t.Errorf("%v", got)
	}
}
