package publish

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Claim is a sentence and what it stands for: a bound on a measure of the typical run.
type Claim struct {
	Says       string         `yaml:"says"`
	Measure    string         `yaml:"measure"`    // as in verdict.json, with its statistic or without
	Statistic  string         `yaml:"statistic"`  // of the measure, such as p99; empty: Measure has it
	Of         string         `yaml:"of"`         // A, B or change; empty: the only side
	With       map[string]any `yaml:"with"`       // parameters of the runs that it is about; empty: all
	Max        string         `yaml:"max"`        // with a unit
	Min        string         `yaml:"min"`        // likewise
	Confidence string         `yaml:"confidence"` // default 95%
	Steady     bool           `yaml:"steady"`     // it is about a steady state
}

// The states of a claim, of a rule and of a check.
const (
	Holds   = "holds"
	Fails   = "fails"
	Unknown = "unknown"
)

// ClaimResult is what the records say of a claim.
type ClaimResult struct {
	Says       string      `json:"says"`
	Measure    string      `json:"measure"`
	Of         string      `json:"of,omitempty"`
	Unit       string      `json:"unit,omitempty"` // of a change: empty, 0.1 is 10 % more
	Max        *float64    `json:"max,omitempty"`
	Min        *float64    `json:"min,omitempty"`
	Confidence float64     `json:"confidence"`
	Steady     bool        `json:"steady,omitempty"`
	Runs       int         `json:"runs"`
	Samples    int         `json:"samples,omitempty"` // behind a percentile, in the run with the fewest; 0: not known
	Value      *float64    `json:"value"`             // median of the runs
	Interval   *[2]float64 `json:"interval"`          // of the median; nil: too few runs
	State      string      `json:"state"`
	Why        string      `json:"why,omitempty"`
}

// changeOf is the Of of a claim on the change from A to B.
const changeOf = "change"

// maxClaims is how many claims a file may have.
const maxClaims = 1000

// describeYAML says what is wrong with a file without the names of Go's types.
func describeYAML(err error) string {
	var wrong *yaml.TypeError
	if !errors.As(err, &wrong) {
		return strings.TrimPrefix(err.Error(), "yaml: ")
	}
	var out []string
	for _, one := range wrong.Errors {
		one, _, _ = strings.Cut(one, " in type ")
		one, _, _ = strings.Cut(one, " into ")
		out = append(out, strings.Replace(one, "cannot unmarshal !!", "not wanted there: ", 1))
	}
	return strings.Join(out, "; ")
}

// readClaims reads claims.yaml.
func readClaims(raw []byte) ([]Claim, error) {
	var file struct {
		Claims []Claim `yaml:"claims"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %s", ErrClaims, describeYAML(err))
	}
	if len(file.Claims) > maxClaims {
		return nil, fmt.Errorf("%w: %d of them, at most %d", ErrClaims, len(file.Claims), maxClaims)
	}
	for i, c := range file.Claims {
		switch {
		case c.Says == "" || c.Measure == "":
			return nil, fmt.Errorf("%w: claim %d: want says and measure", ErrClaims, i+1)
		case c.Max == "" && c.Min == "":
			return nil, fmt.Errorf("%w: %q: want max, min or both", ErrClaims, c.Says)
		case !slices.Contains([]string{"", "A", "B", changeOf}, c.Of):
			return nil, fmt.Errorf("%w: %q: of: %s: want A, B or change", ErrClaims, c.Says, c.Of)
		}
	}
	return file.Claims, nil
}

// measured is what claims are about.
type measured struct {
	sides      [][]compare.Run // that came to their end
	comparison *compare.Comparison
}

// checkClaims says of each claim whether it holds. An error says that a claim cannot be
// checked at all, or that two contradict each other.
func (m measured) checkClaims(claims []Claim) ([]ClaimResult, error) {
	out := []ClaimResult{}
	for _, c := range claims {
		r, err := m.checkClaim(c)
		if err != nil {
			return nil, fmt.Errorf("%w: %q: %w", ErrClaims, c.Says, err)
		}
		for i, other := range out {
			if contradict(r, other) && reflect.DeepEqual(c.With, claims[i].With) {
				return nil, fmt.Errorf("%w: %q and %q contradict each other", ErrClaims, other.Says, c.Says)
			}
		}
		out = append(out, r)
	}
	return out, nil
}

// contradict tells whether no value meets the bounds of both.
func contradict(a, b ClaimResult) bool {
	above := func(a, b ClaimResult) bool { return a.Min != nil && b.Max != nil && *a.Min > *b.Max }
	return a.Measure == b.Measure && a.Of == b.Of && (above(a, b) || above(b, a))
}

func (m measured) checkClaim(c Claim) (ClaimResult, error) {
	r := ClaimResult{Says: c.Says, Of: c.Of, Steady: c.Steady}
	var err error
	if r.Confidence, err = parseShare(cmp.Or(c.Confidence, "95%")); err != nil || r.Confidence < 0.5 || r.Confidence >= 1 {
		return r, fmt.Errorf("confidence: %s: want 50%% or more, and below 100%%", c.Confidence)
	}
	runs, err := m.runsOf(c)
	if err != nil {
		return r, err
	}
	if r.Measure, r.Unit, err = findMeasure(c, runs); err != nil {
		return r, err
	}
	if err := r.setBounds(c); err != nil {
		return r, err
	}
	if c.Of == changeOf {
		m.checkChange(&r)
		return r, nil
	}
	var values []float64
	for _, run := range runs {
		if v, ok := run.Judgement.Measures[r.Measure]; ok {
			values = append(values, v.Value)
		}
	}
	r.Runs, r.Samples = len(values), fewestSamples(r.Measure, runs)
	value := stats.Median(values).Value
	r.Value = &value
	r.Interval = medianInterval(values, r.Confidence)
	r.decide()
	if len(values) < len(runs) && r.State == Holds {
		r.State, r.Why = Unknown, fmt.Sprintf("%d of %d runs have the measure", len(values), len(runs))
	}
	return r, nil
}

// runsOf are the runs that a claim is about.
func (m measured) runsOf(c Claim) ([]compare.Run, error) {
	var runs []compare.Run
	switch {
	case c.Of == "" && len(m.sides) == 1:
		runs = m.sides[0]
	case c.Of == changeOf && m.comparison != nil:
		runs = slices.Concat(m.sides...)
	case c.Of == "A":
		runs = m.sides[0]
	case c.Of == "B" && len(m.sides) == 2:
		runs = m.sides[1]
	default:
		return nil, fmt.Errorf("of: %s: the experiment has %s; want A, B or change where there are two", cmp.Or(c.Of, "not given"), unit.Count(len(m.sides), "sides"))
	}
	runs = slices.DeleteFunc(slices.Clone(runs), func(r compare.Run) bool {
		for name, v := range c.With {
			if fmt.Sprint(r.Manifest.Parameters[name]) != fmt.Sprint(v) {
				return true
			}
		}
		return false
	})
	if len(runs) == 0 {
		return nil, fmt.Errorf("with: no run has these parameters")
	}
	return runs, nil
}

// findMeasure returns the key of the measure that a claim is about, and its unit.
func findMeasure(c Claim, runs []compare.Run) (key, of string, err error) {
	known := map[string]string{}
	for _, r := range runs {
		for k, m := range r.Judgement.Measures {
			known[k] = m.Unit
		}
	}
	keys := []string{c.Measure}
	if c.Statistic != "" {
		keys = []string{c.Measure + "_" + c.Statistic + "_seconds", c.Measure + "_" + c.Statistic}
	}
	for _, k := range keys {
		if of, ok := known[k]; ok {
			return k, of, nil
		}
	}
	return "", "", fmt.Errorf("measure %s: no run has it%s", keys[0], text.DidYouMean(keys[0], slices.Sorted(maps.Keys(known))))
}

func (r *ClaimResult) setBounds(c Claim) error {
	for _, b := range []struct {
		name, text string
		to         **float64
	}{{"max", c.Max, &r.Max}, {"min", c.Min, &r.Min}} {
		if b.text == "" {
			continue
		}
		parse := func(s string) (float64, error) { return unit.Parse(s, r.Unit) }
		if c.Of == changeOf {
			parse = parseShare
		}
		v, err := parse(b.text)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s: %s: %w", b.name, b.text, cmp.Or(err, errors.New("want a number")))
		}
		*b.to = &v
	}
	if r.Max != nil && r.Min != nil && *r.Min > *r.Max {
		return errors.New("min is above max")
	}
	if r.Of == changeOf {
		r.Unit = ""
	}
	return nil
}

// parseShare reads 95% or 0.95.
func parseShare(s string) (float64, error) {
	number, percent := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil {
		return 0, fmt.Errorf("%s: want a share such as 10%%", s)
	}
	if percent {
		v /= 100
	}
	return v, nil
}

// comparisonConfidence is that of the intervals of a comparison.
const comparisonConfidence = 0.95

// checkChange holds the change from A to B against its bounds.
func (m measured) checkChange(r *ClaimResult) {
	r.Runs = len(m.sides[0]) + len(m.sides[1])
	i := slices.IndexFunc(m.comparison.Measures, func(x compare.Measure) bool { return x.Key == r.Measure })
	switch {
	case i < 0 || m.comparison.Measures[i].Ratio == nil:
		r.State, r.Why = Unknown, "the comparison does not have the measure"
	case r.Confidence > comparisonConfidence:
		r.State, r.Why = Unknown, "intervals of a comparison have a confidence of 95 %"
	default:
		x := m.comparison.Measures[i]
		value := *x.Ratio - 1
		if r.Value = &value; x.Interval != nil {
			r.Interval = &[2]float64{x.Interval[0] - 1, x.Interval[1] - 1}
		}
		r.decide()
	}
}

// medianInterval returns between which values the median of all runs that there could be
// lies: each end is right with the given confidence. Nil: there are too few runs.
func medianInterval(values []float64, confidence float64) *[2]float64 {
	lo, hi := stats.Interval(len(values), 0.5, 2*confidence-1)
	if lo < 1 || hi > len(values) {
		return nil
	}
	sorted := slices.Sorted(slices.Values(values))
	return &[2]float64{sorted[lo-1], sorted[hi-1]}
}

// decide says whether the claim holds: whether all of the interval is within the bounds.
// It fails where all of the interval is outside of one.
func (r *ClaimResult) decide() {
	if r.Interval == nil {
		r.State = Unknown
		r.Why = fmt.Sprintf("too few runs for a confidence of %s %%", unit.Number(100*r.Confidence))
		if outside(*r.Value, *r.Value, r.Min, r.Max) {
			r.Why += "; their median is outside of the bound"
		}
		return
	}
	lo, hi := r.Interval[0], r.Interval[1]
	switch {
	case (r.Max == nil || hi <= *r.Max) && (r.Min == nil || lo >= *r.Min):
		r.State = Holds
	case outside(lo, hi, r.Min, r.Max):
		r.State, r.Why = Fails, "all of the interval is outside of the bound"
	default:
		r.State, r.Why = Unknown, "the bound is within the interval"
	}
}

func outside(lo, hi float64, least, most *float64) bool {
	return most != nil && lo > *most || least != nil && hi < *least
}
