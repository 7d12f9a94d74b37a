package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/share/message"
	"github.com/windtunnel/windtunnel/internal/fly/share/protocol"
	"github.com/windtunnel/windtunnel/internal/fly/stages"
	"github.com/windtunnel/windtunnel/internal/fly/subject"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestMain is a reaper, too: what looks after the subjects that these tests start.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == process.ReaperArg {
		os.Exit(process.ReaperMain(os.Stdin))
	}
	os.Exit(m.Run())
}

// runs is a kubeconfig whose credentials come from a program, which makes a file.
func runs(t *testing.T, marker string) []byte {
	t.Helper()
	script := filepath.Join(t.TempDir(), "plugin")
	repotest.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\ntouch "+marker+"\n"), 0o700))
	return fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}],
users: [{name: a, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: %s, interactiveMode: Never}}}]}`, script)
}

// TestAHostileLeaderRunsNothing points workers that somebody has started at leaders that want
// a program of theirs to run, or a kubeconfig of their machine to be used.
func TestAHostileLeaderRunsNothing(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "marker")
	config := runs(t, marker)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	repotest.NoError(t, os.WriteFile(path, config, 0o600))
	text := []byte("scenario: x\nnamespaces: {count: 1}\nfleet: {nodes: 1}\nsteps: [{pause: 1ms}]\n")
	for name, c := range map[string]struct {
		plan message.Plan
		want error
	}{
		"a program in a sender's kubeconfig": {message.Plan{Text: text, Kubeconfig: config, Senders: 1}, endpoint.ErrOutside},
		"a program in a fleet's kubeconfig":  {message.Plan{Text: text, FleetKubeconfig: config}, endpoint.ErrOutside},
		"a kubeconfig of the machine":        {message.Plan{Text: text, Cluster: path, Senders: 1}, errNotLocal},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := c.plan.Encode()
			repotest.NoError(t, err)
			leader := repotest.Must(protocol.Lead(protocol.Options{Workers: 1, Clock: clock.Start(), Folder: t.TempDir(), Plan: raw}))(t)
			defer leader.Close()
			err = Work(t.Context(), Options{Access: leader.Access(0), Spool: filepath.Join(t.TempDir(), "records.wt"), Log: slog.New(slog.DiscardHandler)})
			if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the program has run")
	}
}

// TestAHostileLeaderStartsNoSubject asks a keeper for a subject, which is a program.
func TestAHostileLeaderStartsNoSubject(t *testing.T) {
	k := &keeper{scenario: &scenario.Scenario{Subjects: []scenario.Subject{{Name: "x"}}}}
	part := repotest.Must(json.Marshal(message.Keep{Subject: &message.Subject{Name: "x"}}))(t)
	if _, err := k.Prepare(t.Context(), part); !errors.Is(err, errNotLocal) {
		t.Errorf("%v", err)
	}
	k.local = true
	if _, err := k.Prepare(t.Context(), part); err != nil {
		t.Errorf("a process of the run itself: %v", err)
	}
}

// TestSubjectsEndBeforeTheWorkerLeaves starts two subjects, which are programs, and ends them
// alone: the worker keeps what else it has.
func TestSubjectsEndBeforeTheWorkerLeaves(t *testing.T) {
	k := &keeper{scenario: &scenario.Scenario{}, leaving: make(chan struct{}), worker: worker{local: true, log: slog.New(slog.DiscardHandler), clock: clock.Start()}}
	t.Cleanup(k.close)
	do := func(part message.Keep) any {
		t.Helper()
		raw := repotest.Must(json.Marshal(part))(t)
		task := repotest.Must(k.Prepare(t.Context(), raw))(t)
		return repotest.Must(task.Send(t.Context(), 0))(t)
	}
	do(message.Keep{EndSubjects: true}) // of which there are none yet
	var programs []process.Identity
	for _, name := range []string{"a", "b"} {
		k.scenario.Subjects = append(k.scenario.Subjects, scenario.Subject{Name: name, Command: "/bin/sleep", Args: []string{"1h"}})
		started, ok := do(message.Keep{Subject: &message.Subject{Name: name, Folder: t.TempDir(), Logs: t.TempDir(), Kubeconfig: "k"}}).(subject.Started)
		if !ok {
			t.Fatal("no subject was started")
		}
		program := repotest.Must(process.Of(started.PID))(t)
		programs = append(programs, program)
	}
	do(message.Keep{EndSubjects: true})
	for _, one := range programs {
		if one.Alive() {
			t.Errorf("process %d has not ended", one.PID)
		}
	}
	if said, ok := k.Progress().(message.Progress); !ok || said.Died != nil || k.over {
		t.Errorf("a subject that was ended has died: %+v, or the worker has left: %v", said, k.over)
	}
}

// TestAPlanReadsNoFilesOfTheMachine compiles scenarios whose bodies, due times and stages are
// files that the leader has not sent.
func TestAPlanReadsNoFilesOfTheMachine(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret.yaml")
	repotest.NoError(t, os.WriteFile(outside, []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}"), 0o600))
	up := repotest.Must(filepath.Rel(os.TempDir(), outside))(t)
	for _, name := range []string{outside, "../" + up} {
		text := fmt.Sprintf("scenario: x\nnamespaces: {count: 1}\nbodies: {b: {file: %q}}\nsteps: [{name: c, create: {body: b, count: 1, pace: {constant: 1}}}]\n", name)
		if _, err := compileScenario(message.Plan{Text: []byte(text)}, t.TempDir()); err == nil {
			t.Errorf("body file %s was read", name)
		}
		if err := (message.Plan{Files: map[string][]byte{name: nil}}).WriteFiles(t.TempDir()); err == nil {
			t.Errorf("%s was written", name)
		}
		if _, err := stages.Compile(scenario.Fleet{Stages: []string{name}}, t.TempDir()); err == nil {
			t.Errorf("stages %s were read", name)
		}
	}
	if _, err := record.Create(outside); err == nil {
		t.Error("records are written over a file that is there")
	}
}
