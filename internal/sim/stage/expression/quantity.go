package expression

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/api/resource"
)

// quantityType returns the type of quantities such as 500m or 2Gi.
func quantityType() *types.Type {
	return types.NewObjectType("quantity",
		traits.AdderType|traits.SubtractorType|traits.NegatorType|traits.MultiplierType|traits.DividerType|traits.ComparerType)
}

// quantity is a quantity in CEL.
type quantity struct{ q resource.Quantity }

func parseQuantity(s string) ref.Val {
	q, err := resource.ParseQuantity(s)
	if err != nil {
		return types.NewErr("%q is not a quantity such as 500m or 2Gi", s)
	}
	return quantity{q}
}

// quantityOf reads a JSON value as a quantity; 0 without one.
func quantityOf(v any) ref.Val {
	switch v := v.(type) {
	case string:
		return parseQuantity(v)
	case json.Number:
		return parseQuantity(v.String())
	}
	return quantity{}
}

func milliQuantity(f float64) ref.Val {
	return quantity{*resource.NewMilliQuantity(int64(f), resource.DecimalSI)}
}

// ConvertToNative returns the quantity as a float.
func (q quantity) ConvertToNative(t reflect.Type) (any, error) {
	if t.Kind() == reflect.Float64 || t.Kind() == reflect.Float32 {
		return reflect.ValueOf(q.q.AsApproximateFloat64()).Convert(t).Interface(), nil
	}
	return nil, fmt.Errorf("a quantity is no %v", t)
}

// ConvertToType returns the quantity as a double or text.
func (q quantity) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.DoubleType:
		return types.Double(q.q.AsApproximateFloat64())
	case types.StringType:
		return types.String(q.q.String())
	case types.TypeType:
		return quantityType()
	}
	return types.NewErr("a quantity is no %s", t)
}

// Equal compares with another quantity.
func (q quantity) Equal(other ref.Val) ref.Val {
	o, ok := other.(quantity)
	return types.Bool(ok && q.q.Cmp(o.q) == 0)
}

// Type returns the type of quantities.
func (q quantity) Type() ref.Type { return quantityType() }

// Value returns the quantity.
func (q quantity) Value() any { return q.q }

// Add adds a quantity.
func (q quantity) Add(other ref.Val) ref.Val {
	o, ok := other.(quantity)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	sum := q.q.DeepCopy()
	sum.Add(o.q)
	return quantity{sum}
}

// Subtract takes a quantity away.
func (q quantity) Subtract(other ref.Val) ref.Val {
	o, ok := other.(quantity)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	rest := q.q.DeepCopy()
	rest.Sub(o.q)
	return quantity{rest}
}

// Negate returns the negative quantity.
func (q quantity) Negate() ref.Val {
	out := q.q.DeepCopy()
	out.Neg()
	return quantity{out}
}

// Multiply multiplies by a number.
func (q quantity) Multiply(other ref.Val) ref.Val {
	f, ok := toFactor(other)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	return milliQuantity(float64(q.q.MilliValue()) * f)
}

// Divide divides by a number that is not 0.
func (q quantity) Divide(other ref.Val) ref.Val {
	f, ok := toFactor(other)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	if f == 0 {
		return types.NewErr("division by zero")
	}
	return milliQuantity(float64(q.q.MilliValue()) / f)
}

// Compare returns -1, 0 or 1.
func (q quantity) Compare(other ref.Val) ref.Val {
	o, ok := other.(quantity)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	return types.Int(q.q.Cmp(o.q))
}

func toFactor(v ref.Val) (float64, bool) {
	switch v := v.(type) {
	case types.Int:
		return float64(v), true
	case types.Uint:
		return float64(v), true
	case types.Double:
		return float64(v), true
	}
	return 0, false
}
