package flight

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/internal/flight/plan"
	"github.com/windtunnel/windtunnel/internal/load/template"
	"github.com/windtunnel/windtunnel/internal/plane"
	"github.com/windtunnel/windtunnel/scenario"
)

// Forecast is what a run would send, and what of it this machine cannot bear.
type Forecast struct {
	Scenario *scenario.Scenario
	Estimate plan.Estimate
	Unmet    []string // a sentence each
}

// Plan says what Run would do with these options. It starts nothing. The errors
// are those of Run for input that is at fault.
func Plan(o Options) (Forecast, error) {
	in, err := Load(o.File, o.Set, o.Overrides, o.Seed)
	if err != nil {
		return Forecast{}, err
	}
	r := &run{options: o, scenario: in.Scenario}
	if err := r.compile(); err != nil {
		return Forecast{}, err
	}
	return r.forecast()
}

func (r *run) forecast() (Forecast, error) {
	f := Forecast{Scenario: r.scenario}
	var err error
	f.Estimate, err = plan.Of(r.scenario, plan.Sources{
		Render: r.firstObject,
		Times:  func(file string) ([]time.Duration, error) { return r.replays[file], nil },
	})
	if err != nil {
		return f, err
	}
	f.Unmet = f.Estimate.Unmet(r.scenario, r.limits())
	return f, nil
}

// firstObject renders the first object of a body that is not left out.
func (r *run) firstObject(body, name, group string, with map[string]any) (raw []byte, err error) {
	v := template.Vars{Name: name, Namespace: r.namespaceName(0), Group: group, Replica: 1, Seed: r.scenario.Seed, With: with}
	for v.Index = range maxLook {
		if raw, err = r.bodies[body].Render(nil, v); !errors.Is(err, template.ErrEmpty) {
			break
		}
	}
	return raw, err
}

// warnUnmet says before the run starts what this machine cannot bear of it.
func (r *run) warnUnmet() {
	f, err := r.forecast()
	if err != nil {
		return // the step that meets it says so
	}
	for _, sentence := range f.Unmet {
		r.warn(sentence)
	}
}

// limits are those of this machine. What cannot be found out stays unknown.
func (r *run) limits() plan.Limits {
	var l plan.Limits
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) == nil {
		l.OpenFiles = files.Max
	}
	l.RecordsDir, l.Records = freeAt(r.options.Out)
	if r.options.Kubeconfig != "" {
		return l // its etcd is elsewhere
	}
	if room, err := plane.RoomFor(r.scenario.Plane.Durability); err == nil {
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
			return path, fs.Bavail * uint64(fs.Bsize) //nolint:gosec // never negative
		}
		if parent := filepath.Dir(path); parent != path {
			path = parent
			continue
		}
		return string(os.PathSeparator), 0
	}
}
