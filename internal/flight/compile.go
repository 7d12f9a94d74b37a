package flight

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"time"

	"github.com/windtunnel/windtunnel/internal/flight/plan"
	"github.com/windtunnel/windtunnel/internal/load/pace"
	"github.com/windtunnel/windtunnel/internal/load/template"
	"github.com/windtunnel/windtunnel/scenario"
)

// bodies are the scenario's compiled templates by name.
type bodies map[string]*template.Template

// compile reads and compiles all that stands in files or is a program of its
// own, so that a fault in it is known before anything is started.
func (r *run) compile() error {
	r.bodies, r.replays = bodies{}, map[string][]time.Duration{}
	var faults []error
	for name, body := range r.scenario.Bodies {
		t, err := r.compileBody(body)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		r.bodies[name] = t
	}
	for step := range r.scenario.AllSteps() {
		if p := step.Pace(); p != nil && p.Replay != "" {
			if err := r.readReplay(p.Replay); err != nil {
				faults = append(faults, err)
			}
		}
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	return r.trial()
}

func (r *run) compileBody(body scenario.Body) (*template.Template, error) {
	file, line, text := r.options.File, body.Line, body.Text
	if body.File != "" {
		file, line = filepath.Join(filepath.Dir(r.options.File), body.File), 1
		raw, err := r.scenario.ReadBody(r.options.File, body)
		if err != nil {
			return nil, err
		}
		text = string(raw)
	}
	return template.Compile(file, text, line, body.Dialect)
}

func (r *run) readReplay(name string) error {
	if _, ok := r.replays[name]; ok {
		return nil
	}
	raw, err := r.scenario.ReadReplay(r.options.File, name)
	if err != nil {
		return err
	}
	times, err := pace.ReadTimes(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("%s:%w", name, err)
	}
	r.replays[name] = times
	return nil
}

// trial renders the first object of every create step.
func (r *run) trial() error {
	var faults []error
	for step := range r.scenario.AllSteps() {
		if step.Create == nil || step.Create.Count+step.Create.PerNamespace == 0 {
			continue
		}
		m := r.newMade(step.Name, step.Create)
		for k := range m.kinds {
			if err := m.look(&m.kinds[k], k); err != nil {
				faults = append(faults, fmt.Errorf("%w (the first object of step %q)", err, step.Name))
			}
		}
	}
	return errors.Join(faults...)
}

// namespaceName returns the name of the scenario's i-th namespace, from 0.
func (r *run) namespaceName(i int) string {
	return fmt.Sprintf("%s-%d", r.scenario.Namespaces.Prefix, i+1)
}

// seed is a step's own source of randomness, from the scenario's seed.
func (r *run) seed(step string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(step))
	return r.scenario.Seed ^ h.Sum64()
}

// pacer returns a step's pace for so many calls (0: it is not known). Each step
// has random arrivals of its own.
func (r *run) pacer(step string, p scenario.Pace, count int) *pace.Pace {
	return plan.Pace(p, count, r.seed(step), r.replays[p.Replay])
}
