package scenario

import "fmt"

// changeChecker checks the steps that change what a create step made.
type changeChecker struct{ *checker }

func (c changeChecker) checkScale(path string, x *Scale, before createdSteps) {
	made := c.checkReference(path+".step", "scale.step", x.Step, before)
	to, each := c.isGiven(path+".to") || x.To != 0, c.isGiven(path+".perNamespace") || x.PerNamespace != 0
	switch {
	case made == nil:
	case made.PerNamespace == 0 && each:
		c.reportAt(path+".perNamespace", "scale.perNamespace: step %q says count: say to", x.Step)
	case made.PerNamespace > 0 && to:
		c.reportAt(path+".to", "scale.to: step %q says perNamespace: say perNamespace", x.Step)
	case !to && !each && c.s.lines != nil:
		c.reportAt(path, "scale.to: to how many is needed")
	}
	c.checkNotNegative(path+".to", "scale.to", x.To)
	c.checkNotNegative(path+".perNamespace", "scale.perNamespace", x.PerNamespace)
	c.checkWord(path+".propagation", "scale.propagation", x.Propagation)
	paceChecker(c).checkCalls(path, "scale", x.Pace, x.Timeout)
}

func (c changeChecker) checkUpdate(path string, x *Update, before createdSteps) {
	made := c.checkReference(path+".step", "update.step", x.Step, before)
	c.checkWord(path+".method", "update.method", x.Method)
	if x.Body != "" {
		c.checkBodyName(path+".body", "update.body", x.Body)
	} else if x.Method == "json" {
		c.reportAt(path, "update.body: a JSON patch is needed")
	}
	if made != nil {
		if text := made.objectFault(x.Object, x.Body != ""); text != "" {
			c.reportAt(path+".object", "update.object: %s", text)
		}
	}
	body := x.Body
	if body == "" && made != nil {
		body = made.Body
	}
	c.checkVariables(path+".with", "update.with", body, x.With)
	c.checkNotNegative(path+".first", "update.first", x.First)
	if x.First == 0 && c.isGiven(path+".first") {
		c.reportAt(path+".first", "update.first: 0 is not above 0; leave it out for all")
	}
	paceChecker(c).checkCalls(path, "update", x.Pace, x.Timeout)
	paceChecker(c).checkRetry(path+".retry", x.Retry)
}

func (c changeChecker) checkChurn(path string, x *Churn, before createdSteps) {
	if made := c.checkReference(path+".step", "churn.step", x.Step, before); made != nil {
		for i, body := range x.Objects {
			if text := made.objectFault(body, true); text != "" {
				c.reportAt(fmt.Sprintf("%s.objects[%d]", path, i), "churn.objects: %s", text)
			}
		}
	}
	if x.Namespaces != "" {
		c.checkReference(path+".namespaces", "churn.namespaces", x.Namespaces, before)
		if real := memberChecker(c).firstOf(RealMember, c.cluster); real != "" {
			c.reportAt(path+".namespaces", "churn.namespaces: nothing removes a namespace of %s: it is a real member, without a controller manager", real)
		}
	} else if x.Contents {
		c.reportAt(path+".contents", "churn.contents: belongs to namespaces")
	}
	for i := range x.Wait {
		waitChecker(c).checkWait(fmt.Sprintf("%s.wait[%d]", path, i), &x.Wait[i], before)
	}
	c.checkNotNegativeTime(path+".rest", "churn.rest", x.Rest)
	if !(x.Percent > 0 && x.Percent <= 100) {
		c.reportAt(path+".percent", "churn.percent: %s is not above 0 and at most 100", formatValue(x.Percent))
	}
	c.checkNotNegative(path+".cycles", "churn.cycles", x.Cycles)
	c.checkNotNegativeTime(path+".for", "churn.for", x.For)
	if x.Cycles == 0 && x.For == 0 {
		c.reportAt(path, "churn: cycles or for is needed")
	}
	c.checkNotNegativeTime(path+".delay", "churn.delay", x.Delay)
	paceChecker(c).checkCalls(path, "churn", x.Pace, x.Timeout)
}

func (c changeChecker) checkDelete(path string, x *Delete, before createdSteps) {
	c.checkReference(path+".step", "delete.step", x.Step, before)
	c.checkWord(path+".propagation", "delete.propagation", x.Propagation)
	paceChecker(c).checkCalls(path, "delete", x.Pace, x.Timeout)
}
