package measurement_test

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/windtunnel/windtunnel/internal/interop/kubeburner/measurement"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// A run becomes a folder of files, named as kube-burner's local indexer does.
func ExampleWrite() {
	folder, err := os.MkdirTemp("", "documents")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	records := filepath.Join(folder, record.StreamFile)
	w, err := record.Create(records)
	if err != nil {
		fmt.Println(err)
		return
	}
	w.Event(record.Event{At: seconds(1), Type: record.EventStepBegan, Name: "density"})
	pod := w.Object(record.Object{Resource: "pods", Namespace: "density-1", Name: "web-0", Group: "density"})
	w.Phase(record.Phase{Object: pod, Phase: record.PhaseCreated, At: seconds(2)})
	w.Phase(record.Phase{Object: pod, Phase: record.PhaseReady, At: seconds(3)})
	if err := w.Close(); err != nil {
		fmt.Println(err)
		return
	}
	facts, err := run.Collect(records, record.Manifest{})
	if err != nil {
		fmt.Println(err)
		return
	}
	names, err := measurement.Write(folder, &run.Run{
		Facts:    facts,
		Scenario: &scenario.Scenario{Steps: []scenario.Step{{Name: "density", Create: &scenario.Create{Count: 1, Group: "density"}}}},
		Manifest: record.Manifest{Started: time.Date(2026, 9, 14, 10, 0, 0, 0, time.UTC)},
	}, slo.Judgement{})
	fmt.Println(names, err)
	// Output:
	// [jobSummary.json podLatencyMeasurement-density.json podLatencyQuantilesMeasurement-density.json] <nil>
}
