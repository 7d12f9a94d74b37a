package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/workflow"
)

// Condition says whether the condition of a step holds.
func (p *Plan) Condition(s *workflow.Step, statuses map[string]api.StepStatus, outputs map[string]json.RawMessage) (bool, error) {
	inputs := map[string]json.RawMessage{}
	for _, in := range s.Inputs {
		v, err := p.inputValue(in.From, outputs)
		if err != nil {
			return false, fmt.Errorf("if: %w", err)
		}
		inputs[in.From] = v
	}
	raw, err := p.tools.Templates.Expression(s.If, map[string]any{"status": p.conditionStatus(statuses), "inputs": inputs, "context": p.templateContext(s.Name, Place{})})
	if err != nil {
		return false, fmt.Errorf("if %q: %w", s.If, err)
	}
	var runs bool
	if err := json.Unmarshal(raw, &runs); err != nil {
		return false, fmt.Errorf("if %q: it is %s: want true or false", s.If, raw)
	}
	return runs, nil
}

// conditionStatus returns what the condition of a step can ask of all steps. A name
// that is not a name in CUE is there with underscores, too.
func (p *Plan) conditionStatus(statuses map[string]api.StepStatus) map[string]any {
	out := map[string]any{}
	for _, s := range p.graph.All() {
		t := statuses[s.Name]
		one := map[string]any{
			"phase": t.Phase, "reason": t.Reason, "message": t.Message, "succeeded": t.Phase == api.StepSucceeded, "failed": t.Phase == api.StepFailed,
			"skipped": t.Phase == api.StepSkipped, "timeout": t.Reason == workflow.ReasonTimeout, "failedAfterRetries": t.Reason == workflow.ReasonRetries,
			"terminate": t.Reason == workflow.ReasonTerminated,
		}
		out[strings.ReplaceAll(s.Name, "-", "_")], out[s.Name] = one, one
	}
	return out
}

// inputValue returns a value by its name.
func (p *Plan) inputValue(from string, outputs map[string]json.RawMessage) (json.RawMessage, error) {
	if strings.HasPrefix(from, workflow.ContextPrefix) {
		raw, err := p.tools.Templates.Expression(from, map[string]any{"context": p.templateContext(p.App.Name, Place{})})
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", from, err)
		}
		return raw, nil
	}
	if v := outputs[from]; v != nil {
		return v, nil
	}
	return nil, fmt.Errorf("input %s: no step gave it", from)
}

// Fill returns what a step does with its inputs where they belong: in the properties
// of its component, or else in its own.
func (p *Plan) Fill(s *workflow.Step, outputs map[string]json.RawMessage) (Task, error) {
	t := p.tasks[s.Name]
	if len(s.Inputs) == 0 {
		return t, nil
	}
	into := s.Properties
	if t.Component != nil {
		into = t.Component.Properties
	}
	for _, in := range s.Inputs {
		v, err := p.inputValue(in.From, outputs)
		if err != nil {
			return t, err
		}
		if in.ParameterKey == "" {
			continue
		}
		if into, err = setPath(into, in.ParameterKey, v); err != nil {
			return t, fmt.Errorf("input %s: %w", in.From, err)
		}
	}
	if t.Component == nil {
		filled := s.Step
		filled.Properties = into
		return p.taskOf(filled)
	}
	component := *t.Component
	component.Properties = into
	t.Component = &component
	return t, nil
}

// Objects are what a component made somewhere, as the server has it.
type Objects struct {
	Output  map[string]any
	Outputs map[string]any // by name
}

// Outputs returns the values that a step gives to others, by what it made.
func (p *Plan) Outputs(s *workflow.Step, t Task, made Objects) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	for _, o := range s.Outputs {
		scope := map[string]any{"context": p.templateContext(s.Name, t.At)}
		if t.Component != nil {
			scope["context"] = p.templateContext(t.Component.Name, t.At)
			scope["parameter"] = t.Component.Properties
			scope["output"], scope["outputs"] = made.Output, made.Outputs
		}
		v, err := p.tools.Templates.Expression(o.ValueFrom, scope)
		if err != nil {
			return nil, fmt.Errorf("output %s: %w", o.Name, err)
		}
		out[o.Name] = v
	}
	return out, nil
}

// setPath returns a document with a value at a path such as a.b[0]["c.d"]. What is
// not there on the way is made; a list can grow by one.
func setPath(document json.RawMessage, path string, value json.RawMessage) (json.RawMessage, error) {
	keys, err := splitPath(path)
	if err != nil {
		return nil, err
	}
	var root, v any
	if len(document) > 0 {
		if err := json.Unmarshal(document, &root); err != nil {
			return nil, err
		}
	}
	if err := json.Unmarshal(value, &v); err != nil {
		return nil, err
	}
	if root, err = setAt(root, keys, v); err != nil {
		return nil, fmt.Errorf("parameterKey %s: %w", path, err)
	}
	return json.Marshal(root)
}

// setAt sets a value below a node; keys are strings and ints.
func setAt(node any, keys []any, v any) (any, error) {
	if len(keys) == 0 {
		return v, nil
	}
	switch key := keys[0].(type) {
	case string:
		o, ok := node.(map[string]any)
		if !ok && node != nil {
			return nil, fmt.Errorf("%s: what it is in is no object", key)
		}
		if o == nil {
			o = map[string]any{}
		}
		below, err := setAt(o[key], keys[1:], v)
		o[key] = below
		return o, err
	case int:
		list, ok := node.([]any)
		if !ok && node != nil {
			return nil, fmt.Errorf("[%d]: what it is in is no list", key)
		}
		if key > len(list) {
			return nil, fmt.Errorf("[%d]: the list has %d", key, len(list))
		}
		if key == len(list) {
			list = append(list, nil)
		}
		below, err := setAt(list[key], keys[1:], v)
		list[key] = below
		return list, err
	}
	return nil, errors.New("neither a name nor a number")
}

// splitPath splits a.b[0]["c.d"] into names and numbers.
func splitPath(path string) (keys []any, err error) {
	bad := fmt.Errorf("parameterKey %q: want a path such as a.b[0]", path)
	for rest := path; rest != ""; {
		if quoted, ok := strings.CutPrefix(rest, `["`); ok {
			name, after, found := strings.Cut(quoted, `"]`)
			if !found {
				return nil, bad
			}
			keys, rest = append(keys, name), strings.TrimPrefix(after, ".")
			continue
		}
		if index, ok := strings.CutPrefix(rest, "["); ok {
			number, after, found := strings.Cut(index, "]")
			n, err := strconv.Atoi(number)
			if !found || err != nil || n < 0 {
				return nil, bad
			}
			keys, rest = append(keys, n), strings.TrimPrefix(after, ".")
			continue
		}
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		if end == 0 {
			return nil, bad
		}
		keys, rest = append(keys, rest[:end]), strings.TrimPrefix(rest[end:], ".")
	}
	if len(keys) == 0 {
		return nil, bad
	}
	return keys, nil
}
