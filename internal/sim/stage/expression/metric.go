package expression

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	corev1 "k8s.io/api/core/v1"
)

// Usage says what is used at the moment of one reading, in the units of the
// resource: cores, bytes. Whoever evaluates a formula gives one.
type Usage interface {
	// Pod returns what a pod's container uses, or all of its containers when
	// container is empty; cumulative: what it has used up to now, in unit-seconds.
	Pod(pod *corev1.Pod, container, resource string, cumulative bool) (float64, error)
	// Node returns what the pods on a node use together.
	Node(node *corev1.Node, resource string, cumulative bool) (float64, error)
	// Started returns how many containers were ever started on a node.
	Started(node string) (float64, error)
}

// Subject is what a formula is about: a node, and a pod on it and one of its
// containers where the formula may speak of them. The others are nil: a formula
// that names them fails.
type Subject struct {
	Node      *corev1.Node
	Pod       *corev1.Pod
	Container *corev1.Container
}

// Formulas compiles the expressions of kwok's Metric and ResourceUsage: CEL over
// node, pod and container, with the functions of Language and
//
//	pod.Usage(resource), pod.Usage(resource, container), node.Usage(resource)
//	pod.CumulativeUsage(...), node.CumulativeUsage(resource)
//	StartedContainersTotal(node), also as a method, of a node or its name
//
// It may be used by many goroutines.
type Formulas struct{ env *cel.Env }

const (
	usageName   = "@usage"
	usageFn     = "@used"
	totalFn     = "@total"
	startedFn   = "@started"
	startedName = "StartedContainersTotal"
)

// NewFormulas returns the language of metrics.
func NewFormulas() (*Formulas, error) {
	options := append(momentOptions(),
		cel.Variable("node", cel.DynType), cel.Variable("pod", cel.DynType), cel.Variable("container", cel.DynType),
		cel.Variable(usageName, cel.DynType),
	)
	for name, fn := range map[string]string{"Usage": usageFn, "CumulativeUsage": totalFn} {
		options = append(options, usageFunction(name, fn)...)
	}
	// The second name is what the first was before.
	for _, name := range []string{startedName, "startedContainersTotal"} {
		options = append(options, cel.Macros(cel.GlobalMacro(name, 1, usageMacro(startedFn)), cel.ReceiverMacro(name, 0, usageMacro(startedFn))))
	}
	options = append(options, cel.Function(startedFn,
		cel.Overload("started", []*cel.Type{cel.DynType, cel.DynType}, cel.DoubleType, cel.BinaryBinding(startedFunction))))
	env, err := cel.NewEnv(options...)
	if err != nil {
		return nil, fmt.Errorf("build the language of metrics: %w", err)
	}
	return &Formulas{env}, nil
}

// usageFunction declares a method with one argument or two.
func usageFunction(name, fn string) []cel.EnvOption {
	three := []*cel.Type{cel.DynType, cel.DynType, cel.DynType}
	binding := cel.FunctionBinding(used(fn == totalFn))
	return []cel.EnvOption{
		cel.Macros(cel.ReceiverMacro(name, 1, usageMacro(fn)), cel.ReceiverMacro(name, 2, usageMacro(fn))),
		cel.Function(fn, cel.Overload(fn+"_1", three, cel.DoubleType, binding),
			cel.Overload(fn+"_2", append(three, cel.DynType), cel.DoubleType, binding)),
	}
}

// usageMacro rewrites x.f(a) and f(x, a) to fn(usage, x, a).
func usageMacro(fn string) cel.MacroFactory {
	return func(f cel.MacroExprFactory, target ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
		all := []ast.Expr{f.NewIdent(usageName)}
		if target != nil && target.Kind() != ast.UnspecifiedExprKind {
			all = append(all, target)
		}
		return f.NewCall(fn, append(all, args...)...), nil
	}
}

// used carries out Usage and CumulativeUsage.
func used(cumulative bool) func(...ref.Val) ref.Val {
	return func(args ...ref.Val) ref.Val {
		u := args[0].(*usage).u
		names := []string{"", ""}
		for i, v := range args[2:] {
			s, ok := v.(types.String)
			if !ok {
				return types.MaybeNoSuchOverloadErr(v)
			}
			names[i] = string(s)
		}
		var n float64
		var err error
		switch of := args[1].Value().(type) {
		case corev1.Pod:
			n, err = u.Pod(&of, names[1], names[0], cumulative)
		case corev1.Node:
			if names[1] != "" {
				return types.NewErr("a node's usage wants one argument: the resource")
			}
			n, err = u.Node(&of, names[0], cumulative)
		default:
			return types.NewErr("usage is of a pod or a node, not of a %s", args[1].Type())
		}
		if err != nil {
			return types.WrapErr(err)
		}
		return types.Double(n)
	}
}

func startedFunction(asked, of ref.Val) ref.Val {
	name, ok := of.Value().(string)
	if node, is := of.Value().(corev1.Node); is {
		name, ok = node.Name, true
	}
	if !ok {
		return types.NewErr("%s is of a node or its name, not of a %s", startedName, of.Type())
	}
	n, err := asked.(*usage).u.Started(name)
	if err != nil {
		return types.WrapErr(err)
	}
	return types.Double(n)
}

// Formula is a compiled expression of a metric. It may be used by many
// goroutines.
type Formula struct {
	program cel.Program
}

// Compile compiles an expression.
func (l *Formulas) Compile(src string) (*Formula, error) {
	program, err := compileProgram(l.env, src, false)
	if err != nil {
		return nil, err
	}
	return &Formula{program: program}, nil
}

// Try evaluates the formula on empty objects, of which the subject says which
// there are, and returns an error that it would give on any: a field that no
// such object has, or an object that is not there.
func (f *Formula) Try(s Subject) error {
	_, err := f.evalFormula(s, nothing{}, Moment{})
	var field *noFieldError
	if errors.As(err, &field) || errors.Is(err, errAbsent) {
		return err
	}
	return nil
}

// Number evaluates a formula that gives a number: a quantity in its unit, true
// as 1, a duration in nanoseconds.
func (f *Formula) Number(s Subject, u Usage, m Moment) (float64, error) {
	v, err := f.evalFormula(s, u, m)
	if err != nil {
		return 0, err
	}
	switch v := v.(type) {
	case types.Int:
		return float64(v), nil
	case types.Uint:
		return float64(v), nil
	case types.Double:
		return float64(v), nil
	case types.Duration:
		return float64(v.Duration), nil
	case quantity:
		return v.q.AsApproximateFloat64(), nil
	case types.Bool:
		if v {
			return 1, nil
		}
		return 0, nil
	}
	return 0, fmt.Errorf("cel: gives %s, want a number", v.Type())
}

// Text evaluates a formula that gives a text: a label's value.
func (f *Formula) Text(s Subject, u Usage, m Moment) (string, error) {
	v, err := f.evalFormula(s, u, m)
	if err != nil {
		return "", err
	}
	text, ok := v.(types.String)
	if !ok {
		return "", fmt.Errorf("cel: gives %s, want a string", v.Type())
	}
	return string(text), nil
}

func (f *Formula) evalFormula(s Subject, u Usage, m Moment) (ref.Val, error) {
	v, _, err := f.program.Eval(&reading{moment: activation{moment: m}, subject: s, usage: u})
	if err != nil {
		return nil, fmt.Errorf("cel: %w", err)
	}
	return v, nil
}

// reading answers for the variables of one evaluation.
type reading struct {
	moment  activation
	subject Subject
	usage   Usage
}

var errAbsent = errors.New("has no value here")

// ResolveName returns a variable's value.
func (r *reading) ResolveName(name string) (any, bool) {
	switch name {
	case "node":
		return presentOrAbsent(name, r.subject.Node), true
	case "pod":
		return presentOrAbsent(name, r.subject.Pod), true
	case "container":
		return presentOrAbsent(name, r.subject.Container), true
	case usageName:
		return &usage{u: r.usage}, true
	}
	return r.moment.ResolveName(name)
}

func presentOrAbsent[T any](name string, v *T) ref.Val {
	if v == nil {
		return types.WrapErr(fmt.Errorf("%s %w: mind the metric's dimension", name, errAbsent))
	}
	return &goStruct{reflect.ValueOf(v).Elem()}
}

// Parent returns nil: there are no outer variables.
func (r *reading) Parent() cel.Activation { return nil }

// usage carries a Usage through CEL, which only hands it on.
type usage struct {
	types.Null
	u Usage
}

// Type says that nothing is known of it.
func (*usage) Type() ref.Type { return types.NewOpaqueType("usage") }

// nothing is the usage of empty objects.
type nothing struct{}

func (nothing) Pod(*corev1.Pod, string, string, bool) (float64, error) { return 0, nil }
func (nothing) Node(*corev1.Node, string, bool) (float64, error)       { return 0, nil }
func (nothing) Started(string) (float64, error)                        { return 0, nil }
