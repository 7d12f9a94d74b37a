package slo

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// workerFacts is what judging asks of those who shared the load.
type workerFacts struct {
	f *run.Facts
	m record.Manifest
}

// workerWarnings say why a run whose load was shared is not to be believed: more workers were
// lost than may be, or one of them could not keep its own pace, however well the
// others did.
func (c workerFacts) workerWarnings() []string {
	if c.m.Workers == nil {
		return nil
	}
	var out []string
	if lost := c.f.WorkersLost(); len(lost) > c.m.Workers.Tolerate {
		out = append(out, c.describeLosses()+" The run was not what the scenario asks for.")
	}
	for _, w := range c.f.Workers {
		switch {
		case w.Lost != "":
		case w.Missing && w.UnknownCalls() == 0: // the other reasons say why
			out = append(out, fmt.Sprintf("Worker %d brought no records, and none of its calls was due: the run ended before it had a part in it, or they were taken away.", w.Index))
		case w.CutOff || w.Missing:
			out = append(out, fmt.Sprintf("The records of worker %d are not whole: what it sent and measured last is not known.", w.Index))
		}
		if WorkerTooLate(w) {
			out = append(out, fmt.Sprintf("Worker %d could not keep its own pace: %d of its %s (%.1f %%) %s sent more than %v late, at most %.0f %% may be. Give it more CPU, or use more workers.",
				w.Index, w.Late, unit.Count(w.Calls, "calls"), 100*float64(w.Late)/float64(w.Calls), unit.Verb(w.Late, "was", "were"), record.Late, 100*TooLateShare))
		}
	}
	return out
}

// WorkerTooLate tells whether a worker could not keep its own pace: more of its calls
// were late than TooLateShare, and so many that it is no chance. A worker has few calls
// of its own: one late call of 60 says nothing. What it does to the whole load is
// judged there.
func WorkerTooLate(w *run.Worker) bool {
	return w.Late > 1 && stats.MoreThan(TooLateShare, w.Late, w.Calls)
}

// describeLosses says which workers were lost, where, and how many of their calls nobody knows
// the end of.
func (c workerFacts) describeLosses() string {
	var parts []string
	for _, w := range c.f.Workers {
		if w.Lost == "" {
			continue
		}
		one := fmt.Sprintf("worker %d was lost", w.Index)
		if w.LostIn != "" {
			one += " in step " + w.LostIn
		}
		if w.Fleet {
			one += ", and nobody kept its " + run.Join(c.m.KeptByWorkers()) + " alive"
		}
		var steps []string
		for _, step := range slices.Sorted(maps.Keys(w.Unknown)) {
			steps = append(steps, fmt.Sprintf("%d of step %s", w.Unknown[step], step))
		}
		if len(steps) > 0 {
			one += fmt.Sprintf(", the outcome of %d calls is unknown (%s)", w.UnknownCalls(), strings.Join(steps, ", "))
		}
		parts = append(parts, one)
	}
	text := fmt.Sprintf("Of %s %d were lost: ", unit.Count(c.m.Workers.Count, "workers"), len(parts))
	if len(parts) == 1 {
		text = fmt.Sprintf("One of %d workers was lost: ", c.m.Workers.Count)
	}
	return text + strings.Join(parts, "; ") + "."
}

// workerNotes say what a reader should know beside the verdict.
func (c workerFacts) workerNotes() []string {
	if c.m.Workers == nil {
		return nil
	}
	var out []string
	if lost := c.f.WorkersLost(); len(lost) > 0 && len(lost) <= c.m.Workers.Tolerate {
		out = append(out, c.describeLosses()+fmt.Sprintf(" %d may be (--tolerate-workers): the rest was judged.", c.m.Workers.Tolerate))
	}
	if why := c.f.Apart(); why != "" {
		out = append(out, fmt.Sprintf("The workers' calls cannot be put in one order: %s. Rates of steps that lasted less than %v are left out; latencies hold, for each is of one clock.", why, time.Second))
	}
	return out
}

// setMeasures returns the figures of the workers.
func (c workerFacts) setMeasures(m Measures) {
	if c.m.Workers == nil {
		return
	}
	unknown, skew, bound := 0, time.Duration(0), time.Duration(0)
	for _, w := range c.f.Workers {
		unknown += w.UnknownCalls()
		skew, bound = max(skew, w.Skew), max(bound, w.Bound)
	}
	m.set("workers", float64(c.m.Workers.Count), "workers")
	m.set("workers_lost", float64(len(c.f.WorkersLost())), "workers")
	m.set("worker_calls_unknown", float64(unknown), "calls")
	m.set("worker_start_skew_max_seconds", skew.Seconds(), "seconds")
	m.set("worker_clock_bound_max_seconds", bound.Seconds(), "seconds")
	if skews := c.f.StartSkews(); len(skews) > 0 {
		m.set("worker_start_skew_p99_seconds", skews[(len(skews)*99+99)/100-1].Seconds(), "seconds")
	}
}
