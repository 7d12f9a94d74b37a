package template

import (
	"fmt"
	"regexp"
	"slices"
	texttemplate "text/template"
	"text/template/parse"
)

// explainUnsegmentable tells why objects of a template cannot be made of segments, as far
// as the template's own text shows; empty when it finds no reason.
//
// What differs from object to object (.Name, .Namespace, .Index and the random
// functions) may only be printed: no condition, loop, variable or computing
// function may see it. Then all objects take the same way through the template
// and differ only in the printed places.
func explainUnsegmentable(t *texttemplate.Template, d Dialect) string {
	i := &inspector{dialect: d}
	i.inspectList(t.Root, true)
	return i.reason
}

// inspector walks a template; root tells whether the dot is the whole of the
// variables there.
type inspector struct {
	dialect Dialect
	reason  string
}

func (i *inspector) rejectNode(n parse.Node) {
	if i.reason == "" {
		i.reason = fmt.Sprintf("%s depends on the object", n)
	}
}

func (i *inspector) inspectList(l *parse.ListNode, root bool) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		i.inspectNode(n, root)
	}
}

func (i *inspector) inspectNode(n parse.Node, root bool) {
	switch n := n.(type) {
	case *parse.TextNode, *parse.CommentNode, *parse.BreakNode, *parse.ContinueNode:
	case *parse.ActionNode:
		if i.isPerObject(n.Pipe, root) && (len(n.Pipe.Decl) > 0 || !i.isPrintedAsIs(n.Pipe, root)) {
			i.rejectNode(n)
		}
	case *parse.IfNode:
		i.inspectBranch(&n.BranchNode, root, root)
	case *parse.WithNode:
		i.inspectBranch(&n.BranchNode, root, false)
	case *parse.RangeNode:
		i.inspectBranch(&n.BranchNode, root, false)
	default: // templates that call templates
		i.rejectNode(n)
	}
}

func (i *inspector) inspectBranch(n *parse.BranchNode, root, inside bool) {
	if i.isPerObject(n.Pipe, root) {
		i.rejectNode(n.Pipe)
	}
	i.inspectList(n.List, inside)
	i.inspectList(n.ElseList, root)
}

// isPerObject tells whether a node's value may differ from object to object.
// Variables never do: their declaration would have been rejected.
func (i *inspector) isPerObject(n parse.Node, root bool) bool {
	some := func(nodes []parse.Node) bool {
		return slices.ContainsFunc(nodes, func(n parse.Node) bool { return i.isPerObject(n, root) })
	}
	switch n := n.(type) {
	case *parse.FieldNode:
		return root && i.ofObject(n.Ident[0])
	case *parse.VariableNode:
		return n.Ident[0] == "$" && (len(n.Ident) == 1 || i.ofObject(n.Ident[1]))
	case *parse.DotNode:
		return root
	case *parse.ChainNode:
		return i.isPerObject(n.Node, root)
	case *parse.IdentifierNode:
		return slices.Contains(i.dialect.Random, n.Ident)
	case *parse.CommandNode:
		return some(n.Args)
	case *parse.PipeNode:
		return slices.ContainsFunc(n.Cmds, func(c *parse.CommandNode) bool { return some(c.Args) })
	}
	return false
}

// ofObject tells whether a variable is the object's own.
func (i *inspector) ofObject(name string) bool {
	return i.isSubstituted(name) || slices.Contains(i.dialect.Differs, name)
}

// isSubstituted tells whether a segment can stand for a variable.
func (i *inspector) isSubstituted(name string) bool {
	return slices.Contains([]string{"Name", "Namespace", "Index", "Replica", "Call"}, name) || slices.Contains(i.dialect.Aliases, name)
}

// isPrintedAsIs tells whether a pipeline prints its differing values as they are, at
// most with quotes around or text between them.
func (i *inspector) isPrintedAsIs(p *parse.PipeNode, root bool) bool {
	if len(p.Decl) > 0 || len(p.Cmds) > 2 || len(p.Cmds) == 0 {
		return false
	}
	if len(p.Cmds) == 2 {
		last := p.Cmds[1]
		if len(last.Args) != 1 || !printsArgument(last.Args[0]) {
			return false
		}
	}
	args := p.Cmds[0].Args
	name, call := args[0].(*parse.IdentifierNode)
	switch {
	case len(args) == 1 && !call:
		return i.isPerObjectOperand(args[0], root)
	case call && slices.Contains(i.dialect.Random, name.Ident):
		return !slices.ContainsFunc(args[1:], func(n parse.Node) bool { return i.isPerObject(n, root) })
	case len(args) == 2 && printsArgument(args[0]):
		return i.isPerObjectOperand(args[1], root)
	case call && name.Ident == "printf" && len(args) > 1:
		format, ok := args[1].(*parse.StringNode)
		return ok && !unusualVerb.MatchString(format.Text) &&
			!slices.ContainsFunc(args[2:], func(n parse.Node) bool { return i.isPerObject(n, root) && !i.isPerObjectOperand(n, root) })
	}
	return false
}

// unusualVerb finds a verb of printf that does more than to print a value.
var unusualVerb = regexp.MustCompile(`%([^sdv]|$)`)

// printsArgument are functions that print their argument as it is or in quotes.
func printsArgument(n parse.Node) bool {
	f, ok := n.(*parse.IdentifierNode)
	return ok && slices.Contains([]string{"quote", "squote", "toString", "print"}, f.Ident)
}

// isPerObjectOperand tells whether a node is one differing value by itself.
func (i *inspector) isPerObjectOperand(n parse.Node, root bool) bool {
	switch n := n.(type) {
	case *parse.FieldNode:
		return len(n.Ident) == 1 && !slices.Contains(i.dialect.Differs, n.Ident[0])
	case *parse.VariableNode:
		return len(n.Ident) == 2 && !slices.Contains(i.dialect.Differs, n.Ident[1])
	case *parse.PipeNode:
		return i.isPrintedAsIs(n, root)
	}
	return false
}
