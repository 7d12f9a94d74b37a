package scenario

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/text/strictyaml"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// paceKinds are the fields of a pace of which exactly one is set.
func paceKinds() []string {
	return slices.DeleteFunc(strictyaml.Names(strictyaml.Fields(reflect.TypeFor[Pace]())), func(name string) bool { return name == "jitter" || name == "random" || name == "bundle" })
}

// setKinds are those that are set.
func (p Pace) setKinds(given func(name string) bool) []string {
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

// checkCalls checks what all steps have that send a known number of calls.
func (c paceChecker) checkCalls(path, verb string, p Pace, timeout unit.Duration) {
	c.checkPace(path+".pace", p, true)
	c.checkPositiveTime(path+".timeout", verb+".timeout", timeout)
}

// checkPace checks a pace; counted tells that the number of calls is known.
func (c paceChecker) checkPace(path string, p Pace, counted bool) {
	kinds := p.setKinds(func(name string) bool { return c.isGiven(path + "." + name) })
	want := "pace: exactly one of " + joinWords(paceKinds()) + " is needed"
	switch len(kinds) {
	case 1:
		c.checkPaceValue(path, kinds[0], p)
	case 0:
		c.reportAt(path, "%s", want)
	default:
		c.reportAt(path, "%s, not %s", want, strings.Join(kinds, " and "))
	}
	switch {
	case p.Jitter < 0 || p.Jitter > 1:
		c.reportAt(path+".jitter", "pace.jitter: %s is not in 0 to 1", formatValue(p.Jitter))
	case p.Jitter > 0 && (p.Closed > 0 || p.Burst):
		c.reportAt(path+".jitter", "pace.jitter: %s has no gaps between due times", kinds[0])
	case p.Random && p.Within == 0:
		c.reportAt(path+".random", "pace.random: belongs to within")
	case p.Bundle < 0 || p.Bundle > maxObjects:
		c.reportAt(path+".bundle", "pace.bundle: %d is not in 0 to %d", p.Bundle, maxObjects)
	case p.Bundle > 0 && (p.Closed > 0 || p.Burst || p.Within != 0):
		c.reportAt(path+".bundle", "pace.bundle: belongs to paces of a rate, not to %s", kinds[0])
	case p.Within != 0 && !counted:
		c.reportAt(path+".within", "pace.within: needs count: it is so many calls in so long")
	}
}

// paceValue checks the value of the one kind that is set.
func (c paceChecker) checkPaceValue(path, kind string, p Pace) {
	at, name := path+"."+kind, "pace."+kind
	switch kind {
	case "constant":
		c.checkRate(at, name, p.Constant)
	case "poisson":
		c.checkRate(at, name, p.Poisson)
	case "closed":
		if p.Closed < 1 || p.Closed > maxClosed {
			c.reportAt(at, "pace.closed: %d is not in 1 to %d", p.Closed, maxClosed)
		}
	case "within":
		c.checkPositiveTime(at, name, p.Within)
	case "replay":
		if err := checkInside(p.Replay); err != nil {
			c.reportAt(at, "pace.replay: %v", err)
		}
	case "ramp":
		c.checkRateOrNone(at+".from", "ramp.from", p.Ramp.From)
		c.checkRate(at+".to", "ramp.to", p.Ramp.To)
		c.checkPositiveTime(at+".over", "ramp.over", p.Ramp.Over)
	case "steps":
		c.checkStairs(at, p.Steps)
	}
}

// minRate and maxRate bound the rates of requests: a request a day, and one each nanosecond, beyond
// which due times are not told apart.
const (
	minRate = 1. / (24 * 60 * 60)
	maxRate = 1e9
)

// checkRate checks a rate with which requests go on.
func (c paceChecker) checkRate(path, name string, rate float64) {
	if c.checkPositive(path, name, rate); rate > 0 && (rate < minRate || rate > maxRate) {
		c.reportAt(path, "%s: %s/s is not between one a day (0.0000116/s) and 1e9/s", name, strconv.FormatFloat(rate, 'g', 6, 64))
	}
}

// checkRateOrNone checks a rate that may be 0, since another follows.
func (c paceChecker) checkRateOrNone(path, name string, rate float64) {
	if rate != 0 {
		c.checkRate(path, name, rate)
	}
}

// maxClosed bounds a closed pool: each of its calls has memory of its own.
const maxClosed = 10_000

func (c paceChecker) checkStairs(path string, list []Stair) {
	for i, s := range list {
		at, last := fmt.Sprintf("%s[%d]", path, i), i == len(list)-1
		if last {
			c.checkRate(at+".rate", "stair.rate", s.Rate) // it goes on: at 0 the step would never end
		} else {
			c.checkRateOrNone(at+".rate", "stair.rate", s.Rate)
		}
		if s.For < 0 || s.For == 0 && !last {
			c.reportAt(at+".for", "stair.for: %s is not above 0s", s.For)
		}
	}
}

func (c paceChecker) checkRetry(path string, r Retry) {
	c.checkNotNegative(path+".times", "retry.times", r.Times)
	c.checkAtMost(path+".times", "retry.times", r.Times, maxRetries)
	if r.Times == 0 && !c.isGiven(path+".times") && (len(r.Codes) > 0 || r.Delay != 0) {
		c.reportAt(path, "retry.times: how often is needed")
	}
	for i, code := range r.Codes {
		if code < 400 || code > 599 {
			c.reportAt(fmt.Sprintf("%s.codes[%d]", path, i), "retry.codes: %d is not the code of an answer that failed, 400 to 599", code)
		}
	}
	c.checkNotNegativeTime(path+".delay", "retry.delay", r.Delay)
}
