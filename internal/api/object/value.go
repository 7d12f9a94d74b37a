package object

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
)

// Kind is what a value is.
type Kind uint8

// The kinds of values.
const (
	Missing Kind = iota // a field that is not there
	Null
	String
	Number // as it stands in JSON
	Bool
	Object
	Array
	Native  // what a function made that JSON has no word for
	Unknown // a field whose form in protobuf is not known here
)

// Value is a part of an object: of a decoded tree of JSON (map[string]any,
// []any, string, bool, nil and json.Number), or of a document. Both give the same
// answers. The zero value is missing.
type Value struct {
	Kind    Kind
	entries bool     // it is a map of the message's field n
	n       int64    // of a document: number, field, or where a text stands
	text    string   // of a tree's string or number
	message *Message // of a document; nil of trees
	tree    any      // of a tree's object or list, and what is native
}

// Of returns a tree as a value.
func Of(tree any) Value {
	switch v := tree.(type) {
	case nil:
		return Value{Kind: Null}
	case string:
		return Value{Kind: String, text: v}
	case json.Number:
		return Value{Kind: Number, text: string(v)}
	case bool:
		out := Value{Kind: Bool}
		if v {
			out.n = 1
		}
		return out
	case map[string]any:
		return Value{Kind: Object, tree: v}
	case []any:
		return Value{Kind: Array, tree: v}
	case Value:
		return v
	case *[]Value:
		return Value{Kind: Array, tree: v}
	}
	return Value{Kind: Native, tree: tree}
}

// Text returns a string as a value.
func Text(s string) Value { return Value{Kind: String, text: s} }

// Name is a field's name. It remembers where it found the field last.
type Name struct {
	text  string
	found atomic.Pointer[foundField]
}

type foundField struct {
	schema *Schema
	at     int // -1: it has none of that name
}

// NewName returns a name.
func NewName(text string) *Name { return &Name{text: text} }

// Text returns the name.
func (n *Name) Text() string { return n.text }

func (n *Name) indexIn(s *Schema) int {
	if f := n.found.Load(); f != nil && f.schema == s {
		return f.at
	}
	at, ok := s.byName[n.text]
	if !ok {
		at = -1
	}
	n.found.Store(&foundField{s, at})
	return at
}

// Field returns a field of an object; missing of anything else.
func (v Value) Field(name *Name) Value {
	switch {
	case v.Kind != Object:
	case v.entries:
		return v.mapEntry(name.text)
	case v.message != nil:
		s := v.message.schema
		if at := name.indexIn(s); at >= 0 {
			return v.message.fieldAt(at)
		}
		return s.implicitValue(name.text)
	default:
		if item, ok := v.tree.(map[string]any)[name.text]; ok {
			return Of(item)
		}
	}
	return Value{}
}

// implicitValue returns what a message does not hold as a field.
func (s *Schema) implicitValue(name string) Value {
	switch {
	case s.kind != "" && name == "kind":
		return Text(s.kind)
	case s.kind != "" && name == "apiVersion":
		return Text(s.apiVersion)
	case s.inlined:
		return Value{Kind: Unknown}
	}
	return Value{}
}

// Get is Field for a name that is used once.
func (v Value) Get(name string) Value { return v.Field(&Name{text: name}) }

func (v Value) mapEntry(key string) (out Value) {
	v.eachElement(func(data []byte) bool {
		if k, value := splitEntry(data); string(k) == key {
			out = v.entryValue(value)
		}
		return true
	})
	return out
}

func (v Value) entryValue(value []byte) Value {
	if v.message.schema.fields[v.n].form == quantityMapForm {
		value = Field(value, 1)
	}
	return Text(string(value))
}

// eachElement calls f with the content of every element of a repeated field.
func (v Value) eachElement(f func(data []byte) bool) {
	m := v.message
	number := m.schema.fields[v.n].number
	for w := (walk{rest: m.raw[m.spans[v.n].from:]}); w.nextField(); {
		if w.num == number && !f(w.data) {
			return
		}
	}
}

// Items calls f with every element of a list, or every value of an object in the
// order of the keys, until it returns false.
func (v Value) Items(f func(Value) bool) {
	if v.Kind == Object {
		v.Entries(func(_ string, item Value) bool { return f(item) })
		return
	}
	switch items := v.tree.(type) {
	case []any:
		for _, item := range items {
			if !f(Of(item)) {
				return
			}
		}
	case *[]Value:
		for _, item := range *items {
			if !f(item) {
				return
			}
		}
	case nil:
		v.messageItems(f)
	}
}

func (v Value) messageItems(f func(Value) bool) {
	switch {
	case v.Kind != Array || v.message == nil:
	case v.message.schema.fields[v.n].message == nil:
		v.eachElement(func(data []byte) bool { return f(Text(string(data))) })
	default:
		for m := v.message.firstElement(v.n); m != nil && f(Value{Kind: Object, message: m}); {
			m = m.next
		}
	}
}

// Entries calls f with every field of an object in the order of the names, until
// it returns false.
func (v Value) Entries(f func(name string, item Value) bool) {
	tree, _ := v.tree.(map[string]any)
	switch {
	case v.Kind != Object:
		return
	case v.entries:
		whole, _ := v.objectTree()
		tree, _ = whole.(map[string]any)
	case v.message != nil:
		s := v.message.schema
		for _, at := range s.sorted {
			if item := v.message.fieldAt(at); item.Kind != Missing && !f(s.fields[at].name, item) {
				return
			}
		}
		return
	}
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		if !f(name, Of(tree[name])) {
			return
		}
	}
}

// Empty says that a value is missing, null, false, or of no length.
func (v Value) Empty() bool {
	empty := true
	switch {
	case v.Kind <= Null:
	case v.Kind == Bool:
		return v.n == 0
	case v.Kind == String && v.message != nil:
		return v.n>>32 == v.n&(1<<32-1)
	case v.Kind == String:
		return v.text == ""
	case v.Kind == Object && v.message == nil:
		return len(v.tree.(map[string]any)) == 0
	case v.Kind == Object && !v.entries && v.message.schema.inlined:
		return false
	case v.Kind == Object || v.Kind == Array:
		v.Items(func(Value) bool {
			empty = false
			return false
		})
	default:
		return false
	}
	return empty
}

// Len returns the number of elements of a list or object.
func (v Value) Len() (n int) {
	switch items := v.tree.(type) {
	case []any:
		return len(items)
	case *[]Value:
		return len(*items)
	case map[string]any:
		return len(items)
	}
	v.Items(func(Value) bool {
		n++
		return true
	})
	return n
}

// Native returns what a native value is; nil of others.
func (v Value) Native() any {
	if v.Kind == Native {
		return v.tree
	}
	return nil
}

// True says whether a bool is true.
func (v Value) True() bool { return v.Kind == Bool && v.n != 0 }

// documentText returns a document's text.
func (v Value) documentText() []byte { return v.message.raw[v.n>>32 : v.n&(1<<32-1)] }

// Is says whether a string is s.
func (v Value) Is(s string) bool {
	switch {
	case v.Kind != String:
		return false
	case v.message != nil:
		return string(v.documentText()) == s
	}
	return v.text == s
}

// String returns the text of a string or number, true or false; empty of others.
func (v Value) String() string {
	switch {
	case v.Kind == String && v.message != nil:
		return string(v.documentText())
	case v.Kind == Number && v.text == "":
		return strconv.FormatInt(v.n, 10)
	case v.Kind == Bool:
		return strconv.FormatBool(v.n != 0)
	}
	return v.text
}

// Append appends what String returns.
func (v Value) Append(dst []byte) []byte {
	switch {
	case v.Kind == String && v.message != nil:
		return append(dst, v.documentText()...)
	case v.Kind == Number && v.text == "":
		return strconv.AppendInt(dst, v.n, 10)
	case v.Kind == Bool:
		return strconv.AppendBool(dst, v.n != 0)
	}
	return append(dst, v.text...)
}

// Tree returns the value as a tree; not ok where that is not known.
func (v Value) Tree() (tree any, ok bool) {
	switch v.Kind {
	case Missing, Null:
		return nil, true
	case String:
		return v.String(), true
	case Number:
		return json.Number(v.String()), true
	case Bool:
		return v.n != 0, true
	case Unknown:
		return nil, false
	}
	_, values := v.tree.(*[]Value)
	switch {
	case v.message == nil && !values:
		return v.tree, true
	case v.Kind == Array:
		return v.listTree()
	}
	return v.objectTree()
}

func (v Value) listTree() (any, bool) {
	out, ok := []any{}, true
	v.Items(func(item Value) bool {
		tree, known := item.Tree()
		out, ok = append(out, tree), ok && known
		return ok
	})
	return out, ok
}

func (v Value) objectTree() (any, bool) {
	out := map[string]any{}
	if v.entries {
		v.eachElement(func(data []byte) bool {
			key, value := splitEntry(data)
			out[string(key)] = v.entryValue(value).String()
			return true
		})
		return out, true
	}
	s := v.message.schema
	if s.inlined {
		return nil, false
	}
	for i := range s.fields {
		item := v.message.fieldAt(i)
		if item.Kind == Missing {
			continue
		}
		tree, ok := item.Tree()
		if !ok {
			return nil, false
		}
		out[s.fields[i].name] = tree
	}
	if s.kind != "" {
		out["kind"], out["apiVersion"] = s.kind, s.apiVersion
	}
	return out, true
}
