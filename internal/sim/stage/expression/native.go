package expression

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// nativeValue shows a value of a typed object, such as a *corev1.Pod, to CEL without
// making a tree of it. It gives what adapter.typedValue gives for the same object's
// tree.
func nativeValue(v reflect.Value) ref.Val {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			if v.Type().Elem() == reflect.TypeFor[metav1.Time]() {
				return types.Timestamp{}
			}
			return types.NullValue
		}
		v = v.Elem()
	}
	switch known := v.Interface().(type) {
	case metav1.Time:
		return types.Timestamp{Time: known.Time}
	case metav1.MicroTime:
		return types.Timestamp{Time: known.Time}
	case metav1.Duration:
		return types.Duration{Duration: known.Duration}
	case resource.Quantity:
		return quantity{known}
	case intstr.IntOrString:
		if known.Type == intstr.Int {
			return types.Int(known.IntVal)
		}
		return types.String(known.StrVal)
	}
	switch v.Kind() {
	case reflect.Struct:
		return &goStruct{v}
	case reflect.Map:
		out := make(map[ref.Val]ref.Val, v.Len())
		for i := v.MapRange(); i.Next(); {
			out[nativeValue(i.Key())] = nativeValue(i.Value())
		}
		return types.NewRefValMap(types.DefaultTypeAdapter, out)
	case reflect.Slice:
		out := make([]ref.Val, v.Len())
		for i := range out {
			out[i] = nativeValue(v.Index(i))
		}
		return types.NewRefValList(types.DefaultTypeAdapter, out)
	}
	return types.DefaultTypeAdapter.NativeToValue(v.Convert(builtinType(v.Type())).Interface())
}

// goStruct is a struct whose fields have the names that they have in JSON.
type goStruct struct{ v reflect.Value }

// noFieldError says that a type has no field of a name, in whatever object.
type noFieldError struct{ kind, field string }

func (e *noFieldError) Error() string {
	return fmt.Sprintf("no such field in a %s: %s", e.kind, e.field)
}

// Get returns a field.
func (r *goStruct) Get(key ref.Val) ref.Val {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key)
	}
	if f := fieldOf(r.v, string(name)); f.IsValid() {
		return nativeValue(f)
	}
	return types.WrapErr(&noFieldError{r.v.Type().Name(), string(name)})
}

// IsSet says whether a field has another value than its zero: has(pod.x) asks it.
func (r *goStruct) IsSet(key ref.Val) ref.Val {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key)
	}
	f := fieldOf(r.v, string(name))
	if !f.IsValid() {
		return types.WrapErr(&noFieldError{r.v.Type().Name(), string(name)})
	}
	return types.Bool(!f.IsZero())
}

// fieldOf finds a field by its JSON name.
func fieldOf(v reflect.Value, name string) reflect.Value {
	t := v.Type()
	for i := range t.NumField() {
		tag, inline := jsonName(t.Field(i))
		if tag == name {
			return v.Field(i)
		}
		if inline {
			if inner := fieldOf(v.Field(i), name); inner.IsValid() {
				return inner
			}
		}
	}
	return reflect.Value{}
}

// ConvertToNative gives the struct to Go.
func (r *goStruct) ConvertToNative(t reflect.Type) (any, error) {
	if r.v.Type().AssignableTo(t) {
		return r.v.Interface(), nil
	}
	return nil, fmt.Errorf("a %s is no %v", r.v.Type().Name(), t)
}

// ConvertToType knows only the type itself.
func (r *goStruct) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return r.Type().(ref.Val)
	}
	return types.NewErr("a %s is no %s", r.v.Type().Name(), t)
}

// Equal compares all fields.
func (r *goStruct) Equal(other ref.Val) ref.Val {
	o, ok := other.(*goStruct)
	return types.Bool(ok && reflect.DeepEqual(r.v.Interface(), o.v.Interface()))
}

// Type returns the type of structs.
func (r *goStruct) Type() ref.Type {
	return types.NewObjectType("windtunnel."+r.v.Type().Name(), traits.FieldTesterType|traits.IndexerType)
}

// Value returns the struct.
func (r *goStruct) Value() any { return r.v.Interface() }
