package expression

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// typeOf returns the Go type behind a kind whose absent fields have values.
func typeOf(apiVersion, kind string) reflect.Type {
	switch apiVersion + " " + kind {
	case "v1 Pod":
		return reflect.TypeFor[corev1.Pod]()
	case "v1 Node":
		return reflect.TypeFor[corev1.Node]()
	}
	return nil
}

// adapter shows JSON trees to CEL.
type adapter struct {
	root reflect.Type // nil: objects are plain maps
}

// NativeToValue shows a Go value to CEL.
func (a *adapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case ref.Val:
		return v
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return types.Int(n)
		}
		f, err := v.Float64()
		if err != nil {
			return types.WrapErr(err)
		}
		return types.Double(f)
	case map[string]any:
		return types.NewStringInterfaceMap(a, v)
	case []any:
		return types.NewDynamicList(a, v)
	}
	return types.DefaultTypeAdapter.NativeToValue(v)
}

func (a *adapter) objectValue(m map[string]any) ref.Val {
	if a.root == nil {
		return a.NativeToValue(m)
	}
	return a.typedValue(m, a.root)
}

// typedValue shows a JSON value as the Go type that it would be decoded into.
func (a *adapter) typedValue(v any, t reflect.Type) ref.Val {
	for t.Kind() == reflect.Pointer {
		if t = t.Elem(); v == nil && t != reflect.TypeFor[metav1.Time]() {
			return types.NullValue
		}
	}
	switch t {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		text, _ := v.(string)
		at, _ := time.Parse(time.RFC3339Nano, text)
		return types.Timestamp{Time: at}
	case reflect.TypeFor[resource.Quantity]():
		return quantityOf(v)
	case reflect.TypeFor[intstr.IntOrString]():
		if v != nil {
			return a.NativeToValue(v)
		}
		return types.Int(0)
	}
	switch t.Kind() {
	case reflect.Struct:
		m, _ := v.(map[string]any)
		return &structure{fields: m, t: t, a: a}
	case reflect.Map:
		m, _ := v.(map[string]any)
		out := make(map[ref.Val]ref.Val, len(m))
		for key, item := range m {
			out[types.String(key)] = a.typedValue(item, t.Elem())
		}
		return types.NewRefValMap(a, out)
	case reflect.Slice:
		items, _ := v.([]any)
		out := make([]ref.Val, len(items))
		for i, item := range items {
			out[i] = a.typedValue(item, t.Elem())
		}
		return types.NewRefValList(a, out)
	}
	if v == nil {
		return a.NativeToValue(reflect.Zero(t).Convert(builtinType(t)).Interface())
	}
	return a.NativeToValue(v)
}

// builtinType returns the built-in type below a named one, such as string.
func builtinType(t reflect.Type) reflect.Type {
	switch t.Kind() {
	case reflect.String:
		return reflect.TypeFor[string]()
	case reflect.Bool:
		return reflect.TypeFor[bool]()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return reflect.TypeFor[int64]()
	case reflect.Float32, reflect.Float64:
		return reflect.TypeFor[float64]()
	}
	return t
}

// structure is a struct: it has every field of its type, and knows which of
// them were sent.
type structure struct {
	fields map[string]any
	t      reflect.Type
	a      *adapter
}

// Get returns a field, or its zero value.
func (s *structure) Get(key ref.Val) ref.Val {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key)
	}
	t := fieldType(s.t, string(name))
	if t == nil {
		return types.NewErr("no such field: %s", string(name))
	}
	return s.a.typedValue(s.fields[string(name)], t)
}

// IsSet says whether a field was sent: has(self.x) asks it.
func (s *structure) IsSet(key ref.Val) ref.Val {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key)
	}
	v, ok := s.fields[string(name)]
	return types.Bool(ok && v != nil)
}

// ConvertToNative returns the fields.
func (s *structure) ConvertToNative(t reflect.Type) (any, error) {
	return s.a.NativeToValue(s.fields).ConvertToNative(t)
}

// ConvertToType knows only the type itself.
func (s *structure) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return s.Type().(ref.Val)
	}
	return types.NewErr("%s is no %s", s.t.Name(), t)
}

// Equal compares the fields that were sent.
func (s *structure) Equal(other ref.Val) ref.Val {
	o, ok := other.(*structure)
	return types.Bool(ok && reflect.DeepEqual(s.fields, o.fields))
}

// Type returns the type of structs.
func (s *structure) Type() ref.Type {
	return types.NewObjectType("windtunnel."+s.t.Name(), traits.FieldTesterType|traits.IndexerType)
}

// Value returns the fields.
func (s *structure) Value() any { return s.fields }

// fieldType finds a struct's field by its JSON name.
func fieldType(t reflect.Type, name string) reflect.Type {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, inline := jsonName(f)
		if tag == name {
			return f.Type
		}
		if inline {
			if inner := fieldType(f.Type, name); inner != nil {
				return inner
			}
		}
	}
	return nil
}

// jsonName returns a field's name in JSON, or says that its own fields stand in
// its place.
func jsonName(f reflect.StructField) (name string, inline bool) {
	name, _, _ = strings.Cut(f.Tag.Get("json"), ",")
	return name, name == "" && f.Anonymous && f.Type.Kind() == reflect.Struct
}

// sinceCreation returns the seconds since an object was created.
func sinceCreation(object, now ref.Val) ref.Val {
	created := propertyOf(propertyOf(object, "metadata"), "creationTimestamp")
	if types.IsError(created) {
		return types.NewErr("SinceSecond: the object has no metadata.creationTimestamp")
	}
	at, ok := created.ConvertToType(types.TimestampType).(types.Timestamp)
	if !ok {
		return types.NewErr("SinceSecond: metadata.creationTimestamp is no time")
	}
	return types.Double(now.(types.Timestamp).Sub(at.Time).Seconds())
}

func propertyOf(v ref.Val, name string) ref.Val {
	indexer, ok := v.(traits.Indexer)
	if !ok {
		return types.MaybeNoSuchOverloadErr(v)
	}
	return indexer.Get(types.String(name))
}
