package history

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Acceptance says that changes up to a run are meant to be so.
type Acceptance struct {
	Measures []string `json:"measures,omitempty"` // what their keys begin with; none: all
	Reason   string   `json:"reason,omitempty"`
	Owner    string   `json:"owner,omitempty"`
}

// maxReason is how long a reason and the name of an owner may be, in bytes.
const maxReason = 500

// Accept says that what has changed up to now is as it is meant to be. It marks the newest
// run that is compared. An error: there is none, or it has no such measure.
func (f *File) Accept(a Acceptance) error {
	if len(a.Reason) > maxReason || len(a.Owner) > maxReason {
		return fmt.Errorf("a reason and an owner have at most %s each", unit.Count(maxReason, "bytes"))
	}
	for i := len(f.Entries) - 1; i >= 0; i-- {
		e := &f.Entries[i]
		if e.LeftOut != "" {
			continue
		}
		keys := slices.Sorted(maps.Keys(e.Measures))
		for _, prefix := range a.Measures {
			if !slices.ContainsFunc(keys, func(key string) bool { return slo.HasKey(key, []string{prefix}) }) {
				return fmt.Errorf("accept: no measure of %s begins with %q%s", e.Name, prefix, text.DidYouMean(prefix, keys))
			}
		}
		if len(a.Measures) == 0 && a.Reason == "" && a.Owner == "" {
			e.Accepted = true
			return nil
		}
		e.Acceptances = append(e.Acceptances, a)
		return nil
	}
	return errors.New("accept: the history has no run that came to its end")
}

// acceptanceOf returns the first acceptance of a measure from a run on; false: there is none.
func acceptanceOf(key string, from []Entry) (Acceptance, bool) {
	for _, e := range from {
		for _, a := range e.Acceptances {
			if len(a.Measures) == 0 || slo.HasKey(key, a.Measures) {
				return a, true
			}
		}
		if e.Accepted {
			return Acceptance{}, true
		}
	}
	return Acceptance{}, false
}

// note says in brackets that a change was accepted, by whom and why.
func (a Acceptance) note() string {
	out := " (accepted"
	if a.Owner != "" {
		out += " by " + a.Owner
	}
	if a.Reason != "" {
		out += ": " + a.Reason
	}
	return out + ")"
}
