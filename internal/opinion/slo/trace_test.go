package slo_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestVerdicts plays records, which last from 10 to 100 s, and holds the verdict
// on them, its reasons and each objective's result.
func TestVerdicts(t *testing.T) {
	repotest.Trace(t, "testdata/verdicts.trace", func(t *testing.T, s repotest.Step) string {
		f := newFlight(t)
		if s.Name == "widgets" {
			f.sc.Lifecycles = widgetLifecycles()
		}
		for line := range strings.Lines(s.Input) {
			f.play(strings.Fields(line))
		}
		switch {
		case s.Args["failed"] != "":
			f.fails(s.Args["step"], s.Args["failed"])
		case s.Args["end"] != "":
			f.end(record.EndReason(s.Args["end"]))
		}
		return said(f.judge())
	})
}

// play writes the records that a line of a trace stands for.
func (f *flight) play(words []string) {
	args := map[string]string{}
	var order []string
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		args[key] = value
		order = append(order, key)
	}
	number := func(key string) float64 {
		v, err := strconv.ParseFloat(args[key], 64)
		if err != nil && args[key] != "" {
			f.t.Fatal(err)
		}
		return v
	}
	switch words[0] {
	case "objective":
		f.objective(objectiveOf(f.t, order, args))
	case "pods":
		f.pods(args["group"], int(number("count")), number("took"))
	case "pod":
		f.interrupted(args["group"], strings.Join(words[2:], " "))
	case "widget":
		f.live("widget", "", strings.Join(words[1:], " "))
	case "calls": // that last as long as took says, one each 10 ms
		op := loadOp()
		op.Source, op.Verb, op.Resource = orElse(args["source"], op.Source), orElse(args["verb"], op.Verb), orElse(args["resource"], op.Resource)
		outcome := map[string]record.Outcome{"": record.OK, "failed": record.Failed, "unknown": record.Unknown}[args["outcome"]]
		for i := range int(number("count")) {
			f.call(op, 20+float64(i)/100, number("late"), number("took"), outcome)
		}
	case "requests": // of the API server's own histogram, all of one duration
		f.histogram(50, request{args["verb"], args["group"], args["resource"], "", orElse(args["scope"], "resource")}, map[float64]int{number("took"): int(number("count"))})
	case "event":
		f.event(number("at"), record.EventType(args["type"]), args["name"], strings.ReplaceAll(args["text"], "_", " "))
	default:
		f.t.Fatalf("no record %s", words[0])
	}
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// objectiveOf makes an objective; what is no field of it is a label.
func objectiveOf(t testing.TB, order []string, args map[string]string) scenario.Objective {
	o := scenario.Objective{Labels: map[string]string{}}
	for _, key := range order {
		v := args[key]
		switch key {
		case "sli":
			o.SLI = v
		case "slo":
			o.SLO = v
		case "statistic":
			o.Statistic = v
		case "min", "max":
			bound := repotest.Must(strconv.ParseFloat(v, 64))(t)
			if key == "max" {
				o.Max = &bound
			} else {
				o.Min = &bound
			}
		default:
			o.Labels[key] = v
		}
	}
	return o
}

// said is a judgement in words: its verdict, its reasons, and each result.
func said(j slo.Judgement) string {
	var out strings.Builder
	fmt.Fprintln(&out, j.Verdict)
	for _, r := range j.Reasons {
		fmt.Fprintln(&out, "-", r)
	}
	for _, r := range j.Objectives {
		value, bound := "no value", "at most"
		if r.Value != nil {
			value = fmt.Sprintf("%.6g %s of %d", *r.Value, r.Unit, r.Samples)
		}
		if r.Interval != nil {
			value += fmt.Sprintf(" in [%.6g, %.6g]", r.Interval[0], r.Interval[1])
		}
		if r.AtLeast {
			bound = "at least"
		}
		fmt.Fprintf(&out, "%s: %s: %s, %s %g\n", slo.Title(r), r.Verdict, value, bound, r.Threshold)
		for _, w := range r.Warnings {
			fmt.Fprintln(&out, "  "+w)
		}
	}
	return out.String()
}

// TestBounds holds what is known of the time between two phases of one object, by
// what was recorded of it: a phase and its time, and after a "~" how long before
// it may have been reached.
func TestBounds(t *testing.T) {
	repotest.Trace(t, "testdata/bounds.trace", func(t *testing.T, s repotest.Step) string {
		var out strings.Builder
		for line := range strings.Lines(s.Input) {
			name, phases, _ := strings.Cut(strings.TrimSpace(line), ": ")
			f := newFlight(t)
			if s.Name == "widget" {
				f.sc.Lifecycles = widgetLifecycles()
				f.live("widget", "", phases)
			} else {
				f.interrupted("g", phases)
			}
			f.end(record.Done)
			f.judge()
			facts := repotest.Must(run.Collect(f.path, f.m))(t)
			fmt.Fprintf(&out, "%s: %s\n", name, known(facts, s))
		}
		return out.String()
	})
}

// known says the bounds of one duration.
func known(f *run.Facts, s repotest.Step) string {
	d := f.Took(f.Named(s.Name), s.Args["from"], s.Args["to"])
	e := d.Max()
	switch {
	case d.Len() == 0:
		return "no part in it"
	case d.Len() > 1:
		return fmt.Sprintf("%d samples", d.Len())
	case math.IsInf(e.High, 1):
		return fmt.Sprintf("%.6g s or more", e.Low)
	case e.High-e.Low < 1e-9:
		return fmt.Sprintf("%.6g s", e.Low)
	}
	return fmt.Sprintf("between %.6g and %.6g s", e.Low, e.High)
}
