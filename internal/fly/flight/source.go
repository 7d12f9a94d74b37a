package flight

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/interop/kit"
	"github.com/windtunnel/windtunnel/internal/text/environ"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2"
	"github.com/windtunnel/windtunnel/internal/interop/kubeburner"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// maxSource is how large a scenario's or a config's file may be, in bytes.
const maxSource = 16 << 20

// Imported is a scenario with what its file could not say in our words.
type Imported struct {
	Scenario *scenario.Scenario
	Format   string     // "", "clusterloader2" or "kube-burner": whose file it was
	Notes    []kit.Note // what cannot be honored, one each
	Native   []byte     // the scenario file in our own language; what was read, for a native one, with what it includes
}

// Said are the texts of the notes.
func (in Imported) Said() (out []string) {
	for _, n := range in.Notes {
		out = append(out, n.String())
	}
	return out
}

// Load reads a scenario, or a config of ClusterLoader2 or kube-burner, which it
// recognises by its content. Of the options it takes File, Set, Overrides, Env and Seed.
func Load(o Options) (Imported, error) {
	file, set, overrides, seed := o.File, o.Set, o.Overrides, o.Seed
	raw, err := readSource(file)
	if err != nil {
		return Imported{}, err
	}
	var out Imported
	foreign := clusterloader2.Is(raw) || kubeburner.Is(raw)
	switch {
	case foreign && set[scenario.AllowSkewField] != "":
		return Imported{}, errors.New("--allow-unsupported-skew is for scenarios: a config of ClusterLoader2 or kube-burner has no step upgrade")
	case file == Stdin && foreign:
		return Imported{}, errors.New("a config of ClusterLoader2 or kube-burner is not read from standard input, since it names other files: give its path")
	case clusterloader2.Is(raw):
		out, err = fromClusterLoader2(o)
	case kubeburner.Is(raw):
		out, err = fromKubeBurner(o)
	default:
		switch {
		case len(overrides) > 0:
			return Imported{}, errors.New("--overrides is for files of ClusterLoader2 and kube-burner; a scenario's parameters are given with --set")
		case len(o.Env) > 0:
			return Imported{}, errors.New("--env is for files of ClusterLoader2 and kube-burner; a scenario reads nothing of the environment")
		}
		if out.Native, err = scenario.Resolve(file, raw); err == nil {
			out.Scenario, err = scenario.Parse(file, out.Native, set)
		}
		if err == nil {
			err = out.Scenario.CheckSet(set)
		}
	}
	if err != nil {
		return Imported{}, err
	}
	if seed != nil {
		out.Scenario.Seed = *seed
	}
	if out.Format != "" {
		var native bytes.Buffer
		if err := scenario.Write(&native, out.Scenario); err != nil {
			return Imported{}, err
		}
		out.Native = native.Bytes()
	}
	return out, nil
}

// loadScenario reads the scenario of a run.
func (o Options) loadScenario() (Imported, error) {
	if o.Text == nil {
		return Load(o)
	}
	sc, err := scenario.Parse(o.File, o.Text, o.Set)
	if err != nil {
		return Imported{}, err
	}
	if o.Seed != nil {
		sc.Seed = *o.Seed
	}
	return Imported{Scenario: sc, Native: o.Text}, nil
}

// Stdin is the name of a file that is read from standard input.
const Stdin = "-"

func readSource(file string) ([]byte, error) {
	f := os.Stdin
	if file != Stdin {
		var err error
		if f, err = os.Open(file); err != nil {
			return nil, fmt.Errorf("read scenario: %w", err)
		}
		defer f.Close()
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxSource+1))
	if err != nil {
		return nil, fmt.Errorf("read scenario: %w", err)
	}
	if len(raw) > maxSource {
		return nil, fmt.Errorf("%s: more than %d bytes", file, maxSource)
	}
	return raw, nil
}

func fromClusterLoader2(from Options) (Imported, error) {
	o := clusterloader2.Options{Attached: from.Kubeconfig != "", Set: from.Set, Overrides: from.Overrides, Env: environ.New(os.Environ(), from.Env)}
	if from.Seed != nil {
		o.Seed = *from.Seed
	}
	s, notes, err := clusterloader2.Import(from.File, o)
	err = cmp.Or(err, o.Env.CheckAllowed(from.File))
	return Imported{Scenario: s, Format: "clusterloader2", Notes: notes}, err
}

func fromKubeBurner(from Options) (Imported, error) {
	o := kubeburner.Options{Set: from.Set, Overrides: from.Overrides, Env: environ.New(os.Environ(), from.Env)}
	if from.Seed != nil {
		o.Seed = *from.Seed
	}
	if from.Kubeconfig != "" {
		o.Served = servedBy(from.Kubeconfig)
	}
	s, notes, err := kubeburner.Import(from.File, o)
	err = cmp.Or(err, o.Env.CheckAllowed(from.File))
	return Imported{Scenario: s, Format: "kube-burner", Notes: notes}, err
}

// servedBy asks a cluster where objects of a kind are. A cluster that cannot be asked is told
// of by the run.
func servedBy(kubeconfig string) func(apiVersion, kind string) (plural string, namespaced bool, err error) {
	return func(apiVersion, kind string) (string, bool, error) {
		e, err := endpoint.FromKubeconfig(kubeconfig, "")
		if err != nil {
			return "", false, err
		}
		client, err := wire.New(e, wire.Options{UserAgent: "windtunnel-import", Clock: clock.Start()})
		if err != nil {
			return "", false, err
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), askWithin)
		defer cancel()
		r, err := discovery.New(client).Kind(ctx, apiVersion, kind)
		return r.Name, r.Namespaced, err
	}
}

// askWithin bounds a question to a cluster while a config is read.
const askWithin = 10 * time.Second

// noteImport keeps the notes of an imported file: the summary shows each. What changes
// the load or the verdict is announced before the run starts, in one sentence.
func (r *run) noteImport(in Imported) {
	var left []string
	for _, n := range in.Notes {
		if !n.Changes {
			r.dir.addNote(n.String())
			continue
		}
		r.dir.newJournal().Unmet(n.Where(), record.NotHonored, n.Text)
		left = append(left, n.Field)
	}
	if len(left) > 0 {
		r.dir.log.Warn(notHonored(in.Scenario.File, left))
	}
}

// namedFields is how many fields one sentence names.
const namedFields = 3

// notHonored says which fields of a file make the verdict unknown, and what to do.
func notHonored(file string, fields []string) string {
	names := strings.Join(fields[:min(len(fields), namedFields)], ", ")
	if len(fields) > namedFields {
		names += ", ..."
	}
	return fmt.Sprintf("%s of %s %s not honored (%s): the verdict is unknown at best; `windtunnel import %[2]s` lists the reasons and writes a scenario without them",
		unit.Count(len(fields), "fields"), file, unit.Verb(len(fields), "is", "are"), names)
}
