package steps

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/flight/flighttest"
	"github.com/windtunnel/windtunnel/internal/fly/flight/journal"
	"github.com/windtunnel/windtunnel/internal/fly/flight/preflight"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/observe/lifecycle"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
	"github.com/windtunnel/windtunnel/scenario"
)

// bench is a session without a plane: its steps go to a server of the test.
type bench struct {
	*Session
	server *apitest.Server
}

// nobody watches the progress.
type nobody struct{}

func (nobody) Enter(string) (leave func()) { return func() {} }
func (nobody) Waiting(string, int, int)    {}
func (nobody) WaitingFor(string, string)   {}

func newBench(t *testing.T, text string) *bench { return newBenchOf(t, text, object.Stamp{}) }

// newBenchOf is newBench in a cluster of others, where what is made has a stamp.
func newBenchOf(t *testing.T, text string, stamp object.Stamp) *bench {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "s.yaml")
	repotest.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	sc, err := scenario.Load(file, nil)
	repotest.NoError(t, err)
	sc.Preflight.Tolerate = append(sc.Preflight.Tolerate, preflight.Host) // the machine that tests run on is not looked at
	log, c := slog.New(slog.DiscardHandler), clock.Start()
	b := &bench{server: flighttest.NewServer(t), Session: &Session{
		Created: NewCreated(), Injected: &Injected{Log: log}, Own: stamp.Run == "", Clock: c, Log: log,
	}}
	if b.Workload, err = Compile(sc, file, stamp); err != nil {
		t.Fatal(err)
	}
	if b.Dir, err = record.CreateDir(filepath.Join(dir, "run")); err != nil {
		t.Fatal(err)
	}
	records := repotest.Must(record.Create(b.Dir.File(record.StreamFile)))(t)
	t.Cleanup(func() { _ = records.Close() })
	b.Tracker = Tracker{Journal: journal.Journal{Records: records, Clock: c}, Progress: nobody{}}
	b.Pods = lifecycle.New(records)
	e := b.server.Endpoint()
	b.Client = apitest.Client(t, e, c)
	if b.Load, err = load.New(load.Options{Endpoint: e, Records: records, Clock: c, Connections: 1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Load.Close() })
	return b
}
