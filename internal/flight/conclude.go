package flight

import (
	"bytes"
	"errors"
	"slices"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/summary"
	"github.com/windtunnel/windtunnel/internal/interop/junit"
	"github.com/windtunnel/windtunnel/internal/interop/kubeburner/measurement"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/report"
	"github.com/windtunnel/windtunnel/internal/slo"
	"github.com/windtunnel/windtunnel/scenario"
)

// conclude closes the records and turns them into the run's other files.
func (r *run) conclude(ended error) Result {
	out := Result{Dir: r.dir.Dir, Err: ended}
	if err := r.dir.records.Close(); err != nil {
		out.Err = errors.Join(out.Err, err)
	}
	if err := r.dir.saveManifest(); err != nil {
		out.Err = errors.Join(out.Err, err)
		return out
	}
	judgement, err := Judge(r.dir.Dir)
	out.Judgement = judgement
	out.Err = errors.Join(out.Err, err)
	return out
}

// Judge computes the verdict of a run directory from its scenario, manifest and
// records alone, and writes verdict.json, junit.xml, diagnosis.json, report.html
// and summary.txt.
func Judge(path record.Dir) (slo.Judgement, error) {
	defer frugally()()
	all, err := judge(string(path))
	if err != nil {
		return slo.Judgement{}, err
	}
	dir, manifest, j := all.dir, all.manifest, all.Judgement
	if err := dir.WriteJSON(record.VerdictFile, j); err != nil {
		return j, err
	}
	var xml bytes.Buffer
	if err := junit.Write(&xml, manifest, j); err != nil {
		return j, err
	}
	if err := dir.Write(record.JUnitFile, xml.Bytes()); err != nil {
		return j, err
	}
	if _, err := all.export(manifest.Imported, dir.File(manifest.Imported)); err != nil {
		return j, err
	}
	// A diagnosis that cannot be made takes neither verdict nor report away: the
	// report says so.
	notes, err := all.diagnose()
	manifest.Warnings = append(slices.Clip(manifest.Warnings), notes...)
	return j, errors.Join(err, writeReport(dir, manifest, j))
}

// judged is a judgement with all that it was made of.
type judged struct {
	dir      record.Dir
	scenario *scenario.Scenario
	manifest record.Manifest
	facts    *slo.Facts
	slo.Judgement
}

// judge computes the verdict of a run directory and writes nothing.
func judge(path string) (judged, error) {
	out := judged{}
	var err error
	if out.dir, out.manifest, err = record.OpenDir(path); err != nil {
		return out, err
	}
	if out.scenario, err = ReadScenario(out.dir, out.manifest); err != nil {
		return out, err
	}
	if out.facts, err = slo.Collect(out.dir.File(record.StreamFile)); err != nil {
		return out, err
	}
	if err := ask(out.scenario, out.manifest, out.facts); err != nil {
		return out, err
	}
	out.Judgement = slo.Judge(out.scenario, out.manifest, out.facts)
	return out, nil
}

// Export writes the results of a run directory into a folder in the form of
// ClusterLoader2 ("clusterloader2") or kube-burner ("kube-burner"), and returns
// the files' names.
func Export(path, format, folder string) ([]string, error) {
	j, err := judge(path)
	if err != nil {
		return nil, err
	}
	return j.export(format, folder)
}

func (j judged) export(format, folder string) ([]string, error) {
	switch format {
	case "clusterloader2":
		return summary.Write(folder, summary.Run{Scenario: j.scenario, Manifest: j.manifest, Facts: j.facts, Judgement: j.Judgement})
	case "kube-burner":
		return measurement.Write(folder, measurement.Run{Scenario: j.scenario, Manifest: j.manifest, Judgement: j.Judgement, Records: j.dir.File(record.StreamFile)})
	}
	return nil, nil
}

// ReadScenario reads the scenario of a run directory with the parameters that
// were in force.
func ReadScenario(dir record.Dir, m record.Manifest) (*scenario.Scenario, error) {
	sc, err := scenario.Load(dir.File(record.ScenarioFile), scenario.Settings(m.Parameters))
	if err != nil {
		return nil, err
	}
	sc.Seed = m.Seed
	return sc, nil
}

// writeReport writes report.html and summary.txt of a run directory.
func writeReport(dir record.Dir, manifest record.Manifest, j slo.Judgement) error {
	built, err := report.Build(dir, manifest, j)
	if err != nil {
		return err
	}
	var html, text bytes.Buffer
	if err := built.HTML(&html); err != nil {
		return err
	}
	if err := built.Summary(&text, 80); err != nil {
		return err
	}
	return errors.Join(dir.Write(record.ReportFile, html.Bytes()), dir.Write(record.SummaryFile, text.Bytes()))
}
