package run

import (
	"slices"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// outages has, by member, when faults of the scenario broke it.
type outages map[string][]outage

type outage struct {
	from, to clock.Time
	over     bool // otherwise there is no end of it yet
}

// addFault takes a fault's event. A member may be broken in several ways at the same time.
func (b outages) addFault(e record.Event) {
	if e.Outage == nil {
		return
	}
	for _, m := range e.Outage.Members {
		if !e.Outage.Over {
			b[m] = append(b[m], outage{from: e.At})
			continue
		}
		for i := range b[m] { // the longest under way: which one it is makes no difference to the time of all
			if o := &b[m][i]; !o.over {
				o.to, o.over = e.At, true
				break
			}
		}
	}
}

// wasBroken tells whether a call that was due then and sent then waited while the member was
// broken.
func (b outages) wasBroken(member string, due, sent clock.Time) bool {
	return slices.ContainsFunc(b[member], func(o outage) bool { return sent >= o.from && (!o.over || due < o.to) })
}
