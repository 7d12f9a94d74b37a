package flight

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/steps"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
)

// TestProgressOfParallelSteps holds the calls of two steps at a time against the
// targets of both.
func TestProgressOfParallelSteps(t *testing.T) {
	b := newBench(t, head(1)+`- parallel:
  - {name: many, create: {body: map, count: 300, pace: {constant: 300}}}
  - {name: few, create: {body: map, count: 15, pace: {constant: 15}}}
`)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- steps.Run(ctx, b.newSession()) }()
	defer cancel()
	both := false
	for {
		select {
		case err := <-done:
			if err != nil || !both {
				t.Fatalf("%v; both steps were seen: %v", err, both)
			}
			return
		default:
		}
		s := b.progress.currentStatus()
		if s.Done > s.Total {
			t.Fatalf("%d of %d: %+v", s.Done, s.Total, s)
		}
		if s.Total == 315 && s.Requested > 0 {
			both = both || s.Requested == 315
			if s.Requested != 315 && s.Requested != 300 && s.Requested != 15 {
				t.Fatalf("requested %v/s", s.Requested)
			}
		}
		repotest.NoError(t, clock.Sleep(ctx, 5*time.Millisecond))
	}
}

// TestRateOfAWait leaves out what was there before the wait began, and counts
// down where things are waited for until they are gone.
func TestRateOfAWait(t *testing.T) {
	for _, tt := range []struct {
		name               string
		first, then, total int
		rate               float64
		left               time.Duration
	}{
		{"nothing new", 2800, 2800, 3000, 0, -1},
		{"two more", 2800, 2802, 3000, 1, 198 * time.Second},
		{"from nothing", 0, 100, 300, 50, 4 * time.Second},
		{"going", 300, 100, 50, 100, 500 * time.Millisecond},
		{"fewer than before", 100, 90, 300, 0, -1},
	} {
		s := Status{Done: tt.then, Total: tt.total, Left: -1}
		if s.setRate(tt.first, 2*time.Second); s.Achieved != tt.rate || s.Left != tt.left {
			t.Errorf("%s: %v/s, %v left, want %v/s, %v", tt.name, s.Achieved, s.Left, tt.rate, tt.left)
		}
	}
	b := &progress{clock: clock.Start()}
	leave := b.Enter("wait-2")
	b.Waiting("wait-2", 2800, 3000)
	b.Waiting("wait-2", 2802, 3000)
	if s := b.steps[0]; s.first != 2800 || s.done != 2802 {
		t.Errorf("%+v", s)
	}
	leave()
}

// TestABurstHasNoRate writes a status while all calls are due at once.
func TestABurstHasNoRate(t *testing.T) {
	b := newBench(t, head(1)+"- {create: {body: map, count: 20, pace: {burst: true}}}\n")
	b.server.Inject(func(*http.Request) *apitest.Injection { return &apitest.Injection{Delay: 2 * time.Second} }) // long enough to be seen
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- steps.Run(ctx, b.newSession()) }()
	defer cancel()
	for seen := false; ; {
		select {
		case err := <-done:
			if err != nil || !seen {
				t.Fatalf("%v; the burst was seen: %v", err, seen)
			}
			return
		default:
		}
		if s := b.progress.currentStatus(); s.Total == 20 && s.Done < 20 {
			if seen = true; s.Requested != 0 {
				t.Fatalf("%v calls a second are asked for", s.Requested)
			}
		}
		repotest.NoError(t, clock.Sleep(ctx, time.Millisecond))
	}
}
