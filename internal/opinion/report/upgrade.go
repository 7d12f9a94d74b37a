package report

import (
	"fmt"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// partRow is a process, or the nodes, that an upgrade step changed.
type partRow struct {
	Name, Step, Release, Note             string
	Begin, Took, Outages, Longest, Served cell // Served: time without service
}

func partRows(r *content.Report) (out []partRow) {
	for _, p := range r.Parts() {
		row := partRow{
			Name: p.Name, Step: p.Step, Release: p.To, Note: text.Sentence(p.Note),
			Begin: quantityCell(roundTo(p.Begin.Seconds(), 2), "s"), Took: quantityCell(roundTo(p.End.Sub(p.Begin).Seconds(), 2), "s"),
			Outages: countCell(p.Outages), Longest: cell{"–", 0}, Served: cell{"–", 0},
		}
		if p.From != "" {
			row.Release = p.From + " to " + p.To
		}
		if p.Outages > 0 {
			row.Longest, row.Served = quantityCell(roundTo(p.Longest.Seconds(), 3), "s"), quantityCell(roundTo(p.Unserved.Seconds(), 3), "s")
		}
		out = append(out, row)
	}
	return out
}

// worstPart says during which part of an upgrade calls were not served for longest, and of
// which parts that is not known.
func worstPart(r *content.Report) string {
	var uncalled []string
	for _, p := range r.Parts() {
		if p.Uncalled {
			uncalled = append(uncalled, p.Name)
		}
	}
	served := "throughout"
	if len(uncalled) > 0 {
		served = "during the other parts"
	}
	said := "Calls of the load were served " + served + "."
	if worst := run.WorstPart(r.Parts()); worst != nil {
		said = fmt.Sprintf("Worst: %s of step %s, when calls of the load were not served for %s, of %s in all.",
			worst.Name, worst.Step, unit.Seconds(worst.Longest.Seconds()), unit.Seconds(worst.Unserved.Seconds()))
	}
	unknown := "No call of the load was due during " + strings.Join(uncalled, ", ") + ": whether calls would be served is not known."
	switch len(uncalled) {
	case 0:
		return said
	case len(r.Parts()):
		return unknown
	}
	return said + " " + unknown
}

// writeUpgrade shows what upgrade steps changed, and what users felt of it.
func (t *summaryText) writeUpgrade(r *content.Report) {
	if len(r.Parts()) == 0 {
		return
	}
	const figures = 10 + 9 + 11 + 12
	name := t.width - figures
	t.writeHeading(padRight("UPGRADE", name) + padLeft("TOOK", 10) + padLeft("OUTAGES", 9) + padLeft("LONGEST", 11) + padLeft("NOT SERVED", 12))
	for _, row := range partRows(r) {
		t.writeLine(padRight(cutToWidth(text.Clean(row.Name+"  "+row.Release), name-1), name) + padLeft(row.Took.Text, 10) +
			padLeft(row.Outages.Text, 9) + padLeft(row.Longest.Text, 11) + padLeft(row.Served.Text, 12))
		if row.Note != "" {
			t.writeWrapped(padRight("", 4), row.Note)
		}
	}
	t.writeWrapped("", worstPart(r))
}
