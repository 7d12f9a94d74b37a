package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// workerRow is one of those who shared the load.
type workerRow struct {
	Name, Calls, Unknown, Late, Lateness, Skew, Bound, CPU, Memory, State string
}

// workerRows are the workers of a run, by their numbers.
func workerRows(all []*run.Worker) (out []workerRow) {
	for _, w := range all {
		row := workerRow{
			Name: strconv.Itoa(w.Index), Calls: unit.Number(float64(w.Calls)), Unknown: unit.Number(float64(w.UnknownCalls())), Late: unit.Number(float64(w.Late)),
			Lateness: seconds(w.Lateness), Skew: seconds(w.Skew), Bound: seconds(w.Bound), CPU: unit.Seconds(w.CPUSeconds),
			Memory: unit.Bytes(int64(w.Memory)).Human(), State: "finished",
		}
		if w.Fleet {
			row.Name += " fleet"
		}
		switch {
		case w.Lost != "":
			row.State = "lost"
			if w.LostIn != "" {
				row.State += " in " + w.LostIn
			}
		case w.Missing || w.CutOff:
			row.State = "records not whole"
		}
		out = append(out, row)
	}
	return out
}

func seconds(d time.Duration) string { return unit.Seconds(d.Seconds()) }

// Name is the scenario's, and which of its workers were lost: whoever quotes a figure
// quotes that, too.
func (r *Report) Name() string {
	lost := len((&run.Facts{Workers: r.Workers}).WorkersLost())
	if lost == 0 {
		return r.Manifest.Scenario
	}
	return fmt.Sprintf("%s (%d of %d workers lost)", r.Manifest.Scenario, lost, len(r.Workers))
}

// workersFinding says how far the figures of several senders are those of one.
func workersFinding(m record.Manifest, f *run.Facts) (out []Finding) {
	if m.Workers == nil {
		return nil
	}
	var skew, bound, lateness time.Duration
	unknown := 0
	for _, w := range f.Workers {
		skew, bound, lateness, unknown = max(skew, w.Skew), max(bound, w.Bound), max(lateness, w.Lateness), unknown+w.UnknownCalls()
	}
	one := Finding{Fine, "Workers", ""}
	if n := m.Workers.Senders(); n > 0 {
		one.Text = fmt.Sprintf("%s sent the load: each part began within %s, clocks are known to %s, no call was more than %s late.", whoWorked(m, n), seconds(skew), seconds(bound), seconds(lateness))
	}
	if n := m.Workers.Fleets; n > 0 {
		one.Text = strings.TrimPrefix(one.Text+fmt.Sprintf(" %s kept the %s alive.", whoWorked(m, n), run.Join(m.KeptByWorkers())), " ")
	}
	lost := f.WorkersLost()
	switch {
	case len(lost) > 0:
		one.Level = Bad
		one.Text += fmt.Sprintf(" Lost: %s; the outcome of %s calls is unknown.", run.Join(lost), unit.Number(float64(unknown)))
	case f.Apart() != "":
		one.Level = Note
		one.Text += " Calls of different workers cannot be put in one order: " + f.Apart() + "."
	}
	for _, w := range f.Workers {
		if slo.WorkerTooLate(w) {
			one.Level = Bad
			one.Text += fmt.Sprintf(" Worker %d sent %s of %s calls more than 100 ms late.", w.Index, unit.Number(float64(w.Late)), unit.Number(float64(w.Calls)))
		}
	}
	return []Finding{one}
}

// whoWorked is so many workers, and where they were.
func whoWorked(m record.Manifest, n int) string {
	switch m.Workers.Where {
	case "pods":
		return things(n, "pod", "pods")
	case "byHand":
		return things(n, "process", "processes") + " that somebody started"
	}
	return things(n, "process", "processes") + " of this machine"
}

// summaryWorkers is how many workers summary.txt lists.
const summaryWorkers = 16

// workers lists those who shared the load.
func (t *summaryText) workers(r *Report) {
	rows := workerRows(r.Workers)
	if len(rows) == 0 {
		return
	}
	t.heading(pad("WORKER", 8) + right("CALLS", 10) + right("UNKNOWN", 9) + right("LATE", 7) + right("SKEW", 10) + right("CLOCK ±", 10) + right("CPU", 9) + "  " + "STATE")
	for i, w := range rows {
		if i == summaryWorkers && len(rows) > i+1 {
			t.line(fmt.Sprintf("and %d more: report.html has them", len(rows)-i))
			return
		}
		t.line(cut(pad(w.Name, 8)+right(w.Calls, 10)+right(w.Unknown, 9)+right(w.Late, 7)+right(w.Skew, 10)+right(w.Bound, 10)+right(w.CPU, 9)+"  "+text.Clean(w.State), t.width))
	}
}
