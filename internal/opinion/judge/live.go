package judge

import (
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/opinion/report"
	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
)

// judgeShare is which part of a core the objectives of a run under way may take:
// they are computed from all of its records.
const judgeShare = 200

// Watched is a run under way, as the live page follows it.
type Watched struct {
	follower  *run.Follower
	judgement slo.Judgement
	clock     clock.Clock
	next      clock.Time // no sooner are the objectives computed again
}

// Watch opens a run under way. Close it after use.
func Watch(path string) (*Watched, error) {
	f, err := run.Follow(path)
	if err != nil {
		return nil, err
	}
	return &Watched{follower: f, clock: clock.Start()}, nil
}

// Page returns the run as far as its records go. What is drawn is of now; the
// objectives are of a moment ago where there are many records.
func (w *Watched) Page() (report.Page, error) {
	r, err := w.follower.Next()
	if err != nil {
		return report.Page{}, err
	}
	if w.clock.Now() >= w.next {
		begun := process.OwnCPU()
		if j, err := slo.Judge(r); err == nil { // else the next time
			w.judgement = j
		}
		w.next = w.clock.Now().Add(judgeShare * (process.OwnCPU() - begun))
	}
	built := content.Build(r, w.judgement, nil)
	built.UnderWay()
	return report.NewPage(built)
}

// Close lets go of the run; it may be called twice.
func (w *Watched) Close() error { return w.follower.Close() }
