package slo_test

import (
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// Of a target that was read no more nobody knows what came after: what is asked of
// its metrics is unknown, and what is asked of others is not.
func TestObjectivesOnATargetThatWasCut(t *testing.T) {
	f := newFlight(t)
	f.m.Started = time.Unix(1e9, 0)
	f.sc.FailedCalls = scenario.Ignore
	f.calls(1000)
	for _, target := range []string{"op", "etcd"} {
		f.event(20, record.EventScraped, target, "")
		f.sample(20, target, "workqueue_depth", 1, record.Label{Name: "name", Value: "q"})
		f.event(50, record.EventScraped, target, "")
		f.sample(50, target, "workqueue_depth", 2, record.Label{Name: "name", Value: "q"})
	}
	f.w.Event(record.Event{At: at(60), Type: record.EventCut, Name: "op", Detail: record.Detail{Count: 300_000}})
	for _, o := range []scenario.Objective{
		{Name: "calls", SLI: "call-latency", Statistic: "p99", Max: new(1.0)},
		{Name: "ours", SLI: "workqueue-depth", Labels: map[string]string{"component": "op"}, Statistic: "max", Max: new(5.0)},
		{Name: "other", SLI: "workqueue-depth", Labels: map[string]string{"component": "etcd"}, Statistic: "max", Max: new(5.0)},
		{Name: "query", Query: "max(workqueue_depth)", Max: new(5.0)},
	} {
		f.objective(o)
	}
	f.end(record.Done)
	j := f.judge()
	want := map[string]slo.Verdict{"calls": slo.Pass, "ours": slo.Unknown, "other": slo.Pass, "query": slo.Unknown}
	for _, r := range j.Objectives {
		if r.Verdict != want[r.Name] {
			t.Errorf("%s: %+v", r.Name, r)
		}
		if want[r.Name] == slo.Unknown && (r.Value != nil || !strings.HasPrefix(strings.Join(r.Warnings, " "), "op served more than 300000 different series")) {
			t.Errorf("%s: %+v", r.Name, r)
		}
	}
	if j.Verdict != slo.Unknown {
		t.Error(j.Verdict, j.Reasons)
	}
}

// TestDeathIsSaidOnce holds that the reason of a run that a death ended names the
// component once, how it ended, and where its last words are.
func TestDeathIsSaidOnce(t *testing.T) {
	for text, want := range map[string]string{
		(&process.DeathError{Name: "op", State: "exit status 3", LogFile: "/runs/1/logs/op.log", Lines: []string{"out (of) luck", "bye"}}).Error(): "op died during the run (exit status 3); its last words are in logs/op.log.",
		(&process.DeathError{Name: "op", State: "signal: killed", LogFile: "/runs/1/logs/op.log"}).Error():                                         "op died during the run (signal: killed) and left nothing in logs/op.log.",
		"nobody answers\nany more": "op died during the run: nobody answers",
	} {
		f := newFlight(t)
		f.event(20, record.EventDied, "op", text)
		f.end(record.Broken)
		if j := f.judge(); j.Verdict == slo.Pass || len(j.Reasons) == 0 || j.Reasons[0] != want {
			t.Errorf("%v %q, want %q", j.Verdict, j.Reasons, want)
		}
	}
}

// TestUpgradeThatWasCutShort holds that a run that was killed or interrupted in an upgrade names
// the process that was changing and those that had changed, and that no other run does.
func TestUpgradeThatWasCutShort(t *testing.T) {
	for _, c := range []struct {
		name, parts string // NAME: a part that was completed; NAME!: that failed; NAME?: without an end
		stepEnds    string // "-": never; otherwise what its end says
		reason      record.EndReason
		want        string
	}{
		{"killed at the first", "etcd-0?", "-", "", "step up was changing etcd-0 from v1 to v2; nothing had been upgraded before."},
		{"killed at the third", "etcd-0 etcd-1 nodes?", "-", "", "step up was changing nodes from v1 to v2; upgraded before: etcd-0, etcd-1."},
		{"killed between two", "etcd-0 etcd-1", "-", "", "step up was between two processes; upgraded before: etcd-0, etcd-1."},
		{"interrupted", "etcd-0 etcd-1!", "interrupted", record.Interrupted, "step up was changing etcd-1 from v1 to v2; upgraded before: etcd-0."},
		{"killed after the upgrade", "etcd-0 etcd-1", "", "", ""},
		{"killed before it", "", "-", "", ""},
		{"completed", "etcd-0 etcd-1", "", record.Done, ""},
		{"failed, which the step says", "etcd-0 etcd-1!", "etcd-1 did not come back", record.Broken, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFlight(t)
			f.calls(100)
			f.event(30, record.EventStepBegan, "up", "")
			for i, word := range strings.Fields(c.parts) {
				name := strings.TrimRight(word, "!?")
				d := record.Detail{Step: "up", From: "v1", To: "v2"}
				f.w.Event(record.Event{At: at(31 + float64(i)), Type: record.EventPartBegan, Name: name, Detail: d})
				why := ""
				if strings.HasSuffix(word, "!") {
					why = "it did not come back"
				}
				if !strings.HasSuffix(word, "?") {
					f.w.Event(record.Event{At: at(31.5 + float64(i)), Type: record.EventPartEnded, Name: name, Text: why, Detail: d})
				}
			}
			if c.stepEnds != "-" {
				f.event(40, record.EventStepEnded, "up", c.stepEnds)
			}
			if c.reason != "" {
				f.end(c.reason)
			}
			j := f.judge()
			said := ""
			for _, reason := range j.Reasons {
				if after, ok := strings.CutPrefix(reason, "The upgrade was not completed: "); ok {
					said += after
				}
			}
			if said != c.want {
				t.Errorf("said %q, want %q; all reasons: %q", said, c.want, j.Reasons)
			}
			if c.want != "" && j.Verdict != slo.Unknown {
				t.Errorf("verdict %s", j.Verdict)
			}
		})
	}
}
