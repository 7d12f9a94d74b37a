package machine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/sim/stage/expression"
)

// Finding says that a stage will probably not do what its author meant.
type Finding struct {
	Path    string
	Line    int
	Stage   string
	Field   string
	Message string
}

// String writes file:line: stage NAME: field: message.
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: stage %s: %s: %s", f.Path, f.Line, f.Stage, f.Field, f.Message)
}

func newFinding(s *kwok.Stage, field, format string, args ...any) Finding {
	return Finding{Path: s.Path, Line: s.Line(field), Stage: s.Name, Field: field, Message: fmt.Sprintf(format, args...)}
}

// Body is how the template of a step is rendered.
type Body struct {
	Field    string
	Slow     string // why it is left to text/template; empty when it is compiled
	Compiled int64  // how often the compiled form gave the answer
	Executed int64  // how often text/template did
	Why      string // it did so last
}

// Bodies returns how the stage's templates are rendered.
func (s *Stage) Bodies() (out []Body) {
	for i := range s.steps {
		for _, b := range [...]*body{s.steps[i].patch, s.steps[i].apply} {
			if b != nil {
				compiled, executed, why := b.template.Counts()
				out = append(out, Body{b.field, b.template.Slow(), compiled, executed, why})
			}
		}
	}
	return out
}

// inspectStage looks for what can be decided without an object.
func (s *Stage) inspectStage() (out []Finding) {
	if reason := s.findContradiction(); reason != "" {
		return append(out, newFinding(s.source, "spec.selector", "can never match: %s", reason))
	}
	if len(s.steps) == 0 {
		return append(out, newFinding(s.source, "spec.steps", "are missing: the stage does nothing"))
	}
	if s.again = s.replayStage(); s.again == loops {
		out = append(out, newFinding(s.source, "spec.selector",
			"matches again after its own patch, without a delay: the stage plays forever"))
	}
	return out
}

// demands are the requirements of one expression.
type demands struct {
	single  bool
	present bool // something must be found
	absent  bool // nothing must be found
	in      [][]string
	notIn   []string
}

// findContradiction returns why the selector holds of no object; empty when that is
// not known.
func (s *Stage) findContradiction() string {
	all := map[string]*demands{}
	for _, r := range s.requires {
		d := all[r.Query.Text()]
		if d == nil {
			d = &demands{single: r.Query.Single()}
			all[r.Query.Text()] = d
		}
		d.addRequirement(r)
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if reason := all[key].findContradiction(); reason != "" {
			return key + " " + reason
		}
	}
	return s.findNegation()
}

func (d *demands) addRequirement(r *expression.Requirement) {
	switch r.Operator {
	case expression.In:
		d.present = true
		d.in = append(d.in, r.Values)
	case expression.NotIn:
		d.notIn = append(d.notIn, r.Values...)
	case expression.Exists:
		d.present = true
	case expression.DoesNotExist:
		d.absent = true
	}
}

func (d *demands) findContradiction() string {
	if d.present && d.absent {
		return "must exist and must not exist"
	}
	left := []string(nil)
	for i, values := range d.in {
		allowed := slices.DeleteFunc(slices.Clone(values), func(v string) bool {
			return slices.Contains(d.notIn, v) || (i > 0 && d.single && !slices.Contains(left, v))
		})
		if len(allowed) == 0 {
			return fmt.Sprintf("must be one of %s, which another requirement rules out", strings.Join(values, ", "))
		}
		if d.single {
			left = allowed
		}
	}
	return ""
}

// findNegation finds a CEL expression that is false, or of which another is the
// negation.
func (s *Stage) findNegation() string {
	seen := map[string]bool{}
	for _, p := range s.programs {
		seen[strings.TrimSpace(p.Source)] = true
	}
	for src := range seen {
		if src == "false" || seen["!("+src+")"] || seen["!"+src] {
			return "the expression " + src + " can never hold together with the others"
		}
	}
	return ""
}

// again is what is known of a stage's playing again and again on an object.
type again uint8

const (
	unknown again = iota
	ends
	loops
)

// replayStage plays the stage on an object made to match it, as often as it takes to
// see that it goes on: its patch changes the object each time and leaves it
// matching, without a delay.
func (s *Stage) replayStage() again {
	tree := s.exampleObject()
	if tree == nil {
		return unknown
	}
	now := time.Unix(1_700_000_000, 0).UTC()
	for i := range 3 {
		moment := expression.Moment{Now: now, Rand: rand.New(rand.NewPCG(1, 1))}
		o := object.Of(tree)
		ok, err := s.matchesObject(o, moment)
		_, maxDelay, _, failed := s.delayRange(o, moment)
		switch {
		case failed != nil || err != nil || !ok && i == 0:
			return unknown
		case !ok || maxDelay > 0:
			return ends
		}
		next, changed := s.applyPatches(tree, &Env{Now: now, Start: now, Rand: moment.Rand})
		if !changed {
			return unknown
		}
		tree = next
		now = now.Add(time.Second)
	}
	return loops
}

// exampleObject returns an object that the stage matches; nil when none can be made.
func (s *Stage) exampleObject() map[string]any {
	r := s.source.Resource()
	out := map[string]any{"apiVersion": r.APIVersion, "kind": r.Kind, "metadata": map[string]any{"name": "example", "uid": "example"}}
	for _, r := range s.requires {
		var value any
		switch r.Operator {
		case expression.In:
			value = r.Values[0]
		case expression.Exists:
			value = "2000-01-01T00:00:00Z"
		default:
			continue
		}
		if r.Matches(object.Of(out)) {
			continue
		}
		if !r.Query.Example(out, value) {
			return nil
		}
	}
	return out
}

// applyPatches returns the object after the stage's patches, as an API server would
// answer; changed is false when that cannot be told or nothing changes.
func (s *Stage) applyPatches(o map[string]any, env *Env) (next map[string]any, changed bool) {
	before, err := json.Marshal(o)
	if err != nil {
		return nil, false
	}
	after := before
	for i := range s.steps {
		effects, err := s.Play(i, o, env)
		if err != nil {
			return nil, false
		}
		for _, e := range effects {
			switch {
			case e.Kind == Event || e.Kind == Apply:
			case e.Kind == Patch && e.Type != JSONPatch:
				if after, err = patchJSON(after, e); err != nil {
					return nil, false
				}
			default:
				return nil, false
			}
		}
	}
	next, err = Decode(after)
	if err != nil {
		return nil, false
	}
	again, err := json.Marshal(next)
	return next, err == nil && !bytes.Equal(again, before)
}

// patchJSON applies a merge or strategic patch to an object's JSON.
func patchJSON(object []byte, e Effect) ([]byte, error) {
	if e.Type == StrategicPatch {
		var kind struct {
			Kind string `json:"kind"`
		}
		if err := json.Unmarshal(object, &kind); err != nil {
			return nil, fmt.Errorf("read kind: %w", err)
		}
		var schema any = corev1.Pod{}
		if kind.Kind == "Node" {
			schema = corev1.Node{}
		}
		out, err := strategicpatch.StrategicMergePatch(object, e.Body, schema)
		if err != nil {
			return nil, fmt.Errorf("apply patch: %w", err)
		}
		return out, nil
	}
	target, err := Decode(object)
	if err != nil {
		return nil, err
	}
	patch, err := Decode(e.Body)
	if err != nil {
		return nil, err
	}
	out, err := json.Marshal(mergePatch(target, patch))
	if err != nil {
		return nil, fmt.Errorf("write object: %w", err)
	}
	return out, nil
}

// mergePatch applies a merge patch (RFC 7396).
func mergePatch(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = map[string]any{}
	}
	for key, value := range p {
		if value == nil {
			delete(t, key)
			continue
		}
		t[key] = mergePatch(t[key], value)
	}
	return t
}
