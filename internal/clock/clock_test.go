package clock_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

func TestClockFollowsTheMonotonicClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.Start()
		time.Sleep(1500 * time.Millisecond)
		now := c.Now()
		if got := now.Seconds(); got != 1.5 {
			t.Errorf("Now after 1.5 s = %v s", got)
		}
		if got := c.Until(now.Add(time.Second)); got != time.Second {
			t.Errorf("Until = %v, want 1s", got)
		}
		if got := c.Wall(now).Sub(c.Epoch()); got != 1500*time.Millisecond {
			t.Errorf("Wall(now) - Epoch = %v", got)
		}
		if got := c.At(c.Wall(now)); got != now {
			t.Errorf("At(Wall(now)) = %v, want %v", got, now)
		}
	})
}

func ExampleTime_Sub() {
	due, done := clock.Time(1_000_000), clock.Time(13_000_000)
	fmt.Println(done.Sub(due))
	// Output: 12ms
}

func TestRecentIsByAge(t *testing.T) {
	c := clock.Start()
	before := c.Now()
	wall := time.Now().Round(0)
	after := c.Now()
	// The two clocks are read one after another: a slewed wall clock moves by far less meanwhile.
	if got := c.Recent(wall); got < before.Add(-time.Millisecond) || got > after.Add(time.Millisecond) {
		t.Errorf("%v is not between %v and %v", got, before, after)
	}
}
