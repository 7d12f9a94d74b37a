// Package bisect decides which run a search for the cause of a regression needs
// next, and what its runs show. Good and bad differ in a list of changes; the
// search names the change, or the set that does it only together.
//
// It is pure: the same runs give the same next run and the same answer. It
// flies nothing and reads no run directory. docs/how-to/bisecting.md argues its
// statistics.
package bisect

import (
	"errors"
	"fmt"
	"slices"
)

// Change is one of the differences between good and bad.
type Change struct {
	Name string `json:"name"` // of the parameter
	From string `json:"from"`
	To   string `json:"to"`
	// Chain names changes that follow one another, such as the releases between good
	// and bad: one is applied only with all before it. Empty: it is independent.
	Chain string `json:"chain,omitempty"`
}

// String writes a change as "NAME FROM -> TO".
func (c Change) String() string { return fmt.Sprintf("%s %s -> %s", c.Name, c.From, c.To) }

// Plan is what is searched, and what the search may cost.
type Plan struct {
	Changes []Change `json:"changes"` // those of one chain stand in their order
	Runs    int      `json:"runs"`    // that may be flown
}

// DefaultRuns is what a search may cost where nothing else is said.
const DefaultRuns = 40

// Validate returns what is wrong with a plan.
func (p Plan) Validate() error {
	if len(p.Changes) == 0 {
		return errors.New("good and bad do not differ: name what each sets, such as --good rate=10 --bad rate=20")
	}
	if p.Runs < 1 {
		return fmt.Errorf("runs %d: want at least 1", p.Runs)
	}
	return nil
}

// Measure is what is known of a measure besides its values.
type Measure struct {
	Title string `json:"title"`
	Unit  string `json:"unit"`
	// Counter says that it belongs to what the plane did and not to how long that took.
	Counter bool `json:"counter,omitempty"`
	// Higher says that more of it is better, Lower that less is; neither: nobody can say.
	Higher bool `json:"higher_is_better,omitempty"`
	Lower  bool `json:"lower_is_better,omitempty"`
}

// State says what became of a run.
type State string

// The states of a run.
const (
	Measured State = "measured"
	Unknown  State = "unknown" // nothing can be said of it: it is flown again
	Skipped  State = "skipped" // what it would test cannot be built or started
)

// Purpose says why a pair of runs is flown.
type Purpose string

// The purposes of pairs, in their order.
const (
	Verify  Purpose = "verify"  // is bad unlike good, and in which measure?
	Narrow  Purpose = "narrow"  // which changes can it be?
	Confirm Purpose = "confirm" // is it the suspect?
)

// Step is one run that the search asks for: one side of a pair.
type Step struct {
	Pair    int     `json:"pair"` // from 0; both runs of a pair have one seed
	Side    int     `json:"side"` // 0 or 1
	Purpose Purpose `json:"purpose"`
	With    []int   `json:"with"`              // the changes that are applied
	Suspect []int   `json:"suspect,omitempty"` // whom a pair is to confirm
	Other   []int   `json:"other"`             // what the pair's other run applies
}

// Run is a step that was flown.
type Run struct {
	Step
	State   State              `json:"state"`
	Reason  string             `json:"reason,omitempty"` // why it is not measured
	Values  map[string]float64 `json:"values,omitempty"` // by measure
	Dir     string             `json:"dir,omitempty"`
	Seconds float64            `json:"seconds,omitempty"`
}

// Search is all that a search knows.
type Search struct {
	Plan     Plan               `json:"plan"`
	Measures map[string]Measure `json:"measures"`
	Runs     []Run              `json:"runs"`
}

// maxUnknown is how often one side of a pair may end unknown before what it tests counts as
// one that cannot be flown.
const maxUnknown = 3

// maxSkipped is how many combinations may turn out not to start before the search ends
// with what it has.
const maxSkipped = 10

// pair is two runs that are compared.
type pair struct {
	Step              // of side 0
	runs    [2]*Run   // those that were measured
	unknown [2]int    // runs that ended unknown
	skipped [2]bool   // what it tests cannot be flown
	with    [2]config // of the sides
}

func (p *pair) isComplete() bool  { return p.runs[0] != nil && p.runs[1] != nil }
func (p *pair) isAbandoned() bool { return p.skipped[0] || p.skipped[1] }

// listPairs groups runs by pair.
func (s *Search) listPairs() []*pair {
	var out []*pair
	for i := range s.Runs {
		r := &s.Runs[i]
		if r.Pair == len(out) {
			p := &pair{Step: r.Step}
			p.With, p.Other = r.With, r.Other
			if r.Side == 1 {
				p.With, p.Other = r.Other, r.With
			}
			p.Side = 0
			p.with = [2]config{newConfig(len(s.Plan.Changes), p.With), newConfig(len(s.Plan.Changes), p.Other)}
			out = append(out, p)
		}
		p := out[r.Pair]
		switch r.State {
		case Measured:
			p.runs[r.Side] = r
		case Unknown:
			p.unknown[r.Side]++
			p.skipped[r.Side] = p.unknown[r.Side] >= maxUnknown
		default:
			p.skipped[r.Side] = true
		}
	}
	return out
}

// nextSide is the side of a pair to fly: of every second pair the second one first, so that
// a drift of the machine favors neither.
func (p *pair) nextSide() int {
	first := p.Pair % 2
	if p.runs[first] == nil {
		return first
	}
	return 1 - first
}

// sideStep is the step that flies one side of a pair.
func (p *pair) sideStep(side int) Step {
	s := p.Step
	if s.Side = side; side == 1 {
		s.With, s.Other = s.Other, s.With
	}
	return s
}

// Next returns the run that the search needs next; false where it is at its end.
func Next(s *Search) (Step, bool) {
	k := learn(s)
	if n := len(k.pairs); n > 0 && !k.pairs[n-1].isComplete() && !k.pairs[n-1].isAbandoned() {
		if k.left < 1 {
			return Step{}, false
		}
		last := k.pairs[n-1]
		return last.sideStep(last.nextSide()), true
	}
	if k.left < 2 || len(k.broken) >= maxSkipped {
		return Step{}, false
	}
	next, ok := k.decidePair()
	if !ok {
		return Step{}, false
	}
	next.Pair = len(k.pairs)
	return next.sideStep(next.nextSide()), true
}

// decidePair decides what the next pair compares.
func (k *knowledge) decidePair() (*pair, bool) {
	all := k.allChanges()
	if k.level == nil {
		bad := k.broken.hold(all) || k.broken.hold(newConfig(len(all), nil))
		if bad || k.verified() >= k.maxVerify() {
			return nil, false
		}
		return newPair(Verify, newConfig(len(all), nil), all), true
	}
	if k.level.reversed || k.confirmed != nil {
		return nil, false
	}
	if suspect := k.findSuspect(); suspect != nil {
		with, without, ok := k.contrast(suspect)
		if !ok || k.accusations[newConfig(len(all), suspect).key()].pairs >= maxConfirm {
			return nil, false
		}
		p := newPair(Confirm, with, without)
		p.Suspect = suspect
		return p, true
	}
	if d, ok := k.findDesign(); ok {
		return newPair(Narrow, d.a, d.b), true
	}
	return nil, false
}

func newPair(why Purpose, a, b config) *pair {
	return &pair{Step: Step{Purpose: why, With: a.indexes(), Other: b.indexes()}, with: [2]config{a, b}}
}

// config says of each change whether it is applied.
type config []bool

func newConfig(n int, with []int) config {
	c := make(config, n)
	for _, i := range with {
		c[i] = true
	}
	return c
}

func (c config) indexes() []int {
	out := []int{}
	for i, on := range c {
		if on {
			out = append(out, i)
		}
	}
	return out
}

func (c config) key() string {
	raw := make([]byte, len(c))
	for i, on := range c {
		if raw[i] = '0'; on {
			raw[i] = '1'
		}
	}
	return string(raw)
}

// includes says whether all of some changes are applied.
func (c config) includes(changes []int) bool {
	return !slices.ContainsFunc(changes, func(i int) bool { return !c[i] })
}

// brokenConfigs are what cannot be flown, by key.
type brokenConfigs map[string]bool

func (b brokenConfigs) hold(c config) bool { return b[c.key()] }
