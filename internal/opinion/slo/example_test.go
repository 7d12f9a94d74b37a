package slo_test

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// A run's records are collected once and held against its scenario.
func Example() {
	folder, err := os.MkdirTemp("", "windtunnel")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, record.StreamFile)
	w, err := record.Create(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	second := clock.Time(time.Second)
	w.Event(record.Event{At: second, Type: record.EventRunBegan})
	for i := range clock.Time(1000) {
		pod := w.Object(record.Object{Resource: "pods", Group: "web"})
		w.Phase(record.Phase{Object: pod, Phase: record.PhaseCreated, At: second + i*second/100})
		w.Phase(record.Phase{Object: pod, Phase: record.PhaseRunning, At: second + i*second/100 + i*second/400})
	}
	w.Event(record.Event{At: 20 * second, Type: record.EventRunEnded, Detail: record.Detail{Reason: record.Done}})
	if err := w.Close(); err != nil {
		fmt.Println(err)
		return
	}

	bound := 2.0
	sc := &scenario.Scenario{Name: "web", Objectives: []scenario.Objective{
		{Name: "web pods run", SLI: "pod-startup", Labels: map[string]string{"group": "web"}, Statistic: "p99", Max: &bound},
	}}
	facts, err := run.Collect(path, record.Manifest{})
	if err != nil {
		fmt.Println(err)
		return
	}
	j, err := slo.Judge(&run.Run{Scenario: sc, Facts: facts})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := j.Objectives[0]
	fmt.Printf("%s: p99 of %d pods is %v s, interval %v\n", j.Verdict, r.Samples, *r.Value, *r.Interval)
	fmt.Println(j.Reasons[0])
	// Output:
	// fail: p99 of 1000 pods is 2.4725 s, interval [2.455 2.49]
	// p99 of web pods run (web) is 2.473 s, above its bound of 2 s.
}
