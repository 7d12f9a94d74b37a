package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/opinion/judge"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// What a run prints at its end: with a form for programs or pages stdout has
// nothing else.
func TestConclude(t *testing.T) {
	dir := t.TempDir()
	repotest.NoError(t, makeRuns(dir))
	run := record.Dir(filepath.Join(dir, "pass"))
	judgement := repotest.Must(judge.Write(string(run)))(t)
	conclude := func(l leftover, r flight.Result) (stdout, stderr string, err error) {
		var out, fault bytes.Buffer
		err = l.printResult(&environment{stdout: &out, stderr: &fault}, r)
		return out.String(), fault.String(), err
	}
	done := flight.Result{Dir: run, Judgement: judgement}
	for _, c := range []struct{ output, begins, where string }{
		{"table", "windtunnel  small", "stdout"}, {"markdown", "### ✅ small", "stderr"}, {"json", "{\n", "stderr"},
	} {
		stdout, stderr, err := conclude(leftover{output: c.output}, done)
		var verdict verdictError
		if !errors.As(err, &verdict) || verdict.exitCode() != exitPass || !strings.HasPrefix(stdout, c.begins) {
			t.Errorf("%s: %v, %q", c.output, err, stdout)
		}
		if where := map[string]string{"stdout": stdout, "stderr": stderr}[c.where]; !strings.Contains(where, "run directory: "+string(run)) {
			t.Errorf("%s: %s does not say where the run is: %q", c.output, c.where, where)
		}
		if c.output == "json" && !json.Valid([]byte(stdout)) {
			t.Errorf("not JSON: %q", stdout)
		}
	}
	if _, stderr, err := conclude(leftover{output: "json", columns: true}, done); !strings.Contains(stderr, "calls.parquet: 200 rows") {
		t.Errorf("%v, %q", err, stderr)
	}
	if _, err := os.Stat(filepath.Join(string(run)+"-parquet", "events.parquet")); err != nil {
		t.Error(err)
	}
	// A run that ended early has a result, and its verdict is unknown.
	_, stderr, err := conclude(leftover{output: "table"}, flight.Result{Dir: run, Judgement: judgement, Err: flight.ErrInterrupted})
	var verdict verdictError
	if !errors.As(err, &verdict) || verdict.verdict != slo.Unknown || !strings.Contains(stderr, "run aborted: interrupted") {
		t.Errorf("%v, %q", err, stderr)
	}
	// A plane that did not start leaves nothing to print.
	if stdout, _, err := conclude(leftover{output: "table"}, flight.Result{Dir: run, Err: flight.ErrBoot}); stdout != "" || !errors.Is(err, flight.ErrBoot) {
		t.Errorf("%v, %q", err, stdout)
	}
}
