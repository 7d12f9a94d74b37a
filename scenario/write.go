package scenario

import (
	"encoding"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/text/strictyaml"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// ErrNotText says that a text of a scenario is not UTF-8, so that no file can
// hold it.
var ErrNotText = errors.New("a text is not UTF-8")

// Write writes a scenario as a file that Load reads as the same scenario. What
// has its default is left out. Parameters are left out as well: their values
// stand where they were used, repeats stand unrolled, and what is included stands in it. The errors are those
// of w, and ErrNotText.
func Write(w io.Writer, s *Scenario) error {
	bare := s.withoutDefaults()
	n, err := writer{s}.structNode(reflect.ValueOf(*bare))
	if err != nil {
		return fmt.Errorf("write scenario %s: %w", s.Name, err)
	}
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	e.CompactSeqIndent()
	if err := e.Encode(n); err != nil {
		return fmt.Errorf("write scenario %s: %w", s.Name, err)
	}
	return e.Close()
}

// withoutDefaults returns a copy without what Complete would fill in again.
func (s *Scenario) withoutDefaults() *Scenario {
	out := *s
	out.Parameters, out.Include, out.Fragments = nil, nil, nil
	if out.Namespaces.Prefix == out.Name {
		out.Namespaces.Prefix = ""
	}
	out.Steps = bareSteps(s.Steps, "")
	out.Objectives = slices.Clone(s.Objectives)
	for i := range out.Objectives {
		o := &out.Objectives[i]
		if o.Measure != "" {
			of := Objective{Measure: o.Measure}
			of.takeMeasure(s.Measures)
			if o.Query, o.Unit, o.Since, o.Until = "", "", "", ""; o.Name == of.Name {
				o.Name = ""
			}
		}
		plain := Objective{SLO: o.SLO, SLI: o.SLI}
		if plain.fillDerived(); o.Name == plain.Name {
			o.Name = ""
		}
		if o.Statistic == plain.Statistic {
			o.Statistic = ""
		}
	}
	return &out
}

func bareSteps(steps []Step, number string) []Step {
	out := slices.Clone(steps)
	for i := range out {
		s, n := &out[i], fmt.Sprintf("%s%d", number, i+1)
		s.Parallel, s.Sequence = bareSteps(s.Parallel, n+"-"), bareSteps(s.Sequence, n+"-")
		if s.Create != nil {
			s.Create = s.Create.withoutDefaults(s.Name)
		}
		if s.Requests != nil {
			r := *s.Requests
			r.Mix = slices.Clone(r.Mix)
			for k := range r.Mix {
				r.Mix[k].dropDefaults(s.Name)
			}
			s.Requests = &r
		}
		if s.Name == s.defaultName(n) {
			s.Name = ""
		}
	}
	return out
}

func (c *Create) withoutDefaults(step string) *Create {
	out := *c
	if out.Name == step {
		out.Name = ""
	}
	if out.Group == step {
		out.Group = ""
	}
	out.Objects = slices.Clone(out.Objects)
	for i, o := range out.Objects {
		if o.Name == o.Body {
			out.Objects[i].Name = ""
		}
	}
	return &out
}

func (c *Call) dropDefaults(step string) {
	d := c.defaultsFor(step)
	for _, f := range []struct {
		to   *string
		text string
	}{{&c.Pick, d.Pick}, {&c.Patch, d.Patch}, {&c.Propagation, d.Propagation}, {&c.Name, d.Name}} {
		if *f.to == f.text {
			*f.to = ""
		}
	}
	if c.Hold == d.Hold {
		c.Hold = 0
	}
}

// writer turns the types of the language into YAML nodes.
type writer struct{ s *Scenario }

// structNode writes a struct: its fields in their order, but those that have their
// defaults.
func (w writer) structNode(v reflect.Value) (*yaml.Node, error) {
	fresh := reflect.New(v.Type())
	if x, ok := fresh.Interface().(defaulter); ok {
		x.setDefaults()
	}
	out := &yaml.Node{Kind: yaml.MappingNode}
	if isShort(v.Type()) {
		out.Style = yaml.FlowStyle
	}
	for _, f := range strictyaml.Fields(v.Type()) {
		x, def := v.Field(f.Index), fresh.Elem().Field(f.Index)
		empty := (x.Kind() == reflect.Map || x.Kind() == reflect.Slice) && x.Len() == 0
		if (empty || reflect.DeepEqual(x.Interface(), def.Interface())) && !w.isForced(v, f.Name) {
			continue
		}
		value, err := w.valueNode(x, f.Raw)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", typeLabel(v.Type()), f.Name, err)
		}
		out.Content = append(out.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: f.Name}, value)
	}
	return out, nil
}

// isShort tells which structs are written on one line.
func isShort(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[Pace](), reflect.TypeFor[Range](), reflect.TypeFor[Ramp](), reflect.TypeFor[Stair](), reflect.TypeFor[Retry](), reflect.TypeFor[Victims]():
		return true
	}
	return false
}

// isForced tells which numbers say something even when they are 0.
func (w writer) isForced(v reflect.Value, name string) bool {
	switch x := v.Interface().(type) {
	case Create:
		return name == "count" && x.PerNamespace == 0
	case Scale:
		for s := range w.s.AllSteps() {
			if s.Create != nil && s.Name == x.Step {
				return name == "to" && s.Create.PerNamespace == 0 || name == "perNamespace" && s.Create.PerNamespace > 0
			}
		}
	case Repeat:
		return name == "times"
	case Range:
		return name == "from" || name == "to"
	case Published:
		return x.Change != nil && (name == "from" || name == "to")
	}
	return false
}

func (w writer) valueNode(v reflect.Value, raw bool) (*yaml.Node, error) {
	if x, ok := v.Interface().(encoding.TextMarshaler); ok {
		text, err := x.MarshalText()
		if d, ok := x.(unit.Duration); ok {
			text = []byte(shortDuration(d))
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Value: string(text)}, err
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
		}
		if f, ok := v.Interface().(float64); ok {
			return &yaml.Node{Kind: yaml.ScalarNode, Value: formatFloat(f)}, nil
		}
		return w.valueNode(v.Elem(), raw)
	case reflect.Struct:
		return w.structNode(v)
	case reflect.Map:
		return w.mappingNode(v)
	case reflect.Slice:
		return w.listNode(v)
	case reflect.String:
		return textNode(v.String(), raw)
	case reflect.Float64:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: formatValue(v.Float())}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(v.Interface())}, nil // bool and whole numbers
}

func (w writer) mappingNode(v reflect.Value) (*yaml.Node, error) {
	out := &yaml.Node{Kind: yaml.MappingNode}
	keys := map[string]reflect.Value{}
	for _, k := range v.MapKeys() {
		keys[fmt.Sprint(k.Interface())] = k
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		key, err := textNode(name, true)
		if err != nil {
			return nil, err
		}
		value, err := w.valueNode(v.MapIndex(keys[name]), false)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out.Content = append(out.Content, key, value)
	}
	return out, nil
}

func (w writer) listNode(v reflect.Value) (*yaml.Node, error) {
	out := &yaml.Node{Kind: yaml.SequenceNode}
	for i := range v.Len() {
		item, err := w.valueNode(v.Index(i), false)
		if err != nil {
			return nil, err
		}
		out.Content = append(out.Content, item)
	}
	return out, nil
}

// textNode writes a text, quoted where YAML would take it for something else; ${
// is written so that it is no expression.
func textNode(s string, raw bool) (*yaml.Node, error) {
	if !utf8.ValidString(s) {
		return nil, fmt.Errorf("%q: %w", clipText(s), ErrNotText)
	}
	if !raw {
		s = strings.ReplaceAll(s, "${", "$${")
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	switch {
	case strings.ContainsAny(s, "\r\t\u0085\u2028\u2029\ufeff"), strings.TrimSpace(s) != s && !strings.HasSuffix(s, "\n"), strings.HasPrefix(s, " "), strings.HasPrefix(s, "\n"):
		n.Style = yaml.DoubleQuotedStyle
	case strings.Contains(s, "\n"):
		n.Style = yaml.LiteralStyle
	}
	return n, nil
}

// formatFloat writes a template variable so that it stays a number that need not be
// whole.
func formatFloat(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".eIN") {
		s += ".0"
	}
	return s
}

// shortDuration is Go's notation without the zeros at its end: 5m, not 5m0s.
func shortDuration(d unit.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
