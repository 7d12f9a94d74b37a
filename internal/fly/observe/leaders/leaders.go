// Package leaders watches which processes of a component lead, where several elect a leader.
package leaders

import (
	"context"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Candidate is one process.
type Candidate struct {
	Process string
	Every   time.Duration // time between two questions, and their timeout
	// Leads asks the process; it is called from one goroutine. An error says that nobody knows.
	Leads func(context.Context) (bool, error)
}

// reading is one answer.
type reading struct {
	at    clock.Time
	leads bool
}

// thinned leaves out answers that say nothing new.
type thinned struct {
	last    reading
	any     bool
	written bool // the last one
}

// add takes the next answer and returns those that are to be written: where the process begins
// or ceases to lead both sides are, so that the time between them is known.
func (t *thinned) add(next reading) (out []reading) {
	if t.any && next.leads == t.last.leads {
		t.last, t.written = next, false
		return nil
	}
	out = append(t.rest(), next)
	t.last, t.any, t.written = next, true, true
	return out
}

// rest returns the last answer, unless it was returned before.
func (t *thinned) rest() []reading {
	if !t.any || t.written {
		return nil
	}
	t.written = true
	return []reading{t.last}
}

// Watch asks all candidates until ctx ends.
func Watch(ctx context.Context, w *record.Writer, c clock.Clock, all []Candidate) {
	var wait guard.Group
	for _, one := range all {
		wait.Go(func() { one.watch(ctx, w, c) })
	}
	wait.Wait()
}

func (x Candidate) watch(ctx context.Context, w *record.Writer, c clock.Clock) {
	id := w.Series(record.Series{Target: x.Process, Name: run.LeaderSeries})
	write := func(all []reading) {
		for _, r := range all {
			v := 0.0
			if r.leads {
				v = 1
			}
			w.Sample(record.Sample{Series: id, At: r.at, Value: v})
		}
	}
	var answers thinned
	tick := time.NewTicker(x.Every)
	defer tick.Stop()
	for {
		if r, known := x.ask(ctx, c); known {
			write(answers.add(r))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			write(answers.rest())
			return
		}
	}
}

// ask asks once. That a process leads is known when it has answered; that it does not, from when
// it was asked.
func (x Candidate) ask(ctx context.Context, c clock.Clock) (r reading, known bool) {
	limited, cancel := context.WithTimeout(ctx, x.Every)
	defer cancel()
	sent := c.Now()
	leads, err := x.Leads(limited)
	if ctx.Err() != nil || err != nil {
		return r, false
	}
	if !leads {
		return reading{sent, false}, true
	}
	return reading{c.Now(), true}, true
}
