// Package jq translates programs of the language jq, as kube-burner's configs have them,
// into conditions in CEL. It knows the part of jq that looks into a status: paths,
// iteration, select, tostring, ascii_downcase.
package jq

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"
)

// Condition returns an expression in CEL that tells whether a program gives a text at least
// once, where it runs on what an expression in CEL names.
func Condition(program, on, want string) (string, error) {
	q, err := gojq.Parse(program)
	if err != nil {
		return "", fmt.Errorf("%q is not a jq program: %w", program, err)
	}
	t := &translator{program: program}
	return t.translate(q, value{text: on}, func(v value) (string, error) { return v.equals(want), nil })
}

// translator is one program on its way. A program gives any number of values; the
// expression tells whether one of them is as wanted.
type translator struct {
	program string
	depth   int // of exists, for its variable
	steps   int
}

// value is one value that a program gives.
type value struct {
	text    string // in CEL
	written bool   // tostring: a number or a boolean counts as its text
	lower   bool   // ascii_downcase
}

// equals compares it with a text, as kube-burner does: jq's strings only.
func (v value) equals(want string) string {
	quoted := strconv.Quote(want)
	if !v.written {
		if v.lower {
			return v.text + ".lowerAscii() == " + quoted
		}
		return v.text + " == " + quoted
	}
	_, notNumber := strconv.ParseFloat(want, 64)
	if want == "true" || want == "false" || notNumber == nil {
		return "(" + v.text + " == " + want + " || " + v.text + " == " + quoted + ")"
	}
	if v.lower {
		return "(type(" + v.text + ") == string && " + v.text + ".lowerAscii() == " + quoted + ")"
	}
	return v.text + " == " + quoted
}

func (t *translator) refuse(what string) error {
	return fmt.Errorf("%s in the jq program %q has no form in CEL here", what, t.program)
}

// then says what is wanted of a value.
type then func(value) (string, error)

// translate translates a query: then is to hold for one of the values that it gives
// for v.
func (t *translator) translate(q *gojq.Query, v value, then then) (string, error) {
	if t.steps++; t.steps > 100 {
		return "", t.refuse("so much")
	}
	switch {
	case q.Term != nil && len(q.FuncDefs) == 0:
		return t.translateTerm(q.Term, v, then)
	case q.Op == gojq.OpPipe && q.Left != nil && q.Right != nil:
		return t.translate(q.Left, v, func(v value) (string, error) { return t.translate(q.Right, v, then) })
	}
	return "", t.refuse("an operator")
}

func (t *translator) translateTerm(term *gojq.Term, v value, next then) (string, error) {
	after := func(v value) (string, error) { return t.translateSuffixes(term.SuffixList, v, next) }
	switch term.Type {
	case gojq.TermTypeIdentity:
		return after(v)
	case gojq.TermTypeIndex:
		return t.translateIndex(term.Index, v, after)
	case gojq.TermTypeQuery:
		return t.translate(term.Query, v, after)
	case gojq.TermTypeFunc:
		return t.translateFunction(term.Func, v, after)
	}
	return "", t.refuse("a part")
}

func (t *translator) translateFunction(f *gojq.Func, v value, next then) (string, error) {
	switch {
	case f.Name == "tostring" && len(f.Args) == 0:
		v.written = true
		return next(v)
	case f.Name == "ascii_downcase" && len(f.Args) == 0:
		v.lower = true
		return next(v)
	case f.Name == "select" && len(f.Args) == 1:
		such, err := t.translateTest(f.Args[0], v)
		if err != nil {
			return "", err
		}
		rest, err := next(v)
		return such + " && " + rest, err
	}
	return "", t.refuse("the function " + f.Name)
}

// translateIndex is .name or ."name".
func (t *translator) translateIndex(i *gojq.Index, v value, next then) (string, error) {
	name := i.Name
	if i.Str != nil && i.Str.Queries == nil {
		name = i.Str.Str
	}
	switch {
	case name != "" && isIdentifier(name):
		return next(value{text: v.text + "." + name})
	case name != "":
		return next(value{text: v.text + "[" + strconv.Quote(name) + "]"})
	case i.Start != nil && !i.IsSlice && i.Start.Term != nil && i.Start.Term.Type == gojq.TermTypeNumber && !strings.ContainsAny(i.Start.Term.Number, ".eE"):
		return next(value{text: v.text + "[" + i.Start.Term.Number + "]"})
	case i.Start != nil && !i.IsSlice && i.Start.Term != nil && i.Start.Term.Type == gojq.TermTypeString && i.Start.Term.Str.Queries == nil:
		return next(value{text: v.text + "[" + strconv.Quote(i.Start.Term.Str.Str) + "]"})
	}
	return "", t.refuse("an index")
}

func isIdentifier(s string) bool {
	for i, r := range s {
		if !(r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || i > 0 && r >= '0' && r <= '9') {
			return false
		}
	}
	return s != "in" && s != "true" && s != "false" && s != "null"
}

func (t *translator) translateSuffixes(list []*gojq.Suffix, v value, next then) (string, error) {
	if len(list) == 0 {
		return next(v)
	}
	s, rest := list[0], func(v value) (string, error) { return t.translateSuffixes(list[1:], v, next) }
	switch {
	case s.Iter:
		t.depth++
		name := "c"
		if t.depth > 1 {
			name += strconv.Itoa(t.depth)
		}
		inner, err := rest(value{text: name})
		return v.text + ".exists(" + name + ", " + inner + ")", err
	case s.Index != nil:
		return t.translateIndex(s.Index, v, rest)
	case s.Optional:
		return rest(v)
	}
	return "", t.refuse("a suffix")
}

// translateTest translates the condition of a select.
func (t *translator) translateTest(q *gojq.Query, v value) (string, error) {
	if t.steps++; t.steps > 100 {
		return "", t.refuse("so much")
	}
	if q.Term != nil && q.Term.Type == gojq.TermTypeQuery && len(q.Term.SuffixList) == 0 {
		inner, err := t.translateTest(q.Term.Query, v)
		return "(" + inner + ")", err
	}
	if q.Left == nil || q.Right == nil {
		return "", t.refuse("a condition")
	}
	switch q.Op {
	case gojq.OpAnd, gojq.OpOr:
		left, err := t.translateTest(q.Left, v)
		if err != nil {
			return "", err
		}
		right, err := t.translateTest(q.Right, v)
		sign := map[gojq.Operator]string{gojq.OpAnd: " && ", gojq.OpOr: " || "}[q.Op]
		return "(" + left + sign + right + ")", err
	case gojq.OpEq, gojq.OpNe, gojq.OpGt, gojq.OpGe, gojq.OpLt, gojq.OpLe:
		constant, ok := constantOf(q.Right)
		if !ok {
			return "", t.refuse("a comparison with what is no constant")
		}
		return t.translate(q.Left, v, func(v value) (string, error) {
			if v.written || v.lower {
				return "", t.refuse("a comparison of what is not the value itself")
			}
			return v.text + " " + q.Op.String() + " " + constant, nil
		})
	}
	return "", t.refuse("an operator")
}

// constantOf is a constant of jq in CEL.
func constantOf(q *gojq.Query) (string, bool) {
	t := q.Term
	if t == nil || len(t.SuffixList) > 0 {
		return "", false
	}
	switch t.Type {
	case gojq.TermTypeString:
		if t.Str.Queries == nil {
			return strconv.Quote(t.Str.Str), true
		}
	case gojq.TermTypeNumber:
		return t.Number, true
	case gojq.TermTypeTrue:
		return "true", true
	case gojq.TermTypeFalse:
		return "false", true
	case gojq.TermTypeNull:
		return "null", true
	}
	return "", false
}
