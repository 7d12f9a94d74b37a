package expression

import (
	"slices"

	"github.com/itchyny/gojq"

	"github.com/windtunnel/windtunnel/internal/api/object"
)

// step is one step down into an object: to a field, to each element, or on
// only if a field has a value.
type step struct {
	field *object.Name
	each  bool
	where []step // a condition: what it leads to
	is    string // the condition's value
	not   bool   // the condition's value is anything else
}

func hasEach(path []step) bool {
	for i := range path {
		if path[i].each || path[i].where != nil {
			return true
		}
	}
	return false
}

// walkPath calls each with what the path leads to, without nulls; false when jq
// would report an error.
func walkPath(path []step, v object.Value, each func(object.Value)) bool {
	for i := range path {
		s := &path[i]
		switch {
		case s.each:
			if v.Kind != object.Array && v.Kind != object.Object {
				return false
			}
			ok := true
			v.Items(func(item object.Value) bool {
				ok = walkPath(path[i+1:], item, each)
				return ok
			})
			return ok
		case s.where != nil:
			met, ok := meetsCondition(s, v)
			if !ok || !met {
				return ok
			}
		default:
			if !hasFields(v) {
				return false
			}
			v = v.Field(s.field)
		}
	}
	if v.Kind > object.Null {
		each(v)
	}
	return v.Kind != object.Unknown
}

// hasFields says that jq takes a field of a value: null has every field, null.
func hasFields(v object.Value) bool { return v.Kind <= object.Null || v.Kind == object.Object }

// meetsCondition says whether a value fulfils a condition; not ok when jq would report
// an error.
func meetsCondition(s *step, v object.Value) (met, ok bool) {
	for i := range s.where {
		if !hasFields(v) {
			return false, false
		}
		v = v.Field(s.where[i].field)
	}
	return v.Is(s.is) != s.not, true
}

// toPath translates a jq expression that only walks down.
func toPath(q *gojq.Query) ([]step, bool) {
	if q == nil || q.Meta != nil || len(q.Imports) > 0 || len(q.FuncDefs) > 0 || len(q.Patterns) > 0 {
		return nil, false
	}
	if q.Term != nil {
		return walkableTerm(q.Term)
	}
	if q.Op != gojq.OpPipe {
		return nil, false
	}
	left, ok := toPath(q.Left)
	if !ok {
		return nil, false
	}
	right, ok := toPath(q.Right)
	return slices.Concat(left, right), ok
}

func walkableTerm(t *gojq.Term) (path []step, ok bool) {
	switch t.Type {
	case gojq.TermTypeIdentity:
	case gojq.TermTypeIndex:
		name, ok := fieldName(t.Index)
		if !ok {
			return nil, false
		}
		path = append(path, step{field: object.NewName(name)})
	case gojq.TermTypeFunc:
		s, ok := selectStep(t.Func)
		if !ok {
			return nil, false
		}
		path = append(path, s)
	default:
		return nil, false
	}
	for _, suffix := range t.SuffixList {
		switch {
		case suffix.Optional:
			return nil, false
		case suffix.Iter:
			path = append(path, step{each: true})
		default:
			name, ok := fieldName(suffix.Index)
			if !ok {
				return nil, false
			}
			path = append(path, step{field: object.NewName(name)})
		}
	}
	return path, true
}

// fieldName returns the name in .name, ."name" or ["name"].
func fieldName(i *gojq.Index) (string, bool) {
	switch {
	case i == nil || i.IsSlice || i.End != nil:
		return "", false
	case i.Name != "":
		return i.Name, true
	case i.Str != nil:
		return i.Str.Str, len(i.Str.Queries) == 0
	}
	return literalText(i.Start)
}

func literalText(q *gojq.Query) (string, bool) {
	if q == nil || q.Term == nil || q.Term.Type != gojq.TermTypeString || q.Term.Str == nil || len(q.Term.SuffixList) > 0 {
		return "", false
	}
	return q.Term.Str.Str, len(q.Term.Str.Queries) == 0
}

// selectStep translates select(.a.b == "text") and select(.a.b != "text").
func selectStep(f *gojq.Func) (step, bool) {
	if f == nil || f.Name != "select" || len(f.Args) != 1 {
		return step{}, false
	}
	q := f.Args[0]
	if q.Op != gojq.OpEq && q.Op != gojq.OpNe {
		return step{}, false
	}
	is, ok := literalText(q.Right)
	if !ok {
		return step{}, false
	}
	path, ok := toPath(q.Left)
	if !ok || len(path) == 0 || hasEach(path) {
		return step{}, false
	}
	return step{where: path, is: is, not: q.Op == gojq.OpNe}, true
}

// Example builds an object of which the query finds the value, into an object
// that may hold other things; false when it cannot.
func (q *Query) Example(object map[string]any, value any) bool {
	return q.Direct() && len(q.path) > 0 && withValueAt(q.path, object, value) != nil
}

// withValueAt returns v with value at the path's end; nil when it cannot.
func withValueAt(path []step, v, value any) any {
	if len(path) == 0 {
		if v != nil && v != value {
			return nil
		}
		return value
	}
	s := &path[0]
	switch {
	case s.each:
		list, _ := v.([]any)
		if v != nil && list == nil {
			return nil
		}
		item := withValueAt(path[1:], nil, value)
		if item == nil {
			return nil
		}
		return append(list, item)
	case s.where != nil:
		if s.not {
			return nil
		}
		if v = withValueAt(s.where, v, s.is); v == nil {
			return nil
		}
		return withValueAt(path[1:], v, value)
	}
	m, ok := v.(map[string]any)
	if v != nil && !ok {
		return nil
	}
	if m == nil {
		m = map[string]any{}
	}
	name := s.field.Text()
	m[name] = withValueAt(path[1:], m[name], value)
	if m[name] == nil {
		return nil
	}
	return m
}
