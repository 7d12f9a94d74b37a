package windtunnel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/windtunnel/windtunnel/internal/fly/subject/external"
	"github.com/windtunnel/windtunnel/internal/kernel"
)

// ErrNoBinary says that the program windtunnel was not found.
var ErrNoBinary = errors.New("the program windtunnel was not found")

// findProgram finds the program.
func findProgram(given string) (string, error) {
	for _, from := range []struct{ what, path string }{{"Flight.Binary", given}, {EnvBinary, os.Getenv(EnvBinary)}} {
		if from.path == "" {
			continue
		}
		path, err := filepath.Abs(from.path)
		if err == nil {
			_, err = exec.LookPath(path)
		}
		if err != nil {
			return "", fmt.Errorf("%w: %s names %s: %w", ErrNoBinary, from.what, from.path, err)
		}
		return path, nil
	}
	path, err := exec.LookPath("windtunnel")
	if err != nil {
		return "", fmt.Errorf("%w: neither %s nor Flight.Binary names it, and it is not in PATH; `make build` in a checkout of windtunnel leaves it at bin/windtunnel",
			ErrNoBinary, EnvBinary)
	}
	return filepath.Abs(path)
}

// command is the program with its arguments.
type command struct {
	binary string
	args   []string
}

// runProgram runs the program to its end, with the test as its caller, and returns its
// exit code and why the manager ended early, if it did.
func (f Flight) runProgram(ctx context.Context, t testing.TB, c command) (code int, managed, err error) {
	ours, theirs, err := kernel.SocketPair()
	if err != nil {
		return 0, nil, err
	}
	defer ours.Close()
	cmd := exec.CommandContext(ctx, c.binary, append(c.args, "--caller", "3")...)
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it saves what it has and cleans up
	cmd.WaitDelay = grace
	err = cmd.Start()
	_ = theirs.Close() // the child has its own
	if err != nil {
		return 0, nil, err
	}
	served := make(chan error, 1)
	go func() { served <- external.Serve(ctx, ours, os.Getpid(), f.externalProgram()) }()
	err = cmd.Wait()
	_ = ours.Close()
	managed = <-served
	if state := cmd.ProcessState; state != nil && state.Exited() {
		return state.ExitCode(), managed, nil
	}
	return 0, managed, err
}

// externalProgram is the test's manager as windtunnel starts it.
func (f Flight) externalProgram() external.Program {
	return func(ctx context.Context, s external.Start, ready func()) error {
		if f.Manager == nil {
			return errors.New("the scenario has an external subject, and Flight.Manager is nil")
		}
		config, err := clientConfig(s.Kubeconfig)
		if err != nil {
			return err
		}
		config.QPS = -1 // client-go would hold it to 5 requests a second, and no metric would show it
		return f.Manager(ctx, Subject{
			Name: s.Name, Config: config, Kubeconfig: s.Kubeconfig, MetricsAddress: hostPort(s.Metrics), Ready: ready,
		})
	}
}

// clientConfig reads a kubeconfig.
func clientConfig(path string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", path, err)
	}
	return config, nil
}
