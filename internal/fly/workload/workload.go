// Package workload is what the steps of a scenario send, compiled: the bodies, the pace of
// each step and its namespaces, and what can be said of all of it before anything is started:
// how much it is, which rights it needs, which kinds, what may not be done to a cluster of
// others, and what workers cannot share. Package steps does it.
package workload

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/fly/plan"
	"github.com/windtunnel/windtunnel/internal/interop/bodies"
	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/template"
	"github.com/windtunnel/windtunnel/scenario"
)

// Workload is what a scenario's steps send, compiled.
type Workload struct {
	Scenario *scenario.Scenario
	File     string // of the scenario
	// Destructive lets requests change and delete what the run has not made, in a
	// cluster that is not its own.
	Destructive bool

	Bodies  map[string]*template.Template // by name
	Stamp   object.Stamp                  // of all that is made
	Members Kubeconfigs

	replays map[string][]time.Duration // due times by file
	expects map[string][]int           // by step: codes of failed calls that are as they should be
}

// Compile reads and compiles all that stands in files or is a program of its
// own, so that an error in it is known before anything is started. What the steps
// make carries the stamp: none on a plane that ends with the run. The
// function of this name in package steps renders the first objects besides, by which the
// kinds of bodies are known.
func Compile(s *scenario.Scenario, file string, stamp object.Stamp) (*Workload, error) {
	w := &Workload{Scenario: s, File: file, Bodies: map[string]*template.Template{}, replays: map[string][]time.Duration{}, expects: map[string][]int{}, Stamp: stamp, Members: Kubeconfigs{groups: s.Members}}
	var errs []error
	for name, body := range s.Bodies {
		t, err := w.compileBody(body)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		w.Bodies[name] = t
	}
	for step := range s.AllSteps() {
		w.expects[step.Name] = step.Expects
		if p := step.Pace(); p != nil && p.Replay != "" {
			errs = append(errs, w.readReplay(step, p.Replay))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return w, w.checkUpdates()
}

// Expects tells whether a step takes calls that fail with such a code, 0 for no
// answer, as they come.
func (w *Workload) Expects(step string, code int) bool { return slices.Contains(w.expects[step], code) }

func (w *Workload) compileBody(body scenario.Body) (*template.Template, error) {
	file, line := w.Scenario.Place(w.File, body.Line)
	text := body.Text
	switch {
	case body.Exemplar != "":
		text, line = scenario.ExemplarText(body.Exemplar), 1
		file = "exemplar " + body.Exemplar
	case body.File != "":
		file, line = filepath.Join(filepath.Dir(w.File), body.File), 1
		raw, err := w.Scenario.ReadBody(w.File, body)
		if err != nil {
			return nil, err
		}
		text = string(raw)
	}
	dialect, err := bodies.Dialect(body.Dialect)
	if err != nil {
		return nil, fmt.Errorf("%s:%d: %w", file, line, err)
	}
	if isOwn(body) {
		dialect.Functions = w.Members.functions
	}
	t, err := template.Compile(file, text, line, dialect)
	if err == nil {
		t.Stamp(w.Stamp, w.labelsGroups(body))
	}
	return t, err
}

// labelsGroups tells whether the objects of a body get the label of their step's group
// where they have none: not those of other tools, which do not know it, and not
// where the scenario says by selectors which pods are of a group.
func (w *Workload) labelsGroups(body scenario.Body) bool {
	return isOwn(body) && len(w.Scenario.Groups) == 0
}

// isOwn tells whether a body is in the scenario language's own dialect.
func isOwn(body scenario.Body) bool {
	return body.Dialect == "" || body.Dialect == scenario.Dialects()[0]
}

// readReplay reads the due times of a step.
func (w *Workload) readReplay(step *scenario.Step, name string) error {
	if _, ok := w.replays[name]; ok {
		return nil
	}
	raw, err := w.Scenario.ReadReplay(w.File, name)
	if err != nil {
		return fmt.Errorf("%s: %w", w.PlaceOfStep(step), err)
	}
	times, err := pace.ReadTimes(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("%s:%w (%s)", name, err, w.PlaceOfStep(step))
	}
	if len(times) == 0 {
		return fmt.Errorf("%s: pace.replay: %s has no due times", w.PlaceOfStep(step), name)
	}
	w.replays[name] = times
	return nil
}

// Estimate says what the workload would send.
func (w *Workload) Estimate() (plan.Estimate, error) {
	e, err := plan.Of(w.Scenario, plan.Sources{
		Render: w.renderFirst,
		Times:  func(file string) ([]time.Duration, error) { return w.replays[file], nil },
	})
	var one *plan.StepError
	if errors.As(err, &one) {
		err = fmt.Errorf("%s: %w", w.PlaceOfStep(one.Step), one.Err)
	}
	return e, err
}

// renderFirst renders the first object of a body that is not left out.
func (w *Workload) renderFirst(body, name, group string, with map[string]any) (raw []byte, err error) {
	v := template.Vars{Name: name, Namespace: w.Namespace(0), Group: group, Replica: 1, Seed: w.Scenario.Seed, With: with}
	for v.Index = range MaxTries {
		if raw, err = w.Bodies[body].Render(nil, v); !errors.Is(err, template.ErrEmpty) {
			break
		}
	}
	return raw, err
}

// Namespace returns the name of the scenario's i-th namespace, from 0.
func (w *Workload) Namespace(i int) string {
	return fmt.Sprintf("%s-%d", w.Scenario.Namespaces.Prefix, i+1)
}

// Owns says whether a namespace is one of the scenario's: all that is in it is the
// run's, whoever made it.
func (w *Workload) Owns(namespace string) bool {
	number, ok := strings.CutPrefix(namespace, w.Scenario.Namespaces.Prefix+"-")
	n, err := strconv.Atoi(number)
	return ok && err == nil && n >= 1 && n <= w.Scenario.Namespaces.Count
}

// NamespacesOf lists the namespaces that a create step goes through.
func (w *Workload) NamespacesOf(c *scenario.Create) []string {
	from, to, prefix := 1, w.Scenario.Namespaces.Count, w.Scenario.Namespaces.Prefix
	switch {
	case c.Namespace != "":
		return []string{c.Namespace}
	case c.Namespaces != nil:
		from, to = c.Namespaces.From, c.Namespaces.To
		if c.Namespaces.Prefix != "" {
			prefix = c.Namespaces.Prefix
		}
	case to == 0:
		return []string{"default"}
	}
	var out []string
	for i := from; i <= to; i++ {
		out = append(out, prefix+"-"+strconv.Itoa(i))
	}
	return out
}

// StepNamed returns the step of a name; nil where there is none.
func (w *Workload) StepNamed(name string) *scenario.Step {
	for step := range w.Scenario.AllSteps() {
		if step.Name == name {
			return step
		}
	}
	return nil
}

// MaxTries is how many objects are rendered to find one that is not left out.
const MaxTries = 1000

// SeedOf is a step's own source of randomness, from the scenario's seed.
func (w *Workload) SeedOf(step string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(step))
	return w.Scenario.Seed ^ h.Sum64()
}

// PaceOf returns a step's pace for so many calls (0: it is not known). Each step
// has random arrivals of its own.
func (w *Workload) PaceOf(step string, p scenario.Pace, count int) *pace.Pace {
	return plan.Pace(p, count, w.SeedOf(step), w.replays[p.Replay])
}

// IsStrict tells that a body is written in our own dialect.
func (w *Workload) IsStrict(body string) bool {
	d := w.Scenario.Bodies[body].Dialect
	return d == "" || d == scenario.Dialects()[0]
}

// MergeVariables returns the variables of several maps; later ones win.
func MergeVariables(all ...map[string]any) map[string]any {
	out := map[string]any{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}
