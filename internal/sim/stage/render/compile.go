package render

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/windtunnel/windtunnel/internal/api/object"
)

// program is a template that is understood: it is played without text/template,
// and what it would print is looked up among the shapes that it printed before.
type program struct {
	body   []node
	vars   int        // how many variables it declares
	texts  []string   // its fixed texts
	reads  [][]string // paths of the object that it reads, each with all below it
	all    bool       // it may read any
	shapes shapes
}

// node is a part of a program; not ok when only text/template can tell what it
// prints.
type node interface{ run(*run) bool }

// expr is what has a value; not ok as of nodes.
type expr interface{ eval(*run) (value, bool) }

// compiler translates a parse tree.
type compiler struct {
	program *program
	funcs   template.FuncMap
	scope   []scoped
	loops   int // around what is translated
	nested  int // how many parts give the dot another meaning
}

// scoped is a variable that can be seen.
type scoped struct {
	name string
	slot int
}

var errNotUnderstood = errors.New("not understood")

func notUnderstood(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errNotUnderstood, fmt.Sprintf(format, args...))
}

// compileTree translates a template; the error says what only text/template can
// do.
func compileTree(t *template.Template, funcs template.FuncMap) (*program, error) {
	c := &compiler{program: &program{vars: 1}, funcs: funcs, scope: []scoped{{"$", 0}}}
	if t.Tree == nil || t.Root == nil {
		return c.program, nil
	}
	if len(t.Templates()) > 1 {
		return nil, notUnderstood("templates inside the template")
	}
	var err error
	c.program.body, err = c.compileList(t.Root)
	return c.program, err
}

func (c *compiler) compileList(l *parse.ListNode) (out []node, err error) {
	if l == nil {
		return nil, nil
	}
	for _, n := range l.Nodes {
		var next node
		switch n := n.(type) {
		case *parse.TextNode:
			next = fixed(len(c.program.texts))
			c.program.texts = append(c.program.texts, string(n.Text))
		case *parse.ActionNode:
			next, err = c.compileAction(n.Pipe)
		case *parse.IfNode:
			next, err = c.compileBranch(&n.BranchNode, false)
		case *parse.WithNode:
			next, err = c.compileBranch(&n.BranchNode, true)
		case *parse.RangeNode:
			next, err = c.compileLoop(&n.BranchNode)
		default:
			err = notUnderstood("%s", n)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, next)
	}
	return out, nil
}

func (c *compiler) compileAction(p *parse.PipeNode) (node, error) {
	e, err := c.compilePipe(p)
	if err != nil || len(p.Decl) == 0 {
		return printed{e}, err
	}
	slot, err := c.declareVariable(p)
	return assigned{slot, e}, err
}

// declareVariable returns the slot of a pipeline's variable; 0 without one.
func (c *compiler) declareVariable(p *parse.PipeNode) (slot int, err error) {
	switch {
	case len(p.Decl) == 0:
		return 0, nil
	case len(p.Decl) > 1:
		return 0, notUnderstood("%s", p)
	case c.loops > 0 && countVariables(p) > 1 && !isChoosing(p): // it may double with each turn
		return 0, notUnderstood("a variable that a loop makes of others: %s", p)
	case p.IsAssign:
		return c.slotOf(p.Decl[0].Ident[0])
	}
	return c.newVariable(p.Decl[0].Ident[0]), nil
}

// isChoosing tells whether a pipeline gives nothing larger than what it reads.
func isChoosing(p *parse.PipeNode) bool {
	for _, command := range p.Cmds {
		if f, ok := command.Args[0].(*parse.IdentifierNode); ok && !chooser.MatchString(f.Ident) {
			return false
		}
		for _, arg := range command.Args {
			if inner, ok := arg.(*parse.PipeNode); ok && !isChoosing(inner) {
				return false
			}
		}
	}
	return true
}

var chooser = regexp.MustCompile(`^(index|get|default|ternary|coalesce|first|last|and|or|not|eq|ne|lt|le|gt|ge|len|empty|hasKey|has)$`)

// countVariables counts those that a pipeline reads.
func countVariables(p *parse.PipeNode) (n int) {
	for _, command := range p.Cmds {
		for _, arg := range command.Args {
			switch arg := arg.(type) {
			case *parse.VariableNode:
				n++
			case *parse.PipeNode:
				n += countVariables(arg)
			case *parse.ChainNode:
				n += strings.Count(arg.String(), "$")
			}
		}
	}
	return n
}

func (c *compiler) newVariable(name string) int {
	slot := c.program.vars
	c.program.vars++
	c.scope = append(c.scope, scoped{name, slot})
	return slot
}

func (c *compiler) slotOf(name string) (int, error) {
	for i := len(c.scope) - 1; i >= 0; i-- {
		if c.scope[i].name == name {
			return c.scope[i].slot, nil
		}
	}
	return 0, notUnderstood("variable %s", name)
}

func (c *compiler) compileBranch(b *parse.BranchNode, with bool) (node, error) {
	defer func(n int) { c.scope = c.scope[:n] }(len(c.scope))
	condition, err := c.compilePipe(b.Pipe)
	if err != nil {
		return nil, err
	}
	out := &branch{condition: condition, with: with}
	if out.slot, err = c.declareVariable(b.Pipe); err != nil {
		return nil, err
	}
	if out.then, err = c.compileInner(b.List, with); err != nil {
		return nil, err
	}
	out.otherwise, err = c.compileInner(b.ElseList, false)
	return out, err
}

// compileInner translates a list whose variables end with it, and that may give the dot
// another meaning.
func (c *compiler) compileInner(l *parse.ListNode, dot bool) ([]node, error) {
	defer func(n, nested int) { c.scope, c.nested = c.scope[:n], nested }(len(c.scope), c.nested)
	if dot {
		c.nested++
	}
	return c.compileList(l)
}

func (c *compiler) compileLoop(b *parse.BranchNode) (node, error) {
	defer func(n int) { c.scope = c.scope[:n] }(len(c.scope))
	over, err := c.compilePipe(b.Pipe)
	if err != nil || b.Pipe.IsAssign {
		return nil, errors.Join(err, notUnderstood("%s", b.Pipe))
	}
	out := &loop{over: over}
	switch d := b.Pipe.Decl; len(d) {
	case 1:
		out.item = c.newVariable(d[0].Ident[0])
	case 2:
		out.index, out.item = c.newVariable(d[0].Ident[0]), c.newVariable(d[1].Ident[0])
	}
	c.loops++
	out.body, err = c.compileInner(b.List, true)
	c.loops--
	if err != nil {
		return nil, err
	}
	out.otherwise, err = c.compileInner(b.ElseList, false)
	return out, err
}

// compilePipe translates a | f x into f x a.
func (c *compiler) compilePipe(p *parse.PipeNode) (out expr, err error) {
	for i, command := range p.Cmds {
		args := command.Args
		f, isFunction := args[0].(*parse.IdentifierNode)
		switch {
		case isFunction:
			out, err = c.compileCall(f.Ident, args[1:], out)
		case i > 0 || len(args) > 1:
			err = notUnderstood("%s", command)
		default:
			out, err = c.compileOperand(args[0])
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c *compiler) compileOperand(n parse.Node) (expr, error) {
	switch n := n.(type) {
	case *parse.DotNode:
		c.program.all = c.program.all || c.nested == 0
		return dot{}, nil
	case *parse.FieldNode:
		if c.nested == 0 {
			c.program.reads = append(c.program.reads, n.Ident)
		}
		return dotFields{object.NewPath(n.Ident...)}, nil
	case *parse.VariableNode:
		slot, err := c.slotOf(n.Ident[0])
		if len(n.Ident) == 1 {
			c.program.all = c.program.all || slot == 0
			return variable(slot), err
		}
		if slot == 0 {
			c.program.reads = append(c.program.reads, n.Ident[1:])
		}
		return fields{variable(slot), object.NewPath(n.Ident[1:]...)}, err
	case *parse.ChainNode:
		of, err := c.compileOperand(n.Node)
		return fields{of, object.NewPath(n.Field...)}, err
	case *parse.PipeNode:
		if len(n.Decl) > 0 {
			return nil, notUnderstood("%s", n)
		}
		return c.compilePipe(n)
	case *parse.IdentifierNode:
		return c.compileCall(n.Ident, nil, nil)
	case *parse.StringNode:
		return constant{value: wrapValue(n.Text)}, nil
	case *parse.NilNode:
		return constant{value: wrapValue(nil)}, nil
	case *parse.BoolNode:
		return constant{value: wrapValue(n.True)}, nil
	case *parse.NumberNode:
		if n.IsInt && int64(int(n.Int64)) == n.Int64 {
			return constant{value: wrapValue(int(n.Int64))}, nil
		}
	}
	return nil, notUnderstood("%s", n)
}

// compileCall translates a function with its arguments; what only depends on constants
// is a constant.
func (c *compiler) compileCall(name string, args []parse.Node, last expr) (expr, error) {
	var all []expr
	for _, a := range args {
		e, err := c.compileOperand(a)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	if last != nil {
		all = append(all, last)
	}
	switch {
	case fleets.MatchString(name):
		return fleetCall{name, all}, nil
	case name == "and" || name == "or":
		return choose{name == "or", all}, nil
	case name == "Quote" && len(all) == 1:
		return quote{all[0]}, nil
	}
	f, err := c.findFunction(name, len(all))
	if err != nil {
		return nil, err
	}
	out := &call{f: f, args: all}
	for _, a := range all {
		if _, ok := a.(constant); !ok {
			return out, nil
		}
	}
	if name == "dict" && len(all) == 0 { // which set may change
		return out, nil
	}
	if v, ok := out.eval(&run{}); ok {
		v.made = false
		return constant{v}, nil
	}
	return out, nil
}

// fleets finds the functions whose answers come from the env.
var fleets = regexp.MustCompile(`^(Now|now|StartTime|Version|NodeName|NodePort|(Node|Pod)(IP|IPWith|IPsWith))$`)

// left finds the functions that are left to text/template: those that depend
// on chance or on more than their arguments, and those that change an argument.
var left = regexp.MustCompile(`^(ago|fail|rand.*|uuidv4|shuffle|gen.*|build.*|bcrypt|htpasswd|encrypt.*|` + changers + `)$`)

// findFunction returns a function that is known here, or calls sprig's.
func (c *compiler) findFunction(name string, args int) (function, error) {
	if f, ok := nativeFunctions()[name]; ok {
		if args < f.minArgs || args > f.maxArgs {
			return nil, notUnderstood("%s of %d arguments", name, args)
		}
		return f.call, nil
	}
	f := c.funcs[name]
	if f == nil || left.MatchString(name) {
		return nil, notUnderstood("function %s", name)
	}
	return reflectFunction(reflect.ValueOf(f)), nil
}

// reflectFunction calls any function on trees.
func reflectFunction(f reflect.Value) function {
	t := f.Type()
	return func(x *run, args []value) (result value, ok bool) {
		defer func() { // as text/template does
			if recover() != nil {
				result, ok = x.giveUp("a panic of a function")
			}
		}()
		if len(args) < t.NumIn() && !t.IsVariadic() || len(args) > t.NumIn() && !t.IsVariadic() || t.IsVariadic() && len(args) < t.NumIn()-1 {
			return x.giveUp("the number of arguments of a function")
		}
		in := make([]reflect.Value, len(args))
		for i, a := range args {
			tree, ok := x.treeOf(a)
			if !ok {
				return value{}, false
			}
			want := t.In(min(i, t.NumIn()-1))
			if t.IsVariadic() && i >= t.NumIn()-1 {
				want = want.Elem()
			}
			switch {
			case tree != nil && reflect.TypeOf(tree).AssignableTo(want):
				in[i] = reflect.ValueOf(tree)
			case tree == nil && want.Kind() == reflect.Interface:
				in[i] = reflect.Zero(want)
			default:
				return x.giveUp("an argument of another type")
			}
		}
		out := f.Call(in)
		if len(out) == 2 && !out[1].IsNil() {
			return x.giveUp("an error of a function")
		}
		return wrapValue(out[0].Interface()), true
	}
}

// wrapValue wraps what a function returned, or a constant.
func wrapValue(v any) value {
	if texts, ok := v.([]string); ok {
		list := make([]any, len(texts))
		for i, s := range texts {
			list[i] = s
		}
		v = list
	}
	return value{Value: object.Of(v)}
}

// changers are the functions of sprig that change a map that they are given.
const changers = `set|unset|merge|mergeOverwrite|mustMerge|mustMergeOverwrite`

// indentYAML puts YAML two spaces deeper for each step of depth.
func indentYAML(text string, depth int) string {
	if depth <= 0 {
		return text
	}
	return strings.ReplaceAll("\n"+text, "\n", "\n"+strings.Repeat("  ", depth))
}
