package compare

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/diagnose"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/scenario"
)

// Run is what a comparison needs to know of a run.
type Run struct {
	Name      string // for people: the path of its directory
	Manifest  record.Manifest
	Scenario  string // text of the scenario; empty where it is not known
	Published []scenario.Published
	Judgement slo.Judgement
	// Facts are what its records say, as far as it is compared; nil where only
	// the verdict was kept.
	Facts *Facts
	// Findings are its diagnosis, the first cause first; nil where it has none, and empty
	// where nothing limited it.
	Findings []diagnose.Finding
}

// Facts are a run's end and its counters.
type Facts struct {
	Ended    record.Event // without Reason where the records have no end
	CutOff   bool         // the records are cut off
	Counters []Count
}

// Count is a number that belongs to what was asked of the plane and what it did,
// not to how fast it did it.
type Count struct {
	Name, Unit string
	Value      float64
}

// Open reads a run directory. Its verdict.json is believed where there is one;
// else the verdict is made from the records. What is no run directory, or of
// another version, is an error. A directory without records has no Facts.
func Open(path string) (Run, error) {
	dir, manifest, err := record.OpenDir(path)
	if err != nil {
		return Run{}, err
	}
	r := Run{Name: path, Manifest: manifest}
	if r.Findings, err = diagnose.Read(dir); err != nil {
		return Run{}, fmt.Errorf("%s: %w", path, err)
	}
	raw, err := dir.Read(record.VerdictFile)
	given := err == nil
	switch {
	case given:
		if err := text.DecodeJSON(dir.File(record.VerdictFile), raw, &r.Judgement); err != nil {
			return Run{}, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return Run{}, fmt.Errorf("open run directory: %w", err)
	}
	if _, err := os.Stat(dir.File(record.StreamFile)); given && errors.Is(err, fs.ErrNotExist) {
		text, err := dir.Read(record.ScenarioFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Run{}, fmt.Errorf("open run directory: %w", err)
		}
		r.Scenario = string(text)
		if s, err := scenario.Parse(dir.File(record.ScenarioFile), text, scenario.Settings(manifest.Parameters)); err == nil {
			r.Published = s.Published
		} // else it is of another version: its figures are left out
		return r, nil
	}
	read, err := run.Open(path)
	if err != nil {
		return Run{}, fmt.Errorf("%s: %w", path, err)
	}
	if !given {
		if r.Judgement, err = slo.Judge(read); err != nil {
			return Run{}, err
		}
	}
	made := Of(path, read, r.Judgement)
	made.Findings = r.Findings
	return made, nil
}

// Of is what a comparison needs to know of a run that was read and judged. It has no
// diagnosis.
func Of(name string, read *run.Run, j slo.Judgement) Run {
	r := Run{Name: name, Manifest: read.Manifest, Scenario: read.Text, Judgement: j}
	if read.Scenario != nil {
		r.Published = read.Scenario.Published
	}
	r.Facts = &Facts{Ended: read.Facts.Ended, CutOff: read.Facts.CutOff, Counters: sumCounters(read.Facts)}
	return r
}

// Unfit says why a run cannot be compared at all; empty when it can.
func (r Run) Unfit() string {
	switch f := r.Facts; {
	case f == nil && r.Judgement.Verdict == slo.Unknown:
		return "its verdict is unknown, and its records are not there to tell why"
	case f == nil:
		return ""
	case f.Ended.Reason == "":
		return "its records have no end: it was killed, or is still under way"
	case f.Ended.Reason == record.Interrupted:
		return "it was interrupted"
	case f.Ended.Reason != record.Done:
		first, _, _ := strings.Cut(strings.TrimSpace(f.Ended.Text), "\n")
		if f.Ended.Step != "" {
			first = "step " + f.Ended.Step + " failed: " + first
		}
		return strings.TrimRight("it was stopped: "+first, ": ")
	case f.CutOff:
		return "its records are cut off"
	}
	return ""
}

// Warning says why a run's figures are to be taken with care: its verdict is
// unknown, or its machine was busy. Empty when they are not.
func (r Run) Warning() string {
	m := r.Judgement.Measures
	switch {
	case r.Judgement.Verdict == slo.Unknown && len(r.Judgement.Reasons) > 0:
		return "its verdict is unknown: " + strings.TrimSuffix(r.Judgement.Reasons[0], ".")
	case r.Judgement.Verdict == slo.Unknown:
		return "its verdict is unknown"
	case m["host_others_share"].Value > r.Manifest.Neighbours():
		return fmt.Sprintf("other processes took %.0f %% of the machine's CPU", 100*m["host_others_share"].Value)
	case m["host_steal_share"].Value > record.StealShare:
		return fmt.Sprintf("the hypervisor kept %.0f %% of the machine's CPU for others", 100*m["host_steal_share"].Value)
	}
	return ""
}

// Totals returns the counters as those of the whole run, not for each pod.
func (f *Facts) Totals() []Count {
	created := 0.0
	for _, c := range f.Counters {
		if c.Name == "created: "+pods {
			created = c.Value
		}
	}
	out := slices.Clone(f.Counters)
	for i := range out {
		var each bool
		if out[i].Unit, each = strings.CutSuffix(out[i].Unit, perPod); each {
			out[i].Value *= created
		}
	}
	return out
}
