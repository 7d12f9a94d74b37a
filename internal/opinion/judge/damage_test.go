package judge_test

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/judge"
	"github.com/windtunnel/windtunnel/internal/opinion/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/recordtest"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// Records that are cut, flipped or changed under right checksums end no verdict in a
// panic, and what the checksums do not cover for is no pass. bench/robust does it at
// every byte.
func TestDamagedRecordsDoNotPass(t *testing.T) {
	d, m, err := reporttest.Write(t.TempDir(), reporttest.Shape{Pods: 8, Latency: 2, Nodes: 1, Machines: 1})
	repotest.NoError(t, err)
	m.Parameters = nil
	const text = "scenario: density\nsteps: [{name: latency, pause: 1s}]\nobjectives:\n- {sli: call-latency, statistic: p50, max: 60}\n"
	repotest.NoError(t, d.Write(record.ScenarioFile, []byte(text)))
	repotest.NoError(t, d.WriteJSON(record.ManifestFile, m))
	if j, err := judge.Write(string(d)); err != nil || j.Verdict != slo.Pass {
		t.Fatalf("%s, %v, %v", j.Verdict, err, j.Reasons)
	}
	raw := repotest.Must(os.ReadFile(d.File(record.StreamFile)))(t)
	rnd := rand.New(rand.NewPCG(17, 0))
	refused := 0
	for range 150 {
		damaged, resealed := recordtest.Damage(raw, rnd)
		repotest.NoError(t, os.WriteFile(d.File(record.StreamFile), damaged, 0o600))
		j, err := judge.Write(string(d))
		if err != nil {
			refused++
		} else if !resealed && j.Verdict == slo.Pass {
			t.Errorf("a pass of %d bytes of %d", len(damaged), len(raw))
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}
