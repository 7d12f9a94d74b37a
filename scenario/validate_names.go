package scenario

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
)

// checkReference checks the name of an earlier create step and returns it; nil when
// it is none.
func (c *checker) checkReference(path, name, step string, before createdSteps) *Create {
	earlier := slices.Sorted(maps.Keys(before))
	switch x, ok := before[step]; {
	case ok:
		memberChecker{c}.checkMadeWithin(path, name, step)
		return x
	case step == "":
		c.reportAt(path, "%s: the name of an earlier create step is needed", name)
	case slices.Contains(c.creates, step):
		c.reportAt(path, "%s: create step %q runs at the same time, in another branch", name, clipText(step))
	default:
		c.reportAt(path, "%s: %q is no earlier create step%s", name, clipText(step), c.whyMissing("step", step, earlier))
	}
	return nil
}

// objectFault tells what is wrong with the choice of one of the objects that
// are made for each index; must says that there has to be one.
func (c *Create) objectFault(object string, must bool) string {
	bodies := c.bodyNames()
	switch {
	case object != "" && !slices.Contains(bodies, object):
		return fmt.Sprintf("%q is not made by the step, which makes %s%s", clipText(object), joinWords(bodies), suggestName(object, bodies))
	case object == "" && must && len(bodies) > 1:
		return fmt.Sprintf("the step makes several (%s): which one is meant is needed", joinWords(bodies))
	}
	return ""
}

// bodyNames are those of the objects that are made for each index.
func (c *Create) bodyNames() []string {
	if len(c.Objects) == 0 {
		return []string{c.Body}
	}
	var out []string
	for _, o := range c.Objects {
		out = append(out, o.Body)
	}
	return out
}

// checkBodyName checks the name of one of bodies.
func (c *checker) checkBodyName(path, name, body string) {
	bodies := c.s.bodyNames()
	switch {
	case body == "":
		c.reportAt(path, "%s: the name of one of bodies is needed", name)
	case !slices.Contains(bodies, body):
		c.reportAt(path, "%s: %q not found in bodies%s", name, clipText(body), suggestName(body, bodies))
	}
}

// checkVariables checks more template variables; body is one of those that see them.
func (c *checker) checkVariables(path, name, body string, with map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(with)) {
		switch {
		case !variableName.MatchString(key):
			c.reportAt(path+"."+key, "%s: %q cannot be a template variable (letters, digits and _)", name, clipText(key))
		case slices.Contains(bodyVariables(c.s.Bodies[body].Dialect), key):
			c.reportAt(path+"."+key, "%s: .%s is a variable of every template", name, key)
		}
	}
}

// checkObjectName checks what names of objects begin with.
func (c *checker) checkObjectName(path, name, value string, highest int) {
	if len(validation.IsDNS1123Subdomain(fmt.Sprintf("%s-%d", value, max(0, highest)))) > 0 {
		c.reportAt(path, "%s: %q does not begin the name of an object", name, clipText(value))
	}
}
