package stats

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Mean returns the mean of some values with the interval of Student (The probable
// error of a mean, Biometrika 6 (1908), 1-25). It takes the values to be independent
// and nearly normal, as the means of runs are, and suits few of them (Georges,
// Buytaert and Eeckhout, Statistically rigorous Java performance evaluation,
// OOPSLA 2007). One value leaves the interval open, which a warning says.
func Mean(values []float64) Estimate {
	n := len(values)
	if n == 0 {
		return Estimate{}
	}
	mean, deviation := stat.MeanStdDev(values, nil)
	e := Estimate{Value: mean, Low: mean, High: mean, Samples: n, Interval: [2]float64{math.Inf(-1), math.Inf(1)}}
	if n == 1 {
		e.addWarning("one sample: too few for a 95 %% interval of the mean")
		return e
	}
	t := distuv.StudentsT{Sigma: 1, Nu: float64(n - 1)}.Quantile(1 - (1-Confidence)/2)
	half := t * deviation / math.Sqrt(float64(n))
	e.Interval = [2]float64{mean - half, mean + half}
	return e
}
