package content

import (
	"fmt"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/unit"
)

func secondsText(d time.Duration) string { return unit.Seconds(d.Seconds()) }

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
		one.Text = fmt.Sprintf("%s sent the load: each part began within %s, clocks are known to %s, no call was more than %s late.", whoWorked(m, n), secondsText(skew), secondsText(bound), secondsText(lateness))
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
		return unit.Text(float64(n), "pods")
	case "byHand":
		return unit.Text(float64(n), "processes") + " that somebody started"
	}
	return unit.Text(float64(n), "processes") + " of this machine"
}
