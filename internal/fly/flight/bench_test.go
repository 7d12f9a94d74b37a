package flight

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/flight/flighttest"
	"github.com/windtunnel/windtunnel/internal/fly/flight/preflight"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/share/leader"
	"github.com/windtunnel/windtunnel/internal/fly/subject/external"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
)

// bench is a run without a plane: its calls go to a server of the test.
type bench struct {
	*run
	server *apitest.Server
}

func newBench(t *testing.T, text string) *bench { return newBenchOf(t, text, nil) }

// newBenchOf is newBench for a scenario whose subject is the caller.
func newBenchOf(t *testing.T, text string, caller *external.Caller) *bench {
	t.Helper()
	folder := t.TempDir()
	o := Options{File: filepath.Join(folder, "s.yaml"), Text: []byte(text), Out: filepath.Join(folder, "run"), Log: slog.New(slog.DiscardHandler), Caller: caller}
	in, err := o.loadScenario()
	repotest.NoError(t, err)
	in.Scenario.Preflight.Tolerate = append(in.Scenario.Preflight.Tolerate, preflight.Host) // the machine that tests run on is not looked at
	b := &bench{server: flighttest.NewServer(t)}
	if b.run, err = newRun(in, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.dir.records.Close() })
	e := b.server.Endpoint()
	b.client = apitest.Client(t, e, b.clock)
	b.plane = &plane.Plane{}
	if b.instruments, err = newInstruments(b.run); err != nil {
		t.Fatal(err)
	}
	if b.generator, err = load.New(load.Options{Endpoint: e, Records: b.dir.records, Clock: b.clock, Connections: 1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.generator.Close() })
	b.senders = leader.NewSenders(b.log)
	b.senders.SetOwn(b.generator)
	b.progress.setSources(b.senders, nil)
	return b
}

// head is a scenario up to its steps.
func head(namespaces int) string {
	return fmt.Sprintf(`scenario: x
namespaces: {prefix: n, count: %d}
bodies:
  map:
    text: |
      {apiVersion: v1, kind: ConfigMap, metadata: {name: "{{ .Name }}", namespace: "{{ .Namespace }}"}}
steps:
`, namespaces)
}
