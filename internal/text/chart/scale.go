package chart

import (
	"math"
	"slices"
)

// scale maps an axis' values to the picture.
type scale struct {
	low, high float64 // of the axis, in its own terms: logarithms where it is logarithmic
	from, to  float64 // in the picture
	log       bool
}

// newScale fits an axis to the values on it, with some room at both ends. A
// logarithmic axis with a value that has no logarithm is drawn as a linear one.
func newScale(a Axis, from, to float64, values []float64) scale {
	s := scale{from: from, to: to, log: a.Log && slices.Min(values) > 0}
	s.low, s.high = s.linearOrLog(slices.Min(values)), s.linearOrLog(slices.Max(values))
	if a.Zero && !s.log {
		s.low = min(0, s.low)
	}
	room := 0.05 * (s.high - s.low)
	if room == 0 {
		room = max(math.Abs(s.high)*0.05, 0.05)
	}
	s.high += room
	if s.low != 0 {
		s.low -= room
	}
	return s
}

func (s scale) linearOrLog(v float64) float64 {
	if s.log {
		return math.Log10(v)
	}
	return v
}

// positionOf is where a value lies in the picture.
func (s scale) positionOf(v float64) float64 {
	return s.from + (s.linearOrLog(v)-s.low)/(s.high-s.low)*(s.to-s.from)
}

// maxTicks is how many numbers stand at an axis, about.
const maxTicks = 7

// tickValues are the values that numbers stand at: multiples of 1, 2 or 5 times a
// power of ten.
func (s scale) tickValues() []float64 {
	if s.log && s.high-s.low > 0.6 {
		return s.logTicks()
	}
	low, high := s.low, s.high
	if s.log {
		low, high = math.Pow(10, low), math.Pow(10, high)
	}
	step := math.Pow(10, math.Floor(math.Log10((high-low)/maxTicks)))
	for _, m := range []float64{2, 2.5, 2} { // 1, 2, 5, 10
		if (high-low)/step > maxTicks {
			step *= m
		}
	}
	var out []float64
	for i := math.Ceil(low / step); i <= math.Floor(high/step); i++ {
		out = append(out, i*step)
	}
	return out
}

// logTicks are powers of ten, with 2 and 5 times of them where there is room.
func (s scale) logTicks() []float64 {
	parts := []float64{1, 2, 5}
	if s.high-s.low > maxTicks/2.5 {
		parts = []float64{1}
	}
	every := max(1, math.Ceil((s.high-s.low)/maxTicks))
	var out []float64
	for e := math.Floor(s.low); e <= s.high; e++ {
		for _, p := range parts {
			if v := p * math.Pow(10, e); math.Log10(v) >= s.low && math.Log10(v) <= s.high && math.Mod(e, every) == 0 {
				out = append(out, v)
			}
		}
	}
	return out
}
