package protocol

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// wrong is a clock that is off by skew and gains rate on the true time.
type wrong struct {
	skew time.Duration
	rate float64
}

func (w wrong) at(t time.Duration) clock.Time {
	return clock.Time(float64(t)*(1+w.rate)) + clock.Time(w.skew)
}

// Whatever two clocks are off by and however the ways there and back share the round
// trip, what is said of the other clock is true within its bound.
func TestTheBoundCoversEverySkew(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 7))
		between := func(most float64) time.Duration { return time.Duration((2*r.Float64() - 1) * most) }
		own, other := wrong{between(5e8), (2*r.Float64() - 1) * 5e-4}, wrong{between(5e8), (2*r.Float64() - 1) * 5e-4}
		var e Estimate
		now := time.Duration(r.Int64N(int64(time.Hour)))
		for range 1 + r.IntN(60) {
			there, back := time.Duration(r.ExpFloat64()*float64(2*time.Millisecond)), time.Duration(r.ExpFloat64()*float64(2*time.Millisecond))
			e.Add(own.at(now), other.at(now+there), own.at(now+there+back))
			now += there + back + time.Duration(r.Int64N(int64(2*time.Second)))
			known := e.At(own.at(now))
			if off := other.at(now).Sub(own.at(now)) - known.Offset; max(off, -off) > known.Bound {
				t.Fatalf("seed %d: off by %v, the bound is %v", seed, off, known.Bound)
			}
			if known.Jumped {
				t.Fatalf("seed %d: clocks that only drift count as set", seed)
			}
		}
	}
}

func TestAClockThatIsSetIsNoticed(t *testing.T) {
	var e Estimate
	ask := func(at time.Duration, offset time.Duration) {
		e.Add(clock.Time(at), clock.Time(at+offset+time.Millisecond), clock.Time(at+2*time.Millisecond))
	}
	ask(time.Second, 0)
	ask(2*time.Second, 0)
	if e.At(clock.Time(2 * time.Second)).Jumped {
		t.Fatal("a clock that went on counts as set")
	}
	ask(3*time.Second, 50*time.Millisecond)
	if known := e.At(clock.Time(3 * time.Second)); !known.Jumped || known.Offset < 49*time.Millisecond {
		t.Errorf("a clock that was set by 50 ms: %+v", known)
	}
	e.Restart()
	if e.At(clock.Time(3 * time.Second)).Jumped {
		t.Error("it was told, and is told again")
	}
}

func TestAReadingIsWorthLessAsTimeGoesBy(t *testing.T) {
	var e Estimate
	if got := e.At(0).Bound; got < time.Hour {
		t.Errorf("before any reading the bound is %v", got)
	}
	e.Add(0, clock.Time(time.Second), clock.Time(2*time.Millisecond))
	early, late := e.At(0).Bound, e.At(clock.Time(10*time.Second)).Bound
	if early > 2*time.Millisecond || late < 10*time.Millisecond {
		t.Errorf("bounds %v at once and %v ten seconds later", early, late)
	}
}
