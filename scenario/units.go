package scenario

import (
	"fmt"

	"github.com/windtunnel/windtunnel/internal/sli"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// ownUnit is the unit of a number that what stands beside it tells.
const ownUnit = "own"

// numberOf is the unit of a field that takes a number, by its name in messages, for those
// that may be written with it; empty for others.
func numberOf(name string) string {
	switch name {
	case "pace.constant", "pace.poisson", "ramp.from", "ramp.to", "stair.rate", "fleet.rate":
		return "1/s"
	case "component.cpu", "limits.cpu":
		return "cores"
	case "churn.percent", "victims.percent":
		return "percent"
	case "pace.jitter", "fault.share", "published.change":
		return "ratio"
	case "objective.max", "objective.min", "published.value":
		return ownUnit
	}
	return ""
}

// readUnits turns the texts of such numbers, by path, into numbers, when all of the
// file has been read.
func (s *Scenario) readUnits(texts map[string]string, f *problems) {
	read := func(path, name string, to *float64, of, what string) {
		text, ok := texts[path]
		if !ok {
			return
		}
		v, err := unit.Parse(text, of)
		switch {
		case err == nil:
			*to = v
		case of == "":
			f.add(s.lineOf(path), "%s: %q is not a number, and %s", name, clipText(text), what)
		default:
			f.add(s.lineOf(path), "%s: %v: %s", name, err, what)
		}
	}
	for i := range s.Objectives {
		o, path := &s.Objectives[i], fmt.Sprintf("objectives[%d]", i)
		of, what := o.unitOfBound()
		read(path+".max", "objective.max", o.Max, of, what)
		read(path+".min", "objective.min", o.Min, of, what)
	}
	for i := range s.Published {
		p := &s.Published[i]
		read(fmt.Sprintf("published[%d].value", i), "published.value", &p.Value, p.Unit, "unit says what it is a number of: "+p.Unit)
	}
}

// unitOfBound is what an objective's max and min are numbers of, and why.
func (o *Objective) unitOfBound() (of, what string) {
	if o.Query != "" {
		if o.Unit == "" {
			return "", "unit does not say what the query's values are"
		}
		return o.Unit, "the query's values are " + o.Unit
	}
	x, ok := sli.Find(o.SLI)
	if !ok {
		return "", "it is not known what it bounds"
	}
	of = x.UnitOf(o.Statistic)
	return of, fmt.Sprintf("%s of %s is in %s", o.Statistic, o.SLI, of)
}
