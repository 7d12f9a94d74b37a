package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
)

// trial is the outcome of one experiment, a line of trials.jsonl.
type trial struct {
	Trial     int             `json:"trial"` // from 1
	Scenario  string          `json:"scenario"`
	A         string          `json:"a"`
	B         string          `json:"b"`
	Set       string          `json:"set,omitempty"`
	Asked     int             `json:"runs_asked"` // of each side
	Runs      [2]int          `json:"runs"`       // that were compared
	Measure   string          `json:"measure"`
	Found     bool            `json:"found"` // B is worse, beyond chance
	Outcome   compare.Outcome `json:"outcome"`
	Ratio     *float64        `json:"ratio"`    // B / A
	Interval  *[2]float64     `json:"interval"` // 95 %
	Corrected float64         `json:"p_corrected"`
	Others    []string        `json:"other_measures_told"` // worse or better, too
	Warnings  int             `json:"warnings"`
	Seconds   float64         `json:"seconds"` // that the rest of it took, where an earlier call began it
}

// String says a trial on one line.
func (t trial) String() string {
	text := fmt.Sprintf("%s, p %.2g, %d and %d runs, %.0f s", t.Outcome, t.Corrected, t.Runs[0], t.Runs[1], t.Seconds)
	if t.Ratio != nil && t.Interval != nil {
		text = fmt.Sprintf("ratio %.3f (%.3f to %.3f), ", *t.Ratio, t.Interval[0], t.Interval[1]) + text
	}
	return text
}

// seedStep keeps the seeds of trials apart: each pair of runs takes the next.
const seedStep = 1000

// flyTrial flies one experiment.
func (p plan) flyTrial(ctx context.Context, n int) (trial, error) {
	var out bytes.Buffer
	args := []string{"ab", p.scenario, "--a", p.a, "--b", p.b, "--repeats", strconv.Itoa(p.runs),
		"--seed", strconv.Itoa(n * seedStep), "--out", filepath.Join(p.out, fmt.Sprintf("trial-%02d", n)), "--output", "json"}
	if p.set != "" {
		args = append(args, "--set", p.set)
	}
	cmd := exec.CommandContext(ctx, p.binary, args...)
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	// It hears of Ctrl-C from us alone, once: a second signal would end it at once.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 2 * time.Minute
	err := cmd.Run()
	if ctx.Err() != nil {
		return trial{}, fmt.Errorf("interrupted in trial %d: the same command goes on from here", n)
	}
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || out.Len() == 0) {
		return trial{}, fmt.Errorf("trial %d: %w", n, err)
	}
	var c compare.Comparison
	if err := json.Unmarshal(out.Bytes(), &c); err != nil {
		return trial{}, fmt.Errorf("trial %d: read the comparison: %w", n, err)
	}
	return p.outcomeOf(n, &c)
}

// outcomeOf takes out of a comparison what is asked of it.
func (p plan) outcomeOf(n int, c *compare.Comparison) (trial, error) {
	t := trial{Trial: n, Scenario: p.scenario, A: p.a, B: p.b, Set: p.set, Asked: p.runs, Measure: p.measure, Others: []string{},
		Runs: [2]int{len(c.A.Runs), len(c.B.Runs)}, Warnings: len(c.Warnings)}
	known := false
	for _, m := range c.Measures {
		switch {
		case m.Key == p.measure:
			known = true
			t.Outcome, t.Ratio, t.Interval, t.Corrected = m.Outcome, m.Ratio, m.Interval, m.Corrected
			t.Found = m.Outcome == compare.Worse
		case m.Differs():
			t.Others = append(t.Others, m.Key)
		}
	}
	if !known {
		return t, fmt.Errorf("trial %d: the runs have no measure %s", n, p.measure)
	}
	return t, nil
}
