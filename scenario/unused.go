package scenario

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/text/strictyaml"
)

// CheckSet refuses values of parameters that no expression of the file names: a run with such a
// value would be the same as without, and two sides that differ in it would be alike.
func (s *Scenario) CheckSet(set map[string]string) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if slices.Contains(s.unused, name) {
			errs = append(errs, fmt.Errorf("--set %s=%s: it changes nothing, since no field of %s contains ${%s}; in a body, ${...} is left alone: pass it by with",
				name, clipText(set[name]), s.File, name))
		}
	}
	return errors.Join(errs...)
}

var identifier = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

// unusedParameters returns those of the names that no expression below root contains. What a
// repeat without rounds would do counts, too.
func unusedParameters(root *yaml.Node, names []string) []string {
	used := map[string]bool{}
	add := func(text string) {
		for _, word := range identifier.FindAllString(text, -1) {
			used[word] = true
		}
	}
	seen := map[*yaml.Node]bool{}
	var look func(n *yaml.Node, whole bool)
	look = func(n *yaml.Node, whole bool) {
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		if n.Kind != yaml.ScalarNode {
			look(n.Alias, whole)
			for i, child := range n.Content {
				if n.Kind != yaml.MappingNode || i%2 == 1 {
					look(child, whole || n.Kind == yaml.MappingNode && slices.Contains([]string{"when", "from", "to"}, n.Content[i-1].Value))
				}
			}
			return
		}
		parts, err := splitExpressions(n.Value)
		if whole || err != nil {
			add(n.Value)
			return
		}
		for _, p := range parts {
			if p.expression {
				add(p.text)
			}
		}
	}
	if bodies := strictyaml.Child(root, "bodies"); bodies != nil && bodies.Kind == yaml.MappingNode {
		for i := 1; i < len(bodies.Content); i += 2 {
			seen[strictyaml.Child(bodies.Content[i], "text")] = true
		}
	}
	look(root, false)
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return used[name] })
}

// warnUnexpanded says of each body that contains ${NAME} of a parameter that it stays there.
func (d *decoder) warnUnexpanded(bodies map[string]Body) {
	for _, body := range slices.Sorted(maps.Keys(bodies)) {
		for i, name := range d.vars.order {
			if i < maxProblems && strings.Contains(bodies[body].Text, "${"+name+"}") {
				d.addWarning(bodies[body].Line, "bodies.%s.text: ${%s} is left alone in a body: pass it as with: {%s: ${%s}}, and write {{ .%s }}", body, name, name, name, name)
			}
		}
	}
}
