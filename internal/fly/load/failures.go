package load

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// maxFailures is how many ways to fail are told apart in a step. Those beyond are
// counted together, as the last of them.
const maxFailures = 50

// failures keeps count of how calls of the steps failed, and writes it down:
// each way to fail when it is first seen, and its count when a plan has ended.
type failures struct {
	mu    sync.Mutex
	steps map[string]map[failureKey]*failure
}

// failureKey tells ways to fail apart.
type failureKey struct {
	op     record.OpID
	code   int
	reason string
}

// failure is one of them.
type failure struct {
	record.Failure
	message string
	written int // attempts that the last event of it has
}

// addFailure counts a call that did not end well. It returns the event of the first one
// of its kind, and of the first for good.
func (x *failures) addFailure(s *slot, c *record.Call, result Result) (first *record.Event) {
	op := s.flight.plan.Ops[result.Op]
	if !c.Again && !c.ForGood() {
		return nil
	}
	status := statusOf(result)
	key := failureKey{c.Op, result.Response.Code, status.Reason}
	step := s.flight.plan.stepName()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.steps == nil {
		x.steps = map[string]map[failureKey]*failure{}
	}
	if x.steps[step] == nil {
		x.steps[step] = map[failureKey]*failure{}
	}
	all := x.steps[step]
	if len(all) >= maxFailures && all[key] == nil {
		key = failureKey{reason: "others"}
	}
	f := all[key]
	if f == nil {
		f = &failure{message: status.Message, Failure: record.Failure{
			Verb: op.Verb, Resource: op.Resource, Cluster: op.Cluster, Subresource: op.Subresource, Code: key.code, Reason: key.reason, Object: s.objectName(),
		}}
		all[key] = f
	}
	if c.Again {
		f.Retried++
	} else {
		f.Count++
	}
	if f.Count+f.Retried == 1 || f.Count == 1 && !c.Again {
		e := f.newEvent(c.Done, step)
		return &e
	}
	return nil
}

// FailedForGood counts the calls that failed for good until now, but those of a step
// and code that are expected; 0 is the code of what had no answer.
func (g *Generator) FailedForGood(expected func(step string, code int) bool) (n int) {
	x := &g.failures
	x.mu.Lock()
	defer x.mu.Unlock()
	for step, all := range x.steps {
		for _, f := range all {
			if !expected(step, f.Code) {
				n += f.Count
			}
		}
	}
	return n
}

// Answer is what came in place of success, in short: the status with the server's
// reason, or why there was no answer.
func Answer(r Result) string {
	s := statusOf(r)
	if r.Response.Code == 0 {
		return s.Message
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", r.Response.Code, s.Reason))
}

// statusOf is what came in place of success.
func statusOf(r Result) object.Status {
	switch {
	case len(r.Response.Body) > 0:
		return object.ReadStatus(r.Response.Body)
	case r.Response.Err != nil:
		return object.Status{Message: r.Response.Err.Error()}
	}
	return object.Status{}
}

// objectName names what the slot's call is about: as the plan says, or the path.
func (s *slot) objectName() string {
	if name := s.flight.plan.Object; name != nil {
		if name := name(s.index); name != "" {
			return name
		}
	}
	return s.req.Path
}

// newEvent is the failure as the records have it.
func (f *failure) newEvent(at clock.Time, step string) record.Event {
	f.written = f.Count + f.Retried
	about := f.Failure
	return record.Event{At: at, Type: record.EventCallsFailed, Name: step, Text: f.message, Detail: record.Detail{Failure: &about}}
}

// eventsSince returns the events of a step's failures that were counted since their
// last ones.
func (x *failures) eventsSince(at clock.Time, step string) (out []record.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(x.steps[step]), func(a, b failureKey) int {
		return cmp.Or(cmp.Compare(a.op, b.op), cmp.Compare(a.code, b.code), cmp.Compare(a.reason, b.reason))
	})
	for _, key := range keys {
		if f := x.steps[step][key]; f.Count+f.Retried > f.written {
			out = append(out, f.newEvent(at, step))
		}
	}
	return out
}
