package expression

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
)

// Language compiles CEL expressions over one kind of object, named self in
// them. It may be used by many goroutines.
//
// Besides CEL's own functions there are Now(), Rand(), SinceSecond(object),
// UnixSecond(time) and Quantity(text); those that take an argument may also be
// written as its method. Usage and CumulativeUsage belong to Formulas.
type Language struct {
	env     *cel.Env
	adapter *adapter
}

// The names that Now() and Rand() stand for inside of compiled expressions.
const (
	nowName  = "@now"
	randName = "@rand"
	sinceFn  = "@since"
)

// NewLanguage returns the language for objects of an API version and kind:
// absent fields of a v1 Pod or Node have their zero value, as in a typed
// object; absent fields of any other are an error.
func NewLanguage(apiVersion, kind string) (*Language, error) {
	a := &adapter{root: typeOf(apiVersion, kind)}
	options := append(momentOptions(), cel.CustomTypeAdapter(a), cel.Variable("self", cel.DynType))
	env, err := cel.NewEnv(options...)
	if err != nil {
		return nil, fmt.Errorf("build the language CEL: %w", err)
	}
	return &Language{env: env, adapter: a}, nil
}

// momentOptions are what every language has.
func momentOptions() []cel.EnvOption {
	return []cel.EnvOption{
		cel.Variable(nowName, cel.TimestampType), cel.Variable(randName, cel.DoubleType),
		cel.Macros(cel.StandardMacros...),
		cel.Macros(
			cel.GlobalMacro("Now", 0, standsFor(nowName)),
			cel.GlobalMacro("Rand", 0, standsFor(randName)),
			cel.GlobalMacro("SinceSecond", 1, expandSince), cel.ReceiverMacro("SinceSecond", 0, expandSince),
		),
		cel.Function(sinceFn, cel.Overload("since_object", []*cel.Type{cel.DynType, cel.TimestampType}, cel.DoubleType,
			cel.BinaryBinding(sinceCreation))),
		cel.Function("UnixSecond", unixOverload("unix_second", cel.Overload), unixOverload("unix_second_method", cel.MemberOverload)),
		cel.Function("Quantity", quantityOverload("quantity", cel.Overload), quantityOverload("quantity_method", cel.MemberOverload)),
		ext.Strings(),
	}
}

func standsFor(name string) cel.MacroFactory {
	return func(f cel.MacroExprFactory, _ ast.Expr, _ []ast.Expr) (ast.Expr, *cel.Error) {
		return f.NewIdent(name), nil
	}
}

func expandSince(f cel.MacroExprFactory, target ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
	if len(args) == 1 {
		target = args[0]
	}
	return f.NewCall(sinceFn, target, f.NewIdent(nowName)), nil
}

type overload func(string, []*cel.Type, *cel.Type, ...cel.OverloadOpt) cel.FunctionOpt

func unixOverload(name string, f overload) cel.FunctionOpt {
	return f(name, []*cel.Type{cel.TimestampType}, cel.DoubleType, cel.UnaryBinding(func(v ref.Val) ref.Val {
		return types.Double(float64(v.(types.Timestamp).UnixNano()) / 1e9)
	}))
}

func quantityOverload(name string, f overload) cel.FunctionOpt {
	return f(name, []*cel.Type{cel.StringType}, cel.DynType, cel.UnaryBinding(func(v ref.Val) ref.Val {
		return parseQuantity(string(v.(types.String)))
	}))
}

// Program is a compiled CEL expression. It may be used by many goroutines.
type Program struct {
	program cel.Program
	adapter *adapter
	Source  string
}

// maxCost bounds the work of one evaluation, in CEL's own units.
const maxCost = 10_000_000

// Compile compiles an expression. With want it must give a boolean, or what is
// only known when it is evaluated.
func (l *Language) Compile(src string, boolean bool) (*Program, error) {
	program, err := compileProgram(l.env, src, boolean)
	if err != nil {
		return nil, err
	}
	return &Program{program: program, adapter: l.adapter, Source: src}, nil
}

func compileProgram(env *cel.Env, src string, boolean bool) (cel.Program, error) {
	tree, issues := env.Compile(src)
	if issues.Err() != nil {
		return nil, fmt.Errorf("cel: %s", firstIssue(issues))
	}
	if t := tree.OutputType(); boolean && !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("cel: gives %s, want true or false", t)
	}
	program, err := env.Program(tree, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost))
	if err != nil {
		return nil, fmt.Errorf("cel: %w", err)
	}
	return program, nil
}

// firstIssue writes a compiler's first complaint in one line.
func firstIssue(issues *cel.Issues) string {
	e := issues.Errors()[0]
	return fmt.Sprintf("%s (column %d)", e.Message, e.Location.Column()+1)
}

// Moment is what an expression knows besides the object.
type Moment struct {
	Now  time.Time
	Rand *rand.Rand // nil gives 0
}

// activation answers for the variables of one evaluation.
type activation struct {
	self   ref.Val
	moment Moment
}

// ResolveName returns a variable's value.
func (a *activation) ResolveName(name string) (any, bool) {
	switch name {
	case "self":
		return a.self, true
	case nowName:
		return types.Timestamp{Time: a.moment.Now}, true
	case randName:
		if a.moment.Rand == nil {
			return types.Double(0), true
		}
		return types.Double(a.moment.Rand.Float64()), true
	}
	return nil, false
}

// Parent returns nil: there are no outer variables.
func (a *activation) Parent() cel.Activation { return nil }

// Eval evaluates the expression.
func (p *Program) Eval(object map[string]any, m Moment) (ref.Val, error) {
	v, _, err := p.program.Eval(&activation{self: p.adapter.objectValue(object), moment: m})
	if err != nil {
		return nil, fmt.Errorf("cel: %w", err)
	}
	return v, nil
}

// Bool evaluates an expression that must give a boolean.
func (p *Program) Bool(object map[string]any, m Moment) (bool, error) {
	v, err := p.Eval(object, m)
	if err != nil {
		return false, err
	}
	b, ok := v.(types.Bool)
	if !ok {
		return false, fmt.Errorf("cel: gives %s, want true or false", v.Type())
	}
	return bool(b), nil
}

// Duration evaluates an expression that gives a duration, a text such as 1.5s,
// a time (its distance from now), or a number of nanoseconds.
func (p *Program) Duration(object map[string]any, m Moment) (time.Duration, error) {
	v, err := p.Eval(object, m)
	if err != nil {
		return 0, err
	}
	switch v := v.(type) {
	case types.String:
		d, err := ParseDelay(string(v), m.Now)
		if err != nil {
			return 0, fmt.Errorf("cel: %w", err)
		}
		return d, nil
	case types.Timestamp:
		return v.Sub(m.Now), nil
	case types.Duration:
		return v.Duration, nil
	case types.Int:
		return time.Duration(v), nil
	case types.Uint:
		return time.Duration(v), nil
	case types.Double:
		return time.Duration(v), nil
	}
	return 0, fmt.Errorf("cel: gives %s, want a duration", v.Type())
}

// Int evaluates an expression that gives a number.
func (p *Program) Int(object map[string]any, m Moment) (int64, error) {
	v, err := p.Eval(object, m)
	if err != nil {
		return 0, err
	}
	switch v := v.(type) {
	case types.Int:
		return int64(v), nil
	case types.Uint:
		return int64(v), nil
	case types.Double:
		return int64(v), nil
	case types.Duration:
		return int64(v.Duration), nil
	case types.Bool:
		if v {
			return 1, nil
		}
		return 0, nil
	}
	return 0, fmt.Errorf("cel: gives %s, want a number", v.Type())
}

var errDelay = errors.New("neither a time such as 2026-01-02T15:04:05Z nor a duration such as 1.5s")

// ParseDelay reads a time, which it returns as its distance from now, or a
// duration.
func ParseDelay(s string, now time.Time) (time.Duration, error) {
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t.Sub(now), nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q: %w", s, errDelay)
	}
	return d, nil
}
