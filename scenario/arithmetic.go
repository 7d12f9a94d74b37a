package scenario

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/env"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// newEnv makes the CEL environment of a file: its parameters, and arithmetic
// in which numbers are numbers. CEL by itself refuses 2 * 1.5 and gives 3 for
// 100 / 30; here whole and other numbers mix, and / divides exactly. There are
// no macros, therefore no loops.
func newEnv(order []string, values map[string]any) (*cel.Env, error) {
	replaced := env.NewLibrarySubset().SetDisableMacros(true)
	for _, name := range []string{"_+_", "_-_", "_*_", "_/_", "_%_", "-_", "_==_", "_!=_"} {
		replaced.AddExcludedFunctions(env.NewFunction(name))
	}
	opts := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(replaced)),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ParserRecursionLimit(50),
	}
	opts = append(opts, declareEquality("_==_"), declareEquality("_!=_"), declareSplit())
	for _, op := range arithmeticOperators() {
		opts = append(opts, op.declareOverloads())
	}
	for _, name := range order {
		opts = append(opts, cel.Variable(name, celType(values[name])))
	}
	return cel.NewCustomEnv(opts...)
}

// declareEquality declares which types may be compared; CEL itself does it, and well
// for 1 and 1.0, but its declaration wants both sides of one type.
func declareEquality(name string) cel.EnvOption {
	pairs := [][2]*cel.Type{
		{cel.BoolType, cel.BoolType}, {cel.StringType, cel.StringType}, {cel.IntType, cel.IntType},
		{cel.DoubleType, cel.DoubleType}, {cel.IntType, cel.DoubleType}, {cel.DoubleType, cel.IntType},
	}
	var overloads []cel.FunctionOpt
	for _, p := range pairs {
		id := "wt" + name + "_" + p[0].String() + "_" + p[1].String()
		overloads = append(overloads, cel.Overload(id, p[:], cel.BoolType))
	}
	return cel.Function(name, overloads...)
}

func celType(v any) *cel.Type {
	switch v.(type) {
	case bool:
		return cel.BoolType
	case int64:
		return cel.IntType
	case float64:
		return cel.DoubleType
	default:
		return cel.StringType
	}
}

// operator is one function of two numbers, or of one.
type operator struct {
	name     string
	onInts   func(a, b int64) (int64, error) // nil: whole numbers are taken as floats
	onFloats func(a, b float64) float64      // nil: whole numbers only
	unary    bool
	round    bool // the result of float is made whole
	text     bool // also joins texts
}

// arithmeticOperators are those of the language, in the order of the documentation.
func arithmeticOperators() []operator {
	return []operator{
		{name: "_+_", onInts: addWhole, onFloats: func(a, b float64) float64 { return a + b }, text: true},
		{name: "_-_", onInts: subWhole, onFloats: func(a, b float64) float64 { return a - b }},
		{name: "_*_", onInts: mulWhole, onFloats: func(a, b float64) float64 { return a * b }},
		{name: "_/_", onFloats: func(a, b float64) float64 { return a / b }},
		{name: "_%_", onInts: remWhole, onFloats: math.Mod},
		{name: "-_", unary: true, onInts: func(a, _ int64) (int64, error) { return subWhole(0, a) }, onFloats: func(a, _ float64) float64 { return -a }},
		{name: "min", onInts: func(a, b int64) (int64, error) { return min(a, b), nil }, onFloats: math.Min},
		{name: "max", onInts: func(a, b int64) (int64, error) { return max(a, b), nil }, onFloats: math.Max},
		{name: "abs", unary: true, onInts: absWhole, onFloats: func(a, _ float64) float64 { return math.Abs(a) }},
		{name: "ceil", unary: true, round: true, onFloats: func(a, _ float64) float64 { return math.Ceil(a) }},
		{name: "floor", unary: true, round: true, onFloats: func(a, _ float64) float64 { return math.Floor(a) }},
		{name: "round", unary: true, round: true, onFloats: func(a, _ float64) float64 { return math.Round(a) }},
	}
}

// functionNames are the functions that have names, for hints.
func functionNames() []string {
	return []string{"min", "max", "abs", "ceil", "floor", "round", "split"}
}

// declareSplit declares the function of that name of CEL's extensions: one parameter
// may then stand for a pair, as in limiter.split("/")[0]. The others of its
// family can make texts longer without bound and stay out.
func declareSplit() cel.EnvOption {
	return cel.Function("split", cel.MemberOverload("string_split_string",
		[]*cel.Type{cel.StringType, cel.StringType}, cel.ListType(cel.StringType),
		cel.BinaryBinding(func(text, by ref.Val) ref.Val {
			return types.DefaultTypeAdapter.NativeToValue(strings.Split(string(text.(types.String)), string(by.(types.String))))
		})))
}

// declareOverloads makes the operator's overloads: each mixture of int and double.
func (op operator) declareOverloads() cel.EnvOption {
	numbers := []*cel.Type{cel.IntType, cel.DoubleType}
	var overloads []cel.FunctionOpt
	for _, a := range numbers {
		if op.unary {
			overloads = append(overloads, op.declareOverload(a))
			continue
		}
		for _, b := range numbers {
			overloads = append(overloads, op.declareOverload(a, b))
		}
		if op.name == "min" || op.name == "max" {
			overloads = append(overloads, op.declareTernary(a)...)
		}
	}
	if op.text {
		overloads = append(overloads, cel.Overload("text"+op.name, []*cel.Type{cel.StringType, cel.StringType}, cel.StringType,
			cel.BinaryBinding(func(a, b ref.Val) ref.Val { return a.(types.String).Add(b) })))
	}
	return cel.Function(op.name, overloads...)
}

// declareTernary are those of min and max with three numbers, the first of type a.
func (op operator) declareTernary(a *cel.Type) []cel.FunctionOpt {
	var out []cel.FunctionOpt
	for _, b := range []*cel.Type{cel.IntType, cel.DoubleType} {
		for _, c := range []*cel.Type{cel.IntType, cel.DoubleType} {
			out = append(out, op.declareOverload(a, b, c))
		}
	}
	return out
}

// declareOverload declares the operator for some types of its arguments.
func (op operator) declareOverload(args ...*cel.Type) cel.FunctionOpt {
	id, allWhole := "wt"+op.name, true
	for _, a := range args {
		id += "_" + a.String()
		allWhole = allWhole && a == cel.IntType
	}
	result := cel.DoubleType
	if op.round || allWhole && op.onInts != nil {
		result = cel.IntType
	}
	binding := cel.FunctionBinding(func(vals ...ref.Val) ref.Val {
		out := vals[0]
		if op.unary {
			return op.applyOperator(out, out)
		}
		for _, v := range vals[1:] {
			out = op.applyOperator(out, v)
		}
		if result == cel.DoubleType {
			return out.ConvertToType(types.DoubleType)
		}
		return out
	})
	return cel.Overload(id, args, result, binding)
}

// applyOperator computes one step; an error is a CEL value and ends the evaluation.
func (op operator) applyOperator(a, b ref.Val) ref.Val {
	x, wholeA := a.Value().(int64)
	y, wholeB := b.Value().(int64)
	if op.onInts != nil && wholeA && wholeB {
		out, err := op.onInts(x, y)
		if err != nil {
			return types.WrapErr(err)
		}
		return types.Int(out)
	}
	f, okA := asFloat(a.Value())
	g, okB := asFloat(b.Value())
	if !okA || !okB {
		return types.NewErr("%v and %v cannot be computed with", a.Value(), b.Value())
	}
	if g == 0 && (op.name == "_/_" || op.name == "_%_") {
		return types.WrapErr(errDivision)
	}
	out := op.onFloats(f, g)
	if !op.round {
		return types.Double(out)
	}
	if math.Abs(out) > 1<<53 {
		return types.NewErr("%v is too large for a whole number", out)
	}
	return types.Int(int64(out))
}

var (
	errDivision = errors.New("division by zero")
	errOverflow = errors.New("the result is too large for a whole number")
)

func addWhole(a, b int64) (int64, error) {
	if s := a + b; (s > a) == (b > 0) {
		return s, nil
	}
	return 0, errOverflow
}

func subWhole(a, b int64) (int64, error) {
	if s := a - b; (s < a) == (b > 0) {
		return s, nil
	}
	return 0, errOverflow
}

func mulWhole(a, b int64) (int64, error) {
	if a == 0 || b == 0 {
		return 0, nil
	}
	p := a * b
	if p/b != a || a == -1 && b == math.MinInt64 || b == -1 && a == math.MinInt64 {
		return 0, errOverflow
	}
	return p, nil
}

func remWhole(a, b int64) (int64, error) {
	switch b {
	case 0:
		return 0, errDivision
	case -1:
		return 0, nil
	}
	return a % b, nil
}

func absWhole(a, _ int64) (int64, error) {
	if a == math.MinInt64 {
		return 0, fmt.Errorf("abs: %w", errOverflow)
	}
	return max(a, -a), nil
}
