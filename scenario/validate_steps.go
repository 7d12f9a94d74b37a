package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

// made are the create steps that have ended for certain when a step begins.
type made map[string]*Create

// sequence checks steps that follow one another and adds what they create.
func (c *checker) sequence(path string, steps []Step, before made) {
	for i := range steps {
		c.step(fmt.Sprintf("%s[%d]", path, i), &steps[i], before)
	}
}

// parallel checks steps of which each begins when those before all of them have
// ended.
func (c *checker) parallel(path string, steps []Step, before made) {
	for i := range steps { // a wait of one branch may be for pods of another
		for s := range steps[i].All() {
			if s.Create != nil {
				c.groups = append(c.groups, s.Create.Group)
			}
		}
	}
	after := maps.Clone(before)
	for i := range steps {
		branch := maps.Clone(before)
		c.step(fmt.Sprintf("%s[%d]", path, i), &steps[i], branch)
		maps.Copy(after, branch)
	}
	maps.Copy(before, after)
}

// step checks one step in the light of those before it.
func (c *checker) step(path string, s *Step, before made) {
	c.stepHead(path, s)
	switch {
	case s.Parallel != nil:
		c.parallel(path+".parallel", s.Parallel, before)
	case s.Sequence != nil:
		c.sequence(path+".sequence", s.Sequence, before)
	case s.Create != nil:
		c.create(path+".create", s.Create)
		before[s.Name] = s.Create
		c.creates = append(c.creates, s.Name)
		c.groups = append(c.groups, s.Create.Group)
	}
	if s.Scale != nil {
		c.scale(path+".scale", s.Scale, before)
	}
	if s.Update != nil {
		c.update(path+".update", s.Update, before)
	}
	if s.Churn != nil {
		c.churn(path+".churn", s.Churn, before)
	}
	if s.Delete != nil {
		c.delete(path+".delete", s.Delete, before)
	}
	if s.Requests != nil {
		c.requests(path+".requests", s.Requests, before)
	}
	if s.Wait != nil {
		c.wait(path+".wait", s.Wait, before)
	}
	if s.Settle != nil {
		c.lasting(path+".settle.within", "settle.within", s.Settle.Within)
	}
	if s.Fault != nil {
		c.fault(path+".fault", s.Fault)
	}
	if s.Exec != nil {
		c.exec(path+".exec", s.Exec)
	}
}

// stepHead checks what all steps have.
func (c *checker) stepHead(path string, s *Step) {
	verbs := s.verbs()
	if c.given(path+".pause") && !slices.Contains(verbs, "pause") {
		c.at(path+".pause", "step.pause: 0s is not above 0s")
		verbs = append(verbs, "pause")
	}
	for _, list := range []struct {
		name  string
		given bool
	}{{"parallel", s.Parallel != nil}, {"sequence", s.Sequence != nil}} {
		if at := path + "." + list.name; (c.given(at) || list.given) && !slices.Contains(verbs, list.name) {
			c.at(at, "step.%s: no steps", list.name)
			verbs = append(verbs, list.name)
		}
	}
	want := "exactly one of " + all(stepVerbs()) + " is needed"
	switch len(verbs) {
	case 1:
		c.stepName(path, s)
	case 0:
		c.at(path, "step %q: %s", s.Name, want)
	default:
		c.at(path, "step %q: %s, not %s", s.Name, want, strings.Join(verbs, " and "))
	}
	c.word(path+".onFailure", "step.onFailure", s.OnFailure)
	if s.Pause < 0 {
		c.at(path+".pause", "step.pause: %s is not above 0s", s.Pause)
	}
	if s.Repeat != nil {
		c.at(path, "step %q: a repeat is unrolled when a file is read; a program lists its steps", s.Name)
	}
}

// all joins words for a sentence: a, b and c.
func all(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

func (c *checker) stepName(path string, s *Step) {
	c.label(path+".name", "step.name", s.Name)
	if first, twice := c.steps[s.Name]; twice {
		where := ""
		if line := c.s.line(first); line > 0 {
			where = fmt.Sprintf(" (first on line %d)", line)
		}
		c.at(path+".name", "step.name: %q stands twice%s", s.Name, where)
		return
	}
	c.steps[s.Name] = path
}

// reference checks the name of an earlier create step and returns it; nil when
// it is none.
func (c *checker) reference(path, name, step string, before made) *Create {
	earlier := slices.Sorted(maps.Keys(before))
	switch x, ok := before[step]; {
	case ok:
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

// selector checks a label selector; empty selects all.
func (c *checker) selector(path, name, text string) {
	if _, err := labels.Parse(text); err != nil {
		c.at(path, "%s: %q is not a label selector: %v", name, clip(text), err)
	}
}

func (c *checker) exec(path string, x *Exec) {
	if len(x.Command) == 0 || x.Command[0] == "" {
		c.at(path+".command", "exec.command: a command is needed")
	}
	for _, name := range slices.Sorted(maps.Keys(x.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			c.at(path+".env."+name, "exec.env: %q is not the name of a variable", clip(name))
		}
	}
	c.lasting(path+".timeout", "exec.timeout", x.Timeout)
}

// group checks one of groups.
func (c *checker) group(path string, g Group) {
	if g.Name == "" || len(validation.IsValidLabelValue(g.Name)) > 0 {
		c.at(path+".name", "group.name: %q is not a name: at most 63 letters, digits, -, _ and .", clip(g.Name))
	} else if slices.Contains(c.groups, g.Name) {
		c.at(path+".name", "group.name: %q stands twice", g.Name)
	}
	if g.Namespace != "" {
		c.label(path+".namespace", "group.namespace", g.Namespace)
	}
	if g.Selector == "" {
		c.at(path+".selector", "group.selector: labels are needed")
	}
	c.selector(path+".selector", "group.selector", g.Selector)
	c.groups = append(c.groups, g.Name)
}
