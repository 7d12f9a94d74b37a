// Package run makes a value of a run directory: its manifest, its scenario and
// what its records say, read once. What is said about a run (a verdict, a
// diagnosis, a comparison, a report) is a function of that value.
//
// It has no opinion and writes nothing. It knows the definitions that opinions
// share: which part of the stream is the run, when a call is late, how long an
// object took from one phase to another and what is known of it only within
// bounds.
package run

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// Run is a run directory that was read.
type Run struct {
	Dir      record.Dir
	Manifest record.Manifest
	Text     string // of the scenario as it was flown; empty where it is missing
	// Scenario is the scenario with the parameters that were in force. It is nil
	// where this version cannot read the text; Unreadable then says why.
	Scenario   *scenario.Scenario
	Unreadable error
	Facts      *Facts
}

// Open reads the run directory at path: its records once. A stream that a crash
// cut off is not an error. What is no run directory, or of another version, is.
func Open(path string) (*Run, error) {
	dir, manifest, err := record.OpenDir(path)
	if err != nil {
		return nil, err
	}
	return Read(dir, manifest)
}

// Read is Open with a manifest that was read before.
func Read(dir record.Dir, m record.Manifest) (*Run, error) {
	r, err := describeRun(dir, m)
	if err != nil {
		return nil, err
	}
	if r.Facts, err = Collect(dir.File(record.StreamFile), m); err != nil {
		return nil, err
	}
	return r, nil
}

// describeRun reads all of a run directory but its manifest and its records.
func describeRun(dir record.Dir, manifest record.Manifest) (*Run, error) {
	r := &Run{Dir: dir, Manifest: manifest}
	text, err := dir.Read(record.ScenarioFile)
	if errors.Is(err, fs.ErrNotExist) {
		r.Unreadable = fmt.Errorf("read scenario: %w", err)
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open run directory: %w", err)
	}
	r.Text = string(text)
	if r.Scenario, r.Unreadable = scenario.Parse(dir.File(record.ScenarioFile), text, scenario.Settings(manifest.Parameters)); r.Unreadable != nil {
		r.Scenario = nil
		return r, nil
	}
	r.Scenario.Seed = manifest.Seed
	return r, nil
}

// Follower reads a run that is under way. It is for one goroutine.
type Follower struct {
	run     *Run
	tail    *record.Tail
	workers []*record.Tail // nil: there are no records of it yet
	c       *collector
}

// Follow opens a run under way. An error wraps record.ErrNotRecords, or
// fs.ErrNotExist, where there are no records yet. Close it after use.
func Follow(path string) (*Follower, error) {
	dir, manifest, err := record.OpenDir(path)
	if err != nil {
		return nil, err
	}
	r, err := describeRun(dir, manifest)
	if err != nil {
		return nil, err
	}
	f := &Follower{run: r, c: newCollector(r.Manifest)}
	r.Facts = f.c.f
	if f.tail, err = record.OpenTail(r.Dir.File(record.StreamFile), f.c.newVisitor); err != nil {
		return nil, fmt.Errorf("follow run: %w", err)
	}
	return f, nil
}

// Next reads what was written since the last call and returns the run as far as
// it has come. What it returned before is not valid any more.
func (f *Follower) Next() (*Run, error) {
	if _, err := f.tail.Next(); err != nil {
		return nil, fmt.Errorf("follow run: %w", err)
	}
	_, manifest, err := record.OpenDir(string(f.run.Dir))
	if err != nil {
		return nil, err
	}
	f.run.Manifest = manifest
	f.c.finishFacts(f.tail.Stream())
	return f.run, f.followWorkers()
}

// followWorkers reads what workers have brought since the last call.
func (f *Follower) followWorkers() error {
	if f.run.Manifest.Workers == nil {
		return nil
	}
	for i := range min(f.run.Manifest.Workers.Count, record.MaxWorkers) {
		w := f.c.workerOf(i)
		w.Fleet = f.run.Manifest.Workers.KeepsNodes(i)
		if i == len(f.workers) {
			f.workers = append(f.workers, nil)
		}
		if f.workers[i] == nil {
			tail, err := f.run.Dir.OpenTail(record.WorkerFile(i), f.c.workerVisitor(w))
			if record.NoStream(err) {
				continue // not yet
			}
			if err != nil {
				return fmt.Errorf("follow run: %w", err)
			}
			f.workers[i] = tail
		}
		if _, err := f.workers[i].Next(); err != nil {
			return fmt.Errorf("follow run: worker %d: %w", i, err)
		}
		w.finishCalls()
	}
	return nil
}

// Close closes the records. It may be called twice.
func (f *Follower) Close() error {
	errs := []error{f.tail.Close()}
	for _, tail := range f.workers {
		if tail != nil {
			errs = append(errs, tail.Close())
		}
	}
	return errors.Join(errs...)
}
