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

	"github.com/windtunnel/windtunnel/internal/interop/kit"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/text/linemap"
	"github.com/windtunnel/windtunnel/internal/text/strictyaml"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// maxDepth and maxValues keep a hostile file from taking the machine along.
const (
	maxDepth  = 64
	maxValues = 200_000
)

// decoder fills the types of config.go from YAML nodes.
type decoder struct {
	*strictyaml.Decoder
	*findings
	fates kit.Table
}

func newDecoder(f *findings, source *linemap.Text) *decoder {
	d := &decoder{findings: f, fates: allFates()}
	tooMany := fmt.Sprintf("more than %d values or %s", maxValues, unit.Count(maxDepth, "levels"))
	d.Decoder = &strictyaml.Decoder{
		Lines: map[string]int{}, Budget: maxValues, MaxDepth: maxDepth,
		Report: func(line int, _ strictyaml.Place, text string) { f.addFaultAt(line, "%s", text) },
		Dialect: strictyaml.Dialect{
			NotMapping: "{name}: not a mapping of names to values",
			NotList:    "{name}: not a list",
			NotSingle:  "{name}: a mapping or a list where one value was expected",
			NotName:    "{name}: a name is no mapping and no list",
			NoMerge:    "{name}: only mappings can be merged",
			Unknown:    "field {key} not found in {name}{near}",
			Twice:      "{name}: field {key} stands twice",
			TooMany:    tooMany, TooDeep: tooMany,
			Merge: true, Nulls: true,
			Show: func(n *yaml.Node) string { return n.Value }, Near: text.DidYouMean, Label: reflect.Type.Name,
			Line:  func(n *yaml.Node) int { return source.Line(n.Line) }, // 0: it came from a flag
			Begin: beginMapping, After: d.endField, Any: d.readAny, Special: d.readDuration, Scalar: d.readScalar,
		},
	}
	return d
}

type defaulter interface{ setDefaults() }

// beginMapping sets what a mapping has where the file is silent, and where it stands.
func beginMapping(_ *yaml.Node, v reflect.Value, p strictyaml.Place) {
	setInitial(v)
	if at := v.FieldByName("At"); at.IsValid() {
		at.SetString(p.Path)
	}
}

// endField notes a field that is set and cannot be honoured.
func (d *decoder) endField(parent reflect.Value, f reflect.StructField, k *yaml.Node, p strictyaml.Place) {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	one, value := d.fates.Of(parent.Type(), name), parent.FieldByIndex(f.Index)
	if !value.IsZero() && one.Asks(value.Interface()) {
		d.notes.Add(kit.Note{File: d.file, Line: d.Line(k), Field: p.Name, Text: one.Text, Changes: one.Changes})
	}
}

// setInitial gives a mapping, and those inside it that a file may leave out, what
// differs from zero where the file is silent.
func setInitial(v reflect.Value) {
	if x, ok := v.Addr().Interface().(defaulter); ok {
		x.setDefaults()
	}
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Struct && v.Type().Field(i).IsExported() {
			setInitial(f)
		}
	}
}

// readAny reads a scalar where a value of any shape may be, as template variables
// are: whole numbers are int64.
func (d *decoder) readAny(n *yaml.Node, p strictyaml.Place) any {
	var x any
	if err := n.Decode(&x); err != nil || n.Kind != yaml.ScalarNode {
		d.addFaultAt(d.Line(n), "%s: %q cannot be read", p.Name, n.Value)
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

// readDuration reads a length of time, which is never below 0.
func (d *decoder) readDuration(n *yaml.Node, v reflect.Value, p strictyaml.Place) bool {
	if v.Type() != reflect.TypeFor[time.Duration]() {
		return false
	}
	var length unit.Duration
	if !d.Single(n, p) {
		return true
	}
	if err := length.UnmarshalText([]byte(n.Value)); err != nil {
		d.addFaultAt(d.Line(n), "%s: %v", p.Name, err)
	} else if length < 0 {
		d.addFaultAt(d.Line(n), "%s: %s is below 0s", p.Name, length)
	} else {
		v.SetInt(int64(length))
	}
	return true
}

// readScalar decodes a text, a number or a boolean as kube-burner's YAML reader
// does: a number may stand for a text, yes and on for true.
func (d *decoder) readScalar(n *yaml.Node, v reflect.Value, p strictyaml.Place) {
	if !d.Single(n, p) {
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
		d.addFaultAt(d.Line(n), "%s: %q is not %s", p.Name, n.Value, want)
	}
}

// changeValue sets the value at a path such as jobs.0.qps (--set), as kube-burner
// does: numbers go into lists, and maps are made where there are none.
func changeValue(n *yaml.Node, path []string, value string) error {
	for i, key := range path {
		for n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		if n.ShortTag() == "!!null" {
			*n = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: n.Line}
		}
		switch n.Kind {
		case yaml.MappingNode:
			n = entryOf(n, key)
		case yaml.SequenceNode:
			at, err := strconv.Atoi(key)
			if err != nil || at < 0 || at >= len(n.Content) {
				return fmt.Errorf("%s has %s: %q is none of them", strings.Join(path[:i], "."), unit.Count(len(n.Content), "items"), key)
			}
			n = n.Content[at]
		default:
			return fmt.Errorf("%s is one value: it has no %q", strings.Join(path[:i], "."), key)
		}
	}
	return n.Encode(typedValue(value))
}

// entryOf returns the value of a key of a mapping; it is made if it is missing.
func entryOf(n *yaml.Node, key string) *yaml.Node {
	if v := strictyaml.Child(n, key); v != nil {
		return v
	}
	k := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}
	v := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	n.Content = append(n.Content, k, v)
	return v
}

// typedValue gives a flag's value the type that it looks like.
func typedValue(value string) any {
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
