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
	for name, content := range r.summaries() {
		raw, err := json.MarshalIndent(content, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", name, err)
		}
		out[strings.Join([]string{clean(name), clean(r.Scenario.Name), at}, "_")+".json"] = append(raw, '\n')
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

// summaries returns what there is, by ClusterLoader2's name of it.
func (r results) summaries() map[string]any {
	out := map[string]any{}
	for _, group := range r.Facts.PodGroups() {
		if items := r.startup(group); len(items) > 0 {
			out["PodStartupLatency_"+group] = Data{Version: phaseVersion, Items: items}
		}
	}
	if items := r.calls(); len(items) > 0 {
		out["APIResponsivenessPrometheus_simple"] = Data{Version: callVersion, Items: items}
	}
	if t, ok := r.throughput(); ok {
		out["SchedulingThroughput"] = t
	}
	if u := r.usage(); len(u) > 0 {
		out["ResourceUsageSummary"] = u
	}
	if e, ok := r.etcd(); ok {
		out["EtcdMetrics"] = e
	}
	if items := r.timers(); len(items) > 0 {
		out["Timer"] = Data{Version: callVersion, Items: items}
	}
	maps.Copy(out, r.queries())
	return out
}

// clean makes a part of a file's name of a text: an underscore separates the
// parts, but the summaries' own names have some.
func clean(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || strings.ContainsRune(`/\`, c) {
			return '-'
		}
		return c
	}, text)
}

// percentiles are those that ClusterLoader2 gives.
func percentiles() map[string]float64 {
	return map[string]float64{"Perc50": 0.5, "Perc90": 0.9, "Perc99": 0.99}
}

// milliseconds gives a time of seconds with the digits of a nanosecond.
func milliseconds(seconds float64) float64 { return math.Round(seconds*1e9) / 1e6 }

// finite tells whether JSON has a number for it.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
