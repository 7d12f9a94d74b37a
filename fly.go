// Package windtunnel flies control planes from Go tests: it starts a plane with a
// fleet, lets the test's own controllers or a command run on it, sends a load,
// and fails the test when an objective is missed.
//
// It is a door, not the tunnel: everything is done by the program windtunnel,
// which it starts, so that a test links nothing of Kubernetes but a client. The
// program is that of Flight.Binary, of the environment variable WINDTUNNEL_BIN,
// or the one in PATH. Tests of operators call it; no other package here does.
//
// # Objectives
//
// What is asked of a run stands in its scenario; a run that fails an objective
// fails the test, and so does one that cannot tell, since nothing was shown
// (Flight.Unsure). More can be asked of the Run that Fly returns.
//
// # What is kept
//
// The run directory lies in the folder that the environment variable
// WINDTUNNEL_RUNS names, or else in the test's artifacts, which `go test
// -artifacts` keeps.
package windtunnel

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/scenario"
)

// The environment variables that are looked at.
const (
	EnvBinary = "WINDTUNNEL_BIN"  // path of the program
	EnvRuns   = "WINDTUNNEL_RUNS" // folder in which run directories are kept
)

// Flight says what to fly. File or Scenario is needed.
type Flight struct {
	File     string             // a scenario file
	Scenario *scenario.Scenario // in place of File; scenario.Default is where to begin
	Set      map[string]string  // parameters of the file, as --set takes them
	Seed     uint64             // in place of the scenario's; 0: the scenario's

	// Manager is the subject in this process. It is called when the plane and what
	// the scenario installs are there. It returns when ctx ends; an error before
	// that ends the run.
	Manager func(ctx context.Context, s Subject) error
	// Subject names the scenario's subject that Manager is in place of, so that
	// one file serves the command line and the test; default "manager". A scenario that
	// has subjects must have this one.
	Subject string
	// CRDs are files and folders of CustomResourceDefinitions that are installed
	// for a Scenario; a File names its own.
	CRDs []string

	Plane  *Plane // fly this one; nil: a plane of the flight's own, which is measured more closely
	Binary string // the program windtunnel; default: see the package
	Unsure bool   // a run that cannot tell does not fail the test

	// MaxNeighbours is the share of the machine's CPU that other processes may take
	// before a miss is unknown, up to 1; 0: windtunnel's default. The test's own
	// process is one of them, unless it is the subject.
	MaxNeighbours float64
}

// Subject is what a manager is given.
type Subject struct {
	Name       string
	Config     *rest.Config // a user of its own; without a rate limit (QPS -1): set QPS and Burst as the operator has them in production
	Kubeconfig string       // the same as a file
	// MetricsAddress is where the run reads metrics, such as 127.0.0.1:12345: the
	// manager serves /metrics there, or nothing of its own is measured but CPU and
	// memory.
	MetricsAddress string
	// Ready says that the run may go on. A manager that returns without having
	// called it never was ready.
	Ready func()
}

// Fly flies and returns what came of it. A missed objective fails the test with
// the run's summary; what keeps the run from taking place ends the test at once.
func Fly(t testing.TB, f Flight) *Run {
	t.Helper()
	binary, err := findProgram(f.Binary)
	if err != nil {
		t.Fatal(err)
	}
	file, err := f.scenarioFile(t)
	if err != nil {
		t.Fatalf("windtunnel: %v", err)
	}
	dir, err := runDir(t)
	if err != nil {
		t.Fatalf("windtunnel: %v", err)
	}
	ctx, cancel := contextBeforeDeadline(t)
	defer cancel()
	code, managed, err := f.runProgram(ctx, t, command{binary: binary, args: f.runArgs(file, dir)})
	if err != nil {
		t.Fatalf("windtunnel: %v", err)
	}
	run, err := Open(dir)
	if code == exitFault || err != nil {
		t.Fatalf("windtunnel: the run did not take place (exit code %d): %v", code, err)
	}
	if managed != nil {
		t.Errorf("windtunnel: the manager ended with: %v", managed)
	}
	run.failByVerdict(t, f.Unsure)
	return run
}

// exitFault is windtunnel's exit code when it or its input is at fault.
const exitFault = 3

// runArgs are those of `windtunnel run`.
func (f Flight) runArgs(file, dir string) []string {
	out := []string{"run", file, "--out", dir}
	for name, value := range f.Set {
		out = append(out, "--set", name+"="+value)
	}
	if f.Seed != 0 {
		out = append(out, "--seed", strconv.FormatUint(f.Seed, 10))
	}
	if f.MaxNeighbours != 0 {
		out = append(out, "--max-neighbours", fmt.Sprintf("%.6g%%", 100*f.MaxNeighbours))
	}
	if f.Plane != nil {
		out = append(out, "--kubeconfig", f.Plane.Kubeconfig)
	}
	if f.Manager != nil {
		out = append(out, "--as", f.subjectName())
	}
	return out
}

func (f Flight) subjectName() string {
	if f.Subject == "" {
		return "manager"
	}
	return f.Subject
}

// scenarioFile returns the scenario's file, which it writes if there is none.
func (f Flight) scenarioFile(t testing.TB) (string, error) {
	switch {
	case (f.File == "") == (f.Scenario == nil):
		return "", fmt.Errorf("exactly one of Flight.File and Flight.Scenario is needed")
	case f.File != "" && len(f.CRDs) > 0:
		return "", fmt.Errorf("Flight.CRDs belongs to Flight.Scenario; %s names its own in subjects", f.File)
	case f.File != "":
		return f.File, nil
	}
	folder := t.TempDir()
	s := *f.Scenario
	if err := f.installDefinitions(&s, folder); err != nil {
		return "", err
	}
	s.Complete()
	path := filepath.Join(folder, "scenario.yaml")
	s.File = path
	if err := s.Validate(); err != nil {
		return "", fmt.Errorf("Flight.Scenario: %w", err)
	}
	out, err := os.Create(path)
	if err != nil {
		return "", err
	}
	err = scenario.Write(out, &s)
	if closed := out.Close(); err == nil {
		err = closed
	}
	return path, err
}

// runDir chooses a run directory that does not exist yet.
func runDir(t testing.TB) (string, error) {
	kept := os.Getenv(EnvRuns)
	if kept == "" {
		return filepath.Join(t.ArtifactDir(), "run"), nil
	}
	folder := filepath.Join(kept, strings.ReplaceAll(t.Name(), "/", "-"))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		dir := filepath.Join(folder, strconv.Itoa(n))
		if _, err := os.Lstat(dir); os.IsNotExist(err) {
			return dir, nil
		}
	}
}

// grace is what a run needs to save, judge and clean up when the test's time is
// running out.
const grace = 30 * time.Second

// contextBeforeDeadline ends some time before the test's own deadline, if it has one.
func contextBeforeDeadline(t testing.TB) (context.Context, context.CancelFunc) {
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if at, ok := d.Deadline(); ok {
			return context.WithDeadline(t.Context(), at.Add(-grace))
		}
	}
	return context.WithCancel(t.Context())
}
