package judge_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/judge"
	"github.com/windtunnel/windtunnel/internal/opinion/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestJudgeWithoutAProfile judges a run one of whose profiles is damaged.
func TestJudgeWithoutAProfile(t *testing.T) {
	dir, m, err := reporttest.Write(t.TempDir(), reporttest.Shape{Pods: 100, Latency: 20})
	repotest.NoError(t, err)
	m.Parameters = nil // those of an invented run are not its scenario's, which has no steps
	repotest.NoError(t, dir.Write(record.ScenarioFile, []byte("scenario: density\nsteps:\n- {pause: 1s}\n")))
	repotest.NoError(t, dir.WriteJSON(record.ManifestFile, m))
	repotest.NoError(t, os.MkdirAll(dir.File("profiles"), 0o700))
	name := m.Processes()[0].Name
	repotest.NoError(t, os.WriteFile(dir.File(filepath.Join("profiles", name+".block.pb.gz")), []byte("damage"), 0o600))
	if _, err := judge.Write(string(dir)); err != nil {
		t.Error(err)
	}
	summary, err := os.ReadFile(dir.File(record.SummaryFile))
	if err != nil || !strings.Contains(strings.Join(strings.Fields(string(summary)), " "), "What "+name+" waits for inside is left out") {
		t.Errorf("%v, %s", err, summary)
	}
}

// TestUndiagnosed has series that the diagnosis cannot ask: its run began at no
// known time. Verdict and report are there all the same.
func TestUndiagnosed(t *testing.T) {
	dir, m, err := reporttest.Write(t.TempDir(), reporttest.Shape{Pods: 100, Latency: 20, Gave: true})
	repotest.NoError(t, err)
	m.Parameters, m.Started = nil, time.Time{}
	repotest.NoError(t, dir.Write(record.ScenarioFile, []byte("scenario: density\nsteps:\n- {pause: 1s}\n")))
	repotest.NoError(t, dir.WriteJSON(record.ManifestFile, m))
	if _, err := judge.Write(string(dir)); err != nil {
		t.Error(err)
	}
	summary, err := os.ReadFile(dir.File(record.SummaryFile))
	if err != nil || !strings.Contains(strings.Join(strings.Fields(string(summary)), " "), "The diagnosis is left out") {
		t.Errorf("%v, %s", err, summary)
	}
	if _, err := os.Stat(dir.File("diagnosis.json")); err == nil {
		t.Error("that of an earlier judgement is still there")
	}
}
