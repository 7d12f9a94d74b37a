// Package golden plays stages on the objects that lie beside them and compares
// what they do with what is written down, in the format of kwok's own test
// data: NAME.input.yaml holds an object, NAME.output.yaml which stages may
// play on it and with what effects. The stages are the other YAML files of the
// folder above.
package golden

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
	"github.com/windtunnel/windtunnel/internal/sim/stage/render"
)

// ErrNone says that the folders hold no pair at all.
var ErrNone = errors.New("no testdata/*.input.yaml below")

const input, output = ".input.yaml", ".output.yaml"

// Result is what became of a run.
type Result struct {
	Passed int
	Failed int
}

// Run plays every pair below the folders and writes a line for each, with a
// diff where it differs, and what is odd about their stages. The error joins what could not be played: bad stages,
// bad objects, missing files.
func Run(w io.Writer, dirs []string) (Result, error) {
	return runPairs(&runner{w: w, machines: map[string]*machine.Machine{}}, dirs)
}

// Update plays every pair as Run does, and writes the output of each that differs or
// has none yet.
func Update(w io.Writer, dirs []string) (Result, error) {
	return runPairs(&runner{w: w, machines: map[string]*machine.Machine{}, update: true}, dirs)
}

func runPairs(r *runner, dirs []string) (Result, error) {
	var out Result
	var faults []error
	for _, dir := range dirs {
		inputs, err := findInputs(dir)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		for _, path := range inputs {
			equal, err := r.playPair(path)
			switch {
			case err != nil:
				faults = append(faults, err)
			case equal:
				out.Passed++
			default:
				out.Failed++
			}
		}
	}
	return out, errors.Join(faults...)
}

// findInputs returns the inputs below a folder, sorted.
func findInputs(dir string) ([]string, error) {
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, input) && filepath.Base(filepath.Dir(path)) == "testdata" {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find test data: %w", err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w %s", ErrNone, dir)
	}
	slices.Sort(out)
	return out, nil
}

// runner compiles the stages of each folder once.
type runner struct {
	w        io.Writer
	machines map[string]*machine.Machine
	update   bool // write what differs
}

// machineFor returns the compiled stages beside an input.
func (r *runner) machineFor(path string) (*machine.Machine, error) {
	dir := filepath.Dir(filepath.Dir(path))
	if m := r.machines[dir]; m != nil {
		return m, nil
	}
	m, err := compileFolder(dir)
	if err != nil {
		return nil, err
	}
	r.machines[dir] = m
	for _, f := range m.Findings() {
		fmt.Fprintf(r.w, "NOTE  %s\n", f)
	}
	for _, resource := range m.Resources() {
		for _, s := range m.Stages(resource) {
			for _, b := range s.Bodies() {
				if b.Slow != "" {
					fmt.Fprintf(r.w, "NOTE  stage %s: %s is left to text/template: %s\n", s.Name(), b.Field, b.Slow)
				}
			}
		}
	}
	return m, nil
}

// playPair plays one input and compares it with its output.
func (r *runner) playPair(path string) (equal bool, err error) {
	outputFile := strings.TrimSuffix(path, input) + output
	want, err := os.ReadFile(outputFile)
	if r.update && errors.Is(err, fs.ErrNotExist) {
		want, err = nil, nil
	}
	if err != nil {
		return false, fmt.Errorf("read what is expected: %w", err)
	}
	var wanted any
	if err := yaml.Unmarshal(want, &wanted); err != nil {
		return false, fmt.Errorf("%s: %w", outputFile, err)
	}
	m, err := r.machineFor(path)
	if err != nil {
		return false, err
	}
	got, err := playInput(m, path)
	if err != nil {
		return false, err
	}
	a, err := yaml.Marshal(wanted)
	if err != nil {
		return false, fmt.Errorf("write what is expected: %w", err)
	}
	name := strings.TrimSuffix(path, input)
	if string(a) == string(got) {
		fmt.Fprintf(r.w, "ok    %s\n", name)
		return true, nil
	}
	if r.update {
		if err := os.WriteFile(outputFile, got, 0o644); err != nil {
			return false, fmt.Errorf("write what is expected: %w", err)
		}
		fmt.Fprintf(r.w, "wrote %s\n", outputFile)
		return true, nil
	}
	fmt.Fprintf(r.w, "DIFF  %s (- expected, + played)\n%s", name, diffLines(string(a), string(got)))
	return false, nil
}

// Play returns what the stages beside an input may do with it, as YAML.
func Play(path string) ([]byte, error) {
	m, err := compileFolder(filepath.Dir(filepath.Dir(path)))
	if err != nil {
		return nil, err
	}
	return playInput(m, path)
}

func playInput(m *machine.Machine, path string) ([]byte, error) {
	object, err := readObject(path)
	if err != nil {
		return nil, err
	}
	out, err := describeStages(m, object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	raw, err := yaml.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("write what was played: %w", err)
	}
	return raw, nil
}

func readObject(path string) (map[string]any, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	raw, err := yaml.YAMLToJSON(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	object, err := machine.Decode(raw)
	if err != nil || object["kind"] == nil || object["apiVersion"] == nil {
		return nil, fmt.Errorf("%s: want one object with apiVersion and kind", path)
	}
	return object, nil
}

// compileFolder compiles the stages of a folder.
func compileFolder(dir string) (*machine.Machine, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("find stages: %w", err)
	}
	f, err := kwok.Read(paths...)
	if err != nil {
		return nil, err
	}
	if len(f.Stages) == 0 {
		return nil, fmt.Errorf("%s holds no stages", dir)
	}
	for _, s := range f.Stages {
		setMergeType(s)
	}
	return machine.Compile(f.Stages)
}

// setMergeType gives patches without a type the type that test data has: it is made
// from objects of no known schema, nodes and pods too.
func setMergeType(s *kwok.Stage) {
	s.Spec.Steps = s.Steps()
	for _, step := range s.Spec.Steps {
		if step.Patch != nil && step.Patch.Type == "" {
			step.Patch.Type = "merge"
		}
	}
}

// playTime is when test data plays.
func playTime() time.Time { return time.Date(2006, 1, 2, 15, 4, 5, 0, time.UTC) }

func describeStages(m *machine.Machine, object map[string]any) (map[string]any, error) {
	stages, err := m.Possible(object, playTime())
	if err != nil {
		return nil, err
	}
	out := map[string]any{"apiGroup": object["apiVersion"], "kind": object["kind"]}
	meta, _ := object["metadata"].(map[string]any)
	for _, key := range []string{"name", "namespace"} {
		if v, ok := meta[key].(string); ok && v != "" {
			out[key] = v
		}
	}
	list := []any{}
	for _, s := range stages {
		d, err := describeStage(s, object)
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	out["stages"] = list
	return out, nil
}

func describeStage(s *machine.Stage, object map[string]any) (map[string]any, error) {
	out := map[string]any{"stage": s.Name()}
	least, most, ok, err := s.Delay(object, playTime())
	if err != nil {
		return nil, err
	}
	if ok {
		delays := []int64{int64(least)}
		if most > least {
			delays = append(delays, int64(most))
		}
		out["delay"] = delays
	}
	weight, ok, err := s.Weight(object, playTime())
	if err != nil {
		return nil, err
	}
	if ok {
		out["weight"] = weight
	}
	next := []any{}
	for i := range s.Steps() {
		effects, err := s.Play(i, object, placeholderEnv())
		if err != nil {
			return nil, err
		}
		for _, e := range effects {
			next = append(next, describeEffect(e))
		}
	}
	if s.Immediate() {
		next = append(next, map[string]any{"kind": "immediate"})
	}
	out["next"] = next
	return out, nil
}

func describeEffect(e machine.Effect) map[string]any {
	out := map[string]any{"kind": e.Kind.String()}
	switch e.Kind {
	case machine.Event:
		out["type"], out["reason"], out["message"] = e.Event.Type, e.Event.Reason, e.Event.Message
	case machine.Patch, machine.Apply:
		out["type"], out["data"] = e.Type, json.RawMessage(e.Body)
		if e.Subresource != "" {
			out["subresource"] = e.Subresource
		}
		if e.User != "" {
			out["impersonation"] = e.User
		}
	}
	return out
}

// placeholderEnv stand for what differs from one run to the next.
func placeholderEnv() *machine.Env {
	env := &machine.Env{Now: playTime(), Start: playTime(), Functions: map[string]render.Function{}}
	for _, name := range []string{"NodeIP", "NodeName", "NodePort", "PodIP", "NodeIPWith", "PodIPWith", "Now", "now", "Version"} {
		env.Functions[name] = func(args ...any) (any, error) { return "<" + formatCall(name, args) + ">", nil }
	}
	for _, name := range []string{"NodeIPsWith", "PodIPsWith"} {
		env.Functions[name] = func(args ...any) (any, error) {
			return []any{"<0 of " + formatCall(name, args) + ">", "<1 of " + formatCall(name, args) + ">"}, nil
		}
	}
	return env
}

func formatCall(name string, args []any) string {
	if len(args) == 0 {
		return name
	}
	texts := make([]string, len(args))
	for i, a := range args {
		texts[i] = fmt.Sprintf("%#v", a)
	}
	return name + "(" + strings.Join(texts, ", ") + ")"
}
