// Package strictyaml fills Go structs from a YAML tree, strictly: a field that a
// struct does not have is a validation error, as is a value of another shape. It
// remembers on which line each value stood, and bounds what a hostile file can cost.
//
// It has no words of its own and does not know what numbers are: a Dialect says
// how one language of files differs from another.
package strictyaml

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Dialect is what is particular to one language. In its texts {name} stands for
// the name of the value, {value} for what stands there, {key} for a key, {near}
// for the known one that is nearest, and {first} for the line where the key stood
// before. An empty one says nothing.
type Dialect struct {
	NotMapping, NotList, NotSingle, NotName, Unknown, Twice, NoMerge string
	TooMany, TooDeep                                                 string
	BadText                                                          string // {error} is that of a type's own notation
	NoItem                                                           string // of nothing where a list has mappings

	Show   func(n *yaml.Node) string                    // what stands there
	Near   func(got string, known []string) string      // " (did you mean ...)"
	Scalar func(n *yaml.Node, v reflect.Value, p Place) // sets a text, a number or a boolean
	Line   func(n *yaml.Node) int                       // in the user's file; nil: the node's own
	Where  func(line int) string                        // names a line in a message about another; nil: its number

	// Each of these may be nil.
	Text    func(n *yaml.Node, p Place) (string, bool)                                // of a value with a notation of its own; nil: as it stands
	Any     func(n *yaml.Node, p Place) any                                           // a scalar where a value of any shape may be
	Special func(n *yaml.Node, v reflect.Value, p Place) bool                         // decodes a type in a way of its own
	Key     func(k *yaml.Node, p Place) string                                        // what a key is called now
	Label   func(t reflect.Type) string                                               // what a struct is called, nil: as its field
	Fields  func(t reflect.Type) []Field                                              // nil: those of the yaml tags
	Begin   func(n *yaml.Node, v reflect.Value, p Place)                              // before the fields of a struct
	After   func(parent reflect.Value, f reflect.StructField, k *yaml.Node, at Place) // after one of them
	Ignore  func(k *yaml.Node, at Place)                                              // takes a field that is not known, which is then no error

	Merge    bool // << brings in what the mapping does not have itself
	LastWins bool // of two equal keys; otherwise the second is an error
	Fold     bool // fields are known in any case
	ByType   bool // messages about a struct call it by its label, and not by its field
	KeyLines bool // a field's line is that of its key, and the path to a map's item is map["key"]
	Nulls    bool // a null has a line, too
}

// Place is where a value stands.
type Place struct {
	Path  string // "steps[2].create.count": the key in Decoder.Lines
	Name  string // "create.count", for messages
	Raw   bool   // nothing in the text is replaced
	Depth int

	quoted bool // keys stand in the path as map["key"]
}

// Field is the place of a field of the value.
func (p Place) Field(name string) Place {
	if p.Path == "" {
		p.Name = name // a field of the whole file
	} else {
		p.Name += "." + name
	}
	path := strings.TrimPrefix(p.Path+"."+name, ".")
	if p.quoted {
		path = p.Path + "[" + strconv.Quote(name) + "]"
	}
	p.Path, p.Depth, p.quoted = path, p.Depth+1, false
	return p
}

// Item is the place of an item of the list.
func (p Place) Item(i int) Place {
	p.Path, p.Depth = p.Path+"["+strconv.Itoa(i)+"]", p.Depth+1
	return p
}

// Field is one field of a struct that a file can set.
type Field struct {
	Name  string // in YAML
	Index int    // in the struct
	Raw   bool   // expr:"raw"
}

// Fields returns the fields of a struct that have yaml tags, in order.
func Fields(t reflect.Type) []Field {
	var out []Field
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		name, _, _ := strings.Cut(tag.Get("yaml"), ",")
		if name == "" || name == "-" {
			continue
		}
		out = append(out, Field{Name: name, Index: i, Raw: tag.Get("expr") == "raw"})
	}
	return out
}

// Names are the names of fields.
func Names(fields []Field) []string {
	var out []string
	for _, f := range fields {
		out = append(out, f.Name)
	}
	return out
}

// Decoder fills values.
type Decoder struct {
	Dialect
	Report   func(line int, at Place, text string) // takes a validation error
	Lines    map[string]int                        // of values, by path
	Budget   int                                   // values that may still be visited, each use of an alias counted
	MaxDepth int                                   // mappings and lists inside each other
}

func (d *Decoder) lineOf(n *yaml.Node) int {
	if d.Line == nil {
		return n.Line
	}
	return d.Line(n)
}

// reportText reports an error at the line of n about what stands in it.
func (d *Decoder) reportText(n *yaml.Node, p Place, text string, more ...string) {
	if text != "" {
		words := strings.NewReplacer(append([]string{"{name}", p.Name, "{value}", d.Show(n)}, more...)...)
		d.Report(d.lineOf(n), p, words.Replace(text))
	}
}

// Value decodes n into v.
func (d *Decoder) Value(n *yaml.Node, v reflect.Value, p Place) {
	n, ok := d.Enter(n, p)
	if !ok {
		return
	}
	null := n.ShortTag() == "!!null"
	if !null || d.Nulls {
		d.Lines[p.Path] = d.lineOf(n)
	}
	if null {
		return
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if d.Special != nil && d.Special(n, v, p) {
		return
	}
	if x, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		d.decodeText(n, x, p)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.decodeStruct(n, v, p)
	case reflect.Map:
		d.decodeMap(n, v, p)
	case reflect.Slice:
		d.decodeList(n, v, p)
	case reflect.Interface:
		if x := d.decodeAny(n, p); x != nil {
			v.Set(reflect.ValueOf(x))
		}
	default:
		d.Scalar(n, v, p)
	}
}

// Enter follows an alias and keeps the bounds on depth and on values visited.
func (d *Decoder) Enter(n *yaml.Node, p Place) (*yaml.Node, bool) {
	d.Budget--
	switch {
	case d.Budget == 0:
		d.reportText(n, Place{Name: p.Name}, d.TooMany)
		return n, false
	case d.Budget < 0:
		return n, false
	case p.Depth > d.MaxDepth:
		d.reportText(n, p, d.TooDeep)
		d.Budget = 0
		return n, false
	}
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n, true
}

// Pairs calls f for each key and value of a mapping, keys by their present names,
// and reports the keys that are not plain text or come twice. What a merge key
// brings comes last, and only where the mapping has no such key itself.
func (d *Decoder) Pairs(n *yaml.Node, p Place, f func(key string, k, v *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.reportText(n, p, d.NotMapping)
		return
	}
	d.visitPairs(n, p, map[string]*yaml.Node{}, false, f)
}

func (d *Decoder) visitPairs(n *yaml.Node, p Place, seen map[string]*yaml.Node, inherited bool, f func(key string, k, v *yaml.Node)) {
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		key := k.Value
		if d.Key != nil {
			key = d.Key(k, p)
		}
		sign := key
		if d.Fold {
			sign = strings.ToLower(key)
		}
		first, twice := seen[sign]
		switch {
		case k.ShortTag() == "!!merge" && d.Merge:
			merged = append(merged, v)
		case k.ShortTag() == "!!merge":
			d.reportText(k, p, d.NoMerge)
		case k.Kind != yaml.ScalarNode || k.ShortTag() == "!!null":
			d.reportText(k, p, d.NotName)
		case twice && inherited:
		case twice && !d.LastWins:
			d.reportTwice(k, first, p)
		default:
			seen[sign] = k
			f(key, k, v)
		}
	}
	for _, m := range merged {
		d.mergeKeys(m, p, seen, f)
	}
}

func (d *Decoder) reportTwice(k, first *yaml.Node, p Place) {
	if k.Value != first.Value {
		d.Report(d.lineOf(k), p, fmt.Sprintf("%q is what %q on line %d was called: one of them, please", k.Value, first.Value, d.lineOf(first)))
		return
	}
	at := p.Field(k.Value)
	at.Name = p.Name
	d.reportText(k, at, d.Twice, "{key}", strconv.Quote(k.Value), "{first}", d.whereIs(first))
}

func (d *Decoder) whereIs(n *yaml.Node) string {
	if d.Where == nil {
		return strconv.Itoa(d.lineOf(n))
	}
	return d.Where(d.lineOf(n))
}

// mergeKeys brings in the keys of a mapping, or of a list of them, that were not seen yet.
func (d *Decoder) mergeKeys(n *yaml.Node, p Place, seen map[string]*yaml.Node, f func(key string, k, v *yaml.Node)) {
	p.Depth++
	n, ok := d.Enter(n, p)
	switch {
	case !ok:
	case n.Kind == yaml.SequenceNode:
		for _, item := range n.Content {
			d.mergeKeys(item, p, seen, f)
		}
	case n.Kind == yaml.MappingNode:
		d.visitPairs(n, p, seen, true, f)
	default:
		d.reportText(n, p, d.NoMerge)
	}
}

// decodeStruct decodes a struct.
func (d *Decoder) decodeStruct(n *yaml.Node, v reflect.Value, p Place) {
	inside := p
	if d.Label != nil {
		inside.Name = d.Label(v.Type())
	}
	if d.ByType {
		p = inside
	}
	if d.Begin != nil {
		d.Begin(n, v, p)
	}
	fields := d.fieldsOf(v.Type())
	d.Pairs(n, p, func(key string, k, val *yaml.Node) {
		i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == key || d.Fold && strings.EqualFold(f.Name, key) })
		if i < 0 {
			d.UnknownField(k, inside, fields)
			return
		}
		at, to := inside.Field(fields[i].Name), v.Field(fields[i].Index)
		if at.Raw = fields[i].Raw; d.LastWins {
			to.SetZero()
		}
		d.Value(val, to, at)
		if d.KeyLines {
			d.Lines[at.Path] = d.lineOf(k)
		}
		if d.After != nil {
			d.After(v, v.Type().Field(fields[i].Index), k, at)
		}
	})
}

func (d *Decoder) fieldsOf(t reflect.Type) []Field {
	if d.Fields == nil {
		return Fields(t)
	}
	return d.Fields(t)
}

// UnknownField reports a field that the struct at a place does not have.
func (d *Decoder) UnknownField(k *yaml.Node, p Place, fields []Field) {
	at := p.Field(k.Value)
	if d.Ignore != nil {
		d.Ignore(k, at)
		return
	}
	at.Name = p.Name
	d.reportText(k, at, d.Unknown, "{key}", strconv.Quote(k.Value), "{near}", d.Near(k.Value, Names(fields)))
}

// decodeMap decodes a map, on top of what is in it.
func (d *Decoder) decodeMap(n *yaml.Node, v reflect.Value, p Place) {
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	p.quoted = d.KeyLines
	d.Pairs(n, p, func(key string, k, val *yaml.Node) {
		item, at := reflect.New(v.Type().Elem()).Elem(), p.Field(key)
		d.Value(val, item, at)
		if d.KeyLines {
			d.Lines[at.Path] = d.lineOf(k)
		}
		v.SetMapIndex(reflect.ValueOf(key), item)
	})
}

func (d *Decoder) decodeList(n *yaml.Node, v reflect.Value, p Place) {
	if n.Kind != yaml.SequenceNode {
		d.reportText(n, p, d.NotList)
		return
	}
	v.SetZero()
	for i, item := range n.Content {
		elem := reflect.New(v.Type().Elem()).Elem()
		if elem.Kind() == reflect.Struct && item.ShortTag() == "!!null" {
			d.reportText(item, p.Item(i), d.NoItem)
		}
		d.Value(item, elem, p.Item(i))
		v.Set(reflect.Append(v, elem))
	}
}

// decodeAny decodes a value of any shape, as template variables are.
func (d *Decoder) decodeAny(n *yaml.Node, p Place) any {
	switch n.Kind {
	case yaml.MappingNode:
		var m map[string]any
		d.decodeMap(n, reflect.ValueOf(&m).Elem(), p)
		return m
	case yaml.SequenceNode:
		var l []any
		d.decodeList(n, reflect.ValueOf(&l).Elem(), p)
		return append([]any{}, l...)
	}
	return d.Any(n, p)
}

// decodeText decodes a type with a notation of its own, such as a duration.
func (d *Decoder) decodeText(n *yaml.Node, to encoding.TextUnmarshaler, p Place) {
	if !d.Single(n, p) {
		return
	}
	s, ok := n.Value, true
	if d.Text != nil {
		s, ok = d.Text(n, p)
	}
	if ok {
		if err := to.UnmarshalText([]byte(s)); err != nil {
			d.reportText(n, p, d.BadText, "{error}", err.Error())
		}
	}
}

// Single reports a mapping or a list where one value is wanted.
func (d *Decoder) Single(n *yaml.Node, p Place) bool {
	if n.Kind != yaml.ScalarNode {
		d.reportText(n, p, d.NotSingle)
		return false
	}
	return true
}
