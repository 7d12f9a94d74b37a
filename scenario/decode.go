package scenario

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decoder fills the types of scenario.go from YAML nodes, strictly, and
// remembers on which line each value stood.
type decoder struct {
	*faults
	vars   *variables
	lines  map[string]int // "steps[2].create.count" -> line
	budget int            // values that may still be visited
	rounds *round         // the repeats around here, the innermost first; nil outside
	steps  int            // made by repeats so far

	warnings []string // FILE:LINE: TEXT
}

// place is where a value stands.
type place struct {
	path  string // "steps[2].create.count", the key in decoder.lines
	name  string // "create.count", for messages
	raw   bool   // ${...} is not an expression here
	depth int
}

func (p place) field(name string) place {
	if p.path == "" {
		p.name = name // a field of the whole file
	} else {
		p.name += "." + name
	}
	p.path, p.depth = strings.TrimPrefix(p.path+"."+name, "."), p.depth+1
	return p
}

func (p place) item(i int) place {
	p.path, p.depth = fmt.Sprintf("%s[%d]", p.path, i), p.depth+1
	return p
}

// defaulter is a type with values that differ from zero where the file is silent.
type defaulter interface{ setDefaults() }

// value decodes n into v.
func (d *decoder) value(n *yaml.Node, v reflect.Value, at place) {
	n, ok := d.enter(n, at)
	if !ok || n.ShortTag() == "!!null" {
		return
	}
	d.lines[at.path] = n.Line
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		v = v.Elem()
	}
	switch {
	case v.Addr().Type().Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		d.text(n, v, at)
	case v.Type() == reflect.TypeFor[Parameters]():
		v.Set(reflect.ValueOf(d.vars.defaults)) // read before everything else
	case v.Kind() == reflect.Struct:
		d.record(n, v, at)
	case v.Kind() == reflect.Map:
		d.mapping(n, v, at)
	case v.Type() == reflect.TypeFor[[]Step]():
		d.stepList(n, v.Addr().Interface().(*[]Step), at)
	case v.Kind() == reflect.Slice:
		d.list(n, v, at)
	case v.Kind() == reflect.Interface:
		if x := d.free(n, at); x != nil {
			v.Set(reflect.ValueOf(x))
		}
	default:
		d.scalar(n, v, at)
	}
}

// enter follows an alias and keeps the bounds on depth and on values visited.
func (d *decoder) enter(n *yaml.Node, at place) (*yaml.Node, bool) {
	d.budget--
	switch {
	case d.budget == 0:
		d.add(n.Line, "more than %d values, aliases counted at each use", maxValues)
		return n, false
	case d.budget < 0:
		return n, false
	case at.depth > maxDepth:
		d.add(n.Line, "%s: more than %d levels deep", clip(at.name), maxDepth)
		d.budget = 0
		return n, false
	}
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n, true
}

// pairs calls f for each key and value of a mapping, keys by their present names,
// and reports the keys that are not plain text or come twice.
func (d *decoder) pairs(n *yaml.Node, at place, f func(key string, k, v *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.add(n.Line, "%s: %s is not a mapping of names to values", at.name, show(n))
		return
	}
	seen := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		key := nowCalled(at.name, k.Value)
		switch first, twice := seen[key]; {
		case k.ShortTag() == "!!merge":
			d.add(k.Line, "%s: merge keys (<<) are not part of the language", at.name)
		case k.Kind != yaml.ScalarNode || k.ShortTag() == "!!null":
			d.add(k.Line, "%s: %s is not a name", at.name, show(k))
		case twice && first.Value != k.Value:
			d.add(k.Line, "%q is what %q on line %d was called: one of them, please", k.Value, first.Value, first.Line)
		case twice:
			d.add(k.Line, "field %q stands twice in %s (first on line %d)", k.Value, at.name, first.Line)
		default:
			seen[key] = k
			f(d.renamed(at.name, k.Value, k.Line), k, v)
		}
	}
}

// record decodes a struct: a field that it does not have is a fault.
func (d *decoder) record(n *yaml.Node, v reflect.Value, at place) {
	at.name = typeLabel(v.Type())
	if x, ok := v.Addr().Interface().(defaulter); ok {
		x.setDefaults()
	}
	if line := v.FieldByName("Line"); line.IsValid() {
		line.SetInt(int64(n.Line))
	}
	fields := fieldsOf(v.Type())
	d.pairs(n, at, func(key string, k, val *yaml.Node) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == key })
		if i < 0 {
			d.unknown(k, at.name, fields)
			return
		}
		to := at.field(key)
		to.raw = fields[i].raw
		d.value(val, v.Field(fields[i].index), to)
	})
}

func (d *decoder) unknown(k *yaml.Node, in string, fields []field) {
	d.add(k.Line, "field %q not found in %s%s", k.Value, in, hint(k.Value, names(fields)))
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, at place) {
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	d.pairs(n, at, func(key string, _, val *yaml.Node) {
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(val, item, at.field(key))
		v.SetMapIndex(reflect.ValueOf(key), item)
	})
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, at place) {
	if n.Kind != yaml.SequenceNode {
		d.add(n.Line, "%s: %s is not a list", at.name, show(n))
		return
	}
	for i, item := range n.Content {
		elem := reflect.New(v.Type().Elem()).Elem()
		d.value(item, elem, at.item(i))
		v.Set(reflect.Append(v, elem))
	}
}

// free decodes a value of any shape, as for template variables.
func (d *decoder) free(n *yaml.Node, at place) any {
	switch n.Kind {
	case yaml.MappingNode:
		var m map[string]any
		d.mapping(n, reflect.ValueOf(&m).Elem(), at)
		return m
	case yaml.SequenceNode:
		l := []any{}
		d.list(n, reflect.ValueOf(&l).Elem(), at)
		return l
	default:
		x, _ := d.resolve(n, at)
		return x.value
	}
}

// text decodes a type with a notation of its own, such as a duration.
func (d *decoder) text(n *yaml.Node, v reflect.Value, at place) {
	x, ok := d.resolve(n, at)
	if !ok {
		return
	}
	s := n.Value // as written: 1.50Gi must not become 1.5Gi
	if x.source != "" {
		s = formatValue(x.value)
	}
	if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s)); err != nil {
		d.add(n.Line, "%s: %s", at.name, err)
	}
}

// scalar decodes a string, a number or a boolean.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, at place) {
	x, ok := d.resolve(n, at)
	if !ok {
		return
	}
	want := ""
	switch v.Kind() {
	case reflect.String:
		text := n.Value
		if x.source != "" {
			text = formatValue(x.value)
		}
		v.SetString(d.renamed(at.name, text, n.Line))
		if at.raw && n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			d.lines[at.path]++ // the text begins below its "|"
		}
	case reflect.Bool:
		if b, ok := x.value.(bool); ok {
			v.SetBool(b)
		} else {
			want = "true or false"
		}
	case reflect.Int, reflect.Uint64:
		want = setWhole(v, x)
	case reflect.Float64:
		if f, ok := asFloat(x.value); ok {
			v.SetFloat(f)
		} else {
			want = "a number"
		}
	default:
		panic("scenario: no decoding for a field of kind " + v.Kind().String())
	}
	if want != "" {
		d.add(n.Line, "%s: %s is not %s", at.name, x, want)
	}
}

// setWhole sets an integer and returns what was wanted when it cannot.
func setWhole(v reflect.Value, x resolved) string {
	if u, ok := x.value.(uint64); ok && v.CanUint() {
		v.SetUint(u)
		return ""
	}
	f, number := asFloat(x.value)
	i, ok := x.value.(int64)
	switch {
	case !number:
		return "a whole number"
	case !ok && f != math.Trunc(f):
		if x.source != "" {
			return "a whole number (use ceil, floor or round)"
		}
		return "a whole number"
	case !ok && math.Abs(f) > 1<<53:
		return "a whole number in range"
	case !ok:
		i = int64(f)
	}
	if v.CanUint() {
		if i < 0 {
			return "a whole number of 0 or more"
		}
		v.SetUint(uint64(i))
		return ""
	}
	v.SetInt(i)
	return ""
}

// resolved is a scalar after its expressions: nil, bool, int64, uint64 (above
// int64's range only), float64 or string.
type resolved struct {
	value  any
	source string // the text with ${...} that gave the value; empty for a literal
}

// String shows the value in a message.
func (x resolved) String() string {
	s, text := x.value.(string)
	switch {
	case x.source != "" && text:
		return fmt.Sprintf("%s = %q", clip(x.source), clip(s))
	case x.source != "":
		if f, ok := x.value.(float64); ok {
			return fmt.Sprintf("%s = %.6g", clip(x.source), f)
		}
		return fmt.Sprintf("%s = %v", clip(x.source), x.value)
	case text:
		return strconv.Quote(clip(s))
	default:
		return formatValue(x.value)
	}
}

// resolve returns the value of a scalar node, its expressions evaluated.
func (d *decoder) resolve(n *yaml.Node, at place) (resolved, bool) {
	if n.Kind != yaml.ScalarNode {
		d.add(n.Line, "%s: %s where one value was expected", at.name, show(n))
		return resolved{}, false
	}
	x := resolved{value: n.Value}
	var err error
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		if at.raw || !strings.Contains(n.Value, "${") {
			return x, true
		}
		x.value, err = d.vars.expand(n.Value)
		x.source = strings.TrimSpace(n.Value)
		if err != nil {
			d.add(n.Line, "%s: %v", at.name, err)
		}
		return x, err == nil
	case "!!bool", "!!int", "!!float", "!!null":
		x.value = nil
		if err = n.Decode(&x.value); err == nil {
			if i, ok := x.value.(int); ok {
				x.value = int64(i)
			}
			return x, true
		}
	}
	d.add(n.Line, "%s: %q with tag %s cannot be read", at.name, clip(n.Value), n.ShortTag())
	return x, false
}

// asFloat returns a number as a float; infinities and NaN are not numbers here.
func asFloat(v any) (float64, bool) {
	switch x := v.(type) {
	case int64:
		return float64(x), true
	case uint64:
		return float64(x), true
	case float64:
		return x, !math.IsInf(x, 0) && !math.IsNaN(x)
	}
	return 0, false
}

// show names a node of the wrong shape in a message.
func show(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	default:
		return strconv.Quote(clip(n.Value))
	}
}

// clip keeps what a message quotes short.
func clip(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:57]) + "..."
	}
	return s
}
