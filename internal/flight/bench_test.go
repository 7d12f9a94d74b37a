package flight

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/flight/flighttest"
	"github.com/windtunnel/windtunnel/internal/flight/preflight"
	"github.com/windtunnel/windtunnel/internal/flight/steps"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/observe/lifecycle"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// bench is a run without a plane: its calls go to a server of the test.
type bench struct {
	*run
	server *flighttest.Server
}

func newBench(t *testing.T, text string) *bench {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "s.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sc, err := scenario.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	sc.Preflight.Tolerate = append(sc.Preflight.Tolerate, preflight.Host) // the machine that tests run on is not looked at
	b := &bench{server: flighttest.NewServer(), run: &run{
		options: Options{File: file}, scenario: sc, clock: clock.Start(), log: slog.New(slog.DiscardHandler), created: steps.NewCreated(), injected: &steps.Injected{},
	}}
	if b.workload, err = steps.Compile(sc, file); err != nil {
		t.Fatal(err)
	}
	if b.dir, err = record.CreateDir(filepath.Join(dir, "run")); err != nil {
		t.Fatal(err)
	}
	if b.records, err = record.Create(b.dir.File(record.StreamFile)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.records.Close() })
	b.status, b.life = newBoard(b.run), lifecycle.New(b.records)
	b.connect(t)
	return b
}

func (b *bench) connect(t *testing.T) {
	t.Helper()
	e := b.server.Endpoint(t)
	var err error
	if b.watcher, err = wire.New(e, wire.Options{Clock: b.clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.watcher.Close() })
	if b.generator, err = load.New(load.Options{Endpoint: e, Records: b.records, Clock: b.clock, Connections: 1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.generator.Close() })
	b.status.follow(b.generator, nil)
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
