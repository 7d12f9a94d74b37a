package flight

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/fly/flight/inspect"
	"github.com/windtunnel/windtunnel/internal/fly/flight/preflight"
	"github.com/windtunnel/windtunnel/internal/fly/steps"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// ErrDirty says that the plane was not clean when the run was to begin, and
// that the scenario wants no run on such a one.
var ErrDirty = errors.New("the plane is not clean")

// How long a run waits for a clean plane when its scenario does not say, and how
// often it looks. A plane of its own has had no load yet: what keeps it busy is
// its own start, of which there is little left, unless it has subjects.
const (
	waitOwn    = time.Second
	waitJoin   = 30 * time.Second // a plane of its own with subjects: hollow edges, for example, join at first
	everyOwn   = 100 * time.Millisecond
	waitOthers = 2 * time.Minute
	lookEvery  = 2 * time.Second // long enough for a mean of CPU, which the kernel counts in steps of 10 ms
)

// preflightCheck looks whether the plane is clean before the first step.
type preflightCheck struct {
	*steps.Session
	dir     *directory
	cluster string // which one it is, of a plane that others started
}

// awaitClean waits until the plane is clean, for as long as the scenario says. A run
// that begins on a dirty plane is tagged with what was found: in the
// manifest, in the records, and from there in the verdict.
func (c *preflightCheck) awaitClean(ctx context.Context, since inspect.CPU) error {
	i := inspect.New(c.Inspection(), since)
	wait, every := preflightPatience(c.Workload.Scenario, c.Own)
	var first preflight.State
	var from string
	if !c.Own {
		first, from = c.earlierState(ctx)
	}
	begin := c.Clock.Now()
	until, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("%v have passed", wait))
	defer cancel()
	var last preflight.State
	found, err := preflight.AwaitClean(until, every, func(ctx context.Context) []preflight.Finding {
		last = i.State(ctx)
		if c.Own {
			last.Unrated = nil // it has had no load yet
		} else {
			i.AddLeftovers(ctx, &last)
			i.AddProbeWrites(ctx, &last)
		}
		found := i.Findings(last, first)
		c.Progress.WaitingFor("preflight", preflight.Sentence(found))
		return found
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil && len(found) == 0 { // nothing was found yet, but the look did not end either
		found = []preflight.Finding{{Kind: preflight.Unread, Text: fmt.Sprintf("it was not looked at to the end: %v", context.Cause(until))}}
	}
	return c.recordFindings(found, c.newFacts(last, from, c.Clock.Now().Sub(begin)))
}

// preflightPatience is how long a run waits for a clean plane at most, and how often it looks.
func preflightPatience(s *scenario.Scenario, own bool) (wait, every time.Duration) {
	switch wait, every = waitOthers, lookEvery; {
	case own && len(s.Subjects) > 0:
		wait, every = waitJoin, everyOwn
	case own:
		wait, every = waitOwn, everyOwn
	}
	if w := s.Preflight.Wait; w > 0 {
		wait = time.Duration(w)
	}
	return wait, min(every, max(wait/4, everyOwn)) // it takes two looks to know a rate
}

// newFacts are what a later run on the same cluster wants to know.
func (c *preflightCheck) newFacts(s preflight.State, from string, waited time.Duration) *record.PreflightFacts {
	f := &record.PreflightFacts{Waited: waited.Seconds()}
	if c.Own {
		return f
	}
	f.Cluster, f.First, f.Heap, f.Store, f.ProbeWrites, f.Retries = c.cluster, from, s.Heap, s.Store, s.ProbeWrites, map[string]float64{}
	for name, w := range s.Queues {
		if w.Retries > 0 {
			f.Retries[name] = w.Retries
		}
	}
	return f
}

// recordFindings writes down what was found. The error says that the run is not to be
// flown.
func (c *preflightCheck) recordFindings(found []preflight.Finding, facts *record.PreflightFacts) error {
	facts.Clean = len(found) == 0
	for _, f := range found {
		facts.Findings = append(facts.Findings, record.PreflightFinding{Kind: f.Kind, Text: f.Text})
		c.Journal.Dirty(f)
	}
	c.dir.manifest.Preflight = facts
	if err := c.dir.saveManifest(); err != nil || facts.Clean {
		return err
	}
	c.Log.Warn("the plane is not clean", slog.String("found", preflight.Sentence(found)))
	if c.Workload.Scenario.Preflight.Dirty == "stop" {
		return fmt.Errorf("%w: %s", ErrDirty, preflight.Sentence(found))
	}
	return nil
}

// earlierState is what the cluster was like before the first clean run on it, of
// those that lie beside this run's directory; nothing when there is none.
func (c *preflightCheck) earlierState(ctx context.Context) (first preflight.State, from string) {
	c.cluster = c.clusterID(ctx)
	siblings, err := os.ReadDir(filepath.Dir(string(c.dir.Dir)))
	if err != nil || c.cluster == "" {
		return first, ""
	}
	begun := time.Time{}
	for _, s := range siblings {
		if !s.IsDir() || s.Name() == filepath.Base(string(c.dir.Dir)) { // not the link latest either
			continue
		}
		_, m, err := record.OpenDir(filepath.Join(filepath.Dir(string(c.dir.Dir)), s.Name()))
		if err != nil || m.Preflight == nil || !m.Preflight.Clean || m.Preflight.Cluster != c.cluster || from != "" && !m.Started.Before(begun) {
			continue
		}
		begun, from = m.Started, s.Name()
		first = preflight.State{Heap: m.Preflight.Heap, Store: m.Preflight.Store, ProbeWrites: m.Preflight.ProbeWrites, Queues: map[string]preflight.Work{}}
		for name, rate := range m.Preflight.Retries {
			first.Queues[name] = preflight.Work{Retries: rate}
		}
	}
	return first, from
}

// clusterID is by what a cluster is known from run to run; empty where it
// cannot be read.
func (c *preflightCheck) clusterID(ctx context.Context) string {
	answer, err := c.Client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: "/api/v1/namespaces/kube-system"})
	if err != nil || answer.Code != http.StatusOK {
		return ""
	}
	about, _ := object.ReadMetadata(answer.Body) // of what is no JSON: none
	return about.UID
}
