package scenario

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// maxPhases bounds the phases of one lifecycle: what was seen of an object is a set
// of bits.
const maxPhases = 56

var phaseName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,62}$`)

// lifecycleChecker checks the lifecycles that a scenario declares.
type lifecycleChecker struct{ *checker }

// observed checks the lifecycles that the scenario declares.
func (c lifecycleChecker) observed() {
	seen := map[string]bool{PodLifecycle: true}
	for i, l := range c.s.Lifecycles {
		path := fmt.Sprintf("lifecycles[%d]", i)
		c.lifecycle(path, l)
		switch name := l.Resolved().Name; {
		case l.Use == PodLifecycle:
		case name == PodLifecycle:
			c.at(path+".name", "lifecycle.name: %q is recorded in every run; take another name", name)
		case seen[name]:
			c.at(path, "lifecycle: name %q stands twice", clip(name))
		default:
			seen[name] = true
		}
	}
}

func (c lifecycleChecker) lifecycle(path string, l Lifecycle) {
	if l.Cluster != "" {
		memberChecker(c).names(path+".cluster", "lifecycle.cluster", l.Cluster)
	}
	if l.Use == PodLifecycle {
		c.podsOf(path, l)
		return
	}
	if l.Use != "" {
		c.word(path+".use", "lifecycle.use", l.Use)
		for _, name := range setFields(l, "of", "inOrder", "links", "phases") {
			c.at(path+"."+name, "lifecycle.%s: use says it already", name)
		}
	} else {
		c.kindOf(path+".of", "lifecycle.of", l.Of)
	}
	if l.Use == "" || l.Name != "" {
		c.label(path+".name", "lifecycle.name", l.Name)
	}
	c.where(path, "lifecycle", l.Namespace, l.Selector)
	if l.Group != "" && len(validation.IsQualifiedName(l.Group)) > 0 {
		c.at(path+".group", "lifecycle.group: %q is not the name of a label", clip(l.Group))
	}
	if l.Use == "" {
		c.phases(path, l, c.links(path, l.Links))
	}
}

// podsOf checks which members' pods are recorded.
func (c lifecycleChecker) podsOf(path string, l Lifecycle) {
	if l.Cluster == "" {
		c.at(path+".use", "lifecycle.use: the pods of the plane are recorded in every run; those of members with cluster")
	}
	for _, name := range setFields(l, "name", "of", "namespace", "selector", "group", "inOrder", "links", "phases") {
		c.at(path+"."+name, "lifecycle.%s: all pods are recorded alike", name)
	}
}

// where checks which objects of a resource are meant.
func (c lifecycleChecker) where(path, what, namespace, selector string) {
	if namespace != "" {
		c.label(path+".namespace", what+".namespace", namespace)
	}
	c.selector(path+".selector", what+".selector", selector)
}

// kindOf checks a resource, which may be named by its kind.
func (c lifecycleChecker) kindOf(path, name, value string) {
	if _, _, ok := ParseKind(value); !ok {
		c.resource(path, name, value)
	}
}

// ParseKind reads a kind with its version, such as "batch/v1 Job".
func ParseKind(text string) (apiVersion, kind string, ok bool) {
	apiVersion, kind, ok = strings.Cut(text, " ")
	return apiVersion, kind, ok && kindName.MatchString(kind) && versionName.MatchString(apiVersion)
}

var (
	kindName    = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	versionName = regexp.MustCompile(`^([a-z0-9.-]+/)?v[0-9]+((alpha|beta)[0-9]+)?$`)
)

// links checks a lifecycle's links and returns their names.
func (c lifecycleChecker) links(path string, list []Link) []string {
	var known []string
	for i, l := range list {
		at := fmt.Sprintf("%s.links[%d]", path, i)
		switch {
		case !phaseName.MatchString(l.Name):
			c.at(at+".name", "link.name: %q is not a letter and letters, digits and - after it", clip(l.Name))
		case slices.Contains(known, l.Name):
			c.at(at+".name", "link: name %q stands twice", l.Name)
		}
		known = append(known, l.Name)
		c.kindOf(at+".of", "link.of", l.Of)
		c.where(at, "link", l.Namespace, l.Selector)
		if l.By != "" {
			c.word(at+".by", "link.by", l.By)
		}
		c.linkBy(at, l)
	}
	return known
}

// linkBy checks by what the objects are found.
func (c lifecycleChecker) linkBy(path string, l Link) {
	for _, f := range []struct {
		name, by, value string
		needed          bool
	}{{"label", "label", l.Label, true}, {"key", "key", l.Key, true}, {"to", "key", l.To, false}} {
		switch {
		case l.By == f.by && f.value == "" && f.needed:
			c.at(path, "link.%s: is needed with by: %s", f.name, f.by)
		case l.By != f.by && f.value != "":
			c.at(path+"."+f.name, "link.%s: belongs to by: %s", f.name, f.by)
		case f.value == "":
		case f.name == "label":
			if len(validation.IsQualifiedName(f.value)) > 0 {
				c.at(path+".label", "link.label: %q is not the name of a label", clip(f.value))
			}
		default:
			if _, err := ParseKey(f.value); err != nil {
				c.at(path+"."+f.name, "link.%s: %v", f.name, err)
			}
		}
	}
}

// phases checks a lifecycle's phases.
func (c lifecycleChecker) phases(path string, l Lifecycle, links []string) {
	if len(l.Phases) > maxPhases {
		c.at(path+".phases", "lifecycle.phases: more than %d", maxPhases)
	}
	seen := map[string]bool{}
	for i, p := range l.Phases {
		at := fmt.Sprintf("%s.phases[%d]", path, i)
		c.phase(at, p, links)
		switch name := p.resolved().Name; {
		case slices.Contains([]string{phaseCreated, phaseDeleting, phaseDeleted, "unknown"}, name):
			c.at(at, "phase: every lifecycle has %q; take another name", name)
		case !phaseName.MatchString(name):
			c.at(at+".name", "phase.name: %q is not a letter and letters, digits and - after it", clip(name))
		case seen[name]:
			c.at(at, "phase: name %q stands twice", name)
		default:
			seen[name] = true
		}
	}
}

func (c lifecycleChecker) phase(path string, p Phase, links []string) {
	ways := len(setFields(p, "when", "condition", "deleted"))
	switch {
	case ways > 1:
		c.at(path, "phase: at most one of when, condition and deleted")
	case ways == 0 && p.On == "":
		c.at(path, "phase: when or condition is needed")
	case p.Deleted && p.On == "":
		c.at(path+".deleted", "phase.deleted: belongs to on")
	}
	if p.On != "" && !slices.Contains(links, p.On) {
		c.at(path+".on", "phase.on: no link is called %q%s", clip(p.On), hint(p.On, links))
	}
	c.notNegative(path+".count", "phase.count", p.Count)
	if p.Count > 0 && p.On == "" {
		c.at(path+".count", "phase.count: belongs to on")
	}
	if p.When != "" {
		if _, err := ParseCondition(p.When); err != nil {
			c.at(path+".when", "phase.when: %v", err)
		}
	}
	if p.Condition != "" && !conditionName.MatchString(p.Condition) {
		c.at(path+".condition", "phase.condition: %q is not a type of a condition", clip(p.Condition))
	}
}

var conditionName = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_./-]*[A-Za-z0-9])?$`)
