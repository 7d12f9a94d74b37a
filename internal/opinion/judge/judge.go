// Package judge lets every opinion speak on a run directory and writes what they
// say: verdict.json, junit.xml, diagnosis.json, report.html, summary.txt, and the
// results in the form of the tool whose file was flown.
//
// It has no opinion of its own. A run directory is read once.
package judge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/summary"
	"github.com/windtunnel/windtunnel/internal/interop/junit"
	"github.com/windtunnel/windtunnel/internal/interop/kubeburner/measurement"
	"github.com/windtunnel/windtunnel/internal/opinion/diagnose"
	"github.com/windtunnel/windtunnel/internal/opinion/report"
	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
)

// summaryWidth is how many columns summary.txt has at most.
const summaryWidth = 80

// Write computes the verdict of the run directory at path from its scenario,
// manifest and records alone, and writes all that is made of them.
func Write(path string) (slo.Judgement, error) {
	defer collectGarbageEarly()()
	r, j, err := judgeRun(path)
	if err != nil {
		return j, err
	}
	if err := r.Dir.WriteJSON(record.VerdictFile, j); err != nil {
		return j, err
	}
	var xml bytes.Buffer
	if err := junit.Write(&xml, r.Manifest, j); err != nil {
		return j, err
	}
	if err := r.Dir.Write(record.JUnitFile, xml.Bytes()); err != nil {
		return j, err
	}
	if _, err := exportRun(r, j, r.Manifest.Imported, r.Dir.File(r.Manifest.Imported)); err != nil {
		return j, err
	}
	// A diagnosis that cannot be made takes neither verdict nor report away: the
	// report says so.
	found, notes, err := writeDiagnosis(r)
	r.Manifest.Warnings = append(slices.Clip(r.Manifest.Warnings), notes...)
	return j, errors.Join(err, writeReport(r.Dir, content.Build(r, j, found)))
}

// judgeRun reads a run directory and computes its verdict.
func judgeRun(path string) (*run.Run, slo.Judgement, error) {
	r, err := run.Open(path)
	if err != nil {
		return nil, slo.Judgement{}, err
	}
	j, err := slo.Judge(r)
	return r, j, err
}

// writeDiagnosis says what limited the plane and writes diagnosis.json. What it
// could not read or work out is in the notes; the error is that of writing.
func writeDiagnosis(r *run.Run) (found []diagnose.Finding, notes []string, err error) {
	found, notes, err = diagnose.Find(context.Background(), r)
	if err == nil {
		return found, notes, r.Dir.WriteJSON(diagnose.File, found)
	}
	// One of an earlier judgement does not belong to this one.
	if removed := os.Remove(r.Dir.File(diagnose.File)); removed != nil && !errors.Is(removed, fs.ErrNotExist) {
		return nil, nil, removed
	}
	return nil, []string{fmt.Sprintf("The diagnosis is left out: %v", err)}, nil
}

func writeReport(dir record.Dir, built *content.Report) error {
	var html, text bytes.Buffer
	if err := report.WriteHTML(&html, built); err != nil {
		return err
	}
	if err := report.WriteSummary(&text, built, summaryWidth); err != nil {
		return err
	}
	return errors.Join(dir.Write(record.ReportFile, html.Bytes()), dir.Write(record.SummaryFile, text.Bytes()))
}

// Export writes the results of the run directory at path into a folder in the
// form of ClusterLoader2 ("clusterloader2") or kube-burner ("kube-burner"), and
// returns the files' names.
func Export(path, format, folder string) ([]string, error) {
	r, j, err := judgeRun(path)
	if err != nil {
		return nil, err
	}
	return exportRun(r, j, format, folder)
}

func exportRun(r *run.Run, j slo.Judgement, format, folder string) ([]string, error) {
	switch format {
	case "clusterloader2":
		return summary.Write(folder, r, j)
	case "kube-burner":
		return measurement.Write(folder, r, j)
	}
	return nil, nil
}

// Report judges a run directory again and returns its report. It writes nothing.
func Report(path string) (*content.Report, error) {
	defer collectGarbageEarly()()
	r, j, err := judgeRun(path)
	if err != nil {
		return nil, err
	}
	return buildReport(r, j)
}

// Shown returns the report of a run that has ended with the verdict that was
// given, or the one that its records give when there is none. It writes nothing.
func Shown(path string) (*content.Report, error) {
	r, err := run.Open(path)
	if err != nil {
		return nil, err
	}
	var j slo.Judgement
	raw, err := r.Dir.Read(record.VerdictFile)
	if err != nil || json.Unmarshal(raw, &j) != nil {
		if j, err = slo.Judge(r); err != nil {
			return nil, fmt.Errorf("judge %s: %w", r.Manifest.Scenario, err)
		}
	}
	return buildReport(r, j)
}

// buildReport makes the report of a run with the diagnosis that its directory holds.
func buildReport(r *run.Run, j slo.Judgement) (*content.Report, error) {
	found, err := diagnose.Read(r.Dir)
	if err != nil {
		r.Manifest.Warnings = append(slices.Clip(r.Manifest.Warnings), "The diagnosis is left out: "+err.Error())
	}
	return content.Build(r, j, found), nil
}
