package publish_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/publish"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestCalibrationBesideRuns publishes runs that were calibrated beside, all or some of them.
func TestCalibrationBesideRuns(t *testing.T) {
	calibrated := func(folder string, names ...string) {
		for i, name := range names {
			at := 0.1 * float64(1+i)
			repotest.NoError(t, record.Dir(filepath.Join(folder, name)).WriteJSON(publish.CalibrationFile, publish.Calibration{Version: 1, Seconds: []float64{at, at + 1, at - 0.01}}))
		}
	}
	all, some := experiment(t, 2, nil), experiment(t, 2, nil)
	calibrated(all, "a-01", "a-02", "b-01", "b-02")
	calibrated(some, "a-01", "a-02", "b-01")
	now := &publish.Calibration{Version: 1, Seconds: []float64{7}}
	for _, c := range []struct {
		name, folder string
		machine      record.Machine
		want         []float64
	}{
		{"all", all, record.Machine{CPU: "another"}, []float64{0.1, 0.2, 0.3, 0.4}},
		{"some, published on their machine", some, record.Machine{Cores: 2, CPU: "one", MemoryBytes: 8 << 30, Arch: "amd64"}, []float64{7}},
		{"some, published on another", some, record.Machine{CPU: "another"}, nil},
	} {
		raw := made(t, publish.Options{Source: c.folder, MadeBy: "v1", Calibration: now, Machine: c.machine})
		var x publish.Index
		z := repotest.Must(zip.NewReader(bytes.NewReader(raw), int64(len(raw))))(t)
		file := repotest.Must(z.Open(publish.IndexFile))(t)
		content := repotest.Must(io.ReadAll(file))(t)
		repotest.NoError(t, json.Unmarshal(content, &x))
		var got []float64
		if x.Calibration != nil {
			got = x.Calibration.Seconds
		}
		if !slices.EqualFunc(got, c.want, func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if c := publish.CalibrationOf([]string{filepath.Join(all, "a-01"), filepath.Join(some, "b-02")}); c != nil {
		t.Errorf("of a run without one: %+v", c)
	}
}

// TestBusierMachine tells a plane that became slower from a machine that became busier: the
// figures are the same, and what was measured beside the runs is not.
func TestBusierMachine(t *testing.T) {
	before := publish.Calibration{Version: 1, Seconds: []float64{0.100, 0.102, 0.099, 0.101, 0.100}}
	busier := publish.Calibration{Version: 1, Seconds: []float64{0.120, 0.123, 0.119, 0.121, 0.122}}
	if m := publish.Machines(&before, &busier); m == nil || m[0] < 1.1 || m[1] > 1.3 {
		t.Errorf("busier: %v", m)
	}
	if m := publish.Machines(&before, &before); m == nil || m[0] < 0.95 || m[1] > 1.05 {
		t.Errorf("as before: %v", m)
	}
}
