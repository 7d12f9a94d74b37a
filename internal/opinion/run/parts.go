package run

import (
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Part is a process, or the nodes, that an upgrade step took from one release to another.
type Part struct {
	Step, Name string
	From, To   string // releases; From is empty where it is not known
	Begin, End clock.Time
	Ended      bool   // false: the records have no end of it
	Note       string // why it did not come back; empty: it did
	// Until is the begin of the step's next part, or the end of the step: what users feel
	// between Begin and Until is the part's.
	Until    clock.Time
	Outages  int           // of the load's calls, in that time
	Longest  time.Duration // of them
	Unserved time.Duration // all together
	Uncalled bool          // no call of the load was due in that time: whether any would be served is not known
}

// Parts returns what upgrade steps changed, in the order of time, with the outages of the
// load's calls by part. An outage that goes on over several parts counts with each one's
// share of its time.
func (f *Facts) Parts() (out []Part) {
	open := map[string]int{} // step -> its last part
	for _, e := range f.Events {
		switch e.Type {
		case record.EventPartBegan:
			if i, ok := open[e.Step]; ok {
				out[i].Until = e.At
			}
			open[e.Step] = len(out)
			out = append(out, Part{Step: e.Step, Name: e.Name, From: e.From, To: e.To, Begin: e.At, End: f.End, Until: f.stepEnd(e.Step)})
		case record.EventPartEnded:
			if i, ok := open[e.Step]; ok && out[i].Name == e.Name {
				out[i].End, out[i].Note, out[i].Ended = e.At, e.Text, true
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	var all []Outage
	for _, calls := range f.Calls {
		if calls.Source == Load {
			all = append(all, calls.Outages.All()...)
		}
	}
	all = MergeOutages(all)
	for i := range out {
		out[i].addOutages(all)
		out[i].Uncalled = !f.anyDue(out[i].Begin, out[i].Until)
	}
	return out
}

// anyDue tells whether a call of the load was due in a time.
func (f *Facts) anyDue(from, until clock.Time) bool {
	return slices.ContainsFunc(f.Calls, func(c *Calls) bool { return c.Source == Load && c.Outages.anyDue(from, until) })
}

// stepEnd returns when a step ended, or the end of the run.
func (f *Facts) stepEnd(name string) clock.Time {
	for _, s := range f.Steps {
		if s.Name == name && s.Ended {
			return s.To
		}
	}
	return f.End
}

func (p *Part) addOutages(all []Outage) {
	for _, one := range all {
		if took := min(one.End, p.Until).Sub(max(one.Begin, p.Begin)); took > 0 {
			p.Outages++
			p.Longest, p.Unserved = max(p.Longest, took), p.Unserved+took
		}
	}
}

// WorstPart returns the part with the longest outage, of several such the one with most
// time without service; nil where calls were served throughout.
func WorstPart(all []Part) (worst *Part) {
	for i := range all {
		p := &all[i]
		if p.Longest > 0 && (worst == nil || p.Longest > worst.Longest || p.Longest == worst.Longest && p.Unserved > worst.Unserved) {
			worst = p
		}
	}
	return worst
}
