package run

import (
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// SlowAnswer is how long an answer takes that is one of an outage: its user had given up.
const SlowAnswer = time.Second

// Outage is a time in which calls were not served: from the moment when the first such call
// was due to the next answer.
type Outage struct{ Begin, End clock.Time }

// Outages finds the outages of an operation from its calls, in the order of their ends. A
// call is not served that has no answer, or one of 429 or 500 and above, or one that takes
// longer than SlowAnswer. Calls that overlap another outage are part of it. The resolution
// is the time between two calls.
type Outages struct {
	found   []Outage
	pending bool // no answer since the last call that was not served
	begin   clock.Time
	last    clock.Time // end of the last call that was not served
}

// Add takes a call.
func (o *Outages) Add(v record.Call) {
	served := v.Outcome == record.OK || v.Outcome == record.Failed && v.Code > 0 && v.Code != 429 && v.Code < 500
	bad := !served || v.Latency() > SlowAnswer
	if bad {
		if !o.pending {
			o.begin = v.Due
		}
		o.pending, o.begin, o.last = true, min(o.begin, v.Due), max(o.last, v.Done)
	}
	if served && o.pending {
		o.found = append(o.found, Outage{o.begin, v.Done})
		o.pending = false
	}
}

// All returns the outages; one that no answer ended lasts until the end of its last call.
func (o *Outages) All() []Outage {
	if o.pending {
		return append(slices.Clone(o.found), Outage{o.begin, o.last})
	}
	return o.found
}

// MergeOutages joins those that overlap and returns them in the order of time.
func MergeOutages(all []Outage) (out []Outage) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Outage) int { return int(a.Begin.Sub(b.Begin)) })
	for _, one := range all {
		if n := len(out); n > 0 && one.Begin <= out[n-1].End {
			out[n-1].End = max(out[n-1].End, one.End)
			continue
		}
		out = append(out, one)
	}
	return out
}
