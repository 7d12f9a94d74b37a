package plane

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/plane/release"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// stand is a plane whose processes are this test binary, which behaves as a file
// says.
type stand struct {
	plane  *Plane
	mode   string // the file
	folder string
	mu     sync.Mutex
	faults []FaultEvent
}

func newStand(t *testing.T) *stand {
	t.Helper()
	return newStandOf(t, "kube-apiserver")
}

func newStandOf(t *testing.T, names ...string) *stand {
	t.Helper()
	s := &stand{folder: t.TempDir()}
	s.mode = filepath.Join(s.folder, "mode")
	s.is(t, "ready")
	s.plane = &Plane{
		died: make(chan Death, len(names)), log: slog.New(slog.DiscardHandler), clock: clock.Start(), scrapes: map[string]endpoint.Endpoint{},
		onFault: func(f FaultEvent) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.faults = append(s.faults, f)
		},
	}
	for _, name := range names {
		s.startProcess(t, name)
	}
	t.Cleanup(func() {
		if err := s.plane.Close(); err != nil {
			t.Error(err)
		}
		for _, own := range s.plane.supervisors() {
			if !hasEnded(own.currentProcess()) {
				t.Errorf("a process of %s is left", own.spec.Name)
			}
		}
	})
	repotest.NoError(t, s.plane.Ready(t.Context()))
	return s
}

// arguments are those of a process that says a release.
func (s *stand) arguments(name, release string) []string {
	address := strings.TrimPrefix(s.plane.scrapes[name].Server(), "http://")
	return []string{"answer", address, s.mode, release, name}
}

func (s *stand) startProcess(t *testing.T, name string) {
	t.Helper()
	l := repotest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := "http://" + l.Addr().String()
	_ = l.Close()
	s.plane.scrapes[name] = endpoint.New(address, nil, endpoint.Identity{})
	own := &supervisor{plane: s.plane, turn: make(chan struct{}, 1), spec: process.Spec{
		Name: name, Path: os.Args[0], Args: s.arguments(name, "v0.0.0"), LogFile: filepath.Join(s.folder, name+".log"),
	}}
	own.commandFor = func(to release.Plane) (string, []string) {
		of, _ := component.Of(name)
		return os.Args[0], s.arguments(name, releaseOf(of, to))
	}
	child := repotest.Must(own.startProcess())(t)
	own.watchProcess(child)
	s.plane.components = append(s.plane.components, Component{Name: name, MetricsURL: address + "/metrics", Scrape: s.plane.scrapes[name], supervisor: own})
}

func (s *stand) is(t *testing.T, mode string) {
	t.Helper()
	repotest.NoError(t, os.WriteFile(s.mode, []byte(mode), 0o600))
}

func (s *stand) component() Component { c, _ := s.plane.Component("kube-apiserver"); return c }

// kinds returns the faults so far.
func (s *stand) kinds() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, f := range s.faults {
		out = append(out, f.Kind)
	}
	return strings.Join(out, " ")
}

func (s *stand) noDeath(t *testing.T) {
	t.Helper()
	select {
	case d := <-s.plane.Died():
		t.Errorf("a death is reported: %v", d)
	case <-time.After(50 * time.Millisecond):
	}
}

func TestRestartStartsTheSameAgain(t *testing.T) {
	s := newStand(t)
	first := s.component()
	repotest.NoError(t, first.Restart(t.Context()))
	second := s.component()
	if second.PID == first.PID || !gone(first.PID) {
		t.Errorf("process %d after %d", second.PID, first.PID)
	}
	// After Kill nothing is killed; an old Component hits the new process.
	repotest.NoError(t, errors.Join(first.Kill(), first.Kill()))
	if !gone(second.PID) {
		t.Error("Kill of an old Component missed the new process")
	}
	if err := s.plane.Ready(t.Context()); !errors.Is(err, ErrEnded) {
		t.Errorf("ready without a process: %v", err)
	}
	repotest.NoError(t, first.Restart(t.Context()))
	s.noDeath(t)
	if got, want := s.kinds(), "kill start ready kill start ready"; got != want {
		t.Errorf("faults %q, want %q", got, want)
	}
	if !slices.IsSortedFunc(s.faults, func(a, b FaultEvent) int { return int(a.At - b.At) }) || s.faults[0].At == 0 {
		t.Errorf("times of faults: %v", s.faults)
	}
	// A death of a process that was restarted is one.
	if p, err := os.FindProcess(s.component().PID); err != nil || p.Kill() != nil {
		t.Fatal(err)
	}
	select {
	case d := <-s.plane.Died():
		if d.Component != "kube-apiserver" {
			t.Errorf("death of %s", d.Component)
		}
	case <-time.After(5 * time.Second):
		t.Error("no death is reported")
	}
}

// gone says whether a process is.
func gone(pid int) bool {
	_, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid)))
	return err != nil
}

func TestRestartThatFailsLeavesNoProcess(t *testing.T) {
	s := newStand(t)
	for _, c := range []struct {
		name, mode string
		check      func(error) bool
		during     func(cancel context.CancelCauseFunc)
	}{
		{"dies", "die", func(err error) bool {
			var d *process.DeathError
			return errors.As(err, &d) && strings.Contains(err.Error(), "told to die")
		}, nil},
		{"is cancelled", "never", func(err error) bool { // on a busy machine it has not answered by then
			return errors.Is(err, errTest) && (strings.Contains(err.Error(), "503") || strings.Contains(err.Error(), "connection refused"))
		}, func(cancel context.CancelCauseFunc) { cancel(errTest) }},
		{"is killed", "never", func(err error) bool { return errors.Is(err, ErrEnded) },
			func(context.CancelCauseFunc) { _ = s.component().Kill() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.is(t, c.mode)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if c.during != nil {
				before := s.component().PID
				go func() {
					repotest.Eventually(t, "another process", func() bool { return s.component().PID != before })
					time.Sleep(200 * time.Millisecond) // until it has answered, as a rule
					c.during(cancel)
				}()
			}
			if err := s.component().Restart(ctx); err == nil || !c.check(err) || !strings.Contains(err.Error(), "restart kube-apiserver: ") {
				t.Errorf("error %v", err)
			}
			if !hasEnded(s.component().supervisor.currentProcess()) {
				t.Error("a process is left")
			}
			s.noDeath(t)
			s.is(t, "ready")
			if err := s.component().Restart(t.Context()); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

var errTest = errors.New("test ends it")

// However Close and a restart meet, no process is left and nobody waits.
func TestCloseEndsARestart(t *testing.T) {
	for _, after := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond} {
		s := newStand(t)
		s.is(t, "never")
		result := make(chan error)
		go func() { result <- s.component().Restart(t.Context()) }()
		time.Sleep(after)
		if err := s.plane.Close(); err != nil {
			t.Error(err)
		}
		select {
		case err := <-result:
			if !errors.Is(err, ErrClosed) && !errors.Is(err, ErrEnded) {
				t.Errorf("after %v: %v", after, err)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("Restart does not end")
		}
		if !hasEnded(s.component().supervisor.currentProcess()) {
			t.Errorf("after %v a process is left", after)
		}
		if err := s.component().Restart(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("restart after Close: %v", err)
		}
	}
}

func TestRestartsTakeTurns(t *testing.T) {
	s := newStand(t)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if err := s.component().Restart(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got, want := s.kinds(), strings.TrimSpace(strings.Repeat("kill start ready ", 3)); got != want {
		t.Errorf("faults %q", got)
	}
	s.noDeath(t)
}

func TestSlowLastsThroughARestart(t *testing.T) {
	s := newStand(t)
	repotest.NoError(t, errors.Join(s.component().Slow(0.4), s.component().Restart(t.Context())))
	if got := s.component().supervisor.cores; got != 0.4 {
		t.Errorf("slowed to %v", got)
	}
	for range 2 {
		repotest.NoError(t, s.component().FullSpeed())
	}
	if got := s.component().supervisor.cores; got != 0 {
		t.Errorf("slowed to %v", got)
	}
	if err := s.component().Slow(-1); err == nil || !strings.Contains(err.Error(), "slow kube-apiserver") {
		t.Errorf("slow to -1: %v", err)
	}
	if got := s.kinds(); got != "slow kill start ready full-speed full-speed" {
		t.Errorf("faults %q", got)
	}
	if text := s.faults[0].Text; !strings.HasPrefix(text, "0.4 cores by ") {
		t.Errorf("fault says %q", text)
	}
}

// TestWhatHasEndedIsNotBroken: a fault of a component that an earlier one has killed would do
// nothing, and bring the component back before the first is over.
func TestWhatHasEndedIsNotBroken(t *testing.T) {
	s := newStand(t)
	mend, err := s.component().Inject(t.Context(), &scenario.Disturbance{Action: "kill"})
	repotest.NoError(t, err)
	for _, action := range []string{"kill", "term", "pause", "slow"} {
		if _, err := s.component().Inject(t.Context(), &scenario.Disturbance{Action: action, Share: 0.5}); !errors.Is(err, ErrNotRunning) {
			t.Errorf("%s of what was killed: %v", action, err)
		}
	}
	repotest.NoError(t, mend(t.Context()))
	mend, err = s.component().Inject(t.Context(), &scenario.Disturbance{Action: "pause"})
	if err == nil {
		err = mend(t.Context())
	}
	if got := s.kinds(); err != nil || got != "kill start ready pause continue" {
		t.Errorf("faults %q, %v", got, err)
	}
}
