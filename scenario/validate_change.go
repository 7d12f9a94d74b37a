package scenario

import "fmt"

// changeChecker checks the steps that change what a create step made.
type changeChecker struct{ *checker }

func (c changeChecker) scale(path string, x *Scale, before made) {
	made := c.reference(path+".step", "scale.step", x.Step, before)
	to, each := c.given(path+".to") || x.To != 0, c.given(path+".perNamespace") || x.PerNamespace != 0
	switch {
	case made == nil:
	case made.PerNamespace == 0 && each:
		c.at(path+".perNamespace", "scale.perNamespace: step %q says count: say to", x.Step)
	case made.PerNamespace > 0 && to:
		c.at(path+".to", "scale.to: step %q says perNamespace: say perNamespace", x.Step)
	case !to && !each && c.s.lines != nil:
		c.at(path, "scale.to: to how many is needed")
	}
	c.notNegative(path+".to", "scale.to", x.To)
	c.notNegative(path+".perNamespace", "scale.perNamespace", x.PerNamespace)
	c.word(path+".propagation", "scale.propagation", x.Propagation)
	paceChecker(c).calls(path, "scale", x.Pace, x.Timeout)
}

func (c changeChecker) update(path string, x *Update, before made) {
	made := c.reference(path+".step", "update.step", x.Step, before)
	c.word(path+".method", "update.method", x.Method)
	if x.Body != "" {
		c.bodyName(path+".body", "update.body", x.Body)
	} else if x.Method == "json" {
		c.at(path, "update.body: a JSON patch is needed")
	}
	if made != nil {
		if text := made.objectFault(x.Object, x.Body != ""); text != "" {
			c.at(path+".object", "update.object: %s", text)
		}
	}
	body := x.Body
	if body == "" && made != nil {
		body = made.Body
	}
	c.with(path+".with", "update.with", body, x.With)
	c.notNegative(path+".first", "update.first", x.First)
	paceChecker(c).calls(path, "update", x.Pace, x.Timeout)
	paceChecker(c).retry(path+".retry", x.Retry)
}

func (c changeChecker) churn(path string, x *Churn, before made) {
	if made := c.reference(path+".step", "churn.step", x.Step, before); made != nil {
		for i, body := range x.Objects {
			if text := made.objectFault(body, true); text != "" {
				c.at(fmt.Sprintf("%s.objects[%d]", path, i), "churn.objects: %s", text)
			}
		}
	}
	if x.Namespaces != "" {
		c.reference(path+".namespaces", "churn.namespaces", x.Namespaces, before)
		if real := memberChecker(c).firstOf(RealMember, c.cluster); real != "" {
			c.at(path+".namespaces", "churn.namespaces: nothing removes a namespace of %s: it is a real member, without a controller manager", real)
		}
	}
	for i := range x.Wait {
		waitChecker(c).wait(fmt.Sprintf("%s.wait[%d]", path, i), &x.Wait[i], before)
	}
	c.notNegativeTime(path+".rest", "churn.rest", x.Rest)
	if !(x.Percent > 0 && x.Percent <= 100) {
		c.at(path+".percent", "churn.percent: %s is not above 0 and at most 100", formatValue(x.Percent))
	}
	c.notNegative(path+".cycles", "churn.cycles", x.Cycles)
	c.notNegativeTime(path+".for", "churn.for", x.For)
	if x.Cycles == 0 && x.For == 0 {
		c.at(path, "churn: cycles or for is needed")
	}
	c.notNegativeTime(path+".delay", "churn.delay", x.Delay)
	paceChecker(c).calls(path, "churn", x.Pace, x.Timeout)
}

func (c changeChecker) delete(path string, x *Delete, before made) {
	c.reference(path+".step", "delete.step", x.Step, before)
	c.word(path+".propagation", "delete.propagation", x.Propagation)
	paceChecker(c).calls(path, "delete", x.Pace, x.Timeout)
}
