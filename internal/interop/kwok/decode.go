package kwok

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/text"
)

// decoder reads a tree into structs strictly and notes the line of each field.
type decoder struct {
	about  Error          // where the tree is from
	lines  map[string]int // of fields
	faults []error
}

func (d *decoder) faultAt(line int, field string, err error) {
	e := d.about
	e.Field, e.Err = field, err
	if e.Line >= 0 {
		e.Line = line
	}
	d.faults = append(d.faults, &e)
}

// value reads a node into what the pointer into points at.
func (d *decoder) value(field string, node *yaml.Node, into any) {
	d.into(field, node, reflect.ValueOf(into).Elem())
}

func (d *decoder) into(field string, node *yaml.Node, v reflect.Value) {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Tag == "!!null" {
		return
	}
	if reader, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		d.text(field, node, reader)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.into(field, node, v.Elem())
	case reflect.Struct:
		d.object(field, node, v)
	case reflect.Map:
		d.words(field, node, v)
	case reflect.Slice:
		d.list(field, node, v)
	default:
		d.scalar(field, node, v)
	}
}

func (d *decoder) object(field string, node *yaml.Node, v reflect.Value) {
	if node.Kind != yaml.MappingNode {
		d.faultAt(node.Line, field, fmt.Errorf("want a mapping, got %s", shape(node)))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		name := strings.TrimPrefix(field+"."+key.Value, ".")
		target, known := member(v, key.Value)
		switch {
		case target == (reflect.Value{}):
			d.faultAt(key.Line, name, unknown(key.Value, known))
		case seen[key.Value]:
			d.faultAt(key.Line, name, fmt.Errorf("stands here twice"))
		default:
			d.lines[name] = key.Line
			d.into(name, node.Content[i+1], target)
		}
		seen[key.Value] = true
	}
}

// member returns the field of a struct with that key, and all keys.
func member(v reflect.Value, key string) (found reflect.Value, known []string) {
	for i := range v.NumField() {
		switch tag := v.Type().Field(i).Tag.Get("yaml"); tag {
		case "-", "":
		case key:
			found = v.Field(i)
		default:
			known = append(known, tag)
		}
	}
	return found, known
}

func (d *decoder) words(field string, node *yaml.Node, v reflect.Value) {
	if node.Kind != yaml.MappingNode {
		d.faultAt(node.Line, field, fmt.Errorf("want a mapping, got %s", shape(node)))
		return
	}
	out := reflect.MakeMap(v.Type())
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		name := fmt.Sprintf("%s[%q]", field, key.Value)
		d.lines[name] = key.Line
		value := reflect.New(v.Type().Elem()).Elem()
		d.into(name, node.Content[i+1], value)
		out.SetMapIndex(reflect.ValueOf(key.Value), value)
	}
	v.Set(out)
}

func (d *decoder) list(field string, node *yaml.Node, v reflect.Value) {
	if node.Kind != yaml.SequenceNode {
		d.faultAt(node.Line, field, fmt.Errorf("want a list, got %s", shape(node)))
		return
	}
	out := reflect.MakeSlice(v.Type(), len(node.Content), len(node.Content))
	for i, item := range node.Content {
		name := field + "[" + strconv.Itoa(i) + "]"
		d.lines[name] = item.Line
		d.into(name, item, out.Index(i))
	}
	v.Set(out)
}

func (d *decoder) scalar(field string, node *yaml.Node, v reflect.Value) {
	want := tag(v.Kind())
	got := node.ShortTag()
	if node.Kind != yaml.ScalarNode || (got != want && (want != "!!float" || got != "!!int")) {
		hint := ""
		if want == "!!str" && node.Kind == yaml.ScalarNode {
			hint = ": put it in quotes"
		}
		d.faultAt(node.Line, field, fmt.Errorf("want %s, got %s%s", wanted(want), shape(node), hint))
		return
	}
	if err := node.Decode(v.Addr().Interface()); err != nil {
		d.faultAt(node.Line, field, fmt.Errorf("%s is out of range", node.Value))
	}
}

func wanted(tag string) string {
	if tag == "!!float" {
		return "a number"
	}
	return word(tag)
}

// text reads a scalar of any kind that knows its own text form.
func (d *decoder) text(field string, node *yaml.Node, into encoding.TextUnmarshaler) {
	if node.Kind != yaml.ScalarNode {
		d.faultAt(node.Line, field, fmt.Errorf("want a single value, got %s", shape(node)))
		return
	}
	if err := into.UnmarshalText([]byte(node.Value)); err != nil {
		d.faultAt(node.Line, field, err)
	}
}

// tag returns the YAML tag of a kind of scalar.
func tag(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "!!str"
	case reflect.Bool:
		return "!!bool"
	case reflect.Float64:
		return "!!float"
	}
	return "!!int"
}

func word(tag string) string {
	switch tag {
	case "!!str":
		return "a string"
	case "!!bool":
		return "true or false"
	case "!!int":
		return "a whole number"
	}
	return "a value of type " + strings.TrimPrefix(tag, "!!")
}

// shape names what a node is.
func shape(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return word(node.ShortTag()) + " " + strconv.Quote(node.Value)
}

// unknown says that there is no such field, and names the nearest that is.
func unknown(name string, known []string) error { return Unknown("field", name, known) }

// Unknown says that there is no such thing, such as a field or a kind, and names
// the nearest that there is.
func Unknown(thing, name string, known []string) error {
	if near := text.Nearest(name, slices.Sorted(slices.Values(known))); near != "" && len(name) > 1 {
		return fmt.Errorf("there is no %s %q; is it %q?", thing, name, near)
	}
	return fmt.Errorf("there is no %s %q", thing, name)
}
