package run

import (
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// A member's bins count all of its calls and keep the slowest, however long the run.
func TestClustersKeepTheirSlowest(t *testing.T) {
	x := Cluster{Name: "edge-1", Width: time.Second}
	const n = 1000
	for i := range n {
		at := clock.Time(i) * clock.Time(time.Second)
		c := record.Call{Due: at, Sent: at, Done: at.Add(time.Millisecond)}
		if i == 700 {
			c.Done, c.Outcome = at.Add(time.Second/2), record.Failed
		}
		x.add(c)
	}
	if len(x.Bins) > maxClusterBins || x.Width != 8*time.Second {
		t.Errorf("%d bins of %v", len(x.Bins), x.Width)
	}
	calls, bad := 0, 0
	for _, b := range x.Rebin(2 * x.Width) {
		calls, bad = calls+b.Calls, bad+b.Bad
	}
	if b := x.Bins[700/8]; calls != n || bad != 1 || b.Slowest != time.Second/2 || b.Bad != 1 || b.Calls != 8 {
		t.Errorf("%d calls, %d bad, %+v", calls, bad, b)
	}
}
