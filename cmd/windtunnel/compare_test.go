package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/windtunnel/windtunnel/internal/record"
)

const sideScenario = `scenario: small
description: with the limiter ${limiter}
parameters:
  limiter: none
bodies:
  pod:
    text: "{apiVersion: v1, kind: Pod, metadata: {name: '{{ .Name }}'}}"
steps:
- name: fill
  create: {body: pod, count: 200, pace: {constant: 1000}}
objectives:
- name: calls
  sli: call-latency
  labels: {step: fill}
  statistic: p50
  max: 0.1
`

// side is a made-up run of one variant.
type side struct {
	limiter string
	seed    uint64
	latency time.Duration
	cores   int
	whole   bool
}

// makeSides writes runs to be compared: a1 to a5, b1 to b5 that are 30 %
// slower, one that was killed, one of another machine.
func makeSides(dir string) error {
	noise := []float64{1, 1.02, 0.99, 1.01, 0.98}
	made := map[string]side{
		"cut":   {"none", 1, 10 * time.Millisecond, 2, false},
		"other": {"none", 1, 10 * time.Millisecond, 64, true},
	}
	for i, n := range noise {
		made[fmt.Sprintf("a%d", i+1)] = side{"none", uint64(i), time.Duration(10e6 * n), 2, true}
		made[fmt.Sprintf("b%d", i+1)] = side{"5/10", uint64(i), time.Duration(13e6 * n), 2, true}
	}
	for name, s := range made {
		if err := s.write(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func (s side) write(path string) error {
	d, err := record.CreateDir(path)
	if err != nil {
		return err
	}
	if err := d.Write(record.ScenarioFile, []byte(sideScenario)); err != nil {
		return err
	}
	m := record.Manifest{
		Format: record.Format, Scenario: "small", File: "small.yaml", Seed: s.seed,
		Parameters: map[string]any{"limiter": s.limiter}, Versions: map[string]string{"windtunnel": version},
		Machine: record.Machine{Cores: s.cores},
		// No two runs begin at one time: that would be one run and its copy.
		Started: time.Date(2026, 1, 2, s.cores, int(s.limiter[0]), int(s.seed), int(s.latency), time.UTC),
	}
	if err := d.WriteJSON(record.ManifestFile, m); err != nil {
		return err
	}
	return writeStream(d.File(record.StreamFile), s.latency, s.whole)
}
