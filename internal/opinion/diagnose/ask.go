package diagnose

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/promql"
)

// Asker answers PromQL over a run's series; promql.DB does.
type Asker interface {
	Instant(ctx context.Context, expr string, at clock.Time) (promql.Result, error)
	Range(ctx context.Context, expr string, from, to clock.Time, step time.Duration) (promql.Result, error)
}

// Ask lets every expression be answered over the window and over each of its
// slices. What has no answer is left out: a plane that does not serve a metric
// is not suspected of what it would show.
func (f *Facts) Ask(ctx context.Context, db Asker) error {
	f.Answers = map[string]Answer{}
	if f.Window.To <= f.Window.From {
		return nil
	}
	for _, q := range listQuestions() {
		if f.Coarse && !q.isSampled() {
			continue
		}
		answer, err := f.askQuestion(ctx, db, q)
		if err != nil {
			return fmt.Errorf("diagnose: %s: %w", q.name, err)
		}
		if len(answer.Series) > 0 {
			f.Answers[q.name] = answer
		}
	}
	return nil
}

// isSampled tells whether a question is about what windtunnel samples each second itself:
// CPU and memory of processes, of control groups and of the machine.
func (q question) isSampled() bool {
	switch q.name {
	case busy, cpu, planeCPU, waiting, held, throttles, resident, charged, limitHits:
		return true
	}
	return false
}

// exprOver writes a question's expression for a length of time.
func (q question) exprOver(d time.Duration) string {
	ms := max(d.Milliseconds(), 1)
	window, seconds := strconv.FormatInt(ms, 10)+"ms", strconv.FormatFloat(float64(ms)/1000, 'f', -1, 64)
	if ms%1000 == 0 {
		window = seconds + "s"
	}
	return strings.NewReplacer("$w", window, "$s", seconds).Replace(q.expr)
}

func (f *Facts) askQuestion(ctx context.Context, db Asker, q question) (Answer, error) {
	w := f.Window
	out := Answer{Expr: q.exprOver(w.To.Sub(w.From))}
	whole, err := db.Instant(ctx, out.Expr, w.To)
	if err != nil {
		return out, err
	}
	for _, s := range whole.Series {
		if n := len(s.Points); n > 0 && s.Points[n-1].Histogram == nil {
			out.addSeries(s.Labels, s.Points[n-1].Value)
		}
	}
	step := w.Step()
	parts, err := db.Range(ctx, q.exprOver(step), w.From.Add(step), w.To, step)
	if err != nil {
		return out, err
	}
	for _, s := range parts.Series {
		one := out.seriesWith(s.Labels, w.Slices)
		for _, p := range s.Points {
			if i := int(math.Round(float64(p.At.Sub(w.From))/float64(step))) - 1; one != nil && i >= 0 && i < w.Slices && p.Histogram == nil {
				one.Slices[i] = zeroUnsound(p.Value)
			}
		}
	}
	for i := range out.Series {
		if out.Series[i].Slices == nil {
			out.Series[i].Slices = make([]float64, w.Slices)
		}
	}
	return out, nil
}

// addSeries adds a series.
func (a *Answer) addSeries(labels []record.Label, v float64) {
	named := map[string]string{}
	for _, l := range labels {
		named[l.Name] = l.Value
	}
	a.Series = append(a.Series, Series{Labels: named, Whole: zeroUnsound(v)})
}

// seriesWith returns the series with these labels, with room for its slices; nil where
// the whole window has no such series: it is gone, and nobody can ask for it.
func (a *Answer) seriesWith(labels []record.Label, n int) *Series {
	for i := range a.Series {
		s := &a.Series[i]
		if len(s.Labels) != len(labels) {
			continue
		}
		same := true
		for _, l := range labels {
			same = same && s.Labels[l.Name] == l.Value
		}
		if same {
			if s.Slices == nil {
				s.Slices = make([]float64, n)
			}
			return s
		}
	}
	return nil
}

// zeroUnsound makes 0 of what is no number (a mean of nothing) and of what a restart
// makes negative.
func zeroUnsound(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return max(0, v)
}
