package plan

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/windtunnel/windtunnel/internal/unit"
)

// maxShown is how many steps are listed one by one.
const maxShown = 60

// Write writes the estimate for a person: the whole, the calls by verb and
// resource, the steps.
func (e Estimate) Write(w io.Writer) error {
	b := &strings.Builder{}
	e.writeWhole(b)
	tab := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	if len(e.Calls) > 0 {
		fmt.Fprint(tab, "\nCALLS\tVERB\tRESOURCE\n")
	}
	for _, c := range e.Calls {
		fmt.Fprintf(tab, "%s\t%s\t%s\n", unit.Number(float64(c.Calls)), c.Verb, c.Resource)
	}
	_ = tab.Flush() // a strings.Builder takes everything
	fmt.Fprint(tab, "\nSTEP\tVERB\tBEGINS\tLASTS\tCALLS\tRATE\n")
	for i, s := range e.Steps {
		if i == maxShown {
			fmt.Fprintf(tab, "and %d more\n", len(e.Steps)-maxShown)
			break
		}
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%s\n", s.Name, s.Verb, roundForDisplay(s.Begin), s.durationText(), s.callsText(), s.rateText())
	}
	_ = tab.Flush()
	_, err := io.WriteString(w, b.String())
	return err
}

func (e Estimate) writeWhole(b *strings.Builder) {
	least, more := "", ""
	if e.AtLeast {
		least = "at least "
	}
	if e.Unbounded {
		more = ", and those of closed pools"
	}
	fmt.Fprintf(b, "calls      %s%s%s\n", least, unit.Number(float64(e.Total)), more)
	fmt.Fprintf(b, "duration   %s\n", formatLasting(e.Duration, e.Open))
	fmt.Fprintf(b, "peak rate  %s/s", unit.Number(e.PeakRate))
	if e.Burst > 0 {
		fmt.Fprintf(b, ", and %s at once", unit.Number(float64(e.Burst)))
	}
	fmt.Fprintf(b, "\nobjects    about %s at once", unit.Number(float64(e.Objects)))
	if e.Pods > 0 {
		fmt.Fprintf(b, ", %s pods of workloads among them", unit.Number(float64(e.Pods)))
	}
	fmt.Fprintf(b, "\netcd       about %s\n", formatSize(e.EtcdBytes))
	if len(e.Processes.Counts) > 0 {
		fmt.Fprintf(b, "plane      %v\n", e.Processes)
	}
	for _, u := range e.Upgrades {
		fmt.Fprintf(b, "upgrade    %s\n", u)
	}
	if e.Members.Real+e.Members.Hollow > 0 {
		fmt.Fprintf(b, "members    %v\n", e.Members)
	}
	if e.Subjects.hasNeeds() {
		fmt.Fprintf(b, "subjects   %v\n", e.Subjects)
	}
	if e.Audit {
		fmt.Fprintf(b, "clients    their requests are counted from the audit log of kube-apiserver\n")
	}
	if len(e.LeftOut) > 0 {
		fmt.Fprintf(b, "left out   by conditions (when): %s\n", strings.Join(e.LeftOut, ", "))
	}
	for _, c := range e.Clients {
		fmt.Fprintf(b, "clients    %v\n", c)
	}
	if e.Watches > 0 {
		fmt.Fprintf(b, "watches    at most %s held at once\n", unit.Number(float64(e.Watches)))
	}
}

func (s Step) durationText() string { return formatLasting(s.Duration, s.Open) }

// formatLasting writes a duration that may be longer.
func formatLasting(d time.Duration, open bool) string {
	switch {
	case open && d == 0:
		return "?"
	case open:
		return "at least " + roundForDisplay(d)
	}
	return roundForDisplay(d)
}

func (s Step) callsText() string {
	if s.Calls == 0 {
		return "-"
	}
	return unit.Number(float64(s.Calls))
}

func (s Step) rateText() string {
	switch {
	case math.IsInf(s.Rate, 1):
		return "at once"
	case s.Rate == 0:
		return "-"
	}
	return unit.Number(s.Rate) + "/s"
}

func roundForDisplay(d time.Duration) string {
	if d >= 10*time.Second {
		return d.Round(time.Second).String()
	}
	return d.Round(10 * time.Millisecond).String()
}
