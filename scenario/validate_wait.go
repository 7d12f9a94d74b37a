package scenario

import "slices"

// waitChecker checks what is waited for.
type waitChecker struct{ *checker }

func (c waitChecker) checkWait(path string, x *Wait, before createdSteps) {
	switch {
	case x.Pods != "" && x.Objects != "":
		c.reportAt(path, "wait: exactly one of pods and objects is needed")
	case x.Objects != "":
		c.checkObjects(path, x, before)
	default:
		c.checkPods(path, x)
	}
	c.checkNotNegative(path+".count", "wait.count", x.Count)
	c.checkPositiveTime(path+".within", "wait.within", x.Within)
	c.checkWord(path+".unmet", "wait.unmet", x.Unmet)
}

func (c waitChecker) checkPods(path string, x *Wait) {
	groups := c.groups
	if c.cluster != "" {
		groups = c.allGroups()
	}
	switch {
	case x.Pods == "":
		c.reportAt(path+".pods", "wait.pods: a group of an earlier create step is needed")
	case !slices.Contains(groups, x.Pods):
		c.reportAt(path+".pods", "wait.pods: no earlier create step makes group %q%s", clipText(x.Pods), suggestName(x.Pods, groups))
	}
	c.checkWord(path+".are", "wait.are", x.Are)
	for _, name := range setFields(x, "of", "namespace", "selector", "condition", "deleted", "all") {
		c.reportAt(path+"."+name, "wait.%s: belongs to objects, not to pods", name)
	}
	if x.Optional && x.Are != "deleted" {
		c.reportAt(path+".optional", "wait.optional: belongs to objects, and to pods that are deleted")
	}
	if x.Count == 0 && x.Are != "deleted" {
		c.reportAt(path+".count", "wait.count: how many pods is needed")
	}
}

func (c waitChecker) checkObjects(path string, x *Wait, before createdSteps) {
	c.checkResource(path+".objects", "wait.objects", x.Objects)
	if x.Are != "" {
		c.reportAt(path+".are", "wait.are: belongs to pods; objects have condition or deleted")
	}
	switch {
	case x.Deleted == (x.Condition != ""):
		c.reportAt(path, "wait: exactly one of condition and deleted is needed")
	case x.Condition != "":
		if _, err := ParseCondition(x.Condition); err != nil {
			c.reportAt(path+".condition", "wait.condition: %v", err)
		}
	}
	if x.All && x.Deleted {
		c.reportAt(path+".all", "wait.all: belongs to condition, not to deleted")
	}
	if x.Optional && !x.Deleted && (!x.All || x.Count > 0) {
		c.reportAt(path+".optional", "wait.optional: belongs to all without count, and to deleted")
	}
	if x.Of != "" {
		c.checkReference(path+".of", "wait.of", x.Of, before)
	} else if x.Count == 0 && !x.Deleted && !x.All {
		c.reportAt(path+".count", "wait.count: how many objects is needed")
	}
	if x.Namespace != "" && x.Namespace != "*" {
		c.checkLabel(path+".namespace", "wait.namespace", x.Namespace)
	}
	c.checkSelector(path+".selector", "wait.selector", x.Selector)
}
