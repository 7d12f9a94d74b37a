package kubeburner

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/text"
)

// maxDepth and maxValues keep a hostile file from taking the machine along.
const (
	maxDepth  = 64
	maxValues = 200_000
)

// decoder fills the types of config.go from YAML nodes, strictly, and remembers
// on which line of the source each value stood.
type decoder struct {
	*findings
	source  []int          // line of the YAML -> line of the file, both from 1
	lines   map[string]int // "jobs[1].qps" -> line of the file
	visited int
	blamed  bool // the file is said to have too many values
}

// line returns the line of the file that a node stands on.
func (d *decoder) line(n *yaml.Node) int {
	if n.Line < 1 || n.Line >= len(d.source) {
		return 0 // it came from a flag
	}
	return d.source[n.Line]
}

type defaulter interface{ defaults() }

// value decodes n into v. path is where it stands and name how messages call it.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path, name string) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if d.visited++; d.visited > maxValues || strings.Count(path, ".")+strings.Count(path, "[") > maxDepth {
		if !d.blamed {
			d.add(d.line(n), "more than %d values or %d levels", maxValues, maxDepth)
		}
		d.blamed = true
		return
	}
	d.lines[path] = d.line(n)
	if n.ShortTag() == "!!null" {
		return
	}
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		d.duration(n, v, name)
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path, name)
	case v.Kind() == reflect.Struct:
		d.record(n, v, path, name)
	case v.Kind() == reflect.Map:
		d.mapping(n, v, path, name)
	case v.Kind() == reflect.Slice:
		d.list(n, v, path, name)
	case v.Kind() == reflect.Interface:
		if x := d.free(n, path, name); x != nil {
			v.Set(reflect.ValueOf(x))
		}
	default:
		d.scalar(n, v, name)
	}
}

// pairs calls f for each key of a mapping. What a merge key (<<) brings comes
// last, and only where the mapping has no such key itself.
func (d *decoder) pairs(n *yaml.Node, name string, f func(key string, k, v *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.add(d.line(n), "%s: not a mapping of names to values", name)
		return
	}
	seen := map[string]bool{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		switch {
		case k.ShortTag() == "!!merge":
			merged = append(merged, v)
		case k.Kind != yaml.ScalarNode:
			d.add(d.line(k), "%s: a name is no mapping and no list", name)
		case seen[k.Value]:
			d.add(d.line(k), "%s: field %q stands twice", name, k.Value)
		default:
			seen[k.Value] = true
			f(k.Value, k, v)
		}
	}
	for _, m := range merged {
		d.merge(m, name, seen, f)
	}
}

// merge calls f for the keys of a merged mapping, or of a list of them, that
// were not seen yet.
func (d *decoder) merge(n *yaml.Node, name string, seen map[string]bool, f func(key string, k, v *yaml.Node)) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if d.visited++; d.visited > maxValues {
		return
	}
	if n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			d.merge(item, name, seen, f)
		}
		return
	}
	if n.Kind != yaml.MappingNode {
		d.add(d.line(n), "%s: only mappings can be merged", name)
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		switch {
		case k.ShortTag() == "!!merge":
			d.merge(v, name, seen, f)
		case k.Kind == yaml.ScalarNode && !seen[k.Value]:
			seen[k.Value] = true
			f(k.Value, k, v)
		}
	}
}

func (d *decoder) record(n *yaml.Node, v reflect.Value, path, name string) {
	t := v.Type()
	initial(v)
	if at := v.FieldByName("At"); at.IsValid() {
		at.SetString(path)
	}
	fields := map[string]int{}
	var known []string
	for i := range t.NumField() {
		if tag := t.Field(i).Tag.Get("yaml"); tag != "" && tag != "-" {
			fields[tag], known = i, append(known, tag)
		}
	}
	d.pairs(n, name, func(key string, k, val *yaml.Node) {
		i, ok := fields[key]
		if !ok {
			d.add(d.line(k), "field %q not found in %s%s", key, what(t), text.DidYouMean(key, known))
			return
		}
		d.value(val, v.Field(i), strings.TrimPrefix(path+"."+key, "."), strings.TrimPrefix(what(t)+"."+key, "config."))
		if note := t.Field(i).Tag.Get("note"); note != "" && !v.Field(i).IsZero() {
			d.note(d.line(k), strings.TrimPrefix(what(t)+"."+key, "config."), "%s", note)
		}
	})
}

// initial gives a mapping, and those inside it that a file may leave out, what
// differs from zero where the file is silent.
func initial(v reflect.Value) {
	if x, ok := v.Addr().Interface().(defaulter); ok {
		x.defaults()
	}
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Struct && v.Type().Field(i).IsExported() {
			initial(f)
		}
	}
}

// what is how messages name a mapping: "job", "waitOptions", "config".
func what(t reflect.Type) string { return t.Name() }

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path, name string) {
	v.Set(reflect.MakeMap(v.Type()))
	d.pairs(n, name, func(key string, _, val *yaml.Node) {
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(val, item, path+"."+key, name+"."+key)
		v.SetMapIndex(reflect.ValueOf(key), item)
	})
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, path, name string) {
	if n.Kind != yaml.SequenceNode {
		d.add(d.line(n), "%s: not a list", name)
		return
	}
	for i, item := range n.Content {
		elem := reflect.New(v.Type().Elem()).Elem()
		d.value(item, elem, fmt.Sprintf("%s[%d]", path, i), name)
		v.Set(reflect.Append(v, elem))
	}
}

// free decodes a value of any shape, as template variables are: whole numbers
// are int64, maps have names for keys.
func (d *decoder) free(n *yaml.Node, path, name string) any {
	switch n.Kind {
	case yaml.MappingNode:
		var m map[string]any
		d.mapping(n, reflect.ValueOf(&m).Elem(), path, name)
		return m
	case yaml.SequenceNode:
		l := []any{}
		d.list(n, reflect.ValueOf(&l).Elem(), path, name)
		return l
	}
	var x any
	if err := n.Decode(&x); err != nil || n.Kind != yaml.ScalarNode {
		d.add(d.line(n), "%s: %q cannot be read", name, n.Value)
		return nil
	}
	switch x := x.(type) {
	case int:
		return int64(x)
	case uint64:
		return float64(x)
	case time.Time:
		return n.Value
	case float64:
		if math.IsInf(x, 0) || math.IsNaN(x) {
			return n.Value
		}
	}
	return x
}

func (d *decoder) duration(n *yaml.Node, v reflect.Value, name string) {
	length, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		d.add(d.line(n), "%s: %q is not a duration such as 250ms, 30s or 1m30s", name, n.Value)
		return
	}
	if length < 0 {
		d.add(d.line(n), "%s: %s is below 0s", name, length)
		return
	}
	v.SetInt(int64(length))
}

// scalar decodes a text, a number or a boolean as kube-burner's YAML reader
// does: a number may stand for a text, yes and on for true.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, name string) {
	if n.Kind != yaml.ScalarNode {
		d.add(d.line(n), "%s: a mapping or a list where one value was expected", name)
		return
	}
	want := ""
	switch v.Kind() {
	case reflect.String:
		v.SetString(n.Value)
	case reflect.Bool:
		var b bool
		if n.Decode(&b) != nil {
			want = "true or false"
		}
		v.SetBool(b)
	case reflect.Int:
		var i int
		if n.Decode(&i) != nil {
			want = "a whole number"
		}
		v.SetInt(int64(i))
	case reflect.Float64:
		f, err := strconv.ParseFloat(n.Value, 64)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			want, f = "a number", 0
		}
		v.SetFloat(f)
	default:
		panic("kubeburner: no decoding for a field of kind " + v.Kind().String())
	}
	if want != "" {
		d.add(d.line(n), "%s: %q is not %s", name, n.Value, want)
	}
}

// change sets the value at a path such as jobs.0.qps (--set), as kube-burner
// does: numbers go into lists, and maps are made where there are none.
func change(n *yaml.Node, path []string, value string) error {
	for i, key := range path {
		for n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		if n.ShortTag() == "!!null" {
			*n = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: n.Line}
		}
		switch n.Kind {
		case yaml.MappingNode:
			n = entry(n, key)
		case yaml.SequenceNode:
			at, err := strconv.Atoi(key)
			if err != nil || at < 0 || at >= len(n.Content) {
				return fmt.Errorf("%s has %d items: %q is none of them", strings.Join(path[:i], "."), len(n.Content), key)
			}
			n = n.Content[at]
		default:
			return fmt.Errorf("%s is one value: it has no %q", strings.Join(path[:i], "."), key)
		}
	}
	return n.Encode(typed(value))
}

// entry returns the value of a key of a mapping; it is made if it is missing.
func entry(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	k := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}
	v := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	n.Content = append(n.Content, k, v)
	return v
}

// typed gives a flag's value the type that it looks like.
func typed(value string) any {
	if i, err := strconv.Atoi(value); err == nil {
		return i
	}
	if f, err := strconv.ParseFloat(value, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
		return f
	}
	if slices.Contains([]string{"true", "false"}, value) {
		return value == "true"
	}
	return value
}
