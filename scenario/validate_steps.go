package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// step checks one step in the light of those before it.
func (c *checker) step(path string, i int) {
	s := &c.s.Steps[i]
	verbs := s.verbs()
	if c.given(path+".pause") && !slices.Contains(verbs, "pause") {
		c.at(path+".pause", "step.pause: 0s is not above 0s")
		verbs = append(verbs, "pause")
	}
	switch len(verbs) {
	case 1:
		c.stepName(path, s, i)
	case 0:
		c.at(path, "step %q: exactly one of create, wait, delete and pause is needed", s.Name)
	default:
		c.at(path, "step %q: exactly one of create, wait, delete and pause is needed, not %s", s.Name, strings.Join(verbs, " and "))
	}
	c.word(path+".onFailure", "step.onFailure", s.OnFailure)
	if s.Pause < 0 {
		c.at(path+".pause", "step.pause: %s is not above 0s", s.Pause)
	}
	if s.Wait != nil {
		c.wait(path+".wait", s.Wait)
	}
	if s.Delete != nil {
		c.delete(path+".delete", s.Delete)
	}
	if s.Create != nil {
		c.create(path+".create", s.Create)
		c.creates = append(c.creates, s.Name)
		c.groups = append(c.groups, s.Create.Group)
	}
}

func (c *checker) stepName(path string, s *Step, i int) {
	c.label(path+".name", "step.name", s.Name)
	if first, twice := c.steps[s.Name]; twice {
		c.at(path+".name", "step.name: %q stands twice (first in step %d)", s.Name, first+1)
		return
	}
	c.steps[s.Name] = i
}

func (c *checker) create(path string, x *Create) {
	bodies := slices.Sorted(maps.Keys(c.s.Bodies))
	switch {
	case x.Body == "":
		c.at(path+".body", "create.body: the name of one of bodies is needed")
	case !slices.Contains(bodies, x.Body):
		c.at(path+".body", "create.body: %q not found in bodies%s", clip(x.Body), hint(x.Body, bodies))
	}
	if !c.given(path+".count") && x.Count == 0 {
		c.at(path, "create.count: how many objects is needed")
	}
	c.notNegative(path+".count", "create.count", x.Count)
	if len(validation.IsDNS1123Subdomain(fmt.Sprintf("%s-%d", x.Name, x.Count))) > 0 && c.given(path+".name") {
		c.at(path+".name", "create.name: %q does not begin the name of an object", clip(x.Name))
	}
	if len(validation.IsValidLabelValue(x.Group)) > 0 {
		c.at(path+".group", "create.group: %q is not a label's value", clip(x.Group))
	}
	if x.Namespace != "" {
		c.label(path+".namespace", "create.namespace", x.Namespace)
	}
	for _, name := range slices.Sorted(maps.Keys(x.With)) {
		switch {
		case !variableName.MatchString(name):
			c.at(path+".with."+name, "create.with: %q cannot be a template variable (letters, digits and _)", clip(name))
		case slices.Contains(bodyVariables(), name):
			c.at(path+".with."+name, "create.with: .%s is a variable of every template", name)
		}
	}
	c.pace(path+".pace", x.Pace)
	c.lasting(path+".timeout", "create.timeout", x.Timeout)
}

func (c *checker) delete(path string, x *Delete) {
	switch {
	case x.Step == "":
		c.at(path+".step", "delete.step: the name of an earlier create step is needed")
	case !slices.Contains(c.creates, x.Step):
		c.at(path+".step", "delete.step: %q is no earlier create step%s", clip(x.Step), hint(x.Step, c.creates))
	}
	c.word(path+".propagation", "delete.propagation", x.Propagation)
	c.pace(path+".pace", x.Pace)
	c.lasting(path+".timeout", "delete.timeout", x.Timeout)
}

func (c *checker) wait(path string, x *Wait) {
	switch {
	case x.Pods == "":
		c.at(path+".pods", "wait.pods: a group of an earlier create step is needed")
	case !slices.Contains(c.groups, x.Pods):
		c.at(path+".pods", "wait.pods: no earlier create step makes group %q%s", clip(x.Pods), hint(x.Pods, c.groups))
	}
	c.word(path+".are", "wait.are", x.Are)
	switch {
	case x.Count < 0:
		c.notNegative(path+".count", "wait.count", x.Count)
	case x.Count == 0 && x.Are != "gone":
		c.at(path+".count", "wait.count: how many pods is needed")
	}
	c.lasting(path+".within", "wait.within", x.Within)
}

func (c *checker) pace(path string, p Pace) {
	var set []string
	rates := []struct {
		name string
		rate float64
	}{{"constant", p.Constant}, {"poisson", p.Poisson}}
	for _, r := range rates {
		if at := path + "." + r.name; c.given(at) || r.rate != 0 {
			set = append(set, r.name)
			c.positive(at, "pace."+r.name, r.rate)
		}
	}
	if p.Burst {
		set = append(set, "burst")
	}
	switch len(set) {
	case 0:
		c.at(path, "pace: exactly one of constant, poisson and burst is needed")
	case 1:
	default:
		c.at(path, "pace: exactly one of constant, poisson and burst is needed, not %s", strings.Join(set, " and "))
	}
}
