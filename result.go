package windtunnel

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/scenario"
)

// Verdict is what a run or an objective came to.
type Verdict string

// The verdicts. An objective without samples is unknown, never a pass.
const (
	Pass    Verdict = "pass"
	Fail    Verdict = "fail"
	Unknown Verdict = "unknown"
)

// Run is what a flight left.
type Run struct {
	Dir        string             `json:"-"` // run directory: records, report.html, logs
	Scenario   string             `json:"scenario"`
	Verdict    Verdict            `json:"verdict"`
	Reasons    []string           `json:"reasons"` // why the verdict is unknown
	Objectives []Objective        `json:"objectives"`
	Measures   map[string]Measure `json:"measures"`
}

// Objective is one bound and what was measured.
type Objective struct {
	Name      string            `json:"name"`
	SLI       string            `json:"sli"`
	Labels    map[string]string `json:"labels"`
	Statistic string            `json:"statistic"`
	Value     *float64          `json:"value"` // in Unit; nil: nothing was measured
	Unit      string            `json:"unit"`
	Threshold *float64          `json:"threshold"`
	Verdict   Verdict           `json:"verdict"`
	Samples   int               `json:"samples"`
}

// Measure is a named number of a run.
type Measure struct {
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Open reads the verdict of a run directory.
func Open(dir string) (*Run, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "verdict.json"))
	if err != nil {
		return nil, fmt.Errorf("read verdict: %w", err)
	}
	r := &Run{Dir: dir}
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, fmt.Errorf("read verdict of %s: %w", dir, err)
	}
	return r, nil
}

// failByVerdict fails the test as the verdict says.
func (r *Run) failByVerdict(t testing.TB, unsure bool) {
	t.Helper()
	switch {
	case r.Verdict == Pass, r.Verdict == Unknown && unsure:
		return
	}
	t.Errorf("windtunnel: the verdict on %s is %s\n%s\nrun directory: %s%s", r.Scenario, r.Verdict, r.Summary(), r.Dir, keepHint())
}

// keepHint says how the run directory could outlive the test.
func keepHint() string {
	if os.Getenv(EnvRuns) != "" {
		return ""
	}
	return " (go test -artifacts keeps it, and so does " + EnvRuns + "=FOLDER)"
}

// Summary is the text of summary.txt; empty when there is none.
func (r *Run) Summary() string {
	raw, err := os.ReadFile(filepath.Join(r.Dir, "summary.txt"))
	if err != nil {
		return strings.Join(r.Reasons, "\n")
	}
	return string(raw)
}

// Measure returns a number of the run, such as cpu_ms_per_pod_etcd or
// peak_rss_bytes_SUBJECT; ok is false when it was not measured.
func (r *Run) Measure(name string) (value float64, ok bool) {
	m, ok := r.Measures[name]
	return m.Value, ok
}

// AtMost fails the test when a number of the run is above a bound, or was not
// measured.
func (r *Run) AtMost(t testing.TB, name string, limit float64) {
	t.Helper()
	r.requireBound(t, name, func(v float64) bool { return v <= limit }, fmt.Sprintf("at most %v", limit))
}

// AtLeast fails the test when a number of the run is below a bound, or was not
// measured.
func (r *Run) AtLeast(t testing.TB, name string, limit float64) {
	t.Helper()
	r.requireBound(t, name, func(v float64) bool { return v >= limit }, fmt.Sprintf("at least %v", limit))
}

func (r *Run) requireBound(t testing.TB, name string, holds func(float64) bool, want string) {
	t.Helper()
	m, ok := r.Measures[name]
	switch {
	case !ok:
		t.Errorf("windtunnel: %s was not measured; it should be %s\nrun directory: %s", name, want, r.Dir)
	case !holds(m.Value):
		t.Errorf("windtunnel: %s is %v %s; it should be %s\nrun directory: %s", name, m.Value, m.Unit, want, r.Dir)
	}
}

// hostPort returns host and port of a URL; empty for none.
func hostPort(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}

// installDefinitions copies the flight's definitions beside the scenario and names them in
// its subject.
func (f Flight) installDefinitions(s *scenario.Scenario, folder string) error {
	if len(f.CRDs) == 0 {
		return nil
	}
	files, err := listDefinitions(f.CRDs)
	if err != nil {
		return err
	}
	at := -1
	s.Subjects = append([]scenario.Subject(nil), s.Subjects...)
	for i, x := range s.Subjects {
		if x.Name == f.subjectName() {
			at = i
		}
	}
	if at < 0 {
		s.Subjects = append(s.Subjects, scenario.Subject{Name: f.subjectName(), External: true, Metrics: &scenario.Metrics{}})
		at = len(s.Subjects) - 1
	}
	for i, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("crd-%d.yaml", i+1)
		if err := os.WriteFile(filepath.Join(folder, name), raw, 0o600); err != nil {
			return err
		}
		s.Subjects[at].CRDs = append(s.Subjects[at].CRDs, name)
	}
	return nil
}

// errNoDefinitions says that a folder has no files of objects.
var errNoDefinitions = errors.New("no .yaml, .yml or .json file")

// listDefinitions lists the files of some files and folders.
func listDefinitions(paths []string) ([]string, error) {
	var out []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("Flight.CRDs: %w", err)
		}
		if !info.IsDir() {
			out = append(out, path)
			continue
		}
		before := len(out)
		entries, err := fs.ReadDir(os.DirFS(path), ".")
		if err != nil {
			return nil, fmt.Errorf("Flight.CRDs: %w", err)
		}
		for _, e := range entries {
			switch filepath.Ext(e.Name()) {
			case ".yaml", ".yml", ".json":
				out = append(out, filepath.Join(path, e.Name()))
			}
		}
		if len(out) == before {
			return nil, fmt.Errorf("Flight.CRDs: %s: %w", path, errNoDefinitions)
		}
	}
	return out, nil
}
