// Command baseline judges the benchmarks of this tree against those that were kept,
// by the project's own comparison: it reads two outputs of go test -bench, each with
// its benchmarks repeated, takes the nth repetition of all for one run, and compares
// the runs of the one with those of the other.
//
// Times are judged between outputs of one kind of CPU alone, and with -allocations
// not at all, for a machine that others use. Bytes and allocations an operation belong
// to the code and not to the machine: they are judged always; with -allocations, their
// number alone, since bytes turn with what a pool has lost to the collector.
//
// It exits 1 when a time is surely worse by more than -fail-above or a count is
// higher by more than -counts-above beyond chance, and 3 when it cannot read a file.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
)

func main() {
	kept := flag.String("kept", "bench/baseline/baseline.txt", "the output that is kept")
	above := flag.Float64("fail-above", 0.25, "share by which a time may be worse")
	counts := flag.Float64("counts-above", 0.05, "share by which bytes or allocations may be more")
	allocations := flag.Bool("allocations", false, "judge the number of allocations alone")
	flag.Parse()
	worse, err := judgeOutputs(os.Stdout, *kept, flag.Arg(0), bounds{*above, *counts}, *allocations)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	case len(worse) > 0:
		fmt.Printf("\nWorse than %s:\n  %s\n", *kept, strings.Join(worse, "\n  "))
		os.Exit(1)
	}
}

// bounds are the shares by which times and counts may be worse.
type bounds struct{ times, counts float64 }

// judgeOutputs compares two outputs, writes the comparison, and returns what is worse in
// the newer one; allocations judges their number alone.
func judgeOutputs(w io.Writer, kept, now string, b bounds, allocations bool) ([]string, error) {
	a, err := readRuns(kept, allocations)
	if err != nil {
		return nil, err
	}
	newer, err := readRuns(now, allocations)
	if err != nil {
		return nil, err
	}
	c, err := compare.Compare(a, newer, compare.Options{NameA: "kept", NameB: "now", FailAbove: b.times})
	if err != nil {
		return nil, err
	}
	if err := c.Text(w); err != nil {
		return nil, err
	}
	return worseThanBounds(c, b.counts), nil
}

// worseThanBounds names the times and counts that are beyond their bounds.
func worseThanBounds(c *compare.Comparison, above float64) []string {
	out := slices.Clone(c.Gate.Failed)
	for _, k := range c.Counters {
		if a, b := k.Medians(); b > a*(1+above) && (k.Shown || k.State == compare.Differs) {
			out = append(out, fmt.Sprintf("%s: %.0f %s, was %.0f", k.Name, b, k.Unit, a))
		}
	}
	return out
}

// readRuns returns the repetitions of an output, each as a run that has passed.
func readRuns(path string, allocations bool) ([]compare.Run, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var runs []compare.Run
	seen := map[string]int{} // benchmark -> its repetitions until now
	for in := benchfmt.NewReader(f, path); in.Scan(); {
		result, ok := in.Result().(*benchfmt.Result)
		if !ok {
			continue // what tests and benchmarks print besides
		}
		name := result.GetConfig("pkg") + "." + result.Name.String()
		nth := seen[name]
		seen[name]++
		if nth == len(runs) {
			runs = append(runs, newRun(path, nth, result.GetConfig("cpu")))
		}
		addResult(&runs[nth], name, result, allocations)
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("%s: %w", path, errEmpty)
	}
	return runs, nil
}

var errEmpty = errors.New("no benchmark's result in it; want the output of go test -bench")

func newRun(path string, nth int, cpu string) compare.Run {
	return compare.Run{
		Name:      fmt.Sprintf("%s, repetition %d", path, nth+1),
		Manifest:  record.Manifest{Scenario: "benchmarks", Machine: record.Machine{CPU: cpu}},
		Judgement: slo.Judgement{Verdict: slo.Pass, Measures: map[string]slo.Measure{}},
		Facts:     &compare.Facts{Ended: record.Event{Detail: record.Detail{Reason: record.Done}}},
	}
}

// addResult takes a benchmark's times as measures, where less is better, and what it
// allocates as counters.
func addResult(r *compare.Run, name string, result *benchfmt.Result, allocations bool) {
	for _, v := range result.Values {
		if allocations && v.Unit != "allocs/op" {
			continue
		}
		switch v.Unit {
		case "sec/op":
			r.Judgement.Measures[name] = slo.Measure{Value: v.Value, Unit: "s", Own: true, Better: string(compare.Lower)}
		case "B/op", "allocs/op":
			r.Facts.Counters = append(r.Facts.Counters, compare.Count{Name: name, Unit: v.Unit, Value: v.Value})
		}
	}
}
