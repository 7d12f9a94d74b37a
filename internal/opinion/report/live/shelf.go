package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// Limits of what is looked through for runs.
const (
	maxDepth   = 4
	maxRuns    = 2000
	maxEntries = 200_000         // of folders, in all
	listFor    = 2 * time.Second // that the newest run is taken to be the newest
)

// Run is one run in the list.
type Run struct {
	ID       string    `json:"id"`
	Scenario string    `json:"scenario"`
	Varied   string    `json:"varied"` // parameters in which the runs of its scenario differ, as --set has them
	Started  time.Time `json:"started"`
	State    string    `json:"state"`    // pass, fail, unknown, running
	Sentence string    `json:"sentence"` // the verdict in words
	Seconds  float64   `json:"seconds"`  // how long it took, or takes so far; 0: nothing tells
	dir      string
	set      map[string]string // all of its parameters
}

const running = "running"

// shelf finds runs on disk.
type shelf struct {
	roots []string
	clock clock.Clock

	mu     sync.Mutex
	dirs   map[string]string // by id
	known  map[string]remembered
	latest string // directory of the run that began last
	until  clock.Time
}

// remembered is what was read of a run that has ended.
type remembered struct {
	at  time.Time // when verdict.json was written
	run Run
}

func newShelf(roots []string, c clock.Clock) *shelf {
	return &shelf{roots: roots, clock: c, dirs: map[string]string{}, known: map[string]remembered{}}
}

// listRuns returns the runs, newest first.
func (s *shelf) listRuns() ([]Run, error) {
	found, err := s.lookForRuns()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirs = found
	out := []Run{}
	for id, dir := range found {
		if run, ok := s.readLocked(id, dir); ok {
			out = append(out, run)
		}
	}
	describeDifferences(out)
	slices.SortFunc(out, func(a, b Run) int {
		if c := b.Started.Compare(a.Started); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out, nil
}

// describeDifferences says of each run in what its parameters differ from those of other runs of its
// scenario: one cannot tell the runs of a search apart by anything else.
func describeDifferences(all []Run) {
	of := map[string]map[string]string{} // by scenario: those of its first run
	differs := map[string]map[string]bool{}
	for _, r := range all {
		first, known := of[r.Scenario]
		if !known {
			of[r.Scenario], differs[r.Scenario] = r.set, map[string]bool{}
			continue
		}
		for _, set := range []map[string]string{first, r.set} {
			for name := range set {
				a, inFirst := first[name]
				b, inThis := r.set[name]
				if a != b || inFirst != inThis {
					differs[r.Scenario][name] = true
				}
			}
		}
	}
	for i := range all {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(differs[all[i].Scenario])) {
			if value, has := all[i].set[name]; has {
				parts = append(parts, name+"="+value)
			}
		}
		all[i].Varied = strings.Join(parts, " ")
	}
}

// findRun returns the directory of a run.
func (s *shelf) findRun(id string) (string, bool) {
	s.mu.Lock()
	dir, ok := s.dirs[id]
	s.mu.Unlock()
	if ok {
		return dir, true
	}
	if _, err := s.listRuns(); err != nil {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	dir, ok = s.dirs[id]
	return dir, ok
}

// newestRun returns the directory of the run that began last. A dashboard asks many
// times in a row: the folders are looked through now and then.
func (s *shelf) newestRun() (string, bool) {
	s.mu.Lock()
	if s.latest != "" && s.clock.Now() < s.until {
		defer s.mu.Unlock()
		return s.latest, true
	}
	s.mu.Unlock()
	runs, err := s.listRuns()
	if err != nil || len(runs) == 0 {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest, s.until = runs[0].dir, s.clock.Now().Add(listFor)
	return s.latest, true
}

// place is a run directory that was found.
type place struct {
	path, root, below string
	at                time.Time // of its manifest
}

// lookForRuns returns the run directories below the roots, by id: the path below the
// root with ~ for the slashes. Where there are too many, the newest are kept.
func (s *shelf) lookForRuns() (map[string]string, error) {
	var found []place
	var faults []error
	for _, root := range s.roots {
		real, err := filepath.EvalSymlinks(root)
		if errors.Is(err, fs.ErrNotExist) {
			continue // nothing flew yet, or it was taken away
		}
		if err == nil {
			err = walkFolder(real, func(p place) { found = append(found, p) })
		}
		faults = append(faults, err)
	}
	if len(found) == 0 {
		return nil, errors.Join(faults...)
	}
	slices.SortStableFunc(found, func(a, b place) int { return b.at.Compare(a.at) })
	found = found[:min(len(found), maxRuns)]
	slices.SortStableFunc(found, func(a, b place) int { return strings.Compare(a.path, b.path) }) // the same ids each time
	out := map[string]string{}
	for _, p := range found {
		out[unusedID(out, p.root, p.below)] = p.path
	}
	return out, nil
}

// walkFolder finds the run directories below a folder. Links inside are not followed.
func walkFolder(root string, each func(place)) error {
	left := maxEntries
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if left--; left < 0 {
			return filepath.SkipAll
		}
		if err != nil || !d.IsDir() {
			return nil // what cannot be read has no runs for us
		}
		below, _ := filepath.Rel(root, path) // of a path below it: cannot fail
		if info, err := os.Stat(filepath.Join(path, record.ManifestFile)); err == nil {
			each(place{path, root, below, info.ModTime()})
			return filepath.SkipDir
		}
		if strings.Count(below, string(filepath.Separator)) >= maxDepth {
			return filepath.SkipDir
		}
		return nil
	})
}

// unusedID makes an id of a path; two roots may have the same paths below them.
func unusedID(taken map[string]string, root, below string) string {
	if below == "." {
		below = filepath.Base(root)
	}
	id := strings.ReplaceAll(below, string(filepath.Separator), "~")
	for taken[id] != "" {
		id += "~"
	}
	return id
}

// readLocked tells what is known of a run; callers hold mu.
func (s *shelf) readLocked(id, dir string) (Run, bool) {
	d := record.Dir(dir)
	info, judged := d.Stat(record.VerdictFile)
	if judged && s.known[dir].at.Equal(info.ModTime()) {
		run := s.known[dir].run
		run.ID = id
		return run, true
	}
	_, m, openErr := record.OpenDir(dir)
	if openErr != nil {
		return Run{}, false // of another version, or no run at all
	}
	run := Run{ID: id, Scenario: m.Scenario, Started: m.Started, dir: dir, set: scenario.Settings(m.Parameters), State: string(slo.Unknown)}
	if who, ok := Owner(dir); ok && who.Alive() {
		run.State = running
		run.Sentence, run.Seconds = progressText(d)
		return run, true
	}
	if !judged {
		run.Sentence = "It was cut off before it was judged: windtunnel judge does that now."
		return run, true
	}
	var j slo.Judgement
	raw, err := d.Read(record.VerdictFile)
	if err != nil || json.Unmarshal(raw, &j) != nil {
		run.Sentence = "Its verdict.json cannot be read: windtunnel judge writes it again."
		return run, true
	}
	run.State, run.Sentence = string(j.Verdict), content.Sentence(j)
	run.Seconds = j.Measures["run_seconds"].Value // not what files say: a copy has other times
	s.known[dir] = remembered{info.ModTime(), run}
	return run, true
}

// progressText says in a sentence where a run under way is, and for how many seconds.
func progressText(d record.Dir) (sentence string, seconds float64) {
	var s record.Status
	raw, err := d.Read(record.StatusFile)
	if err != nil || json.Unmarshal(raw, &s) != nil || s.Step == "" {
		return "It is under way.", s.Elapsed
	}
	out := fmt.Sprintf("Under way: step %d of %d, %s", s.Index, s.Of, s.Step)
	if s.Total > 0 {
		out += fmt.Sprintf(", %d of %d", s.Done, s.Total)
	}
	return out + ".", s.Elapsed
}

// Owner returns which process flies a run, or flew it when it was killed; not
// ok for a run that ended.
func Owner(dir string) (process.Identity, bool) {
	raw, err := record.Dir(dir).Read(record.OwnerFile)
	if err != nil {
		return process.Identity{}, false
	}
	var who process.Identity
	return who, json.Unmarshal(raw, &who) == nil && who.PID > 0
}
