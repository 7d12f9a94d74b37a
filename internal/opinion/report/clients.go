package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// clientRow is what one client asked of the API server, and its share of what that used.
type clientRow struct {
	Name, User, Busiest                        string
	Requests, Failed, Watches, Time, CPU, Heap cell
	Share                                      string
}

// clientRows are the clients whose rows follow; of more than most the last row is the sum.
func clientRows(all []run.Client, most int) (out []clientRow) {
	if len(all) > most {
		rest := run.Client{Name: fmt.Sprintf("%d others", len(all)-most+1), Kinds: map[run.RequestKey]float64{}}
		for _, c := range all[most-1:] {
			rest.Add(c)
		}
		all = append(all[:most-1:most-1], rest)
	}
	for _, c := range all {
		var busiest []string
		for _, key := range c.Busiest(3) {
			busiest = append(busiest, fmt.Sprintf("%s %s", unit.Number(c.Kinds[key]), key))
		}
		out = append(out, clientRow{
			Name: strings.TrimSpace(c.Name + " " + c.Version), User: c.User, Busiest: strings.Join(busiest, ", "),
			Requests: numberCell(int(c.Requests)), Failed: countCell(int(c.Failed)), Watches: countCell(int(c.Watches)), Time: quantityCell(roundTo(c.Seconds, 3), "s"),
			Share: fmt.Sprintf("%.1f %%", 100*c.Share), CPU: quantityCell(orUnknown(c.CPU), "s"), Heap: quantityCell(orUnknown(c.Allocated), "bytes"),
		})
	}
	return out
}

func orUnknown(v float64) float64 {
	if v == 0 {
		return math.NaN()
	}
	return v
}

// Rows of clients in each form of the report.
const (
	pageClients     = 40
	summaryClients  = 8
	markdownClients = 15
)

// pageClientRows are by client and user.
func pageClientRows(r *content.Report) []clientRow {
	if r.Clients == nil {
		return nil
	}
	return clientRows(r.Clients.Clients, pageClients)
}

// clientsByName are the clients of all users of one name together.
func clientsByName(r *content.Report, most int) []clientRow {
	if r.Clients == nil {
		return nil
	}
	return clientRows(r.Clients.ByName(), most)
}

// clientModel says what the columns of CPU and memory are.
const clientModel = "CPU and allocations of kube-apiserver are shared out by request time, without watches, streams, logs and profiles: a model, not a measurement."

func (t *summaryText) writeClients(r *content.Report) {
	rows := clientsByName(r, summaryClients)
	if len(rows) == 0 {
		return
	}
	name := t.width - 11 - 9 - 9 - 10 - 10
	t.writeHeading(padRight("CLIENT OF KUBE-APISERVER", name) + padLeft("REQUESTS", 11) + padLeft("FAILED", 9) + padLeft("WATCHES", 9) + padLeft("SHARE", 10) + padLeft("CPU", 10))
	for _, row := range rows {
		t.writeLine(padRight(cutToWidth(text.Clean(row.Name), name-1), name) + padLeft(row.Requests.Text, 11) + padLeft(row.Failed.Text, 9) +
			padLeft(row.Watches.Text, 9) + padLeft(row.Share, 10) + padLeft(row.CPU.Text, 10))
	}
	t.writeWrapped("    ", clientModel)
}

func (m *markdown) writeClients(rows []clientRow) {
	if len(rows) == 0 {
		return
	}
	m.writeFold("Clients of kube-apiserver", func() {
		m.beginTable("", "requests:", "failed:", "watches:", "share:", "CPU:", "mostly")
		for _, r := range rows {
			m.writeRow(r.Name, r.Requests.Text, r.Failed.Text, r.Watches.Text, r.Share, r.CPU.Text, r.Busiest)
		}
		m.writeLine("")
		m.writeLine("%s", clientModel)
	})
}
