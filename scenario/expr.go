package scenario

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
)

// Limits of expressions. There are no loops in them, so that the length bounds
// the work; the cost limit is a second bound.
const (
	maxExpression  = 2000    // characters
	maxCost        = 100_000 // CEL cost units
	maxText        = 64 << 10
	maxExpressions = 10_000 // different ones in a file
)

// roundVariable is the number of a repeat's round in the expressions inside it.
const roundVariable = "round"

// variables are the parameters in force and the expressions over them.
type variables struct {
	defaults Parameters
	values   map[string]any
	order    []string
	outside  expressions
	inside   expressions    // of a repeat: with ${round}
	inputs   map[string]any // of the round under way; nil outside of repeats
}

// expressions are those compiled so far.
type expressions struct {
	env      *cel.Env // nil when a parameter was added since
	programs map[string]cel.Program
	results  map[string]any // kept where they cannot change
}

func newExpressions() expressions {
	return expressions{programs: map[string]cel.Program{}, results: map[string]any{}}
}

func newVariables() *variables {
	return &variables{defaults: Parameters{}, values: map[string]any{}, outside: newExpressions(), inside: newExpressions()}
}

// setParameter declares a parameter, or changes it.
func (v *variables) setParameter(name string, value any) {
	if _, ok := v.values[name]; !ok {
		v.order = append(v.order, name)
	}
	v.values[name] = value
	v.outside, v.inside = newExpressions(), newExpressions()
}

// enterRound begins a round of a repeat; -1 leaves the outermost one.
func (v *variables) enterRound(round int) {
	if v.inputs = nil; round >= 0 {
		v.inputs = maps.Clone(v.values)
		v.inputs[roundVariable] = int64(round)
	}
}

// knownNames are the names that an expression may use here.
func (v *variables) knownNames() []string {
	if v.inputs == nil {
		return v.order
	}
	return append(slices.Clone(v.order), roundVariable)
}

// expandText replaces each ${expression} of a scalar. A scalar that is one
// expression and nothing else takes its value with its type.
func (v *variables) expandText(text string) (any, error) {
	parts, err := splitExpressions(text)
	if err != nil {
		return nil, err
	}
	if len(parts) == 1 && parts[0].expression {
		return v.evalExpression(parts[0].text)
	}
	var out strings.Builder
	for _, p := range parts {
		if !p.expression {
			out.WriteString(p.text)
			continue
		}
		x, err := v.evalExpression(p.text)
		if err != nil {
			return nil, err
		}
		out.WriteString(formatValue(x))
		if out.Len() > maxText {
			return nil, fmt.Errorf("a text of more than %d bytes", maxText)
		}
	}
	return out.String(), nil
}

// part is a piece of a scalar: literal text or the inside of ${...}.
type part struct {
	text       string
	expression bool
}

// splitExpressions cuts a scalar at its ${...}; $${ stands for a literal ${.
func splitExpressions(text string) ([]part, error) {
	var parts []part
	var literal strings.Builder
	for i := 0; i < len(text); {
		switch rest := text[i:]; {
		case strings.HasPrefix(rest, "$${"):
			literal.WriteString("${")
			i += 3
		case strings.HasPrefix(rest, "${"):
			end := expressionEnd(rest[2:])
			if end < 0 {
				return nil, fmt.Errorf("%q has no closing brace", clipText(rest))
			}
			if literal.Len() > 0 {
				parts = append(parts, part{text: literal.String()})
				literal.Reset()
			}
			parts = append(parts, part{strings.TrimSpace(rest[2 : 2+end]), true})
			i += 2 + end + 1
		default:
			literal.WriteByte(text[i])
			i++
		}
	}
	if literal.Len() > 0 {
		parts = append(parts, part{text: literal.String()})
	}
	return parts, nil
}

// expressionEnd returns the index of the brace that closes an expression, -1
// when there is none. Braces inside strings and maps do not count.
func expressionEnd(s string) int {
	depth, quote := 0, byte(0)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '{':
			depth++
		case c == '}' && depth == 0:
			return i
		case c == '}':
			depth--
		}
	}
	return -1
}

// evalExpression returns an expression's value: bool, int64, float64 or string.
func (v *variables) evalExpression(expr string) (any, error) {
	if v.inputs != nil {
		x, err := v.runExpression(&v.inside, expr, v.inputs)
		return x, inExpression(expr, err)
	}
	if x, ok := v.outside.results[expr]; ok {
		return x, nil
	}
	x, err := v.runExpression(&v.outside, expr, v.values)
	if err == nil {
		v.outside.results[expr] = x
	}
	return x, inExpression(expr, err)
}

func inExpression(expr string, err error) error {
	if err != nil {
		return fmt.Errorf("${%s}: %w", clipText(expr), err)
	}
	return nil
}

func (v *variables) runExpression(e *expressions, expr string, inputs map[string]any) (any, error) {
	program, err := v.compileOnce(e, expr, inputs)
	if err != nil {
		return nil, err
	}
	out, _, err := program.Eval(inputs)
	if err != nil {
		return nil, err
	}
	return nativeValue(out)
}

// compileOnce compiles an expression, once.
func (v *variables) compileOnce(e *expressions, expr string, inputs map[string]any) (cel.Program, error) {
	if p, ok := e.programs[expr]; ok {
		return p, nil
	}
	switch {
	case len(e.programs) >= maxExpressions:
		return nil, fmt.Errorf("more than %d different expressions", maxExpressions)
	case expr == "":
		return nil, errors.New("the expression is empty")
	case !utf8.ValidString(expr):
		return nil, errors.New("the expression is not UTF-8")
	}
	if e.env == nil {
		env, err := newEnv(v.knownNames(), inputs)
		if err != nil {
			return nil, err
		}
		e.env = env
	}
	ast, issues := e.env.Compile(expr)
	if issues != nil && issues.Err() != nil {
		return nil, v.explainIssues(issues)
	}
	p, err := e.env.Program(ast, cel.CostLimit(maxCost))
	if err == nil {
		e.programs[expr] = p
	}
	return p, err
}

// nativeValue turns a CEL value into one that a scenario can hold.
func nativeValue(out ref.Val) (any, error) {
	switch x := out.Value().(type) {
	case bool, int64:
		return x, nil
	case uint64:
		if x > math.MaxInt64 {
			return nil, errors.New("the result is too large")
		}
		return int64(x), nil
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("the result is %v, not a number", x)
		}
		return x, nil
	case string:
		if len(x) > maxText {
			return nil, fmt.Errorf("a text of more than %d bytes", maxText)
		}
		return x, nil
	case time.Duration:
		return x.String(), nil
	}
	return nil, fmt.Errorf("the result is a %s; a number, a text, true or false is wanted", out.Type().TypeName())
}

// explainIssues puts the first of CEL's complaints in the words of a scenario.
func (v *variables) explainIssues(issues *cel.Issues) error {
	text := issues.Errors()[0].Message
	if m := regexp.MustCompile(`^undeclared reference to '([^']*)'`).FindStringSubmatch(text); m != nil {
		if m[1] == roundVariable {
			return fmt.Errorf("%q is known inside a repeat only", m[1])
		}
		known := append(slices.Clone(v.knownNames()), functionNames()...)
		return fmt.Errorf("%q is no parameter and no function%s", m[1], suggestName(m[1], known))
	}
	if m := regexp.MustCompile(`^found no matching overload for '(.*)' applied to '(.*)'$`).FindStringSubmatch(text); m != nil {
		return fmt.Errorf("%s cannot be applied to %s", strings.Trim(m[1], "_"), m[2])
	}
	if m := regexp.MustCompile(`^Syntax error: (.*?)( expecting .*)?$`).FindStringSubmatch(text); m != nil {
		return fmt.Errorf("not an expression: %s", strings.ReplaceAll(m[1], "'<EOF>'", "end"))
	}
	return errors.New(text)
}

// formatValue writes a scalar as text: what an expression inside a text becomes.
func formatValue(v any) string {
	switch x := v.(type) {
	case nil:
		return ""
	case string:
		return x
	case float64:
		if math.Abs(x) < 1e21 {
			return strconv.FormatFloat(x, 'f', -1, 64)
		}
		return strconv.FormatFloat(x, 'g', -1, 64)
	default:
		return fmt.Sprint(x)
	}
}
