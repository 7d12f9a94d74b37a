package compare

import (
	"cmp"
	"math"
	"slices"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// Outcome says what the runs tell of a measure.
type Outcome string

// The outcomes.
const (
	Worse        Outcome = "worse"  // B is, beyond chance
	Better       Outcome = "better" // B is, beyond chance
	Risen        Outcome = "higher" // B is, beyond chance, and nobody can say which way is the better one
	Fallen       Outcome = "lower"  // likewise
	Inconclusive Outcome = "inconclusive"
	Equivalent   Outcome = "equivalent" // any difference is smaller than what matters
	Same         Outcome = "equal"      // the same value in all runs
)

// UnmarshalText reads an outcome, in the words of older versions too.
func (o *Outcome) UnmarshalText(word []byte) error {
	switch *o = Outcome(word); *o {
	case "alike":
		*o = Equivalent
	case "unknown":
		*o = Inconclusive
	}
	return nil
}

// Measure is one measure of both sides.
type Measure struct {
	Key    string    `json:"key"` // as in verdict.json
	Title  string    `json:"title"`
	Unit   string    `json:"unit"`
	Better Direction `json:"better"`
	A      Values    `json:"a"`
	B      Values    `json:"b"`
	// Ratio is B's median divided by A's; nil if a value is not positive. Interval is the
	// 95 % interval of the factor between the sides, for this measure alone; nil if the
	// runs are too few. It is that of Hodges and Lehmann (package stats), widened where
	// needed to contain Ratio: no row shows medians that fall beside a change that rises.
	Ratio     *float64    `json:"ratio"`
	Interval  *[2]float64 `json:"interval"`
	P         float64     `json:"p"`           // of the Mann-Whitney test of this measure alone
	Corrected float64     `json:"p_corrected"` // corrected over all measures
	Outcome   Outcome     `json:"outcome"`
	// Own says that the scenario asks for it: as a measure, or in an objective. Besides
	// says that it is not judged: no gate counts it.
	Own     bool `json:"own,omitempty"`
	Besides bool `json:"besides,omitempty"`
	// Apart says that every run of B lies on one side of every run of A, by Effect or
	// more in the middle, and that so few runs, of so many measures, do so by chance.
	Apart    bool   `json:"apart,omitempty"`
	Sentence string `json:"sentence"`
	// Visible is the least difference, as a share, that so many runs show in 8 of
	// 10 cases; Runs is how many a side would show Effect (or the gate's bound).
	Visible *float64 `json:"visible,omitempty"`
	Runs    int      `json:"runs_needed,omitempty"`
	Effect  float64  `json:"effect,omitempty"`
}

// Values are a side's values, in the order of its runs.
type Values struct {
	Median   float64     `json:"median"`
	Interval *[2]float64 `json:"interval"` // 95 %, of the median; nil with fewer than six runs
	Values   []float64   `json:"values"`
}

func newMeasure(v values, a int, corrected float64) Measure {
	m := Measure{Key: v.key, Title: v.title, Unit: v.unit, Better: v.family.better,
		A: newValues(v.all[:a]), B: newValues(v.all[a:]), Corrected: corrected, Own: v.own, Besides: v.besides}
	m.P = stats.MannWhitney(m.A.Values, m.B.Values)
	if slices.Min(v.all) > 0 {
		ratio := m.B.Median / m.A.Median
		m.Ratio = &ratio
		if e := stats.Ratio(m.A.Values, m.B.Values); e.Bounded() {
			m.Interval = &[2]float64{min(e.Interval[0], ratio), max(e.Interval[1], ratio)}
		}
	}
	return m
}

func newValues(v []float64) Values {
	e := stats.Median(v)
	out := Values{Median: e.Value, Values: v}
	if e.Bounded() {
		out.Interval = &e.Interval
	}
	return out
}

// Differs says whether the sides differ beyond chance.
func (m Measure) Differs() bool {
	return slices.Contains([]Outcome{Worse, Better, Risen, Fallen}, m.Outcome)
}

// liesApart says whether all values of one side lie beyond all of the other, by Effect
// and by what anybody minds.
func (m Measure) liesApart() bool {
	if m.sizeOfDifference() < math.Log(1+Effect) || math.Abs(m.B.Median-m.A.Median) < MinStep(m.Unit)/10 {
		return false
	}
	return slices.Max(m.A.Values) < slices.Min(m.B.Values) || slices.Max(m.B.Values) < slices.Min(m.A.Values)
}

// Word says the outcome in a word; that of a measure whose sides only lie apart
// has a question mark.
func (m Measure) Word() string {
	if m.Apart {
		return string(m.direction()) + "?"
	}
	return string(m.Outcome)
}

// direction is which way B's values lie.
func (m Measure) direction() Outcome {
	switch {
	case m.Better == "" && m.isHigherInB():
		return Risen
	case m.Better == "":
		return Fallen
	case m.isHigherInB() == (m.Better == Higher):
		return Better
	}
	return Worse
}

func (m Measure) allValues() []float64 { return slices.Concat(m.A.Values, m.B.Values) }

// decideOutcome says what the runs tell. A difference is believed when it stands both
// the correction over all measures and the test of the measure alone.
func (c *comparing) decideOutcome(m Measure, level float64) Outcome {
	switch {
	case isConstant(m.allValues()):
		return Same
	case m.Corrected <= level && m.Ratio == nil && m.P <= 1-stats.Confidence,
		m.Corrected <= level && m.Interval != nil && (m.Interval[0] > 1 || m.Interval[1] < 1):
		return m.direction()
	case m.Interval != nil && m.Interval[0] >= 1-c.effectSize() && m.Interval[1] <= 1+c.effectSize():
		return Equivalent
	}
	return Inconclusive
}

// isHigherInB says whether B's values are the higher ones.
func (m Measure) isHigherInB() bool {
	if m.Ratio != nil {
		return *m.Ratio > 1
	}
	return meanOf(m.B.Values) > meanOf(m.A.Values)
}

func meanOf(v []float64) (sum float64) {
	for _, x := range v {
		sum += x / float64(len(v))
	}
	return sum
}

// adviseRuns says what so many runs can show at a level, and how many more would do. The
// level is that of the family, shared among its measures that vary as if they were
// independent: the correction asks less of those that move together.
func (c *comparing) adviseRuns(m *Measure, level float64) {
	spread := stats.Spread(m.A.Values, m.B.Values)
	if m.Outcome != Inconclusive || m.Ratio == nil || spread == 0 {
		return
	}
	m.Effect = c.effectSize()
	m.Runs = stats.Runs(m.Effect, spread, level)
	v := stats.Visible(min(c.a, len(c.runs)-c.a), spread, level)
	if m.Interval != nil && !math.IsInf(v, 1) {
		m.Visible = &v
	}
}

// byWeight puts what is surest first, and of the equally sure what is largest.
func byWeight(a, b Measure) int {
	order := []string{string(Worse), string(Better), string(Risen), string(Fallen), "apart", string(Inconclusive), string(Equivalent), string(Same)}
	weight := func(m Measure) int {
		if m.Apart {
			return slices.Index(order, "apart")
		}
		return slices.Index(order, string(m.Outcome))
	}
	return cmp.Or(cmp.Compare(weight(a), weight(b)), -cmp.Compare(a.orderWeight(), b.orderWeight()))
}

// orderWeight is the size of a difference that is worth an order; others keep theirs.
func (m Measure) orderWeight() float64 {
	if !m.Differs() && !m.Apart {
		return 0
	}
	return m.sizeOfDifference()
}

// sizeOfDifference is how far the sides lie apart, whichever way, as a logarithm. Where a
// value is 0 it goes by how many of the least steps that anybody minds there are.
func (m Measure) sizeOfDifference() float64 {
	if m.Ratio == nil {
		return math.Log1p(math.Abs(m.B.Median-m.A.Median) / MinStep(m.Unit))
	}
	return math.Abs(math.Log(*m.Ratio))
}

// MinStep is the least difference that is of any consequence where no share can
// be given, since one of the values is 0.
func MinStep(unit string) float64 {
	switch unit {
	case "seconds", "ratio":
		return 0.01
	case "bytes":
		return 1 << 20
	}
	return 1
}

// holdGate holds the judged measures against the bound. One fails when it is worse
// beyond chance and its whole interval lies beyond the bound; of one whose
// interval reaches beyond it, or that has none, it cannot be told.
func (c *comparing) holdGate(others bool) *Gate {
	g := &Gate{FailAbove: c.o.FailAbove, Verdict: slo.Pass, Failed: []string{}, Inconclusive: []string{}}
	judged := 0
	for _, m := range c.out.Measures {
		if !m.Besides {
			judged++
		}
		best, worst := m.worseningRange()
		switch {
		case m.Outcome == Same || m.Besides:
		case m.Outcome == Worse && best > g.FailAbove:
			g.Failed = append(g.Failed, m.Key)
		case worst > g.FailAbove:
			g.Inconclusive = append(g.Inconclusive, m.Key)
		}
	}
	switch {
	case len(g.Failed) > 0:
		g.Verdict = slo.Fail
	case len(g.Inconclusive) > 0 || others || judged == 0:
		g.Verdict = slo.Unknown
	}
	return g
}

// worseningRange returns by which share B is worse at the least and at the most;
// negative where it is better. From nothing to something is infinitely worse.
func (m Measure) worseningRange() (best, worst float64) {
	switch {
	case m.Ratio == nil && m.Outcome == Better:
		return -1, -1
	case m.Ratio == nil && m.Outcome == Worse && m.A.Median == 0:
		return math.Inf(1), math.Inf(1)
	case m.Interval == nil:
		return math.Inf(-1), math.Inf(1)
	case m.Better == Higher:
		return 1 - m.Interval[1], 1 - m.Interval[0]
	}
	return m.Interval[0] - 1, m.Interval[1] - 1
}
