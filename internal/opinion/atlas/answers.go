package atlas

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Answer is the answer to one of the scalability questions of a KEP.
type Answer struct{ Question, Answer string }

// kindsIn returns the resources in the requests that API servers counted.
func kindsIn(runs []compare.Run) map[string]bool {
	out := map[string]bool{}
	for _, r := range runs {
		for k := range counts(r) {
			if rest, ok := strings.CutPrefix(k.name, "server: "); ok {
				_, resource, _ := strings.Cut(rest, " ")
				resource, _, _ = strings.Cut(resource, "/")
				out[resource] = true
			}
		}
	}
	return out
}

// NewKinds returns the resources that requests name with the gate on, in every run, and with the
// gate off in none.
func NewKinds(off, on []compare.Run) (out []string) {
	without, seen := kindsIn(off), map[string]int{}
	for _, r := range on {
		for k := range kindsIn([]compare.Run{r}) {
			seen[k]++
		}
	}
	for k, n := range seen {
		if n == len(on) && !without[k] {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// Compared is the entry of a feature that was run off and on in pairs: c compares them. Its
// counters are those that differ beyond chance, and by as much as Screen asks for.
func Compared(name string, off, on []compare.Run, c *compare.Comparison) Entry {
	e := Entry{Gate: Gate{Name: name}, State: Movement, Runs: len(off) + len(on), Counters: []Moved{}, Costs: append([]Moved{}, Costs(c)...), NewKinds: append([]string{}, NewKinds(off, on)...)}
	without, with := countsOf(off), countsOf(on)
	for _, counter := range c.Counters {
		of, _, _ := strings.Cut(counter.Unit, "/pod")
		k := counterKey{counter.Name, of}
		a, b := stats.Mean(valuesOf(without, k)).Value, stats.Mean(valuesOf(with, k)).Value
		if counter.Shown && math.Abs(b-a) >= max(leastShare*a, leastCount) {
			e.Counters = append(e.Counters, Moved{k.name, k.unit, a, b})
		}
	}
	return e
}

// latency and resources begin the titles of judged measures; see compare.Title.
func isResource(title string) bool {
	return strings.HasPrefix(title, "CPU ") || strings.HasPrefix(title, "peak memory") || strings.HasPrefix(title, "time throttled")
}

// Answers answers the seven scalability questions of a KEP from what was measured.
func (e Entry) Answers() []Answer {
	calls := e.pick(e.Counters, func(m Moved) bool {
		return m.Unit == "requests" && strings.HasPrefix(m.Name, "server: ") || m.Unit == "calls"
	})
	objects := e.pick(e.Counters, func(m Moved) bool {
		return strings.HasPrefix(m.Name, "created: ") || strings.HasPrefix(m.Name, "keys written: ") || m.Unit == "bytes" && strings.HasPrefix(m.Name, "watch events: ")
	})
	work := e.pick(e.Counters, func(m Moved) bool {
		return strings.HasPrefix(m.Name, "allocated: ") || strings.HasPrefix(m.Name, "log written: ") || strings.HasPrefix(m.Name, "etcd: ") || strings.HasPrefix(m.Name, "garbage collections: ")
	})
	times := e.pick(e.Costs, func(m Moved) bool { return !isResource(m.Name) })
	usage := e.pick(e.Costs, func(m Moved) bool { return isResource(m.Name) })
	const notHere = "Not measured: the control plane runs without a cloud provider."
	types := "No request names a kind with it on that none names with it off."
	if len(e.NewKinds) > 0 {
		types = "Requests name these kinds only with it on: " + strings.Join(e.NewKinds, ", ") + "."
	}
	out := []Answer{
		{"Will enabling this feature result in any new API calls?", e.answer(calls, "No counter of requests moved.")},
		{"Will enabling this feature result in introducing new API types?", types},
		{"Will enabling this feature result in any new calls to the cloud provider?", notHere},
		{"Will enabling this feature result in increasing size or count of the existing API objects?", e.answer(objects, "No counter of objects, keys or bytes of watch events moved.")},
		{"Will enabling this feature result in increasing time taken by any operations covered by existing SLIs/SLOs?", e.answerCosts(times, "No latency or rate differs beyond chance.")},
		{"Will enabling this feature result in non-negligible increase of resource usage (CPU, RAM, disk, IO, ...) in any components?",
			e.answer(work, "No counter of allocations, calls to etcd or bytes written moved.") + " " + e.answerCosts(usage, "CPU and memory do not differ beyond chance.")},
		{"Can enabling this feature result in resource exhaustion of some node resources (PIDs, sockets, inodes, etc.)?", "Not measured: nodes are simulated."},
	}
	if e.State == Locked || e.State == NotStarted || e.State == Unknown {
		for i := range out {
			out[i].Answer = "Not measured: " + string(e.State) + "."
		}
	}
	return out
}

// pick writes the changes that are of a kind.
func (e Entry) pick(from []Moved, of func(Moved) bool) (out []string) {
	for _, m := range from {
		if of(m) {
			out = append(out, m.sentence())
		}
	}
	return out
}

// sentence writes a change: "server: LIST nodes: 4 -> 8 requests (+100 %)".
func (m Moved) sentence() string {
	return fmt.Sprintf("%s: %s -> %s (%s)", m.Name, unit.Text(m.Off, m.Unit), unit.Text(m.On, m.Unit), m.change())
}

func (m Moved) change() string {
	switch {
	case m.Off == 0:
		return "new"
	case m.On == 0:
		return "gone"
	}
	return compare.FormatChange(m.On / m.Off)
}

func (e Entry) answer(found []string, none string) string {
	if len(found) == 0 {
		return none
	}
	return strings.Join(found, "; ") + "."
}

// answerCosts says of costs that they are measured only where a counter moved.
func (e Entry) answerCosts(found []string, none string) string {
	if e.State == Still {
		return fmt.Sprintf("Times, CPU and memory were not measured, because no counter moved in %s.", unit.Count(e.Runs, "runs"))
	}
	return e.answer(found, none)
}
