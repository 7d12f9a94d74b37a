package stats

import "gonum.org/v1/gonum/stat/distuv"

// Share returns which share of all attempts has an outcome that k of n attempts
// had, with the interval of C. J. Clopper and E. S. Pearson, The use of confidence
// or fiducial limits illustrated in the case of the binomial, Biometrika 26
// (1934), 404-413: it holds the true share in at least 95 % of cases, however
// few attempts there are. Three of three are a share of 0.29 to 1.
func Share(k, n int) Estimate {
	if n <= 0 {
		return Estimate{}
	}
	e := Estimate{Value: float64(k) / float64(n), Samples: n, Interval: [2]float64{0, 1}}
	e.Low, e.High = e.Value, e.Value
	tail := (1 - Confidence) / 2
	if k > 0 {
		e.Interval[0] = distuv.Beta{Alpha: float64(k), Beta: float64(n - k + 1)}.Quantile(tail)
	}
	if k < n {
		e.Interval[1] = distuv.Beta{Alpha: float64(k + 1), Beta: float64(n - k)}.Quantile(1 - tail)
	}
	return e
}
