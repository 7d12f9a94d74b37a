package robust_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/judge"
	"github.com/windtunnel/windtunnel/internal/opinion/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/recordtest"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// passing is a run directory whose verdict is a pass, with the bytes of its records.
func passing(t *testing.T) (record.Dir, []byte) {
	t.Helper()
	d, m, err := reporttest.Write(t.TempDir(), reporttest.Shape{Pods: 8, Latency: 2, Nodes: 1, Machines: 1})
	repotest.NoError(t, err)
	m.Parameters = nil // those of an invented run are not its scenario's
	const text = "scenario: density\nsteps: [{pause: 1s}]\nobjectives:\n- {sli: call-latency, statistic: p50, max: 60}\n"
	repotest.NoError(t, d.Write(record.ScenarioFile, []byte(text)))
	repotest.NoError(t, d.WriteJSON(record.ManifestFile, m))
	j, err := judge.Write(string(d))
	if err != nil || j.Verdict != slo.Pass {
		t.Fatalf("%s, %v, %v", j.Verdict, err, j.Reasons)
	}
	raw := repotest.Must(os.ReadFile(d.File(record.StreamFile)))(t)
	return d, raw
}

// ended is where the block with the run's end ends: what comes after is clean-up,
// which no verdict is about.
func ended(t *testing.T, raw []byte) int {
	t.Helper()
	at, end := len(recordtest.Header), 0
	for _, payload := range recordtest.Payloads(raw) {
		at += 8 + len(payload)
		path := filepath.Join(t.TempDir(), "r.wt")
		repotest.NoError(t, os.WriteFile(path, raw[:at], 0o600))
		repotest.Must(record.Read(path, func(*record.Stream) record.Visitor {
			return record.Visitor{Event: func(e record.Event) {
				if e.Type == record.EventRunEnded && end == 0 {
					end = at
				}
			}}
		}))(t)
	}
	return end
}

// Cut at any byte, records give no pass, unless all that is judged is there and
// whole; and nothing panics.
func TestRecordsCutAtEveryByte(t *testing.T) {
	seed := repotest.Robust(t)
	d, raw := passing(t)
	whole := map[int]bool{}
	at, end := len(recordtest.Header), ended(t, raw)
	for _, payload := range recordtest.Payloads(raw) {
		at += 8 + len(payload)
		whole[at] = at >= end
	}
	cuts, passes := 0, 0
	for size := range raw {
		repotest.NoError(t, os.WriteFile(d.File(record.StreamFile), raw[:size], 0o600))
		cuts++
		r, err := run.Open(string(d))
		if err != nil {
			continue // less than a header
		}
		if j, err := slo.Judge(r); err == nil && j.Verdict == slo.Pass {
			if passes++; !whole[size] {
				t.Errorf("cut at byte %d of %d: a pass", size, len(raw))
			}
		}
	}
	t.Logf("seed %d: %d cuts, %d of them between two blocks behind the run's end, which pass", seed, cuts, passes)
}

// Whatever is flipped, cut or put into records, nothing panics, and what the
// checksums do not cover for is no pass.
func TestDamagedRecords(t *testing.T) {
	seed := repotest.Robust(t)
	d, raw := passing(t)
	rnd := rand.New(rand.NewPCG(seed, 3))
	counts := map[string]int{}
	for range 3000 {
		damaged, resealed := recordtest.Damage(raw, rnd)
		repotest.NoError(t, os.WriteFile(d.File(record.StreamFile), damaged, 0o600))
		j, err := judge.Write(string(d))
		switch {
		case err != nil:
			counts["refused"]++
		case !resealed && j.Verdict == slo.Pass:
			t.Errorf("a pass of %d damaged bytes", len(damaged))
		default:
			counts[string(j.Verdict)]++
		}
	}
	t.Logf("seed %d: 3000 damaged records: %v", seed, counts)
}
