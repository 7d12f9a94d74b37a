package reporttest

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/diagnose"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// Read reads a run directory, of a run with this manifest.
func Read(t testing.TB, d record.Dir, m record.Manifest) *run.Run {
	t.Helper()
	return repotest.Must(run.Read(d, m))(t)
}

// Found reads the diagnosis that a run directory holds.
func Found(t testing.TB, d record.Dir) []diagnose.Finding {
	t.Helper()
	return repotest.Must(diagnose.Read(d))(t)
}
