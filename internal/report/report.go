// Package report turns a run directory and its judgement into what people
// read: one self-contained HTML page with charts, and a plain text summary.
//
// It judges nothing (package slo does) and reads no clock and no path into its
// output: the same run directory gives the same bytes, wherever it lies.
// Package interop/junit writes the form for CI.
package report

import (
	"fmt"
	"slices"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/slo"
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
	Components []ComponentRow
	Published  []Published
	Causes     []Cause // what gave way, first of all what did so first; empty without a diagnosis
	Breakdown  []Breakdown
	Declared   []DeclaredLife // of other objects than pods
	Warnings   []string       // of the run and its manifest, without repetition
	Scenario   string         // text of scenario.yaml, empty when it is missing
	Duration   float64        // seconds from the first record to the last
	Pods       int            // pods that were seen
	Live       bool           // the run is under way
	step       string         // that it is in
	begin      clock.Time
	podParts   []string // that Breakdown is of
	charts     Data
}

// Build reads the records of dir and arranges them. The manifest is dir's own;
// j is what package slo made of the same records.
func Build(dir record.Dir, m record.Manifest, j slo.Judgement) (*Report, error) {
	t, err := readTally(dir.File(record.StreamFile))
	if err != nil {
		return nil, fmt.Errorf("build report: %w", err)
	}
	return t.report(dir, m, j)
}

// report arranges what was read of the records of dir.
func (t *tally) report(dir record.Dir, m record.Manifest, j slo.Judgement) (*Report, error) {
	text, err := readScenario(dir)
	if err != nil {
		return nil, fmt.Errorf("build report: %w", err)
	}
	warnings := t.warnings(m)
	published, err := publishedIn(text)
	if err != nil {
		warnings = append(warnings, sentence("The published figures are left out: "+err.Error()))
	}
	causes, err := readDiagnosis(dir)
	if err != nil {
		warnings = append(warnings, sentence("What gave way first is left out: "+err.Error()))
	}
	known, err := livesIn(text)
	if err != nil {
		warnings = append(warnings, sentence("The phases of the lives stand in the order in which they were seen: "+err.Error()))
	}
	pods := t.lives.pods
	r := &Report{
		Manifest:   m,
		Judgement:  j,
		Objectives: rankObjectives(j.Objectives),
		Steps:      t.steps,
		Startup:    t.spreads(pods, podStretches()),
		Calls:      t.callRows(),
		Components: t.componentRows(m.Processes()),
		Published:  besideMeasured(published, j.Measures),
		Causes:     causes,
		Breakdown:  t.breakdowns(pods, podParting()),
		Declared:   t.declaredLives(known),
		Warnings:   warnings,
		Scenario:   text,
		Duration:   t.span.seconds(),
		Pods:       pods.count(),
		begin:      t.begin,
		podParts:   pods.partNames(podParting()),
	}
	r.Trust = slices.Concat(t.trust(m, j), cleanStart(m.Gate), t.gates(text))
	r.charts = t.charts(r)
	if n := len(r.Steps); n > 0 && !r.Steps[n-1].Ended {
		r.step = r.Steps[n-1].Name
	}
	return r, nil
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

// Published is a published figure beside the one that was measured.
type Published struct {
	scenario.Published
	Measured *slo.Measure // nil when the run has no such measure
}

func besideMeasured(figures []scenario.Published, measures map[string]slo.Measure) []Published {
	out := make([]Published, 0, len(figures))
	for _, f := range figures {
		p := Published{Published: f}
		if m, ok := measures[f.Measure]; ok {
			p.Measured = &m
		}
		out = append(out, p)
	}
	return out
}
