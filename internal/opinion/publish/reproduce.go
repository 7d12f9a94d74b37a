package publish

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/publish/archive"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// The answers of a reproduction.
const (
	Agrees     = "agrees"
	Differs    = "differs"
	CannotTell = "cannot tell"
)

// ErrReproduce says that the runs of a bundle cannot be flown again from the bundle alone.
var ErrReproduce = errors.New("cannot reproduce")

// Published is a bundle that was opened and checked.
type Published struct {
	Index   Index
	Results Results
	root    archive.Digest
	measured
	claims []Claim
}

// Arm is what the runs of one side have in common: what is to be flown again.
type Arm struct {
	Name     string // of the side; empty where there is only one
	Scenario string // text
	Runs     int    // that came to their end
	record.Manifest
}

// Arms says what is to be flown, an arm for each side.
func (p *Published) Arms() (out []Arm, err error) {
	for i, side := range p.sides {
		if len(side) == 0 {
			return nil, fmt.Errorf("%w: side %s has no run that came to its end", ErrReproduce, sideLetter(i))
		}
		first := side[0]
		for _, r := range side {
			if r.Scenario != first.Scenario || fmt.Sprint(r.Manifest.Parameters) != fmt.Sprint(first.Manifest.Parameters) {
				return nil, fmt.Errorf("%w: the runs of side %s have several scenarios or parameters (%s, %s); one side is one setting", ErrReproduce, sideLetter(i), first.Name, r.Name)
			}
		}
		switch m := first.Manifest; {
		case first.Scenario == "":
			return nil, fmt.Errorf("%w: %s has no scenario", ErrReproduce, first.Name)
		case m.Imported != "":
			return nil, fmt.Errorf("%w: its scenario is a configuration of %s, which a bundle does not have whole", ErrReproduce, m.Imported)
		}
		out = append(out, Arm{p.Index.Experiment.Sides[i].Name, first.Scenario, len(side), first.Manifest})
	}
	if out[0].Scenario != out[len(out)-1].Scenario {
		return nil, fmt.Errorf("%w: its sides are of two scenarios", ErrReproduce)
	}
	if len(p.claims) == 0 {
		return nil, fmt.Errorf("%w: the bundle claims nothing", ErrReproduce)
	}
	return out, nil
}

// TakenOut says what the author took out of the scenario, which cannot be flown as it was;
// empty: nothing.
func (p *Published) TakenOut() string {
	var out []string
	for _, r := range p.Results.Removed {
		if strings.HasSuffix(r.File, "/"+record.ScenarioFile) && !slices.Contains(out, r.Class) {
			out = append(out, r.Class)
		}
	}
	return strings.Join(out, ", ")
}

// Figure is a measure of the typical run: the median, or the change from A to B.
type Figure struct {
	Value    float64     `json:"value"`
	Interval *[2]float64 `json:"interval,omitempty"` // of the claim's confidence; nil: too few runs
	Runs     int         `json:"runs"`
}

// Reproduced is what a second flight says of a claim.
type Reproduced struct {
	Says      string     `json:"says"`
	Measure   string     `json:"measure"`
	Of        string     `json:"of,omitempty"`
	Unit      string     `json:"unit,omitempty"`
	Published *Figure    `json:"published,omitempty"` // nil: not measured
	Here      *Figure    `json:"here,omitempty"`
	Ratio     float64    `json:"ratio,omitempty"`    // of here to published
	Interval  [2]float64 `json:"interval,omitempty"` // of the ratio, 95 %
	Expected  [2]float64 `json:"expected"`           // of the ratio: between which values it is of the machines alone
	Bound     string     `json:"bound"`              // the claim's state here: holds, fails or unknown
	State     string     `json:"state"`
	Why       string     `json:"why,omitempty"`
}

// Reproduction is what a second flight says of a bundle.
type Reproduction struct {
	State    string       `json:"state"` // agrees: all do; differs: one does
	Machines *[2]float64  `json:"machines,omitempty"`
	Notes    []string     `json:"notes,omitempty"`
	Claims   []Reproduced `json:"claims"`
}

// Tolerances of a ratio: what is not told as a difference, and what a figure that agrees
// could not have hidden. Those of counts are smaller, since they do not depend on speed.
const (
	countTolerance = 0.01
	countPower     = 0.05
	tolerance      = 0.05
	power          = 0.25
)

// kind says how a measure's figures of two machines go together.
type kind int

const (
	count kind = iota // what was asked of the plane and what it did
	size              // bytes and shares: like counts, with the tolerance of times
	cost              // time and CPU: longer where the machine is slower
	speed             // something a second: lower where the machine is slower, unless it is paced
)

func kindOf(u string) kind {
	switch {
	case u == "seconds" || u == "cores" || strings.HasPrefix(u, "ms"):
		return cost
	case strings.HasSuffix(u, "/s"):
		return speed
	case u == "bytes" || u == "ratio" || strings.HasPrefix(u, "bytes/"):
		return size
	}
	return count
}

// expected is between which values the ratio of a figure here to the published one lies if
// only the machines differ. machines is the ratio of their calibrations, above 1 where this
// one is slower. A time can be one of waiting, which no machine changes, and a rate one that
// the load sets, so that all between 1 and the calibrations' is expected.
func expected(k kind, machines [2]float64) [2]float64 {
	switch k {
	case cost:
		return [2]float64{min(1, machines[0]), max(1, machines[1])}
	case speed:
		return [2]float64{min(1, 1/machines[1]), max(1, 1/machines[0])}
	}
	return [2]float64{1, 1}
}

// answer holds the interval of a ratio against what is expected. It differs where none of it
// is within the tolerance, and agrees where some is and a difference of the power would have
// been told.
func answer(ratio, want [2]float64, k kind) (state, why string) {
	near, far := 1+tolerance, 1+power
	if k == count {
		near, far = 1+countTolerance, 1+countPower
	}
	switch {
	case ratio[0] > want[1]*near || ratio[1] < want[0]/near:
		return Differs, ""
	case ratio[0] >= want[0]/far && ratio[1] <= want[1]*far:
		return Agrees, ""
	}
	return CannotTell, fmt.Sprintf("the runs vary too much to tell a difference of %.0f %%", 100*(far-1))
}

// Machines is the ratio of two calibrations, here to published, as an interval of 95 %.
func Machines(published, here *Calibration) *[2]float64 {
	if published == nil || here == nil || published.Version != here.Version {
		return nil
	}
	for _, s := range slices.Concat(published.Seconds, here.Seconds) {
		if !(s > 0) || math.IsInf(s, 0) {
			return nil
		}
	}
	r := stats.Ratio(published.Seconds, here.Seconds)
	if !r.Bounded() || r.Interval[0] <= 0 {
		return nil
	}
	return &r.Interval
}

// Reproduce holds runs of this machine against the published ones, claim by claim. here has
// the sides in the order of Arms; calibration is this machine's, nil where it has none.
func (p *Published) Reproduce(here [][]compare.Run, calibration *Calibration) (*Reproduction, error) {
	m := measured{}
	for _, side := range here {
		m.sides = append(m.sides, slices.DeleteFunc(slices.Clone(side), func(r compare.Run) bool { return r.Unfit() != "" }))
	}
	if len(m.sides) != len(p.sides) {
		return nil, fmt.Errorf("%w: %s were flown, the bundle has %s", ErrReproduce, unit.Count(len(m.sides), "sides"), unit.Count(len(p.sides), "sides"))
	}
	out := &Reproduction{Machines: Machines(p.Index.Calibration, calibration), Notes: p.versionNotes(m.sides)}
	if len(m.sides) == 2 && len(m.sides[0]) > 0 && len(m.sides[1]) > 0 {
		e := p.Index.Experiment
		var err error
		if m.comparison, err = compare.Compare(here[0], here[1], compare.Options{NameA: e.Sides[0].Name, NameB: e.Sides[1].Name, Asked: e.Asked, FailAbove: e.FailAbove, Seed: e.Seed}); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrReproduce, err)
		}
	}
	for i, c := range p.claims {
		r := p.reproduceClaim(m, c, p.Results.Claims[i], out)
		out.Claims = append(out.Claims, r)
	}
	out.State = Agrees
	for _, c := range out.Claims {
		if c.State == Differs || out.State == Agrees {
			out.State = c.State
		}
		if out.State == Differs {
			break
		}
	}
	return out, nil
}

// versionNotes says which parts of the plane are of other versions than those published:
// then nothing can be told of its figures.
func (p *Published) versionNotes(here [][]compare.Run) (out []string) {
	for i, side := range p.sides {
		if len(here[i]) == 0 {
			continue
		}
		was, is := side[0].Manifest.Versions, here[i][0].Manifest.Versions
		for _, part := range []string{"kubernetes", "etcd"} {
			if note := fmt.Sprintf("flown on %s %s, published on %s", part, is[part], was[part]); was[part] != "" && was[part] != is[part] {
				addNew(&out, note)
			}
		}
	}
	return out
}

func (p *Published) reproduceClaim(m measured, c Claim, published ClaimResult, about *Reproduction) Reproduced {
	out := Reproduced{Says: published.Says, Measure: published.Measure, Of: published.Of, Unit: published.Unit, Published: figureOf(published), Bound: Unknown, State: CannotTell}
	k := size // a change: both sides had one machine
	if c.Of != changeOf {
		k = kindOf(published.Unit)
	}
	machines := [2]float64{1, 1}
	if about.Machines != nil {
		machines = *about.Machines
	}
	out.Expected = expected(k, machines)
	now, err := m.checkClaim(c)
	if err != nil {
		out.Why = err.Error()
		return out
	}
	out.Here, out.Bound = figureOf(now), now.State
	apart := "" // 0 on one side alone
	switch {
	case out.Here == nil || out.Published == nil:
		out.Why = "not measured"
		return out
	case c.Of == changeOf:
		out.Ratio, out.Interval = ratioOfChanges(out.Published, out.Here)
	default:
		was, err := p.valuesOf(c, published.Measure)
		is, err2 := m.valuesOf(c, published.Measure)
		if err := errors.Join(err, err2); err != nil {
			out.Why = err.Error()
			return out
		}
		out.Ratio, out.Interval = ratioOf(was, is)
		switch {
		case math.IsInf(out.Ratio, 1):
			apart = "it is 0 in all published runs, and in none here"
		case out.Ratio == 0:
			apart = "it is 0 in all runs here, and in none of the published ones"
		}
	}
	switch {
	case math.IsNaN(out.Ratio):
		out.Ratio, out.Interval = 0, [2]float64{}
		out.Why = "some figures are 0, and others are not"
	case apart != "" && len(about.Notes) == 0:
		out.State, out.Why, out.Ratio, out.Interval = Differs, apart, 0, [2]float64{}
	case math.IsInf(out.Interval[1], 0):
		out.Interval = [2]float64{}
		out.Why = fmt.Sprintf("too few runs for an interval: %d were published, %d flown", published.Runs, now.Runs)
	case len(about.Notes) > 0:
		out.Why = about.Notes[0]
	case (k == cost || k == speed) && about.Machines == nil && !p.sameMachine(m):
		out.Why = "the machines are not the same, and the bundle has no calibration to compare them by"
	default:
		out.State, out.Why = answer(out.Interval, out.Expected, k)
	}
	return out
}

// figureOf is the figure of a claim; nil where it was not measured.
func figureOf(c ClaimResult) *Figure {
	if c.Value == nil || math.IsNaN(*c.Value) {
		return nil
	}
	return &Figure{*c.Value, c.Interval, c.Runs}
}

// valuesOf are the values of a measure in the runs that a claim is about.
func (m measured) valuesOf(c Claim, key string) (out []float64, err error) {
	runs, err := m.runsOf(c)
	for _, r := range runs {
		if v, ok := r.Judgement.Measures[key]; ok {
			out = append(out, v.Value)
		}
	}
	return out, err
}

// ratioOf is the ratio of the figures of two samples with its interval: 1 where all are 0,
// 0 or infinity where those of one sample are and none of the other, and not a number where
// only some are. Of four runs a side such a split comes by chance in 2 of 70 (Fisher's exact
// test), of three in 2 of 20: fewer than four tell nothing.
func ratioOf(was, is []float64) (float64, [2]float64) {
	zeros := func(of []float64) int {
		return len(slices.DeleteFunc(slices.Clone(of), func(v float64) bool { return v > 0 }))
	}
	few := min(len(was), len(is)) < 4
	switch a, b := zeros(was), zeros(is); {
	case a == 0 && b == 0:
		r := stats.Ratio(was, is)
		return r.Value, r.Interval
	case few:
	case a == len(was) && b == len(is):
		return 1, [2]float64{1, 1}
	case a == len(was) && b == 0:
		return math.Inf(1), [2]float64{math.Inf(1), math.Inf(1)}
	case b == len(is) && a == 0:
		return 0, [2]float64{}
	}
	return math.NaN(), [2]float64{}
}

// ratioOfChanges is the ratio of two changes. Its interval holds what the two intervals
// allow, and is wider than one of 95 %.
func ratioOfChanges(was, is *Figure) (float64, [2]float64) {
	ratio := (1 + is.Value) / (1 + was.Value)
	if was.Interval == nil || is.Interval == nil || was.Interval[0] <= -1 {
		return ratio, [2]float64{0, math.Inf(1)}
	}
	return ratio, [2]float64{(1 + is.Interval[0]) / (1 + was.Interval[1]), (1 + is.Interval[1]) / (1 + was.Interval[0])}
}

// sameMachine tells whether all runs were flown on machines of the same description.
func (p *Published) sameMachine(m measured) bool {
	first := p.sides[0][0]
	for _, r := range slices.Concat(slices.Concat(p.sides...), slices.Concat(m.sides...)) {
		if !compare.SameMachine(first, r) {
			return false
		}
	}
	return true
}

// Verdict is what the answer of a reproduction stands for.
func (r *Reproduction) Verdict() slo.Verdict {
	switch r.State {
	case Agrees:
		return slo.Pass
	case Differs:
		return slo.Fail
	}
	return slo.Unknown
}

// Open reads and checks a bundle for being flown again. Without Published it is not as it
// should be: the checks say why.
func Open(ctx context.Context, path string, signers []string, madeBy string) (*Published, *Verification, error) {
	v := &verifier{signers: signers, madeBy: madeBy}
	if err := v.check(ctx, path); err != nil {
		return nil, nil, err
	}
	if v.out.State == Fails || slices.ContainsFunc(v.out.Checks, func(c Check) bool { return c.Name == "results" && c.State != Holds }) {
		return nil, &v.out, nil
	}
	return v.published, &v.out, nil
}

// Text is a reproduction for a terminal.
func (r *Reproduction) Text() string {
	b := &strings.Builder{}
	for _, c := range r.Claims {
		fmt.Fprintf(b, "%s: %s\n", c.State, text.Clean(c.Says))
		fmt.Fprintf(b, "  %s: %s published, %s here\n", text.Clean(c.measureName()), c.figureText(c.Published), c.figureText(c.Here))
		if c.Interval[1] > 0 {
			fmt.Fprintf(b, "  ratio %.3g (%.3g to %.3g), expected %s\n", c.Ratio, c.Interval[0], c.Interval[1], expectedText(c.Expected))
		}
		if c.Why != "" {
			fmt.Fprintf(b, "  %s\n", text.Clean(c.Why))
		}
		switch c.Bound {
		case Holds:
			fmt.Fprintln(b, "  the claim holds here, too")
		case Fails:
			fmt.Fprintln(b, "  the claim does not hold here")
		}
	}
	if m := r.Machines; m != nil {
		fmt.Fprintf(b, "This machine needs %.3g to %.3g times the CPU time of the published one.\n", m[0], m[1])
	}
	counts := map[string]int{}
	for _, c := range r.Claims {
		counts[c.State]++
	}
	fmt.Fprintf(b, "%s: %d agree, %d differ, %d cannot be told.\n", unit.Count(len(r.Claims), "claims"), counts[Agrees], counts[Differs], counts[CannotTell])
	return b.String()
}

func (c *Reproduced) measureName() string {
	if c.Of == "" {
		return c.Measure
	}
	return c.Measure + " of " + c.Of
}

func (c *Reproduced) figureText(f *Figure) string {
	switch {
	case f == nil:
		return "nothing"
	case c.Of == changeOf:
		return compare.FormatChange(1 + f.Value)
	}
	return unit.Text(f.Value, c.Unit)
}

func expectedText(e [2]float64) string {
	if e[0] == e[1] {
		return fmt.Sprintf("%.3g", e[0])
	}
	return fmt.Sprintf("%.3g to %.3g", e[0], e[1])
}
