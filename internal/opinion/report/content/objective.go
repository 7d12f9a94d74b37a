package content

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Objective is a judged objective with what makes it comparable to the others.
type Objective struct {
	slo.Result
	name string  // as it is shown: without the set's name where all are of one set
	Used float64 // how much of its bound it used: 1 is at the bound, more is beyond it; NaN when nothing was measured
}

// rankObjectives puts the worst first: failed, unknown, passed; within each by
// how much of the bound was used.
func rankObjectives(results []slo.Result) []Objective {
	out := make([]Objective, len(results))
	set := commonSet(results)
	for i, r := range results {
		out[i] = Objective{r, strings.TrimPrefix(cmp.Or(r.Name, r.SLI), set), shareOfBound(r)}
	}
	slices.SortStableFunc(out, func(a, b Objective) int {
		return cmp.Or(cmp.Compare(Badness(b.Verdict), Badness(a.Verdict)), cmp.Compare(orderOfShare(b.Used), orderOfShare(a.Used)))
	})
	return out
}

// commonSet is what the names of objectives that came of one line of the
// scenario begin with ("kubernetes: mutating calls"), where there is only one
// such line; with several, names need it to be told apart.
func commonSet(results []slo.Result) string {
	set := ""
	for _, r := range results {
		head, _, ok := strings.Cut(r.Name, ": ")
		switch head += ": "; {
		case !ok || head == set:
		case set == "":
			set = head
		default:
			return ""
		}
	}
	return set
}

// Badness orders verdicts: a greater one is worse.
func Badness(v slo.Verdict) int {
	return slices.Index([]slo.Verdict{slo.Pass, slo.Unknown, slo.Fail}, v)
}

func orderOfShare(used float64) float64 {
	if math.IsNaN(used) {
		return -1
	}
	return used
}

// shareOfBound relates the value to the threshold so that more than 1 is a miss,
// whichever side the bound is on.
func shareOfBound(r slo.Result) float64 {
	switch {
	case r.Value == nil:
		return math.NaN()
	case r.AtLeast && *r.Value == 0:
		return math.Inf(1)
	case r.AtLeast:
		return r.Threshold / *r.Value
	case r.Threshold == 0:
		if *r.Value > 0 {
			return math.Inf(1)
		}
		return 0
	default:
		return *r.Value / r.Threshold
	}
}

// Title is the objective in words: "p99 of mutating calls (POST pods)", "Widget accepted
// to ready (front), p99".
func (o Objective) Title() string {
	if what, _ := slo.PhaseInterval(o.Result); what != "" {
		return slo.Title(o.Result)
	}
	name := o.Head()
	if about := o.About(); about != "" {
		name += " (" + about + ")"
	}
	return name
}

// Head is the objective's name with its statistic.
func (o Objective) Head() string {
	if what, _ := slo.PhaseInterval(o.Result); what != "" {
		return what + ", " + o.Statistic
	}
	return WithStatistic(cmp.Or(o.name, o.Name, o.SLI), o.Statistic)
}

// WithStatistic names a statistic of an objective: "p99 of pod startup".
func WithStatistic(name, statistic string) string {
	if statistic == "" || statistic == "count" {
		return name
	}
	return statistic + " of " + name
}

// About says what the objective is held against: its labels' values, those that
// all objectives have first.
func (o Objective) About() string {
	if what, group := slo.PhaseInterval(o.Result); what != "" {
		return group
	}
	l := maps.Clone(o.Labels)
	if l["subresource"] != "" {
		l["resource"] += "/" + l["subresource"]
	}
	delete(l, "subresource")
	if l["scope"] == "resource" {
		delete(l, "scope")
	}
	keys := slices.SortedFunc(maps.Keys(l), func(a, b string) int {
		order := []string{"phase", "group", "cluster", "step", "source", "scope", "resource", "verb"} // last is first; others come after
		return cmp.Or(cmp.Compare(slices.Index(order, b), slices.Index(order, a)), cmp.Compare(a, b))
	})
	var parts []string
	for _, k := range keys {
		switch {
		case l[k] == "" || k == "phase" && l[k] == "startup":
		case slices.Contains([]string{"verb", "resource", "scope"}, k):
			parts = append(parts, l[k])
		default:
			parts = append(parts, k+" "+l[k])
		}
	}
	return strings.Join(parts, " ")
}

// ValueText is the value with its unit, "not measured" without one.
func (o Objective) ValueText() string {
	if o.Value == nil {
		return "not measured"
	}
	return unit.Text(*o.Value, o.Unit)
}

// BoundText is the threshold with the sign of its side; empty where nothing was
// measured that it could bound.
func (o Objective) BoundText() string {
	if o.Value == nil && o.Threshold == 0 {
		return ""
	}
	sign := "≤ "
	if o.AtLeast {
		sign = "≥ "
	}
	return sign + unit.Text(o.Threshold, o.Unit)
}

// IntervalText is the interval with its unit, empty without one.
func (o Objective) IntervalText() string {
	if o.Interval == nil {
		return ""
	}
	lo, hi := unit.Text(o.Interval[0], o.Unit), unit.Text(o.Interval[1], o.Unit)
	if n, u, ok := strings.Cut(lo, " "); ok && strings.HasSuffix(hi, " "+u) {
		lo = n // "1.1 – 1.4 s" says the unit once
	}
	return lo + " – " + hi
}

// UsedText is how much of the bound is used, in percent: of an upper bound the value
// in percent of it, of a lower one it in percent of the value.
func (o Objective) UsedText() string {
	if o.Value == nil || o.Threshold == 0 {
		return ""
	}
	switch share := o.Used; {
	case share > 9.995:
		return "> 999 %"
	case share > 0 && share < 0.01:
		return "< 1 %"
	default:
		return fmt.Sprintf("%.0f %%", 100*share)
	}
}

// Sentence is the verdict of a judgement for someone who reads nothing else.
func Sentence(j slo.Judgement) string {
	return (&Report{Judgement: j, Objectives: rankObjectives(j.Objectives)}).Sentence()
}

// Sentence is the verdict for someone who reads nothing else.
func (r *Report) Sentence() string {
	n, failed, unknown := len(r.Objectives), r.Count(slo.Fail), r.Count(slo.Unknown)
	switch {
	case r.Live:
		return r.soFar()
	case r.Judgement.Verdict == slo.Unknown && len(r.Judgement.Reasons) > 0:
		first, _ := text.CutSentence(r.Judgement.Reasons[0])
		return text.Sentence("No verdict: " + first)
	case r.Judgement.Verdict == slo.Unknown && unknown > 0:
		return fmt.Sprintf("No verdict: %s of %s objectives could not be measured.", unit.Number(float64(unknown)), unit.Number(float64(n)))
	case r.Judgement.Verdict == slo.Unknown:
		return "No verdict: there was nothing to judge."
	case r.Judgement.Verdict == slo.Pass && n == 1:
		return "The objective is met: " + r.worstObjective("of") + "."
	case r.Judgement.Verdict == slo.Pass && n == 2:
		return "Both objectives are met; the tighter one: " + r.worstObjective("of") + "."
	case r.Judgement.Verdict == slo.Pass:
		return fmt.Sprintf("All %s objectives are met; the tightest: %s.", unit.Number(float64(n)), r.worstObjective("of"))
	case r.Refuted():
		first, _ := text.CutSentence(r.Judgement.Reasons[0])
		return text.Sentence(first)
	case failed > 0 && n == 1:
		return "The objective is missed: " + r.worstObjective("instead of") + "."
	case failed == 1:
		return fmt.Sprintf("One of %s objectives is missed: %s.", unit.Number(float64(n)), r.worstObjective("instead of"))
	default:
		return fmt.Sprintf("%s of %s objectives are missed; the worst: %s.", unit.Number(float64(failed)), unit.Number(float64(n)), r.worstObjective("instead of"))
	}
}

// Refuted reports whether something that was asked for failed, which the first reason of
// a verdict says.
func (r *Report) Refuted() bool {
	return r.Judgement.Verdict == slo.Fail && len(r.Judgement.Reasons) > 0 &&
		slices.ContainsFunc(r.Judgement.Unmet, func(u slo.Unmet) bool { return u.State == record.Refuted })
}

// soFar says where a run is that has not ended.
func (r *Report) soFar() string {
	out := "Under way for " + unit.Seconds(math.Round(r.Duration)) + prefixIfAny(", in step ", r.step)
	if r.Pods > 0 {
		out += ": " + unit.Text(float64(r.Pods), "pods") + " so far"
	}
	return out + "."
}

// worstObjective is the first objective as a clause: "p99 of pod startup is 3.1 s of at most 5 s".
func (r *Report) worstObjective(relation string) string {
	if len(r.Objectives) == 0 {
		return "none"
	}
	o := r.Objectives[0]
	if o.SLI == slo.FailedCalls && o.Value != nil && !o.AtLeast {
		if o.Threshold == 0 && *o.Value == 0 {
			return "none of " + unit.Text(float64(o.Samples), "calls") + " failed for good"
		}
		return fmt.Sprintf("%s of %s failed for good, where at most %s may", unit.Number(*o.Value), unit.Text(float64(o.Samples), "calls"), unit.Number(o.Threshold))
	}
	side := "at most"
	if o.AtLeast {
		side = "at least"
	}
	return fmt.Sprintf("%s is %s %s %s %s", o.Title(), o.ValueText(), relation, side, unit.Text(o.Threshold, o.Unit))
}

// Count returns how many objectives have a verdict.
func (r *Report) Count(v slo.Verdict) (n int) {
	for _, o := range r.Objectives {
		if o.Verdict == v {
			n++
		}
	}
	return n
}
