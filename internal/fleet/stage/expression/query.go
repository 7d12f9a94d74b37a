// Package expression compiles the expressions of stages, jq and CEL, and
// evaluates them on objects: trees of map[string]any, []any, string, bool, nil
// and json.Number; and those of metrics, CEL, on typed objects.
//
// A jq expression that only walks down, such as .status.conditions.[] |
// select(.type == "Ready") | .status, is walked directly; any other is run by
// gojq. Both give the same answers.
package expression

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/itchyny/gojq"
)

// Query is a compiled jq expression. It may be used by many goroutines.
type Query struct {
	path []step     // when direct
	code *gojq.Code // when not
	text string     // written in one way, whatever the spacing was
}

// Compile compiles a jq expression.
func Compile(src string) (*Query, error) {
	parsed, err := gojq.Parse(src)
	if err != nil {
		return nil, fmt.Errorf("jq %q: %w", src, err)
	}
	q := &Query{text: parsed.String()}
	if path, ok := walkable(parsed); ok {
		q.path = path
		return q, nil
	}
	if q.code, err = gojq.Compile(parsed); err != nil {
		return nil, fmt.Errorf("jq %q: %w", src, err)
	}
	return q, nil
}

// Direct says that gojq is not needed.
func (q *Query) Direct() bool { return q.code == nil }

// Text returns the expression with its spacing made regular: two expressions
// with the same text are the same.
func (q *Query) Text() string { return q.text }

// Single says that the expression finds at most one value.
func (q *Query) Single() bool {
	return q.Direct() && !slices.ContainsFunc(q.path, func(s step) bool { return s.each })
}

// values calls each with every value found that is not null. An expression
// that fails finds nothing at all, and each may have been called before: the
// result says whether what it was told holds.
func (q *Query) values(object any, each func(any)) bool {
	if q.Direct() {
		return walk(q.path, object, each)
	}
	iter := q.code.RunWithContext(newBudget(), object)
	for {
		v, ok := iter.Next()
		if !ok {
			return true
		}
		if _, bad := v.(error); bad {
			return false
		}
		if v != nil {
			each(v)
		}
	}
}

// First returns the first value found; false when there is none.
func (q *Query) First(object any) (first any, found bool) {
	whole := q.values(object, func(v any) {
		if !found {
			first, found = v, true
		}
	})
	if !whole {
		return nil, false
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
func (r *Requirement) Matches(object any) bool {
	if r.Query.Direct() && !hasEach(r.Query.path) {
		return r.holds(one(r.Query.path, object))
	}
	found := false
	whole := r.Query.values(object, func(v any) {
		found = found || r.hit(v)
	})
	return (found && whole) == r.wanted()
}

func (r *Requirement) wanted() bool { return r.Operator == In || r.Operator == Exists }

func (r *Requirement) holds(v any) bool { return (v != nil && r.hit(v)) == r.wanted() }

// hit says whether one value is what the operator looks for.
func (r *Requirement) hit(v any) bool {
	if r.Operator == Exists || r.Operator == DoesNotExist {
		return true
	}
	switch v := v.(type) {
	case string:
		return slices.Contains(r.Values, v)
	case bool:
		return slices.Contains(r.Values, strconv.FormatBool(v))
	case int:
		return slices.Contains(r.Values, strconv.Itoa(v))
	}
	return false
}

// Number returns a value as a float, if it is one.
func Number(v any) (float64, bool) {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	case float64:
		return v, true
	case int:
		return float64(v), true
	}
	return 0, false
}
