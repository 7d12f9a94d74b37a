package subject_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/subject"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// The test binary is also the reaper and the subject.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case process.ReaperArg:
			os.Exit(process.ReaperMain(os.Stdin))
		case "serve":
			fmt.Println("serving", os.Args[2:], os.Getenv("WORD"))
			fmt.Println(http.ListenAndServe(os.Args[2], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/no" {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			})))
			os.Exit(4)
		case "die":
			fmt.Println("panic: out of ideas")
			os.Exit(3)
		case "env":
			fmt.Printf("run %s, fleet %s\n", os.Getenv(scenario.VarRun), os.Getenv(scenario.VarFleet))
			os.Exit(3)
		case "say":
			fmt.Println("subject 1.2.3\nand more")
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// attached is a plane that lets everybody do everything and knows nothing.
func attached(t *testing.T) *plane.Plane {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			_, _ = io.WriteString(w, `{"gitVersion":"v1.37.1"}`)
			return
		}
		_, _ = io.WriteString(w, `{"status":{"allowed":true}}`)
	}))
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	repotest.NoError(t, endpoint.New(s.URL, nil, endpoint.Identity{}).WriteKubeconfig(file))
	p := repotest.Must(plane.Attach(t.Context(), file, plane.Options{}))(t)
	t.Cleanup(func() {
		if err := errors.Join(p.Close(), p.Close()); err != nil {
			t.Error(err)
		}
	})
	return p
}

func prepare(t *testing.T, p *plane.Plane, x scenario.Subject) *subject.Prepared {
	t.Helper()
	if x.Name == "" {
		x.Name = "operator"
	}
	if x.Command == "" && x.Windtunnel == nil {
		x.Command = os.Args[0]
	}
	out, err := subject.Prepare(x, subject.Options{Plane: p, Folder: t.TempDir(), LogDir: filepath.Join(t.TempDir(), "logs"), Self: "own", Seed: 7})
	repotest.NoError(t, err)
	return out
}

func TestASubjectIsOneOfThePlanesComponents(t *testing.T) {
	p := attached(t)
	x := prepare(t, p, scenario.Subject{
		Args: []string{"serve", "127.0.0.1:$(METRICS_PORT)", "$(KUBECONFIG)", "$$(KUBECONFIG)", "--${WORD}", "$(SEED)"}, Env: map[string]string{"WORD": "<$(LOGS)>"},
		Metrics: &scenario.Metrics{}, Version: []string{"say"}, Limits: scenario.Limits{CPU: 1, Memory: unit.Bytes(64 << 20)},
	})
	fact := repotest.Must(x.Start(t.Context()))(t)
	c, ok := p.Component("operator")
	if !ok || c.PID == 0 || c.MetricsURL != x.MetricsURL || c.CPULimit != 1 || c.MemoryLimit != 64<<20 {
		t.Errorf("component %+v", c)
	}
	if fact.Name != "operator" || fact.Command != os.Args[0] || fact.Version != "subject 1.2.3" || fact.CPULimit != 1 ||
		len(fact.Args) != 6 || fact.Args[5] != "7" || fact.Args[2] != x.Kubeconfig || fact.Args[3] != "$(KUBECONFIG)" || len(fact.Env) != 1 || !strings.HasPrefix(fact.Env[0], "WORD=</") {
		t.Errorf("fact %+v", fact)
	}
	client, base, err := c.Scrape.Client()
	if err != nil || !strings.HasPrefix(c.MetricsURL, base.String()) {
		t.Fatalf("%v, %v of %s", err, base, c.MetricsURL)
	}
	got := repotest.Must(client.Get(c.MetricsURL))(t)
	_ = got.Body.Close()
	first := c.PID
	repotest.NoError(t, c.Restart(t.Context()))
	if c, _ := p.Component("operator"); c.PID == first || c.PID == 0 {
		t.Errorf("after a restart its process is %d", c.PID)
	}
	if err := errors.Join(c.Pause(), c.Continue(), c.Slow(0.5), c.FullSpeed(), c.Kill()); err != nil {
		t.Error(err)
	}
	select {
	case death := <-p.Died():
		t.Errorf("a fault was taken for a death: %v", death)
	default:
	}
	if log, err := os.ReadFile(c.LogFile); err != nil || strings.Count(string(log), "serving [127.0.0.1:") != 2 {
		t.Errorf("log: %v: %s", err, log)
	}
	if _, err := x.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "there is a component of that name") {
		t.Errorf("twice: %v", err)
	}
}

// TestASubjectKnowsItsRun starts one in a cluster of others: its environment says by what
// label and by what taint the run's objects are known.
func TestASubjectKnowsItsRun(t *testing.T) {
	x, err := subject.Prepare(scenario.Subject{Name: "operator", Command: os.Args[0], Args: []string{"env"}, Ready: scenario.Ready{TCP: "127.0.0.1:$(PROBE_PORT)"}},
		subject.Options{Plane: attached(t), Folder: t.TempDir(), LogDir: t.TempDir(), Stamp: object.Stamp{Run: "r1", Fleet: "f1"}})
	repotest.NoError(t, err)
	if _, err = x.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "run r1, fleet f1") { // its last words
		t.Error(err)
	}
}

func TestADeathIsReported(t *testing.T) {
	p := attached(t)
	x := prepare(t, p, scenario.Subject{Windtunnel: []string{"serve", "127.0.0.1:$(PROBE_PORT)"}, Ready: scenario.Ready{TCP: "127.0.0.1:$(PROBE_PORT)"}})
	fact, err := x.Start(t.Context())
	if err != nil || fact.Version != "own" {
		t.Fatalf("%v, %+v", err, fact)
	}
	c, _ := p.Component("operator")
	process := repotest.Must(os.FindProcess(c.PID))(t)
	repotest.NoError(t, process.Kill())
	death := <-p.Died()
	if death.Component != "operator" || !strings.Contains(death.Err.Error(), "serving [127.0.0.1:") {
		t.Errorf("%+v", death)
	}
}

func TestSubjectsThatDoNotStart(t *testing.T) {
	for _, tt := range []struct {
		name string
		x    scenario.Subject
		want string
		is   error
	}{
		{"dies", scenario.Subject{Args: []string{"die"}, Ready: scenario.Ready{HTTP: "/readyz"}}, "panic: out of ideas", nil},
		{"is never ready", scenario.Subject{Args: []string{"serve", "127.0.0.1:$(PROBE_PORT)"},
			Ready: scenario.Ready{HTTP: "/no", Within: unit.Duration(500 * time.Millisecond)}}, "not ready within 500ms; last: not ready: http://127.0.0.1:", nil},
		{"is not there", scenario.Subject{Command: "bin/none"}, "no such program", subject.ErrNoProgram},
		{"is not in PATH", scenario.Subject{Command: "no-such-program-anywhere"}, "no such program", subject.ErrNoProgram},
	} {
		p := attached(t)
		_, err := prepare(t, p, tt.x).Start(t.Context())
		if err == nil || !strings.Contains(err.Error(), tt.want) || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if _, there := p.Component("operator"); there {
			t.Errorf("%s: it is a component all the same", tt.name)
		}
	}
	if err := subject.Find(scenario.Subject{Name: "a", Command: "./none"}, t.TempDir()); !errors.Is(err, subject.ErrNoProgram) {
		t.Error(err)
	}
}

func TestTheCallerIsMeasuredAndNotHurt(t *testing.T) {
	p := attached(t)
	x := prepare(t, p, scenario.Subject{External: true, Metrics: &scenario.Metrics{URL: "http://127.0.0.1:1/metrics"}})
	fact, unread, err := x.Joined(t.Context(), os.Getpid())
	if err != nil || unread == nil || fact.Command != "" || !strings.Contains(fact.Version, "go1.") {
		t.Errorf("%v, %+v", err, fact)
	}
	c, _ := p.Component("operator")
	if c.PID != os.Getpid() || c.MetricsURL != "" || !errors.Is(c.Kill(), plane.ErrNotOurs) {
		t.Errorf("%+v", c)
	}
}

func TestAClosedPlaneTakesNoSubject(t *testing.T) {
	p := attached(t)
	x := prepare(t, p, scenario.Subject{Args: []string{"serve", "127.0.0.1:0"}})
	repotest.NoError(t, p.Close())
	if _, err := x.Start(t.Context()); !errors.Is(err, plane.ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
}
