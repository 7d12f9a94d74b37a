package clusterloader2

import (
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
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

// params are values by name, as templates and measurements take them. Whole
// numbers are int64, other numbers float64.
type params struct {
	values map[string]any
	lines  map[string]int
	Place
}

// decoder fills the types of a config from a YAML tree as encoding/json does
// from JSON: keys in any case, unknown ones ignored, the last of two wins.
type decoder struct {
	im     *importer
	source *rendered
	budget int // nodes that may still be visited: aliases multiply them
}

// maxNodes bounds the nodes of a config.
const maxNodes = 1_000_000

// decode fills to, a pointer; the faults are in im.
func (im *importer) decode(r *rendered, n *yaml.Node, to any) {
	d := &decoder{im: im, source: r, budget: maxNodes}
	d.value(n, reflect.ValueOf(to).Elem(), "")
}

func (d *decoder) spot(n *yaml.Node) spot { return spot{d.source.file, d.source.line(n.Line)} }

func (d *decoder) fault(n *yaml.Node, path, format string, args ...any) {
	if path != "" {
		format = strings.ReplaceAll(path, "%", "%%") + ": " + format
	}
	d.im.faults.at(d.spot(n), format, args...)
}

// value fills one value from one node; path says which it is.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if d.budget--; d.budget <= 0 {
		if d.budget == 0 {
			d.fault(n, "", "more than %d values", maxNodes)
		}
		return
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch {
	case v.Type() == reflect.TypeFor[params]():
		d.params(n, v.Addr().Interface().(*params), path)
	case v.Type() == reflect.TypeFor[duration]():
		d.duration(n, v, path)
	case v.Kind() == reflect.Struct:
		d.record(n, v, path)
	case v.Kind() == reflect.Slice:
		d.list(n, v, path)
	case v.Kind() == reflect.Map:
		d.texts(n, v, path)
	default:
		d.scalar(n, v, path)
	}
}

func (d *decoder) record(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.fault(n, path, "%s in place of fields", kindOf(n))
		return
	}
	place := Place{file: d.source.file, line: d.source.line(n.Line), lines: map[string]int{}}
	pairs := d.pairs(n)
	for i := 0; i+1 < len(pairs); i += 2 {
		key := pairs[i]
		f, ok := v.Type().FieldByNameFunc(func(name string) bool {
			return name != "Place" && strings.EqualFold(name, key.Value)
		})
		if !ok {
			d.im.note(d.spot(key), join(path, key.Value), "ClusterLoader2 has no such field and ignores it")
			continue
		}
		place.lines[strings.ToLower(key.Value)] = d.source.line(key.Line)
		to := v.FieldByIndex(f.Index)
		to.SetZero()
		d.value(pairs[i+1], to, join(path, lowerFirst(f.Name)))
	}
	if p := v.FieldByName("Place"); p.IsValid() {
		p.Set(reflect.ValueOf(place))
	}
}

// pairs are the keys and values of a mapping; what it merges in (<<) stands
// before its own.
func (d *decoder) pairs(n *yaml.Node) []*yaml.Node {
	var merged, own []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag != "!!merge" {
			own = append(own, key, value)
			continue
		}
		from := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			from = value.Content
		}
		for _, m := range from {
			if m.Kind == yaml.AliasNode {
				m = m.Alias
			}
			if d.budget--; d.budget > 0 && m.Kind == yaml.MappingNode {
				merged = append(d.pairs(m), merged...)
			}
		}
	}
	return append(merged, own...)
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		d.fault(n, path, "%s in place of a list", kindOf(n))
		return
	}
	for i, item := range n.Content {
		one := reflect.New(v.Type().Elem()).Elem()
		d.value(item, one, path+"["+strconv.Itoa(i)+"]")
		v.Set(reflect.Append(v, one))
	}
}

func (d *decoder) texts(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.fault(n, path, "%s in place of fields", kindOf(n))
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for i := 0; i+1 < len(n.Content); i += 2 {
		one := reflect.New(v.Type().Elem()).Elem()
		d.value(n.Content[i+1], one, join(path, n.Content[i].Value))
		v.SetMapIndex(reflect.ValueOf(n.Content[i].Value), one)
	}
}

func (d *decoder) params(n *yaml.Node, p *params, path string) {
	if n.Kind != yaml.MappingNode {
		d.fault(n, path, "%s in place of fields", kindOf(n))
		return
	}
	p.values, p.lines = map[string]any{}, map[string]int{}
	p.Place = Place{file: d.source.file, line: d.source.line(n.Line)}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		var value any
		if err := n.Content[i+1].Decode(&value); err != nil {
			d.fault(key, join(path, key.Value), "%s", strings.TrimPrefix(err.Error(), "yaml: "))
			continue
		}
		p.values[key.Value] = plainValue(value)
		p.lines[key.Value] = d.source.line(key.Line)
	}
}

func (d *decoder) duration(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind == yaml.ScalarNode {
		if x, err := time.ParseDuration(n.Value); err == nil {
			v.SetInt(int64(x))
			return
		}
	}
	d.fault(n, path, "%s is not a time such as 1m30s", clip(n))
}

func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.ScalarNode {
		d.fault(n, path, "%s in place of a value", kindOf(n))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(n.Value)
	case reflect.Bool:
		if is, ok := truth(n); ok {
			v.SetBool(is)
			return
		}
		d.fault(n, path, "%s is not true or false", clip(n))
	case reflect.Int:
		f, ok := numberOf(n)
		if !ok || f != math.Trunc(f) || math.Abs(f) > math.MaxInt32 {
			d.fault(n, path, "%s is not a whole number", clip(n))
			return
		}
		v.SetInt(int64(f))
	case reflect.Float64:
		f, ok := numberOf(n)
		if !ok {
			d.fault(n, path, "%s is not a number", clip(n))
			return
		}
		v.SetFloat(f)
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

// plainValue makes of a decoded value what templates and scenarios know: whole
// numbers are int64, keys are texts.
func plainValue(v any) any {
	switch v := v.(type) {
	case int:
		return int64(v)
	case uint64:
		return float64(v)
	case time.Time:
		return v.Format(time.RFC3339Nano)
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v) // JSON does not tell 5.0 from 5
		}
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
			if name, ok := k.(string); ok {
				out[name] = plainValue(x)
			}
		}
		return out
	}
	return v
}

func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
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
	return clip(n)
}

// clip is a value as messages show it.
func clip(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return kindOf(n)
	}
	text := []rune(n.Value)
	if len(text) > 40 {
		text = append(text[:40], '…')
	}
	return strconv.Quote(string(text))
}
