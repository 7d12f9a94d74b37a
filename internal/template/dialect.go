package template

import (
	texttemplate "text/template"
)

// Dialect is a language of bodies: what differs between windtunnel's own (Windtunnel) and
// those of other tools, which package internal/interop/bodies knows.
type Dialect struct {
	Names     string                                      // its variables, for messages
	Missing   string                                      // what an unknown variable does: error, or invalid: "<no value>" stands there
	Functions func(Source) texttemplate.FuncMap           // may draw random values
	Random    []string                                    // the functions whose values differ from object to object
	Differs   []string                                    // the variables that do, beside .Name, .Namespace, .Index, .Replica and .Call
	Aliases   []string                                    // other names of .Index and .Replica
	Variables func(v Vars, data map[string]any)           // adds the object's own to those of With
	LastWins  bool                                        // of a key that a mapping has twice the last value counts, as its tool decodes; else it is an error
	Finish    func(object []byte, v Vars) ([]byte, error) // completes an object, JSON in and out; nil when it is as it was rendered
}

// Windtunnel returns the dialect of bodies that are written for windtunnel.
func Windtunnel() Dialect {
	return Dialect{
		Names:   ".Name .Namespace .Index .Replica .Call .Group .Seed",
		Missing: "error", Random: []string{"randInt", "randAlpha", "payload"},
		Functions: Source.OwnFunctions,
		Variables: func(v Vars, data map[string]any) {
			data["Name"], data["Namespace"], data["Group"] = v.Name, v.Namespace, v.Group
			data["Index"], data["Replica"], data["Call"], data["Seed"] = v.Index, v.ReplicaNumber(), v.Call, v.Seed
		},
	}
}

// Source is what the functions of a dialect know of the object that is being rendered.
// The same seed, object and order of calls give the same random values. It serves one
// goroutine at a time.
type Source struct{ x *executor }

// NewSource returns a source that is of no object: for a whole config.
func NewSource(seed uint64) Source { return Source{&executor{vars: Vars{Seed: seed}}} }

// With returns an entry of Vars.With.
func (s Source) With(name string) any { return s.x.vars.With[name] }

// OwnFunctions returns the functions of windtunnel's own bodies.
func (s Source) OwnFunctions() texttemplate.FuncMap { return s.x.templateFunctions() }

// DrawNumber returns a whole number of at least from and below to as text.
func (s Source) DrawNumber(from, to int64) string { return s.x.randomValue(random{from: from, to: to}) }

// DrawLetters returns n lower-case letters.
func (s Source) DrawLetters(n int) string { return s.x.randomValue(random{letters: n}) }

// NewRandom returns a generator for a function that gives more than letters or a number.
func (s Source) NewRandom() *Random {
	r := Random{firstState(s.x.vars.Seed, s.x.vars.objectNumber(), s.x.calls)}
	s.x.calls++
	return &r
}

// Random is a generator of random numbers.
type Random struct{ state uint64 }

// Next returns 64 random bits.
func (r *Random) Next() uint64 { return nextRandom(&r.state) }

// Below returns a number below n.
func (r *Random) Below(n int) int { return int(randomBelow(&r.state, uint64(n))) }
