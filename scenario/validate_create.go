package scenario

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
)

func (c *checker) create(path string, x *Create) {
	c.createBodies(path, x)
	c.createCount(path, x)
	if len(x.Objects) == 0 && c.given(path+".name") {
		c.objectName(path+".name", "create.name", x.Name, x.highest())
	}
	if len(validation.IsValidLabelValue(x.Group)) > 0 {
		c.at(path+".group", "create.group: %q is not a label's value", clip(x.Group))
	}
	if x.Namespace != "" {
		c.label(path+".namespace", "create.namespace", x.Namespace)
	}
	if x.Namespaces != nil {
		c.namespaceRange(path+".namespaces", x)
	}
	if x.Pause < 0 {
		c.at(path+".pause", "create.pause: %s is below 0s", x.Pause)
	} else if x.Pause > 0 && !x.PerObject {
		c.at(path+".pause", "create.pause: belongs to perObject")
	}
	c.with(path+".with", "create.with", x.Body, x.With)
	c.pace(path+".pace", x.Pace, true)
	c.lasting(path+".timeout", "create.timeout", x.Timeout)
	c.retry(path+".retry", x.Retry)
}

func (c *checker) namespaceRange(path string, x *Create) {
	r, n := x.Namespaces, c.s.Namespaces.Count
	if r.Prefix != "" {
		c.label(path+".prefix", "range.prefix", r.Prefix)
	}
	switch foreign := r.Prefix != "" && (r.Prefix != c.s.Namespaces.Prefix || n == 0); {
	case x.Namespace != "":
		c.at(path, "create: at most one of namespace and namespaces")
	case foreign && (r.From < 0 || r.To < r.From):
		c.at(path, "create.namespaces: from %d to %d is no range", r.From, r.To)
	case !foreign && (r.From < 1 || r.To < r.From || r.To > n):
		c.at(path, "create.namespaces: from %d to %d is not within 1 to %d (namespaces.count)", r.From, r.To, n)
	}
	c.notNegative(path+".each", "range.each", r.Each)
	if r.Each > 0 && x.PerNamespace > 0 {
		c.at(path+".each", "range.each: belongs to count; perNamespace says it already")
	}
}

func (c *checker) createBodies(path string, x *Create) {
	switch {
	case x.Body == "" && len(x.Objects) == 0 && c.given(path+".objects"):
		c.at(path+".objects", "create.objects: no objects")
	case len(x.Objects) == 0:
		c.bodyName(path+".body", "create.body", x.Body)
	case x.Body != "":
		c.at(path, "create: exactly one of body and objects is needed")
	}
	if len(x.Objects) > 0 && x.Name != "" && c.given(path+".name") {
		c.at(path+".name", "create.name: with objects each of them has a name of its own")
	}
	seen := map[[2]string]bool{}
	for i, o := range x.Objects {
		at := fmt.Sprintf("%s.objects[%d]", path, i)
		c.bodyName(at+".body", "item.body", o.Body)
		if slices.Contains(c.s.bodyNames(), o.Body) {
			c.objectName(at+".name", "item.name", o.Name, x.highest())
		}
		c.with(at+".with", "item.with", o.Body, o.With)
		if o.Replicas < 1 {
			c.at(at+".replicas", "item.replicas: %d is below 1", o.Replicas)
		}
		if o.Every < 1 {
			c.at(at+".every", "item.every: %d is below 1", o.Every)
		}
		key := [2]string{o.Body, o.Name}
		if seen[key] {
			c.at(at, "item: body %q with name %q stands twice", clip(o.Body), clip(o.Name))
		}
		seen[key] = true
	}
}

// highest is a number at least as high as that of each index.
func (c *Create) highest() int { return max(c.Count, c.PerNamespace) }

// objectName checks what names of objects begin with.
func (c *checker) objectName(path, name, value string, highest int) {
	if len(validation.IsDNS1123Subdomain(fmt.Sprintf("%s-%d", value, max(0, highest)))) > 0 {
		c.at(path, "%s: %q does not begin the name of an object", name, clip(value))
	}
}

func (c *checker) createCount(path string, x *Create) {
	count, each := c.given(path+".count") || x.Count != 0, c.given(path+".perNamespace") || x.PerNamespace != 0
	switch {
	case count && each:
		c.at(path, "create: exactly one of count and perNamespace is needed")
	case !count && !each:
		c.at(path, "create.count: how many objects is needed")
	}
	c.notNegative(path+".count", "create.count", x.Count)
	c.notNegative(path+".perNamespace", "create.perNamespace", x.PerNamespace)
}

func (c *checker) retry(path string, r Retry) {
	c.notNegative(path+".times", "retry.times", r.Times)
	if r.Times == 0 && !c.given(path+".times") && (len(r.Codes) > 0 || r.Delay != 0) {
		c.at(path, "retry.times: how often is needed")
	}
	for i, code := range r.Codes {
		if code < 400 || code > 599 {
			c.at(fmt.Sprintf("%s.codes[%d]", path, i), "retry.codes: %d is not the code of an answer that failed, 400 to 599", code)
		}
	}
	if r.Delay < 0 {
		c.at(path+".delay", "retry.delay: %s is below 0s", r.Delay)
	}
}

func (c *checker) scale(path string, x *Scale, before made) {
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
	c.pace(path+".pace", x.Pace, true)
	c.lasting(path+".timeout", "scale.timeout", x.Timeout)
}

func (c *checker) update(path string, x *Update, before made) {
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
	c.pace(path+".pace", x.Pace, true)
	c.lasting(path+".timeout", "update.timeout", x.Timeout)
	c.retry(path+".retry", x.Retry)
}

func (c *checker) churn(path string, x *Churn, before made) {
	if made := c.reference(path+".step", "churn.step", x.Step, before); made != nil {
		for i, body := range x.Objects {
			if text := made.objectFault(body, true); text != "" {
				c.at(fmt.Sprintf("%s.objects[%d]", path, i), "churn.objects: %s", text)
			}
		}
	}
	if x.Namespaces != "" {
		c.reference(path+".namespaces", "churn.namespaces", x.Namespaces, before)
	}
	for i := range x.Wait {
		c.wait(fmt.Sprintf("%s.wait[%d]", path, i), &x.Wait[i], before)
	}
	if x.Rest < 0 {
		c.at(path+".rest", "churn.rest: %s is below 0s", x.Rest)
	}
	if !(x.Percent > 0 && x.Percent <= 100) {
		c.at(path+".percent", "churn.percent: %s is not above 0 and at most 100", formatValue(x.Percent))
	}
	c.notNegative(path+".cycles", "churn.cycles", x.Cycles)
	if x.For < 0 {
		c.at(path+".for", "churn.for: %s is below 0s", x.For)
	}
	if x.Cycles == 0 && x.For == 0 {
		c.at(path, "churn: cycles or for is needed")
	}
	if x.Delay < 0 {
		c.at(path+".delay", "churn.delay: %s is below 0s", x.Delay)
	}
	c.pace(path+".pace", x.Pace, true)
	c.lasting(path+".timeout", "churn.timeout", x.Timeout)
}

func (c *checker) delete(path string, x *Delete, before made) {
	c.reference(path+".step", "delete.step", x.Step, before)
	c.word(path+".propagation", "delete.propagation", x.Propagation)
	c.pace(path+".pace", x.Pace, true)
	c.lasting(path+".timeout", "delete.timeout", x.Timeout)
}
