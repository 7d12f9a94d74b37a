// Package assess answers the scalability questions that a project is asked: those of an
// operator's scalability page, of CNCF's general technical review, and of a KEP. It plans
// the runs that the answers need, and makes answers, a page and claims of what they show.
//
// It is pure and flies nothing. What was not measured is said to be so, with the reason.
package assess

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/capacity"
	"github.com/windtunnel/windtunnel/internal/text"
)

// Kind is whose questions are answered.
type Kind string

// The kinds.
const (
	Operator Kind = "operator" // an operator's scalability page
	Feature  Kind = "feature"  // the seven scalability questions of a KEP
	Release  Kind = "release"  // scalability in CNCF's general technical review
)

// Kinds are all of them, as texts.
func Kinds() []string { return []string{string(Operator), string(Feature), string(Release)} }

// Topic is what a parameter of the scenario is varied for.
type Topic string

// The topics.
const (
	Size    Topic = "size"    // number of managed objects
	Rate    Topic = "rate"    // of changes
	Workers Topic = "workers" // reconciliations at the same time
	Limiter Topic = "limiter" // client-side rate limit
	Restart Topic = "restart" // of the program that is tested, while it holds objects
	Resync  Topic = "resync"  // periodic reconciliation of all objects
	Webhook Topic = "webhook" // admission webhooks
)

// Topics are all of them, in the order of flights.
func Topics() []Topic { return []Topic{Size, Rate, Workers, Limiter, Restart, Resync, Webhook} }

// names are the parameters that are taken for a topic where the user names none.
func (t Topic) names() []string {
	return map[Topic][]string{
		Rate: {"rate"}, Workers: {"workers", "threads", "concurrency"}, Limiter: {"qps", "limiter"},
		Restart: {"restart"}, Resync: {"resync"}, Webhook: {"webhook", "webhooks"},
	}[t]
}

// ErrPlan says that a plan cannot be made.
var ErrPlan = errors.New("cannot be assessed")

// Sweep is a parameter that is varied for a topic.
type Sweep struct {
	Topic  Topic    `json:"topic"`
	Param  string   `json:"parameter"`
	Values []string `json:"values"`
	Arms   []int    `json:"arms"` // by value: index in Plan.Arms
}

// Arm is a set of parameters that runs share.
type Arm struct {
	Name string            `json:"name"`
	Set  map[string]string `json:"set"`
}

// Plan says which runs answer the questions.
type Plan struct {
	Sweeps  []Sweep `json:"sweeps"`
	Arms    []Arm   `json:"arms"`
	Repeats int     `json:"repeats"` // runs of each arm
	// Search finds the sustained rate of changes: its arms join the sweep of Rate one by one,
	// as runs show where to look. Nil: the user named the rates, or there is no such parameter.
	Search *capacity.Plan `json:"rate_search,omitempty"`
}

// Asked are the parameters that a user names for topics, as NAME or NAME=VALUES.
type Asked map[Topic]string

// NewPlan makes a plan for a scenario with these parameters in force. grows tells whether
// more objects are created if a parameter has another value: it finds the size where the
// user names none. All but the size stay as they are while one is varied, and the size has
// its largest value: what gives way shows itself there.
func NewPlan(values map[string]any, asked Asked, repeats int, grows func(name, value string) bool) (Plan, error) {
	p := Plan{Repeats: repeats}
	for _, t := range Topics() {
		s, err := newSweep(t, values, asked[t])
		if err != nil {
			return p, err
		}
		if t == Size && s.Param == "" {
			if s, err = findSize(values, grows); err != nil {
				return p, err
			}
		}
		if t == Rate && len(s.Values) > 0 && !strings.Contains(asked[t], "=") {
			p.Search, s.Values = newRateSearch(s, values[s.Param], repeats)
		}
		if len(s.Values) > 1 || t == Rate && p.Search != nil {
			p.Sweeps = append(p.Sweeps, s)
		}
	}
	if len(p.Sweeps) == 0 || p.Sweeps[0].Topic != Size {
		return p, fmt.Errorf("%w: --size-param needs at least two values", ErrPlan)
	}
	p.addArms(values)
	return p, nil
}

// Bounds of the search for a sustained rate: from half of the scenario's own rate to 32
// times, in thirds of an octave, so that the scenario's is one of them, by this many points at most.
const (
	rateBelow, rateAbove = 2, 32
	maxRates             = 9
)

// newRateSearch plans a search around the scenario's rate, which is its first value.
func newRateSearch(s Sweep, v any, repeats int) (*capacity.Plan, []string) {
	base, _ := number(v)
	_, whole := v.(int64)
	from := base / rateBelow
	if whole {
		from = max(1, math.Floor(from))
	}
	axis := capacity.Axis{Name: s.Param, From: from, To: rateAbove * base, Log: true, Whole: whole}
	return &capacity.Plan{
		Goal: capacity.ThroughputGoal, Axes: []capacity.Axis{axis}, Resolution: math.Cbrt(2) - 1, Repeats: repeats, MaxRuns: maxRates * repeats,
	}, []string{textOf(v, base)}
}

// NextRate returns the arm of the rate that the runs so far make the next to look at, which
// it adds to the plan; false: the search is at its end, or there is none.
func (p *Plan) NextRate(all []Observation) (arm int, ok bool) {
	at := slices.IndexFunc(p.Sweeps, func(s Sweep) bool { return s.Topic == Rate })
	if p.Search == nil || at < 0 {
		return 0, false
	}
	s := &p.Sweeps[at]
	step := capacity.Next(*p.Search, rateRuns(*s, all))
	if step.Point == nil {
		return 0, false
	}
	value := capacity.Text(step.Point[0])
	if i := slices.IndexFunc(s.Values, func(v string) bool { return toNumber(v) == step.Point[0] }); i >= 0 {
		return s.Arms[i], !flownWhole(s.Arms[i], all, p.Repeats)
	}
	set := maps.Clone(p.Arms[s.Arms[0]].Set)
	set[s.Param] = value
	i := slices.IndexFunc(s.Values, func(v string) bool { return toNumber(v) > step.Point[0] })
	if i < 0 {
		i = len(s.Values)
	}
	s.Values, s.Arms = slices.Insert(s.Values, i, value), slices.Insert(s.Arms, i, len(p.Arms))
	p.Arms = append(p.Arms, Arm{s.Param + "=" + value, set})
	return len(p.Arms) - 1, true
}

// flownWhole tells whether an arm has all of its runs: a search that wants more of it ends.
func flownWhole(arm int, all []Observation, repeats int) bool {
	n := 0
	for _, o := range all {
		if o.Arm == arm {
			n++
		}
	}
	return n >= repeats
}

// findSize returns the one parameter that changes the number of created objects.
func findSize(values map[string]any, grows func(name, value string) bool) (Sweep, error) {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if v, ok := number(values[name]); ok && v > 0 && grows(name, textOf(values[name], 2*v)) {
			found = append(found, name)
		}
	}
	if len(found) != 1 {
		return Sweep{}, fmt.Errorf("%w: parameters that change the number of created objects: %s; name the size with --size-param", ErrPlan, strings.Join(append(found, "none")[:max(1, len(found))], ", "))
	}
	return newSweep(Size, values, found[0])
}

// newSweep reads what a user asks for, or takes a parameter of the usual name. It is empty
// where there is none.
func newSweep(t Topic, values map[string]any, asked string) (Sweep, error) {
	name, list, given := strings.Cut(asked, "=")
	if asked == "" {
		i := slices.IndexFunc(t.names(), func(n string) bool { _, ok := values[n]; return ok })
		if i < 0 {
			return Sweep{}, nil
		}
		name = t.names()[i]
	}
	v, ok := values[name]
	if !ok {
		return Sweep{}, fmt.Errorf("%w: --%s-param %s: the scenario has no such parameter%s", ErrPlan, t, name, text.DidYouMean(name, slices.Sorted(maps.Keys(values))))
	}
	s := Sweep{Topic: t, Param: name, Values: t.defaults(v)}
	if given {
		s.Values = strings.Split(list, ",")
	}
	if (t == Size || t == Rate) && !s.sort() {
		return Sweep{}, fmt.Errorf("%w: --%s-param %s: want numbers above 0", ErrPlan, t, asked)
	}
	for i, one := range s.Values {
		if one == "" || slices.Contains(s.Values[:i], one) {
			return Sweep{}, fmt.Errorf("%w: --%s-param %s: want different values, separated by commas", ErrPlan, t, asked)
		}
	}
	return s, nil
}

// sort orders values as numbers; false: one is none, or is not above 0.
func (s *Sweep) sort() bool {
	slices.SortStableFunc(s.Values, func(a, b string) int { return int(math.Copysign(1, toNumber(a)-toNumber(b))) })
	return !slices.ContainsFunc(s.Values, func(v string) bool { return !(toNumber(v) > 0) })
}

// toNumber is 0 for what is none.
func toNumber(s string) float64 {
	v, _ := strconv.ParseFloat(strings.TrimSpace(s), 64)
	return v
}

// defaults are the values of a parameter in a sweep where the user names none.
func (t Topic) defaults(v any) []string {
	if on, ok := v.(bool); ok {
		return []string{strconv.FormatBool(on), strconv.FormatBool(!on)}
	}
	if text, ok := v.(string); ok {
		return t.defaultsOfText(text)
	}
	d, ok := number(v)
	if !ok || d <= 0 {
		return nil // no limit, for example: no value stands out
	}
	var out []string
	for _, f := range t.factors() {
		if one := textOf(v, f*d); !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	return out
}

// factors are the values of a topic where the user names none, as multiples of the scenario's.
func (t Topic) factors() []float64 {
	return map[Topic][]float64{Size: {0.25, 0.5, 1}, Rate: {0.5, 1, 2, 4, 8}, Workers: {0.25, 1, 4}, Limiter: {0.25, 1, 4}}[t]
}

// defaultsOfText are the values of a parameter that is a text: a limit as QPS/BURST, or the
// time between resyncs.
func (t Topic) defaultsOfText(text string) []string {
	qps, burst, pair := strings.Cut(text, "/")
	a, b := toNumber(qps), toNumber(burst)
	every, err := time.ParseDuration(text)
	switch {
	case t == Limiter && pair && a > 0 && b > 0:
		var out []string
		for _, f := range t.factors() {
			out = append(out, capacity.Text(f*a)+"/"+capacity.Text(math.Round(f*b)))
		}
		return out
	case t == Resync && err == nil && every > 0:
		return []string{text, (2 * every).String()}
	}
	return nil
}

// number is a parameter's value where it is one.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// textOf writes a number as a value of a parameter of the type of like; a whole number is
// at least 1.
func textOf(like any, v float64) string {
	if _, whole := like.(int64); whole {
		v = max(1, math.Round(v))
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// addArms makes the arms of all sweeps; sweeps share those that are alike.
func (p *Plan) addArms(values map[string]any) {
	base := map[string]string{}
	for _, s := range p.Sweeps {
		base[s.Param] = fmt.Sprint(values[s.Param])
		if v, ok := number(values[s.Param]); ok {
			base[s.Param] = textOf(values[s.Param], v)
			if v <= 0 {
				base[s.Param] = strconv.FormatFloat(v, 'f', -1, 64)
			}
		}
		if s.Topic == Size {
			base[s.Param] = s.Values[len(s.Values)-1]
		}
	}
	for i := range p.Sweeps {
		s := &p.Sweeps[i]
		for _, v := range s.Values {
			set := maps.Clone(base)
			set[s.Param] = v
			at := slices.IndexFunc(p.Arms, func(a Arm) bool { return maps.Equal(a.Set, set) })
			if at < 0 {
				at = len(p.Arms)
				p.Arms = append(p.Arms, Arm{s.Param + "=" + v, set})
			}
			s.Arms = append(s.Arms, at)
		}
	}
}

// Runs is how many runs the plan has.
func (p Plan) Runs() int { return len(p.Arms) * p.Repeats }

// Turns are the runs in their order: the arms forwards, then backwards, so that a drift of
// the machine favors none. Each is an arm and its repeat.
func (p Plan) Turns() (out [][2]int) {
	for repeat := range p.Repeats {
		for i := range p.Arms {
			if repeat%2 == 1 {
				i = len(p.Arms) - 1 - i
			}
			out = append(out, [2]int{i, repeat})
		}
	}
	return out
}

// Sweep returns that of a topic; false: the plan has none.
func (p Plan) Sweep(t Topic) (Sweep, bool) {
	i := slices.IndexFunc(p.Sweeps, func(s Sweep) bool { return s.Topic == t })
	if i < 0 {
		return Sweep{}, false
	}
	return p.Sweeps[i], true
}
