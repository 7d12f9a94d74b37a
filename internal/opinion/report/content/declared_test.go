package content

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// Lifecycles that the scenario declares are laid out like those of pods: in the
// scenario's order, and taken apart at the phases that nearly all reach before
// they are deleted.
func TestDeclaredLifecycles(t *testing.T) {
	d, m, err := reporttest.Write(t.TempDir(), reporttest.Shape{Pods: 50, Machines: 40})
	repotest.NoError(t, err)
	r := Build(reporttest.Read(t, d, m), slo.Judgement{Verdict: slo.Unknown}, reporttest.Found(t, d))
	if len(r.Declared) != 1 || r.Declared[0].Name != "vmi" || r.Pods < 50 || r.Pods >= 240 {
		t.Fatalf("%d lives beside %d pods", len(r.Declared), r.Pods)
	}
	l := r.Declared[0]
	// The scenario has podCreated before scheduling, the records show it after.
	const want = "pending podCreated scheduling podScheduled podReadyToStartContainers podInitialized podContainersReady podReady scheduled running ready"
	if got := strings.Join(l.Parts, " "); got != want {
		t.Errorf("parts\n got %s\nwant %s", got, want)
	}
	var phases []string
	for _, s := range l.Spreads {
		phases = append(phases, s.Phase)
		switch {
		case s.Phase == "created to failed" && (s.N != 1 || s.Open != 39 || s.Bounds["p50"] != ">"),
			s.Phase == "created to ready" && (s.N != 40 || s.Open != 0 || s.Bounds != nil),
			s.Phase == "deleting to deleted" && s.N != 40:
			t.Errorf("%+v", s)
		}
	}
	if got := strings.Join(phases[10:], ", "); got != "created to ready, created to failed, created to podDeleted, deleting to deleted" {
		t.Errorf("phases end with %s", got)
	}
	if len(l.Breakdown) != 1 || l.Breakdown[0].Objects != 40 || len(l.Breakdown[0].Bands) != 3 {
		t.Fatalf("taken apart as %+v", l.Breakdown)
	}
	toReady := l.Spreads[10]
	for _, b := range l.Breakdown[0].Bands {
		sum := 0.0
		for _, part := range b.Parts {
			sum += part
		}
		// scheduling was seen before podCreated, so that nothing is left for it.
		if math.Abs(sum-b.Total) > 1e-9 || b.Parts[2] != 0 || b.Total <= 0 || Num(b.Total) > toReady.Max {
			t.Errorf("%+v", b)
		}
	}
	if slow := l.Breakdown[0].Bands[2].Total; Num(slow) < toReady.P90 {
		t.Errorf("the slow ones took %v s on average, p90 is %v", slow, toReady.P90)
	}
}

// A phase that may have been reached before it was seen bounds a duration, its
// pod's startup is not taken apart, and what a scenario declares besides is not
// counted as a pod.
func TestUnsurePhases(t *testing.T) {
	path := filepath.Join(t.TempDir(), record.StreamFile)
	w := repotest.Must(record.Create(path))(t)
	for _, o := range []record.Object{
		{Resource: "pods", Group: "g"}, {Resource: "pods", Group: "g", Lifecycle: "mine"}, {Resource: "pods", Group: "g"},
	} {
		w.Object(o)
	}
	see := func(object record.ObjectID, phase string, seconds float64, within time.Duration) {
		w.Phase(record.Phase{Object: object, Phase: phase, At: at(seconds), Within: within})
	}
	see(0, record.PhaseCreated, 1, 0)
	see(0, record.PhaseUnknown, 4, 2*time.Second)
	see(0, record.PhaseBound, 4, 2*time.Second) // between 2 and 4 s
	see(1, record.PhaseCreated, 1, 0)
	see(2, record.PhaseCreated, 2, 0)
	see(2, record.PhaseBound, 3, record.Ever)
	repotest.NoError(t, w.Close())
	facts := repotest.Must(run.Collect(path, record.Manifest{}))(t)
	if n := countObjects(podLifecycles(facts)); n != 2 {
		t.Errorf("%d pods, want 2", n)
	}
	seen := false
	for _, spread := range newSpreads(facts, podLifecycles(facts), podTransitions()) {
		if spread.Phase == "created to bound" {
			seen = true
			if spread.N != 0 || spread.Bounded != 2 || spread.Open != 0 || spread.Max != 3 || spread.Bounds["max"] != "≤" {
				t.Errorf("%+v", spread)
			}
		}
	}
	if !seen {
		t.Error("how long pods took to be bound is missing")
	}
	toBound := parting{phases: []string{record.PhaseCreated, record.PhaseBound}, ordered: 1}
	for row := range 2 {
		if _, ok := takeApart(facts, podLifecycles(facts)[0], row, toBound); ok {
			t.Errorf("the startup of pod %d, whose phases are not sure, is taken apart", row)
		}
	}
}
