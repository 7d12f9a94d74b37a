package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/capacity"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// A plane whose controller manager allows itself 10 calls per second does not
// bring up 40 pods per second: all calls are answered, and the search says what came.
func TestFlightSearchSaysWhatWasAchieved(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	file := repotest.Must(filepath.Abs("../../examples/throughput.yaml"))(t)
	cmd, said := u.start("search", file, "--vary", "rate=40..80", "--set", "qps=10", "--set", "pods=60", "--goal", "throughput", "--runs", "1", "--out", "search")
	if code := exitOf(cmd.Wait()); code != exitUnknown {
		t.Fatalf("exit code %d: %s", code, said)
	}
	raw := repotest.Must(os.ReadFile(filepath.Join(u.dir, "search", capacity.StateFile)))(t)
	var s capacity.State
	repotest.NoError(t, json.Unmarshal(raw, &s))
	if s.Result.Rate != "pods running of fill" || len(s.Result.Points) != 1 {
		t.Fatalf("%+v", s.Result)
	}
	if at := s.Result.Points[0]; at.Asked != 40 || at.Achieved <= 0 || !at.Short {
		t.Errorf("%+v", at)
	}
	if want := "of 40 pods/s"; !strings.Contains(said.String(), want) {
		t.Errorf("no %q in %s", want, said)
	}
	u.nothingLeft()
}
