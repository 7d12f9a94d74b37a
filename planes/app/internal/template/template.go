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
	"strings"
	"sync"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
)

// ErrTemplate marks what is wrong with a template or with what it was given: it
// fails again until one of them changes.
var ErrTemplate = errors.New("template")

// Evaluator evaluates templates. Its methods may be called from many goroutines.
type Evaluator struct {
	once bool

	mu   sync.Mutex
	idle map[string][]*compiled // by text
}

// compiled is a template ready to be filled in. CUE's values are not for several
// goroutines at once, and its contexts only grow: one is used a bounded number of times.
type compiled struct {
	context *cue.Context
	value   cue.Value
	used    int
}

const (
	maxUses  = 256
	maxTexts = 64 // a definition that changed leaves its old text behind
)

// New returns an evaluator that compiles a template for each evaluation, or with
// once keeps it compiled.
func New(once bool) *Evaluator {
	return &Evaluator{once: once, idle: map[string][]*compiled{}}
}

// Input is what a template is given.
type Input struct {
	Parameter json.RawMessage // empty for none
	Context   map[string]any
}

// Evaluate returns those of the fields that the template has with this input, in
// JSON. A field that is not concrete is an error.
func (e *Evaluator) Evaluate(text string, in Input, fields ...string) (map[string]json.RawMessage, error) {
	context, err := json.Marshal(in.Context)
	if err != nil {
		return nil, fmt.Errorf("context of a template: %w", err)
	}
	if len(in.Parameter) == 0 {
		in.Parameter = json.RawMessage("{}")
	}
	if !e.once {
		c := cuecontext.New()
		v := c.CompileString(strings.Join([]string{text, "parameter: " + string(in.Parameter), "context: " + string(context)}, "\n"))
		return read(v, fields)
	}
	c := e.take(text)
	defer e.give(text, c)
	v := c.value.FillPath(cue.ParsePath("parameter"), c.context.CompileBytes(in.Parameter)).
		FillPath(cue.ParsePath("context"), c.context.CompileBytes(context))
	return read(v, fields)
}

func read(v cue.Value, fields []string) (map[string]json.RawMessage, error) {
	if err := v.LookupPath(cue.ParsePath("parameter")).Validate(); err != nil {
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

func (e *Evaluator) take(text string) *compiled {
	e.mu.Lock()
	defer e.mu.Unlock()
	if free := e.idle[text]; len(free) > 0 {
		c := free[len(free)-1]
		e.idle[text] = free[:len(free)-1]
		return c
	}
	c := cuecontext.New()
	return &compiled{context: c, value: c.CompileString(text + "\ncontext: {...}")}
}

func (e *Evaluator) give(text string, c *compiled) {
	c.used++
	if c.used >= maxUses {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.idle) >= maxTexts && e.idle[text] == nil {
		clear(e.idle)
	}
	e.idle[text] = append(e.idle[text], c)
}
