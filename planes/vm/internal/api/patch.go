package api

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Patch is a JSON Patch (RFC 6902) whose changes each test first what they
// replace: the API server refuses it where somebody else was faster.
type Patch struct{ ops []operation }

type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
	err   error
}

// Change tests that the value at path is old and sets it to new; a value that
// is not there is tested as null.
func (p *Patch) Change(path string, old, new any) *Patch {
	p.addOperation("test", path, old)
	kind := "replace"
	if string(p.ops[len(p.ops)-1].Value) == "null" {
		kind = "add"
	}
	p.addOperation(kind, path, new)
	if string(p.ops[len(p.ops)-1].Value) == "null" {
		p.ops[len(p.ops)-1] = operation{Op: "remove", Path: path}
	}
	return p
}

func (p *Patch) addOperation(op, path string, value any) {
	raw, err := json.Marshal(value)
	if err != nil {
		err = fmt.Errorf("patch of %s: %w", path, err)
	}
	if s := string(raw); s == "[]" || s == "{}" {
		raw = []byte("null") // omitted when empty, so that is how it is stored
	}
	p.ops = append(p.ops, operation{Op: op, Path: path, Value: raw, err: err})
}

// Empty says that there is nothing to send.
func (p *Patch) Empty() bool { return len(p.ops) == 0 }

// Bytes returns the patch as it is sent.
func (p *Patch) Bytes() ([]byte, error) {
	for _, o := range p.ops {
		if o.err != nil {
			return nil, o.err
		}
	}
	return json.Marshal(p.ops)
}

// And returns a patch that does both.
func (p *Patch) And(q *Patch) *Patch { return &Patch{ops: append(slices.Clip(p.ops), q.ops...)} }

// Set sets a value whatever is there.
func (p *Patch) Set(path string, value any) *Patch {
	p.addOperation("add", path, value)
	return p
}
