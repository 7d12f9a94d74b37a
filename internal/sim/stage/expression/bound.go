package expression

import (
	"slices"

	"github.com/itchyny/gojq"
)

// rewriteBounded rewrites an expression in place so that what makes much of little is taken
// to account.
func rewriteBounded(q *gojq.Query) {
	if q == nil {
		return
	}
	for _, f := range q.FuncDefs {
		rewriteBounded(f.Body)
	}
	boundTerm(q.Term)
	boundPatterns(q.Patterns)
	rewriteBounded(q.Left)
	rewriteBounded(q.Right)
	if q.Term != nil || q.Right == nil || len(q.Patterns) > 0 {
		return
	}
	defs := q.FuncDefs
	whole := &gojq.Query{Left: q.Left, Op: q.Op, Right: q.Right}
	switch q.Op {
	case gojq.OpMul:
		*q = gojq.Query{Term: callTerm(timesFunc, q.Left, q.Right)}
	case gojq.OpUpdateMul: // of each value of the right side, as jq has it
		const factor = "$__factor"
		product := &gojq.Query{Term: callTerm(timesFunc, &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeIdentity}}, &gojq.Query{Term: callTerm(factor)})}
		update := &gojq.Query{Left: q.Left, Op: gojq.OpModify, Right: product}
		*q = *parenthesize(&gojq.Query{Left: parenthesize(q.Right), Op: gojq.OpPipe, Right: update, Patterns: []*gojq.Pattern{{Name: factor}}})
	case gojq.OpAdd, gojq.OpUpdateAdd, gojq.OpModify, gojq.OpAssign, gojq.OpUpdateAlt:
		*q = gojq.Query{Term: accountedTerm(whole)}
	}
	q.FuncDefs = defs
}

func boundPatterns(patterns []*gojq.Pattern) {
	for _, p := range patterns {
		boundPatterns(p.Array)
		for _, o := range p.Object {
			rewriteBounded(o.KeyQuery)
			boundText(o.KeyString)
			if o.Val != nil {
				boundPatterns([]*gojq.Pattern{o.Val})
			}
		}
	}
}

func boundTerm(t *gojq.Term) {
	if t == nil {
		return
	}
	boundParts(t)
	boundIndex(t.Index)
	for _, s := range t.SuffixList {
		boundIndex(s.Index)
	}
	inner, suffixes := *t, t.SuffixList
	inner.SuffixList = nil
	whole := &gojq.Query{Term: &inner}
	switch t.Type {
	case gojq.TermTypeArray, gojq.TermTypeObject, gojq.TermTypeFormat:
	case gojq.TermTypeString:
		if len(t.Str.Queries) == 0 {
			return
		}
	case gojq.TermTypeFunc:
		if !mayGrow(t.Func) {
			return
		}
		if t.Func.Name == "sub" || t.Func.Name == "gsub" {
			whole = &gojq.Query{Left: &gojq.Query{Term: callTerm(subjectFunc)}, Op: gojq.OpPipe, Right: whole}
		}
	default:
		return
	}
	*t = *accountedTerm(whole)
	t.SuffixList = suffixes
}

// boundParts goes into a term.
func boundParts(t *gojq.Term) {
	rewriteBounded(t.Query)
	boundText(t.Str)
	switch t.Type {
	case gojq.TermTypeFunc:
		boundCall(t.Func)
	case gojq.TermTypeArray:
		rewriteBounded(t.Array.Query)
	case gojq.TermTypeObject:
		for _, kv := range t.Object.KeyVals {
			boundText(kv.KeyString)
			rewriteBounded(kv.KeyQuery)
			rewriteBounded(kv.Val)
		}
	case gojq.TermTypeUnary:
		boundTerm(t.Unary.Term)
	case gojq.TermTypeIf:
		rewriteBounded(t.If.Cond)
		rewriteBounded(t.If.Then)
		rewriteBounded(t.If.Else)
		for _, e := range t.If.Elif {
			rewriteBounded(e.Cond)
			rewriteBounded(e.Then)
		}
	case gojq.TermTypeTry:
		rewriteBounded(t.Try.Body)
		rewriteBounded(t.Try.Catch)
	case gojq.TermTypeReduce:
		boundAll(t.Reduce.Patterns, t.Reduce.Query, t.Reduce.Start, t.Reduce.Update)
	case gojq.TermTypeForeach:
		boundAll(t.Foreach.Patterns, t.Foreach.Query, t.Foreach.Start, t.Foreach.Update, t.Foreach.Extract)
	case gojq.TermTypeLabel:
		rewriteBounded(t.Label.Body)
	}
}

func boundAll(patterns []*gojq.Pattern, all ...*gojq.Query) {
	boundPatterns(patterns)
	for _, q := range all {
		rewriteBounded(q)
	}
}

func boundText(s *gojq.String) {
	if s != nil {
		for _, q := range s.Queries {
			rewriteBounded(q)
		}
	}
}

func boundIndex(i *gojq.Index) {
	if i == nil {
		return
	}
	boundText(i.Str)
	for _, end := range []**gojq.Query{&i.Start, &i.End} {
		if *end != nil {
			rewriteBounded(*end)
			*end = pipeInto(*end, indexFunc)
		}
	}
}

// boundCall bounds the arguments of a call.
func boundCall(f *gojq.Func) {
	for _, a := range f.Args {
		rewriteBounded(a)
	}
	switch {
	case (f.Name == "setpath" || f.Name == "getpath") && len(f.Args) > 0:
		f.Args[0] = pipeInto(f.Args[0], pathFunc)
	case f.Name == "join" && len(f.Args) > 0:
		f.Args[0] = pipeInto(f.Args[0], jointFunc)
	case (f.Name == "sub" || f.Name == "gsub") && len(f.Args) > 1:
		f.Args[1] = pipeInto(f.Args[1], madeFunc)
	case f.Name == "fromstream": // its paths are made inside
		*f = gojq.Func{Name: "error", Args: []*gojq.Query{textQuery("fromstream is not allowed here")}}
	}
}

// mayGrow tells whether what a function gives may be larger than what it takes.
func mayGrow(f *gojq.Func) bool {
	return slices.Contains([]string{
		"add", "ascii", "combinations", "explode", "flatten", "from_entries", "group_by", "gsub", "implode", "join", "map", "match",
		"scan", "setpath", "split", "splits", "sub", "to_entries", "tojson", "tostream", "tostring", "transpose", "walk", "with_entries",
	}, f.Name)
}

func textQuery(s string) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeString, Str: &gojq.String{Str: s}}}
}

func callTerm(name string, args ...*gojq.Query) *gojq.Term {
	return &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: name, Args: args}}
}

func parenthesize(q *gojq.Query) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeQuery, Query: q}}
}

func pipeInto(q *gojq.Query, function string) *gojq.Query {
	return &gojq.Query{Left: parenthesize(q), Op: gojq.OpPipe, Right: &gojq.Query{Term: callTerm(function)}}
}

// accountedTerm is a query whose values are taken to account, as a term.
func accountedTerm(q *gojq.Query) *gojq.Term {
	return &gojq.Term{Type: gojq.TermTypeQuery, Query: pipeInto(q, madeFunc)}
}
