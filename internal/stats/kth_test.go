package stats_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/stats"
)

// TestBoundsOfCensoredValues compares quantiles with those of all values at their
// least and at their most.
func TestBoundsOfCensoredValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		var d stats.Durations
		var lows, highs []float64
		for range rng.IntN(30) {
			v := rng.Int64N(20)
			d.Add(time.Duration(v) * time.Second)
			lows, highs = append(lows, float64(v)), append(highs, float64(v))
		}
		for range 1 + rng.IntN(10) {
			lo := rng.Int64N(20)
			hi := lo + rng.Int64N(10)
			high := float64(hi)
			most := time.Duration(hi) * time.Second
			if rng.IntN(3) == 0 {
				most, high = stats.Forever, math.Inf(1)
			}
			d.AddBetween(time.Duration(lo)*time.Second, most)
			lows, highs = append(lows, float64(lo)), append(highs, high)
		}
		slices.Sort(lows)
		slices.Sort(highs)
		for _, q := range []float64{0, 0.1, 0.5, 0.9, 1} {
			k := stats.Rank(len(lows), q)
			if got := d.Quantile(q); got.Low != lows[k-1] || got.High != highs[k-1] {
				t.Fatalf("%v-quantile of %v..%v is %v..%v, want %v..%v", q, lows, highs, got.Low, got.High, lows[k-1], highs[k-1])
			}
		}
	}
}
