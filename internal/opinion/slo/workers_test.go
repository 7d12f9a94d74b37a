package slo_test

import (
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
)

// A run that ended before its workers were there does not speak of records that were cut.
func TestWorkersThatNeverCame(t *testing.T) {
	f := newFlight(t)
	f.m.Workers = &record.WorkersFact{Count: 2}
	f.end("interrupted")
	j := f.judge()
	why := strings.Join(j.Reasons, " ")
	if j.Verdict != slo.Unknown || !strings.Contains(why, "Worker 1 brought no records") || strings.Contains(why, "not whole") {
		t.Errorf("%s: %q", j.Verdict, j.Reasons)
	}
}

// One late call of a worker's few says nothing of its pace.
func TestWorkersWithFewCalls(t *testing.T) {
	for _, c := range []struct {
		late, calls int
		want        bool
	}{{1, 60, false}, {2, 60, false}, {3, 60, true}, {1, 3, false}, {3, 3, true}, {10, 1000, false}, {30, 1000, true}, {0, 0, false}} {
		if got := slo.WorkerTooLate(&run.Worker{Late: c.late, Calls: c.calls}); got != c.want {
			t.Errorf("%d of %d: %v", c.late, c.calls, got)
		}
	}
}
