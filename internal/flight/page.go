package flight

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/plane/process"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/report"
	"github.com/windtunnel/windtunnel/internal/slo"
)

// Page returns a run that has ended as a browser shows it, with the verdict that
// was given, or the one that its records give when there is none. It writes
// nothing.
func Page(path string) (report.Page, error) {
	dir, manifest, err := record.OpenDir(path)
	if err != nil {
		return report.Page{}, err
	}
	var j slo.Judgement
	raw, err := os.ReadFile(dir.File(record.VerdictFile))
	if err != nil || json.Unmarshal(raw, &j) != nil {
		if j, err = Verdict(dir); err != nil {
			return report.Page{}, fmt.Errorf("judge %s: %w", manifest.Scenario, err)
		}
	}
	built, err := report.Build(dir, manifest, j)
	if err != nil {
		return report.Page{}, err
	}
	return built.Page()
}

// judgeShare is which part of a core the objectives of a run under way may take:
// they are computed from all of its records.
const judgeShare = 200

// Watched is a run under way, as the live page follows it.
type Watched struct {
	dir       record.Dir
	follower  *report.Follower
	judgement slo.Judgement
	clock     clock.Clock
	next      clock.Time // no sooner are the objectives computed again
}

// Watch opens a run under way. Close it after use.
func Watch(path string) (*Watched, error) {
	dir, _, err := record.OpenDir(path)
	if err != nil {
		return nil, err
	}
	f, err := report.Follow(dir)
	if err != nil {
		return nil, err
	}
	return &Watched{dir: dir, follower: f, clock: clock.Start()}, nil
}

// Page returns the run as far as its records go. What is drawn is of now; the
// objectives are of a moment ago where there are many records.
func (w *Watched) Page() (report.Page, error) {
	if w.clock.Now() >= w.next {
		begun := process.OwnCPU()
		if j, err := Verdict(w.dir); err == nil { // else the next time: its last block may be half written
			w.judgement = j
		}
		w.next = w.clock.Now().Add(judgeShare * (process.OwnCPU() - begun))
	}
	_, manifest, err := record.OpenDir(string(w.dir))
	if err != nil {
		return report.Page{}, err
	}
	built, err := w.follower.Report(manifest, w.judgement)
	if err != nil {
		return report.Page{}, err
	}
	return built.Page()
}

// Close lets go of the run; it may be called twice.
func (w *Watched) Close() error { return w.follower.Close() }

// Verdict returns what the records of a run directory give, and writes nothing.
func Verdict(dir record.Dir) (slo.Judgement, error) {
	all, err := judge(string(dir))
	return all.Judgement, err
}
