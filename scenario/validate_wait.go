package scenario

import "slices"

// waitChecker checks what is waited for.
type waitChecker struct{ *checker }

func (c waitChecker) wait(path string, x *Wait, before made) {
	switch {
	case x.Pods != "" && x.Objects != "":
		c.at(path, "wait: exactly one of pods and objects is needed")
	case x.Objects != "":
		c.objects(path, x, before)
	default:
		c.pods(path, x)
	}
	c.notNegative(path+".count", "wait.count", x.Count)
	c.lasting(path+".within", "wait.within", x.Within)
	c.word(path+".unmet", "wait.unmet", x.Unmet)
}

func (c waitChecker) pods(path string, x *Wait) {
	groups := c.groups
	if c.cluster != "" {
		groups = c.allGroups()
	}
	switch {
	case x.Pods == "":
		c.at(path+".pods", "wait.pods: a group of an earlier create step is needed")
	case !slices.Contains(groups, x.Pods):
		c.at(path+".pods", "wait.pods: no earlier create step makes group %q%s", clip(x.Pods), hint(x.Pods, groups))
	}
	c.word(path+".are", "wait.are", x.Are)
	for _, name := range setFields(x, "of", "namespace", "selector", "condition", "deleted", "all") {
		c.at(path+"."+name, "wait.%s: belongs to objects, not to pods", name)
	}
	if x.Count == 0 && x.Are != "deleted" {
		c.at(path+".count", "wait.count: how many pods is needed")
	}
}

func (c waitChecker) objects(path string, x *Wait, before made) {
	c.resource(path+".objects", "wait.objects", x.Objects)
	if x.Are != "" {
		c.at(path+".are", "wait.are: belongs to pods; objects have condition or deleted")
	}
	switch {
	case x.Deleted == (x.Condition != ""):
		c.at(path, "wait: exactly one of condition and deleted is needed")
	case x.Condition != "":
		if _, err := ParseCondition(x.Condition); err != nil {
			c.at(path+".condition", "wait.condition: %v", err)
		}
	}
	if x.All && x.Deleted {
		c.at(path+".all", "wait.all: belongs to condition, not to deleted")
	}
	if x.Of != "" {
		c.reference(path+".of", "wait.of", x.Of, before)
	} else if x.Count == 0 && !x.Deleted && !x.All {
		c.at(path+".count", "wait.count: how many objects is needed")
	}
	if x.Namespace != "" && x.Namespace != "*" {
		c.label(path+".namespace", "wait.namespace", x.Namespace)
	}
	c.selector(path+".selector", "wait.selector", x.Selector)
}
