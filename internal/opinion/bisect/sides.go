package bisect

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Sides are the parameters of good and bad.
type Sides struct {
	Good    map[string]string   `json:"good"` // of every parameter that differs
	Bad     map[string]string   `json:"bad"`
	Between map[string][]string `json:"between,omitempty"` // values between good's and bad's, in their order
}

// NewSides completes the parameters that are given for good and bad: what only one side gives has on
// the other the scenario's own value. An error names a parameter that the scenario lacks, or
// values between two that do not differ.
func NewSides(good, bad map[string]string, between map[string][]string, defaults map[string]any) (Sides, error) {
	s := Sides{Good: maps.Clone(good), Bad: maps.Clone(bad), Between: between}
	for _, pair := range [][2]map[string]string{{s.Good, s.Bad}, {s.Bad, s.Good}} {
		for name := range pair[0] {
			if _, given := pair[1][name]; given {
				continue
			}
			v, known := defaults[name]
			if !known {
				return s, fmt.Errorf("parameter %s: the scenario has none of that name; name a field, such as plane.limits.cpu, for both sides", name)
			}
			pair[1][name] = formatValue(v)
		}
	}
	for name := range between {
		if s.Good[name] == s.Bad[name] {
			return s, fmt.Errorf("--between %s: good and bad do not differ in it", name)
		}
	}
	return s, nil
}

// formatValue writes a parameter as a command line has it.
func formatValue(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}

// Changes are the differences of the sides, by name.
func (s Sides) Changes() (out []Change) {
	for _, name := range slices.Sorted(maps.Keys(s.Good)) {
		if s.Good[name] == s.Bad[name] {
			continue
		}
		values := slices.Concat([]string{s.Good[name]}, s.Between[name], []string{s.Bad[name]})
		chain := ""
		if len(values) > 2 {
			chain = name
		}
		for i := range values[1:] {
			out = append(out, Change{Name: name, From: values[i], To: values[i+1], Chain: chain})
		}
	}
	return out
}

// Parameters are those of good with some of the changes.
func (s Sides) Parameters(changes []Change, with []int) map[string]string {
	out := maps.Clone(s.Good)
	for _, i := range with {
		out[changes[i].Name] = changes[i].To
	}
	return out
}

// ParseBetween reads NAME=V1,V2,... into a map of values.
func ParseBetween(texts []string) (map[string][]string, error) {
	out := map[string][]string{}
	for _, text := range texts {
		name, list, ok := strings.Cut(text, "=")
		if !ok || name == "" || list == "" {
			return nil, fmt.Errorf("--between %s: want name=value,value", text)
		}
		out[name] = append(out[name], strings.Split(list, ",")...)
	}
	return out, nil
}
