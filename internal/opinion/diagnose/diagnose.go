// Package diagnose says what limits a plane: of every run, failed or not, a
// ranked list of causes, each with its evidence and the next thing to try. Only
// what was used up is a cause; where nothing was, that is said, with what came
// nearest to its limit.
//
// The core, Findings, is pure: the same facts give the same list. Facts are what
// the records say of calls (Collect), the answers to a fixed list of PromQL
// expressions over the run's own series (Facts.Ask), so that a reader can check
// each of them, and what profiles say of locks. It passes no verdict (package slo
// does) and compares no runs (package compare does). docs/how-to/diagnosis.md explains
// each cause.
package diagnose

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/record"
)

// Cause is what may limit a plane, by a short name that does not change.
type Cause string

// The causes.
const (
	CPULimit       Cause = "cpu-limit"       // a component is held back by its CPU limit
	Memory         Cause = "memory"          // a component is at its memory limit, or collecting garbage takes its CPU
	ClientThrottle Cause = "client-throttle" // a component waits for its own rate limiter
	ClientCeiling  Cause = "client-ceiling"  // a component's requests keep to one rate, as behind a rate limiter that no metric shows
	WorkQueue      Cause = "work-queue"      // items wait because all workers of a queue are busy
	APF            Cause = "apf"             // API priority and fairness queues or rejects
	Webhook        Cause = "webhook"         // admission waits for a webhook
	EtcdDisk       Cause = "etcd-disk"       // etcd waits for its disk: fsync or commit
	EtcdLatency    Cause = "etcd-latency"    // even etcd's quickest answers are slow, and not for its disk
	EtcdQuota      Cause = "etcd-quota"      // etcd's database is near its quota
	WatchCache     Cause = "watch-cache"     // reads wait for the watch cache to catch up with etcd
	Locks          Cause = "locks"           // goroutines wait for one another
	Distance       Cause = "distance"        // workers wait for other clusters, which are far away
	Imbalance      Cause = "imbalance"       // one of several replicas has most to do, and is at its limit
	Proxying       Cause = "proxying"        // the API server is busy with passing requests on to other clusters
	Scan           Cause = "scan"            // a component goes through a whole cache for a few objects
	Stage          Cause = "stage"           // items wait because one stage of what workers do takes most of their time
	Scheduler      Cause = "scheduler"       // the scheduler's search for a node takes its time
	LoadLate       Cause = "load-late"       // windtunnel's load generator was late
	FleetLate      Cause = "fleet-late"      // windtunnel's simulated nodes were late
	Machine        Cause = "machine"         // no core of the machine was free
	Nothing        Cause = "nothing"         // nothing was at its limit; the only finding of its run
)

// File is the diagnosis in a run directory: a JSON array of findings, the first
// cause first.
const File = "diagnosis.json"

// Finding is one cause of a run.
type Finding struct {
	Rank      int        `json:"rank"` // from 1
	Cause     Cause      `json:"cause"`
	Component string     `json:"component"` // empty where it is no component's
	Sentence  string     `json:"sentence"`
	Score     float64    `json:"score"` // share of the load's window that the cause explains, 0 to 1
	Evidence  []Evidence `json:"evidence"`
	Try       string     `json:"try"` // the next thing to change, in sentences
}

// Evidence is one figure that speaks for a finding.
type Evidence struct {
	Expr     string            `json:"expr"`             // PromQL; empty where the figure is of the records of calls
	Labels   map[string]string `json:"labels,omitempty"` // which series of the expression's answer this is
	At       *time.Time        `json:"at,omitempty"`     // when the expression has this value
	Value    float64           `json:"value"`
	Unit     string            `json:"unit"`
	Bound    *float64          `json:"bound"`            // beyond which it speaks for the cause; null where none can be given
	Values   []float64         `json:"values,omitempty"` // the same over each of the window's slices, in the order of time
	Sentence string            `json:"sentence"`
}

// Scores from which on a cause is worth a reader's time: of a minute, a second
// beside a cause that is one by itself, which takes three.
const (
	minScore      = 0.01
	minFirstScore = 0.05
)

// Read returns the findings that a run directory holds, the first cause first;
// nothing where it has no diagnosis.
func Read(dir record.Dir) ([]Finding, error) {
	raw, err := dir.Read(File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read diagnosis: %w", err)
	}
	var out []Finding
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, fmt.Errorf("decode %s: %w", File, err)
	}
	slices.SortStableFunc(out, func(a, b Finding) int { return a.Rank - b.Rank })
	return out, nil
}
