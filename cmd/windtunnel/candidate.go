package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/machine/process"
)

// errNotBuilt says that a candidate was not built.
var errNotBuilt = errors.New("not built")

// buildGrace is how long a build has to end once the search is stopped.
const buildGrace = 10 * time.Second

// buildCandidate runs a user's command that builds what a run with these parameters starts,
// in the working directory; candidateVariables give it the parameters. What it says goes to
// the log. An error wraps errNotBuilt and ends with the last words.
func buildCandidate(ctx context.Context, command string, values map[string]string, log string) error {
	variables, err := candidateVariables(values)
	if err != nil {
		return err
	}
	shell, err := exec.LookPath("sh")
	if err != nil {
		return fmt.Errorf("--build: %w", err)
	}
	here, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("--build: %w", err)
	}
	p, err := process.Start(process.Spec{Name: "build", Path: shell, Args: []string{"-c", command}, Env: append(os.Environ(), variables...), Dir: here, LogFile: log}, nil)
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Stop(buildGrace)
		return ctx.Err()
	}
	if code := p.End().Code; code != 0 {
		return fmt.Errorf("%w: the command exited with code %d: %s", errNotBuilt, code, strings.Join(p.LastWords(), "; "))
	}
	return nil
}

// candidateVariables name parameters as a shell can: plane.release is WINDTUNNEL_PLANE_RELEASE.
// An error: two of them would have one name.
func candidateVariables(values map[string]string) (out []string, err error) {
	taken := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		variable := "WINDTUNNEL_" + strings.Map(func(r rune) rune {
			switch {
			case r >= 'a' && r <= 'z':
				return r - 'a' + 'A'
			case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
				return r
			}
			return '_'
		}, name)
		if other := taken[variable]; other != "" {
			return nil, fmt.Errorf("--build: parameters %s and %s would both be %s", other, name, variable)
		}
		taken[variable] = name
		out = append(out, variable+"="+values[name])
	}
	return out, nil
}
