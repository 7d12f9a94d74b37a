package flight

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/plan"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/kernel"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
	"github.com/windtunnel/windtunnel/scenario"
)

// Forecast is what a run would send, and what of it this machine cannot bear.
type Forecast struct {
	Scenario *scenario.Scenario
	Said     []string // lines that Run would say of the file: words that have other names since, what cannot be honored
	Estimate plan.Estimate
	Effects  plan.Effects
	Unmet    []string // a sentence each
}

// Plan says what Run would do with these options. It starts nothing. The errors
// are those of Run for input that is at fault, also for programs that are missing and a
// kubeconfig that cannot be read.
func Plan(o Options) (Forecast, error) {
	r, f, err := lookAhead(o)
	if err == nil {
		err = r.findPrograms()
	}
	if err == nil && !r.ownsPlane() {
		err = r.askCluster()
	}
	return f, err
}

// lookWithin bounds how long a plan asks a cluster.
const lookWithin = 10 * time.Second

// askCluster asks the cluster, as Run does, whether it serves what the steps are about, and
// whether requests would change what is not the run's. A cluster that does not answer is
// Run's to refuse.
func (r *run) askCluster() error {
	e, err := endpoint.FromKubeconfig(r.options.Kubeconfig, "")
	if err != nil {
		return err
	}
	c := clock.Start()
	client, err := wire.New(e, wire.Options{UserAgent: "windtunnel-plan", Clock: c})
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), lookWithin)
	defer cancel()
	served := discovery.New(client)
	if !r.options.Destructive {
		if err := r.workload.CheckCalls(ctx, served); errors.Is(err, workload.ErrForeign) {
			return err
		}
	}
	return r.installation.checkServed(ctx, r.workload, served)
}

// Check reads a file as Run does, with all the files that it names, and starts
// nothing. said are the lines that Run would say of a file without fault.
func Check(o Options) (said []string, err error) {
	_, f, err := lookAhead(o)
	return f.Said, err
}

// lookAhead compiles a scenario and forecasts its run.
func lookAhead(o Options) (*run, Forecast, error) {
	in, err := o.loadScenario()
	if err != nil {
		return nil, Forecast{}, err
	}
	if o.Kubeconfig != "" && in.Format != "" {
		in.Scenario.Fleet.Nodes = 0 // as Run does
	}
	r, effects, err := compileRun(in, o)
	if err != nil {
		return nil, Forecast{}, err
	}
	f, err := forecastRun(r.workload, o)
	f.Effects, f.Said = effects, append(in.Scenario.Warnings, in.Said()...)
	return r, f, err
}

func forecastRun(w *workload.Workload, o Options) (Forecast, error) {
	f := Forecast{Scenario: w.Scenario}
	var err error
	if f.Estimate, err = w.Estimate(); err != nil {
		return f, err
	}
	f.Unmet = f.Estimate.Unmet(w.Scenario, machineLimits(w.Scenario, o))
	return f, nil
}

// machineLimits are those of this machine. What cannot be found out stays unknown.
func machineLimits(s *scenario.Scenario, o Options) plan.Limits {
	var l plan.Limits
	l.OpenFiles = kernel.OpenFiles().Hard
	l.RecordsDir, l.Records = freeAt(o.Out)
	l.Memory, l.Ports = plane.AvailableMemory(), plane.PortsGivenOut()
	m := usage.Machine()
	l.Cores, l.Installed = m.Cores, m.MemoryBytes
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
		if space, err := kernel.Disk(path); err == nil {
			return path, space.Free
		}
		if parent := filepath.Dir(path); parent != path {
			path = parent
			continue
		}
		return string(os.PathSeparator), 0
	}
}
