package diagnose

import (
	"math"
)

// track is a value for each slice of the window.
type track []float64

// perSlice makes a track of the value of each slice.
func (f *Facts) perSlice(value func(i int) float64) track {
	out := make(track, f.Window.Slices)
	for i := range out {
		out[i] = value(i)
	}
	return out
}

// mean is what a score is.
func (t track) mean() float64 {
	sum := 0.0
	for _, v := range t {
		sum += v
	}
	return sum / float64(max(1, len(t)))
}

// at returns a slice's value; 0 of an empty track.
func (t track) at(i int) float64 {
	if i < len(t) {
		return t[i]
	}
	return 0
}

// clampShare keeps a share between 0 and 1.
func clampShare(v float64) float64 { return max(0, min(1, v)) }

// shareOf is the share that one number is of another, at most all; 0 of nothing.
func shareOf(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return clampShare(part / whole)
}

// shareBeyond is the share of a value that is more than a bound.
func shareBeyond(v, bound float64) float64 {
	if v <= bound {
		return 0
	}
	return (v - bound) / v
}

// leftAfter is what several shares leave of a whole, each of what those before it left.
func leftAfter(shares ...float64) float64 {
	left := 1.0
	for _, s := range shares {
		left *= 1 - clampShare(s)
	}
	return left
}

// fullFrom is the use of something from which on it counts as full: with arrivals
// at random, an item waits there four times as long as it is served (M/M/1:
// u / (1 - u)). Between it and 1 a part counts.
const fullFrom = 0.8

func shareFull(use float64) float64 { return clampShare((use - fullFrom) / (1 - fullFrom)) }

// oneIf is 1 where something holds, and 0 elsewhere.
func oneIf(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

// sumSeries adds up the series of an answer that have these labels, given in pairs.
func (f *Facts) sumSeries(question string, labels ...string) track {
	out := make(track, f.Window.Slices)
	for _, s := range f.Answers[question].Series {
		for i := range out {
			if s.hasLabels(labels) {
				out[i] += track(s.Slices).at(i)
			}
		}
	}
	return out
}

// newFigure is evidence that has no value yet.
func newFigure(unit string, bound *float64, sentence string) Evidence {
	return Evidence{Unit: unit, Bound: bound, Sentence: sentence}
}

// newEvidence gives a figure the value of an expression's answer: of the first of its
// series with these labels.
func (f *Facts) newEvidence(question string, e Evidence, labels ...string) Evidence {
	e.Expr = f.Answers[question].Expr
	at := f.Epoch.Add(f.Window.To.Sub(0)).UTC()
	e.At = &at
	if s, ok := f.findSeries(question, labels...); ok {
		e.Value, e.Labels = roundFigure(s.Whole), s.Labels
		for _, v := range s.Slices {
			e.Values = append(e.Values, roundFigure(v))
		}
	}
	return e
}

// roundFigure keeps the digits that a figure is worth.
func roundFigure(v float64) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	scale := math.Pow(10, 4-math.Ceil(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}
