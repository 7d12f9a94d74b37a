package object

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Schema says how a Go type of the API is written in protobuf and in JSON, so
// that a message is read as the JSON of the same object would be.
type Schema struct {
	apiVersion, kind string // of a whole object: its message does not hold them
	fields           []field
	sorted           []int // fields by name
	byName           map[string]int
	byNumber         []int16 // of protobuf: index of the field and 1; 0 for none
	inlined          bool    // it has fields of inlined messages, which are not read
}

type form uint8

const (
	unread form = iota // its form is not known here: the whole object must be decoded
	textForm
	numberForm
	boolForm
	timeForm
	quantityForm
	messageForm
	textMapForm
	quantityMapForm
)

type field struct {
	name     string
	number   uint64
	form     form
	repeated bool
	omitted  bool // by JSON when it is empty
	pointer  bool
	message  *Schema
}

// NewSchema returns the schema of a kind whose Go type is T, such as corev1.Pod.
func NewSchema[T any](apiVersion, kind string) *Schema {
	return SchemaOf(reflect.TypeFor[T](), apiVersion, kind)
}

// SchemaOf is NewSchema for a type that is known as the program runs only.
func SchemaOf(t reflect.Type, apiVersion, kind string) *Schema {
	s := schemaOf(t, map[reflect.Type]*Schema{})
	s.apiVersion, s.kind = apiVersion, kind
	return s
}

func schemaOf(t reflect.Type, known map[reflect.Type]*Schema) *Schema {
	if s := known[t]; s != nil {
		return s
	}
	s := &Schema{byName: map[string]int{}}
	known[t] = s
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		tag := strings.Split(f.Tag.Get("protobuf"), ",")
		if len(tag) < 2 || name == "" {
			s.inlined = s.inlined || len(tag) >= 2
			continue
		}
		out := field{name: name, omitted: strings.Contains(options, "omitempty")}
		out.number, _ = strconv.ParseUint(tag[1], 10, 16)
		out.setType(f.Type, known)
		if f.Type.Kind() == reflect.Struct { // which omitempty never leaves out
			out.omitted = strings.Contains(options, "omitzero")
		}
		s.byName[name] = len(s.fields)
		for int(out.number) >= len(s.byNumber) {
			s.byNumber = append(s.byNumber, 0)
		}
		s.fields = append(s.fields, out)
		s.byNumber[out.number] = int16(len(s.fields))
	}
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		s.sorted = append(s.sorted, s.byName[name])
	}
	return s
}

func (f *field) setType(t reflect.Type, known map[reflect.Type]*Schema) {
	switch t.Kind() {
	case reflect.Slice:
		t, f.repeated = t.Elem(), true
	case reflect.Map:
		if t.Elem().Kind() == reflect.String {
			f.form = textMapForm
		} else if t.Elem() == reflect.TypeFor[resource.Quantity]() {
			f.form = quantityMapForm
		}
		return
	case reflect.Pointer:
		t, f.pointer = t.Elem(), true
	}
	f.form = formOf(t)
	if f.repeated && f.form != textForm && f.form != messageForm {
		f.form = unread
	}
	if f.form == messageForm {
		f.message = schemaOf(t, known)
	}
}

func formOf(t reflect.Type) form {
	switch t {
	case reflect.TypeFor[metav1.Time]():
		return timeForm
	case reflect.TypeFor[resource.Quantity]():
		return quantityForm
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
		return unread
	}
	switch t.Kind() {
	case reflect.String:
		return textForm
	case reflect.Int32, reflect.Int64:
		return numberForm
	case reflect.Bool:
		return boolForm
	case reflect.Struct:
		return messageForm
	}
	return unread
}

// Reads says that every value on the way of a path can be read. Lists are walked
// through.
func (s *Schema) Reads(path []string) bool {
	for i, name := range path {
		at, ok := s.byName[name]
		if !ok {
			return !s.inlined
		}
		switch f := &s.fields[at]; f.form {
		case unread:
			return false
		case messageForm:
			s = f.message
		default:
			return i >= len(path)-2
		}
	}
	return true
}

// Project appends the parts of a message that paths lead to, each whole.
func (s *Schema) Project(dst, raw []byte, paths [][]string) []byte {
	w := walk{rest: raw}
	for before := raw; w.nextField(); before = w.rest {
		if w.num >= uint64(len(s.byNumber)) || s.byNumber[w.num] == 0 {
			continue
		}
		f := &s.fields[s.byNumber[w.num]-1]
		below, whole := [][]string(nil), false
		for _, path := range paths {
			if len(path) > 0 && path[0] == f.name {
				below = append(below, path[1:])
				whole = whole || len(path) == 1
			}
		}
		switch {
		case len(below) == 0:
		case whole || f.form != messageForm || f.repeated:
			dst = append(dst, before[:len(before)-len(w.rest)]...)
		default:
			dst = AppendBytes(dst, int(w.num), f.message.Project(nil, w.data, below))
		}
	}
	return dst
}
