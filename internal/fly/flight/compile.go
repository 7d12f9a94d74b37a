package flight

import (
	"errors"
	"path/filepath"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/plan"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/share/leader"
	"github.com/windtunnel/windtunnel/internal/fly/stages"
	"github.com/windtunnel/windtunnel/internal/fly/steps"
	"github.com/windtunnel/windtunnel/internal/record/promql"
)

// source is what workers read the scenario from again.
type source struct {
	text []byte            // in our own language
	set  map[string]string // parameters of it
}

// compileRun compiles all that a scenario says, with all the files that it names, so that
// an error in it is known before anything is started: by Run, by Plan and by Check.
func compileRun(in Imported, o Options) (*run, plan.Effects, error) {
	r := &run{options: o, id: newID(), source: source{text: in.Native}, scenario: in.Scenario, clock: clock.Start(), log: o.Log,
		created: steps.NewCreated(), injected: &steps.Injected{Log: o.Log}, senders: leader.NewSenders(o.Log)}
	if in.Format == "" {
		r.source.set = o.Set
	}
	folder := filepath.Dir(o.File)
	var errs [6]error
	r.workload, errs[0] = steps.Compile(r.scenario, o.File, r.newStamp())
	r.stages, errs[1] = stages.Compile(r.scenario.Fleet, folder)
	r.members, errs[2] = compileMembers(r.scenario, folder)
	errs[3] = adoptCaller(r.scenario, o.As)
	r.installation, errs[4] = readInstallation(r.scenario, o.File)
	errs[5] = r.scenario.CheckQueries(promql.Check)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, plan.Effects{}, err
	}
	if err := errors.Join(o.Workers.Check(r.workload, r.ownsPlane()), r.checkFaults(), r.installation.missingKinds(r.workload, r.stages, o), r.installation.checkWebhooks(r.ownsPlane())); err != nil {
		return nil, plan.Effects{}, err
	}
	effects, err := effectsOf(r.scenario, r.installation, r.stages, o)
	return r, effects, err
}

// checkFaults holds the faults of the steps against a cluster that the run does not start.
func (r *run) checkFaults() error {
	if r.ownsPlane() {
		return nil
	}
	return r.workload.CheckFaults()
}

// findPrograms looks for what a run would start or reach: the subjects' programs, the first
// command of the steps, the programs of the plane, the kubeconfigs of the plane and of workers.
func (r *run) findPrograms() error {
	err := errors.Join(steps.CheckCommand(r.workload), r.options.Workers.CheckFiles())
	if err != nil {
		return err
	}
	if r.subjects, err = compileSubjects(r.scenario, r.options); err != nil {
		return err
	}
	if r.ownsPlane() {
		return errors.Join(plane.CheckPrograms(r.scenario.Plane, filepath.Dir(r.options.File)), steps.CheckUpgrades(r.workload))
	}
	return plane.CheckKubeconfig(r.options.Kubeconfig)
}
