package site_test

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/kernel"
	"github.com/windtunnel/windtunnel/internal/opinion/site"
	"github.com/windtunnel/windtunnel/internal/opinion/site/sitetest"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// kept is a run of a density test, with 20 objectives and 189 measures.
var kept = filepath.Join("..", "judge", "testdata", "format1", "density")

// TestProofTenThousandRuns makes a page of 10,000 run directories in at most 5 seconds and
// 10 MB: experiments/0033.
func TestProofTenThousandRuns(t *testing.T) {
	repotest.Proof(t)
	for _, s := range []sitetest.Shape{{Scenarios: 20, Runs: 500}, {Scenarios: 1, Runs: 10_000}, {Scenarios: 2500, Runs: 4}} {
		s.From = kept
		folder := t.TempDir()
		sitetest.Write(t, folder, s)
		var page bytes.Buffer
		before := repotest.Must(kernel.OwnCPU())(t)
		c := clock.Start()
		summary, err := site.Write(t.Context(), &page, site.Options{Sources: []string{folder}, Folder: folder})
		took := time.Duration(c.Now())
		repotest.NoError(t, err)
		after := repotest.Must(kernel.OwnCPU())(t)
		t.Logf("%d scenarios of %d runs: %.2f s, %.2f s of CPU, %.2f MB, %d changes", s.Scenarios, s.Runs, took.Seconds(), (after - before).Seconds(), float64(page.Len())/1e6, summary.Changes)
		if summary.Runs != 10_000 || len(summary.LeftOut) != 0 {
			t.Errorf("%d runs, left out: %.300q", summary.Runs, summary.LeftOut)
		}
		if took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
		if page.Len() > 10_000_000 {
			t.Errorf("it has %d bytes", page.Len())
		}
	}
}
