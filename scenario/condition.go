package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	"k8s.io/client-go/util/jsonpath"
)

// Condition tells of one object whether it is as it should be. It is compiled
// from the text of Wait.Condition: a CEL expression over self, or a JSON path
// as kubectl wait takes it. It is safe for concurrent use.
type Condition struct {
	program cel.Program
	path    string // JSON path with braces; empty for CEL
	want    string
	equal   bool // the path's value is to be want; else it is enough that there is one
}

// maxConditionCost bounds one evaluation, in CEL's units: a condition may go
// through an object's lists, but not for ever.
const maxConditionCost = 1_000_000

// ParseCondition compiles a condition. A text that begins with a brace is a
// JSON path, {PATH} or {PATH}=VALUE; any other is CEL.
func ParseCondition(text string) (*Condition, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, errors.New("the condition is empty")
	}
	if strings.HasPrefix(text, "{") {
		return parsePath(text)
	}
	env, err := cel.NewEnv(cel.Variable("self", cel.DynType), cel.CrossTypeNumericComparisons(true), ext.Strings(),
		cel.ParserExpressionSizeLimit(maxExpression), cel.ParserRecursionLimit(50))
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(text)
	if issues != nil && issues.Err() != nil {
		return nil, (&variables{order: []string{"self"}}).explain(issues)
	}
	if out := ast.OutputType(); !out.IsExactType(cel.BoolType) && !out.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("the result is a %s; true or false is wanted", out)
	}
	program, err := env.Program(ast, cel.CostLimit(maxConditionCost))
	if err != nil {
		return nil, err
	}
	return &Condition{program: program}, nil
}

func parsePath(text string) (*Condition, error) {
	end := strings.LastIndex(text, "}") // values have no braces, filters may
	if end < 0 {
		return nil, fmt.Errorf("%q has no closing brace", clip(text))
	}
	c := &Condition{path: text[:end+1]}
	if rest := text[end+1:]; rest != "" {
		value, ok := strings.CutPrefix(rest, "=")
		if !ok || value == "" {
			return nil, fmt.Errorf("%q after the path is not =VALUE", clip(rest))
		}
		c.want, c.equal = strings.Trim(value, `"'`), true
	}
	_, err := c.parser()
	return c, err
}

// parser returns a parser of the path; one is for one goroutine.
func (c *Condition) parser() (*jsonpath.JSONPath, error) {
	p := jsonpath.New("condition").AllowMissingKeys(true)
	if err := p.Parse(c.path); err != nil {
		return nil, fmt.Errorf("not a JSON path: %s", clip(strings.TrimPrefix(err.Error(), "unrecognized ")))
	}
	return p, nil
}

// Holds evaluates the condition over an object in JSON. A field that is not
// there yet means no, not an error. The errors are of objects that are not
// JSON and of conditions that cannot be applied to the object's values.
func (c *Condition) Holds(object []byte) (bool, error) {
	self, err := decodeObject(object)
	if err != nil {
		return false, fmt.Errorf("condition: the object is not JSON: %w", err)
	}
	if c.path != "" {
		return c.pathHolds(self)
	}
	out, _, err := c.program.Eval(map[string]any{"self": self})
	if err != nil {
		if text := err.Error(); strings.HasPrefix(text, "no such key") || strings.HasPrefix(text, "no such attribute") || strings.HasPrefix(text, "index out of bounds") {
			return false, nil
		}
		return false, fmt.Errorf("condition: %w", err)
	}
	holds, ok := out.Value().(bool)
	if !ok {
		return false, fmt.Errorf("condition: the result is a %s; true or false is wanted", out.Type().TypeName())
	}
	return holds, nil
}

func (c *Condition) pathHolds(self any) (bool, error) {
	p, err := c.parser()
	if err != nil {
		return false, err
	}
	found, err := p.FindResults(self)
	if err != nil {
		if strings.Contains(err.Error(), "out of bounds") {
			return false, nil
		}
		return false, fmt.Errorf("condition: %w", err)
	}
	for _, set := range found {
		for _, v := range set {
			if v.IsValid() && (!c.equal || strings.TrimSpace(fmt.Sprint(v.Interface())) == c.want) {
				return true, nil
			}
		}
	}
	return false, nil
}

// decodeObject reads JSON with whole numbers as int64, as CEL wants them.
func decodeObject(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return numbers(v), nil
}

func numbers(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k := range x {
			x[k] = numbers(x[k])
		}
	case []any:
		for i := range x {
			x[i] = numbers(x[i])
		}
	case json.Number:
		if i, err := x.Int64(); err == nil {
			return i
		}
		f, err := x.Float64()
		if err != nil {
			return math.Inf(1)
		}
		return f
	}
	return v
}
