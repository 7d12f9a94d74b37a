package flight

import (
	"errors"

	"github.com/windtunnel/windtunnel/internal/opinion/judge"
)

// writeResults closes the records and turns them into the run's other files.
func (r *run) writeResults(ended error) Result {
	out := Result{Dir: r.dir.Dir, Err: ended}
	if err := r.dir.records.Close(); err != nil {
		out.Err = errors.Join(out.Err, err)
	}
	if errors.Is(out.Err, ErrBoot) && r.visit.release == nil && r.dir.removeIfEmpty() {
		return Result{Err: out.Err}
	}
	if err := r.dir.saveManifest(); err != nil {
		out.Err = errors.Join(out.Err, err)
		return out
	}
	judgement, err := judge.Write(string(r.dir.Dir))
	out.Judgement = judgement
	out.Err = errors.Join(out.Err, err)
	return out
}
