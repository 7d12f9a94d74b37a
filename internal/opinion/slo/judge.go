package slo

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sli"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// Judge holds what a run measured against the scenario's objectives.
//
// The verdict of the whole is unknown when the run was cut short (interrupted,
// a component died, the records end before the run does) or when the
// instrument itself was too slow, whatever the objectives say: a plane is not
// convicted on such evidence. A miss on a machine that did much other work is
// unknown too. Otherwise it is fail if an objective fails, else
// unknown if one is unknown or something that was asked for did not come about, else
// pass. Calls that were refused for what they asked, and commands that failed, fail a
// run that came to its end, however slow the instrument and busy the machine.
//
// The queries of the scenario are answered from the run's own series. An error
// says that the scenario cannot be read, or that its queries cannot be asked.
func Judge(r *run.Run) (Judgement, error) {
	if r.Unreadable != nil {
		return Judgement{}, r.Unreadable
	}
	q, err := askQueries(r)
	if err != nil {
		return Judgement{}, err
	}
	sc, f, u := r.Scenario, r.Facts, usage{r.Facts, r.Manifest}
	all, self := pods{sc, f}, newInstrument(r, u)
	k := &official{server: server{f}, pods: all}
	failed := failedCalls{sc, f}
	j := objectives{queries: q, indicators: indicators{f}, records: records{sc, f, all, failed}, official: k}
	out := Judgement{Scenario: sc.Name, Objectives: j.judgeAll(slices.Concat(sc.Objectives, failed.implicitObjectives(), waitObjectives(sc), abortObjectives(sc))), Failures: failed.listFailures(), Self: self.measureSelf(), Measures: Measures{}, Rates: f.Rates(groupsByStep(sc))}
	l := lifecycles{sc, f}
	out.Lifecycles = l.summarizeAll()
	planeMeasures(out.Measures, f, r.Manifest)
	callMeasures(out.Measures, f)
	attributedMeasures(out.Measures, f)
	podMeasures(out.Measures, f)
	namespaceMeasures(out.Measures, f)
	networks{j.records}.setMeasures(out.Measures)
	timeMeasures(out.Measures, sc, f)
	self.setMeasures(out.Measures)
	u.setMeasures(out.Measures)
	u.hostMeasures(out.Measures)
	j.indicators.setMeasures(out.Measures)
	q.setMeasures(out.Measures)
	l.setMeasures(out.Measures, out.Lifecycles)
	shared := workerFacts{f, r.Manifest}
	shared.setMeasures(out.Measures)
	out.Unmet = append(demands{sc, f, r.Manifest}.listUnmet(), q.unmetMeasures()...)
	out.Verdict, out.Reasons = concludeVerdict(out.Objectives, evidence{cutShort(f), slices.Concat(shared.workerWarnings(), self.tooSlow()), stopReasons(f, out.Unmet), u.noisyReasons(), out.Unmet})
	out.Reasons = slices.Concat(out.Reasons, u.acceptedShareNote(), shared.workerNotes())
	out.Reasons = append(out.Reasons, listNotes(f, out.Objectives, q.unmeasuredOptional())...)
	out.Reasons = append(out.Reasons, failed.unseenRefusals(out.Failures)...)
	return out, nil
}

// objectives judges each of a scenario's, with what knows its SLI.
type objectives struct {
	queries    *queries
	indicators indicators
	records    records
	official   *official
}

// judgeAll gives the results of all objectives, worst first.
func (j objectives) judgeAll(all []scenario.Objective) []Result {
	var out []Result
	for i := range all {
		out = append(out, j.judgeObjective(&all[i])...)
	}
	for i := range out {
		normalizeResult(&out[i])
	}
	slices.SortStableFunc(out, worstFirst)
	return out
}

// judgeObjective judges one objective of the scenario.
func (j objectives) judgeObjective(o *scenario.Objective) []Result {
	if o.SLO == "kubernetes" {
		return j.official.judgeOfficial(o)
	}
	if o.Unsupported != "" {
		r := Result{Name: o.Name}
		setUnmeasured(&r, o.Unsupported)
		return []Result{r}
	}
	r := Result{Name: o.Name, SLI: o.SLI, Labels: o.Labels, Statistic: o.Statistic, Unit: "seconds"}
	if r.Name == "" {
		r.Name = o.SLI
	}
	switch {
	case o.Max != nil:
		r.Threshold = *o.Max
	case o.Min != nil:
		r.Threshold, r.AtLeast = *o.Min, true
	}
	if o.Query != "" {
		return j.queries.judgeQuery(r, o)
	}
	x, ok := sli.Find(o.SLI)
	switch tabled := ok && x.Kind != sli.Records; {
	case tabled && o.Step != "":
		out := []Result{r}
		if f, reached := stepFacts(j.indicators.f, o.Step); reached {
			out = indicators{f}.judgeIndicator(r, o, x)
		} else {
			setUnmeasured(&out[0], fmt.Sprintf("the run did not come to the end of step %s", o.Step))
		}
		for i := range out {
			out[i].Labels = withStep(out[i].Labels, o.Step)
		}
		return out
	case tabled:
		return j.indicators.judgeIndicator(r, o, x)
	}
	narrow := *o
	narrow.Labels = withStep(o.Labels, o.Step)
	r.Labels = narrow.Labels
	return j.records.judgeRecords(r, &narrow)
}

// withStep is labels with that of a step, where there is one, in a copy.
func withStep(labels map[string]string, step string) map[string]string {
	if step == "" {
		return labels
	}
	out := map[string]string{"step": step}
	maps.Copy(out, labels)
	return out
}

// stepFacts are the facts of a run as if the time of a step were all of it; false
// where the run did not come to its end.
func stepFacts(f *run.Facts, step string) (*run.Facts, bool) {
	for _, s := range f.Steps {
		if s.Name == step && s.Ended {
			out := *f
			out.Begin, out.End = s.From, s.To
			return &out, true
		}
	}
	return f, false
}

// normalizeResult makes the JSON of a result the same whatever way it came about:
// never null where a list or a map is meant.
func normalizeResult(r *Result) {
	if r.Labels == nil {
		r.Labels = map[string]string{}
	}
	if r.Warnings == nil {
		r.Warnings = []string{}
	}
	if r.Value != nil {
		*r.Value = roundFigure(*r.Value)
	}
	if r.Interval != nil {
		r.Interval = &[2]float64{roundFigure(r.Interval[0]), roundFigure(r.Interval[1])}
	}
}

// roundFigure takes away the digits that are only floating point's: nothing here is
// known to better than a nanosecond or one in a billion.
func roundFigure(v float64) float64 {
	if v == 0 || !isFinite(v) {
		return v
	}
	scale := math.Pow(10, max(9, 9-math.Ceil(math.Log10(math.Abs(v)))))
	if out := math.Round(v*scale) / scale; isFinite(out) {
		return out
	}
	return v
}

func isFinite(v float64) bool { return !math.IsInf(v, 0) && !math.IsNaN(v) }

// worstFirst orders fail, unknown, pass, and then by how much of its bound a
// result uses up.
func worstFirst(a, b Result) int {
	weight := func(v Verdict) int { return slices.Index([]Verdict{Fail, Unknown, Pass}, v) }
	return cmp.Or(cmp.Compare(weight(a.Verdict), weight(b.Verdict)), -cmp.Compare(boundUsed(a), boundUsed(b)))
}

// boundUsed is how much of its bound a result uses up: 1 is all of it.
func boundUsed(r Result) float64 {
	switch {
	case r.Value == nil:
		return math.Inf(1)
	case r.AtLeast:
		return r.Threshold / *r.Value
	case r.Threshold == 0:
		return *r.Value
	}
	return *r.Value / r.Threshold
}

// evidence is what may keep a run from being believed, in sentences.
type evidence struct {
	cut, slow, stopped, noise []string
	unmet                     []Unmet
}

// unmetBy returns a sentence for each thing that was asked for and did not come about:
// refuted are those that were answered with no, open the others.
func (e evidence) unmetBy() (refuted, open []string) {
	for _, u := range e.unmet {
		if u.State == record.Refuted {
			refuted = append(refuted, u.describeUnmet())
		} else {
			open = append(open, u.describeUnmet())
		}
	}
	return refuted, open
}

// concludeVerdict gives the verdict of the whole and its reasons, most weighty first.
func concludeVerdict(results []Result, e evidence) (Verdict, []string) {
	failed, unknown := countVerdicts(results, Fail), countVerdicts(results, Unknown)
	refuted, open := e.unmetBy()
	reasons := slices.Concat(e.cut, e.slow, e.stopped, e.noise, refuted, describeResults(results, Fail), open, describeResults(results, Unknown))
	certain := slices.ContainsFunc(results, func(r Result) bool { return r.Verdict == Fail && r.certain }) || len(refuted) > 0
	switch {
	case certain && len(e.cut) == 0:
		return Fail, slices.Concat(refuted, describeResults(results, Fail), e.slow, e.stopped, e.noise, open, describeResults(results, Unknown))
	case len(e.cut) > 0 || len(e.slow) > 0:
		return Unknown, reasons
	case failed > 0 && len(e.noise) > 0:
		return Unknown, reasons // a miss may be the neighbours'; a pass in spite of them is one
	case failed > 0:
		return Fail, reasons
	case unknown > 0 || len(e.stopped) > 0 || len(open) > 0:
		return Unknown, reasons
	case len(results) == 0:
		return Unknown, append(reasons, "The scenario has no objective that this run could be held against.")
	}
	return Pass, reasons
}

func countVerdicts(results []Result, v Verdict) (n int) {
	for _, r := range results {
		if r.Verdict == v {
			n++
		}
	}
	return n
}

// describedResults is how many results of a verdict are spelt out as reasons.
const describedResults = 3

func describeResults(results []Result, v Verdict) []string {
	var out []string
	left := 0
	for _, r := range results {
		switch {
		case r.Verdict != v:
		case len(out) == describedResults:
			left++
		default:
			out = append(out, describeResult(r))
		}
	}
	if left > 0 {
		out = append(out, fmt.Sprintf("And %s: %s.", unit.Count(left, "more objectives"), map[Verdict]string{Fail: "failed", Unknown: "unknown"}[v]))
	}
	return out
}

// describeResult says a result that is not a pass in words.
func describeResult(r Result) string {
	head := Title(r)
	switch {
	case r.SLI == FailedCalls && r.Failed > 0:
		return fmt.Sprintf("%s: %d of %s failed for good, where at most %s may: %s.", head, r.Failed, unit.Number(float64(r.Samples)),
			unit.Number(r.Threshold), strings.TrimSuffix(strings.Join(r.Warnings, "; "), "."))
	case (r.SLI == unmetWait || r.SLI == abortedRun) && r.Value != nil:
		return fmt.Sprintf("%s: %s.", head, strings.TrimSuffix(strings.Join(r.Warnings, "; "), "."))
	case r.Value == nil && len(r.Warnings) > 0:
		return fmt.Sprintf("%s is unknown: %s.", head, r.Warnings[0])
	case r.Value == nil:
		return head + " is unknown."
	case r.Verdict == Unknown:
		return fmt.Sprintf("%s is %s, and it cannot be told on which side of %s it lies: %s.", head,
			quantityText(*r.Value, r.Unit), quantityText(r.Threshold, r.Unit), strings.Join(r.Warnings, "; "))
	}
	side := "above"
	if r.AtLeast {
		side = "below"
	}
	return fmt.Sprintf("%s is %s, %s its bound of %s.", head, quantityText(*r.Value, r.Unit), side, quantityText(r.Threshold, r.Unit))
}

// Title names a result with its statistic and labels: "p99 of mutating calls
// (PATCH pods/status resource)". It is the same in every run of a scenario.
func Title(r Result) string {
	if r.Statistic != "count" && strings.Contains(r.Name, r.Statistic) {
		return r.Name // a name made of all that it is about
	}
	if what, of := PhaseInterval(r); what != "" {
		if of != "" {
			what += " (" + of + ")"
		}
		return what + ", " + r.Statistic
	}
	head := r.Statistic + " of " + r.Name
	if r.Statistic == "count" {
		head = r.Name
	}
	l := r.Labels
	resource := l["resource"]
	if l["subresource"] != "" {
		resource += "/" + l["subresource"]
	}
	var parts []string
	for _, s := range []string{l["source"], l["step"], l["cluster"], l["verb"], resource, l["scope"], l["lifecycle"], l["group"], l["phase"]} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	if len(parts) == 0 {
		return head
	}
	return head + " (" + strings.Join(parts, " ") + ")"
}

// PhaseInterval says what a result without a name of its own is about where that is an
// interval of a lifecycle: "Widget accepted to ready", and of which group and cluster; empty for others.
func PhaseInterval(r Result) (what, group string) {
	of := r.Labels["lifecycle"]
	if r.SLI == podStartup {
		of = "pod"
	}
	if of == "" || r.Name != r.SLI || r.SLI != "lifecycle" && r.SLI != podStartup {
		return "", ""
	}
	phases := "startup"
	if from, to, ok := strings.Cut(r.Labels["phase"], ".."); ok {
		phases = from + " to " + to
	}
	group = strings.Join(strings.Fields(r.Labels["state"]+" "+r.Labels["group"]+" "+r.Labels["cluster"]), " ")
	return strings.ToUpper(of[:1]) + of[1:] + " " + phases, group
}

const podStartup = "pod-startup"

func quantityText(v float64, unit string) string {
	switch unit {
	case "seconds":
		return fmt.Sprintf("%.4g s", v)
	case "1/s":
		return fmt.Sprintf("%.4g/s", v)
	}
	return strings.TrimSpace(fmt.Sprintf("%.4g %s", v, unit))
}
