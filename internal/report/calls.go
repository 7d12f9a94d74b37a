package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// lateAfter is from when on a call counts as sent late, as in slo.Self.
const lateAfter = 100 * time.Millisecond

// calls tallies the API calls of a run.
type calls struct {
	t      *tally
	s      *record.Stream
	ops    []*callKind // by OpID
	kinds  map[kindKey]*callKind
	due    []float64 // load calls per base bin that fell due
	ok     []float64 // that were answered with success
	bad    []float64 // that failed or were not answered
	open   presence  // of those due and not yet answered
	late   *stats.Durations
	lately int  // load calls sent later than lateAfter
	ended  bool // the run has: what cleans up is drawn, not counted
}

// kindKey is what calls are told apart by; the step is not part of it.
type kindKey struct{ source, verb, resource, subresource, scope string }

// callKind is the tally of one kind of call.
type callKind struct {
	key     kindKey
	latency stats.Durations
	service stats.Durations
	failed  int
	unknown int
	codes   map[uint16]int // of failed calls; 0 is "no answer"
	heat    map[int]int    // column*(mostBuckets+1)+bucket -> calls
}

func newCalls(t *tally, s *record.Stream) *calls {
	return &calls{
		t: t, s: s, kinds: map[kindKey]*callKind{}, late: &stats.Durations{},
		due: make([]float64, t.base.n), ok: make([]float64, t.base.n),
		bad: make([]float64, t.base.n), open: newPresence(t.base),
	}
}

func (c *calls) visit(call record.Call) {
	for int(call.Op) >= len(c.ops) {
		c.ops = append(c.ops, c.kind(c.s.Ops[len(c.ops)]))
	}
	k := c.ops[call.Op]
	op := c.s.Ops[call.Op]
	k.heat[c.t.heat.bin(call.Done)*(mostBuckets+1)+bucket(max(call.Latency(), 0))]++
	if !c.ended {
		k.count(call)
	}
	if op.Source == "load" {
		c.load(call, op.Step)
	}
}

// mark looks for the run's begin and end: calls that boot, populate or clean up
// are drawn and not counted, as in the verdict.
func (c *calls) mark(m record.Event) {
	switch m.Type {
	case record.EventRunBegan:
		for _, k := range c.kinds {
			*k = callKind{key: k.key, codes: map[uint16]int{}, heat: k.heat}
		}
		c.late, c.lately = &stats.Durations{}, 0
	case record.EventRunEnded:
		c.ended = true
	}
}

// load counts a call of the load, whose rates are drawn.
func (c *calls) load(call record.Call, step string) {
	base := c.t.base
	c.due[base.bin(call.Due)]++
	c.open.add(call.Due, call.Done)
	if call.Outcome == record.OK {
		c.ok[base.bin(call.Done)]++
	} else {
		c.bad[base.bin(call.Done)]++
	}
	if c.ended {
		return
	}
	if i := slices.IndexFunc(c.t.steps, func(s Step) bool { return s.Name == step }); i >= 0 {
		c.t.steps[i].count(call)
	}
	late := max(call.Lateness(), 0)
	c.late.Add(late)
	if late > lateAfter {
		c.lately++
	}
}

func (c *calls) kind(op record.Op) *callKind {
	key := kindKey{op.Source, op.Verb, op.Resource, op.Subresource, op.Scope}
	k := c.kinds[key]
	if k == nil {
		k = &callKind{key: key, codes: map[uint16]int{}, heat: map[int]int{}}
		c.kinds[key] = k
	}
	return k
}

// count adds a call to the figures. A call without an answer took at least as
// long as it was waited for.
func (k *callKind) count(c record.Call) {
	latency, service := max(c.Latency(), 0), max(c.Service(), 0)
	switch c.Outcome {
	case record.Unknown:
		k.unknown++
		k.latency.AddBetween(latency, stats.Forever)
		k.service.AddBetween(service, stats.Forever)
		return
	case record.Failed:
		k.failed++
		k.codes[c.Code]++
	}
	k.latency.Add(latency)
	k.service.Add(service)
}

// CallRow is one kind of call in the report.
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
	rows := make([]CallRow, 0, len(t.calls.kinds))
	for _, k := range t.calls.kinds {
		if k.latency.Len() > 0 { // an operation may be defined and never used
			rows = append(rows, k.row())
		}
	}
	order := map[string]int{"load": 0, "fleet": 1, "observe": 2}
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

func (k *callKind) row() CallRow {
	at := func(q float64) float64 { return k.latency.Quantile(q).Value }
	resource := k.key.resource
	if k.key.subresource != "" {
		resource += "/" + k.key.subresource
	}
	return CallRow{
		Source: k.key.source, Verb: k.key.verb, Resource: resource, Scope: k.key.scope,
		N: k.latency.Len(), Failed: k.failed, Unknown: k.unknown,
		P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: at(1),
		ServiceP99: k.service.Quantile(0.99).Value,
		Codes:      codesText(k.codes), heat: k.heat,
	}
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
