// Package stages compiles what a scenario says that the nodes and pods of a fleet become by
// themselves. What a stage is, and how it is played, is package stage's.
package stages

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/sim/stage/builtin"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
	"github.com/windtunnel/windtunnel/scenario"
)

// Set is the stages of a fleet; the zero value is the built-in set fast.
type Set struct {
	Machine *machine.Machine
	Objects []kwok.Document // that belong to them
	sources []*kwok.Stage
}

// MissingKinds joins an error for each stage, and each object of the stages' files, of a kind
// that the plane will lack.
func (s Set) MissingKinds(lack func(apiVersion, kind string) error) error {
	var errs []error
	told := map[kwok.Resource]bool{}
	for _, one := range s.sources {
		r := one.Resource()
		if err := lack(r.APIVersion, r.Kind); err != nil && !told[r] {
			told[r] = true
			errs = append(errs, one.Fault("spec.resourceRef", fmt.Errorf("%s: %w", r, err)))
		}
	}
	for _, d := range s.Objects {
		if err := lack(d.APIVersion, d.Kind); err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %s %s: %w", d.Path, d.Line, d.Kind, d.Name, err))
		}
	}
	return errors.Join(errs...)
}

// checkObjects refuses what of the files of fleet.stages can be no object beside stages:
// kinds of kwok's kubelet, which a scenario's fleet does not serve, and objects in namespaces.
func checkObjects(objects []kwok.Document) error {
	var errs []error
	for _, d := range objects {
		switch group, _, _ := strings.Cut(d.APIVersion, "/"); {
		case strings.HasSuffix("."+group, ".kwok.x-k8s.io"):
			errs = append(errs, fmt.Errorf("%s:%d: %s %s: a scenario's fleet has stages only; windtunnel fleet --config serves this kind", d.Path, d.Line, d.Kind, d.Name))
		case d.Namespace != "":
			errs = append(errs, fmt.Errorf("%s:%d: %s %s: it belongs into a namespace: make it by a step", d.Path, d.Line, d.Kind, d.Name))
		}
	}
	return errors.Join(errs...)
}

// Compile reads and compiles the stages of a fleet, whose files are in a folder, so that a
// faulty stage is known before anything is started.
func Compile(f scenario.Fleet, folder string) (out Set, err error) {
	names, every := f.Stages, time.Duration(f.Status)
	if len(names) == 0 && every == 0 {
		return out, nil
	}
	if len(names) == 0 {
		names = []string{"fast"}
	}
	file, err := builtin.Sets(names, folder)
	if err != nil {
		return out, err
	}
	builtin.BindClasses(file, f.StorageClasses)
	if every > 0 && !file.Beat(every) {
		return out, fmt.Errorf("fleet.status: no stage of %s posts the conditions of nodes after a delay", strings.Join(names, ", "))
	}
	out.Machine, err = machine.Compile(file.Stages)
	out.Objects, out.sources = file.Others, file.Stages
	return out, errors.Join(err, checkObjects(out.Objects))
}
