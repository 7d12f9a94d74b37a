package pace_test

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/pace"
)

// Uniform times of a window: in order, inside, as many in each tenth as chance
// allows, and other ones for another seed.
func TestScattered(t *testing.T) {
	const n, window = 20_000, 50 * time.Second
	p, tenths, last := pace.Scattered(n, window, 3), make([]int, 10), time.Duration(0)
	for i := range n {
		due := p.Due(i)
		if due < last || due >= window {
			t.Fatalf("call %d is due at %v, after one at %v", i, due, last)
		}
		last = due
		tenths[due*10/window]++
	}
	for i, got := range tenths {
		// Binomial: within 5 standard deviations.
		if math.Abs(float64(got)-n/10) > 5*math.Sqrt(n*0.1*0.9) {
			t.Errorf("tenth %d has %d calls, want about %d", i, got, n/10)
		}
	}
	if p.Rate() != 400 {
		t.Errorf("rate %v", p.Rate())
	}
	if again := pace.Scattered(n, window, 3); again.Due(17) != p.Due(17) || pace.Scattered(n, window, 4).Due(17) == p.Due(17) {
		t.Error("the seed does not decide")
	}
	if pace.Scattered(5, 0, 1).Due(4) != 0 {
		t.Error("no window is a burst")
	}
}

func TestJitterKeepsOrderAndRate(t *testing.T) {
	for name, p := range map[string]*pace.Pace{
		"constant": pace.Constant(250), "ramp": pace.Ramp(5, 700, 40*time.Second), "poisson": pace.Poisson(250, 5),
		"scattered": pace.Scattered(5001, 20*time.Second, 9), "bundle": pace.Constant(250).Bundle(4),
	} {
		j, last, moved := p.Jitter(1, 7), time.Duration(0), 0.0
		for i := range 5000 {
			due, plain := j.Due(i), p.Due(i)
			if due < last || due < plain {
				t.Fatalf("%s: call %d is due at %v, without jitter at %v, the one before at %v", name, i, due, plain, last)
			}
			last = due
			moved += (due - plain).Seconds()
		}
		if p.Rate() != j.Rate() {
			t.Errorf("%s: rate %v, want %v", name, j.Rate(), p.Rate())
		}
		// On average half of a gap.
		if name == "constant" && math.Abs(moved/5000-0.002) > 0.0001 {
			t.Errorf("moved by %v s on average, want 0.002", moved/5000)
		}
	}
	half := pace.Constant(1).Jitter(0.5, 1)
	for i := range 100 {
		if d := half.Due(i) - time.Duration(i)*time.Second; d < 0 || d >= 500*time.Millisecond {
			t.Errorf("call %d moved by %v", i, d)
		}
	}
	if p := pace.Constant(1).Jitter(0, 1); p.Due(5) != 5*time.Second {
		t.Error("no jitter moves calls")
	}
	end := pace.Replay([]time.Duration{time.Second}).Jitter(1, 1)
	if end.Due(0) != time.Second || end.Due(1) != pace.Never {
		t.Error("the last call of a replay is not moved")
	}
}

func TestReadTimes(t *testing.T) {
	got, err := pace.ReadTimes(strings.NewReader("# recorded\n0\n\n 1.5 \n1e-3\n"))
	if want := []time.Duration{0, 1500 * time.Millisecond, time.Millisecond}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for text, want := range map[string]string{
		"1\n-1\n": `2: "-1" is no due time`, "x": `1: "x" is no due time`, "NaN": `1: "NaN" is no due time`, "1e300": `1: "1e300" is no due time`,
		strings.Repeat("1", 100_000): "read due times",
	} {
		if _, err := pace.ReadTimes(strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.20q: %v, want %s", text, err, want)
		}
	}
}

func FuzzReadTimes(f *testing.F) {
	f.Add("0\n1.5\n# x\n")
	f.Fuzz(func(t *testing.T, text string) {
		times, err := pace.ReadTimes(strings.NewReader(text))
		if err != nil {
			return
		}
		p, last := pace.Replay(times), time.Duration(0)
		for i := range times {
			due := p.Due(i)
			if due < last || !slices.Contains(times, due) {
				t.Fatalf("call %d is due at %v", i, due)
			}
			last = due
		}
		if p.Due(len(times)) != pace.Never {
			t.Fatal("there is one more")
		}
	})
}
