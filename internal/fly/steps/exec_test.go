package steps

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// newExecBench is a bench whose steps run commands.
func newExecBench(t *testing.T, text string) *bench {
	t.Helper()
	b := newBench(t, text)
	b.runCommands(t)
	return b
}

// runCommands gives the bench a plane whose commands nobody looks after.
func (b *bench) runCommands(t *testing.T) {
	t.Helper()
	var err error
	if b.Plane, err = plane.Beside("kubeconfig", nil, plane.Options{Executable: filepath.Join(t.TempDir(), "none")}); err != nil {
		t.Fatal(err)
	}
}

// endOf returns the end of a step in the records of a run: its state and its text.
func (b *bench) endOf(t *testing.T, step string) string {
	t.Helper()
	repotest.NoError(t, b.Journal.Records.Close())
	out := "no end"
	repotest.Must(record.Read(b.Dir.File(record.StreamFile), func(*record.Stream) record.Visitor {
		return record.Visitor{Event: func(e record.Event) {
			if e.Type == record.EventStepEnded && e.Name == step {
				out = strings.TrimSpace(string(e.State) + " " + e.Text)
			}
		}}
	}))(t)
	return out
}

// TestHowCommandsEnd: each end of a command but exit code 0 is in the records.
func TestHowCommandsEnd(t *testing.T) {
	const late = "command `sleep` did not end within its timeout of 50ms and was killed"
	// The main step ends when the command beside it has, and was seen to.
	const beside = `- parallel: [{name: x, beside: true, exec: {command: [sh, -c, "echo $$ > pid; exit 3"]}}, ` +
		`{name: main, exec: {command: [sh, -c, "until test -s pid; do sleep 0.01; done; while kill -0 $(cat pid); do sleep 0.01; done 2>/dev/null"]}}]`
	left := func(who string) string {
		return "command `sh` ended and left " + who + " running in the background, killed with it: " +
			"have the command wait for what it starts, or run that in a step of its own (parallel, beside: true)"
	}
	pid := regexp.MustCompile(`\(pid [0-9]+\)`)
	for _, c := range []struct {
		name, steps string
		want        string
		stops       bool // the run
	}{
		{"done", `- {name: x, exec: {command: ["true"]}}`, "", false},
		{"code", `- {name: x, exec: {command: [sh, -c, exit 3]}}`, "failed command `sh` exited with code 3", true},
		{"code, and on", `- {name: x, onFailure: continue, exec: {command: [sh, -c, exit 3]}}`, "failed command `sh` exited with code 3", false},
		{"a process in the background", `- {name: x, exec: {command: [sh, -c, "sleep 60 &"]}}`, left("sleep (pid)"), true},
		{"two, and on", `- {name: x, onFailure: continue, exec: {command: [sh, -c, "sleep 60 & sleep 70 &"]}}`, left("sleep (pid), sleep (pid)"), false},
		{"one that outlives a failure", `- {name: x, exec: {command: [sh, -c, "sleep 60 & exit 4"]}}`, "failed command `sh` exited with code 4", true},
		{"signal", `- {name: x, exec: {command: [sh, -c, kill -ABRT $$]}}`, "failed command `sh` was ended by a signal: aborted", true},
		{"timeout", `- {name: x, exec: {command: [sleep, "60"], timeout: 50ms}}`, late, true},
		{"timeout, and on", `- {name: x, onFailure: continue, exec: {command: [sleep, "60"], timeout: 50ms}}`, late, false},
		{"no such program", `- {name: x, exec: {command: [no-such-command]}}`, "command `no-such-command`: exec: \"no-such-command\": executable file not found in $PATH", true},
		{"stopped with those beside it", `- parallel: [{name: x, beside: true, exec: {command: [sleep, "60"]}}, {name: main, pause: 50ms}]`, "", false},
		{"code beside others", beside, "failed command `sh` exited with code 3", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newExecBench(t, head(1)+c.steps)
			if err := Run(t.Context(), b.Session); (err != nil) != c.stops {
				t.Errorf("the run: %v", err)
			}
			if got := pid.ReplaceAllString(b.endOf(t, "x"), "(pid)"); got != c.want {
				t.Errorf("step x ended with %q, want %q", got, c.want)
			}
		})
	}
}

// TestFailedInOneMember: a command that failed in one member counts, though those in others were
// stopped with the steps beside them.
func TestFailedInOneMember(t *testing.T) {
	b, _ := newMembersBench(t, threeMembers+head(1)+`
- parallel:
  - {name: x, cluster: "*", beside: true, exec: {command: [sh, -c, "test $MEMBER != edge-1 && exec sleep 60; echo $$ > pid; exit 3"]}}
  - {name: main, exec: {command: [sh, -c, "until test -s pid; do sleep 0.01; done; while kill -0 $(cat pid); do sleep 0.01; done 2>/dev/null"]}}
`)
	b.runCommands(t)
	repotest.NoError(t, Run(t.Context(), b.Session))
	if got, want := b.endOf(t, "x"), "failed edge-1: command `sh` exited with code 3"; got != want {
		t.Errorf("step x ended with %q, want %q", got, want)
	}
}
