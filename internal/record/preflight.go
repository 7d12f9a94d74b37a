package record

import (
	"encoding/json"
	"fmt"
)

// PreflightFacts says whether the plane was clean when the run began, and what
// it was like, so that a later run on the same cluster can be held against it.
type PreflightFacts struct {
	Clean    bool               `json:"clean"`
	Waited   float64            `json:"waited_seconds"`
	Findings []PreflightFinding `json:"findings,omitempty"`

	Cluster     string             `json:"cluster,omitempty"`             // UID of the namespace kube-system; empty for a plane of the run's own
	First       string             `json:"first_run,omitempty"`           // the run that this one was held against
	Heap        map[string]float64 `json:"heap_bytes,omitempty"`          // at which the garbage collector starts next, by component
	Store       float64            `json:"store_bytes,omitempty"`         // in use of etcd's database
	ProbeWrites []float64          `json:"probe_write_seconds,omitempty"` // creations, one after another
	Retries     map[string]float64 `json:"retries_per_second,omitempty"`  // by queue, above 0
}

// PreflightFinding is one thing that was not clean.
type PreflightFinding struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// UnmarshalJSON reads a manifest. Kept runs may have former words in what their
// preflight found.
func (m *Manifest) UnmarshalJSON(raw []byte) error {
	type plain Manifest
	former := struct {
		*plain
		Gate *struct {
			PreflightFacts
			Faults   []PreflightFinding `json:"faults"`
			Canaries []float64          `json:"canary_seconds"`
		} `json:"gate"`
	}{plain: (*plain)(m)}
	if err := json.Unmarshal(raw, &former); err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	if g := former.Gate; g != nil && m.Preflight == nil {
		m.Preflight = &g.PreflightFacts
		m.Preflight.Findings, m.Preflight.ProbeWrites = g.Faults, g.Canaries
	}
	return nil
}
