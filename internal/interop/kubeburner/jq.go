package kubeburner

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"
)

// statusPaths turns customStatusPaths into a condition in CEL: each of the jq
// programs, run on an object's status, is to give its value at least once.
func statusPaths(paths []statusPath) (string, error) {
	var out []string
	for _, p := range paths {
		q, err := gojq.Parse(p.Key)
		if err != nil {
			return "", fmt.Errorf("%q is not a jq program: %w", p.Key, err)
		}
		c := &jq{program: p.Key}
		text, err := c.each(q, value{text: "self.status"}, func(v value) (string, error) { return v.equals(p.Value), nil })
		if err != nil {
			return "", err
		}
		out = append(out, text)
	}
	if len(out) > 1 {
		for i, text := range out {
			out[i] = "(" + text + ")"
		}
	}
	return strings.Join(out, " && "), nil
}

// jq translates a program of the language jq, which gives any number of values,
// into a CEL expression that tells whether one of them is as wanted. It knows
// the part of jq that looks into a status: paths, iteration, select, tostring.
type jq struct {
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

func (c *jq) no(what string) error {
	return fmt.Errorf("%s in the jq program %q has no form in CEL here", what, c.program)
}

// then says what is wanted of a value.
type then func(value) (string, error)

// each translates a query: then is to hold for one of the values that it gives
// for v.
func (c *jq) each(q *gojq.Query, v value, then then) (string, error) {
	if c.steps++; c.steps > 100 {
		return "", c.no("so much")
	}
	switch {
	case q.Term != nil && len(q.FuncDefs) == 0:
		return c.term(q.Term, v, then)
	case q.Op == gojq.OpPipe && q.Left != nil && q.Right != nil:
		return c.each(q.Left, v, func(v value) (string, error) { return c.each(q.Right, v, then) })
	}
	return "", c.no("an operator")
}

func (c *jq) term(t *gojq.Term, v value, next then) (string, error) {
	after := func(v value) (string, error) { return c.suffixes(t.SuffixList, v, next) }
	switch t.Type {
	case gojq.TermTypeIdentity:
		return after(v)
	case gojq.TermTypeIndex:
		return c.index(t.Index, v, after)
	case gojq.TermTypeQuery:
		return c.each(t.Query, v, after)
	case gojq.TermTypeFunc:
		return c.function(t.Func, v, after)
	}
	return "", c.no("a part")
}

func (c *jq) function(f *gojq.Func, v value, next then) (string, error) {
	switch {
	case f.Name == "tostring" && len(f.Args) == 0:
		v.written = true
		return next(v)
	case f.Name == "ascii_downcase" && len(f.Args) == 0:
		v.lower = true
		return next(v)
	case f.Name == "select" && len(f.Args) == 1:
		such, err := c.test(f.Args[0], v)
		if err != nil {
			return "", err
		}
		rest, err := next(v)
		return such + " && " + rest, err
	}
	return "", c.no("the function " + f.Name)
}

// index is .name or ."name".
func (c *jq) index(i *gojq.Index, v value, next then) (string, error) {
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
	return "", c.no("an index")
}

func isIdentifier(s string) bool {
	for i, r := range s {
		if !(r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || i > 0 && r >= '0' && r <= '9') {
			return false
		}
	}
	return s != "in" && s != "true" && s != "false" && s != "null"
}

func (c *jq) suffixes(list []*gojq.Suffix, v value, next then) (string, error) {
	if len(list) == 0 {
		return next(v)
	}
	s, rest := list[0], func(v value) (string, error) { return c.suffixes(list[1:], v, next) }
	switch {
	case s.Iter:
		c.depth++
		name := "c"
		if c.depth > 1 {
			name += strconv.Itoa(c.depth)
		}
		inner, err := rest(value{text: name})
		return v.text + ".exists(" + name + ", " + inner + ")", err
	case s.Index != nil:
		return c.index(s.Index, v, rest)
	case s.Optional:
		return rest(v)
	}
	return "", c.no("a suffix")
}

// test translates the condition of a select.
func (c *jq) test(q *gojq.Query, v value) (string, error) {
	if c.steps++; c.steps > 100 {
		return "", c.no("so much")
	}
	if q.Term != nil && q.Term.Type == gojq.TermTypeQuery && len(q.Term.SuffixList) == 0 {
		inner, err := c.test(q.Term.Query, v)
		return "(" + inner + ")", err
	}
	if q.Left == nil || q.Right == nil {
		return "", c.no("a condition")
	}
	switch q.Op {
	case gojq.OpAnd, gojq.OpOr:
		left, err := c.test(q.Left, v)
		if err != nil {
			return "", err
		}
		right, err := c.test(q.Right, v)
		sign := map[gojq.Operator]string{gojq.OpAnd: " && ", gojq.OpOr: " || "}[q.Op]
		return "(" + left + sign + right + ")", err
	case gojq.OpEq, gojq.OpNe, gojq.OpGt, gojq.OpGe, gojq.OpLt, gojq.OpLe:
		constant, ok := literal(q.Right)
		if !ok {
			return "", c.no("a comparison with what is no constant")
		}
		return c.each(q.Left, v, func(v value) (string, error) {
			if v.written || v.lower {
				return "", c.no("a comparison of what is not the value itself")
			}
			return v.text + " " + q.Op.String() + " " + constant, nil
		})
	}
	return "", c.no("an operator")
}

// literal is a constant of jq in CEL.
func literal(q *gojq.Query) (string, bool) {
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
