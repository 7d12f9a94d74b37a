package render

import (
	"encoding/json"
	"fmt"
	"strconv"
	"text/template"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
)

// value is what an expression gives.
type value struct {
	object.Value
	form form
	made bool // a map that this run made, and may change
}

// form is how a value is printed.
type form uint8

const (
	plain   form = iota // as text/template does
	quoted              // a string, as JSON
	compact             // an object or list, as JSON
	block               // as YAML on lines of its own
)

// run is one use of a program.
type run struct {
	env   *Env
	dot   value
	vars  []value
	args  []value        // of the calls under way
	asked []object.Value // arguments of the fleet's functions
	print []byte         // what was printed, as of printing
	text  []byte         // the holes' JSON
	holes []hole
	now   string
	why   string // it gave up
}

// hole is where a value's JSON stands in run.text.
type hole struct{ from, to int }

func (x *run) giveUp(why string) (value, bool) {
	x.why = why
	return value{}, false
}

func (x *run) reset(env *Env, root object.Value, vars int) {
	x.env, x.now, x.why = env, "", ""
	x.dot = value{Value: root}
	if cap(x.vars) < vars {
		x.vars = make([]value, vars)
	}
	x.vars = x.vars[:vars]
	x.vars[0] = x.dot
	x.args, x.print, x.text, x.holes = x.args[:0], x.print[:0], x.text[:0], x.holes[:0]
}

// runNodes runs nodes.
func (x *run) runNodes(nodes []node) bool {
	for _, n := range nodes {
		if !n.run(x) {
			return false
		}
	}
	return true
}

// fixed is a text, by its number.
type fixed int

func (f fixed) run(x *run) bool {
	x.print = append(x.print, printText, byte(f>>8), byte(f))
	return true
}

type printed struct{ expr expr }

func (p printed) run(x *run) bool {
	v, ok := p.expr.eval(x)
	return ok && x.printValue(v)
}

type assigned struct {
	slot int
	expr expr
}

func (a assigned) run(x *run) (ok bool) {
	x.vars[a.slot], ok = a.expr.eval(x)
	return ok
}

// branch is an if or a with.
type branch struct {
	condition       expr
	slot            int
	with            bool
	then, otherwise []node
}

func (b *branch) run(x *run) bool {
	v, ok := b.condition.eval(x)
	if !ok {
		return false
	}
	if b.slot > 0 {
		x.vars[b.slot] = v
	}
	if !v.isTrue() {
		return x.runNodes(b.otherwise)
	}
	if b.with {
		before := x.dot
		x.dot = v
		ok = x.runNodes(b.then)
		x.dot = before
		return ok
	}
	return x.runNodes(b.then)
}

type loop struct {
	over            expr
	index, item     int // variables; 0 for none
	body, otherwise []node
}

func (l *loop) run(x *run) bool {
	v, ok := l.over.eval(x)
	if !ok {
		return false
	}
	if v.Kind > object.Null && v.Kind != object.Array || v.form != plain {
		x.why = "a range over what is no list"
		return false
	}
	before, n := x.dot, 0
	v.Items(func(item object.Value) bool {
		x.dot = value{Value: item}
		if l.item > 0 {
			x.vars[l.item] = x.dot
		}
		if l.index > 0 {
			x.vars[l.index] = wrapValue(n)
		}
		n++
		ok = x.runNodes(l.body)
		return ok
	})
	x.dot = before
	if n == 0 {
		return x.runNodes(l.otherwise)
	}
	return ok
}

type constant struct{ value value }

func (c constant) eval(*run) (value, bool) { return c.value, true }

type dot struct{}

func (dot) eval(x *run) (value, bool) { return x.dot, true }

type variable int

func (v variable) eval(x *run) (value, bool) { return x.vars[v], true }

type fields struct {
	of   expr
	path *object.Path
}

func (f fields) eval(x *run) (value, bool) {
	v, ok := f.of.eval(x)
	if !ok {
		return v, false
	}
	if v.form != plain {
		return x.giveUp("a field of what is no object")
	}
	return x.fieldOf(v.Value, f.path)
}

// dotFields are fields of the dot.
type dotFields struct{ path *object.Path }

func (f dotFields) eval(x *run) (value, bool) {
	if x.dot.form != plain {
		return x.giveUp("a field of what is no object")
	}
	return x.fieldOf(x.dot.Value, f.path)
}

func (x *run) fieldOf(of object.Value, path *object.Path) (value, bool) {
	v, ok := path.In(of)
	switch {
	case !ok:
		return x.giveUp("a field of what is no object")
	case v.Kind == object.Unknown:
		return x.giveUp("a field that only its Go type knows")
	}
	return value{Value: v}, true
}

// quote is Quote.
type quote struct{ of expr }

func (q quote) eval(x *run) (value, bool) {
	v, ok := q.of.eval(x)
	switch {
	case !ok:
	case v.form == plain && v.Kind == object.String:
		v.form = quoted
	default:
		return x.quoteValue(v)
	}
	return v, ok
}

// function is a function that is known here.
type function func(x *run, args []value) (value, bool)

type call struct {
	f    function
	args []expr
}

func (c *call) eval(x *run) (value, bool) {
	from := len(x.args)
	for _, a := range c.args {
		v, ok := a.eval(x)
		if !ok {
			return v, false
		}
		x.args = append(x.args, v)
	}
	v, ok := c.f(x, x.args[from:len(x.args):len(x.args)])
	x.args = x.args[:from]
	return v, ok
}

// choose is and or or, which evaluate no more than they must.
type choose struct {
	until bool
	args  []expr
}

func (c choose) eval(x *run) (v value, ok bool) {
	for _, a := range c.args {
		if v, ok = a.eval(x); !ok || v.isTrue() == c.until {
			return v, ok
		}
	}
	return v, ok
}

// fleetCall asks the env.
type fleetCall struct {
	name string
	args []expr
}

func (c fleetCall) eval(x *run) (value, bool) {
	from := len(x.args)
	for _, a := range c.args {
		v, ok := a.eval(x)
		if !ok {
			return v, false
		}
		if v.form != plain {
			return x.giveUp("a quoted argument")
		}
		x.args = append(x.args, v)
	}
	args := x.args[from:]
	x.args = x.args[:from]
	if x.env.Fleet != nil {
		x.asked = x.asked[:0]
		for i := range args {
			x.asked = append(x.asked, args[i].Value)
		}
		if v, ok := x.env.Fleet.Answer(c.name, x.asked); ok {
			return value{Value: v}, true
		}
	}
	if f := x.env.Functions[c.name]; f != nil {
		in := make([]any, len(args))
		for i := range args {
			var ok bool
			if in[i], ok = x.treeOf(args[i]); !ok {
				return value{}, false
			}
		}
		v, err := f(in...)
		if err != nil {
			return x.giveUp("an error of a function")
		}
		return wrapValue(v), true
	}
	if c.name == "Now" && x.now != "" {
		return value{Value: object.Text(x.now)}, true
	}
	v := wrapValue(x.env.answerAlone(c.name))
	if c.name == "Now" {
		x.now = v.String()
	}
	return v, true
}

// answerAlone answers a function without a fleet.
func (e *Env) answerAlone(name string) any {
	switch name {
	case "Now":
		return e.Now.Format(time.RFC3339Nano)
	case "now":
		return e.Now
	case "StartTime":
		return e.Start.Format(time.RFC3339Nano)
	case "Version":
		return e.Version
	case "NodeIPsWith", "PodIPsWith":
		return []any(nil)
	}
	return ""
}

// isTrue is text/template's.
func (v value) isTrue() bool {
	if v.form != plain {
		return true
	}
	if native := v.Native(); native != nil {
		truth, _ := template.IsTrue(native)
		return truth
	}
	return !v.Empty()
}

// treeOf returns a value as functions take it.
func (x *run) treeOf(v value) (any, bool) {
	switch v.form {
	case quoted, compact:
		raw, ok := appendJSON(nil, v.Value, false)
		if !ok {
			x.why = "a text of unusual characters"
		}
		return string(raw), ok
	case block:
		x.why = "YAML as an argument"
		return nil, false
	}
	tree, ok := v.Tree()
	if !ok {
		x.why = "a field that only its Go type knows"
	}
	return tree, ok
}

// printValue prints a value: it notes what kind of hole it fills, and its JSON.
func (x *run) printValue(v value) bool {
	from, ok := len(x.text), true
	switch {
	case v.form == quoted:
		x.print = append(x.print, printQuoted)
		x.text, ok = v.AppendQuoted(x.text, true)
	case v.form != plain:
		x.print = append(x.print, byte(printQuoted)+byte(v.form-quoted))
		if v.form == block {
			x.print = append(x.print, byte(v.blockDepth()))
			v = v.blockContent()
		}
		x.text, ok = appendJSON(x.text, v.Value, v.form == block)
	case v.Kind == object.String || v.Kind == object.Number || v.Kind == object.Bool:
		x.text = v.Append(x.text)
		switch text := x.text[from:]; {
		case v.Kind == object.String && isWord(text):
			x.print = append(x.print, printWord)
			x.text, ok = appendJSON(x.text[:from], v.Value, false)
		case isNumber(text):
			x.print = append(x.print, printNumber)
		default:
			return x.printLiteral(from)
		}
	case v.Kind == object.Missing:
		x.text = append(x.text, "<no value>"...)
		return x.printLiteral(from)
	default:
		switch n := v.Native().(type) {
		case int:
			x.text = strconv.AppendInt(x.text, int64(n), 10)
		case int64:
			x.text = strconv.AppendInt(x.text, n, 10)
		default:
			x.why = "a value of an unusual type is printed"
			return false
		}
		if !isNumber(x.text[from:]) {
			return x.printLiteral(from)
		}
		x.print = append(x.print, printNumber)
	}
	if !ok {
		x.why = "a text of unusual characters"
	}
	x.holes = append(x.holes, hole{from, len(x.text)})
	return ok
}

// printLiteral makes what was appended to text a part of what was printed: another
// text makes another shape.
func (x *run) printLiteral(from int) bool {
	text := x.text[from:]
	if len(text) > 255 {
		x.why = "a long text is printed as it is"
		return false
	}
	x.print = append(append(x.print, printLiteral, byte(len(text))), text...)
	x.text = x.text[:from]
	return true
}

// blockOf is a value that is printed as YAML.
type blockOf struct {
	value object.Value
	depth int
}

func (v value) blockDepth() int     { return v.Native().(blockOf).depth }
func (v value) blockContent() value { return value{Value: v.Native().(blockOf).value, form: block} }

// isWord says that a text is read as that string, plain or in quotes, wherever
// it stands in YAML.
func isWord(s []byte) bool {
	if len(s) == 0 || len(s) > 255 || !isLetter(s[0]) {
		return false
	}
	for _, c := range s[1:] {
		if !isLetter(c) && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' && c != '/' {
			return false
		}
	}
	if len(s) > 5 {
		return true
	}
	switch string(lowerASCII(s)) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return false
	}
	return true
}

func isLetter(c byte) bool { return c|' ' >= 'a' && c|' ' <= 'z' }

func lowerASCII(s []byte) []byte {
	var out [5]byte
	for i, c := range s {
		out[i] = c | ' '
	}
	return out[:len(s)]
}

// isNumber says that a text is a whole number as JSON writes it, and small
// enough to be one wherever it is read.
func isNumber(s []byte) bool {
	if len(s) == 0 || len(s) > 15 || s[0] == '0' && len(s) > 1 {
		return false
	}
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// native are the functions that are called without reflection.
type native struct {
	minArgs, maxArgs int // arguments
	call             function
}

const many = 1 << 20

func nativeFunctions() map[string]native {
	return map[string]native{
		"toJson":         {1, 1, jsonValue},
		"YAML":           {1, 2, yamlValue},
		"NodeConditions": {0, 0, func(*run, []value) (value, bool) { return wrapValue(nodeConditions()), true }},
		"default": {2, 2, func(_ *run, a []value) (value, bool) {
			if a[1].isTrue() {
				return a[1], true
			}
			return a[0], true
		}},
		"not": {1, 1, func(_ *run, a []value) (value, bool) { return wrapValue(!a[0].isTrue()), true }},
		"eq":  {2, many, equalsAny},
		"ne": {2, 2, func(x *run, a []value) (value, bool) {
			v, ok := equalsAny(x, a)
			return wrapValue(!v.True()), ok
		}},
		"first": {1, 1, firstOf}, "index": {2, 2, indexValue}, "len": {1, 1, lengthOf},
		"list": {0, many, listOf}, "dict": {0, many, dictOf}, "set": {3, 3, setKey},
		"printf": {1, many, func(x *run, a []value) (value, bool) {
			var in []any
			for _, v := range a[1:] {
				tree, ok := x.treeOf(v)
				if !ok {
					return v, false
				}
				in = append(in, tree)
			}
			if a[0].Kind != object.String || a[0].form != plain {
				return x.giveUp("a format that is no text")
			}
			return wrapValue(fmt.Sprintf(a[0].String(), in...)), true
		}},
	}
}

// quoteValue is Quote of what is no plain string.
func (x *run) quoteValue(v value) (value, bool) {
	switch {
	case v.form == plain && v.Kind <= object.Null:
		return value{Value: object.Text("null"), form: quoted}, true
	case v.form == plain && (v.Kind == object.Number || v.Kind == object.Bool):
		return value{Value: object.Text(v.String()), form: quoted}, true
	}
	tree, ok := x.treeOf(v)
	if !ok {
		return v, false
	}
	raw, err := json.Marshal(tree)
	if err != nil {
		return x.giveUp("a value that JSON has no word for")
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	return value{Value: object.Text(text), form: quoted}, true
}

func jsonValue(x *run, a []value) (value, bool) {
	v := a[0]
	switch {
	case v.form != plain || v.Kind >= object.Native:
		return x.giveUp("JSON of a value of an unusual type")
	case v.Kind == object.String:
		v.form = quoted
	case v.Kind <= object.Null:
		return wrapValue("null"), true
	case v.Kind == object.Object || v.Kind == object.Array:
		v.form = compact
	}
	return v, true
}

func yamlValue(x *run, a []value) (value, bool) {
	depth := 0
	if len(a) == 2 {
		n, ok := a[1].Native().(int)
		if !ok || n > 100 {
			return x.giveUp("YAML of an unusual depth")
		}
		depth = max(0, n)
	}
	if a[0].form != plain || a[0].Kind != object.Object && a[0].Kind != object.Array {
		return x.giveUp("YAML of what is no object and no list")
	}
	out := wrapValue(blockOf{a[0].Value, depth})
	out.form = block
	return out, true
}

// equalsAny compares the first argument with the others, as eq does.
func equalsAny(x *run, a []value) (value, bool) {
	for _, v := range a {
		if v.form != plain {
			return x.giveUp("a comparison of a quoted text")
		}
	}
	isText := func(v value) bool { return v.Kind == object.String || v.Kind == object.Number }
	for _, v := range a[1:] {
		same := false
		switch {
		case isText(a[0]) && isText(v), a[0].Kind == object.Bool && v.Kind == object.Bool:
			same = a[0].String() == v.String()
			if v.Kind == object.String && a[0].Kind == object.String {
				same = a[0].Is(v.String())
			}
		case a[0].Kind <= object.Null && isText(v), isText(a[0]) && v.Kind <= object.Null:
		default:
			return x.giveUp("a comparison of values of unusual types")
		}
		if same {
			return wrapValue(true), true
		}
	}
	return wrapValue(false), true
}

func firstOf(x *run, a []value) (out value, ok bool) {
	if a[0].Kind != object.Array {
		return x.giveUp("the first of what is no list")
	}
	out = wrapValue(nil)
	a[0].Items(func(v object.Value) bool {
		out = value{Value: v}
		return false
	})
	return out, true
}

func indexValue(x *run, a []value) (out value, ok bool) {
	switch n, isInt := a[1].Native().(int); {
	case a[0].form != plain:
	case a[0].Kind == object.Object && a[1].Kind == object.String && a[1].form == plain:
		if out.Value = a[0].Get(a[1].String()); out.Kind == object.Missing {
			return wrapValue(nil), true
		}
		return out, out.Kind != object.Unknown
	case a[0].Kind == object.Array && isInt && n >= 0:
		a[0].Items(func(v object.Value) bool {
			if n == 0 {
				out, ok = value{Value: v}, true
			}
			n--
			return !ok
		})
		if ok {
			return out, true
		}
	}
	return x.giveUp("an index that is not there")
}

func lengthOf(x *run, a []value) (value, bool) {
	switch {
	case a[0].form != plain:
	case a[0].Kind == object.String:
		return wrapValue(len(a[0].String())), true
	case a[0].Kind == object.Object, a[0].Kind == object.Array:
		return wrapValue(a[0].Len()), true
	}
	return x.giveUp("the length of a value of an unusual type")
}

func listOf(x *run, a []value) (value, bool) {
	out := make([]any, len(a))
	for i := range a {
		var ok bool
		if out[i], ok = x.treeOf(a[i]); !ok {
			return value{}, false
		}
	}
	return wrapValue(out), true
}

func dictOf(x *run, a []value) (value, bool) {
	out := make(map[string]any, len(a)/2)
	for i := 0; i < len(a); i += 2 {
		if a[i].Kind != object.String || i+1 == len(a) {
			return x.giveUp("a dict of an unusual key")
		}
		tree, ok := x.treeOf(a[i+1])
		if !ok {
			return value{}, false
		}
		key, _ := x.treeOf(a[i])
		out[key.(string)] = tree
	}
	v := wrapValue(out)
	v.made = true
	return v, true
}

func setKey(x *run, a []value) (value, bool) {
	if !a[0].made || a[1].Kind != object.String {
		return x.giveUp("a change of the object")
	}
	tree, ok := x.treeOf(a[2])
	if !ok {
		return value{}, false
	}
	key, _ := x.treeOf(a[1])
	m, _ := a[0].Tree()
	m.(map[string]any)[key.(string)] = tree
	return a[0], true
}
