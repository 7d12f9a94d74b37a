package record

import (
	"testing"
	"time"
)

func TestMarksOfFormat1(t *testing.T) {
	for _, c := range []struct {
		kind, name, text string
		want             Event
	}{
		{"run-end", "last", "done", Event{Type: EventRunEnded, Name: "last", Detail: Detail{Reason: Done}}},
		{"run-end", "s", "interrupted", Event{Type: EventRunEnded, Name: "s", Detail: Detail{Reason: Interrupted}}},
		{"run-end", "s", "failed: etcd died: x", Event{Type: EventRunEnded, Name: "s", Text: "etcd died: x", Detail: Detail{Reason: Broken}}},
		{"run-end", "s", "failed: step failed: wait: 1 of 2: ran", Event{Type: EventRunEnded, Name: "s", Text: "1 of 2: ran", Detail: Detail{Reason: Broken, Step: "wait"}}},
		{"run-end", "s", "", Event{Type: EventRunEnded, Name: "s"}},
		{"step-end", "all", "step failed: wait: why", Event{Type: EventStepEnded, Name: "all", Text: "step failed: wait: why", Detail: Detail{Step: "wait"}}},
		{"requested", "s", "300 10", Event{Type: EventLoadAsked, Name: "s", Detail: Detail{Count: 300, Rate: 10}}},
		{"requested", "s", "15 0.5", Event{Type: EventLoadAsked, Name: "s", Detail: Detail{Count: 15, Rate: 0.5}}},
		{"requested", "s", "20 +Inf", Event{Type: EventLoadAsked, Name: "s", Detail: Detail{Count: 20}}},
		{"requested", "s", "100 closed 7", Event{Type: EventLoadAsked, Name: "s", Detail: Detail{Count: 100, Parallel: 7}}},
		{"requested", "s", "x y", Event{Type: EventLoadAsked, Name: "s"}},
		{"plane-ready", "", "3.104", Event{Type: EventPlaneReady, Detail: Detail{For: 3104 * time.Millisecond}}},
		{"plane-ready", "", "1e300", Event{Type: EventPlaneReady}},
		{"fleet-ready", "100", "", Event{Type: EventFleetReady, Detail: Detail{Count: 100}}},
		{"watch-gap", "pods", "2.500 s: 410 Gone", Event{Type: EventWatchGap, Name: "pods", Text: "410 Gone", Detail: Detail{For: 2500 * time.Millisecond}}},
		{"watch-gap", "pods", "fleet: listed anew", Event{Type: EventWatchGap, Name: "pods", Text: "fleet: listed anew"}},
		{"unclean", "terminating", "4 pods", Event{Type: EventDirty, Name: "terminating", Text: "4 pods"}},
		{"death", "etcd", "killed", Event{Type: EventDied, Name: "etcd", Text: "killed"}},
		{"death", "etcd", "etcd died (signal: killed, killed at its memory limit); the last", Event{
			Type: EventDied, Name: "etcd", Text: "etcd died (signal: killed, killed at its memory limit); the last", Detail: Detail{MemoryLimit: OwnLimit},
		}},
		{"death", "etcd", "etcd died (killed at the memory limit of the plane)", Event{
			Type: EventDied, Name: "etcd", Text: "etcd died (killed at the memory limit of the plane)", Detail: Detail{MemoryLimit: PlaneLimit},
		}},
		{"death", "etcd", "killed at a memory limit, its own or that of the plane", Event{
			Type: EventDied, Name: "etcd", Text: "killed at a memory limit, its own or that of the plane", Detail: Detail{MemoryLimit: EitherLimit},
		}},
		{"death", "etcd", "died (exit status 1); the last of etcd.log:\n  killed at its memory limit", Event{
			Type: EventDied, Name: "etcd", Text: "died (exit status 1); the last of etcd.log:\n  killed at its memory limit",
		}},
	} {
		if got := eventOfMark(0, c.kind, c.name, c.text); got != c.want {
			t.Errorf("%s %q %q: %+v, want %+v", c.kind, c.name, c.text, got, c.want)
		}
	}
}
