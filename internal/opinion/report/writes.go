package report

import (
	"fmt"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/consistency"
	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// minGap is the shortest time without an acknowledged write that is told.
const minGap = time.Second

// describeWrites says what the answers to each probe step show.
func describeWrites(r *content.Report) (out []string) {
	for _, s := range r.Steps {
		if s.Writes != nil {
			out = append(out, "Writes of step "+s.Name+": "+describeProbe(*s.Writes))
		}
	}
	return out
}

func describeProbe(w consistency.Report) string {
	out := fmt.Sprintf("%d acknowledged, %d unknown", w.Acknowledged, w.Unknown)
	if w.Unknown > 0 {
		out += fmt.Sprintf(", of which %d took effect", w.TookEffect)
	}
	switch n := len(w.Violations); {
	case n > 0:
		out += "; " + unit.Count(n, "violations") + "."
	case len(w.Incomplete) > 0:
		out += "; not checked to the end."
	default:
		out += "; no violation."
	}
	if gap := w.Gap; gap.Writes > 0 && gap.To.Sub(gap.From) >= minGap {
		out += fmt.Sprintf(" From %.1f s to %.1f s no write was acknowledged, and %s sent: what is not acknowledged cannot be lost.",
			gap.From.Seconds(), gap.To.Seconds(), unit.Count(gap.Writes, "writes")+" "+unit.Verb(gap.Writes, "was", "were"))
	}
	return out
}

// writeWrites shows what the answers to probe steps show.
func (t *summaryText) writeWrites(r *content.Report) {
	said := describeWrites(r)
	if len(said) > 0 {
		t.writeLine("")
	}
	for _, sentence := range said {
		t.writeWrapped("", sentence)
	}
}
