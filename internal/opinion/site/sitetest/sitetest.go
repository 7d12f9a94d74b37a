// Package sitetest makes folders of many run directories for tests: copies of a kept run
// whose measures vary. Nothing that measures calls it.
package sitetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// Shape says which runs are made.
type Shape struct {
	From      string // the kept run directory
	Scenarios int
	Runs      int // of each scenario
}

// Slower is the measure that becomes 40 % worse in the newest third of the runs, at most 30, of the first scenario.
const Slower = "pod_startup_p99_seconds_saturation"

// Write makes the runs below a folder, six hours apart: SCENARIO/NUMBER. Every seventh
// fails, every eleventh is unknown.
func Write(t testing.TB, folder string, s Shape) {
	t.Helper()
	from, manifest, err := record.OpenDir(s.From)
	repotest.NoError(t, err)
	text, err := from.Read(record.ScenarioFile)
	repotest.NoError(t, err)
	raw, err := from.Read(record.VerdictFile)
	repotest.NoError(t, err)
	var kept slo.Judgement
	repotest.NoError(t, json.Unmarshal(raw, &kept))
	r := rand.New(rand.NewPCG(uint64(s.Scenarios), uint64(s.Runs)))
	for i := range s.Scenarios {
		for n := range s.Runs {
			m, j := manifest, kept
			m.Scenario, m.Seed = fmt.Sprintf("%s-%02d", manifest.Scenario, i), uint64(n)
			m.Started = time.Date(2026, 1, 2, 6*n, i%60, i/60, 0, time.UTC)
			m.Versions = maps.Clone(manifest.Versions)
			m.Versions["kubernetes"] = fmt.Sprintf("v1.37.%d", 3*n/s.Runs)
			j.Verdict, j.Measures = slo.Pass, slo.Measures{}
			switch {
			case n%7 == 3:
				j.Verdict = slo.Fail
			case n%11 == 5:
				j.Verdict = slo.Unknown
			}
			for _, key := range slices.Sorted(maps.Keys(kept.Measures)) { // in one order, or each folder has other noise
				v := kept.Measures[key]
				v.Value *= math.Exp(0.03 * r.NormFloat64())
				if key == Slower && i == 0 && n >= s.Runs-min(s.Runs/3, 30) {
					v.Value *= 1.4
				}
				j.Measures[key] = v
			}
			to := filepath.Join(folder, m.Scenario, fmt.Sprintf("%05d", n))
			repotest.NoError(t, os.MkdirAll(to, 0o700))
			write := func(name string, content []byte, err error) {
				repotest.NoError(t, err)
				repotest.NoError(t, os.WriteFile(filepath.Join(to, name), content, 0o600)) // Dir.Write waits for the disk
			}
			write(record.ScenarioFile, text, nil)
			raw, err := json.MarshalIndent(m, "", "  ")
			write(record.ManifestFile, raw, err)
			raw, err = json.MarshalIndent(j, "", "  ")
			write(record.VerdictFile, raw, err)
			if n%2 == 0 {
				write(record.ReportFile, []byte("<title>report</title>"), nil)
			}
		}
	}
}
