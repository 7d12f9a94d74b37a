package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sli"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Objectives that are shown at once; the rest is folded away, since passed
// objectives far from their bounds are what nobody asks for first.
const (
	shownObjectives = 6
	foldedFew       = 4 // fewer than this are not worth folding
)

// view is what the template of a run is filled from: text that is ready to be
// shown.
type view struct {
	*Report
	Verdict    slo.Verdict
	Word       string // the verdict as people say it
	Glyph      string
	Lead       string
	Reasons    []string
	Facts      []pair
	Top, Rest  []objectiveRow
	RestText   string
	Findings   []finding
	StepRows   []stepRow
	SpreadRows []spreadRow
	CallGroups []callGroup
	MapView    *mapView
	MemberView *membersView
	Usage      []usageRow
	Figures    []figureRow
	Measures   []pair
	Versions   []pair
	Parameters []pair
	Machine    []pair
	Plane      []pair
	Processes  []process
	Repeat     string
	Whole      string // the manifest as JSON
	Gave       []Cause
	GaveMore   []Cause
	Parted     partedRows
	Lifecycles []lifecycleView
	Faults     []pair
	WorkerRows []workerRow
}

type pair struct{ Name, Text string }

type finding struct {
	Finding
	Glyph, Word string
}

func (r *Report) view() (*view, error) {
	m, j := r.Manifest, r.Judgement
	whole, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	p := &view{
		Report: r, Verdict: j.Verdict, Word: verdictWord(j.Verdict), Glyph: glyph(j.Verdict),
		Lead: r.Sentence(), Reasons: r.reasons(), Facts: r.facts(),
		StepRows: r.stepRows(), SpreadRows: spreadRows(r.Startup), CallGroups: r.callGroups(), MapView: r.Map.view(), MemberView: r.membersView(), Usage: r.usageRows(),
		Figures: r.figureRows(), Measures: measureRows(j.Measures),
		Versions: sortedPairs(m.Versions), Parameters: parameterRows(m.Parameters), Machine: machineRows(m.Machine),
		Plane: planeRows(m), Processes: processes(m.Processes()), Repeat: commandLine(m.Command),
		Whole: string(whole), Faults: r.faults(), WorkerRows: workerRows(r.Workers),
	}
	if r.Live {
		p.Word, p.Glyph = "Under way", "▸"
	}
	p.Gave, p.GaveMore = r.causes()
	p.Parted, p.Lifecycles = r.podsParted(), r.lifecycleViews()
	p.Top, p.Rest = fold(r.Objectives)
	p.RestText = restText(r.Objectives[len(p.Top):])
	p.Facts = append(p.Facts, pair{"Trust", r.trustInShort()})
	for _, f := range worstTrust(r.Trust) {
		p.Findings = append(p.Findings, finding{f, map[Level]string{Fine: "✓", Note: "i", Bad: "!"}[f.Level],
			map[Level]string{Fine: "fine", Note: "note", Bad: "doubtful"}[f.Level]})
	}
	return p, nil
}

// worstTrust puts what casts doubt first.
func worstTrust(all []Finding) []Finding {
	weight := func(f Finding) int { return slices.Index([]Level{Bad, Note, Fine}, f.Level) }
	return slices.SortedStableFunc(slices.Values(all), func(a, b Finding) int { return weight(a) - weight(b) })
}

func verdictWord(v slo.Verdict) string {
	switch v {
	case slo.Pass:
		return "Pass"
	case slo.Fail:
		return "Fail"
	default:
		return "Unknown"
	}
}

// glyph is the verdict's sign: colour alone says nothing to many readers.
func glyph(v slo.Verdict) string {
	switch v {
	case slo.Pass:
		return "✓"
	case slo.Fail:
		return "✕"
	default:
		return "?"
	}
}

// reasons are what neither the first sentence nor the objectives' rows say.
func (r *Report) reasons() []string {
	var out []string
	for i, s := range r.Judgement.Reasons {
		if i == 0 && (r.Judgement.Verdict == slo.Unknown || r.refuted()) {
			_, s = cutSentence(s) // the first one is in the verdict's sentence
		}
		if s = sentence(s); s != "" && !r.tellsRow(s) {
			out = append(out, s)
		}
	}
	if n := r.count(slo.Fail); n > 0 && r.Judgement.Verdict == slo.Unknown {
		out = append(out, fmt.Sprintf("Taken at face value, %d of %d objectives %s missed.", n, len(r.Objectives), unit.Verb(n, "is", "are")))
	}
	return out
}

func (r *Report) count(v slo.Verdict) (n int) {
	for _, o := range r.Objectives {
		if o.Verdict == v {
			n++
		}
	}
	return n
}

// tellsRow reports whether a reason repeats an objective's outcome.
func (r *Report) tellsRow(reason string) bool {
	return slices.ContainsFunc(r.Objectives, func(o Objective) bool {
		return strings.HasPrefix(reason, withStatistic(o.Name, o.Statistic)) || strings.HasPrefix(reason, o.Title())
	}) ||
		strings.HasPrefix(reason, "And ") && strings.Contains(reason, " more objectives: ")
}

// facts are the run in a handful of words.
func (r *Report) facts() []pair {
	m := r.Manifest
	var out []pair
	add := func(name, text string) {
		if text != "" {
			out = append(out, pair{name, text})
		}
	}
	if m.Fleet.Nodes > 0 {
		add("Nodes", unit.Number(float64(m.Fleet.Nodes)))
	}
	members := 0
	for _, g := range m.Members {
		members += g.Count
	}
	if members > 0 {
		add("Members", unit.Number(float64(members)))
	}
	for _, size := range sizeParameters() {
		if n, ok := asNumber(m.Parameters[size.parameter]); ok && n > 0 {
			add(size.name, unit.Number(n))
		}
	}
	if r.Pods > 0 {
		pods := unit.Number(float64(r.Pods))
		if r.OtherPods > 0 {
			pods += ", and " + unit.Number(float64(r.OtherPods)) + " of no group"
		}
		add("Pods", pods)
	}
	calls := 0
	for _, c := range r.Calls {
		if c.Source != sli.Network {
			calls += c.N
		}
	}
	add("API calls", unit.Number(float64(calls)))
	add("Duration", unit.Seconds(math.Round(r.Duration*10)/10))
	add("Kubernetes", m.Versions["kubernetes"])
	add("etcd", strings.TrimSpace(m.Versions["etcd"]+map[string]string{"memory": ", no fsync", "fsync": ", fsync"}[m.Plane.Durability]))
	if m.Machine.Cores > 0 {
		add("Machine", fmt.Sprintf("%s, %s", unit.Count(m.Machine.Cores, "cores"), unit.Bytes(m.Machine.MemoryBytes).Human()))
	}
	return out
}

// sizeParameter is a parameter by which scenarios of reference planes say how large
// they are, where neither nodes nor pods do.
type sizeParameter struct{ parameter, name string }

func sizeParameters() []sizeParameter {
	return []sizeParameter{{"edges", "Edges"}, {"apps", "Apps"}, {"vms", "VMs"}}
}

// asNumber is a parameter's value as a number; false if it is none.
func asNumber(v any) (float64, bool) {
	switch n := v.(type) {
	case float64:
		return n, true
	case int:
		return float64(n), true
	case int64:
		return float64(n), true
	}
	return 0, false
}

// fold splits the objectives into those that are shown and the tail.
func fold(all []Objective) (top, rest []objectiveRow) {
	shown := 0
	for shown < len(all) && (shown < shownObjectives || all[shown].Verdict != slo.Pass) {
		shown++
	}
	if len(all)-shown < foldedFew {
		shown = len(all)
	}
	for i, o := range all {
		if i < shown {
			top = append(top, newObjectiveRow(o))
		} else {
			rest = append(rest, newObjectiveRow(o))
		}
	}
	return top, rest
}

func restText(rest []Objective) string {
	if len(rest) == 0 {
		return ""
	}
	text := fmt.Sprintf("%d more, all passed", len(rest))
	if slices.ContainsFunc(rest, func(o Objective) bool { return o.AtLeast }) {
		return text
	}
	return text + fmt.Sprintf(", none above %.0f %% of its bound", math.Ceil(100*rest[0].Used))
}

type objectiveRow struct {
	Verdict                            slo.Verdict
	Glyph, Word, Head, About           string
	Value, Bound, Used, Interval, Size string
	Bar                                bar
	Warnings                           []string
}

func newObjectiveRow(o Objective) objectiveRow {
	row := objectiveRow{
		Verdict: o.Verdict, Glyph: glyph(o.Verdict), Word: verdictWord(o.Verdict), Head: o.Head(), About: o.About(),
		Value: o.ValueText(), Bound: o.BoundText(), Used: o.UsedText(), Interval: o.IntervalText(),
		Size: things(o.Samples, "sample", "samples"), Bar: newBar(o),
	}
	for _, w := range o.Warnings {
		row.Warnings = append(row.Warnings, sentence(w))
	}
	return row
}

// The bar's drawing: the bound stands at two thirds, so that a miss is seen.
const (
	barWidth = 132.0
	barBound = 88.0
)

// bar draws a value against its bound, with its interval. Lengths are in the
// units of the drawing.
type bar struct {
	Shown        bool
	Fill         float64
	Over         bool // the value lies beyond the drawing
	Interval     bool
	Low, High    float64
	Width, Bound float64
}

func newBar(o Objective) bar {
	b := bar{Width: barWidth, Bound: barBound}
	if o.Value == nil || o.Threshold <= 0 {
		return b
	}
	place := func(v float64) float64 {
		return math.Round(10*min(max(v/o.Threshold*barBound, 0), barWidth)) / 10
	}
	b.Shown, b.Fill = true, place(*o.Value)
	b.Over = *o.Value/o.Threshold*barBound > barWidth
	if o.Interval != nil {
		b.Low, b.High = place(o.Interval[0]), place(o.Interval[1])
		b.Interval = b.High > b.Low
	}
	return b
}

func sortedPairs(m map[string]string) []pair {
	var out []pair
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, pair{k, m[k]})
	}
	return out
}

func parameterRows(m map[string]any) []pair {
	var out []pair
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, pair{k, fmt.Sprint(m[k])})
	}
	return out
}

func measureRows(m map[string]slo.Measure) []pair {
	var out []pair
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, pair{k, unit.Text(m[k].Value, m[k].Unit)})
	}
	return out
}

func machineRows(m record.Machine) []pair {
	return []pair{
		{"CPU", m.CPU}, {"Cores", fmt.Sprint(m.Cores)}, {"Memory", unit.Bytes(m.MemoryBytes).Human()},
		{"System", strings.TrimSpace(m.OS + " " + m.Arch)}, {"Kernel", m.Kernel}, {"Control groups", m.Cgroup},
	}
}
