package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/windtunnel/windtunnel/internal/stats"
)

// Of three values the interval is the mean with 4.303 standard errors on both
// sides, as tables of Student's t have it.
func TestMean(t *testing.T) {
	e := stats.Mean([]float64{58, 62, 60})
	half := 4.302653 * 2 / math.Sqrt(3)
	if e.Value != 60 || e.Samples != 3 || math.Abs(e.Interval[0]-(60-half)) > 1e-4 || math.Abs(e.Interval[1]-(60+half)) > 1e-4 {
		t.Errorf("%+v", e)
	}
	if one := stats.Mean([]float64{7}); one.Value != 7 || one.Bounded() || len(one.Warnings) != 1 {
		t.Errorf("%+v", one)
	}
	if none := stats.Mean(nil); none.Samples != 0 {
		t.Errorf("%+v", none)
	}
}

// The interval holds the true mean in about 95 % of samples.
func TestMeanHoldsTheTruth(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	held := 0
	for range 2000 {
		var values []float64
		for range 4 {
			values = append(values, 60+5*r.NormFloat64())
		}
		if i := stats.Mean(values).Interval; i[0] <= 60 && 60 <= i[1] {
			held++
		}
	}
	if held < 1860 || held > 1940 {
		t.Errorf("%d of 2000 intervals hold the mean", held)
	}
}
