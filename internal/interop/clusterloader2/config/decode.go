package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/interop/kit"
	"github.com/windtunnel/windtunnel/internal/text/linemap"
	"github.com/windtunnel/windtunnel/internal/text/strictyaml"
)

// Position is a place in a file of the user's.
type Position struct {
	File string
	Line int
}

// Place is where a value of a config stands. It is embedded in what is decoded.
type Place struct {
	File  string
	line  int
	lines map[string]int // of the fields that are given, by lower-case name
}

// Position is the value's own place.
func (p Place) Position() Position { return Position{p.File, p.line} }

// At is the place of a field, or the value's own where the field is not given.
func (p Place) At(field string) Position {
	if line, ok := p.lines[strings.ToLower(field)]; ok {
		return Position{p.File, line}
	}
	return p.Position()
}

// Params are values by name, as templates and measurements take them. Every
// number is a float64, as encoding/json decodes it for ClusterLoader2.
type Params struct {
	Values map[string]any
	Lines  map[string]int
	Place
}

// Over lays parameters over others: those of an instance over those of the
// whole, those of gather over those of start.
func (p Params) Over(below Params) Params {
	out := Params{Values: maps.Clone(below.Values), Lines: maps.Clone(below.Lines), Place: p.Place}
	if out.Values == nil {
		out.Values, out.Lines = map[string]any{}, map[string]int{}
	}
	for name, v := range p.Values {
		out.Values[name] = v
		out.Lines[name] = p.Lines[name]
	}
	if p.File == "" {
		out.Place = below.Place
	}
	return out
}

// maxNodes bounds the nodes of a config, and maxLevels how deep they lie.
const (
	maxNodes  = 1_000_000
	maxLevels = 1_000
)

// Reader reads one file. What it finds it hands to its functions.
type Reader struct {
	File    string
	Fates   kit.Table
	Fault   func(line int, text string)                                 // a value that is not of its field's type
	Unknown func(at Position, field string)                             // a field that ClusterLoader2 does not have
	Known   func(at Position, field string, fate *kit.Field, value any) // a field that is given
}

// Fill decodes the first YAML document of a text, as encoding/json does from JSON:
// keys in any case, unknown ones ignored, the last of two wins. The others are
// ignored, as ClusterLoader2 does. It is false where there is none.
func (r Reader) Fill(text *linemap.Text, to any) (bool, *linemap.Error) {
	root, err := strictyaml.First(text.Bytes)
	switch {
	case errors.Is(err, io.EOF):
		return false, nil
	case err != nil:
		line, what := strictyaml.Syntax(text.Bytes, err)
		line = min(line, max(1, bytes.Count(text.Bytes, []byte("\n"))))
		return false, &linemap.Error{Line: text.Line(line), Text: "what it renders to is not YAML: " + what}
	}
	d := decoder{Reader: r, yaml: &strictyaml.Decoder{Lines: map[string]int{}, Budget: maxNodes, MaxDepth: maxLevels}}
	d.yaml.Report = func(line int, at strictyaml.Place, text string) {
		if at.Path != "" {
			text = at.Path + ": " + text
		}
		r.Fault(line, text)
	}
	d.yaml.Dialect = strictyaml.Dialect{
		NotMapping: "{value} in place of fields",
		NotList:    "{value} in place of a list",
		NotSingle:  "{value} in place of a value",
		TooMany:    fmt.Sprintf("more than %d values", maxNodes),
		TooDeep:    fmt.Sprintf("more than %d levels deep", maxLevels),
		BadText:    "{error}",
		Merge:      true, LastWins: true, Fold: true,
		Show: describeNode, Scalar: d.readScalar, Special: d.readParams, Fields: listFields, Begin: d.beginStruct, After: d.endField,
		Line:   func(n *yaml.Node) int { return text.Line(n.Line) },
		Ignore: func(k *yaml.Node, at strictyaml.Place) { r.Unknown(Position{r.File, d.yaml.Line(k)}, at.Path) },
	}
	d.yaml.Value(root, reflect.ValueOf(to).Elem(), strictyaml.Place{})
	return true, nil
}

// decoder fills the types of a config from a YAML tree.
type decoder struct {
	Reader
	yaml *strictyaml.Decoder
}

// listFields returns those of a struct, by their names as configs have them.
func listFields(t reflect.Type) []strictyaml.Field {
	var out []strictyaml.Field
	for i := range t.NumField() {
		if name := t.Field(i).Name; name != "Place" {
			out = append(out, strictyaml.Field{Name: FieldName(name), Index: i})
		}
	}
	return out
}

// beginStruct and endField say where a struct and its fields stand.
func (d decoder) beginStruct(n *yaml.Node, v reflect.Value, _ strictyaml.Place) {
	if p := v.FieldByName("Place"); p.IsValid() {
		p.Set(reflect.ValueOf(Place{File: d.File, line: d.yaml.Line(n), lines: map[string]int{}}))
	}
}

func (d decoder) endField(parent reflect.Value, f reflect.StructField, k *yaml.Node, at strictyaml.Place) {
	if p := parent.FieldByName("Place"); p.IsValid() {
		p.Addr().Interface().(*Place).lines[strings.ToLower(k.Value)] = d.yaml.Line(k)
	}
	value := parent.FieldByIndex(f.Index)
	if value.Kind() == reflect.Pointer && !value.IsNil() {
		value = value.Elem()
	}
	d.Known(Position{d.File, d.yaml.Line(k)}, at.Path, d.Fates.Of(parent.Type(), FieldName(f.Name)), value.Interface())
}

// readParams reads values by name, whatever they are.
func (d decoder) readParams(n *yaml.Node, v reflect.Value, at strictyaml.Place) bool {
	p, ok := v.Addr().Interface().(*Params)
	if !ok {
		return false
	}
	p.Values, p.Lines, p.Place = map[string]any{}, map[string]int{}, Place{File: d.File, line: d.yaml.Line(n)}
	if n.Kind != yaml.MappingNode {
		d.yaml.Report(d.yaml.Line(n), at, describeNode(n)+" in place of fields")
		return true
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		var value any
		asYAML11(n.Content[i+1], 0)
		if err := n.Content[i+1].Decode(&value); err != nil {
			d.yaml.Report(d.yaml.Line(key), at.Field(key.Value), strings.TrimPrefix(err.Error(), "yaml: "))
			continue
		}
		p.Values[key.Value] = plainValue(value)
		p.Lines[key.Value] = d.yaml.Line(key)
	}
	return true
}

func (d decoder) readScalar(n *yaml.Node, v reflect.Value, at strictyaml.Place) {
	if !d.yaml.Single(n, at) {
		return
	}
	f, number := readNumber(n)
	is, truth := readTruth(n)
	want := ""
	switch v.Kind() {
	case reflect.String:
		v.SetString(n.Value)
	case reflect.Bool:
		if v.SetBool(is); !truth {
			want = "true or false"
		}
	case reflect.Int:
		if !number || f != math.Trunc(f) || math.Abs(f) > math.MaxInt32 {
			want = "a whole number"
		} else {
			v.SetInt(int64(f))
		}
	case reflect.Float64:
		if v.SetFloat(f); !number {
			want = "a number"
		}
	}
	if want != "" {
		d.yaml.Report(d.yaml.Line(n), at, clipText(n.Value)+" is not "+want)
	}
}

// readNumber reads a number; a text in quotes is none.
func readNumber(n *yaml.Node) (float64, bool) {
	var f float64
	if n.Tag != "!!int" && n.Tag != "!!float" || n.Decode(&f) != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}

// readTruth reads true and false, and the words that YAML 1.1 has for them.
func readTruth(n *yaml.Node) (is, ok bool) {
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		return false, false
	}
	switch strings.ToLower(n.Value) {
	case "true", "yes", "on", "y":
		return true, true
	case "false", "no", "off", "n":
		return false, true
	}
	return false, false
}

// asYAML11 resolves the plain scalars of a value as ClusterLoader2's YAML
// library does: yes, no, on and off are booleans, and a timestamp is a text.
func asYAML11(n *yaml.Node, depth int) {
	if depth > maxLevels {
		return
	}
	if n.Kind == yaml.AliasNode {
		asYAML11(n.Alias, depth+1)
		return
	}
	if n.Kind == yaml.ScalarNode && n.Style == 0 {
		is, ok := readTruth(n)
		switch {
		case ok:
			n.Tag, n.Value = "!!bool", strconv.FormatBool(is)
		case n.Tag == "!!timestamp":
			n.Tag = "!!str"
		}
	}
	for _, inner := range n.Content {
		asYAML11(inner, depth+1)
	}
}

// plainValue makes of a decoded value what encoding/json would: numbers are
// float64, and the keys of mappings are texts.
func plainValue(v any) any {
	switch v := v.(type) {
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case uint64:
		return float64(v)
	case []any:
		for i := range v {
			v[i] = plainValue(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plainValue(v[k])
		}
	case map[any]any:
		out := map[string]any{}
		for k, x := range v {
			out[fmt.Sprint(k)] = plainValue(x)
		}
		return out
	}
	return v
}

// FieldName is a field's name as configs have it.
func FieldName(name string) string {
	if strings.HasPrefix(name, "QPS") {
		return "qps" + name[3:]
	}
	return strings.ToLower(name[:1]) + name[1:]
}

func describeNode(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "fields"
	case yaml.SequenceNode:
		return "a list"
	}
	return clipText(n.Value)
}

// clipText is a value as messages show it.
func clipText(text string) string {
	if r := []rune(text); len(r) > 40 {
		text = string(r[:40]) + "…"
	}
	return strconv.Quote(text)
}
