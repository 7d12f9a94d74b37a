package scenario

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
)

// reference checks the name of an earlier create step and returns it; nil when
// it is none.
func (c *checker) reference(path, name, step string, before made) *Create {
	earlier := slices.Sorted(maps.Keys(before))
	switch x, ok := before[step]; {
	case ok:
		memberChecker{c}.within(path, name, step)
		return x
	case step == "":
		c.at(path, "%s: the name of an earlier create step is needed", name)
	case slices.Contains(c.creates, step):
		c.at(path, "%s: create step %q runs at the same time, in another branch", name, clip(step))
	default:
		c.at(path, "%s: %q is no earlier create step%s", name, clip(step), hint(step, earlier))
	}
	return nil
}

// objectFault tells what is wrong with the choice of one of the objects that
// are made for each index; must says that there has to be one.
func (c *Create) objectFault(object string, must bool) string {
	bodies := c.bodies()
	switch {
	case object != "" && !slices.Contains(bodies, object):
		return fmt.Sprintf("%q is not made by the step, which makes %s%s", clip(object), all(bodies), hint(object, bodies))
	case object == "" && must && len(bodies) > 1:
		return fmt.Sprintf("the step makes several (%s): which one is meant is needed", all(bodies))
	}
	return ""
}

// bodies are those of the objects that are made for each index.
func (c *Create) bodies() []string {
	if len(c.Objects) == 0 {
		return []string{c.Body}
	}
	var out []string
	for _, o := range c.Objects {
		out = append(out, o.Body)
	}
	return out
}

// bodyName checks the name of one of bodies.
func (c *checker) bodyName(path, name, body string) {
	bodies := c.s.bodyNames()
	switch {
	case body == "":
		c.at(path, "%s: the name of one of bodies is needed", name)
	case !slices.Contains(bodies, body):
		c.at(path, "%s: %q not found in bodies%s", name, clip(body), hint(body, bodies))
	}
}

// with checks more template variables; body is one of those that see them.
func (c *checker) with(path, name, body string, with map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(with)) {
		switch {
		case !variableName.MatchString(key):
			c.at(path+"."+key, "%s: %q cannot be a template variable (letters, digits and _)", name, clip(key))
		case slices.Contains(bodyVariables(c.s.Bodies[body].Dialect), key):
			c.at(path+"."+key, "%s: .%s is a variable of every template", name, key)
		}
	}
}

// objectName checks what names of objects begin with.
func (c *checker) objectName(path, name, value string, highest int) {
	if len(validation.IsDNS1123Subdomain(fmt.Sprintf("%s-%d", value, max(0, highest)))) > 0 {
		c.at(path, "%s: %q does not begin the name of an object", name, clip(value))
	}
}
