package slo_test

import (
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/slo"
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
