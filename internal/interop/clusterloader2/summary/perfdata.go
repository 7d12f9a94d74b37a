// Package summary writes the results of a run as ClusterLoader2 does: files of
// its names with PerfData in JSON, which perf-dash and PerfLens read.
//
// It judges nothing and has no results of its own: what the records do not tell
// has no file.
package summary

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
)

// results are what files are made of.
type results struct {
	*run.Run
	Judgement slo.Judgement
}

// Data is the form of most files.
type Data struct {
	Version string            `json:"version"`
	Items   []Item            `json:"dataItems"`
	Labels  map[string]string `json:"labels,omitempty"`
}

// Item is one set of numbers with one unit.
type Item struct {
	Data   map[string]float64 `json:"data"`
	Unit   string             `json:"unit"`
	Labels map[string]string  `json:"labels,omitempty"`
}

// Versions of the data, which readers compare.
const (
	phaseVersion = "1.0" // latencies between the phases of objects
	callVersion  = "v1"
)

// Files returns the content of each file by its name: SUMMARY_SCENARIO_TIME.json,
// TIME being the end of the run in UTC.
func Files(in *run.Run, j slo.Judgement) (map[string][]byte, error) {
	r := results{in, j}
	at := r.Manifest.Started.Add(time.Duration(r.Facts.End)).UTC().Format(time.RFC3339)
	out := map[string][]byte{}
	for name, content := range r.listSummaries() {
		raw, err := json.MarshalIndent(content, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", name, err)
		}
		out[strings.Join([]string{cleanName(name), cleanName(r.Scenario.Name), at}, "_")+".json"] = append(raw, '\n')
	}
	return out, nil
}

// Write writes the files into a folder, which it makes when it is not there,
// and returns their names, sorted.
func Write(dir string, r *run.Run, j slo.Judgement) ([]string, error) {
	files, err := Files(r, j)
	if err != nil {
		return nil, err
	}
	folder, err := record.MakeFolder(dir, 0o755)
	if err != nil {
		return nil, fmt.Errorf("write results: %w", err)
	}
	names := slices.Sorted(maps.Keys(files))
	var faults []error
	for _, name := range names {
		if err := folder.WriteMode(name, files[name], 0o644); err != nil {
			faults = append(faults, fmt.Errorf("write results: %w", err))
		}
	}
	return names, errors.Join(faults...)
}

// listSummaries returns what there is, by ClusterLoader2's name of it.
func (r results) listSummaries() map[string]any {
	out := map[string]any{}
	for _, group := range r.Facts.PodGroups() {
		if items := r.startupSummary(group); len(items) > 0 {
			out["PodStartupLatency_"+group] = Data{Version: phaseVersion, Items: items}
		}
	}
	if items := r.callsSummary(); len(items) > 0 {
		out["APIResponsivenessPrometheus_simple"] = Data{Version: callVersion, Items: items}
	}
	if t, ok := r.throughputSummary(); ok {
		out["SchedulingThroughput"] = t
	}
	if u := r.usageSummary(); len(u) > 0 {
		out["ResourceUsageSummary"] = u
	}
	if e, ok := r.etcdSummary(); ok {
		out["EtcdMetrics"] = e
	}
	if items := r.timerSummary(); len(items) > 0 {
		out["Timer"] = Data{Version: callVersion, Items: items}
	}
	maps.Copy(out, r.querySummaries())
	return out
}

// cleanName makes a part of a file's name of a text: an underscore separates the
// parts, but the summaries' own names have some.
func cleanName(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || strings.ContainsRune(`/\`, c) {
			return '-'
		}
		return c
	}, text)
}

// listPercentiles returns those that ClusterLoader2 gives.
func listPercentiles() map[string]float64 {
	return map[string]float64{"Perc50": 0.5, "Perc90": 0.9, "Perc99": 0.99}
}

// toMilliseconds gives a time of seconds with the digits of a nanosecond.
func toMilliseconds(seconds float64) float64 { return math.Round(seconds*1e9) / 1e6 }

// isFinite tells whether JSON has a number for it.
func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
