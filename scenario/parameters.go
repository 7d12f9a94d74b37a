package scenario

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/unit"
)

// Parameters are the defaults of a scenario's parameters: bool, int64, float64
// or string. A default's type is the parameter's type.
type Parameters map[string]any

// Settings writes parameter values as --set would give them, so that Parse
// with them yields the same values again. Numbers may have become float64 on
// the way, as they do in JSON.
func Settings(values map[string]any) map[string]string {
	out := make(map[string]string, len(values))
	for name, v := range values {
		out[name] = formatValue(v)
	}
	return out
}

// decodeParameters reads the section of that name: before everything else, in order,
// so that a default may be an expression over the parameters above it.
func (d *decoder) decodeParameters(root *yaml.Node, set map[string]string) {
	if root.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(root.Content); i += 2 {
			if n := root.Content[i+1]; root.Content[i].Value == "parameters" && n.ShortTag() != "!!null" {
				set = d.setRenamed(n, set)
				d.decodeDefaults(n, set)
				break // a second one is reported as a duplicate
			}
		}
	}
	d.reportUnknown(set)
}

// reportUnknown reports the parameters that are set and not there. A manifest of others may
// set any number of them, and a name that is near is looked for among all.
func (d *decoder) reportUnknown(set map[string]string) {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(set)), func(name string) bool { _, ok := d.vars.values[name]; return ok })
	for i, name := range names {
		if i == maxProblems-1 {
			d.add(0, "--set: %s are not found", unit.Count(len(names)-i, "more parameters"))
			return
		}
		d.add(0, "--set %s=%s: parameter %q not found in %s%s%s", name, clipText(set[name]), name, d.file, suggestName(name, d.vars.order), listKnown(d.vars.order))
	}
}

// listKnown lists the parameters that there are.
func listKnown(names []string) string {
	if len(names) == 0 {
		return ": it has none; --set plane.FIELD=VALUE sets a field of plane"
	}
	if more := len(names) - maxProblems; more > 0 {
		return fmt.Sprintf("; it has %s and %d more", strings.Join(names[:maxProblems], ", "), more)
	}
	return "; it has " + joinWords(names)
}

func (d *decoder) decodeDefaults(n *yaml.Node, set map[string]string) {
	at := place{Path: "parameters", Name: "parameters"}
	n, ok := d.Enter(n, at)
	if !ok {
		return
	}
	d.Pairs(n, at, func(name string, k, v *yaml.Node) {
		to := at.Field(name)
		v, ok := d.Enter(v, to)
		if !ok {
			return
		}
		x, ok := d.resolveScalar(v, to)
		switch text, given := set[name]; {
		case !parameterName.MatchString(name) || slices.Contains(reservedWords(), name):
			d.add(k.Line, "parameters: %q cannot be a parameter's name (letters, digits and _; not round, nor a word of CEL)", name)
		case !ok:
			d.vars.setParameter(name, "") // named, so that its uses are no further problems
		case tooLarge(x.value):
			d.add(v.Line, "parameters.%s: %s is too large for a whole number", name, x)
			d.vars.setParameter(name, "")
		case x.value == nil:
			d.add(v.Line, "parameters.%s: a default is needed: it says the parameter's type", name)
			d.vars.setParameter(name, "")
		default:
			d.vars.defaults[name] = x.value
			d.vars.setParameter(name, x.value)
			if given {
				d.overrideParameter(name, text, x.value)
			}
		}
	})
}

func tooLarge(v any) bool { _, ok := v.(uint64); return ok }

var parameterName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// reservedWords are the words that CEL keeps for itself, and the one of repeats.
func reservedWords() []string {
	return []string{"in", "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "let",
		"loop", "package", "namespace", "null", "return", "true", "var", "void", "while", roundVariable}
}

// overrideParameter sets a parameter from --set, as the type of its default.
func (d *decoder) overrideParameter(name, text string, def any) {
	x, want, err := any(text), "", error(nil)
	switch def.(type) {
	case bool:
		x, err = strconv.ParseBool(text)
		want = "true or false"
	case int64, float64:
		x, err = parseNumber(text, def)
		want = "a number"
	}
	if err != nil {
		d.add(0, "--set %s=%s: %q is not %s, as parameter %q (default %s) wants", name, clipText(text), clipText(text), want, name, formatValue(def))
		return
	}
	d.vars.setParameter(name, x)
}

// parseNumber reads a number, a whole one as such where the default is one: 3000, also
// as 3e3, as which it may have been recorded. A fraction is a number, too: where whole
// ones are wanted the field says so. One with a unit stays a text, which the field
// where it is used reads: only that knows what it is a number of.
func parseNumber(text string, def any) (any, error) {
	_, whole := def.(int64)
	if i, err := strconv.ParseInt(text, 10, 64); err == nil && whole {
		return i, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	switch _, number := asFloat(f); {
	case err != nil && unit.HasUnit(text):
		return text, nil
	case err != nil:
		return nil, err
	case !number:
		return nil, strconv.ErrRange
	case whole && f == math.Trunc(f) && math.Abs(f) <= 1<<53:
		return int64(f), nil
	case whole && f == math.Trunc(f):
		return nil, strconv.ErrRange
	}
	return f, nil
}
