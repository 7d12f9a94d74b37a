// Package report draws what package content says of a run: one self-contained HTML
// page with charts, a plain text summary, and Markdown. It decides nothing and computes
// no figure. It reads no clock and no path into its output: the same run directory gives
// the same bytes, wherever it lies. Package junit writes the form for CI.
package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sli"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Objectives that are shown at once; the rest is folded away, since passed
// objectives far from their bounds are what nobody asks for first.
const (
	shownObjectives = 6
	foldedFew       = 4 // fewer than this are not worth folding
)

// view is what the template of a run is filled from: text that is ready to be
// shown, section by section.
type view struct {
	*content.Report
	Head        headView
	Ranked      objectivesView
	Bottlenecks causesView
	Findings    []finding
	StepRows    []stepRow
	PartRows    []partRow
	WorstPart   string
	Writes      []string // what the answers to probe steps show, a sentence or two each
	Faults      []pair
	SpreadRows  []spreadRow
	Parted      partedRows
	Lifecycles  []lifecycleView
	CallGroups  []callGroup
	MapView     *mapView
	MemberView  *membersView
	Usage       []usageRow
	Clients     []clientRow
	ClientModel string
	WorkerRows  []workerRow
	Figures     []figureRow
	Measures    []pair
	Setup       setupView
}

// headView is the verdict.
type headView struct {
	Word, Glyph string // the verdict as people say it
	Lead        string
	Reasons     []string
	Facts       []pair
}

// setupView is what a reader needs to repeat the run.
type setupView struct {
	Repeat                               string // the command line
	Plane, Versions, Machine, Parameters []pair
	Processes                            []process
	Manifest                             string // as JSON
}

type pair struct{ Name, Text string }

type finding struct {
	content.Finding
	Glyph, Word string
}

func newView(r *content.Report) (*view, error) {
	setup, err := newSetupView(r.Manifest)
	if err != nil {
		return nil, err
	}
	return &view{
		Report: r, Head: newHeadView(r), Ranked: foldObjectives(r.Objectives), Bottlenecks: foldCauses(r.Causes), Findings: findingRows(r.Trust),
		StepRows: stepRows(r), PartRows: partRows(r), WorstPart: worstPart(r), Writes: describeWrites(r), Faults: faultRows(r), SpreadRows: spreadRows(r.Startup), Parted: podBreakdown(r), Lifecycles: newLifecycleViews(r),
		CallGroups: callGroups(r), MapView: newMapView(r.Map), MemberView: newMembersView(r), Usage: usageRows(r), WorkerRows: workerRows(r.Workers),
		Figures: figureRows(r), Clients: pageClientRows(r), ClientModel: clientModel, Measures: measureRows(r.Judgement.Measures), Setup: setup,
	}, nil
}

func newHeadView(r *content.Report) headView {
	v := headView{Word: verdictWord(r.Judgement.Verdict), Glyph: verdictGlyph(r.Judgement.Verdict), Lead: r.Sentence(), Reasons: listReasons(r),
		Facts: append(listFacts(r), pair{"Trust", r.TrustInShort()})}
	if r.Live {
		v.Word, v.Glyph = "Under way", "▸"
	}
	return v
}

func newSetupView(m record.Manifest) (setupView, error) {
	whole, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return setupView{}, fmt.Errorf("encode manifest: %w", err)
	}
	return setupView{Repeat: commandLine(m.Command), Plane: planeRows(m), Versions: sortedPairs(m.Versions), Machine: machineRows(m.Machine),
		Parameters: parameterRows(m.Parameters), Processes: processRows(m.Processes()), Manifest: string(whole)}, nil
}

// findingRows are the findings about trust, those that cast doubt first.
func findingRows(all []content.Finding) (out []finding) {
	weight := func(f content.Finding) int {
		return slices.Index([]content.Level{content.Bad, content.Note, content.Fine}, f.Level)
	}
	for _, f := range slices.SortedStableFunc(slices.Values(all), func(a, b content.Finding) int { return weight(a) - weight(b) }) {
		out = append(out, finding{f, map[content.Level]string{content.Fine: "✓", content.Note: "i", content.Bad: "!"}[f.Level],
			map[content.Level]string{content.Fine: "fine", content.Note: "note", content.Bad: "doubtful"}[f.Level]})
	}
	return out
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

// verdictGlyph is the verdict's sign: colour alone says nothing to many readers.
func verdictGlyph(v slo.Verdict) string {
	switch v {
	case slo.Pass:
		return "✓"
	case slo.Fail:
		return "✕"
	default:
		return "?"
	}
}

// listReasons returns what neither the first sentence nor the objectives' rows say.
func listReasons(r *content.Report) []string {
	var out []string
	for i, s := range r.Judgement.Reasons {
		if i == 0 && (r.Judgement.Verdict == slo.Unknown || r.Refuted()) {
			_, s = text.CutSentence(s) // the first one is in the verdict's sentence
		}
		if s = text.Sentence(s); s != "" && !repeatsObjective(r, s) {
			out = append(out, s)
		}
	}
	if n := r.Count(slo.Fail); n > 0 && r.Judgement.Verdict == slo.Unknown {
		out = append(out, fmt.Sprintf("Taken at face value, %d of %d objectives %s missed.", n, len(r.Objectives), unit.Verb(n, "is", "are")))
	}
	return out
}

// repeatsObjective reports whether a reason repeats an objective's outcome.
func repeatsObjective(r *content.Report, reason string) bool {
	return slices.ContainsFunc(r.Objectives, func(o content.Objective) bool {
		return strings.HasPrefix(reason, content.WithStatistic(o.Name, o.Statistic)) || strings.HasPrefix(reason, o.Title())
	}) ||
		strings.HasPrefix(reason, "And ") && strings.Contains(reason, " more objectives: ")
}

// listFacts describes the run in a handful of words.
func listFacts(r *content.Report) []pair {
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

// objectivesView is the objectives, the worst first: what is shown at once, and what is
// folded away behind a line that says what it holds.
type objectivesView struct {
	Top, Rest []objectiveRow
	RestText  string
}

func foldObjectives(all []content.Objective) (v objectivesView) {
	shown := 0
	for shown < len(all) && (shown < shownObjectives || all[shown].Verdict != slo.Pass) {
		shown++
	}
	if len(all)-shown < foldedFew {
		shown = len(all)
	}
	for _, o := range all[:shown] {
		v.Top = append(v.Top, newObjectiveRow(o))
	}
	for _, o := range all[shown:] {
		v.Rest = append(v.Rest, newObjectiveRow(o))
	}
	v.RestText = restText(all[shown:])
	return v
}

func restText(rest []content.Objective) string {
	if len(rest) == 0 {
		return ""
	}
	text := fmt.Sprintf("%d more, all passed", len(rest))
	if slices.ContainsFunc(rest, func(o content.Objective) bool { return o.AtLeast }) {
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

func newObjectiveRow(o content.Objective) objectiveRow {
	row := objectiveRow{
		Verdict: o.Verdict, Glyph: verdictGlyph(o.Verdict), Word: verdictWord(o.Verdict), Head: o.Head(), About: o.About(),
		Value: o.ValueText(), Bound: o.BoundText(), Used: o.UsedText(), Interval: o.IntervalText(),
		Size: unit.Text(float64(o.Samples), "samples"), Bar: newBar(o),
	}
	for _, w := range o.Warnings {
		row.Warnings = append(row.Warnings, text.Sentence(w))
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

func newBar(o content.Objective) bar {
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
