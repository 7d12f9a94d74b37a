package windtunnel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/fly/subject/external"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestMain lets the test binary be the program windtunnel, too: one that does no
// more than these tests need.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "run":
			os.Exit(run(os.Args[2:]))
		case "up":
			os.Exit(up())
		}
	}
	os.Exit(m.Run())
}

func flag(args []string, name string) string {
	if i := slices.Index(args, name); i >= 0 {
		return args[i+1]
	}
	return ""
}

// run does as the description of its scenario says: it ends with a verdict, or as
// fault or never.
func run(args []string) int {
	c, err := external.Open(os.NewFile(3, "caller"))
	if err != nil {
		fmt.Println(err)
		return exitFault
	}
	raw, err := os.ReadFile(args[0])
	if err != nil {
		fmt.Println(err)
		return exitFault
	}
	_, what, _ := strings.Cut(string(raw), "description: ")
	what, _, _ = strings.Cut(what, "\n")
	fmt.Println("flying", what)
	if what == "fault" {
		return exitFault
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	if path := os.Getenv("WINDTUNNEL_TEST_LISTENS"); path != "" {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			fmt.Println(err)
			return exitFault
		}
	}
	verdict, reason := what, ""
	if name := flag(args, "--as"); name != "" {
		kubeconfig := filepath.Join(os.TempDir(), fmt.Sprint("windtunnel-test-", os.Getpid()))
		if err := endpoint.New("https://127.0.0.1:1", nil, endpoint.Identity{}).WriteKubeconfig(kubeconfig); err != nil {
			fmt.Println(err)
			return exitFault
		}
		defer os.Remove(kubeconfig)
		_, err := c.Start(context.Background(), external.Start{Name: name, Kubeconfig: kubeconfig, Metrics: "http://127.0.0.1:1234/metrics"})
		if err == nil && what == "death" {
			err = <-c.Ended()
		}
		if err != nil {
			verdict, reason = "unknown", err.Error()
		}
		_ = c.Stop(context.Background())
	}
	if what == "hang" {
		<-interrupted
		verdict, reason = "unknown", "interrupted"
	}
	dir := flag(args, "--out")
	if err := errors.Join(os.MkdirAll(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "summary.txt"), []byte("the summary\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "verdict.json"), []byte(fmt.Sprintf(
			`{"scenario":"s","verdict":%q,"reasons":[%q],"objectives":[{"name":"o","value":1.5,"threshold":2,"verdict":"pass"}],"measures":{"a":{"value":3,"unit":"pods"}}}`,
			verdict, reason)), 0o600)); err != nil {
		fmt.Println(err)
		return exitFault
	}
	return map[string]int{"fail": 1, "unknown": 2}[verdict]
}

func up() int {
	c, err := external.Open(os.NewFile(3, "caller"))
	if err != nil {
		return exitFault
	}
	folder, err := os.MkdirTemp("", "windtunnel-test-")
	if err != nil {
		return exitFault
	}
	defer os.RemoveAll(folder)
	kubeconfig := filepath.Join(folder, "kubeconfig")
	if err := endpoint.New("https://127.0.0.1:1", nil, endpoint.Identity{}).WriteKubeconfig(kubeconfig); err != nil {
		return exitFault
	}
	if os.Getenv("WINDTUNNEL_TEST") == "down" {
		return exitFault
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	fmt.Println("export KUBECONFIG=" + kubeconfig)
	select {
	case <-interrupted:
	case <-c.Ended():
	}
	return 0
}

// recorder is a test whose faults are looked at and do not count.
type recorder struct {
	testing.TB
	errors []string
	ended  bool
}

type ended struct{}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	r.ended = true
	panic(ended{})
}

func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }

// recorded calls something with a test of its own and says what it complained of.
func recorded(t *testing.T, do func(t testing.TB)) *recorder {
	t.Helper()
	r := &recorder{TB: t}
	func() {
		defer func() {
			if x := recover(); x != nil && x != (ended{}) {
				panic(x)
			}
		}()
		do(r)
	}()
	return r
}

// flight is one whose program is this test binary.
func flight(what string) Flight {
	s := scenario.Default()
	s.Name, s.Description = "s", what
	s.Steps = []scenario.Step{{Pause: unit.Duration(time.Second)}}
	return Flight{Scenario: &s, Binary: os.Args[0]}
}

func steady(ctx context.Context, s Subject) error {
	s.Ready()
	<-ctx.Done()
	return ctx.Err()
}

func TestFly(t *testing.T) {
	for _, tt := range []struct {
		name, what string
		change     func(*Flight)
		want       string // the beginning of the complaint; empty: none
		ended      bool
	}{
		{"pass", "pass", nil, "", false},
		{"fail", "fail", nil, "windtunnel: the verdict on s is fail\nthe summary\n\nrun directory: /", false},
		{"unknown", "unknown", nil, "windtunnel: the verdict on s is unknown\n", false},
		{"unsure", "unknown", func(f *Flight) { f.Unsure = true }, "", false},
		{"unsure but failed", "fail", func(f *Flight) { f.Unsure = true }, "windtunnel: the verdict on s is fail\n", false},
		{"a fault", "fault", nil, "windtunnel: the run did not take place (exit code 3): read verdict: ", true},
		{"no binary", "pass", func(f *Flight) { f.Binary = "/none" }, "the program windtunnel was not found: Flight.Binary names /none: ", true},
		{"nothing to fly", "pass", func(f *Flight) { f.Scenario = nil }, "windtunnel: exactly one of Flight.File and Flight.Scenario is needed", true},
		{"too much to fly", "pass", func(f *Flight) { f.File = "x" }, "windtunnel: exactly one of Flight.File and Flight.Scenario is needed", true},
		{"no scenario", "pass", func(f *Flight) { f.Scenario.Steps = nil }, "windtunnel: Flight.Scenario: scenario: no steps", true},
		{"a manager", "pass", func(f *Flight) { f.Manager = steady }, "", false},
		{"a manager that dies", "death", func(f *Flight) {
			f.Manager = func(_ context.Context, s Subject) error { s.Ready(); return errors.New("out of ideas") }
		}, "windtunnel: the manager ended with: out of ideas", false},
		{"a manager that is never ready", "pass", func(f *Flight) {
			f.Manager = func(context.Context, Subject) error { return nil }
		}, "windtunnel: the verdict on s is unknown\n", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := flight(tt.what)
			if tt.change != nil {
				tt.change(&f)
			}
			var got *Run
			r := recorded(t, func(t testing.TB) { got = Fly(t, f) })
			if complaint := strings.Join(r.errors, "; "); !strings.HasPrefix(complaint, tt.want) || (tt.want == "") != (complaint == "") || r.ended != tt.ended {
				t.Errorf("complaint %q, ended %v", complaint, r.ended)
			}
			if !tt.ended && (got.Scenario != "s" || *got.Objectives[0].Value != 1.5 || got.Measures["a"].Unit != "pods") {
				t.Errorf("run %+v", got)
			}
		})
	}
}

func TestAManagerIsGivenWhatItNeeds(t *testing.T) {
	var got Subject
	f := flight("pass")
	f.Subject = "operator"
	f.Manager = func(ctx context.Context, s Subject) error { got = s; return steady(ctx, s) }
	Fly(t, f)
	if got.Name != "operator" || got.MetricsAddress != "127.0.0.1:1234" || got.Config == nil || got.Config.Host != "https://127.0.0.1:1" || got.Kubeconfig == "" {
		t.Errorf("%+v", got)
	}
	if got.Config != nil && got.Config.QPS >= 0 {
		t.Errorf("the manager's client is held to %v requests/s", got.Config.QPS)
	}
}

func TestFlyOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.yaml")
	repotest.NoError(t, os.WriteFile(file, []byte("scenario: s\ndescription: pass\n"), 0o600))
	t.Setenv(EnvBinary, os.Args[0])
	t.Setenv(EnvRuns, t.TempDir())
	first := Fly(t, Flight{File: file, Set: map[string]string{"a": "b"}, Seed: 7})
	second := Fly(t, Flight{File: file})
	if filepath.Base(first.Dir) != "1" || filepath.Base(second.Dir) != "2" || filepath.Base(filepath.Dir(first.Dir)) != t.Name() {
		t.Errorf("%s and %s", first.Dir, second.Dir)
	}
	r := recorded(t, func(t testing.TB) { Fly(t, Flight{File: file, CRDs: []string{"x"}}) })
	if !r.ended || !strings.Contains(strings.Join(r.errors, ""), "Flight.CRDs belongs to Flight.Scenario") {
		t.Errorf("%v", r.errors)
	}
}

func TestNeighboursAreAllowedWhatTheFlightSays(t *testing.T) {
	if got := strings.Join(Flight{MaxNeighbours: 0.3}.runArgs("s.yaml", "out"), " "); got != "run s.yaml --out out --max-neighbours 30%" {
		t.Error(got)
	}
	if got := strings.Join(Flight{}.runArgs("s.yaml", "out"), " "); strings.Contains(got, "neighbours") {
		t.Error(got)
	}
}

func TestATestsEndInterruptsTheRun(t *testing.T) {
	f := flight("hang")
	f.Unsure = true
	listens := filepath.Join(t.TempDir(), "listens")
	t.Setenv("WINDTUNNEL_TEST_LISTENS", listens)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		repotest.Met(func() bool { _, err := os.Stat(listens); return err == nil })
	}()
	if run := Fly(under{t, ctx}, f); run.Verdict != Unknown { // it ends by its interruption alone
		t.Error(run.Verdict)
	}
}

// under is a test with another context.
type under struct {
	testing.TB
	ctx context.Context
}

func (u under) Context() context.Context { return u.ctx }

func TestDefinitionsAreCopied(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"a.yaml": "a", "b.json": "{}", "c.txt": "no"} {
		repotest.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	f := flight("pass")
	f.CRDs = []string{folder, filepath.Join(folder, "a.yaml")}
	path := repotest.Must(f.scenarioFile(t))(t)
	s := repotest.Must(scenario.Load(path, nil))(t)
	if len(s.Subjects) != 1 || s.Subjects[0].Name != "manager" || !s.Subjects[0].External || len(s.Subjects[0].CRDs) != 3 || len(f.Scenario.Subjects) != 0 {
		t.Errorf("%+v", s.Subjects)
	}
	for _, paths := range [][]string{{filepath.Join(folder, "none")}, {t.TempDir()}} {
		f.CRDs = paths
		if _, err := f.scenarioFile(t); err == nil || !strings.HasPrefix(err.Error(), "Flight.CRDs: ") {
			t.Errorf("%v: %v", paths, err)
		}
	}
}

func TestBounds(t *testing.T) {
	run := &Run{Measures: map[string]Measure{"a": {3, "pods"}}}
	r := recorded(t, func(t testing.TB) {
		run.AtMost(t, "a", 3)
		run.AtLeast(t, "a", 3)
		run.AtMost(t, "a", 2.5)
		run.AtLeast(t, "a", 3.5)
		run.AtMost(t, "b", 1)
	})
	want := []string{"a is 3 pods; it should be at most 2.5", "a is 3 pods; it should be at least 3.5", "b was not measured; it should be at most 1"}
	if len(r.errors) != len(want) {
		t.Fatalf("%q", r.errors)
	}
	for i := range want {
		if !strings.Contains(r.errors[i], want[i]) {
			t.Errorf("%q, want %q", r.errors[i], want[i])
		}
	}
	if v, ok := run.Measure("a"); v != 3 || !ok {
		t.Error(v, ok)
	}
}

func TestUp(t *testing.T) {
	p := Up(t, UpOptions{Binary: os.Args[0]})
	if p.Config.Host != "https://127.0.0.1:1" {
		t.Errorf("%+v", p)
	}
	f := flight("pass")
	f.Plane = p
	Fly(t, f)
	if err := errors.Join(p.Close(), p.Close()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(p.Kubeconfig); err == nil {
		t.Error("the program did not end")
	}
	t.Setenv("WINDTUNNEL_TEST", "down")
	if _, err := Start(t.Context(), UpOptions{Binary: os.Args[0]}); !errors.Is(err, ErrNotUp) {
		t.Errorf("%v, want ErrNotUp", err)
	}
}

func TestAPlaneEndsWithItsTest(t *testing.T) {
	p := repotest.Must(Start(t.Context(), UpOptions{Binary: os.Args[0]}))(t)
	_ = p.line.Close() // as the kernel does when the test is killed
	if state, err := p.cmd.Process.Wait(); err != nil || !state.Exited() || state.Sys().(syscall.WaitStatus).ExitStatus() != 0 {
		t.Errorf("%v, %v", state, err)
	}
}

func TestNoBinaryAnywhere(t *testing.T) {
	t.Setenv(EnvBinary, "")
	t.Setenv("PATH", t.TempDir())
	if _, err := findProgram(""); !errors.Is(err, ErrNoBinary) || !strings.Contains(err.Error(), "it is not in PATH; `make build`") {
		t.Error(err)
	}
	t.Setenv(EnvBinary, "/none")
	if _, err := findProgram(""); !errors.Is(err, ErrNoBinary) || !strings.Contains(err.Error(), "WINDTUNNEL_BIN names /none") {
		t.Error(err)
	}
}
