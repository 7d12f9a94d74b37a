package scenario

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
)

// requestsChecker checks the steps that send any calls.
type requestsChecker struct{ *checker }

func (c requestsChecker) checkRequests(path string, x *Requests, before createdSteps) {
	c.checkNotNegative(path+".count", "requests.count", x.Count)
	c.checkNotNegativeTime(path+".for", "requests.for", x.For)
	c.checkNotNegative(path+".rounds", "requests.rounds", x.Rounds)
	switch {
	case x.Count != 0 && x.Rounds != 0:
		c.reportAt(path, "requests: at most one of count and rounds")
	case x.Rounds > 0:
		for i := range x.Mix {
			if !x.Mix[i].selectsObjects() {
				c.reportAt(fmt.Sprintf("%s.mix[%d]", path, i), "requests.rounds: needs calls that select their objects by selector")
			}
		}
	case x.Count == 0 && x.For == 0 && x.Pace.Replay == "":
		c.reportAt(path, "requests: count, rounds or for is needed")
	case x.Count == 0 && x.Pace.Burst:
		c.reportAt(path, "requests.count: a burst needs it")
	}
	paceChecker(c).checkPace(path+".pace", x.Pace, x.Count > 0 || x.Rounds > 0)
	if len(x.Mix) == 0 {
		c.reportAt(path+".mix", "requests.mix: no calls")
	}
	for i := range x.Mix {
		at := fmt.Sprintf("%s.mix[%d]", path, i)
		if c.checkCall(at, &x.Mix[i], before); x.Mix[i].Verb == "watch" && x.Connection == NewConnections {
			c.reportAt(at+".verb", "requests.connection: a watch keeps its connection; new is for calls that end")
		}
	}
	c.checkPositiveTime(path+".timeout", "requests.timeout", x.Timeout)
	c.checkWord(path+".connection", "requests.connection", x.Connection)
	paceChecker(c).checkRetry(path+".retry", x.Retry)
}

func (c requestsChecker) checkCall(path string, x *Call, before createdSteps) {
	if !slices.Contains(fieldWords("call.verb"), x.Verb) {
		c.checkWord(path+".verb", "call.verb", x.Verb)
		return
	}
	c.checkPositive(path+".weight", "call.weight", x.Weight)
	c.checkFields(path, x)
	c.checkTarget(path, x, before)
	if x.Body != "" || slices.Contains([]string{"create", "update", "patch"}, x.Verb) {
		c.checkBodyName(path+".body", "call.body", x.Body)
	}
	c.checkVariables(path+".with", "call.with", x.Body, x.With)
	for _, w := range []struct{ name, value string }{{"informer", x.Informer}, {"pick", x.Pick}, {"patch", x.Patch}, {"propagation", x.Propagation}} {
		if w.value != "" {
			c.checkWord(path+"."+w.name, "call."+w.name, w.value)
		}
	}
	selector, fieldSelector := x.Selector, x.FieldSelector
	switch {
	case x.Verb == "list" || x.Verb == "watch":
		selector, fieldSelector = ForClient(selector, 0), ForClient(fieldSelector, 0)
	case strings.Contains(fieldSelector, ClientMark):
		c.reportAt(path+".fieldSelector", "call.fieldSelector: %s belongs to list and watch, not to %s", ClientMark, x.Verb)
	}
	c.checkSelector(path+".selector", "call.selector", selector)
	if _, err := fields.ParseSelector(fieldSelector); err != nil {
		c.reportAt(path+".fieldSelector", "call.fieldSelector: %q is not a field selector: %v", clipText(x.FieldSelector), err)
	}
	c.checkNotNegative(path+".limit", "call.limit", x.Limit)
	if x.ResourceVersion != "" && x.ResourceVersion != "0" {
		c.reportAt(path+".resourceVersion", `call.resourceVersion: %q is neither "" nor "0"`, clipText(x.ResourceVersion))
	}
	c.checkNotNegativeTime(path+".hold", "call.hold", x.Hold)
}

// isSingle tells whether a call is of one object.
func (x *Call) isSingle() bool {
	return !slices.Contains([]string{"list", "watch", "deletecollection"}, x.Verb)
}

// selectsObjects tells whether a call's objects are looked for when its step begins.
func (x *Call) selectsObjects() bool { return x.isSingle() && x.Resource != "" && x.Name == "" }

// callFields refuses the fields that a verb has no use for.
func (c requestsChecker) checkFields(path string, x *Call) {
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
		{"optional", []string{"get", "update", "patch", "delete", "deletecollection"}},
		{"fieldSelector", many},
		{"limit", []string{"list"}},
		{"resourceVersion", []string{"get", "list"}},
		{"hold", []string{"watch"}},
		{"informer", []string{"watch"}},
		{"propagation", []string{"delete", "deletecollection"}},
		{"subresource", []string{"get", "create", "update", "patch"}},
	} {
		if !slices.Contains(f.verbs, x.Verb) && len(setFields(x, f.name)) > 0 {
			c.reportAt(path+"."+f.name, "call.%s: belongs to %s, not to %s", f.name, joinWords(f.verbs), x.Verb)
		}
	}
}

// callTarget checks what a call is sent to.
func (c requestsChecker) checkTarget(path string, x *Call, before createdSteps) {
	creation := x.Verb == "create" && x.Subresource == ""
	switch {
	case creation && (x.Of != "" || x.Resource != ""):
		c.reportAt(path, "call: create has neither of nor resource: its body says what is made")
		return
	case creation:
		c.checkObjectName(path+".name", "call.name", x.Name, 1)
		return
	case (x.Of == "") == (x.Resource == ""):
		c.reportAt(path, "call: exactly one of of and resource is needed")
		return
	case x.Of != "":
		if made := c.checkReference(path+".of", "call.of", x.Of, before); made != nil {
			if text := made.objectFault(x.Object, true); text != "" {
				c.reportAt(path+".object", "call.object: %s", text)
			}
		}
	default:
		c.checkResource(path+".resource", "call.resource", x.Resource)
	}
	c.checkNames(path, x)
}

// callNames checks the name and the namespace of a call that has a resource,
// and refuses them where the create step says them.
func (c requestsChecker) checkNames(path string, x *Call) {
	single := x.isSingle()
	switch {
	case x.Of != "" && x.Name != "":
		c.reportAt(path+".name", "call.name: belongs to resource; of has the names of what the step made")
	case x.Of != "" && x.Namespace != "":
		c.reportAt(path+".namespace", "call.namespace: belongs to resource; of has the namespaces of what the step made")
	case x.Resource != "" && single && (x.Name == "") == (x.Selector == ""):
		c.reportAt(path, "call: exactly one of name and selector is needed")
	case x.Optional && single && x.Selector == "" && x.Of == "":
		c.reportAt(path+".optional", "call.optional: belongs to selector and of")
	case x.Of != "" && single && x.Selector != "":
		c.reportAt(path+".selector", "call.selector: belongs to resource; of has the objects that the step made")
	case !single && x.Name != "":
		c.reportAt(path+".name", "call.name: %s is of many objects; one is had by fieldSelector: metadata.name=%s", x.Verb, clipText(x.Name))
	case x.Namespace == "*" && single && x.Name != "":
		c.reportAt(path+".namespace", "call.namespace: %s is of one object in one namespace", x.Verb)
	case x.Namespace == "*" && x.Verb == "deletecollection":
		c.reportAt(path+".namespace", "call.namespace: deletecollection is of one namespace")
	case x.Namespace != "" && x.Namespace != "*":
		c.checkLabel(path+".namespace", "call.namespace", x.Namespace)
	}
	if x.Of == "" {
		for _, name := range setFields(x, "pick", "object") {
			c.reportAt(path+"."+name, "call.%s: belongs to of", name)
		}
	}
}
