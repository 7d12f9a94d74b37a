package bisect

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/unit"
)

// Answer says what a search found.
type Answer string

// The answers of a search.
const (
	One      Answer = "change"     // one change does it
	Together Answer = "set"        // a set does it, and only together
	Interval Answer = "interval"   // it is among these, which the runs cannot tell apart
	Nothing  Answer = "nothing"    // good and bad do not differ in what can be told
	Reversed Answer = "reversed"   // good is worse than bad
	Several  Answer = "several"    // neither one change nor a small set does it
	Open     Answer = "unfinished" // more runs are needed
)

// Result is what the runs of a search show.
type Result struct {
	Answer   Answer   `json:"answer"`
	Sentence string   `json:"sentence"`
	Changes  []int    `json:"changes,omitempty"` // that are named, or still possible
	Measure  string   `json:"measure,omitempty"`
	Good     float64  `json:"good,omitempty"` // geometric means of the runs of good and bad
	Bad      float64  `json:"bad,omitempty"`
	Belief   float64  `json:"belief,omitempty"` // probability of the likeliest cause, under the search's model
	Evidence float64  `json:"evidence,omitempty"`
	Needed   float64  `json:"evidence_needed,omitempty"`
	Notes    []string `json:"notes"` // sentences
}

// Conclude says what the runs so far show.
func Conclude(s *Search) Result {
	k := learn(s)
	r := Result{Answer: Open, Notes: []string{}}
	_, more := Next(s)
	switch {
	case k.level == nil && k.verified() >= k.maxVerify():
		r.Answer = Nothing
		r.Sentence = fmt.Sprintf("Good and bad do not differ beyond chance in %s of each.", unit.Count(k.verified(), "runs"))
		r.Notes = append(r.Notes, k.describeBlindness()...)
	case k.level == nil:
		r.Sentence = fmt.Sprintf("Whether good and bad differ is not known after %s of each.", unit.Count(k.verified(), "runs"))
	default:
		k.concludeLevel(&r, more)
	}
	k.noteSkipped(&r)
	return r
}

// concludeLevel says what is known where good and bad do differ.
func (k *knowledge) concludeLevel(r *Result, more bool) {
	l := k.level
	r.Measure = l.key
	r.Good, r.Bad = l.values()
	r.Evidence, r.Needed = l.evidence, neededEvidence(k.candidates())[l.counts]
	best := k.bestHypothesis()
	r.Belief = k.posterior[best]
	switch {
	case l.reversed:
		r.Answer = Reversed
		r.Sentence = "Good is worse than bad: exchange --good and --bad."
	case k.confirmed != nil:
		a := k.accusations[newConfig(len(k.search.Plan.Changes), k.confirmed).key()]
		r.Changes, r.Evidence, r.Needed = k.confirmed, a.sample.evidence(), a.threshold()
		k.nameConfirmed(r, best)
	case k.hypotheses[best] == nil && k.posterior[best] >= believed && !more:
		r.Answer = Several
		r.Sentence = "Neither one change nor a small set of changes explains the difference: several changes contribute."
	default:
		r.Changes = k.credibleSet()
		r.Sentence = fmt.Sprintf("The runs do not tell which of %s causes the difference.", unit.Count(len(r.Changes), "changes"))
		r.Evidence, r.Needed = 0, 0
	}
}

// nameConfirmed says what was confirmed: a cause, or what a cause is among.
func (k *knowledge) nameConfirmed(r *Result, best int) {
	names := k.nameChanges(r.Changes)
	switch told := k.posterior[best] >= believed && slices.Equal(k.hypotheses[best], r.Changes); {
	case len(r.Changes) == 1:
		r.Answer = One
		r.Sentence = names[0] + " causes the difference."
	case told:
		r.Answer = Together
		r.Sentence = strings.Join(names, " and ") + " cause the difference, and only together."
	default:
		r.Answer = Interval
		r.Sentence = "The difference is caused by one or more of these changes, which the runs do not tell apart: " + strings.Join(names, "; ") + "."
	}
}

func (k *knowledge) nameChanges(changes []int) (out []string) {
	for _, i := range changes {
		out = append(out, k.search.Plan.Changes[i].String())
	}
	return out
}

// values are good and bad, as geometric means.
func (l *level) values() (good, bad float64) {
	middle, half := l.sign*l.middle.mean, l.sign*l.apart.mean/2
	if l.counts {
		return math.Expm1(middle - half), math.Expm1(middle + half)
	}
	return math.Exp(middle - half), math.Exp(middle + half)
}

// noteSkipped says what could not be flown and what that leaves open.
func (k *knowledge) noteSkipped(r *Result) {
	skipped, unknown := 0, 0
	for _, run := range k.search.Runs {
		switch run.State {
		case Skipped:
			skipped++
		case Unknown:
			unknown++
		}
	}
	if skipped > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%s could not be built or started and were not tested.", unit.Count(skipped, "combinations")))
	}
	if unknown > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%s ended unknown and were not counted.", unit.Count(unknown, "runs")))
	}
}

// describeBlindness says which difference the runs of good and bad would have shown, in the
// measures that vary least.
func (k *knowledge) describeBlindness() (out []string) {
	all := k.candidates()
	needed := neededEvidence(all)
	slices.SortFunc(all, func(a, b level) int { return strings.Compare(a.key, b.key) })
	for _, counts := range []bool{true, false} {
		var quiet *level
		for i := range all {
			if l := &all[i]; l.counts == counts && (quiet == nil || l.apart.sd < quiet.apart.sd) {
				quiet = l
			}
		}
		if quiet == nil {
			continue
		}
		kind := "measure that is not a counter"
		if counts {
			kind = "counter"
		}
		title := k.search.Measures[quiet.key].Title
		out = append(out, fmt.Sprintf("The %s that varies least, %s, would have shown a difference of %s.", kind, title, unit.Text(quiet.smallestShown(needed[counts]), "ratio")))
	}
	return out
}

// smallestShown is the least difference, as a share, that as many pairs with this spread
// would have shown.
func (l *level) smallestShown(needed float64) float64 {
	low, high := math.Log1p(MinEffect), 20.0
	for range 40 {
		s := l.apart
		s.mean = (low + high) / 2
		if s.bothSides() >= needed {
			high = s.mean
		} else {
			low = s.mean
		}
	}
	return math.Expm1(high)
}

// NeededRuns is how many runs a search needs where no run varies and so many measures are
// looked at, half of them counters: with fewer it cannot name anything.
func NeededRuns(changes []Change, measures int) int {
	const plenty = 1000
	s := &Search{Plan: Plan{Changes: changes, Runs: plenty}, Measures: map[string]Measure{}}
	values := map[string]float64{}
	for i := range max(1, measures) {
		key := fmt.Sprint(i)
		s.Measures[key], values[key] = Measure{Counter: i%2 == 0}, 1000
	}
	for len(s.Runs) < plenty {
		step, ok := Next(s)
		if !ok {
			break
		}
		r := Run{Step: step, State: Measured, Values: values}
		if newConfig(len(changes), step.With).includes([]int{len(changes) / 2}) {
			r.Values = map[string]float64{}
			maps.Copy(r.Values, values)
			r.Values["0"] *= 2
		}
		s.Runs = append(s.Runs, r)
	}
	return len(s.Runs)
}
