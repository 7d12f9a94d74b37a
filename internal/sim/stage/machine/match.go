package machine

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/sim/stage/expression"
)

// Match chooses the stage that plays next on an object of the resource: by
// chance among those that match, each as likely as its weight, or all alike when
// no weight is above 0. An error leaves the object alone. rng must not be nil
// where several stages may match or a delay is spread.
func (all Stages) Match(o map[string]any, now time.Time, rng *rand.Rand) (Choice, error) {
	return all.Choose(object.Of(o), now, rng)
}

// Choose is Match for an object in any form.
func (all Stages) Choose(o object.Value, now time.Time, rng *rand.Rand) (Choice, error) {
	moment := expression.Moment{Now: now, Rand: rng}
	s, several, err := all.firstMatch(o, moment)
	if err != nil || s == nil {
		return Choice{}, err
	}
	if several {
		c, err := all.findCandidates(o, moment)
		if err != nil {
			return Choice{}, err
		}
		s = c.pickStage(rng)
	}
	d, err := s.pickDelay(o, moment)
	return Choice{Stage: s, Delay: d}, err
}

// firstMatch returns the first stage that matches, and whether it is not the only one.
func (all Stages) firstMatch(o object.Value, m expression.Moment) (first *Stage, several bool, err error) {
	for _, s := range all {
		ok, err := s.matchesObject(o, m)
		switch {
		case err != nil:
			return nil, false, err
		case ok && first != nil:
			several = true
		case ok:
			first = s
		}
	}
	return first, several, nil
}

// candidates are the stages that may play, with their weights; total is 0 when
// all are alike.
type candidates struct {
	stages  Stages
	weights []int64
	total   int64
}

func (all Stages) findCandidates(o object.Value, m expression.Moment) (c candidates, err error) {
	for _, s := range all {
		ok, err := s.matchesObject(o, m)
		if err != nil {
			return candidates{}, err
		}
		if ok {
			c.stages = append(c.stages, s)
		}
	}
	if len(c.stages) < 2 {
		return c, nil
	}
	return c.weighCandidates(o, m)
}

// weighCandidates leaves out the stages whose weight cannot be told, and those of weight 0
// beside others with more. Where no weight can be told, all stay.
func (c candidates) weighCandidates(o object.Value, m expression.Moment) (candidates, error) {
	var told, heavy candidates
	for _, s := range c.stages {
		w, ok, err := s.weight.weightOf(s, o, m)
		if err != nil {
			return candidates{}, err
		}
		if !ok {
			continue
		}
		told.stages = append(told.stages, s)
		if w > 0 {
			heavy.stages, heavy.weights = append(heavy.stages, s), append(heavy.weights, w)
			heavy.total += w
		}
	}
	switch {
	case heavy.total > 0:
		return heavy, nil
	case len(told.stages) > 0:
		return told, nil
	}
	return c, nil
}

func (c candidates) pickStage(rng *rand.Rand) *Stage {
	if len(c.stages) == 1 {
		return c.stages[0]
	}
	if c.total == 0 {
		return c.stages[rng.IntN(len(c.stages))]
	}
	at := rng.Int64N(c.total)
	for i, w := range c.weights {
		if at -= w; at < 0 {
			return c.stages[i]
		}
	}
	return c.stages[len(c.stages)-1]
}

// matchesObject says whether the stage's selector holds of an object.
func (s *Stage) matchesObject(o object.Value, m expression.Moment) (bool, error) {
	for _, r := range s.requires {
		if !r.Matches(o) {
			return false, nil
		}
	}
	for i := range s.programs {
		ok, err := s.programs[i].Bool(objectTree(o), m)
		if err != nil {
			return false, s.source.Fault(s.programs[i].field, err)
		}
		if !ok {
			return false, nil
		}
	}
	return true, nil
}

// objectTree returns an object as CEL wants it.
func objectTree(o object.Value) map[string]any {
	v, _ := o.Tree()
	m, _ := v.(map[string]any)
	return m
}

// origin is where a number or duration comes from; empty is nowhere.
type origin struct {
	query   *expression.Query
	program *expression.Program
	field   string
}

// weight is a number, or an expression that gives one.
type weight struct {
	fixed int64
	from  origin
}

// weightOf returns the weight for an object; not ok when it cannot be told.
func (w *weight) weightOf(s *Stage, o object.Value, m expression.Moment) (n int64, ok bool, err error) {
	switch {
	case w.from.program != nil:
		n, err := w.from.program.Int(objectTree(o), m)
		if err != nil {
			return 0, false, s.source.Fault(w.from.field, err)
		}
		return n, true, nil
	case w.from.query != nil:
		v, found := w.from.query.First(o)
		if found && v.Kind == object.String {
			n, err := strconv.ParseInt(v.String(), 0, 64)
			return n, err == nil, nil
		}
		if f, ok := expression.Number(v); found && ok {
			return int64(f), true, nil
		}
	}
	return w.fixed, true, nil
}

// delay is how long a stage waits.
type delay struct {
	set      bool // the stage has a delay at all
	min      span
	jittered bool
	max      span
}

// span is a duration, or an expression that gives one.
type span struct {
	fixed time.Duration
	has   bool // fixed is given
	from  origin
}

// Delay returns between which durations a stage waits for an object: most is
// least, or above it when the time is spread evenly between them. Not ok says
// that the stage has no delay.
func (s *Stage) Delay(o map[string]any, now time.Time) (shortest, longest time.Duration, ok bool, err error) {
	return s.delayRange(object.Of(o), expression.Moment{Now: now})
}

// Weight returns how likely the stage is chosen beside others; not ok says that
// it cannot be told.
func (s *Stage) Weight(o map[string]any, now time.Time) (n int64, ok bool, err error) {
	return s.weight.weightOf(s, object.Of(o), expression.Moment{Now: now})
}

func (s *Stage) delayRange(o object.Value, m expression.Moment) (shortest, longest time.Duration, ok bool, err error) {
	if !s.delay.set {
		return 0, 0, false, nil
	}
	shortest, ok, err = s.delay.min.durationOf(s, o, m)
	if err != nil || !ok {
		return 0, 0, false, err
	}
	if !s.delay.jittered {
		return shortest, shortest, true, nil
	}
	longest, ok, err = s.delay.max.durationOf(s, o, m)
	switch {
	case err != nil:
		return 0, 0, false, err
	case !ok:
		return shortest, shortest, true, nil
	case longest <= shortest:
		return longest, longest, true, nil
	}
	return shortest, longest, true, nil
}

// durationOf returns the duration for an object; not ok when there is none.
func (d *span) durationOf(s *Stage, o object.Value, m expression.Moment) (time.Duration, bool, error) {
	switch from := &d.from; {
	case from.program != nil:
		d, err := from.program.Duration(objectTree(o), m)
		if err != nil {
			return 0, false, s.source.Fault(from.field, err)
		}
		return d, true, nil
	case from.query != nil:
		v, found := from.query.First(o)
		if text := v.String(); found && v.Kind == object.String {
			if text == "" {
				return 0, false, nil
			}
			if d, err := expression.ParseDelay(text, m.Now); err == nil {
				return d, true, nil
			}
		}
	}
	return d.fixed, d.has, nil
}

// pickDelay picks the delay; a time that is past is now.
func (s *Stage) pickDelay(o object.Value, m expression.Moment) (time.Duration, error) {
	shortest, longest, ok, err := s.delayRange(o, m)
	if err != nil || !ok {
		return 0, err
	}
	if longest > shortest {
		shortest += time.Duration(m.Rand.Int64N(int64(longest - shortest)))
	}
	return max(0, shortest), nil
}
