package content

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/promql"
	"github.com/windtunnel/windtunnel/scenario"
)

// maxAsked is how many lines a chart of the scenario's has, in the order of their
// labels: more are no picture. A stack of more has their sum in place of the smallest.
const maxAsked = 12

// askedPoints is about how many points a line of such a chart has: each costs an
// evaluation of its query.
const askedPoints = 240

// askedCharts draws what the scenario wants to see over time. A query that cannot
// be answered, or that nothing answers, leaves an empty chart with a note.
func askedCharts(in *run.Run) []TimeChart {
	if in.Scenario == nil || len(in.Scenario.Charts) == 0 {
		return nil
	}
	a, ok := newAsker(in)
	if !ok {
		return nil
	}
	var out []TimeChart
	for i, c := range in.Scenario.Charts {
		out = append(out, a.newChart("asked-"+strconv.Itoa(i+1), c))
	}
	return out
}

// asker answers a scenario's queries over the whole run.
type asker struct {
	db   *promql.DB
	grid grid // where they are evaluated
}

// newAsker is ready to be asked; false where the run has no series.
func newAsker(in *run.Run) (asker, bool) {
	first, last, any := in.Facts.Series.Span()
	db, err := promql.Open(in.Facts.Series, promql.OptionsOf(in.Manifest))
	if err != nil || !any {
		return asker{}, false
	}
	return asker{db, newGrid(span{first, last}, askedPoints, binWidths()[3])}, true
}

func (a asker) answerQuery(query string) (promql.Result, error) {
	g := a.grid
	return a.db.Range(context.Background(), query, g.from, g.from.Add(g.width*time.Duration(g.n-1)), g.width)
}

func (a asker) newChart(id string, c scenario.Chart) TimeChart {
	g := a.grid
	out := newTimeChart(g, id, c.Name, c.Unit)
	out.Stacked = c.Stacked
	r, err := a.answerQuery(c.Query)
	switch {
	case err != nil:
		out.Note = err.Error()
	case len(r.Series) == 0:
		out.Note = "nothing answers its query"
	case len(r.Series) > maxAsked && !c.Stacked:
		out.Note = strconv.Itoa(len(r.Series)-maxAsked) + " more lines are left out"
	}
	var lines []Line
	for _, s := range r.Series {
		line := Line{Name: nameByLabels(s.Labels), Limit: Num(math.NaN())}
		for range g.n {
			line.Mean = append(line.Mean, Num(math.NaN()))
		}
		for _, p := range s.Points {
			if p.Histogram == nil {
				line.Mean[g.bin(p.At)] = Num(p.Value)
			}
		}
		lines = append(lines, line)
	}
	slices.SortFunc(lines, func(a, b Line) int { return strings.Compare(a.Name, b.Name) })
	if c.Stacked {
		lines = foldSmallest(lines, maxAsked)
	}
	out.Lines = lines[:min(len(lines), maxAsked)]
	return out
}

// foldSmallest makes one line of the smallest of a stack, where it has more than
// most: left out, the stack would be lower than the whole. The others keep their order.
func foldSmallest(lines []Line, most int) []Line {
	if len(lines) <= most {
		return lines
	}
	order := make([]int, len(lines)) // places of lines, the largest first
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(lines[b].sumValues(), lines[a].sumValues()) })
	large, small := order[:most-1], order[most-1:]
	slices.Sort(large)
	var out []Line
	for _, i := range large {
		out = append(out, lines[i])
	}
	rest := Line{Name: strconv.Itoa(len(small)) + " others", Limit: Num(math.NaN()), Mean: slices.Clone(lines[small[0]].Mean)}
	for _, i := range small[1:] {
		rest.addLine(lines[i])
	}
	return append(out, rest)
}

// sumValues adds up a line's values.
func (l Line) sumValues() (sum float64) {
	for _, v := range l.Mean {
		if isFinite(v) {
			sum += float64(v)
		}
	}
	return sum
}

// addLine adds another line's values; a gap is left where both have one.
func (l *Line) addLine(other Line) {
	for i, v := range other.Mean {
		switch {
		case !isFinite(v):
		case isFinite(l.Mean[i]):
			l.Mean[i] += v
		default:
			l.Mean[i] = v
		}
	}
}

// isFinite says whether a value is drawn, and is no gap.
func isFinite(n Num) bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// nameByLabels names a line by the values of its labels.
func nameByLabels(labels []record.Label) string {
	var out []string
	for _, l := range labels {
		if l.Name != "__name__" && l.Name != "instance" && !slices.Contains(out, l.Value) {
			out = append(out, l.Value)
		}
	}
	if len(out) == 0 {
		return "value"
	}
	return strings.Join(out, " ")
}
