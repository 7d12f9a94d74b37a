package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// sharedRun writes the streams of a leader and of two workers: each has sent half of
// ten calls of a step, worker 1 on a clock that is an hour ahead, and worker 1 was lost
// after three calls of which one was left out.
func sharedRun(t *testing.T, bound time.Duration) string {
	t.Helper()
	dir := t.TempDir()
	repotest.NoError(t, os.Mkdir(filepath.Join(dir, record.WorkersFolder), 0o700))
	second := clock.Time(time.Second)
	path := filepath.Join(dir, record.StreamFile)
	leader := repotest.Must(record.Create(path))(t)
	event := func(at clock.Time, what record.EventType, name, text string, d record.Detail) {
		leader.Event(record.Event{At: at, Type: what, Name: name, Text: text, Detail: d})
	}
	event(1*second, record.EventRunBegan, "x", "", record.Detail{})
	event(1*second, record.EventStepBegan, "s", "", record.Detail{})
	event(1*second, record.EventLoadAsked, "s", "", record.Detail{Count: 10, Rate: 10})
	event(1*second+1, record.EventWorkerClock, "", "", record.Detail{Worker: 1, Offset: -time.Hour, Bound: bound})
	event(1*second, record.EventWorkerClock, "", "", record.Detail{Worker: 0, Offset: 0, Bound: time.Microsecond})
	event(2*second, record.EventWorkerShare, "s", "", record.Detail{Worker: 0, Count: 5})
	event(2*second, record.EventWorkerShare, "s", "lost", record.Detail{Worker: 1, Count: 5})
	event(3*second, record.EventWorkerLost, "s", "killed", record.Detail{Worker: 1})
	event(4*second, record.EventStepEnded, "s", "", record.Detail{})
	event(5*second, record.EventRunEnded, "s", "", record.Detail{Reason: record.Done})
	repotest.NoError(t, leader.Close())
	for i, ahead := range []time.Duration{0, time.Hour} {
		w := repotest.Must(record.Create(filepath.Join(dir, record.WorkerFile(i))))(t)
		op := w.Op(record.Op{Source: Load, Step: "s", Verb: "get", Resource: "pods", Scope: "resource"})
		for k := range []int{5, 3}[i] {
			number := uint32(2*k + i + 1)
			due := (2*second + clock.Time(100*time.Millisecond)*clock.Time(number-1)).Add(ahead)
			if i == 1 && k == 2 {
				w.LeftOut(record.LeftOut{Op: op, Number: number})
				continue
			}
			w.Call(record.Call{Op: op, Due: due, Sent: due.Add(time.Duration(i+1) * time.Millisecond), Done: due.Add(20 * time.Millisecond), Code: 200, Number: number})
		}
		w.Event(record.Event{Type: record.EventCallsFailed, Name: "s", Text: "no", Detail: record.Detail{Failure: &record.Failure{Verb: "get", Code: 500, Count: 1}}})
		w.Event(record.Event{Type: record.EventCallsFailed, Name: "s", Text: "no", Detail: record.Detail{Failure: &record.Failure{Verb: "get", Code: 500, Count: 3}}})
		repotest.NoError(t, w.Close())
	}
	return path
}

func TestStreamsOfWorkersAreOneRun(t *testing.T) {
	m := record.Manifest{Workers: &record.WorkersFact{Count: 2}}
	f := repotest.Must(Collect(sharedRun(t, time.Millisecond), m))(t)
	if len(f.Calls) != 1 || f.Calls[0].Count() != 7 || f.Calls[0].Latency.Max().Value != 0.02 {
		t.Fatalf("%d kinds of calls, the first %+v", len(f.Calls), f.Calls[0])
	}
	if s := f.Calls[0].Due; s.First != clock.Time(2*time.Second) || s.Last != clock.Time(2800*time.Millisecond) {
		t.Errorf("calls were due from %v to %v", s.First, s.Last)
	}
	if len(f.Failures) != 1 || f.Failures[0].Count != 6 {
		t.Errorf("failures %+v, want 3 of each worker", f.Failures)
	}
	one, other := f.Workers[0], f.Workers[1]
	if one.Calls != 5 || one.UnknownCalls() != 0 || one.Skew != time.Millisecond {
		t.Errorf("worker 0: %+v", one)
	}
	if other.Calls != 2 || other.Unknown["s"] != 2 || other.Skew != 2*time.Millisecond || other.Lost != "killed" || other.LostIn != "s" {
		t.Errorf("worker 1: %+v", other)
	}
	if got := Join(f.WorkersLost()); got != "worker 1" || f.Apart() != "" {
		t.Errorf("lost %q, apart %q", got, f.Apart())
	}
}

func TestWorkersWhoseClocksAreNotKnownHaveNoRatesOfShortSteps(t *testing.T) {
	m := record.Manifest{Workers: &record.WorkersFact{Count: 2}}
	f := repotest.Must(Collect(sharedRun(t, 20*time.Millisecond), m))(t)
	if !strings.Contains(f.Apart(), "worker 1 may have been off by 20ms") || f.Together(f.Calls[0].Due) || len(f.Rates(nil)) != 0 {
		t.Errorf("apart %q, rates %+v", f.Apart(), f.Rates(nil))
	}
	if f.Calls[0].Latency.Len() != 7 {
		t.Error("latencies are left out, too")
	}
}

// A run under way has what workers have brought until now.
func TestFollowWorkers(t *testing.T) {
	path := sharedRun(t, time.Millisecond)
	dir := record.Dir(filepath.Dir(path))
	repotest.NoError(t, dir.WriteJSON(record.ManifestFile, record.Manifest{Format: record.Format, Workers: &record.WorkersFact{Count: 3}}))
	f := repotest.Must(Follow(string(dir)))(t)
	defer f.Close()
	for range 2 {
		r := repotest.Must(f.Next())(t)
		if len(r.Facts.Calls) != 1 || r.Facts.Calls[0].Count() != 7 || len(r.Facts.Workers) != 3 || r.Facts.Workers[1].Unknown["s"] != 2 {
			t.Errorf("%d kinds of calls, workers %+v", len(r.Facts.Calls), r.Facts.Workers)
		}
	}
}
