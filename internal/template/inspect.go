package template

import (
	"fmt"
	"regexp"
	"slices"
	texttemplate "text/template"
	"text/template/parse"
)

// inspect tells why objects of a template cannot be made of segments, as far
// as the template's own text shows; empty when it finds no reason.
//
// What differs from object to object (.Name, .Namespace, .Index and the random
// functions) may only be printed: no condition, loop, variable or computing
// function may see it. Then all objects take the same way through the template
// and differ only in the printed places.
func inspect(t *texttemplate.Template, d dialect) string {
	i := &inspector{dialect: d}
	i.list(t.Root, true)
	return i.reason
}

// inspector walks a template; root tells whether the dot is the whole of the
// variables there.
type inspector struct {
	dialect dialect
	reason  string
}

func (i *inspector) reject(n parse.Node) {
	if i.reason == "" {
		i.reason = fmt.Sprintf("%s depends on the object", n)
	}
}

func (i *inspector) list(l *parse.ListNode, root bool) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		i.node(n, root)
	}
}

func (i *inspector) node(n parse.Node, root bool) {
	switch n := n.(type) {
	case *parse.TextNode, *parse.CommentNode, *parse.BreakNode, *parse.ContinueNode:
	case *parse.ActionNode:
		if i.differs(n.Pipe, root) && (len(n.Pipe.Decl) > 0 || !i.printed(n.Pipe, root)) {
			i.reject(n)
		}
	case *parse.IfNode:
		i.branch(&n.BranchNode, root, root)
	case *parse.WithNode:
		i.branch(&n.BranchNode, root, false)
	case *parse.RangeNode:
		i.branch(&n.BranchNode, root, false)
	default: // templates that call templates
		i.reject(n)
	}
}

func (i *inspector) branch(n *parse.BranchNode, root, inside bool) {
	if i.differs(n.Pipe, root) {
		i.reject(n.Pipe)
	}
	i.list(n.List, inside)
	i.list(n.ElseList, root)
}

// differs tells whether a node's value may differ from object to object.
// Variables never do: their declaration would have been rejected.
func (i *inspector) differs(n parse.Node, root bool) bool {
	some := func(nodes []parse.Node) bool {
		return slices.ContainsFunc(nodes, func(n parse.Node) bool { return i.differs(n, root) })
	}
	switch n := n.(type) {
	case *parse.FieldNode:
		return root && i.ofObject(n.Ident[0])
	case *parse.VariableNode:
		return n.Ident[0] == "$" && (len(n.Ident) == 1 || i.ofObject(n.Ident[1]))
	case *parse.DotNode:
		return root
	case *parse.ChainNode:
		return i.differs(n.Node, root)
	case *parse.IdentifierNode:
		return slices.Contains(i.dialect.random, n.Ident)
	case *parse.CommandNode:
		return some(n.Args)
	case *parse.PipeNode:
		return slices.ContainsFunc(n.Cmds, func(c *parse.CommandNode) bool { return some(c.Args) })
	}
	return false
}

// ofObject tells whether a variable is the object's own.
func (i *inspector) ofObject(name string) bool {
	return i.substituted(name) || slices.Contains(i.dialect.differs, name)
}

// substituted tells whether a segment can stand for a variable.
func (i *inspector) substituted(name string) bool {
	return slices.Contains([]string{"Name", "Namespace", "Index", "Replica"}, name) || slices.Contains(i.dialect.aliases, name)
}

// printed tells whether a pipeline prints its differing values as they are, at
// most with quotes around or text between them.
func (i *inspector) printed(p *parse.PipeNode, root bool) bool {
	if len(p.Decl) > 0 || len(p.Cmds) > 2 || len(p.Cmds) == 0 {
		return false
	}
	if len(p.Cmds) == 2 {
		last := p.Cmds[1]
		if len(last.Args) != 1 || !wraps(last.Args[0]) {
			return false
		}
	}
	args := p.Cmds[0].Args
	name, call := args[0].(*parse.IdentifierNode)
	switch {
	case len(args) == 1 && !call:
		return i.operand(args[0], root)
	case call && slices.Contains(i.dialect.random, name.Ident):
		return !slices.ContainsFunc(args[1:], func(n parse.Node) bool { return i.differs(n, root) })
	case len(args) == 2 && wraps(args[0]):
		return i.operand(args[1], root)
	case call && name.Ident == "printf" && len(args) > 1:
		format, ok := args[1].(*parse.StringNode)
		return ok && !unusualVerb.MatchString(format.Text) &&
			!slices.ContainsFunc(args[2:], func(n parse.Node) bool { return i.differs(n, root) && !i.operand(n, root) })
	}
	return false
}

// unusualVerb finds a verb of printf that does more than to print a value.
var unusualVerb = regexp.MustCompile(`%([^sdv]|$)`)

// wraps are functions that print their argument as it is or in quotes.
func wraps(n parse.Node) bool {
	f, ok := n.(*parse.IdentifierNode)
	return ok && slices.Contains([]string{"quote", "squote", "toString", "print"}, f.Ident)
}

// operand tells whether a node is one differing value by itself.
func (i *inspector) operand(n parse.Node, root bool) bool {
	switch n := n.(type) {
	case *parse.FieldNode:
		return len(n.Ident) == 1 && !slices.Contains(i.dialect.differs, n.Ident[0])
	case *parse.VariableNode:
		return len(n.Ident) == 2 && !slices.Contains(i.dialect.differs, n.Ident[1])
	case *parse.PipeNode:
		return i.printed(n, root)
	}
	return false
}
