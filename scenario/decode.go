package scenario

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/text/strictyaml"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// decoder fills the types of scenario.go from YAML nodes. It knows expressions,
// repeats and former words, which package strictyaml does not.
type decoder struct {
	*strictyaml.Decoder
	*problems
	vars   *variables
	rounds *round // the repeats around here, the innermost first; nil outside
	steps  int    // made by repeats so far

	texts map[string]string // of numbers whose unit is known later, by path

	warnings []string // FILE:LINE: TEXT
}

func newDecoder(f *problems) *decoder {
	d := &decoder{problems: f, vars: newVariables(), texts: map[string]string{}}
	d.Decoder = &strictyaml.Decoder{
		Lines: map[string]int{}, Budget: maxValues, MaxDepth: maxDepth,
		Report: func(line int, _ strictyaml.Place, text string) { f.add(line, "%s", text) },
		Dialect: strictyaml.Dialect{
			NotMapping: "{name}: {value} is not a mapping of names to values",
			NotList:    "{name}: {value} is not a list",
			NoItem:     noItem,
			NotSingle:  "{name}: {value} where one value was expected",
			NotName:    "{name}: {value} is not a name",
			NoMerge:    "{name}: merge keys (<<) are not part of the language",
			Unknown:    "field {key} not found in {name}{near}",
			Twice:      "field {key} stands twice in {name} (first on {first})",
			TooMany:    fmt.Sprintf("more than %d values, aliases counted at each use", maxValues),
			TooDeep:    fmt.Sprintf("{name}: more than %d levels deep", maxDepth),
			BadText:    "{name}: {error}",
			ByType:     true,
			Where:      d.lineName,
			Show:       nodeShape, Near: text.DidYouMean, Label: typeLabel, Key: d.renamedKey, Begin: setDefaultsAndLine,
			Text: d.decodeText, Scalar: d.decodeScalar, Special: d.decodeSpecial,
			Any: func(n *yaml.Node, at place) any { x, _ := d.resolveScalar(n, at); return x.value },
		},
	}
	return d
}

const noItem = "{name}: an item of the list is empty"

// isEmptyItem reports an item of a list that is nothing.
func (d *decoder) isEmptyItem(item *yaml.Node, at place) bool {
	empty := item.ShortTag() == "!!null"
	if empty {
		d.add(item.Line, "%s", strings.ReplaceAll(noItem, "{name}", at.Name))
	}
	return empty
}

// lineName names a line in a message about another one.
func (d *decoder) lineName(line int) string {
	file, line := placeOf(d.file, line, d.fragments)
	if file == d.file {
		return fmt.Sprintf("line %d", line)
	}
	return fmt.Sprintf("line %d of %s", line, file)
}

// place is where a value stands.
type place = strictyaml.Place

// defaulter is a type with values that differ from zero where the file is silent.
type defaulter interface{ setDefaults() }

// setDefaultsAndLine sets what a structure has where the file is silent, and its line.
func setDefaultsAndLine(n *yaml.Node, v reflect.Value, _ place) {
	if x, ok := v.Addr().Interface().(defaulter); ok {
		x.setDefaults()
	}
	if line := v.FieldByName("Line"); line.IsValid() {
		line.SetInt(int64(n.Line))
	}
}

// decodeSpecial decodes what is more than its YAML: parameters, repeats and subjects alike.
func (d *decoder) decodeSpecial(n *yaml.Node, v reflect.Value, at place) bool {
	switch x := v.Addr().Interface().(type) {
	case *Parameters:
		*x = d.vars.defaults // read before everything else
	case *[]Step:
		d.stepList(n, x, at)
	case *[]Subject:
		d.subjectList(n, x, at)
	case *Holds:
		d.decodeHolds(n, x, at)
	case *Asked: // dropUnasked has read it
	default:
		return false
	}
	return true
}

// decodeText returns the text of a type with a notation of its own, such as a duration:
// as it is written, since 1.50Gi must not become 1.5Gi.
func (d *decoder) decodeText(n *yaml.Node, at place) (string, bool) {
	x, ok := d.resolveScalar(n, at)
	if x.source != "" {
		return formatValue(x.value), ok
	}
	return n.Value, ok
}

// decodeScalar decodes a string, a number or a boolean.
func (d *decoder) decodeScalar(n *yaml.Node, v reflect.Value, at place) {
	x, ok := d.resolveScalar(n, at)
	if !ok {
		return
	}
	want := ""
	switch v.Kind() {
	case reflect.String:
		text := n.Value
		if x.source != "" {
			text = formatValue(x.value)
		}
		v.SetString(d.renameFormer(at.Name, text, n.Line))
		if at.Raw && n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			d.Lines[at.Path]++ // the text begins below its "|"
		}
	case reflect.Bool:
		if b, ok := x.value.(bool); ok {
			v.SetBool(b)
		} else {
			want = "true or false"
		}
	case reflect.Int, reflect.Uint64:
		want = setWhole(v, x)
	case reflect.Float64:
		want = d.setNumber(v, x, at)
	default:
		panic("scenario: no decoding for a field of kind " + v.Kind().String())
	}
	if want != "" {
		d.add(n.Line, "%s: %s is not %s", at.Name, x, want)
	}
}

// decodeHolds evaluates a condition over the parameters, which may stand in ${} as well.
func (d *decoder) decodeHolds(n *yaml.Node, to *Holds, at place) {
	if !d.Single(n, at) {
		return
	}
	var x any
	var err error
	if strings.Contains(n.Value, "${") {
		x, err = d.vars.expandText(n.Value)
	} else {
		x, err = d.vars.evalExpression(strings.TrimSpace(n.Value))
	}
	holds, ok := x.(bool)
	switch {
	case err != nil:
		d.add(n.Line, "%s: %v", at.Name, err)
	case !ok:
		d.add(n.Line, "%s: %q is neither true nor false, but %s", at.Name, clipText(n.Value), formatValue(x))
	default:
		*to = Holds(holds)
	}
}

// setNumber sets a number, and returns what was wanted when it cannot. One that is written
// with a unit is turned into that of its field, or kept until that is known.
func (d *decoder) setNumber(v reflect.Value, x resolved, at place) (want string) {
	text, isText := x.value.(string)
	f, ok := asFloat(x.value)
	switch {
	case ok:
	case isText && numberOf(at.Name) == ownUnit:
		d.texts[at.Path] = text
	case isText && numberOf(at.Name) != "":
		var err error
		if f, err = unit.Parse(text, numberOf(at.Name)); err != nil {
			_, want, _ = strings.Cut(err.Error(), " is not ")
		}
	default:
		want = "a number"
	}
	v.SetFloat(f)
	return want
}

// setWhole sets an integer and returns what was wanted when it cannot.
func setWhole(v reflect.Value, x resolved) string {
	if u, ok := x.value.(uint64); ok && v.CanUint() {
		v.SetUint(u)
		return ""
	}
	f, number := asFloat(x.value)
	i, ok := x.value.(int64)
	switch {
	case !number:
		return "a whole number"
	case !ok && f != math.Trunc(f):
		if x.source != "" {
			return "a whole number (use ceil, floor or round)"
		}
		return "a whole number"
	case !ok && math.Abs(f) > 1<<53:
		return "a whole number in range"
	case !ok:
		i = int64(f)
	}
	if v.CanUint() {
		if i < 0 {
			return "a whole number of 0 or more"
		}
		v.SetUint(uint64(i))
		return ""
	}
	v.SetInt(i)
	return ""
}

// resolved is a scalar after its expressions: nil, bool, int64, uint64 (above
// int64's range only), float64 or string.
type resolved struct {
	value  any
	source string // the text with ${...} that gave the value; empty for a literal
}

// String shows the value in a message.
func (x resolved) String() string {
	s, text := x.value.(string)
	switch {
	case x.source != "" && text:
		return fmt.Sprintf("%s = %q", clipText(x.source), clipText(s))
	case x.source != "":
		if f, ok := x.value.(float64); ok {
			return fmt.Sprintf("%s = %.6g", clipText(x.source), f)
		}
		return fmt.Sprintf("%s = %v", clipText(x.source), x.value)
	case text:
		return strconv.Quote(clipText(s))
	default:
		return formatValue(x.value)
	}
}

// resolveScalar returns the value of a scalar node, its expressions evaluated.
func (d *decoder) resolveScalar(n *yaml.Node, at place) (resolved, bool) {
	if !d.Single(n, at) {
		return resolved{}, false
	}
	x := resolved{value: n.Value}
	var err error
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		if at.Raw || !strings.Contains(n.Value, "${") {
			return x, true
		}
		x.value, err = d.vars.expandText(n.Value)
		x.source = strings.TrimSpace(n.Value)
		if err != nil {
			d.add(n.Line, "%s: %v", at.Name, err)
		}
		return x, err == nil
	case "!!bool", "!!int", "!!float", "!!null":
		x.value = nil
		if err = n.Decode(&x.value); err == nil {
			if i, ok := x.value.(int); ok {
				x.value = int64(i)
			}
			return x, true
		}
	}
	d.add(n.Line, "%s: %q with tag %s cannot be read", at.Name, clipText(n.Value), n.ShortTag())
	return x, false
}

// asFloat returns a number as a float; infinities and NaN are not numbers here.
func asFloat(v any) (float64, bool) {
	switch x := v.(type) {
	case int64:
		return float64(x), true
	case uint64:
		return float64(x), true
	case float64:
		return x, !math.IsInf(x, 0) && !math.IsNaN(x)
	}
	return 0, false
}

// nodeShape names a node of the wrong shape in a message.
func nodeShape(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	default:
		return strconv.Quote(clipText(n.Value))
	}
}

// clipText keeps what a message quotes short.
func clipText(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:57]) + "..."
	}
	return s
}
