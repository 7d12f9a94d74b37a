// Package template evaluates the templates of definitions, which are written in
// CUE. It is the only door to that language.
//
// It knows nothing of components, traits or health: a template is a text with a
// field parameter that it constrains, a field context that it reads, and fields
// that somebody asks for.
package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/cuecontext"
)

// ErrTemplate marks what is wrong with a template or with what it was given: it
// fails again until one of them changes.
var ErrTemplate = errors.New("template")

// Input is what a template is given.
type Input struct {
	Parameter json.RawMessage // empty for none
	Context   map[string]any
}

// Evaluator evaluates texts. Its zero value is ready, and has packages that texts
// could import parsed once for all.
type Evaluator struct {
	// Parsed, if not nil, lets every evaluation parse the packages anew, as KubeVela
	// did before v1.6, and is called with each that was.
	Parsed func()
}

// Evaluate returns those of the fields that the template has with this input, in
// JSON. A field that is not concrete is an error.
//
// Each evaluation compiles the text anew, as KubeVela does. A template that stayed
// compiled and was filled in took fifteen times as long (experiments/0016): filling
// in evaluates again, and CUE's contexts only grow.
func (e Evaluator) Evaluate(text string, in Input, fields ...string) (map[string]json.RawMessage, error) {
	context, err := json.Marshal(in.Context)
	if err != nil {
		return nil, fmt.Errorf("context of a template: %w", err)
	}
	if len(in.Parameter) == 0 {
		in.Parameter = json.RawMessage("{}")
	}
	v, err := e.compileText(strings.Join([]string{text, "parameter: " + string(in.Parameter), "context: " + string(context)}, "\n"))
	if err != nil {
		return nil, err
	}
	parameter := v.LookupPath(cue.ParsePath("parameter"))
	if err := v.Err(); err != nil && !parameter.Exists() { // the text is no CUE
		return nil, fmt.Errorf("%w: %w", ErrTemplate, err)
	}
	if err := parameter.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTemplate, err)
	}
	out := map[string]json.RawMessage{}
	for _, name := range fields {
		field := v.LookupPath(cue.ParsePath(name))
		if !field.Exists() {
			if err := v.Err(); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrTemplate, err)
			}
			continue
		}
		raw, err := field.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrTemplate, name, err)
		}
		out[name] = raw
	}
	return out, nil
}

// Expression returns the value of one expression over the fields of a scope, in JSON.
// One that is not concrete is an error.
func (e Evaluator) Expression(text string, scope map[string]any) (json.RawMessage, error) {
	var source strings.Builder
	for _, name := range slices.Sorted(maps.Keys(scope)) {
		raw, err := json.Marshal(scope[name])
		if err != nil {
			return nil, fmt.Errorf("%s of an expression: %w", name, err)
		}
		fmt.Fprintf(&source, "%s: %s\n", name, raw)
	}
	fmt.Fprintf(&source, "_value: (%s)\nvalue: _value\n", strings.TrimSpace(text))
	v, err := e.compileText(source.String())
	if err != nil {
		return nil, err
	}
	raw, err := v.LookupPath(cue.ParsePath("value")).MarshalJSON()
	if err == nil {
		return raw, nil
	}
	if whole := v.Err(); whole != nil {
		err = whole
	}
	return nil, fmt.Errorf("%w: %w", ErrTemplate, err)
}

// compileText compiles a text. An error in it is the value's; what is returned beside is
// of the packages.
func (e Evaluator) compileText(text string) (cue.Value, error) {
	if e.Parsed == nil {
		return cuecontext.New().CompileString(text), nil
	}
	all := build.NewContext()
	instance := all.NewInstance("", nil)
	for _, p := range standInPackages() {
		imported := all.NewInstance("", nil)
		imported.PkgName, imported.ImportPath = path.Base(p.path), p.path
		if err := imported.AddFile("-", p.text); err != nil {
			return cue.Value{}, fmt.Errorf("package %s of templates: %w", p.path, err)
		}
		instance.Imports = append(instance.Imports, imported)
		e.Parsed()
	}
	_ = instance.AddFile("-", text) // an error is the instance's
	return cuecontext.New().BuildInstance(instance), nil
}
