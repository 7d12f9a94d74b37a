package report

import (
	"fmt"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
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
			Lateness: unit.Seconds(w.Lateness.Seconds()), Skew: unit.Seconds(w.Skew.Seconds()), Bound: unit.Seconds(w.Bound.Seconds()), CPU: unit.Seconds(w.CPUSeconds),
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

// summaryWorkers is how many workers summary.txt lists.
const summaryWorkers = 16

// writeWorkers lists those who shared the load.
func (t *summaryText) writeWorkers(r *content.Report) {
	rows := workerRows(r.Workers)
	if len(rows) == 0 {
		return
	}
	t.writeHeading(padRight("WORKER", 8) + padLeft("CALLS", 10) + padLeft("UNKNOWN", 9) + padLeft("LATE", 7) + padLeft("SKEW", 10) + padLeft("CLOCK ±", 10) + padLeft("CPU", 9) + "  " + "STATE")
	for i, w := range rows {
		if i == summaryWorkers && len(rows) > i+1 {
			t.writeLine(fmt.Sprintf("and %d more: report.html has them", len(rows)-i))
			return
		}
		t.writeLine(cutToWidth(padRight(w.Name, 8)+padLeft(w.Calls, 10)+padLeft(w.Unknown, 9)+padLeft(w.Late, 7)+padLeft(w.Skew, 10)+padLeft(w.Bound, 10)+padLeft(w.CPU, 9)+"  "+text.Clean(w.State), t.width))
	}
}
