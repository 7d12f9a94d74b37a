package flight

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/flight/plan"
	"github.com/windtunnel/windtunnel/internal/flight/steps"
	"github.com/windtunnel/windtunnel/internal/plane"
	"github.com/windtunnel/windtunnel/scenario"
)

// Forecast is what a run would send, and what of it this machine cannot bear.
type Forecast struct {
	Scenario *scenario.Scenario
	Estimate plan.Estimate
	Effects  plan.Effects
	Unmet    []string // a sentence each
}

// Plan says what Run would do with these options. It starts nothing. The errors
// are those of Run for input that is at fault.
func Plan(o Options) (Forecast, error) {
	_, w, effects, err := compile(o)
	if err != nil {
		return Forecast{}, err
	}
	f, err := forecast(w, o)
	f.Effects = effects
	return f, err
}

// Check reads a file as Run does, with all the files that it names, and starts
// nothing. said are the lines that Run would say of a file without fault: words
// that have other names since, and what cannot be honoured.
func Check(o Options) (said []string, err error) {
	in, w, _, err := compile(o)
	if err != nil {
		return nil, err
	}
	said = append(in.Scenario.Warnings, in.Said()...)
	_, err = forecast(w, o)
	return said, err
}

// compile reads a scenario with all the files that it names.
func compile(o Options) (Imported, *steps.Workload, plan.Effects, error) {
	in, err := Load(o)
	if err != nil {
		return Imported{}, nil, plan.Effects{}, err
	}
	acts, stages := compileStages(in.Scenario.Fleet, filepath.Dir(o.File))
	_, members := compileMembers(in.Scenario, filepath.Dir(o.File))
	installation, files := readInstallation(in.Scenario, o.File)
	w, bodies := steps.Compile(in.Scenario, o.File, object.Stamp{})
	if err := errors.Join(bodies, stages, members, files); err != nil {
		return Imported{}, nil, plan.Effects{}, err
	}
	effects, err := effectsOf(in.Scenario, installation, acts, o)
	return in, w, effects, errors.Join(err, installation.missingKinds(w, o))
}

func forecast(w *steps.Workload, o Options) (Forecast, error) {
	f := Forecast{Scenario: w.Scenario}
	var err error
	if f.Estimate, err = w.Estimate(); err != nil {
		return f, err
	}
	f.Unmet = f.Estimate.Unmet(w.Scenario, limits(w.Scenario, o))
	return f, nil
}

// warnUnmet says before the run starts what this machine cannot bear of it.
func (r *run) warnUnmet() {
	f, err := forecast(r.workload, r.options)
	if err != nil {
		return // the step that meets it says so
	}
	for _, sentence := range f.Unmet {
		r.dir.warn(sentence)
	}
}

// limits are those of this machine. What cannot be found out stays unknown.
func limits(s *scenario.Scenario, o Options) plan.Limits {
	var l plan.Limits
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) == nil {
		l.OpenFiles = files.Max
	}
	l.RecordsDir, l.Records = freeAt(o.Out)
	l.Memory, l.Ports = plane.AvailableMemory(), plane.PortsGivenOut()
	if o.Kubeconfig != "" {
		return l // its etcd is elsewhere
	}
	if room, err := plane.DiskSpaceFor(s.Plane.Durability); err == nil {
		l.Data, l.DataFolder, l.InMemory, l.Quota = room.Free, room.Folder, room.InMemory, room.Quota
	}
	return l
}

// freeAt measures the nearest folder that exists above a path.
func freeAt(path string) (folder string, free uint64) {
	if path == "" {
		path = "runs"
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", 0
	}
	for {
		var fs syscall.Statfs_t
		if syscall.Statfs(path, &fs) == nil {
			return path, fs.Bavail * uint64(fs.Bsize)
		}
		if parent := filepath.Dir(path); parent != path {
			path = parent
			continue
		}
		return string(os.PathSeparator), 0
	}
}
