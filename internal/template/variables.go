package template

import (
	"slices"
	texttemplate "text/template"
	"text/template/parse"
)

// Variables returns the names of the variables that a template reads, sorted,
// those of every object included. whole tells that it hands all of them to a
// function or to another template, so that any may be read.
func (t *Template) Variables() (names []string, whole bool) {
	return VariablesOf(t.parse)
}

// VariablesOf is Variables for a parsed template that is not a body.
func VariablesOf(t *texttemplate.Template) (names []string, whole bool) {
	r := reader{names: map[string]bool{}, functions: map[string]bool{}}
	r.readAll(t)
	for name := range r.names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, r.whole
}

// Calls tells whether a template calls a function.
func (t *Template) Calls(function string) bool {
	r := reader{names: map[string]bool{}, functions: map[string]bool{}}
	r.readAll(t.parse)
	return r.functions[function]
}

// reader walks a template; root tells whether the dot is the whole of the
// variables there. In a part that another template calls it is taken for that.
type reader struct {
	names     map[string]bool
	functions map[string]bool
	whole     bool
}

func (r *reader) readAll(t *texttemplate.Template) {
	for _, part := range t.Templates() {
		if part.Tree != nil {
			r.readList(part.Root, true)
		}
	}
}

func (r *reader) readList(l *parse.ListNode, root bool) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		r.readNode(n, root)
	}
}

func (r *reader) readNode(n parse.Node, root bool) {
	switch n := n.(type) {
	case *parse.ActionNode:
		r.readValue(n.Pipe, root)
	case *parse.IfNode:
		r.readBranch(&n.BranchNode, root, root)
	case *parse.WithNode:
		r.readBranch(&n.BranchNode, root, false)
	case *parse.RangeNode:
		r.readBranch(&n.BranchNode, root, false)
	case *parse.TemplateNode:
		if n.Pipe != nil && !isWhole(n.Pipe, root) { // the other template is read for itself
			r.readValue(n.Pipe, root)
		}
	}
}

func (r *reader) readBranch(n *parse.BranchNode, root, inside bool) {
	r.readValue(n.Pipe, root)
	r.readList(n.List, inside)
	r.readList(n.ElseList, root)
}

// readValue notes what an expression reads.
func (r *reader) readValue(n parse.Node, root bool) {
	switch n := n.(type) {
	case *parse.FieldNode:
		r.names[n.Ident[0]] = true
	case *parse.IdentifierNode:
		r.functions[n.Ident] = true
	case *parse.VariableNode:
		switch {
		case n.Ident[0] != "$":
		case len(n.Ident) > 1:
			r.names[n.Ident[1]] = true
		default:
			r.whole = true
		}
	case *parse.DotNode:
		r.whole = r.whole || root
	case *parse.ChainNode:
		r.readValue(n.Node, root)
	case *parse.CommandNode:
		if name, ok := namedEntry(n, root); ok {
			r.names[name] = true
			return
		}
		for _, a := range n.Args {
			r.readValue(a, root)
		}
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			r.readValue(c, root)
		}
	}
}

// namedEntry returns the variable that a call takes out of all of them by its name:
// index . "a", get $ "a", hasKey . "a".
func namedEntry(n *parse.CommandNode, root bool) (string, bool) {
	if len(n.Args) != 3 || !isWhole(n.Args[1], root) {
		return "", false
	}
	function, ok := n.Args[0].(*parse.IdentifierNode)
	key, text := n.Args[2].(*parse.StringNode)
	if !ok || !text || !slices.Contains([]string{"index", "get", "hasKey"}, function.Ident) {
		return "", false
	}
	return key.Text, true
}

// isWhole tells whether an expression is all of the variables, and nothing else.
func isWhole(n parse.Node, root bool) bool {
	switch n := n.(type) {
	case *parse.DotNode:
		return root
	case *parse.VariableNode:
		return len(n.Ident) == 1 && n.Ident[0] == "$"
	case *parse.PipeNode:
		return len(n.Decl) == 0 && len(n.Cmds) == 1 && len(n.Cmds[0].Args) == 1 && isWhole(n.Cmds[0].Args[0], root)
	}
	return false
}
