// Command power asks how often a slowdown that is known beforehand is found: it
// flies the same experiment again and again with `windtunnel ab`, N trials of M
// runs a side, each run on a fresh plane, and counts the trials in which the
// comparison calls B worse. It is no part of windtunnel.
//
// The result of each trial is appended to OUT/trials.jsonl as soon as it is
// there, and ab keeps its runs: the same command goes on where an earlier one
// was stopped. It exits 0 when the slowdown is found in at least 9 of 10 trials.
//
// A fresh plane costs some five seconds a run, half of its time. One plane for
// a whole block would spare them, but its runs would share its history: caches
// that grow, compactions that come due, a heap that was large once. The test of
// the comparison takes runs to be exchangeable, so they are made so.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// plan is what is flown.
type plan struct {
	binary, scenario, a, b string
	set                    string // another parameter of both sides, name=value; empty: none
	measure                string // key that the slowdown is to be found in
	out                    string // folder of everything
	trials, runs           int
}

func main() {
	var p plan
	flag.StringVar(&p.binary, "bin", "bin/windtunnel", "the binary to fly with")
	flag.StringVar(&p.scenario, "scenario", "examples/compare/slower-answers.yaml", "the scenario")
	flag.StringVar(&p.a, "a", "factor=1", "the parameter in A")
	flag.StringVar(&p.b, "b", "factor=1.1", "the parameter in B")
	flag.StringVar(&p.set, "set", "", "another parameter of both sides, such as roundTrip=80ms on a machine that others use")
	flag.StringVar(&p.measure, "measure", "call_latency_p50_seconds_writes", "the measure that the slowdown is to be found in")
	flag.StringVar(&p.out, "out", "bench/out/power", "folder of runs and results")
	flag.IntVar(&p.trials, "trials", 10, "how many experiments")
	flag.IntVar(&p.runs, "runs", 10, "runs of each side in one of them")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	found, err := p.flyTrials(ctx)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	case 10*found < 9*p.trials:
		os.Exit(1)
	}
}

// flyTrials flies the trials that are not there yet and returns in how many of all
// the slowdown was found.
func (p plan) flyTrials(ctx context.Context) (found int, err error) {
	if p.trials < 1 || p.runs < 1 {
		return 0, errors.New("-trials and -runs: want at least 1")
	}
	if err := os.MkdirAll(p.out, 0o755); err != nil {
		return 0, fmt.Errorf("make %s: %w", p.out, err)
	}
	l, err := openLedger(filepath.Join(p.out, "trials.jsonl"))
	if err != nil {
		return 0, err
	}
	defer l.close()
	watch := clock.Start()
	for n := 1; n <= p.trials; n++ {
		t, done := l.findTrial(n, p)
		if !done {
			begin := watch.Now()
			if t, err = p.flyTrial(ctx, n); err != nil {
				return found, err
			}
			t.Seconds = watch.Now().Sub(begin).Seconds()
			if err := l.appendTrial(t); err != nil {
				return found, err
			}
		}
		if t.Found {
			found++
		}
		fmt.Printf("trial %2d of %d: %s\n", n, p.trials, t)
	}
	fmt.Printf("found %d of %d: %s against %s, %d runs a side, %s\n", found, p.trials, p.b, p.a, p.runs, p.measure)
	return found, nil
}
