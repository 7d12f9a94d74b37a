// Package expression compiles the expressions of stages, jq and CEL, and
// evaluates them on objects; and those of metrics, CEL, on typed objects.
//
// A jq expression that only walks down, such as .status.conditions.[] |
// select(.type == "Ready") | .status, is walked directly; any other is run by
// gojq. Both give the same answers.
package expression

import (
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/itchyny/gojq"

	"github.com/windtunnel/windtunnel/internal/api/object"
)

// Query is a compiled jq expression. It may be used by many goroutines.
type Query struct {
	path []step       // when direct
	only *object.Path // when all of path are fields
	text string       // written in one way, whatever the spacing was
	runs *sync.Pool   // of *program, when not direct
}

// Compile compiles a jq expression.
func Compile(src string) (*Query, error) {
	parsed, err := gojq.Parse(src)
	if err != nil {
		return nil, fmt.Errorf("jq %q: %w", src, err)
	}
	q := &Query{text: parsed.String()}
	if path, ok := toPath(parsed); ok {
		q.path = path
		if !hasEach(path) {
			q.only = object.NewPath(q.Paths()[0]...)
		}
		return q, nil
	}
	if _, err = gojq.Compile(parsed); err == nil { // so that errors speak of what the user wrote
		q.runs, err = newProgramPool(parsed)
	}
	if err != nil {
		return nil, fmt.Errorf("jq %q: %w", src, err)
	}
	return q, nil
}

// Direct says that gojq is not needed.
func (q *Query) Direct() bool { return q.runs == nil }

// Text returns the expression with its spacing made regular: two expressions
// with the same text are the same.
func (q *Query) Text() string { return q.text }

// Paths returns the names on the ways that a direct expression walks, without the
// steps to each element.
func (q *Query) Paths() (out [][]string) {
	var path []string
	for i := range q.path {
		switch s := &q.path[i]; {
		case s.where != nil:
			condition := slices.Clone(path)
			for _, w := range s.where {
				condition = append(condition, w.field.Text())
			}
			out = append(out, condition)
		case !s.each:
			path = append(path, s.field.Text())
		}
	}
	return append(out, path)
}

// Single says that the expression finds at most one value.
func (q *Query) Single() bool {
	return q.Direct() && !slices.ContainsFunc(q.path, func(s step) bool { return s.each })
}

// eachValue calls each with every value found that is not null. An expression
// that fails finds nothing at all, and each may have been called before: the
// result says whether what it was told holds.
func (q *Query) eachValue(o object.Value, each func(object.Value)) bool {
	if q.Direct() {
		return walkPath(q.path, o, each)
	}
	tree, ok := o.Tree()
	if !ok {
		return false
	}
	p, _ := q.runs.Get().(*program)
	defer q.runs.Put(p)
	iter := p.runOn(tree)
	for {
		v, ok := iter.Next()
		if !ok {
			return true
		}
		if _, bad := v.(error); bad {
			return false
		}
		if v != nil {
			each(object.Of(v))
		}
	}
}

// First returns the first value found; false when there is none.
func (q *Query) First(o object.Value) (first object.Value, found bool) {
	whole := q.eachValue(o, func(v object.Value) {
		if !found {
			first, found = v, true
		}
	})
	if !whole {
		return object.Value{}, false
	}
	return first, found
}

// Operator compares what a query finds with values.
type Operator string

// The operators.
const (
	In           Operator = "In"
	NotIn        Operator = "NotIn"
	Exists       Operator = "Exists"
	DoesNotExist Operator = "DoesNotExist"
)

// Requirement is a query and what must hold of it.
type Requirement struct {
	Query    *Query
	Operator Operator
	Values   []string
}

// Matches says whether the requirement holds of an object. In and NotIn
// compare strings, booleans and jq's whole numbers, not the object's own.
func (r *Requirement) Matches(o object.Value) bool {
	if r.Query.only != nil {
		v, _ := r.Query.only.In(o)
		return (v.Kind > object.Null && r.hitsValue(v)) == r.wantsValue()
	}
	found := false
	whole := r.Query.eachValue(o, func(v object.Value) {
		found = found || r.hitsValue(v)
	})
	return (found && whole) == r.wantsValue()
}

func (r *Requirement) wantsValue() bool { return r.Operator == In || r.Operator == Exists }

// hitsValue says whether one value is what the operator looks for.
func (r *Requirement) hitsValue(v object.Value) bool {
	if r.Operator == Exists || r.Operator == DoesNotExist {
		return true
	}
	switch v.Kind {
	case object.String:
		return slices.ContainsFunc(r.Values, v.Is)
	case object.Bool:
		return slices.Contains(r.Values, v.String())
	case object.Native:
		n, ok := v.Native().(int)
		return ok && slices.Contains(r.Values, strconv.Itoa(n))
	}
	return false
}

// Number returns a value as a float, if it is one.
func Number(v object.Value) (float64, bool) {
	if v.Kind == object.Number {
		f, err := strconv.ParseFloat(v.String(), 64)
		return f, err == nil
	}
	switch n := v.Native().(type) {
	case float64:
		return n, true
	case int:
		return float64(n), true
	}
	return 0, false
}
