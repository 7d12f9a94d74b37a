package planetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
)

// asVerb is the variable by which Main knows that it is a child.
const asVerb = "WINDTUNNEL_TEST_VERB"

// Main runs the tests of a package, or, in a child that Spawn has started, a verb of the
// plane: so a process of the plane can be killed. Call it in TestMain.
func Main(m *testing.M, verbs func(process.Host) []*cobra.Command) {
	if os.Getenv(asVerb) == "" {
		os.Exit(m.Run())
	}
	go func() { // a signal at the parent's death would come at that of the thread which started this
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	root := &cobra.Command{SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(verbs(process.Host{Stdout: os.Stdout, Stderr: os.Stderr, Interruptible: func(ctx context.Context) (context.Context, context.CancelFunc) {
		return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	}})...)
	if err := root.ExecuteContext(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	os.Exit(0)
}

// Fly flies a scenario by the real binary, and returns the run's directory. What was judged is
// the test's business: only a run that was none fails it.
func Fly(t testing.TB, file string, args ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "run")
	cmd := exec.Command(repotest.Binary(t), append([]string{"run", file, "--out", dir}, args...)...)
	if said, err := cmd.CombinedOutput(); err != nil && cmd.ProcessState.ExitCode() > 2 {
		t.Fatalf("%v: %s", err, said)
	}
	return dir
}

// Process is a verb of a plane that runs as a child of the test.
type Process struct {
	*exec.Cmd
	said Lines
}

// Spawn starts a verb and waits until it is ready. It is killed when the test ends.
func Spawn(t testing.TB, args ...string) *Process {
	t.Helper()
	p := &Process{Cmd: exec.Command(os.Args[0], args...)}
	p.Env = append(os.Environ(), asVerb+"=1")
	p.Stdout, p.Stderr = &p.said, &p.said
	if _, err := p.StdinPipe(); err != nil { // open as long as the test lives
		t.Fatal(err)
	}
	repotest.NoError(t, p.Start())
	t.Cleanup(func() {
		_ = p.Kill() // it has ended where all went well
		if t.Failed() {
			t.Logf("%s said:\n%s", args[0], &p.said)
		}
	})
	address := regexp.MustCompile(`http://\S+/`)
	repotest.Eventually(t, args[0]+" is ready", func() bool {
		at := address.FindString(p.said.String())
		return at != "" && answers(at+"readyz")
	})
	return p
}

func answers(url string) bool {
	answer, err := http.Get(url)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// End sends the process a signal and waits until it has ended.
func (p *Process) End(s os.Signal) error { return errors.Join(p.Process.Signal(s), p.Wait()) }

// Kill kills the process and waits; nothing happens to one that has ended.
func (p *Process) Kill() error {
	if p.ProcessState != nil {
		return nil
	}
	return p.End(syscall.SIGKILL)
}
