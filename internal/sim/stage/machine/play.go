package machine

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/sim/stage/render"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Kind is what an effect does.
type Kind uint8

// The kinds of effects.
const (
	Patch  Kind = iota + 1 // change the object
	Delete                 // delete the object, with a grace period of 0
	Event                  // send an event about the object
	Apply                  // create any object, or change it if it exists
)

// String writes the kind as kwok's test data does.
func (k Kind) String() string {
	return [...]string{"", "patch", "delete", "event", "apply"}[k]
}

// Effect is what a step asks for.
type Effect struct {
	Kind        Kind
	Type        PatchType // of a Patch, or of an Apply on an object that exists
	Subresource string
	User        string // to impersonate; empty for none
	Body        []byte // JSON
	Event       *kwok.Event
}

// step is a compiled step.
type step struct {
	event      *kwok.Event
	finalizers *kwok.Finalizers
	remove     bool
	patch      *body
	apply      *body
}

// body is the template of a patch or apply.
type body struct {
	field       string
	text        string
	template    *render.Template
	root        string
	key         string // the root, as JSON has it before its value
	subresource string
	kind        PatchType
	user        string
}

// Steps returns how many steps the stage has.
func (s *Stage) Steps() int { return len(s.steps) }

// Play returns what the stage's step number index, counted from 0, asks for, in
// order. A fleet that cannot carry an effect out plays the same step again. The
// error is that of a template: nothing of the step is to be done.
func (s *Stage) Play(index int, o map[string]any, env *Env) ([]Effect, error) {
	if index < 0 || index >= len(s.steps) {
		return nil, fmt.Errorf("stage %s has %s, asked for number %d", s.name, unit.Count(len(s.steps), "steps"), index)
	}
	st := &s.steps[index]
	var out []Effect
	if st.event != nil {
		out = append(out, Effect{Kind: Event, Event: st.event})
	}
	if st.finalizers != nil {
		if ops := finalizerPatch(finalizersOf(o), st.finalizers); len(ops) > 0 {
			raw, err := json.Marshal(ops)
			if err != nil {
				return nil, fmt.Errorf("write patch of finalizers: %w", err)
			}
			out = append(out, Effect{Kind: Patch, Type: JSONPatch, Body: raw})
		}
	}
	if st.remove {
		return append(out, Effect{Kind: Delete}), nil
	}
	for _, b := range [...]*body{st.patch, st.apply} {
		if b == nil {
			continue
		}
		raw, err := b.appendBody(nil, object.Of(o), object.Value{}, env)
		if err != nil {
			return nil, templateError(s.source, b.field, b.text, err)
		}
		e := Effect{Kind: Patch, Type: b.kind, Subresource: b.subresource, User: b.user, Body: raw}
		if b == st.apply {
			e.Kind = Apply
		}
		out = append(out, e)
	}
	return out, nil
}

// appendBody appends the body of a request; a patch below a root names the uid of the
// object that it is meant for, if there is one.
func (b *body) appendBody(dst []byte, o, uid object.Value, env *Env) ([]byte, error) {
	if b.root == "" {
		return b.template.Append(dst, o, env)
	}
	if b.kind == JSONPatch {
		raw, err := b.template.Append(nil, o, env)
		if err != nil {
			return dst, err
		}
		return movePathsBelow(b.root, raw)
	}
	dst = append(dst, '{')
	if !uid.Empty() {
		dst, _ = uid.AppendQuoted(append(dst, `"metadata":{"uid":`...), false)
		dst = append(dst, "},"...)
	}
	dst, err := b.template.Append(append(dst, b.key...), o, env)
	return append(dst, '}'), err
}

// operation is one operation of a JSON patch.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
	From  string          `json:"from,omitempty"`
}

// movePathsBelow moves the paths of a JSON patch below a root.
func movePathsBelow(root string, raw []byte) ([]byte, error) {
	var ops []operation
	if err := json.Unmarshal(raw, &ops); err != nil {
		return nil, &render.Error{Message: "renders to no list of JSON patch operations: " + err.Error()}
	}
	for i := range ops {
		ops[i].Path = "/" + root + ops[i].Path
	}
	out, err := json.Marshal(ops)
	if err != nil {
		return nil, fmt.Errorf("write JSON patch: %w", err)
	}
	return out, nil
}

func finalizersOf(object map[string]any) (out []string) {
	meta, _ := object["metadata"].(map[string]any)
	list, _ := meta["finalizers"].([]any)
	for _, f := range list {
		if name, ok := f.(string); ok {
			out = append(out, name)
		}
	}
	return out
}

// finalizerPatch returns the operations that bring an object's finalizers to
// what is asked for; none when they are so already.
func finalizerPatch(now []string, want *kwok.Finalizers) (ops []operation) {
	const list = "/metadata/finalizers"
	left := slices.DeleteFunc(slices.Clone(now), func(f string) bool {
		return want.Empty || slices.Contains(want.Remove, kwok.Finalizer{Value: f})
	})
	if len(left) == 0 && len(now) > 0 {
		ops = append(ops, operation{Op: "remove", Path: list})
	} else {
		for i, name := range slices.Backward(now) {
			if !slices.Contains(left, name) {
				ops = append(ops, operation{Op: "remove", Path: fmt.Sprintf("%s/%d", list, i)})
			}
		}
	}
	var add []string
	for _, f := range want.Add {
		if !slices.Contains(left, f.Value) && !slices.Contains(add, f.Value) {
			add = append(add, f.Value)
		}
	}
	if len(left) == 0 && len(add) > 0 {
		return append(ops, operation{Op: "add", Path: list, Value: textJSON(add)})
	}
	for _, name := range add {
		ops = append(ops, operation{Op: "add", Path: list + "/-", Value: textJSON(name)})
	}
	return ops
}

// textJSON writes strings as JSON.
func textJSON(v any) json.RawMessage {
	raw, _ := json.Marshal(v) // of strings: cannot fail
	return raw
}
