package diagnose_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/diagnose"
	"github.com/windtunnel/windtunnel/internal/record"
)

// How many calls wait at a time is seconds of waiting in a second, whichever
// slice they lie in.
func TestWaiting(t *testing.T) {
	f, _ := made{late: map[string]time.Duration{"load": time.Second}}.facts(t)
	if f.Window.From != begin || f.Window.Slices < 10 {
		t.Errorf("window %+v", f.Window)
	}
	// 20 calls a second, each overdue for 1 s less the 100 ms that are bearable.
	for i := 1; i < 10; i++ {
		if math.Abs(f.Load.Overdue[i]-18) > 0.5 || math.Abs(f.Load.InFlight[i]-20.2) > 0.5 {
			t.Errorf("slice %d: %v overdue of %v", i, f.Load.Overdue[i], f.Load.InFlight[i])
		}
	}
	if f.Load.Late != f.Load.Calls || f.Load.Worst != time.Second || f.Fleet.Calls != 0 {
		t.Errorf("%+v, %+v", f.Load, f.Fleet)
	}
}

// The window goes from the load's first call to the scrape that has counted the
// last thing that came of it. Where a step was under way at the end, it ends there.
func TestWindow(t *testing.T) {
	at := func(s float64) clock.Time { return clock.Time(s * float64(time.Second)) }
	for what, c := range map[string]struct {
		write    func(*record.Writer)
		from, to float64
	}{
		"nothing began": {func(w *record.Writer) {
			w.Event(record.Event{At: at(1), Type: record.EventStepBegan, Name: "boot"})
		}, 0, 0},
		"a wait after the last call": {func(w *record.Writer) {
			w.Event(record.Event{At: at(2), Type: record.EventRunBegan})
			op := w.Op(record.Op{Source: "load", Verb: "create", Resource: "pods"})
			w.Call(record.Call{Op: op, Due: at(3), Sent: at(3), Done: at(4)})
			for s := 0.0; s < 40; s += 5 {
				w.Event(record.Event{At: at(s), Type: record.EventScraped, Name: "etcd"})
				w.Event(record.Event{At: at(s + 1), Type: record.EventScraped, Name: "kube-apiserver"})
			}
			w.Event(record.Event{At: at(17), Type: record.EventStepEnded, Name: "wait"})
			w.Event(record.Event{At: at(50), Type: record.EventRunEnded, Detail: record.Detail{Reason: record.Done}})
			w.Event(record.Event{At: at(60), Type: record.EventStepEnded, Name: "clean up"})
		}, 3, 21},
		"cut off": {func(w *record.Writer) {
			w.Event(record.Event{At: at(2), Type: record.EventRunBegan})
			op := w.Op(record.Op{Source: "load", Verb: "create", Resource: "pods"})
			w.Call(record.Call{Op: op, Due: at(3), Sent: at(3), Done: at(9)})
		}, 3, 9},
		"cut off in a wait": {func(w *record.Writer) {
			w.Event(record.Event{At: at(2), Type: record.EventRunBegan})
			w.Event(record.Event{At: at(2), Type: record.EventStepBegan, Name: "wait"})
			w.Event(record.Event{At: at(30), Type: record.EventScraped, Name: "etcd"})
		}, 2, 30},
		"shorter than the scrapes' interval": {func(w *record.Writer) {
			w.Event(record.Event{At: at(2), Type: record.EventRunBegan})
			w.Event(record.Event{At: at(2), Type: record.EventStepBegan, Name: "hook"})
			w.Event(record.Event{At: at(1), Type: record.EventScraped, Name: "etcd"})
			w.Event(record.Event{At: at(4), Type: record.EventStepEnded, Name: "hook"})
			w.Event(record.Event{At: at(5), Type: record.EventScraped, Name: "etcd"})
			w.Event(record.Event{At: at(5), Type: record.EventRunEnded, Detail: record.Detail{Reason: record.Done}})
		}, 2, 5},
		"shorter than a sample": {func(w *record.Writer) {
			w.Event(record.Event{At: at(2), Type: record.EventRunBegan})
			w.Event(record.Event{At: at(2), Type: record.EventStepBegan, Name: "hook"})
			w.Event(record.Event{At: at(2.1), Type: record.EventStepEnded, Name: "hook"})
			w.Event(record.Event{At: at(2.1), Type: record.EventRunEnded, Detail: record.Detail{Reason: record.Done}})
		}, 2, 2},
		"ended in a wait": {func(w *record.Writer) {
			w.Event(record.Event{At: at(2), Type: record.EventRunBegan})
			w.Event(record.Event{At: at(2), Type: record.EventStepBegan, Name: "wait"})
			w.Event(record.Event{At: at(30), Type: record.EventRunEnded, Detail: record.Detail{Reason: record.Interrupted}})
			w.Event(record.Event{At: at(31), Type: record.EventStepEnded, Name: "wait"})
		}, 2, 30},
	} {
		f := diagnose.Collect(read(t, record.Manifest{}, c.write))
		if f.Coarse != (what == "shorter than the scrapes' interval") {
			t.Errorf("%s: coarse %v", what, f.Coarse)
		}
		if f.Window.From != at(c.from) || f.Window.To != at(c.to) {
			t.Errorf("%s: from %v to %v", what, f.Window.From.Seconds(), f.Window.To.Seconds())
		}
	}
}

// A death at a memory limit needs no series to be understood.
func ExampleFindings() {
	for _, f := range diagnose.Findings(&diagnose.Facts{Deaths: []diagnose.Death{{Component: "etcd", Limit: record.OwnLimit}}}) {
		fmt.Println(f.Rank, f.Cause, f.Sentence)
	}
	// Output: 1 memory etcd was killed at its memory limit, and the run ended there.
}
