// Package slo turns records into verdicts: it collects what a run measured and
// holds it against the scenario's objectives and the official Kubernetes SLOs.
//
// It is pure: the same records give the same verdict on any machine and in any
// later year. It draws nothing (package report does) and compares no two runs
// (package compare does).
package slo

import "github.com/windtunnel/windtunnel/internal/opinion/run"

// Verdict is pass, fail or unknown. What was not measured is unknown, never a
// pass (rule of measurement 2).
type Verdict string

// The verdicts.
const (
	Pass    Verdict = "pass"
	Fail    Verdict = "fail"
	Unknown Verdict = "unknown"
)

// Judgement is the content of verdict.json.
type Judgement struct {
	Scenario   string             `json:"scenario"`
	Verdict    Verdict            `json:"verdict"`
	Reasons    []string           `json:"reasons,omitempty"` // why it is not a pass, or what casts doubt on it; sentences, most weighty first
	Objectives []Result           `json:"objectives"`
	Failures   []Failure          `json:"failures,omitempty"` // how calls of the load failed
	Unmet      []Unmet            `json:"unmet,omitempty"`    // what was asked for and did not come about
	Measures   Measures           `json:"measures"`
	Lifecycles []LifecycleSummary `json:"lifecycles,omitempty"` // that the scenario declares
	Self       Self               `json:"self"`
	Rates      []run.Rate         `json:"-"` // what steps asked for and achieved: measures have it by name
}

// Result is one objective's outcome.
type Result struct {
	Name      string            `json:"name"`
	SLI       string            `json:"sli"`
	Labels    map[string]string `json:"labels"`
	Statistic string            `json:"statistic"`
	Value     *float64          `json:"value"` // nil when nothing was measured
	Unit      string            `json:"unit"`
	Threshold float64           `json:"threshold"`
	AtLeast   bool              `json:"at_least,omitempty"` // the threshold is a lower bound
	Verdict   Verdict           `json:"verdict"`
	Samples   int               `json:"samples"`
	Interval  *[2]float64       `json:"interval"`         // 95 % confidence interval of the value, or the histogram bucket that holds it
	Failed    int               `json:"failed,omitempty"` // of the calls that it counts: those that failed or had no answer
	Warnings  []string          `json:"warnings"`

	certain bool // no noise and no lateness of the instrument can have been the reason
}

// Measure is a named number, shown but not judged.
type Measure struct {
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Own says that the scenario asked for it, and Better which way of it is the
	// better one: "lower", "higher", or "" where the scenario does not say.
	Own    bool   `json:"own,omitempty"`
	Better string `json:"better,omitempty"`
}

// Self is what the instrument cost and how late it was (rule of measurement 4).
type Self struct {
	CPUSeconds         float64 `json:"cpu_seconds"`
	MaxRSSBytes        uint64  `json:"max_rss_bytes"`
	LateCalls          int     `json:"late_calls"` // sent more than 100 ms after they were due
	MaxLatenessSeconds float64 `json:"max_lateness_seconds"`
	CPUShare           float64 `json:"cpu_share"`    // own CPU seconds / the plane's CPU seconds; 0 when the plane's are unknown
	MemoryShare        float64 `json:"memory_share"` // own peak of resident memory / the sum of the components' peaks; likewise

	WatchGaps          int      `json:"watch_gaps"`            // how often an own watch was interrupted
	WatchLagP99Seconds *float64 `json:"watch_lag_p99_seconds"` // of the watches' worst lags: the plane's part and our own; nil where nobody knows
	WatchLagMaxSeconds *float64 `json:"watch_lag_max_seconds"` // likewise
	ScrapesLost        int      `json:"scrapes_lost"`          // that failed
	ScrapesLate        int      `json:"scrapes_late"`          // that were not taken, because the one before them took so long

	RecordsStalledSeconds float64 `json:"records_stalled_seconds,omitempty"` // that sending and seeing waited for the disk of the records
}
