// Package measurement writes a run as the documents that kube-burner's local
// indexer writes, so that what reads those reads ours: jobSummary,
// podLatencyMeasurement and podLatencyQuantilesMeasurement.
//
// It measures and judges nothing: latencies are those of the records, the
// verdict is the run's. What nobody saw is left out of a document, never 0.
// Package kubeburner reads kube-burner's configs.
package measurement

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
)

// results are what documents are made of.
type results struct {
	*run.Run
	Judgement slo.Judgement
}

// The names of documents: of their field metricName, and of their files.
const (
	Summary   = "jobSummary"
	Latency   = "podLatencyMeasurement"
	Quantiles = "podLatencyQuantilesMeasurement"
)

// summary is the document of a job.
type summary struct {
	Timestamp           time.Time  `json:"timestamp"`
	EndTimestamp        time.Time  `json:"endTimestamp"`
	ChurnStartTimestamp *time.Time `json:"churnStartTimestamp,omitempty"`
	ChurnEndTimestamp   *time.Time `json:"churnEndTimestamp,omitempty"`
	ElapsedTime         float64    `json:"elapsedTime"` // whole seconds
	UUID                string     `json:"uuid"`
	MetricName          string     `json:"metricName"`
	JobConfig           jobConfig  `json:"jobConfig"`
	Version             string     `json:"version"`
	Passed              bool       `json:"passed"` // the run's verdict is a pass: neither a fail nor an unknown
	ExecutionErrors     string     `json:"executionErrors,omitempty"`
	K8sVersion          string     `json:"k8sVersion,omitempty"`
	TotalNodes          int        `json:"totalNodes"`
}

// jobConfig is the part of a job's config that a scenario says.
type jobConfig struct {
	Name                   string  `json:"name"`
	JobType                string  `json:"jobType"`
	JobIterations          int     `json:"jobIterations,omitempty"`
	QPS                    float64 `json:"qps,omitempty"`
	Namespace              string  `json:"namespace,omitempty"`
	NamespacedIterations   bool    `json:"namespacedIterations,omitempty"`
	IterationsPerNamespace int     `json:"iterationsPerNamespace,omitempty"`
}

// Write writes a run's documents into a folder, which it makes, and returns the
// files' names. Files of those names are replaced.
func Write(folder string, of *run.Run, j slo.Judgement) ([]string, error) {
	r := results{of, j}
	seen := readFacts(r.Facts)
	files := map[string][]any{}
	var order []string
	put := func(name string, documents ...any) {
		if _, ok := files[name]; !ok {
			order = append(order, name)
		}
		files[name] = append(files[name], documents...)
	}
	for _, j := range listJobs(r.Scenario) {
		from, to, ok := seen.spanOf(j)
		if !ok {
			continue // the run ended before it
		}
		put(Summary+".json", r.jobSummaries(j, seen, [2]clock.Time{from, to}))
		lives, quantiles := r.latencyDocuments(j, seen)
		if len(lives) > 0 {
			put(Latency+"-"+j.name+".json", lives...)
			put(Quantiles+"-"+j.name+".json", quantiles...)
		}
	}
	into, err := record.MakeFolder(folder, 0o755)
	if err != nil {
		return nil, fmt.Errorf("write kube-burner's documents: %w", err)
	}
	for _, name := range order {
		var out bytes.Buffer
		if err := json.NewEncoder(&out).Encode(files[name]); err != nil {
			return nil, fmt.Errorf("encode %s: %w", name, err)
		}
		if err := into.WriteMode(name, out.Bytes(), 0o644); err != nil {
			return nil, fmt.Errorf("write kube-burner's documents: %w", err)
		}
	}
	return order, nil
}

// wallTime is the wall time of a moment of the run.
func (r results) wallTime(t clock.Time) time.Time {
	return r.Manifest.Started.Add(time.Duration(t)).UTC()
}

// runUUID is that of the scenario's own variables, or one made of the run's begin
// and seed where it has none.
func (r results) runUUID() string {
	for s := range r.Scenario.AllSteps() {
		if s.Create != nil {
			if id, ok := s.Create.With["UUID"].(string); ok {
				return id
			}
		}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s", r.Scenario.Name, r.Manifest.Seed, r.Manifest.Started.Format(time.RFC3339Nano)))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // version 8 of RFC 9562
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

func (r results) jobSummaries(j job, seen *facts, span [2]clock.Time) summary {
	s := summary{
		Timestamp: r.wallTime(span[0]), EndTimestamp: r.wallTime(span[1]), ElapsedTime: span[1].Sub(span[0]).Round(time.Second).Seconds(),
		UUID: r.runUUID(), MetricName: Summary, JobConfig: j.config, Version: "windtunnel " + r.Manifest.Versions["windtunnel"],
		Passed: r.Judgement.Verdict == slo.Pass, K8sVersion: r.Manifest.Versions["kubernetes"], TotalNodes: r.Manifest.Fleet.Nodes,
	}
	if !s.Passed {
		s.ExecutionErrors = strings.Join(r.Judgement.Reasons, "; ")
	}
	if from, to, ok := seen.churnSpan(j); ok {
		begin, end := r.wallTime(from), r.wallTime(to)
		s.ChurnStartTimestamp, s.ChurnEndTimestamp = &begin, &end
	}
	return s
}
