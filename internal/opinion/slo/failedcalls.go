package slo

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// FailedCalls is the SLI that the objective bounds which every scenario has unless
// it says failedCalls: ignore.
const FailedCalls = "failed-calls"

// Failure is one way in which calls of a step did not end well.
type Failure struct {
	Step        string `json:"step"`
	Verb        string `json:"verb"`
	Resource    string `json:"resource"`
	Cluster     string `json:"cluster,omitempty"` // the member; empty: the plane
	Subresource string `json:"subresource,omitempty"`
	Code        int    `json:"code"`               // HTTP status; 0: no answer, or never sent
	Reason      string `json:"reason,omitempty"`   // the server's word, such as Invalid
	Message     string `json:"message,omitempty"`  // of the first one
	Object      string `json:"object,omitempty"`   // of the first one: NAMESPACE/NAME, or what was asked for
	Count       int    `json:"count"`              // calls that failed for good
	Retried     int    `json:"retried,omitempty"`  // attempts that failed and were sent again
	Expected    bool   `json:"expected,omitempty"` // the step says so
}

// failedCalls knows how calls of the load failed, and what was expected.
type failedCalls struct {
	sc *scenario.Scenario
	f  *run.Facts
}

// isExpected tells whether a step of the scenario takes such an answer as it comes.
func (x failedCalls) isExpected(step string, code int) bool {
	for s := range x.sc.AllSteps() {
		if s.Name == step {
			return slices.Contains(s.Expects, code)
		}
	}
	return false
}

// unseenRefusals says of steps that expect to be refused, and none of whose calls was: expects lets
// refusals pass, and does not demand them. failures are those of listFailures.
func (x failedCalls) unseenRefusals(failures []Failure) (out []string) {
	for s := range x.sc.AllSteps() {
		refusals := len(s.Expects) > 0 && !slices.ContainsFunc(s.Expects, func(code int) bool {
			return code < 400 || code >= 500 || code == http.StatusTooManyRequests
		})
		sent := slices.ContainsFunc(x.f.Calls, func(c *run.Calls) bool { return c.Source == run.Load && c.Step == s.Name && c.Count() > 0 })
		if refusals && sent && !slices.ContainsFunc(failures, func(f Failure) bool { return f.Step == s.Name && f.Expected }) {
			out = append(out, fmt.Sprintf("No call of step %s was refused with %s, which it expects; an objective on call-success with max demands it.",
				s.Name, strings.Trim(strings.ReplaceAll(fmt.Sprint(s.Expects), " ", " or "), "[]")))
		}
	}
	return out
}

// listFailures returns the ways in which calls failed: those that were not expected first, of
// these the most frequent ones. Where the records do not have the last count of
// a step, as those of a run that was killed, its calls have it.
func (x failedCalls) listFailures() []Failure {
	var out []Failure
	for _, one := range x.f.Failures {
		out = append(out, Failure{
			Step: one.Step, Verb: one.Verb, Resource: one.Resource, Cluster: one.Cluster, Subresource: one.Subresource, Code: one.Code,
			Reason: one.Reason, Message: one.Message, Object: one.Object, Count: one.Count, Retried: one.Retried,
		})
	}
	for _, c := range x.f.Calls {
		if c.Source != run.Load {
			continue
		}
		for code, n := range c.FailedForGood() {
			out = upTo(out, Failure{Step: c.Step, Verb: c.Verb, Resource: c.Resource, Cluster: c.Cluster, Subresource: c.Subresource, Code: code, Count: n})
		}
	}
	for i := range out {
		out[i].Expected = x.isExpected(out[i].Step, out[i].Code)
	}
	slices.SortStableFunc(out, func(a, b Failure) int {
		if a.Expected != b.Expected {
			return map[bool]int{false: -1, true: 1}[a.Expected]
		}
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.Retried, a.Retried), strings.Compare(a.Step, b.Step), cmp.Compare(a.Code, b.Code))
	})
	return out
}

// upTo sees to it that the failures of one operation and code are as many as were
// counted.
func upTo(all []Failure, counted Failure) []Failure {
	first, have := -1, 0
	for i, one := range all {
		if one.Step == counted.Step && one.Verb == counted.Verb && one.Resource == counted.Resource &&
			one.Subresource == counted.Subresource && one.Cluster == counted.Cluster && one.Code == counted.Code {
			if have += one.Count; first < 0 {
				first = i
			}
		}
	}
	switch {
	case have >= counted.Count:
	case first < 0:
		return append(all, counted)
	default:
		all[first].Count += counted.Count - have
	}
	return all
}

// implicitObjectives is the objective on the calls that no other objective bounds; none
// where the scenario wants none, or the load made no such call.
func (x failedCalls) implicitObjectives() []scenario.Objective {
	if x.sc.FailedCalls == scenario.Ignore || !slices.ContainsFunc(x.f.Calls, func(c *run.Calls) bool { return c.Source == run.Load && c.Count() > 0 && !x.hasObjective(c) }) {
		return nil
	}
	none := 0.0
	return []scenario.Objective{{Name: "failed calls of the load", SLI: FailedCalls, Statistic: "count", Max: &none}}
}

// hasObjective tells whether an objective of the scenario says how many of an
// operation's calls may fail: a bound on the other side allows any number of failures.
func (x failedCalls) hasObjective(c *run.Calls) bool {
	return slices.ContainsFunc(x.sc.Objectives, func(o scenario.Objective) bool {
		return (o.SLI == FailedCalls && o.Max != nil || o.SLI == "call-success" && o.Min != nil) && matchesLabels(c, withStep(o.Labels, o.Step))
	})
}

// judgeFailedCalls holds how many calls of the load failed for good against a bound. What
// had no answer may have been done: it is counted, and convicts nobody. The
// scenario's own objectives count all of their labels' calls, the implicit one
// those that are left.
func (x failedCalls) judgeFailedCalls(r *Result, o *scenario.Objective) {
	r.Unit = "calls"
	implicit := !slices.ContainsFunc(x.sc.Objectives, func(own scenario.Objective) bool { return own.Name == o.Name && own.SLI == o.SLI })
	var total, failed, lost, refused int
	for _, c := range x.f.Calls {
		if !matchesLabels(c, o.Labels) || implicit && x.hasObjective(c) {
			continue
		}
		total += c.Count()
		for code, n := range c.Refused {
			if x.isExpected(c.Step, int(code)) {
				continue
			}
			failed += n
			refused += x.countRefusals(c, code, n)
		}
		if !x.isExpected(c.Step, 0) {
			lost += c.Lost
		}
	}
	e := stats.Estimate{Value: float64(failed + lost), Low: float64(failed), High: float64(failed + lost), Samples: total,
		Interval: [2]float64{math.Inf(-1), math.Inf(1)}}
	holdAgainstThreshold(r, e, false)
	if r.Value == nil || r.AtLeast {
		return
	}
	if r.certain = float64(refused) > r.Threshold; float64(failed) <= r.Threshold && float64(failed+lost) > r.Threshold {
		r.Verdict = Unknown
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s had no answer, and may have been done", unit.Count(lost, "calls")))
	}
	r.Failed = failed + lost
	for _, one := range x.listFailures() {
		if named := len(r.Warnings); !one.Expected && one.Count > 0 && named < describedResults && matchesFailure(one, o.Labels) {
			r.Warnings = append(r.Warnings, one.String())
		}
	}
}

// matchesFailure tells whether a failure is one of those that labels mean.
func matchesFailure(f Failure, labels map[string]string) bool {
	have := map[string]string{"step": f.Step, "verb": f.Verb, "resource": f.Resource, "subresource": f.Subresource, "cluster": f.Cluster}
	for name, value := range labels {
		if got, ok := have[name]; ok && got != value {
			return false
		}
	}
	return true
}

// manyCalls is how many calls of one operation are enough to say, where every one of
// them was refused, that timing is not the reason.
const manyCalls = 10

// countRefusals returns how many of an operation's n answers with a code refuse what was
// asked, however busy the machine and however slow the instrument was. An answer is
// no latency: it is a matter of timing only where its code or its message says so, and
// not where no call of the operation was answered otherwise.
func (x failedCalls) countRefusals(c *run.Calls, code uint16, n int) int {
	refused := 0
	for with, all := range c.Refused {
		if with != 0 { // never sent
			refused += all
		}
	}
	if code != 0 && refused >= manyCalls && refused == c.Count() {
		return n
	}
	switch code {
	case 0, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return 0
	}
	late := 0
	for _, one := range x.f.Failures {
		if one.Step == c.Step && one.Verb == c.Verb && one.Resource == c.Resource && one.Subresource == c.Subresource && one.Cluster == c.Cluster &&
			one.Code == int(code) && ofTime(one.Message) {
			late += one.Count
		}
	}
	return max(0, n-late)
}

// ofTime tells whether a server says that something took it too long, or that it was
// not ready yet, in an answer whose code does not say so.
func ofTime(message string) bool {
	for _, word := range []string{"timed out", "timeout", "deadline exceeded", "context canceled", "no leader", "leader changed", "not yet", "too many requests"} {
		if strings.Contains(strings.ToLower(message), word) {
			return true
		}
	}
	return false
}

// String says a failure in one clause.
func (f Failure) String() string {
	where := ""
	if f.Cluster != "" {
		where = " in " + f.Cluster
	}
	return fmt.Sprintf("%d of step %s, %s %s%s: %s", f.Count, f.Step, f.Verb, f.Target(), where, f.Answer())
}

// Target is what was called: the resource, with its subresource.
func (f Failure) Target() string {
	if f.Subresource == "" {
		return f.Resource
	}
	return f.Resource + "/" + f.Subresource
}

// Status is the code of the answers with the server's reason.
func (f Failure) Status() string {
	if f.Code == 0 {
		return "no answer"
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", f.Code, f.Reason))
}

// Answer is what came in place of success: code, reason and message, and of which
// object that was.
func (f Failure) Answer() string {
	text := f.Status()
	if f.Message != "" {
		text += ": " + f.Message
	}
	if f.Object != "" {
		text += " (" + f.Object + ")"
	}
	return text
}
