// Package gate tells whether a plane is quiet: nothing terminating, work queues
// empty, CPU back where it was before the load. What it finds is said in
// sentences, so that a run that cannot go on says why.
//
// The core maps facts to findings; Clean asks for facts until there are no
// findings. It reads nothing itself: package experiment collects the facts, for
// steps that cool.
package gate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrNotQuiet is in the error for a plane that did not come to rest.
var ErrNotQuiet = errors.New("the plane did not come to rest")

// Facts are what is known of a plane at one time. What could not be read is
// left out, and Unread says so.
type Facts struct {
	Terminating []Object
	Queues      map[string]float64 // items that wait, by "COMPONENT QUEUE"
	CPU         map[string]float64 // cores in use, by component
	Before      map[string]float64 // the same, before the first step
	Unread      []string           // what could not be read, and why
}

// Object is one that is on its way out.
type Object struct {
	Resource, Namespace, Name string
	Finalizers                []string
}

// CPU counts as back when it is at most Factor times what it was before, or
// within Slack cores of it.
const (
	Factor = 1.5
	Slack  = 0.1
)

// maxNamed is how many objects of a kind are named one by one.
const maxNamed = 3

// Findings says, a sentence each, what is not quiet yet.
func Findings(f Facts) []string {
	out := slices.Clone(f.Unread)
	out = append(out, terminating(f.Terminating)...)
	for _, name := range slices.Sorted(maps.Keys(f.Queues)) {
		if depth := f.Queues[name]; depth > 0 {
			out = append(out, fmt.Sprintf("%g items wait in queue %s", depth, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.CPU)) {
		before, known := f.Before[name]
		if now := f.CPU[name]; known && now > max(Factor*before, before+Slack) {
			out = append(out, fmt.Sprintf("%s uses %.2f cores, before the first step it was %.2f", name, now, before))
		}
	}
	return out
}

// terminating groups objects by resource and by what holds them.
func terminating(all []Object) []string {
	groups := map[string][]string{}
	for _, o := range all {
		key := o.Resource + " terminating"
		if len(o.Finalizers) > 0 {
			key += ", held by finalizer " + strings.Join(o.Finalizers, ", ")
		}
		groups[key] = append(groups[key], strings.Trim(o.Namespace+"/"+o.Name, "/"))
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		names := groups[key]
		text := strings.Join(names[:min(len(names), maxNamed)], ", ")
		if len(names) > maxNamed {
			text += ", ..."
		}
		out = append(out, fmt.Sprintf("%d %s (%s)", len(names), key, text))
	}
	return out
}

// Clean asks for facts until they give no findings, every so often. When ctx
// ends before, the error has its cause, ErrNotQuiet and the last findings.
func Clean(ctx context.Context, every time.Duration, facts func(context.Context) Facts) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var last []string
	for {
		found := Findings(facts(ctx))
		if ctx.Err() == nil {
			if last = found; len(last) == 0 {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %s: %w", ErrNotQuiet, strings.Join(last, "; "), context.Cause(ctx))
		}
	}
}

// QueueDepths reads the depths of work queues from a component's metrics in
// Prometheus' text form.
func QueueDepths(metrics string) map[string]float64 {
	out := map[string]float64{}
	for line := range strings.Lines(metrics) {
		rest, ok := strings.CutPrefix(line, "workqueue_depth{")
		if !ok {
			continue
		}
		labels, value, _ := strings.Cut(rest, "}")
		_, name, ok := strings.Cut(labels, `name="`)
		name, _, closed := strings.Cut(name, `"`)
		depth, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if ok && closed && err == nil {
			out[name] += depth
		}
	}
	return out
}
