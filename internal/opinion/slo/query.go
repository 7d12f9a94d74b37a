package slo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/promql"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/scenario"
)

// Question is a PromQL expression that a judgement needs the answer of.
type Question struct {
	Expr string // %v is filled in
	At   clock.Time
}

// Answer is what a question's expression gave: one value for each series, or
// why there is none.
type Answer struct {
	Values   []Value
	Warnings []string
	Err      error
}

// Value is one series of an answer.
type Value struct {
	Labels []record.Label
	Value  float64
}

// asked is a query of the scenario with the stretch of time that it is about.
type asked struct{ query, since, until string }

// askedOf is what an objective asks.
func askedOf(o scenario.Objective) asked {
	return asked{o.Query, cmp.Or(o.Step, o.Since), cmp.Or(o.Step, o.Until)}
}

// newQuestion returns what is to be asked; not ok when the run did not get there.
func (q *queries) newQuestion(a asked) (Question, bool) {
	from, begun := stepMoment(q.f, record.EventStepBegan, a.since, q.f.Begin)
	until, ended := stepMoment(q.f, record.EventStepEnded, a.until, q.f.End)
	if !begun || !ended || until < from {
		return Question{}, false
	}
	window := max(until.Sub(from).Round(time.Second), time.Second)
	expr := strings.ReplaceAll(a.query, "%v", strconv.FormatInt(int64(window/time.Second), 10)+"s")
	return Question{expr, until}, true
}

// queries are a scenario's own, with what the run's series answer.
type queries struct {
	sc         *scenario.Scenario
	f          *run.Facts
	answers    map[Question]Answer
	unanswered []scenario.Measure // whose query had no answer
}

// askQueries answers every query of a run's scenario from the run's own series.
func askQueries(r *run.Run) (*queries, error) {
	out := &queries{sc: r.Scenario, f: r.Facts}
	var all []asked
	for _, o := range r.Scenario.Objectives {
		all = append(all, askedOf(o))
	}
	for _, m := range r.Scenario.Measures {
		all = append(all, asked{m.Query, m.Since, m.Until})
	}
	all = slices.DeleteFunc(all, func(a asked) bool { return a.query == "" })
	if len(all) == 0 {
		return out, nil
	}
	db, err := promql.Open(r.Facts.Series, promql.OptionsOf(r.Manifest))
	if err != nil {
		return nil, err
	}
	out.answers = map[Question]Answer{}
	for _, a := range all {
		q, ok := out.newQuestion(a)
		if _, known := out.answers[q]; ok && !known {
			out.answers[q] = askQuestion(db, q)
		}
	}
	return out, nil
}

// askQuestion asks one question.
func askQuestion(db *promql.DB, q Question) Answer {
	r, err := db.Instant(context.Background(), q.Expr, q.At)
	out := Answer{Err: err, Warnings: r.Warnings}
	for _, s := range r.Series {
		labels := slices.DeleteFunc(slices.Clone(s.Labels), func(l record.Label) bool { return l.Name == "__name__" })
		if n := len(s.Points); n > 0 && s.Points[n-1].Histogram == nil {
			out.Values = append(out.Values, Value{Labels: labels, Value: s.Points[n-1].Value})
		}
	}
	return out
}

// findAnswer returns the answer to a query; an error says why there is none.
func (q *queries) findAnswer(a asked) (Answer, error) {
	if isOfClients(a.query) {
		if err := whyNotAttributed(q.f); err != nil {
			return Answer{}, err
		}
	}
	question, ok := q.newQuestion(a)
	if !ok {
		return Answer{}, fmt.Errorf("the run did not get as far as the steps that it is asked of")
	}
	out, ok := q.answers[question]
	if !ok {
		return out, fmt.Errorf("it was not asked")
	}
	return out, out.Err
}

// judgeQuery judges each series of a query's answer. A series whose value is no
// number had nothing to count in that time; it is left out beside others.
func (q *queries) judgeQuery(r Result, o *scenario.Objective) []Result {
	r.SLI, r.Statistic, r.Unit = "promql", "value", o.Unit
	answer, err := q.findAnswer(askedOf(*o))
	for _, target := range slices.Sorted(maps.Keys(q.f.Cut)) { // nobody can say whose series a query is about
		setUnmeasured(&r, cutOff(target, q.f.Cut[target]))
		return []Result{r}
	}
	switch {
	case err != nil:
		setUnmeasured(&r, err.Error())
		return []Result{r}
	case len(answer.Values) == 0:
		setUnmeasured(&r, "the query has no answer: no series, or none with a value in that time")
		return []Result{r}
	}
	values := slices.DeleteFunc(slices.Clone(answer.Values), func(v Value) bool { return math.IsNaN(v.Value) })
	if len(values) == 0 { // a rate of nothing, or 0/0, in every series
		setUnmeasured(&r, "the query's answer is no number: nothing was counted in that time")
		return []Result{r}
	}
	var out []Result
	for _, v := range values {
		one := r
		one.Labels = labelMap(v.Labels)
		one.Warnings = slices.Clone(answer.Warnings)
		holdAgainstThreshold(&one, stats.Estimate{Value: v.Value, Low: v.Value, High: v.Value, Samples: 1, Interval: [2]float64{v.Value, v.Value}}, false)
		out = append(out, one)
	}
	return out
}

func labelMap(labels []record.Label) map[string]string {
	out := map[string]string{}
	for _, l := range labels {
		out[l.Name] = l.Value
	}
	return out
}

// unmetMeasures returns the measures that the run has no value of, and that are not
// optional. Of a run that was cut short none are: they had no chance.
func (q *queries) unmetMeasures() (out []Unmet) {
	for _, x := range q.unanswered {
		if !x.Optional && q.f.Ended.Reason == record.Done {
			out = append(out, Unmet{"measure " + x.Name, record.NotMeasured, "its query had no answer"})
		}
	}
	return out
}

// unmeasuredOptional returns the names of the other measures that the run has no value of.
func (q *queries) unmeasuredOptional() (out []string) {
	for _, x := range q.unanswered {
		if x.Optional {
			out = append(out, x.Name)
		}
	}
	return out
}

// setMeasures sets those that the scenario asks for. Those without any value are kept.
func (q *queries) setMeasures(m Measures) {
	for _, x := range q.sc.Measures {
		if x.Query == "" {
			continue
		}
		answer, err := q.findAnswer(asked{x.Query, x.Since, x.Until})
		if errors.Is(err, errNotAttributed) || err == nil && !slices.ContainsFunc(answer.Values, func(v Value) bool { return isFinite(v.Value) }) {
			q.unanswered = append(q.unanswered, x)
		}
		for _, v := range answer.Values {
			parts := []string{x.Name}
			if len(answer.Values) > 1 {
				for _, l := range v.Labels {
					parts = append(parts, l.Value)
				}
			}
			m.setOwn(x, joinKey(parts...), v.Value, x.Unit)
		}
	}
}
