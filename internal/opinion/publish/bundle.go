// Package publish makes a bundle of an experiment, one file that others can check, and
// checks one: whatever a bundle says is computed again from its records.
//
// A bundle holds the runs of an experiment without what tells who flew it and where, the
// author's claims, and what follows from them: verdicts, comparison, the outcome of each
// claim and of each run rule. It judges nothing itself: packages slo and compare do.
package publish

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/publish/redact"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Format is the version of the layout of bundles that are made. Older ones are read, too:
// in format 1 records are not compressed, and executables have no components.
const Format = 2

// The files of a bundle. Those of a run have the names that they have in a run directory.
const (
	IndexFile      = "bundle.json"
	ClaimsFile     = "claims.yaml"
	RemovedFile    = "removed.json"
	ResultsFile    = "results.json"
	ReportFile     = "report.md"
	ComparisonFile = "comparison.json"
	ControlFile    = "control.json"
	SumsFile       = "sha256sums.txt"
	StatementFile  = "statement.json"      // of a bundle that is not signed
	EnvelopeFile   = "statement.dsse.json" // of one that is
)

// The folders of the runs of the experiment and of its control.
const (
	runsFolder    = "runs"
	controlFolder = "control"
)

// Errors of making and reading a bundle.
var (
	ErrNoRuns = errors.New("there is no run in it that can be published")
	ErrClaims = errors.New("claims")
	ErrIndex  = errors.New("what the bundle says of itself cannot be read")
)

// Index is the content of bundle.json: what the author says that is in the bundle.
type Index struct {
	Format     int         `json:"format"`
	MadeBy     string      `json:"made_by"` // version of windtunnel
	Experiment Experiment  `json:"experiment"`
	Control    *Experiment `json:"control,omitempty"` // both sides alike, flown beside the experiment
	Logs       []Log       `json:"logs"`
	// Calibration is of the machine that the runs were flown on; nil: it was not measured there.
	Calibration *Calibration `json:"calibration,omitempty"`
	// WithoutComponents are the lists of components that are not in the bundle.
	WithoutComponents []LeftOut `json:"without_components,omitempty"`
}

// Experiment is a set of runs of one scenario, on one side or two.
type Experiment struct {
	Sides     []Side    `json:"sides"`
	Mentioned []string  `json:"mentioned,omitempty"` // runs that its comparison names
	LeftOut   []LeftOut `json:"left_out,omitempty"`
	// Of the comparison of two sides.
	Asked     []string `json:"asked,omitempty"`
	FailAbove float64  `json:"fail_above,omitempty"`
	Seed      uint64   `json:"seed,omitempty"`
	Notes     []string `json:"notes,omitempty"`
}

// Side is one variant.
type Side struct {
	Name string   `json:"name"`
	Runs []string `json:"runs"` // paths in the bundle
}

// LeftOut is a folder of the experiment that is not in the bundle.
type LeftOut struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// Log is a log of a run. Only its digest is in the bundle.
type Log struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// paths are those of all runs of an experiment.
func (e *Experiment) paths() (out []string) {
	if e == nil {
		return nil
	}
	for _, side := range e.Sides {
		out = append(out, side.Runs...)
	}
	return out
}

// missing lists the runs that are mentioned, or without which the numbers of the others
// have a gap, and that are neither there nor left out with a reason.
func (e *Experiment) missing() (out []string) {
	there := map[string]bool{}
	for _, p := range e.paths() {
		there[path.Base(p)] = true
	}
	for _, l := range e.LeftOut {
		there[l.Name] = true
	}
	wanted := slices.Clone(e.Mentioned)
	last := 0
	for name := range there {
		if parts := turnName.FindStringSubmatch(name); parts != nil {
			n, _ := strconv.Atoi(parts[2])
			last = max(last, min(n, maxTurns))
		}
	}
	if len(e.Sides) == 2 {
		for n := range last {
			wanted = append(wanted, fmt.Sprintf("a-%02d", n+1), fmt.Sprintf("b-%02d", n+1))
		}
	}
	for _, name := range wanted {
		if !there[name] && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// turnName is the name of a run of the verb ab; those of a pair have one number.
var turnName = regexp.MustCompile(`^([ab])-(\d+)$`)

// maxRuns is how many runs a bundle may have: a comparison looks at each pair of them.
const maxRuns = 1000

// maxRepeats is how many repeats a calibration may have, one for each run: each is held
// against each of another.
const maxRepeats = maxRuns

// maxTurns is up to which number runs are looked for.
const maxTurns = 10_000

// encodeFile returns a value as a file of a bundle: indented JSON, with the digits of a
// number that do not depend on which machine computed it.
func encodeFile(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	var b bytes.Buffer
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(roundNumbers(tree)); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return b.Bytes(), nil
}

// digits is how many digits of a number are kept. Compilers for different processors may
// fuse a multiplication and an addition, which changes the last of some 16.
const digits = 9

func roundNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			if f, err := v.Float64(); err == nil && !math.IsInf(f, 0) {
				return json.Number(strconv.FormatFloat(f, 'g', digits, 64))
			}
		}
	case []any:
		for i := range v {
			v[i] = roundNumbers(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = roundNumbers(v[key])
		}
	}
	return v
}

// decodeIndex reads bundle.json. One of a newer format is read as far as it can be.
func decodeIndex(raw []byte) (x Index, err error) {
	if err := json.Unmarshal(raw, &x); err != nil {
		return x, fmt.Errorf("%w: %s: %w", ErrIndex, IndexFile, err)
	}
	if x.Format > Format {
		return x, nil
	}
	if again, err := encodeFile(x); x.Format < 1 || err != nil || !bytes.Equal(again, raw) {
		return x, fmt.Errorf("%w: %s is not as it is written", ErrIndex, IndexFile)
	}
	for _, e := range []*Experiment{&x.Experiment, x.Control} {
		for i, p := range e.paths() {
			if !runPath.MatchString(p) || slices.Contains(e.paths()[:i], p) {
				return x, fmt.Errorf("%w: run %q", ErrIndex, p)
			}
		}
	}
	if x.Calibration != nil && len(x.Calibration.Seconds) > maxRepeats {
		return x, fmt.Errorf("%w: %s of its calibration", ErrIndex, unit.Count(len(x.Calibration.Seconds), "repeats"))
	}
	runs := len(x.Experiment.paths())
	if n := len(x.Experiment.Sides); n < 1 || n > 2 || runs == 0 || runs+len(x.Control.paths()) > maxRuns {
		return x, fmt.Errorf("%w: %s, %s", ErrIndex, unit.Count(n, "sides"), unit.Count(runs, "runs"))
	}
	return x, nil
}

var (
	runPath = regexp.MustCompile(`^(` + runsFolder + `|` + controlFolder + `)/[A-Za-z0-9][A-Za-z0-9._=-]*$`)
	runFile = regexp.MustCompile(`^(manifest\.json|scenario\.yaml|verdict\.json|(records|workers/\d+)\.wt(\.gz)?)$`)
)

// unknownFiles lists files that have no place in a bundle with this index.
func (x *Index) unknownFiles(names []string) (out []string) {
	top := []string{IndexFile, ClaimsFile, RemovedFile, ResultsFile, ReportFile, ComparisonFile, ControlFile, SumsFile, StatementFile, EnvelopeFile}
	runs := append(x.Experiment.paths(), x.Control.paths()...)
	for _, name := range names {
		inRun := slices.ContainsFunc(runs, func(run string) bool {
			rest, ok := strings.CutPrefix(name, run+"/")
			return ok && runFile.MatchString(rest) && (!strings.Contains(rest, streamSuffix) || strings.HasSuffix(rest, compressedSuffix) == (x.Format > 1))
		})
		if !inRun && !slices.Contains(top, name) && !reproductionFile.MatchString(name) && (x.Format < 2 || !componentsFile.MatchString(name)) {
			out = append(out, name)
		}
	}
	return out
}

// removedList is the content of removed.json.
type removedList struct {
	Removed []redact.Removed `json:"removed"`
}

// readJSON reads a file of the folder.
func readJSON(dir record.Dir, name string, into any) error {
	raw, err := dir.Read(name)
	if err == nil {
		err = text.DecodeJSON(name, raw, into)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrIndex, err)
	}
	return nil
}
