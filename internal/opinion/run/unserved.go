package run

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// SlowAnswer is how long an answer takes that is one of an outage: its user had given up.
const SlowAnswer = time.Second

// Outage is a time in which calls were not served: from the moment when the first such call
// was due to the answer to the next one that was served.
type Outage struct{ Begin, End clock.Time }

// outageSlot is how closely the end of an outage is known.
const outageSlot = 10 * time.Millisecond

// Outages finds the outages of an operation from its calls, by the moments when they were
// due: a call that times out long after others were served makes no outage longer. A
// call is not served that has no answer, or one of 429 or 500 and above, or one that takes
// longer than SlowAnswer. The resolution is the time between two calls.
type Outages struct {
	unserved []unserved            // each call that was not served
	served   map[clock.Time]Outage // by slot: the last call due in it that was served, from due to done
}

// unserved is a call that was not served, from due to done.
type unserved struct {
	Outage
	late bool // but answered, later than SlowAnswer: that answer ends its outage, too
}

// Add takes a call; their order does not matter.
func (o *Outages) Add(v record.Call) {
	answered := v.Outcome == record.OK || v.Outcome == record.Failed && v.Code > 0 && v.Code != 429 && v.Code < 500
	if !answered || v.Latency() > SlowAnswer {
		o.unserved = append(o.unserved, unserved{Outage{v.Due, v.Done}, answered})
		return
	}
	if o.served == nil {
		o.served = map[clock.Time]Outage{}
	}
	slot := v.Due / clock.Time(outageSlot)
	if last, ok := o.served[slot]; !ok || v.Due > last.Begin {
		o.served[slot] = Outage{v.Due, v.Done}
	}
}

// anyDue tells whether a call was due in a time; of those served in one slot only the last
// is known.
func (o *Outages) anyDue(from, until clock.Time) bool {
	within := func(due clock.Time) bool { return due >= from && due < until }
	for _, last := range o.served {
		if within(last.Begin) {
			return true
		}
	}
	return slices.ContainsFunc(o.unserved, func(u unserved) bool { return within(u.Begin) })
}

// All returns the outages, which may overlap; one after which no call was served lasts until
// the end of its calls.
func (o *Outages) All() []Outage {
	if len(o.unserved) == 0 {
		return nil
	}
	served := slices.SortedFunc(maps.Values(o.served), byBegin)
	out := make([]Outage, len(o.unserved))
	for i, one := range o.unserved {
		out[i] = one.Outage
		next, _ := slices.BinarySearchFunc(served, one.Outage, func(s, u Outage) int { return cmp.Compare(s.Begin, u.Begin+1) })
		if next < len(served) && (!one.late || served[next].End < one.End) {
			out[i].End = served[next].End
		}
	}
	return out
}

func byBegin(a, b Outage) int { return cmp.Compare(a.Begin, b.Begin) }

// MergeOutages joins those that overlap and returns them in the order of time.
func MergeOutages(all []Outage) (out []Outage) {
	all = slices.Clone(all)
	slices.SortFunc(all, byBegin)
	for _, one := range all {
		if n := len(out); n > 0 && one.Begin <= out[n-1].End {
			out[n-1].End = max(out[n-1].End, one.End)
			continue
		}
		out = append(out, one)
	}
	return out
}
