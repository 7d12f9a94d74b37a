package publish

import (
	"slices"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// CalibrationFile is beside the records of a run whose machine was calibrated before and
// after it. No bundle has it: the index has one figure of each run.
const CalibrationFile = "calibration.json"

// Calibration says how fast a machine does the fixed work of package calibrate.
type Calibration struct {
	Version int       `json:"version"`
	Seconds []float64 `json:"cpu_seconds"` // of each repeat, or the median beside each run
}

// CalibrationOf returns what was measured beside these runs, the median beside each; nil:
// one of them has nothing. The load of a shared machine changes from minute to minute, and
// with it what a second of CPU does: what was measured at another time says little of runs.
func CalibrationOf(folders []string) *Calibration {
	out := &Calibration{}
	for _, folder := range folders {
		var c Calibration
		if err := readJSON(record.Dir(folder), CalibrationFile, &c); err != nil || len(c.Seconds) == 0 || out.Version != 0 && out.Version != c.Version {
			return nil
		}
		out.Version = c.Version
		out.Seconds = append(out.Seconds, stats.Median(slices.Clone(c.Seconds)).Value)
	}
	if len(out.Seconds) == 0 {
		return nil
	}
	return out
}
