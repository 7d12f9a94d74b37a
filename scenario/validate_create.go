package scenario

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
)

// createChecker checks the steps that make objects.
type createChecker struct{ *checker }

func (c createChecker) checkCreate(path string, x *Create) {
	c.checkBodies(path, x)
	c.checkCount(path, x)
	if len(x.Objects) == 0 && c.isGiven(path+".name") {
		c.checkObjectName(path+".name", "create.name", x.Name, x.highestIndex())
	}
	if len(validation.IsValidLabelValue(x.Group)) > 0 {
		c.reportAt(path+".group", "create.group: %q is not a label's value", clipText(x.Group))
	}
	if x.Namespace != "" {
		c.checkLabel(path+".namespace", "create.namespace", x.Namespace)
	}
	if x.Namespaces != nil {
		c.namespaceRange(path+".namespaces", x)
	}
	if x.Pause < 0 {
		c.reportAt(path+".pause", "create.pause: %s is below 0s", x.Pause)
	} else if x.Pause > 0 && !x.PerObject {
		c.reportAt(path+".pause", "create.pause: belongs to perObject")
	}
	c.checkVariables(path+".with", "create.with", x.Body, x.With)
	paceChecker(c).checkCalls(path, "create", x.Pace, x.Timeout)
	paceChecker(c).checkRetry(path+".retry", x.Retry)
}

func (c createChecker) namespaceRange(path string, x *Create) {
	r, n := x.Namespaces, c.s.Namespaces.Count
	if r.Prefix != "" {
		c.checkLabel(path+".prefix", "range.prefix", r.Prefix)
	}
	switch foreign := r.Prefix != "" && (r.Prefix != c.s.Namespaces.Prefix || n == 0); {
	case x.Namespace != "":
		c.reportAt(path, "create: at most one of namespace and namespaces")
	case foreign && (r.From < 0 || r.To < r.From):
		c.reportAt(path, "create.namespaces: from %d to %d is no range", r.From, r.To)
	case !foreign && (r.From < 1 || r.To < r.From || r.To > n):
		c.reportAt(path, "create.namespaces: from %d to %d is not within 1 to %d (namespaces.count)", r.From, r.To, n)
	}
	c.checkNotNegative(path+".each", "range.each", r.Each)
	if r.Pause < 0 || r.Pause > 0 && (r.Each == 0 || !x.PerObject) {
		c.reportAt(path+".pause", "range.pause: %s is below 0s, or each and perObject are missing", r.Pause)
	}
	if r.Each > 0 && x.PerNamespace > 0 {
		c.reportAt(path+".each", "range.each: belongs to count; perNamespace says it already")
	}
}

func (c createChecker) checkBodies(path string, x *Create) {
	switch {
	case x.Body == "" && len(x.Objects) == 0 && c.isGiven(path+".objects"):
		c.reportAt(path+".objects", "create.objects: no objects")
	case len(x.Objects) == 0:
		c.checkBodyName(path+".body", "create.body", x.Body)
	case x.Body != "":
		c.reportAt(path, "create: exactly one of body and objects is needed")
	}
	if len(x.Objects) > 0 && x.Name != "" && c.isGiven(path+".name") {
		c.reportAt(path+".name", "create.name: with objects each of them has a name of its own")
	}
	seen := map[[2]string]bool{}
	for i, o := range x.Objects {
		at := fmt.Sprintf("%s.objects[%d]", path, i)
		c.checkBodyName(at+".body", "item.body", o.Body)
		if slices.Contains(c.s.bodyNames(), o.Body) {
			c.checkObjectName(at+".name", "item.name", o.Name, x.highestIndex())
		}
		c.checkVariables(at+".with", "item.with", o.Body, o.With)
		if o.Replicas < 1 {
			c.reportAt(at+".replicas", "item.replicas: %d is below 1", o.Replicas)
		}
		if o.Every < 1 {
			c.reportAt(at+".every", "item.every: %d is below 1", o.Every)
		}
		key := [2]string{o.Body, o.Name}
		if seen[key] {
			c.reportAt(at, "item: body %q with name %q stands twice", clipText(o.Body), clipText(o.Name))
		}
		seen[key] = true
	}
}

// highestIndex is a number at least as high as that of each index.
func (c *Create) highestIndex() int { return max(c.Count, c.PerNamespace) }

func (c createChecker) checkCount(path string, x *Create) {
	count, each := c.isGiven(path+".count") || x.Count != 0, c.isGiven(path+".perNamespace") || x.PerNamespace != 0
	switch {
	case count && each:
		c.reportAt(path, "create: exactly one of count and perNamespace is needed")
	case !count && !each:
		c.reportAt(path, "create.count: how many objects is needed")
	}
	c.checkNotNegative(path+".count", "create.count", x.Count)
	c.checkNotNegative(path+".perNamespace", "create.perNamespace", x.PerNamespace)
	c.checkProduct(path, x)
}

// checkProduct bounds the objects of a step altogether, where each factor is fine.
func (c createChecker) checkProduct(path string, x *Create) {
	namespaces := float64(max(1, c.s.Namespaces.Count))
	if r := x.Namespaces; r != nil {
		namespaces = max(1, float64(r.To)-float64(r.From)+1)
	}
	replicas := 0.0
	for _, o := range x.Objects {
		replicas += float64(max(1, o.Replicas))
	}
	indices := max(float64(x.Count), namespaces*float64(x.PerNamespace))
	if all := indices * max(1, replicas); all > maxObjects && x.highestIndex() <= maxObjects {
		c.reportAt(path, "create: %.0f objects are more than %d", all, maxObjects)
	}
}
