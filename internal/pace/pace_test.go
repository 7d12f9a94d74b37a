package pace_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/pace"
)

func TestDueTimesNeverGoBackAndKeepTheRate(t *testing.T) {
	for name, p := range map[string]*pace.Pace{
		"constant": pace.Constant(317.3), "poisson": pace.Poisson(317.3, 5),
		"ramp": pace.Ramp(5, 700, 40*time.Second), "down": pace.Ramp(900, 1, 10*time.Second),
		"random ramp": pace.Ramp(5, 700, 40*time.Second).Random(3),
		"steps":       pace.Steps(pace.Step{Rate: 1, To: 1, For: time.Second}, pace.Step{Rate: 500, To: 5, For: 30 * time.Second}),
	} {
		last := time.Duration(0)
		for i := range 20_000 {
			due := p.Due(i)
			if due < last {
				t.Fatalf("%s: call %d is due at %v, after one at %v", name, i, due, last)
			}
			last = due
		}
	}
	// The mean over 20,000 calls is within 5 standard errors of what is asked for.
	p := pace.Poisson(250, 11)
	const n = 20_000
	if got := n / p.Due(n-1).Seconds(); math.Abs(got-250) > 5*250/math.Sqrt(n) {
		t.Errorf("Poisson 250/s: %.1f/s", got)
	}
}

// TestPoissonIsPoisson counts calls in windows: mean and variance are equal.
func TestPoissonIsPoisson(t *testing.T) {
	const windows, mean = 4000, 10
	p, counts := pace.Poisson(mean, 42), make([]float64, windows)
	for i := 0; ; i++ {
		w := int(p.Due(i) / time.Second)
		if w >= windows {
			break
		}
		counts[w]++
	}
	sum, squares := 0.0, 0.0
	for _, c := range counts {
		sum += c
		squares += (c - mean) * (c - mean)
	}
	if m, v := sum/windows, squares/windows; math.Abs(m-mean) > 0.25 || math.Abs(v-mean) > 1.2 {
		t.Errorf("mean %.2f, variance %.2f, want both near %d", m, v, mean)
	}
}

func TestPoissonIsTheSameInAnyOrder(t *testing.T) {
	a, b := pace.Poisson(100, 7), pace.Poisson(100, 7)
	var forth []time.Duration
	for i := range 10_000 {
		forth = append(forth, a.Due(i))
	}
	for i := len(forth) - 1; i >= 0; i -= 37 {
		if got := b.Due(i); got != forth[i] {
			t.Fatalf("call %d is due at %v, and at %v when asked for in another order", i, forth[i], got)
		}
	}
	if pace.Poisson(100, 8).Due(5) == forth[5] {
		t.Error("another seed gives the same due time")
	}
	// Written down: runs of one seed compare over versions only while it holds.
	if got, want := fmt.Sprint(forth[0], forth[1], forth[9999]), "15.022115ms 67.414852ms 1m39.636165576s"; got != want {
		t.Errorf("calls 0, 1 and 9999 are due at %s, want %s", got, want)
	}
}

func ExamplePace_Due() {
	p := pace.Constant(100)
	fmt.Println(p.Due(0), p.Due(1), p.Due(57))
	// Output: 0s 10ms 570ms
}

func BenchmarkDue(b *testing.B) {
	for name, p := range map[string]*pace.Pace{
		"constant": pace.Constant(1000), "poisson": pace.Poisson(1000, 1), "ramp": pace.Ramp(1, 1000, time.Hour),
	} {
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				p.Due(i)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/sec")
		})
	}
}
