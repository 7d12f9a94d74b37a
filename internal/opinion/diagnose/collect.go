package diagnose

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/promql"
)

// Find says what limited the plane of a run. What could not be read of its
// profiles is in the notes; without an answer to its questions there is an error.
func Find(ctx context.Context, r *run.Run) (found []Finding, notes []string, err error) {
	f := Collect(r)
	if most := 7 * 24 * time.Hour; f.Window.To.Sub(f.Window.From) > most { // its questions go through every second
		return nil, nil, fmt.Errorf("the run went on for %.0f days, and %.0f are the most", f.Window.To.Sub(f.Window.From).Hours()/24, most.Hours()/24)
	}
	db, err := promql.Open(r.Facts.Series, promql.OptionsOf(r.Manifest))
	if err != nil {
		return nil, nil, err
	}
	if err := f.Ask(ctx, db); err != nil {
		return nil, nil, err
	}
	f.Contended = map[string]Contention{}
	for _, c := range r.Manifest.Processes() {
		locks, ok, err := readContention(r.Dir, c.Name)
		if err != nil {
			notes = append(notes, fmt.Sprintf("What %s waits for inside is left out: %v", c.Name, err))
		}
		if ok {
			f.Contended[c.Name] = locks
		}
	}
	return Findings(f), notes, nil
}

// Collect takes what a run's facts say of calls and phases, and finds the window.
// Ask adds what the series say.
func Collect(r *run.Run) *Facts {
	m := r.Manifest
	f := &Facts{Epoch: m.Started, Machine: m.Machine, Components: m.Processes(), Remote: m.Plane.Kind == "kubeconfig"}
	if whole, limited := m.Plane.Whole(); limited {
		f.Components = append(f.Components, whole)
		for _, c := range m.Plane.Components {
			f.Sharing = append(f.Sharing, c.Name)
		}
	}
	for _, e := range r.Facts.EventsOf(record.EventDied) {
		f.Deaths = append(f.Deaths, Death{e.Name, e.MemoryLimit})
	}
	if !r.Facts.Began() {
		return f // nothing was measured
	}
	waiting, from := r.Facts.Waiting, r.Facts.Begin
	if waiting.Any {
		from = max(from, waiting.First)
	}
	f.Window = newWindow(from, max(from, countedAt(r.Facts)))
	if f.Window.To.Sub(f.Window.From) < minWindow {
		f.Window.To = f.Window.From // what grew since the sample before it would be taken for its own
		return f
	}
	f.Coarse = isCoarse(r.Facts, f.Window)
	f.Load, f.Fleet = sliceQueue(waiting.Load, f.Window), sliceQueue(waiting.Fleet, f.Window)
	return f
}

// minWindow is the shortest window of which shares are computed: the interval of
// samples of CPU, nearly.
const minWindow = 900 * time.Millisecond

// isCoarse tells whether a window is shorter than the interval of scrapes in which it
// begins: a counter's rise of a whole interval would be divided by less time.
func isCoarse(f *run.Facts, w Window) bool {
	length := w.To.Sub(w.From)
	for _, target := range f.Series.Scraped() {
		all := f.Series.Scrapes(target)
		i, _ := slices.BinarySearch(all, w.From+1)
		if i > 0 && i < len(all) && length < min(all[i].Sub(all[i-1]), minSlice) {
			return true
		}
	}
	return false
}

// countedAt returns when every target had been scraped after the last thing that
// the load set in motion: only then do its series have all of it. A target that
// was not scraped any more is not waited for.
func countedAt(f *run.Facts) clock.Time {
	out := f.Waiting.Last
	for _, target := range f.Series.Scraped() {
		all := f.Series.Scrapes(target)
		if i, _ := slices.BinarySearch(all, f.Waiting.Last); i < len(all) {
			out = max(out, all[i])
		}
	}
	return out
}

// sliceQueue brings the seconds of a queue into a window's slices.
func sliceQueue(q run.Queue, w Window) Waiting {
	return Waiting{Overdue: sliceSeconds(q.Overdue(), w), InFlight: sliceSeconds(q.InFlight(), w), Late: q.Late, Calls: q.Calls, Worst: q.Worst}
}

// sliceSeconds returns the mean over each slice. A second that lies in two of them
// belongs to each with its part.
func sliceSeconds(seconds []float64, w Window) []float64 {
	out := make([]float64, w.Slices)
	step := w.Step()
	if step <= 0 {
		return out
	}
	for i, v := range seconds {
		begin, end := clock.Time(i)*clock.Time(time.Second), clock.Time(i+1)*clock.Time(time.Second)
		for k := max(0, int(begin.Sub(w.From)/step)); v > 0 && k < w.Slices; k++ {
			from := max(begin, w.From.Add(time.Duration(k)*step))
			to := min(end, w.From.Add(time.Duration(k+1)*step))
			if to <= from {
				break
			}
			out[k] += v * to.Sub(from).Seconds() / step.Seconds()
		}
	}
	return out
}
