package command_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/steps/command"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// output runs a command and returns what it wrote.
func output(t *testing.T, ctx context.Context, timeout time.Duration, args ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	out, err := os.Create(filepath.Join(dir, "out"))
	repotest.NoError(t, err)
	defer out.Close()
	x := &scenario.Exec{Command: args, Timeout: unit.Duration(timeout), Env: map[string]string{"WORD": "hello"}}
	pid := 0
	err = command.Command{Exec: x, Folder: dir, Environment: []string{"KUBECONFIG=/k"}, Started: func(p int) { pid = p }}.Run(ctx, out)
	if _, missing := exec.LookPath(args[0]); missing == nil && ctx.Err() == nil && pid == 0 {
		t.Error("nobody was told of the process")
	}
	raw := repotest.Must(os.ReadFile(out.Name()))(t)
	return string(raw), err
}

func TestCommand(t *testing.T) {
	text, err := output(t, t.Context(), time.Minute, "sh", "-c", "echo $WORD $KUBECONFIG; echo oops >&2")
	if err != nil || text != "hello /k\noops\n" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err = output(t, t.Context(), time.Minute, "sh", "-c", "exit 3"); fmt.Sprint(err) != "command `sh` exited with code 3" {
		t.Error(err)
	}
	if _, err = output(t, t.Context(), time.Minute, "sh", "-c", "kill -TERM $$"); fmt.Sprint(err) != "command `sh` was ended by a signal: terminated" {
		t.Error(err)
	}
	if _, err = output(t, t.Context(), time.Minute, "no-such-command"); err == nil || !strings.HasPrefix(err.Error(), "command `no-such-command`: ") {
		t.Error(err)
	}
}

func TestCommandIsKilledWithAllThatItStarted(t *testing.T) {
	begin := time.Now()
	text, err := output(t, t.Context(), 200*time.Millisecond, "sh", "-c", "sleep 60 & echo $!; wait")
	if fmt.Sprint(err) != "command `sh` did not end within its timeout of 200ms and was killed" || time.Since(begin) > 20*time.Second {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
	pid := repotest.Must(strconv.Atoi(strings.TrimSpace(text)))(t)
	repotest.Eventually(t, "the hook's process ends", func() bool { return !running(pid) })
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := output(t, ctx, time.Minute, "sleep", "60"); !errors.Is(err, why) {
		t.Error(err)
	}
}

// running tells whether a process is there and no zombie.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(raw), ") Z ")
}
