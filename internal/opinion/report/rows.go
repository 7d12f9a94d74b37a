package report

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// cell is a table's figure: its text and, for sorting, its value.
type cell struct {
	Text  string
	Value float64
}

func numberCell(n int) cell { return cell{unit.Number(float64(n)), float64(n)} }
func quantityCell(v float64, u string) cell {
	if math.IsNaN(v) {
		return cell{"–", -1}
	}
	return cell{unit.Text(v, u), v}
}

// countCell is a number that is left out when it is 0, so that the others are seen.
func countCell(n int) cell {
	if n == 0 {
		return cell{"–", 0}
	}
	return numberCell(n)
}

type stepRow struct {
	Name, Note                                string
	Begin, Took, Rate, Calls, Achieved, NotOK cell
	Asked                                     bool
}

func stepRows(r *content.Report) []stepRow {
	var out []stepRow
	for _, s := range r.Steps {
		row := stepRow{
			Name: s.Name, Note: text.Sentence(s.Note), Begin: quantityCell(roundTo(s.From.Seconds(), 2), "s"), Took: quantityCell(roundTo(s.Took(), 2), "s"),
			Calls: countCell(s.Calls), NotOK: countCell(s.Calls - s.OK), Rate: cell{"–", 0}, Achieved: cell{"–", 0},
		}
		if s.Asked.Rate > 0 {
			row.Rate = quantityCell(s.Asked.Rate, "1/s")
		}
		if s.Calls > 0 {
			row.Asked, row.Achieved = true, quantityCell(s.Achieved, "1/s")
		}
		if !s.Ended {
			row.Note = strings.TrimSpace(row.Note + " The run ended in it.")
		}
		out = append(out, row)
	}
	return out
}

// roundTo rounds to n digits behind the point.
func roundTo(v float64, n int) float64 {
	f := math.Pow10(n)
	return math.Round(v*f) / f
}

type spreadRow struct {
	Group, Phase       string
	N, Bounded, Open   cell
	P50, P90, P99, Max cell
}

func spreadRows(all []content.Spread) []spreadRow {
	var out []spreadRow
	for _, s := range all {
		sec := func(v content.Num, name string) cell {
			c := quantityCell(float64(v), "s")
			if b := s.Bounds[name]; b != "" {
				c.Text = b + " " + c.Text
			}
			return c
		}
		out = append(out, spreadRow{
			Group: cmp.Or(s.Group, "(no group)"), Phase: phaseWords(s.Phase), N: numberCell(s.All()), Bounded: countCell(s.Bounded), Open: countCell(s.Open),
			P50: sec(s.P50, "p50"), P90: sec(s.P90, "p90"), P99: sec(s.P99, "p99"), Max: sec(s.Max, "max"),
		})
	}
	return out
}

// censoredText says how many of a row's objects are not known exactly; empty where all
// are.
func (r spreadRow) censoredText() string {
	var parts []string
	if r.Bounded.Value > 0 {
		parts = append(parts, r.Bounded.Text+" within bounds (a watch was interrupted or late)")
	}
	if r.Open.Value > 0 {
		parts = append(parts, r.Open.Text+" not seen to end")
	}
	if len(parts) == 0 {
		return ""
	}
	return "of these " + strings.Join(parts, ", ")
}

// phaseWords is what a stretch of a life is called on the page.
func phaseWords(phase string) string { return strings.ReplaceAll(phase, " to ", " → ") }

type callGroup struct {
	Source string
	Rows   []callCells
}

type callCells struct {
	Verb, Resource, Scope                        string
	N, Failed, Unknown, P50, P90, P99, Max, Serv cell
	Codes                                        string
}

// callGroups are the rows of calls by who sent them.
func callGroups(r *content.Report) []callGroup {
	var out []callGroup
	for _, c := range r.Calls {
		if len(out) == 0 || out[len(out)-1].Source != c.Source {
			out = append(out, callGroup{Source: c.Source})
		}
		sec := func(v float64) cell { return quantityCell(v, "s") }
		g := &out[len(out)-1]
		g.Rows = append(g.Rows, callCells{
			Verb: c.Verb, Resource: c.Resource, Scope: c.Scope, N: numberCell(c.N), Failed: countCell(c.Failed), Unknown: countCell(c.Unknown),
			P50: sec(c.P50), P90: sec(c.P90), P99: sec(c.P99), Max: sec(c.Max), Serv: sec(c.ServiceP99), Codes: c.Codes,
		})
	}
	return out
}

// Words says who sent the calls.
func (g callGroup) Words() string {
	switch g.Source {
	case "load":
		return "The load"
	case "fleet":
		return "The simulated nodes"
	case "observe":
		return "windtunnel's own watches and scrapes"
	default:
		return g.Source
	}
}

type usageRow struct {
	Name                                string
	Seconds, PerPod, Mean, Peak, Memory cell
	Held                                cell
	CPULimit, MemoryLimit               string
}

func usageRows(r *content.Report) []usageRow {
	var out []usageRow
	for _, c := range r.Components {
		row := usageRow{
			Name: c.Name, Seconds: quantityCell(c.CPUSeconds, "s"), PerPod: quantityCell(c.PerPod, "s"),
			Mean: quantityCell(c.Mean, "cores"), Peak: quantityCell(c.Peak, "cores"), Memory: quantityCell(c.Memory, "bytes"),
			CPULimit: "none", MemoryLimit: "none", Held: quantityCell(c.Throttled, "s"),
		}
		if c.CPULimit > 0 {
			row.CPULimit = unit.Text(c.CPULimit, "cores")
		}
		if c.MemoryLimit > 0 {
			row.MemoryLimit = unit.Text(c.MemoryLimit, "bytes")
		}
		out = append(out, row)
	}
	return out
}

type figureRow struct{ Measure, Published, Measured, Ratio, Source, Differences string }

func figureRows(r *content.Report) []figureRow {
	var out []figureRow
	for _, p := range r.Published {
		row := figureRow{
			Measure: p.Measure, Published: unit.Text(p.Value, p.Unit), Measured: "not measured",
			Source: p.Source, Differences: p.Differences, Ratio: "–",
		}
		if p.Measured != nil {
			row.Measured = unit.Text(p.Measured.Value, p.Measured.Unit)
			if p.Measured.Unit == p.Unit && p.Value != 0 {
				row.Ratio = "×" + unit.Number(p.Measured.Value/p.Value)
			}
		}
		out = append(out, row)
	}
	return out
}

type process struct {
	Name, Limits string
	Args, Env    []string
}

func processRows(facts []record.ComponentFact) []process {
	var out []process
	for _, f := range facts {
		out = append(out, process{Name: f.Name, Args: f.Args, Env: f.Env, Limits: limitsText(f)})
	}
	return out
}

// limitsText writes limits: "2 cores, 4 GiB".
func limitsText(f record.ComponentFact) string {
	var limits []string
	if f.CPULimit > 0 {
		limits = append(limits, unit.Text(f.CPULimit, "cores"))
	}
	if f.MemoryLimit > 0 {
		limits = append(limits, unit.Bytes(f.MemoryLimit).Human())
	}
	if len(limits) > 0 && !f.Limited {
		return strings.Join(limits, ", ") + " (not in force)"
	}
	return strings.Join(limits, ", ")
}

func planeRows(m record.Manifest) []pair {
	out := []pair{{"Plane", m.Plane.Kind}}
	if m.Plane.Durability != "" {
		out = append(out, pair{"etcd durability", strings.TrimSuffix(m.Plane.Durability+", on "+m.Plane.DataOn, ", on ")})
	}
	if m.Plane.Ready > 0 {
		out = append(out, pair{"Ready after", unit.Seconds(m.Plane.Ready)})
	}
	if whole, limited := m.Plane.Whole(); limited {
		out = append(out, pair{"All components together", limitsText(whole)})
	}
	out = append(out, pair{"Nodes", unit.Number(float64(m.Fleet.Nodes))})
	if m.Fleet.LeaseSeconds > 0 {
		out = append(out, pair{"Leases", fmt.Sprintf("%s, renewed every %s", unit.Seconds(m.Fleet.LeaseSeconds), unit.Seconds(m.Fleet.RenewEverySeconds))})
	}
	if m.Fleet.StatusEverySeconds > 0 {
		out = append(out, pair{"Node conditions", "posted every " + unit.Seconds(m.Fleet.StatusEverySeconds)})
	}
	return append(out, pair{"Seed", fmt.Sprint(m.Seed)}, pair{"Scenario file", m.File})
}

// commandLine writes a command so that a shell reads it as it was.
func commandLine(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = a
		if a == "" || strings.Trim(a, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:,@%+") != "" {
			out[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}
