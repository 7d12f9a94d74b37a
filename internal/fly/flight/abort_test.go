package flight

import (
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

func TestWhatEndsARunEarly(t *testing.T) {
	slow := func(seconds ...float64) (out []load.Progress) {
		for _, s := range seconds {
			out = append(out, load.Progress{P99: time.Duration(s * float64(time.Second))})
		}
		return out
	}
	ten := unit.Duration(10 * time.Second)
	for _, tt := range []struct {
		name   string
		on     scenario.AbortOn
		looks  []load.Progress // five seconds apart
		failed int
		at     int // of looks; -1: never
		why    string
	}{
		{"calls that fail", scenario.AbortOn{FailedCalls: 3, For: ten}, slow(0), 3, 0, "3 calls failed (failedCalls: 3)"},
		{"fewer calls that fail", scenario.AbortOn{FailedCalls: 3, For: ten}, slow(0, 0, 0), 2, -1, ""},
		{"slow for long", scenario.AbortOn{P99: unit.Duration(time.Second), For: ten}, slow(0.1, 2, 2, 3), 9, 3, "the p99 of calls was above 1s for 10s, and is 3s (p99)"},
		{"slow now and then", scenario.AbortOn{P99: unit.Duration(time.Second), For: ten}, slow(2, 2, 0.5, 2, 2, 0.5), 0, -1, ""},
	} {
		w, at, why := abortWatch{AbortOn: tt.on}, -1, ""
		for i, p := range tt.looks {
			if why = w.checkAbort(clock.Time(i)*clock.Time(5*time.Second), p, tt.failed); why != "" {
				at = i
				break
			}
		}
		if at != tt.at || !strings.Contains(why, tt.why) {
			t.Errorf("%s: at look %d: %q", tt.name, at, why)
		}
	}
}
