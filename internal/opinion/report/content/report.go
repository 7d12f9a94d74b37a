// Package content makes the figures of a report of a run and its judgement: tables,
// distributions, lines of charts, findings about trust. It draws nothing (package report
// does) and judges nothing (package slo does).
package content

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/diagnose"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/scenario"
)

// Report is everything that the forms of a report are written from.
type Report struct {
	Manifest   record.Manifest
	Judgement  slo.Judgement
	Objectives []Objective // worst first
	Trust      []Finding
	Steps      []Step
	Startup    []Spread // distributions of the pods' phases, by group
	Calls      []CallRow
	Members    []MemberRow // that calls were sent to, the slowest first
	Map        *Map        // nil without clusters beside the plane and paths
	Components []ComponentRow
	Clients    *run.Attribution // who asked what of the API server; nil where no audit log was read
	Published  []Published
	Causes     []diagnose.Finding // what gave way, first of all what did so first; empty without a diagnosis
	Breakdown  []Breakdown
	Declared   []DeclaredLifecycle // of other objects than pods
	Warnings   []string            // of the run and its manifest, without repetition
	Workers    []*run.Worker       // who shared the load; none: one process sent it
	Scenario   string              // text of scenario.yaml, empty when it is missing
	Duration   float64             // seconds from the first record to the last
	Pods       int                 // pods of the scenario's groups that were seen; of all where none are
	OtherPods  int                 // pods beside those: of no group
	Live       bool                // the run is under way
	Begin      clock.Time
	PodParts   []string // that Breakdown is of
	Charts     Data
	step       string // that it is in
}

// Build arranges a run; j is its judgement and found its diagnosis, first of all
// what gave way first. Of a run under way either may be of a moment ago, or empty.
func Build(in *run.Run, j slo.Judgement, found []diagnose.Finding) *Report {
	t, m := newTally(in), in.Manifest
	warnings := listWarnings(in.Facts, m)
	var published []scenario.Published
	switch {
	case in.Scenario != nil:
		published = in.Scenario.Published
	case in.Text != "":
		warnings = append(warnings, text.Sentence("What the scenario publishes and declares is left out: "+withoutDir(in.Unreadable, in.Dir)))
	}
	pods := podLifecycles(in.Facts)
	r := &Report{
		Manifest:   m,
		Judgement:  j,
		Objectives: rankObjectives(j.Objectives),
		Steps:      t.steps,
		Startup:    newSpreads(in.Facts, pods, podTransitions()),
		Calls:      t.callRows(),
		Members:    memberRows(in),
		Map:        newMap(in, j),
		Components: t.componentRows(m.Processes()),
		Clients:    in.Facts.Attribute(),
		Published:  besideMeasured(published, j.Measures),
		Causes:     found,
		Breakdown:  newBreakdowns(in.Facts, pods, podParting()),
		Declared:   declaredLifecycles(in),
		Warnings:   warnings,
		Workers:    in.Facts.Workers,
		Scenario:   in.Text,
		Duration:   t.span.inSeconds(),
		Begin:      in.Facts.Begin,
		PodParts:   podParting().partNames(),
	}
	all := countObjects(pods)
	r.Pods = cmp.Or(countObjects(in.Facts.Pods(nil)), all)
	r.OtherPods = all - r.Pods
	r.Trust = slices.Concat(trustFindings(in.Facts, m, j), clientsFinding(r.Clients), cleanStart(m.Preflight), settledFinding(in))
	r.Charts = t.newCharts(r)
	if n := len(r.Steps); n > 0 && !r.Steps[n-1].Ended {
		r.step = r.Steps[n-1].Name
	}
	return r
}

// Parts returns what upgrade steps changed, in the order of the steps.
func (r *Report) Parts() (out []run.Part) {
	for _, s := range r.Steps {
		out = append(out, s.Parts...)
	}
	return out
}

// withoutDir is an error without the path of the run directory: a report says the
// same wherever that lies.
func withoutDir(err error, dir record.Dir) string {
	return strings.ReplaceAll(err.Error(), string(dir)+string(filepath.Separator), "")
}

// UnderWay makes it the report of a run that has not ended yet: an absent end
// is no fault of it, and it has no verdict.
func (r *Report) UnderWay() {
	r.Live = true
	for i, f := range r.Trust {
		if f.Name == recordsFinding {
			r.Trust[i] = Finding{Note, recordsFinding, "Still being written: every figure is of what there is so far."}
		}
	}
}

// Published is a figure that was published for the run's parameters, beside the one that
// was measured.
type Published struct {
	scenario.Published
	Measured *slo.Measure // nil when the run has no such measure
}

func besideMeasured(figures []scenario.Published, measures map[string]slo.Measure) []Published {
	out := make([]Published, 0, len(figures))
	for _, f := range figures {
		if !f.When || f.Change != nil { // of other parameters, or of two sides: package compare
			continue
		}
		p := Published{Published: f}
		if m, ok := measures[f.Measure]; ok {
			p.Measured = &m
		}
		out = append(out, p)
	}
	return out
}
