package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/record"
)

// TestMain lets scripts call windtunnel, which is this test binary again; it is
// its own reaper, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == process.ReaperArg {
		os.Exit(process.ReaperMain(os.Stdin))
	}
	testscript.Main(m, map[string]func(){
		"windtunnel": func() { os.Exit(dispatchProcess()) },
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			return errors.Join(makeRuns(env.WorkDir), makeSides(env.WorkDir), makeGrown(env.WorkDir), makePublished(env.WorkDir))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exitcode": exitCode},
	})
}

// exitCode runs a command and fails unless it exits with the code given:
// exitcode N command args...
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode N command args...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = err.Error()[len("exit status "):]
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

// makeRuns writes run directories as a run leaves them: one that passes, one
// that fails, one that was killed.
func makeRuns(dir string) error {
	const file = `scenario: small
bodies:
  pod:
    text: "{apiVersion: v1, kind: Pod, metadata: {name: '{{ .Name }}'}}"
steps:
- name: fill
  create: {body: pod, count: 200, pace: {constant: 1000}}
objectives:
- name: calls
  sli: call-latency
  labels: {step: fill}
  statistic: p50
  max: 0.1
`
	for name, latency := range map[string]time.Duration{"pass": 10 * time.Millisecond, "fail": 200 * time.Millisecond, "killed": 10 * time.Millisecond} {
		d, err := record.CreateDir(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := d.Write(record.ScenarioFile, []byte(file)); err != nil {
			return err
		}
		m := record.Manifest{Format: record.Format, Scenario: "small", File: "small.yaml", Seed: 1, Versions: map[string]string{"windtunnel": version}, Started: time.Date(2026, 1, 2, 3, int(name[0]), 0, 0, time.UTC)}
		if err := d.WriteJSON(record.ManifestFile, m); err != nil {
			return err
		}
		if err := writeStream(d.File(record.StreamFile), latency, name != "killed"); err != nil {
			return err
		}
	}
	return nil
}

func writeStream(path string, latency time.Duration, whole bool) error {
	w, err := record.Create(path)
	if err != nil {
		return err
	}
	w.Event(record.Event{Type: record.EventRunBegan, Name: "small"})
	w.Event(record.Event{Type: record.EventStepBegan, Name: "fill"})
	op := w.Op(record.Op{Source: "load", Step: "fill", Verb: "create", Resource: "pods", Scope: "resource"})
	for i := range clock.Time(200) {
		due := i * clock.Time(time.Millisecond)
		w.Call(record.Call{Op: op, Due: due, Sent: due + 1000, Done: due.Add(latency), Code: 201})
	}
	if whole {
		w.Event(record.Event{At: clock.Time(200 * time.Millisecond), Type: record.EventStepEnded, Name: "fill"})
		w.Event(record.Event{At: clock.Time(time.Second), Type: record.EventRunEnded, Detail: record.Detail{Reason: record.Done}})
	}
	return w.Close()
}
