// Package preflight tells whether a plane is clean: nothing left behind by earlier
// runs, nothing terminating, work queues empty, memory and the store back where
// they were, creations as quick as at first, and the machine the run's own.
// What it finds it says in sentences, so that a run that starts unclean, or
// cannot go on, says why.
//
// The core maps what is known now, and was known first, to findings; AwaitClean
// asks until there are none. It reads nothing itself: package inspect collects the
// states.
package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// ErrNotQuiet is in the error for a plane that did not come to rest.
var ErrNotQuiet = errors.New("the plane did not come to rest")

// The kinds of findings, as scenarios tolerate them.
const (
	Leftover    = "leftover"    // objects of an earlier run
	Terminating = "terminating" // objects on their way out
	Queue       = "queue"       // items that wait, or whose work does not end
	Retries     = "retries"     // items put into queues again, more often than at first
	CPU         = "cpu"         // of components, above what it was at first
	Heap        = "heap"        // likewise, after garbage collection
	Store       = "store"       // what etcd's database uses, likewise
	ProbeWrite  = "probe-write" // creations slower than at first
	Host        = "host"        // other processes, or other machines, take CPU
	Unread      = "unread"      // something could not be looked at
)

// State is what is known of a plane at one time. What could not be read is
// left out, and Unread says so.
type State struct {
	Leftovers   []Object
	Terminating []Object
	Queues      map[string]Work    // by "COMPONENT QUEUE"
	CPU         map[string]float64 // cores in use, by component
	Heap        map[string]float64 // bytes at which the collector starts next, by component: follows what is alive
	Store       float64            // bytes in use of etcd's database; 0: not known
	ProbeWrites []float64          // seconds that creations took, one after another
	Others      float64            // share of the machine's CPU that is neither the plane's nor windtunnel's
	MaxOthers   float64            // that Others may be; 0: record.DefaultMaxNeighbours
	Steal       float64            // share that the hypervisor kept for other machines
	Unread      []string           // what could not be read, and why
	Unrated     []string           // components that were read only once: how often items come back is not known yet
	Down        []string           // parts of the API that do not answer
}

// Work is a work queue.
type Work struct {
	Depth   float64 // items that wait
	Retries float64 // items put into it again, per second since the last look
	Longest float64 // seconds for which the longest work on one item has been under way
}

// Object is one that is on its way out, or was left behind.
type Object struct {
	Resource, Namespace, Name string
	Finalizers                []string
}

// Finding is one thing that is not as it should be.
type Finding struct {
	Kind    string `json:"kind"`
	Text    string `json:"text"` // the evidence: a clause
	Lasting bool   `json:"-"`    // waiting does not help
}

// What is held against a plane.
const (
	// CPU counts as back when it is at most Factor times what it was at first, or
	// within Slack cores of it.
	Factor = 1.5
	Slack  = 0.1
	// Memory and store may be Growth times what they were at first, or SlackBytes
	// more. Nobody waits for them: a collector runs when it likes, caches stay
	// filled, and the store is compacted every five minutes.
	Growth     = 2
	SlackBytes = 128 << 20
	// SlackRetries is by how many a second retries may be more than at first:
	// controllers that look at each item again after a minute count that, too.
	SlackRetries = 10
	// LongWork is how many seconds the work on one item may last, unless it
	// lasted so long at first.
	LongWork = 1
	// Slower is by which factor the median probe write may be slower, SlackProbe by
	// how many seconds: a smaller difference is the machine's mood rather than
	// the plane's state. Doubt is the chance at which one of more is believed.
	Slower     = 1.25
	SlackProbe = 0.003
	Doubt      = 0.01
)

// maxNamed is how many objects of a kind are named one by one.
const maxNamed = 3

// Findings says what is not as it was in the first state, or should be, in the
// order of the kinds above; tolerate names kinds that are not held against it.
func Findings(now, first State, tolerate ...string) []Finding {
	var out []Finding
	add := func(kind string, lasting bool, texts []string) {
		for _, text := range texts {
			if !slices.Contains(tolerate, kind) {
				out = append(out, Finding{kind, text, lasting})
			}
		}
	}
	left := groupObjects(now.Leftovers, "left behind by an earlier run")
	if len(left) > 0 {
		left[len(left)-1] += "; windtunnel clean --kubeconfig FILE deletes what killed runs left"
	}
	add(Leftover, true, left)
	add(Terminating, false, groupObjects(now.Terminating, "terminating"))
	add(Queue, false, waitingQueues(now.Queues, first.Queues))
	add(Retries, false, retryingQueues(now.Queues, first.Queues))
	for _, name := range now.Unrated {
		add(Retries, false, []string{"measuring baseline queue retries of " + name})
	}
	for _, name := range busierComponents(now.CPU, first.CPU, Factor, Slack) {
		add(CPU, false, []string{fmt.Sprintf("%s uses %.2f cores, at first it was %.2f", name, now.CPU[name], first.CPU[name])})
	}
	for _, name := range busierComponents(now.Heap, first.Heap, Growth, SlackBytes) {
		add(Heap, true, []string{fmt.Sprintf("the heap of %s grows to %.0f MB, at first it was %.0f MB", name, now.Heap[name]/1e6, first.Heap[name]/1e6)})
	}
	if first.Store > 0 && now.Store > max(Growth*first.Store, first.Store+SlackBytes) {
		add(Store, true, []string{fmt.Sprintf("etcd's database uses %.0f MB, at first it was %.0f MB", now.Store/1e6, first.Store/1e6)})
	}
	add(ProbeWrite, false, compareCreations(now.ProbeWrites, first.ProbeWrites))
	add(Host, true, describeNoise(now))
	add(Unread, false, now.Unread)
	add(Unread, true, now.Down)
	return out
}

// groupObjects groups objects by resource and by what holds them.
func groupObjects(all []Object, what string) []string {
	groups := map[string][]string{}
	for _, o := range all {
		key := o.Resource + "\x00 " + what
		if len(o.Finalizers) > 0 {
			key += ", held by finalizer " + strings.Join(o.Finalizers, ", ")
		}
		groups[key] = append(groups[key], strings.Trim(o.Namespace+"/"+o.Name, "/"))
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		names := groups[key]
		slices.Sort(names)
		text := strings.Join(names[:min(len(names), maxNamed)], ", ")
		if len(names) > maxNamed {
			text += ", ..."
		}
		resource, became, _ := strings.Cut(key, "\x00")
		out = append(out, fmt.Sprintf("%s%s (%s)", unit.Count(len(names), resource), became, text))
	}
	return out
}

// waitingQueues names the queues that are not empty, or in which work does not end.
func waitingQueues(now, first map[string]Work) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		switch w := now[name]; {
		case w.Depth > 0:
			out = append(out, fmt.Sprintf("%s %s in queue %s", unit.Text(w.Depth, "items"), unit.Verb(int(w.Depth), "waits", "wait"), name))
		case w.Longest > max(LongWork, 2*first[name].Longest):
			out = append(out, fmt.Sprintf("the work on an item of queue %s has been under way for %.1f s", name, w.Longest))
		}
	}
	return out
}

// retryingQueues names the queues that get items back more often than at first.
func retryingQueues(now, first map[string]Work) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if w := now[name]; w.Retries > max(Factor*first[name].Retries, first[name].Retries+SlackRetries) {
			out = append(out, fmt.Sprintf("%.1f items/s come back to queue %s, at first it was %.1f", w.Retries, name, first[name].Retries))
		}
	}
	return out
}

// busierComponents names the components that use more than they did at first.
func busierComponents(now, first map[string]float64, factor, slack float64) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if was, known := first[name]; known && now[name] > max(factor*was, was+slack) {
			out = append(out, name)
		}
	}
	return out
}

// compareCreations compares creations with the first ones.
func compareCreations(now, first []float64) []string {
	if len(now) == 0 || len(first) == 0 {
		return nil
	}
	a, b := stats.Median(first).Value, stats.Median(now).Value
	if p := stats.MannWhitney(first, now); b > max(Slower*a, a+SlackProbe) && p < Doubt {
		return []string{fmt.Sprintf("a creation takes %.1f ms, at first it took %.1f ms (medians of %d and %d; by chance in %.1g of 1)", 1e3*b, 1e3*a, len(now), len(first), p)}
	}
	return nil
}

// describeNoise says who else uses the machine.
func describeNoise(s State) []string {
	var out []string
	if s.Others > cmp.Or(s.MaxOthers, record.DefaultMaxNeighbours) {
		out = append(out, fmt.Sprintf("other processes take %.0f %% of this machine's CPU", 100*s.Others))
	}
	if s.Steal > record.StealShare {
		out = append(out, fmt.Sprintf("the hypervisor keeps %.0f %% of this machine's CPU for others", 100*s.Steal))
	}
	return out
}

// Lasting reports whether waiting does not help against any of the findings.
func Lasting(found []Finding) bool {
	return !slices.ContainsFunc(found, func(f Finding) bool { return !f.Lasting })
}

// Sentence says findings in one line.
func Sentence(found []Finding) string {
	var out []string
	for _, f := range found {
		out = append(out, f.Text)
	}
	return strings.Join(out, "; ")
}

// AwaitClean asks for findings until there are none, with a pause of every
// between two looks, or as long as the look took where that is longer. It gives up
// when ctx ends, and when waiting does not help: the error then has ErrNotQuiet,
// the last findings, and the cause of ctx's end. The findings of the last look are
// returned in any case.
func AwaitClean(ctx context.Context, every time.Duration, look func(context.Context) []Finding) ([]Finding, error) {
	var last []Finding
	for {
		pause := time.NewTimer(every)
		found := look(ctx)
		if ctx.Err() == nil || last == nil {
			last = found
		}
		if len(last) == 0 && ctx.Err() == nil {
			pause.Stop()
			return nil, nil
		}
		if Lasting(last) && ctx.Err() == nil {
			pause.Stop()
			return last, fmt.Errorf("%w: %s", ErrNotQuiet, Sentence(last))
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return last, fmt.Errorf("%w: %s: %w", ErrNotQuiet, cmp.Or(Sentence(last), "it was not looked at"), context.Cause(ctx))
		}
	}
}
