package content

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// CallRow is one kind of call in the report: the calls of all steps that have
// source, verb, resource and scope in common.
type CallRow struct {
	Source, Verb, Resource, Scope string // Resource includes the subresource
	N, Failed, Unknown            int
	P50, P90, P99, Max            float64 // latency, seconds from due to done
	ServiceP99                    float64 // seconds from sent to done
	Codes                         string  // what the failed ones were answered, most frequent first
	heat                          map[int]int
}

// Name is what a chart calls the row.
func (r CallRow) Name() string {
	name := r.Verb + " " + r.Resource
	if r.Scope != "" && r.Scope != "resource" {
		name += " (" + r.Scope + ")"
	}
	return name
}

// callRows summarises the calls: those of the load first, then by the most time spent.
func (t *tally) callRows() []CallRow {
	type kind struct {
		op   record.Op
		heat *run.Heat
		all  []*run.Calls
	}
	kinds := map[record.Op]*kind{}
	for i, c := range t.facts.Calls {
		op := c.Op
		op.Step, op.Cluster = "", "" // members have rows of their own
		if kinds[op] == nil {
			kinds[op] = &kind{op: op, heat: t.facts.Heat[i]}
		}
		if c.Count() > 0 { // an operation may be defined and never used
			kinds[op].all = append(kinds[op].all, c)
		}
	}
	rows := make([]CallRow, 0, len(kinds))
	for _, k := range kinds {
		if len(k.all) > 0 {
			row := newCallRow(k.op, k.all)
			row.heat = heatCells(t.heat, k.heat)
			rows = append(rows, row)
		}
	}
	order := map[string]int{run.Load: 0, run.Fleet: 1, "observe": 2}
	rank := func(source string) int {
		if i, ok := order[source]; ok {
			return i
		}
		return len(order)
	}
	slices.SortFunc(rows, func(a, b CallRow) int {
		return cmp.Or(
			cmp.Compare(rank(a.Source), rank(b.Source)), cmp.Compare(a.Source, b.Source),
			cmp.Compare(b.N, a.N), cmp.Compare(a.Resource, b.Resource),
			cmp.Compare(a.Verb, b.Verb), cmp.Compare(a.Scope, b.Scope))
	})
	return rows
}

func newCallRow(op record.Op, all []*run.Calls) CallRow {
	resource := op.Resource
	if op.Subresource != "" {
		resource += "/" + op.Subresource
	}
	if op.Connection == record.NewConnection {
		resource += ", a new connection each"
	}
	if op.Clients != "" {
		resource += ", clients " + op.Clients
	}
	row := CallRow{Source: op.Source, Verb: op.Verb, Resource: resource, Scope: op.Scope}
	codes := map[uint16]int{}
	var latency, service []*stats.Durations
	for _, c := range all {
		row.N += c.Count()
		row.Failed += c.Outcomes[record.Failed]
		row.Unknown += c.Outcomes[record.Unknown]
		latency, service = append(latency, &c.Latency), append(service, &c.Service)
		for code, n := range c.Codes {
			codes[code] += n
		}
	}
	l := stats.Merged(latency)
	row.P50, row.P90, row.P99, row.Max = l.Quantile(0.5).Value, l.Quantile(0.9).Value, l.Quantile(0.99).Value, l.Quantile(1).Value
	row.ServiceP99 = stats.Merged(service).Quantile(0.99).Value
	row.Codes = codesText(codes)
	return row
}

// codesText writes counts of HTTP status codes: "409 ×12, no answer ×2".
func codesText(codes map[uint16]int) string {
	keys := slices.SortedFunc(maps.Keys(codes), func(a, b uint16) int {
		return cmp.Or(cmp.Compare(codes[b], codes[a]), cmp.Compare(a, b))
	})
	parts := make([]string, len(keys))
	for i, code := range keys {
		name := fmt.Sprint(code)
		if code == 0 {
			name = "not sent"
		}
		parts[i] = fmt.Sprintf("%s ×%d", name, codes[code])
	}
	return strings.Join(parts, ", ")
}

// loadLateness is how late the load's calls left.
func loadLateness(facts *run.Facts) *stats.Durations {
	var all []*stats.Durations
	for _, c := range facts.Calls {
		if c.Source == run.Load {
			all = append(all, &c.Lateness)
		}
	}
	return stats.Merged(all)
}
