package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	"k8s.io/client-go/util/jsonpath"
)

// Condition tells of one object whether it is as it should be. It is compiled
// from the text of Wait.Condition or Phase.When: a CEL expression over self, or
// a JSON path as kubectl wait takes it. It is safe for concurrent use.
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
	program, err := overObject(text, cel.BoolType, "true or false")
	if err != nil {
		return nil, err
	}
	return &Condition{program: program}, nil
}

// overObject compiles CEL over an object, whose names are self and object.
func overObject(text string, want *cel.Type, words string) (cel.Program, error) {
	env, err := cel.NewEnv(cel.Variable("self", cel.DynType), cel.Variable("object", cel.DynType), cel.CrossTypeNumericComparisons(true), ext.Strings(),
		cel.ParserExpressionSizeLimit(maxExpression), cel.ParserRecursionLimit(50))
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(text)
	if issues != nil && issues.Err() != nil {
		return nil, (&variables{order: []string{"self", "object"}}).explainIssues(issues)
	}
	if out := ast.OutputType(); !out.IsExactType(want) && !out.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("the result is a %s; %s is wanted", out, words)
	}
	return env.Program(ast, cel.CostLimit(maxConditionCost))
}

// evaluateCondition gives the value of an expression over an object; nil where a field
// of it is not there.
func evaluateCondition(program cel.Program, object any) (ref.Val, error) {
	out, _, err := program.Eval(map[string]any{"self": object, "object": object})
	if err == nil {
		return out, nil
	}
	if text := err.Error(); strings.HasPrefix(text, "no such key") || strings.HasPrefix(text, "no such attribute") || strings.HasPrefix(text, "index out of bounds") {
		return nil, nil
	}
	return nil, err
}

func parsePath(text string) (*Condition, error) {
	end := strings.LastIndex(text, "}") // values have no braces, filters may
	if end < 0 {
		return nil, fmt.Errorf("%q has no closing brace", clipText(text))
	}
	c := &Condition{path: text[:end+1]}
	if rest := text[end+1:]; rest != "" {
		value, ok := strings.CutPrefix(rest, "=")
		if !ok || value == "" {
			return nil, fmt.Errorf("%q after the path is not =VALUE", clipText(rest))
		}
		c.want, c.equal = strings.Trim(value, `"'`), true
	}
	_, err := c.newPathParser()
	return c, err
}

// newPathParser returns a parser of the path; one is for one goroutine.
func (c *Condition) newPathParser() (*jsonpath.JSONPath, error) {
	p := jsonpath.New("condition").AllowMissingKeys(true)
	if err := p.Parse(c.path); err != nil {
		return nil, fmt.Errorf("not a JSON path: %s", clipText(strings.TrimPrefix(err.Error(), "unrecognized ")))
	}
	return p, nil
}

// Holds evaluates the condition over an object in JSON. A field that is not
// there yet means no, not an error. The errors are of objects that are not
// JSON and of conditions that cannot be applied to the object's values.
func (c *Condition) Holds(object []byte) (bool, error) {
	self, err := DecodeObject(object)
	if err != nil {
		return false, fmt.Errorf("condition: the object is not JSON: %w", err)
	}
	return c.HoldsOf(self)
}

// HoldsOf is Holds of an object that DecodeObject has read.
func (c *Condition) HoldsOf(self any) (bool, error) {
	if c.path != "" {
		return c.pathHolds(self)
	}
	out, err := evaluateCondition(c.program, self)
	if err != nil {
		return false, fmt.Errorf("condition: %w", err)
	}
	if out == nil {
		return false, nil
	}
	holds, ok := out.Value().(bool)
	if !ok {
		return false, fmt.Errorf("condition: the result is a %s; true or false is wanted", out.Type().TypeName())
	}
	return holds, nil
}

func (c *Condition) pathHolds(self any) (bool, error) {
	p, err := c.newPathParser()
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

// Key tells of one object what it has in common with those that belong to it.
// It is compiled from the texts of Link.Key and Link.To, CEL over self. It is
// safe for concurrent use.
type Key struct{ program cel.Program }

// ParseKey compiles a key.
func ParseKey(text string) (*Key, error) {
	program, err := overObject(text, cel.StringType, "a text")
	if err != nil {
		return nil, err
	}
	return &Key{program}, nil
}

// Of returns the key of an object that DecodeObject has read; empty where a
// field of it is not there. The errors are of expressions that cannot be
// applied to the object's values.
func (k *Key) Of(object any) (string, error) {
	out, err := evaluateCondition(k.program, object)
	if err != nil {
		return "", fmt.Errorf("key: %w", err)
	}
	if out == nil {
		return "", nil
	}
	text, ok := out.Value().(string)
	if !ok {
		return "", fmt.Errorf("key: the result is a %s; a text is wanted", out.Type().TypeName())
	}
	return text, nil
}

// DecodeObject reads an object's JSON with whole numbers as int64, as CEL wants
// them.
func DecodeObject(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return normalizeNumbers(v), nil
}

func normalizeNumbers(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k := range x {
			x[k] = normalizeNumbers(x[k])
		}
	case []any:
		for i := range x {
			x[i] = normalizeNumbers(x[i])
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
