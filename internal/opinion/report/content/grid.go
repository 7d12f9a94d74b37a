package content

import (
	"math"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Limits of resolution. They bound the page's size whatever the run's length.
const (
	chartBins = 600    // points of a line, each with its least and greatest value
	heatBins  = 240    // columns of a heat map
	baseBins  = 36_000 // bins that counts are made in before they are drawn
)

// binWidths returns the bin widths that people read without effort, in ascending order.
func binWidths() []time.Duration {
	const s = time.Second
	return []time.Duration{s / 10, s / 5, s / 2, s, 2 * s, 5 * s, 10 * s, 15 * s, 30 * s, 60 * s, 120 * s, 300 * s, 600 * s, 1800 * s, 3600 * s}
}

// span is a stretch of a run.
type span struct{ from, to clock.Time }

func (s span) inSeconds() float64 { return s.to.Sub(s.from).Seconds() }

// grid cuts a span into n bins of one width. Bin i is [from+i*width, from+(i+1)*width).
type grid struct {
	from  clock.Time
	width time.Duration
	n     int
}

// newGrid returns the finest grid of at most most bins that are at least least wide.
func newGrid(s span, most int, least time.Duration) grid {
	g := grid{from: s.from}
	for _, g.width = range binWidths() {
		if g.width >= least && int(s.to.Sub(s.from)/g.width) < most {
			break
		}
	}
	for int(s.to.Sub(s.from)/g.width) >= most { // beyond the widest: a run of weeks
		g.width *= 2
	}
	g.n = int(s.to.Sub(s.from)/g.width) + 1
	return g
}

// bin returns the bin of t; what lies outside belongs to the nearest bin.
func (g grid) bin(t clock.Time) int {
	if t < g.from {
		return 0
	}
	return min(int(t.Sub(g.from)/g.width), g.n-1)
}

// Num is a number of the embedded data: five significant digits are more than
// a screen shows. NaN is null, a gap in a line.
type Num float64

// MarshalJSON writes the number as short as it can be.
func (n Num) MarshalJSON() ([]byte, error) {
	if !isFinite(n) {
		return []byte("null"), nil
	}
	short := strconv.FormatFloat(float64(n), 'g', 5, 64)
	v, err := strconv.ParseFloat(short, 64)
	if err != nil {
		return nil, err
	}
	if a := math.Abs(v); a == 0 || a >= 1e-4 && a < 1e15 {
		return strconv.AppendFloat(nil, v, 'f', -1, 64), nil
	}
	return strconv.AppendFloat(nil, v, 'e', -1, 64), nil
}

// Line is one line of a time chart. Low and High hold each bin's extremes, so
// that a peak is seen however far it was condensed; they are absent where a bin
// holds one value.
type Line struct {
	Name  string `json:"name"`
	Mean  []Num  `json:"mean"`
	Low   []Num  `json:"low,omitempty"`
	High  []Num  `json:"high,omitempty"`
	Limit Num    `json:"limit"` // NaN (null) when there is none
}

// How a chart's values stand in their bins.
const (
	shapeSample = ""      // measured now and then: in the middle
	shapeLevel  = "level" // how many there are at the bin's end
	shapeRate   = "rate"  // per second over the whole bin
	shapeHold   = "hold"  // as it was told last
	shapeStack  = "stack" // means on top of each other, below the greatest
)

// TimeChart is a set of lines over one grid.
type TimeChart struct {
	ID      string `json:"id"`
	Title   string `json:"title"`
	Unit    string `json:"unit"`
	Note    string `json:"note,omitempty"`
	Shape   string `json:"shape,omitempty"`
	Stacked bool   `json:"stacked,omitempty"` // lines are parts of a whole, drawn on top of each other, the first one uppermost
	From    Num    `json:"from"`              // seconds since the run clock's zero; in a comparison since the run's begin
	Width   Num    `json:"width"`             // seconds
	Lines   []Line `json:"lines"`
	Bound   *Bound `json:"bound,omitempty"` // of all lines together
}

// Bound is a level that a chart is held against.
type Bound struct {
	Name string `json:"name"`
	At   Num    `json:"at"`
}

func newTimeChart(g grid, id, title, unit string) TimeChart {
	return TimeChart{ID: id, Title: title, Unit: unit, From: Num(g.from.Seconds()), Width: Num(g.width.Seconds())}
}

// condenseLine draws values, one per bin of fine, as a line over few bins.
func condenseLine(name string, fine grid, values []float64, most int) (Line, grid) {
	k := (fine.n + most - 1) / most
	out := grid{from: fine.from, width: time.Duration(k) * fine.width, n: (fine.n + k - 1) / k}
	line := Line{Name: name, Limit: Num(math.NaN())}
	for i := 0; i < fine.n; i += k {
		part := values[i:min(i+k, fine.n)]
		sum, low, high := 0.0, math.Inf(1), math.Inf(-1)
		for _, v := range part {
			sum, low, high = sum+v, min(low, v), max(high, v)
		}
		line.Mean = append(line.Mean, Num(sum/float64(len(part))))
		if k > 1 {
			line.Low, line.High = append(line.Low, Num(low)), append(line.High, Num(high))
		}
	}
	return line, out
}

// perSecond turns counts per bin into rates over windows of at least the given
// width.
func perSecond(fine grid, counts []float64, least time.Duration) (grid, []float64) {
	k := max(1, int((least+fine.width-1)/fine.width))
	out := grid{from: fine.from, width: time.Duration(k) * fine.width, n: (fine.n + k - 1) / k}
	rates := make([]float64, out.n)
	for i, c := range counts {
		rates[i/k] += c / out.width.Seconds()
	}
	return out, rates
}

// runningSum returns the running sum of changes.
func runningSum(changes []float64) []float64 {
	out, sum := make([]float64, len(changes)), 0.0
	for i, c := range changes {
		sum += c
		out[i] = sum
	}
	return out
}

// rateWindow is how wide rates of such counts should be drawn: where few things
// happen in a second, a second's count shows its grain and not the rate. It goes by
// the rate when most of them happen: a short burst beside a long trickle is not
// spread until nothing is left of it.
func rateWindow(fine grid, counts []float64) time.Duration {
	g, rates := perSecond(fine, counts, time.Second)
	sum, weighted := 0.0, 0.0
	for _, r := range rates {
		n := r * g.width.Seconds()
		sum, weighted = sum+n, weighted+n*r
	}
	const enough = 8.0 // things in a window
	for _, w := range []time.Duration{time.Second, 2 * time.Second, 5 * time.Second} {
		if weighted*w.Seconds() >= enough*sum {
			return w
		}
	}
	return 5 * time.Second
}

// meanOver is what a chart of rates says of windows that are wider than a second: a peak
// that is shorter is higher than what is drawn.
func meanOver(width time.Duration) string {
	if width <= time.Second {
		return ""
	}
	return "mean of each " + unit.Seconds(width.Seconds())
}
