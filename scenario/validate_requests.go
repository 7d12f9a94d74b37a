package scenario

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/fields"
)

// requestsChecker checks the steps that send any calls.
type requestsChecker struct{ *checker }

func (c requestsChecker) requests(path string, x *Requests, before made) {
	c.notNegative(path+".count", "requests.count", x.Count)
	c.notNegativeTime(path+".for", "requests.for", x.For)
	c.notNegative(path+".rounds", "requests.rounds", x.Rounds)
	switch {
	case x.Count != 0 && x.Rounds != 0:
		c.at(path, "requests: at most one of count and rounds")
	case x.Rounds > 0:
		for i := range x.Mix {
			if !x.Mix[i].selects() {
				c.at(fmt.Sprintf("%s.mix[%d]", path, i), "requests.rounds: needs calls that select their objects by selector")
			}
		}
	case x.Count == 0 && x.For == 0 && x.Pace.Replay == "":
		c.at(path, "requests: count, rounds or for is needed")
	case x.Count == 0 && x.Pace.Burst:
		c.at(path, "requests.count: a burst needs it")
	}
	paceChecker(c).pace(path+".pace", x.Pace, x.Count > 0 || x.Rounds > 0)
	if len(x.Mix) == 0 {
		c.at(path+".mix", "requests.mix: no calls")
	}
	for i := range x.Mix {
		c.call(fmt.Sprintf("%s.mix[%d]", path, i), &x.Mix[i], before)
	}
	c.lasting(path+".timeout", "requests.timeout", x.Timeout)
	paceChecker(c).retry(path+".retry", x.Retry)
}

func (c requestsChecker) call(path string, x *Call, before made) {
	if !slices.Contains(words("call.verb"), x.Verb) {
		c.word(path+".verb", "call.verb", x.Verb)
		return
	}
	c.positive(path+".weight", "call.weight", x.Weight)
	c.fields(path, x)
	c.target(path, x, before)
	if x.Body != "" || slices.Contains([]string{"create", "update", "patch"}, x.Verb) {
		c.bodyName(path+".body", "call.body", x.Body)
	}
	c.with(path+".with", "call.with", x.Body, x.With)
	for _, w := range []struct{ name, value string }{{"pick", x.Pick}, {"patch", x.Patch}, {"propagation", x.Propagation}} {
		if w.value != "" {
			c.word(path+"."+w.name, "call."+w.name, w.value)
		}
	}
	c.selector(path+".selector", "call.selector", x.Selector)
	if _, err := fields.ParseSelector(x.FieldSelector); err != nil {
		c.at(path+".fieldSelector", "call.fieldSelector: %q is not a field selector: %v", clip(x.FieldSelector), err)
	}
	c.notNegative(path+".limit", "call.limit", x.Limit)
	if x.ResourceVersion != "" && x.ResourceVersion != "0" {
		c.at(path+".resourceVersion", `call.resourceVersion: %q is neither "" nor "0"`, clip(x.ResourceVersion))
	}
	c.notNegativeTime(path+".hold", "call.hold", x.Hold)
}

// single tells whether a call is of one object.
func (x *Call) single() bool {
	return !slices.Contains([]string{"list", "watch", "deletecollection"}, x.Verb)
}

// selects tells whether a call's objects are looked for when its step begins.
func (x *Call) selects() bool { return x.single() && x.Resource != "" && x.Name == "" }

// callFields refuses the fields that a verb has no use for.
func (c requestsChecker) fields(path string, x *Call) {
	many := []string{"list", "watch", "deletecollection"}
	selecting := append([]string{"get", "update", "patch", "delete"}, many...)
	for _, f := range []struct {
		name  string
		verbs []string
	}{
		{"body", []string{"create", "update", "patch"}},
		{"with", []string{"create", "update", "patch"}},
		{"patch", []string{"patch"}},
		{"selector", selecting},
		{"optional", []string{"get", "update", "patch", "delete"}},
		{"fieldSelector", many},
		{"limit", []string{"list"}},
		{"resourceVersion", []string{"get", "list"}},
		{"hold", []string{"watch"}},
		{"propagation", []string{"delete", "deletecollection"}},
		{"subresource", []string{"get", "create", "update", "patch"}},
	} {
		if !slices.Contains(f.verbs, x.Verb) && len(setFields(x, f.name)) > 0 {
			c.at(path+"."+f.name, "call.%s: belongs to %s, not to %s", f.name, all(f.verbs), x.Verb)
		}
	}
}

// callTarget checks what a call is sent to.
func (c requestsChecker) target(path string, x *Call, before made) {
	creation := x.Verb == "create" && x.Subresource == ""
	switch {
	case creation && (x.Of != "" || x.Resource != ""):
		c.at(path, "call: create has neither of nor resource: its body says what is made")
		return
	case creation:
		c.objectName(path+".name", "call.name", x.Name, 1)
		return
	case (x.Of == "") == (x.Resource == ""):
		c.at(path, "call: exactly one of of and resource is needed")
		return
	case x.Of != "":
		if made := c.reference(path+".of", "call.of", x.Of, before); made != nil {
			if text := made.objectFault(x.Object, true); text != "" {
				c.at(path+".object", "call.object: %s", text)
			}
		}
	default:
		c.resource(path+".resource", "call.resource", x.Resource)
	}
	c.names(path, x)
}

// callNames checks the name and the namespace of a call that has a resource,
// and refuses them where the create step says them.
func (c requestsChecker) names(path string, x *Call) {
	single := x.single()
	switch {
	case x.Of != "" && x.Name != "":
		c.at(path+".name", "call.name: belongs to resource; of has the names of what the step made")
	case x.Of != "" && x.Namespace != "":
		c.at(path+".namespace", "call.namespace: belongs to resource; of has the namespaces of what the step made")
	case x.Resource != "" && single && (x.Name == "") == (x.Selector == ""):
		c.at(path, "call: exactly one of name and selector is needed")
	case x.Optional && x.Selector == "":
		c.at(path+".optional", "call.optional: belongs to selector")
	case x.Of != "" && single && x.Selector != "":
		c.at(path+".selector", "call.selector: belongs to resource; of has the objects that the step made")
	case !single && x.Name != "":
		c.at(path+".name", "call.name: %s is of many objects; one is had by fieldSelector: metadata.name=%s", x.Verb, clip(x.Name))
	case x.Namespace == "*" && single && x.Name != "":
		c.at(path+".namespace", "call.namespace: %s is of one object in one namespace", x.Verb)
	case x.Namespace == "*" && x.Verb == "deletecollection":
		c.at(path+".namespace", "call.namespace: deletecollection is of one namespace")
	case x.Namespace != "" && x.Namespace != "*":
		c.label(path+".namespace", "call.namespace", x.Namespace)
	}
	if x.Of == "" {
		for _, name := range setFields(x, "pick", "object") {
			c.at(path+"."+name, "call.%s: belongs to of", name)
		}
	}
}
