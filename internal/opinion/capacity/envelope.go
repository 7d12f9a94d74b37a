package capacity

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/text/chart"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Envelope draws all runs of a search and the edge that they show: with one
// axis the value of the objective that limits against the load, with two the
// points that pass and those that do not. For the throughput it draws what was
// achieved: with one axis against the load, with two against the first one.
func Envelope(title string, p Plan, runs []Run) chart.Chart {
	r := Conclude(p, runs)
	c := chart.Chart{Title: title, X: chartAxis(p.Axes[0])}
	if p.Goal == ThroughputGoal {
		return drawThroughput(c, p, runs, r)
	}
	if len(p.Axes) == 2 {
		c.Y = chartAxis(p.Axes[1])
		c.Note = "each mark is a run; the shaded area passes"
		c.Areas = []chart.Area{staircaseArea(p, r.Edges)}
		for _, run := range runs {
			c.Marks = append(c.Marks, chart.Mark{Point: chart.Point{X: run.Point[0], Y: run.Point[1]}, Role: roleOf(run.Verdict), Label: p.Short(run)})
		}
		return c
	}
	if r.Limit == nil {
		return c
	}
	c.Y = chart.Axis{Label: r.Limit.Objective, Unit: r.Limit.Unit, Zero: true}
	c.Note = describeEdge(r.Edges[0])
	for _, run := range runs {
		if v := run.valueOf(r.Limit.Objective); v != nil {
			c.Marks = append(c.Marks, chart.Mark{Point: chart.Point{X: run.Point[0], Y: *v}, Role: roleOf(run.Verdict), Label: p.Short(run)})
		}
	}
	curve := chart.Line{Role: chart.Plain}
	for _, at := range r.Limit.Curve {
		curve.Points = append(curve.Points, chart.Point(at))
	}
	bound := chart.Line{Role: chart.Bound, Label: "bound " + unit.Text(r.Limit.Threshold, r.Limit.Unit),
		Points: []chart.Point{{X: p.Axes[0].From, Y: r.Limit.Threshold}, {X: p.Axes[0].To, Y: r.Limit.Threshold}}}
	c.Lines = []chart.Line{bound, curve}
	if e := r.Edges[0]; e.Passing != nil && len(c.Marks) > 0 {
		high := slices.MaxFunc(c.Marks, func(a, b chart.Mark) int { return cmp.Compare(a.Y, b.Y) }).Y
		c.Areas = []chart.Area{passingArea(p.Axes[0].From, e.Passing.Value, max(high, r.Limit.Threshold))}
	}
	if r.Knee != nil {
		c.Marks = append(c.Marks, chart.Mark{Point: chart.Point(*r.Knee), Role: chart.Plain, Label: "the curve turns up here"})
		c.Note += "; the curve turns up at " + unit.Number(r.Knee.X)
	}
	return c
}

func chartAxis(a Axis) chart.Axis { return chart.Axis{Label: a.Name, Log: a.Log} }

func roleOf(v slo.Verdict) chart.Role {
	switch v {
	case slo.Pass:
		return chart.Pass
	case slo.Fail:
		return chart.Fail
	}
	return chart.Unknown
}

// valueOf is what a run came to in an objective; nil: not measured.
func (r Run) valueOf(objective string) *float64 {
	for _, o := range r.Objectives {
		if o.Name == objective {
			return o.Value
		}
	}
	return nil
}

// describeEdge says where the edge lies.
func describeEdge(e Edge) string {
	switch {
	case e.Passing == nil:
		return "nothing that was flown passes"
	case e.Failing == nil:
		return fmt.Sprintf("all passes, up to %s", unit.Number(e.Passing.Value))
	case !e.Failing.doesNotPass():
		return fmt.Sprintf("up to %s passes, of %s it cannot be told", unit.Number(e.Passing.Value), unit.Number(e.Failing.Value))
	}
	return fmt.Sprintf("the edge lies between %s and %s", unit.Number(e.Passing.Value), unit.Number(e.Failing.Value))
}

func passingArea(from, to, high float64) chart.Area {
	return chart.Area{Role: chart.Pass, Points: []chart.Point{{X: from, Y: 0}, {X: to, Y: 0}, {X: to, Y: high}, {X: from, Y: high}}}
}

// staircaseArea is the area of points that are known to pass: those with no more of
// both parameters than a point that does.
func staircaseArea(p Plan, edges []Edge) chart.Area {
	x, y := p.Axes[0], p.Axes[1]
	least := chart.Point{X: x.From, Y: y.From}
	out := chart.Area{Role: chart.Pass, Points: []chart.Point{least}}
	var tops []chart.Point // by ascending x
	for _, e := range edges {
		switch {
		case e.Passing == nil:
		case e.Axis == x.Name:
			tops = append(tops, chart.Point{X: e.Passing.Value, Y: y.From})
		default:
			tops = append(tops, chart.Point{X: e.Fixed[x.Name], Y: e.Passing.Value})
		}
	}
	if len(tops) == 0 {
		return out
	}
	at := x.From
	for _, top := range tops {
		out.Points = append(out.Points, chart.Point{X: at, Y: top.Y}, top)
		at = top.X
	}
	out.Points = append(out.Points, chart.Point{X: at, Y: y.From})
	return out
}

// drawThroughput draws what each run achieved and what that comes to. With one
// axis beside what was asked for: a plane that keeps up stays on that line.
func drawThroughput(c chart.Chart, p Plan, runs []Run, r Result) chart.Chart {
	c.Y = chart.Axis{Label: r.Rate + ", " + r.RateUnit, Zero: true}
	for _, run := range runs {
		if x, ok := run.rateOf(r.Rate); ok {
			c.Marks = append(c.Marks, chart.Mark{Point: chart.Point{X: run.Point[0], Y: x.Achieved}, Role: roleOf(run.Verdict), Label: p.Short(run)})
		}
	}
	if len(p.Axes) == 2 {
		c.Note = "each mark is a run; the line is the throughput, the area its 95 % interval"
		if slices.ContainsFunc(r.Throughputs, func(t Throughput) bool { return t.Shape != Plateau }) {
			c.Note = "each mark is a run; the line is the throughput, or a lower bound of it where no plateau was seen"
		}
		c.Lines, c.Areas = throughputFrontier(p.Axes[0].Name, r.Throughputs)
		return c
	}
	asked := chart.Line{Role: chart.Bound, Label: "asked"}
	for _, at := range r.Points {
		if at.Asked > 0 {
			asked.Points = append(asked.Points, chart.Point{X: at.Point[0], Y: at.Asked})
		}
	}
	c.Lines = []chart.Line{asked}
	c.Note = "each mark is a run"
	if t := r.Throughputs[0]; t.Shape == Plateau {
		c.Note = fmt.Sprintf("each mark is a run; the plateau is at %s%s", unit.Text(t.Value, r.RateUnit), t.intervalText())
		c.Lines = append(c.Lines, chart.Line{Role: chart.Plain, Points: []chart.Point{{X: t.From, Y: t.Value}, {X: t.To, Y: t.Value}}})
		if i := t.Interval; i != nil {
			c.Areas = []chart.Area{{Role: chart.Plain, Points: []chart.Point{{X: t.From, Y: max(0, i[0])}, {X: t.From, Y: i[1]}, {X: t.To, Y: i[1]}, {X: t.To, Y: max(0, i[0])}}}}
		}
	}
	return c
}

// throughputFrontier is the throughput along the first of two axes, with its intervals.
func throughputFrontier(x string, all []Throughput) ([]chart.Line, []chart.Area) {
	line := chart.Line{Role: chart.Plain}
	var upper, lower []chart.Point
	for _, t := range all {
		if t.Shape == Unmeasured {
			continue
		}
		line.Points = append(line.Points, chart.Point{X: t.Fixed[x], Y: t.Value})
		low, high := t.Value, t.Value
		if t.Interval != nil {
			low, high = max(0, t.Interval[0]), t.Interval[1]
		}
		upper, lower = append(upper, chart.Point{X: t.Fixed[x], Y: high}), append(lower, chart.Point{X: t.Fixed[x], Y: low})
	}
	slices.Reverse(lower)
	return []chart.Line{line}, []chart.Area{{Role: chart.Plain, Points: append(upper, lower...)}}
}
