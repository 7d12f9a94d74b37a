package flight

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/summary"
	"github.com/windtunnel/windtunnel/internal/interop/junit"
	"github.com/windtunnel/windtunnel/internal/interop/kubeburner/measurement"
	"github.com/windtunnel/windtunnel/internal/observe/usage"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/report"
	"github.com/windtunnel/windtunnel/internal/slo"
	"github.com/windtunnel/windtunnel/internal/subject"
	"github.com/windtunnel/windtunnel/scenario"
)

// cleanUpTime bounds each part of what is done to a cluster that outlives the run.
const cleanUpTime = 3 * time.Minute

func (r *run) newManifest() record.Manifest {
	s := r.scenario
	return record.Manifest{
		Format: record.Format, Scenario: s.Name, File: filepath.Base(r.options.File),
		Command: r.options.Command, Parameters: s.Values, Seed: s.Seed, Started: r.clock.Epoch(),
		Versions: r.options.Versions, Machine: usage.Machine(),
		Fleet: record.FleetFacts{
			Nodes: s.Fleet.Nodes, LeaseSeconds: time.Duration(s.Fleet.Lease).Seconds(),
			RenewEverySeconds:  time.Duration(s.Fleet.Lease).Seconds() / 4,
			StatusEverySeconds: time.Duration(s.Fleet.Status).Seconds(),
			StretchedHeartbeat: s.Fleet.Nodes > 0 && time.Duration(s.Fleet.Lease) != scenario.DefaultLease,
		},
	}
}

// leave takes what this run made out of a cluster that goes on living, however
// the run ended. A plane of our own is thrown away whole.
func (r *run) leave(ctx context.Context) {
	if r.plane == nil || r.options.Kubeconfig == "" {
		return
	}
	for _, part := range []func(context.Context){r.deleteNamespaces, r.uninstall, r.deleteNodes} {
		within(context.WithoutCancel(ctx), cleanUpTime, part)
	}
}

// within gives a part of what is to be done a time of its own: one that hangs
// takes nothing from the others.
func within(ctx context.Context, d time.Duration, do func(context.Context)) {
	ctx, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("%v have passed", d))
	defer cancel()
	do(ctx)
}

// deleteNodes takes the fleet's nodes away.
func (r *run) deleteNodes(ctx context.Context) {
	if r.fleet == nil {
		return
	}
	if err := r.fleet.Delete(ctx); err != nil {
		r.log.Warn("nodes were left behind", slog.Any("error", err))
	}
}

// deleteNamespaces deletes the namespaces that this run made, and no others, and
// waits until they are gone, so that a next run does not begin among leftovers.
func (r *run) deleteNamespaces(ctx context.Context) {
	r.settle(ctx)
	var paths []string
	for i, ours := range r.ours {
		if ours {
			paths = append(paths, "/api/v1/namespaces/"+r.workload.Namespace(i))
		}
	}
	if err := subject.Delete(ctx, r.watcher, paths); err != nil {
		r.log.Warn("namespaces were left behind", slog.Any("error", err))
	}
}

// settle looks for namespaces that were made although the server's answer was
// lost, or said that it gave up: etcd may have written them all the same.
func (r *run) settle(ctx context.Context) {
	for _, i := range r.doubtful {
		name := r.workload.Namespace(i)
		answer, err := r.watcher.Do(ctx, &wire.Request{Method: http.MethodGet, Path: "/api/v1/namespaces/" + name})
		var found metav1.PartialObjectMetadata
		if err == nil && answer.Code == http.StatusOK {
			err = json.Unmarshal(answer.Body, &found)
		} else if err == nil && answer.Code != http.StatusNotFound {
			err = fmt.Errorf("status %d", answer.Code)
		}
		if err != nil {
			r.log.Warn("a namespace may have been left behind", slog.String("namespace", name), slog.Any("error", err))
		}
		r.ours[i] = found.Annotations[markOfRun] == r.stamp
	}
}

// conclude closes the records and turns them into the run's other files.
func (r *run) conclude(ended error) Result {
	out := Result{Dir: r.dir, Err: ended}
	if err := r.records.Close(); err != nil {
		out.Err = errors.Join(out.Err, err)
	}
	if err := r.dir.WriteJSON(record.ManifestFile, r.manifest); err != nil {
		out.Err = errors.Join(out.Err, err)
		return out
	}
	judgement, err := Judge(r.dir)
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
