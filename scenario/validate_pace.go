package scenario

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/text/strictyaml"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// paceKinds are the fields of a pace of which exactly one is set.
func paceKinds() []string {
	return slices.DeleteFunc(strictyaml.Names(strictyaml.Fields(reflect.TypeFor[Pace]())), func(name string) bool { return name == "jitter" || name == "random" || name == "bundle" })
}

// kinds are those that are set.
func (p Pace) kinds(given func(name string) bool) []string {
	var out []string
	v := reflect.ValueOf(p)
	for _, f := range strictyaml.Fields(v.Type()) {
		x := v.Field(f.Index)
		number := x.CanFloat() || x.CanInt()
		if slices.Contains(paceKinds(), f.Name) && (!x.IsZero() || number && given(f.Name)) {
			out = append(out, f.Name)
		}
	}
	return out
}

// paceChecker checks when calls are sent, and when again.
type paceChecker struct{ *checker }

// calls checks what all steps have that send a known number of calls.
func (c paceChecker) calls(path, verb string, p Pace, timeout unit.Duration) {
	c.pace(path+".pace", p, true)
	c.lasting(path+".timeout", verb+".timeout", timeout)
}

// pace checks a pace; counted tells that the number of calls is known.
func (c paceChecker) pace(path string, p Pace, counted bool) {
	kinds := p.kinds(func(name string) bool { return c.given(path + "." + name) })
	want := "pace: exactly one of " + all(paceKinds()) + " is needed"
	switch len(kinds) {
	case 1:
		c.value(path, kinds[0], p)
	case 0:
		c.at(path, "%s", want)
	default:
		c.at(path, "%s, not %s", want, strings.Join(kinds, " and "))
	}
	switch {
	case p.Jitter < 0 || p.Jitter > 1:
		c.at(path+".jitter", "pace.jitter: %s is not in 0 to 1", formatValue(p.Jitter))
	case p.Jitter > 0 && (p.Closed > 0 || p.Burst):
		c.at(path+".jitter", "pace.jitter: %s has no gaps between due times", kinds[0])
	case p.Random && p.Within == 0:
		c.at(path+".random", "pace.random: belongs to within")
	case p.Bundle < 0:
		c.at(path+".bundle", "pace.bundle: %d is below 0", p.Bundle)
	case p.Bundle > 0 && (p.Closed > 0 || p.Burst || p.Within != 0):
		c.at(path+".bundle", "pace.bundle: belongs to paces of a rate, not to %s", kinds[0])
	case p.Within != 0 && !counted:
		c.at(path+".within", "pace.within: needs count: it is so many calls in so long")
	}
}

// paceValue checks the value of the one kind that is set.
func (c paceChecker) value(path, kind string, p Pace) {
	at, name := path+"."+kind, "pace."+kind
	switch kind {
	case "constant":
		c.positive(at, name, p.Constant)
	case "poisson":
		c.positive(at, name, p.Poisson)
	case "closed":
		if p.Closed < 1 || p.Closed > maxClosed {
			c.at(at, "pace.closed: %d is not in 1 to %d", p.Closed, maxClosed)
		}
	case "within":
		c.lasting(at, name, p.Within)
	case "replay":
		if err := checkInside(p.Replay); err != nil {
			c.at(at, "pace.replay: %v", err)
		}
	case "ramp":
		c.notNegativeNumber(at+".from", "ramp.from", p.Ramp.From)
		c.positive(at+".to", "ramp.to", p.Ramp.To)
		c.lasting(at+".over", "ramp.over", p.Ramp.Over)
	case "steps":
		c.stairs(at, p.Steps)
	}
}

// maxClosed bounds a closed pool: each of its calls has memory of its own.
const maxClosed = 10_000

func (c paceChecker) stairs(path string, list []Stair) {
	for i, s := range list {
		at, last := fmt.Sprintf("%s[%d]", path, i), i == len(list)-1
		if last {
			c.positive(at+".rate", "stair.rate", s.Rate) // it goes on: at 0 the step would never end
		} else {
			c.notNegativeNumber(at+".rate", "stair.rate", s.Rate)
		}
		if s.For < 0 || s.For == 0 && !last {
			c.at(at+".for", "stair.for: %s is not above 0s", s.For)
		}
	}
}

func (c paceChecker) retry(path string, r Retry) {
	c.notNegative(path+".times", "retry.times", r.Times)
	c.atMost(path+".times", "retry.times", r.Times, mostRetries)
	if r.Times == 0 && !c.given(path+".times") && (len(r.Codes) > 0 || r.Delay != 0) {
		c.at(path, "retry.times: how often is needed")
	}
	for i, code := range r.Codes {
		if code < 400 || code > 599 {
			c.at(fmt.Sprintf("%s.codes[%d]", path, i), "retry.codes: %d is not the code of an answer that failed, 400 to 599", code)
		}
	}
	c.notNegativeTime(path+".delay", "retry.delay", r.Delay)
}
