package reporttest

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/diagnose"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Read reads a run directory, of a run with this manifest.
func Read(t testing.TB, d record.Dir, m record.Manifest) *run.Run {
	t.Helper()
	r, err := run.Read(d, m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Found reads the diagnosis that a run directory holds.
func Found(t testing.TB, d record.Dir) []diagnose.Finding {
	t.Helper()
	found, err := diagnose.Read(d)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
