package clusterloader2

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/interop/kit"
	"github.com/windtunnel/windtunnel/internal/text/linemap"
	"github.com/windtunnel/windtunnel/internal/text/strictyaml"
)

// Place is where a value of a config stands. It is embedded in what is decoded.
type Place struct {
	file  string
	line  int
	lines map[string]int // of the fields that are given, by lower-case name
}

// spot is the value's own place.
func (p Place) spot() spot { return spot{p.file, p.line} }

// at is the place of a field, or the value's own where the field is not given.
func (p Place) at(field string) spot {
	if line, ok := p.lines[strings.ToLower(field)]; ok {
		return spot{p.file, line}
	}
	return p.spot()
}

// params are values by name, as templates and measurements take them. Every
// number is a float64, as encoding/json decodes it for ClusterLoader2.
type params struct {
	values map[string]any
	lines  map[string]int
	Place
}

// maxNodes bounds the nodes of a config, and maxLevels how deep they lie.
const (
	maxNodes  = 1_000_000
	maxLevels = 1_000
)

// fill decodes the first YAML document of a text, as encoding/json does from JSON:
// keys in any case, unknown ones ignored, the last of two wins. The others are
// ignored, as ClusterLoader2 does. It is false where there is none; what is wrong
// with values is in im.
func (im *importer) fill(file string, text *linemap.Text, to any) (bool, *linemap.Error) {
	root, err := strictyaml.First(text.Bytes)
	switch {
	case errors.Is(err, io.EOF):
		return false, nil
	case err != nil:
		line, what := strictyaml.Syntax(err)
		line = min(line, max(1, bytes.Count(text.Bytes, []byte("\n"))))
		return false, &linemap.Error{Line: text.Line(line), Text: "what it renders to is not YAML: " + what}
	}
	d := decoder{im: im, file: file, fates: allFates(), Decoder: &strictyaml.Decoder{Lines: map[string]int{}, Budget: maxNodes, MaxDepth: maxLevels}}
	d.Report = func(line int, at strictyaml.Place, text string) {
		if at.Path != "" {
			text = at.Path + ": " + text
		}
		im.faults.add(file, line, "%s", text)
	}
	d.Dialect = strictyaml.Dialect{
		NotMapping: "{value} in place of fields",
		NotList:    "{value} in place of a list",
		NotSingle:  "{value} in place of a value",
		TooMany:    fmt.Sprintf("more than %d values", maxNodes),
		TooDeep:    fmt.Sprintf("more than %d levels deep", maxLevels),
		BadText:    "{error}",
		Merge:      true, LastWins: true, Fold: true,
		Show: kindOf, Scalar: d.scalar, Special: d.params, Fields: fields, Begin: d.begin, After: d.after,
		Line: func(n *yaml.Node) int { return text.Line(n.Line) },
		Ignore: func(k *yaml.Node, at strictyaml.Place) {
			im.note(spot{file, d.Line(k)}, at.Path, "ClusterLoader2 has no such field and ignores it")
		},
	}
	d.Value(root, reflect.ValueOf(to).Elem(), strictyaml.Place{})
	return true, nil
}

// decoder fills the types of a config from a YAML tree.
type decoder struct {
	*strictyaml.Decoder
	im    *importer
	file  string
	fates kit.Table
}

// fields are those of a struct, by their names as configs have them.
func fields(t reflect.Type) []strictyaml.Field {
	var out []strictyaml.Field
	for i := range t.NumField() {
		if name := t.Field(i).Name; name != "Place" {
			out = append(out, strictyaml.Field{Name: lowerFirst(name), Index: i})
		}
	}
	return out
}

// begin and after say where a struct and its fields stand.
func (d decoder) begin(n *yaml.Node, v reflect.Value, _ strictyaml.Place) {
	if p := v.FieldByName("Place"); p.IsValid() {
		p.Set(reflect.ValueOf(Place{file: d.file, line: d.Line(n), lines: map[string]int{}}))
	}
}

func (d decoder) after(parent reflect.Value, f reflect.StructField, k *yaml.Node, at strictyaml.Place) {
	if p := parent.FieldByName("Place"); p.IsValid() {
		p.Addr().Interface().(*Place).lines[strings.ToLower(k.Value)] = d.Line(k)
	}
	value := parent.FieldByIndex(f.Index)
	if value.Kind() == reflect.Pointer && !value.IsNil() {
		value = value.Elem()
	}
	d.im.told(spot{d.file, d.Line(k)}, at.Path, d.fates.Of(parent.Type(), lowerFirst(f.Name)), value.Interface())
}

// params reads values by name, whatever they are.
func (d decoder) params(n *yaml.Node, v reflect.Value, at strictyaml.Place) bool {
	p, ok := v.Addr().Interface().(*params)
	if !ok {
		return false
	}
	p.values, p.lines, p.Place = map[string]any{}, map[string]int{}, Place{file: d.file, line: d.Line(n)}
	if n.Kind != yaml.MappingNode {
		d.Report(d.Line(n), at, kindOf(n)+" in place of fields")
		return true
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		var value any
		asYAML11(n.Content[i+1], 0)
		if err := n.Content[i+1].Decode(&value); err != nil {
			d.Report(d.Line(key), at.Field(key.Value), strings.TrimPrefix(err.Error(), "yaml: "))
			continue
		}
		p.values[key.Value] = plainValue(value)
		p.lines[key.Value] = d.Line(key)
	}
	return true
}

func (d decoder) scalar(n *yaml.Node, v reflect.Value, at strictyaml.Place) {
	if !d.Single(n, at) {
		return
	}
	f, number := numberOf(n)
	is, truth := truth(n)
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
		d.Report(d.Line(n), at, clip(n.Value)+" is not "+want)
	}
}

// numberOf reads a number; a text in quotes is none.
func numberOf(n *yaml.Node) (float64, bool) {
	var f float64
	if n.Tag != "!!int" && n.Tag != "!!float" || n.Decode(&f) != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}

// truth reads true and false, and the words that YAML 1.1 has for them.
func truth(n *yaml.Node) (is, ok bool) {
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
		is, ok := truth(n)
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

// lowerFirst is a field's name as configs have it.
func lowerFirst(name string) string {
	if strings.HasPrefix(name, "QPS") {
		return "qps" + name[3:]
	}
	return strings.ToLower(name[:1]) + name[1:]
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "fields"
	case yaml.SequenceNode:
		return "a list"
	}
	return clip(n.Value)
}

// clip is a value as messages show it.
func clip(text string) string {
	if r := []rune(text); len(r) > 40 {
		text = string(r[:40]) + "…"
	}
	return strconv.Quote(text)
}
