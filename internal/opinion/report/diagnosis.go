package report

import (
	"fmt"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/diagnose"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// shownCauses are told at once; those after them are folded away.
const shownCauses = 2

// Cause is one thing that gave way.
type Cause struct{ diagnose.Finding }

// Evidence is one figure that speaks for a cause.
type Evidence struct{ diagnose.Evidence }

// ValueText is the figure with its unit.
func (e Evidence) ValueText() string { return unit.Text(e.Value, e.Unit) }

// BoundText is the bound with its unit.
func (e Evidence) BoundText() string { return textOrEmpty(e.Bound, e.Unit) }

func textOrEmpty(v *float64, u string) string {
	if v == nil {
		return ""
	}
	return unit.Text(*v, u)
}

// Figures is the evidence as it is shown.
func (c Cause) Figures() []Evidence {
	var out []Evidence
	for _, e := range c.Evidence {
		out = append(out, Evidence{e})
	}
	return out
}

// causesOf takes over a diagnosis, in whose order what gave way first comes first.
func causesOf(found []diagnose.Finding) []Cause {
	var out []Cause
	for _, f := range found {
		out = append(out, Cause{f})
	}
	return out
}

// Nothing says whether this is the answer that nothing limited the plane.
func (c Cause) Nothing() bool { return c.Finding.Cause == diagnose.Nothing }

// Title names the cause and the component.
func (c Cause) Title() string {
	words := causeWords(string(c.Finding.Cause))
	switch {
	case c.Nothing():
		return "" // its sentence says it
	case c.Component == "" || strings.Contains(words, c.Component):
		return words
	case words == "":
		return c.Component
	}
	return words + " (" + c.Component + ")"
}

// causeWords is what people call a cause of package diagnose; one that is not
// known here keeps its name.
func causeWords(cause string) string {
	if words, ok := map[string]string{
		"cpu-limit": "CPU limit", "memory": "Memory", "client-throttle": "Its own rate limiter", "client-ceiling": "Ceiling of its requests", "work-queue": "Workers of a queue",
		"apf": "Priority and fairness", "webhook": "Webhook", "etcd-disk": "etcd’s disk", "etcd-latency": "etcd’s latency",
		"etcd-quota": "etcd’s quota", "watch-cache": "Watch cache", "locks": "Locks", "scheduler": "Scheduling itself",
		"distance": "Other clusters are far away", "imbalance": "One replica has most to do", "proxying": "Requests passed on to other clusters", "scan": "Scans of a cache", "stage": "One stage of the work",
		"load-late": "windtunnel’s load was late", "fleet-late": "windtunnel’s fleet was late", "machine": "The machine’s CPU",
	}[cause]; ok {
		return words
	}
	return cause
}

// Share is how much of the load's time the cause explains, in words.
func (c Cause) Share() string {
	if c.Score <= 0 {
		return ""
	}
	return fmt.Sprintf("It explains %.0f %% of the load’s time.", 100*min(c.Score, 1))
}

// causesView is a diagnosis: what is shown and what is folded away.
type causesView struct{ Shown, Folded []Cause }

func foldCauses(found []diagnose.Finding) causesView {
	all := causesOf(found)
	n := min(len(all), shownCauses)
	return causesView{all[:n], all[n:]}
}
