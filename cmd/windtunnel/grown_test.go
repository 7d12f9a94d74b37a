package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/windtunnel/windtunnel/internal/record"
)

// makeGrown writes runs of growing size into a folder: two of each of four
// sizes, whose latency grows with it, and beside them what a crash and another
// version leave.
func makeGrown(dir string) error {
	for i, pods := range []int{100, 100, 200, 200, 400, 400, 800, 800} {
		path := filepath.Join(dir, "grown", fmt.Sprintf("g%d", i))
		d, err := record.CreateDir(path)
		if err != nil {
			return err
		}
		if err := d.Write(record.ScenarioFile, []byte(grownScenario)); err != nil {
			return err
		}
		m := record.Manifest{
			Format: record.Format, Scenario: "grown", File: "grown.yaml", Seed: 1, Parameters: map[string]any{"pods": pods, "word": "x"},
			Versions: map[string]string{"windtunnel": version}, Machine: record.Machine{Cores: 2}, Started: time.Date(2026, 1, 2, 3, i, 0, 0, time.UTC),
		}
		if err := d.WriteJSON(record.ManifestFile, m); err != nil {
			return err
		}
		latency := time.Duration(pods)*100*time.Microsecond + time.Duration(i%2)*time.Millisecond
		if err := writeStream(d.File(record.StreamFile), latency, true); err != nil {
			return err
		}
	}
	newer, err := record.CreateDir(filepath.Join(dir, "grown", "newer"))
	if err != nil {
		return err
	}
	return newer.Write(record.ManifestFile, []byte(`{"format": 99}`))
}

const grownScenario = `scenario: grown
parameters:
  pods: 100
  word: x
bodies:
  pod:
    text: "{apiVersion: v1, kind: Pod, metadata: {name: '{{ .Name }}'}}"
steps:
- name: fill
  create: {body: pod, count: "${pods}", pace: {constant: 1000}}
objectives:
- name: calls
  sli: call-latency
  labels: {step: fill}
  statistic: p50
  max: 0.1
`
