package wheel

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// TestWheel holds the wheel against what it promises: every timer fires once,
// never early, at most a tick after its time when it is advanced in time, and
// wake never sleeps past one.
func TestWheel(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var w Wheel
	type entry struct {
		Timer
		fired int
		at    clock.Time
	}
	now := clock.Time(0)
	entries := make([]*entry, 2000)
	for i := range entries {
		e := &entry{}
		e.Fire = func() { e.fired++; e.at = now }
		entries[i] = e
		w.Set(&e.Timer, clock.Time(rng.Int64N(int64(60*time.Second))))
	}
	for i, e := range entries {
		switch i % 5 {
		case 0:
			w.Stop(&e.Timer)
		case 1:
			w.Set(&e.Timer, clock.Time(rng.Int64N(int64(60*time.Second)))) // changed its mind
		}
	}
	for steps := 0; ; steps++ {
		wake, ok := w.Wake()
		if !ok {
			break
		}
		if wake <= now || steps > 100_000 {
			t.Fatalf("wake at %v, it is %v", wake, now)
		}
		now = wake
		w.Advance(now)
	}
	for i, e := range entries {
		want := 1
		if i%5 == 0 {
			want = 0
		}
		if e.fired != want {
			t.Errorf("timer %d fired %d times", i, e.fired)
		}
		if late := e.at.Sub(e.Due); want == 1 && (late < 0 || late > time.Duration(tick)) {
			t.Errorf("timer %d fired %v after its time", i, late)
		}
	}
	if w.count != 0 {
		t.Errorf("%d timers are left", w.count)
	}
}

// TestWheelInItself: what a firing timer does to others of its slot holds.
func TestWheelInItself(t *testing.T) {
	var w Wheel
	var fired []string
	var a, b, c Timer
	a.Fire = func() {
		fired = append(fired, "a")
		w.Stop(&b)
		w.Set(&c, c.Due.Add(time.Second))
	}
	b.Fire = func() { fired = append(fired, "b") }
	c.Fire = func() { fired = append(fired, "c") }
	for _, e := range []*Timer{&a, &b, &c} {
		w.Set(e, clock.Time(time.Millisecond))
	}
	w.Advance(clock.Time(time.Second))
	if len(fired) != 1 || !c.Waiting() || b.Waiting() {
		t.Errorf("fired %v", fired)
	}
	w.Advance(clock.Time(time.Minute)) // more than a turn at once
	if len(fired) != 2 || fired[1] != "c" {
		t.Errorf("fired %v", fired)
	}
}
