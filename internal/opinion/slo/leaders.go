package slo

import (
	"fmt"
	"math"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/sli"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/scenario"
)

// leaderless is the SLI of the time without a leader.
const leaderless = "time-without-leader"

// judgeLeaderless judges for how long no process of a component led.
func (c records) judgeLeaderless(r *Result, o *scenario.Objective) {
	l := c.f.Leaderless(o.Labels[sli.Component])
	if l.Readings == 0 {
		setUnmeasured(r, "the component has one process, or nobody asked which one leads")
		return
	}
	switch r.Statistic {
	case "max":
		holdRange(r, l.Longest, l.Readings)
	case "sum":
		holdRange(r, l.Sum, l.Readings)
	case "count":
		r.Unit = "gaps"
		holdAgainstThreshold(r, exactEstimate(float64(l.Count), float64(l.Readings)), false)
	default:
		unknownStatistic(r)
	}
}

// holdRange holds a time that is known to within its ends against the threshold.
func holdRange(r *Result, x run.Range, samples int) {
	low, high := x.Least.Seconds(), x.Most.Seconds()
	holdAgainstThreshold(r, stats.Estimate{Value: (low + high) / 2, Low: low, High: high, Samples: samples, Interval: [2]float64{math.Inf(-1), math.Inf(1)}}, false)
	r.Interval = &[2]float64{low, high}
	if !r.AtLeast && low <= r.Threshold && r.Threshold < high {
		r.Verdict = Unknown
		r.Warnings = append(r.Warnings, fmt.Sprintf("the answers of the processes only say that it lies between %.4g and %.4g", low, high))
	}
}
