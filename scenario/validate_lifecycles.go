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

// checkLifecycles checks the lifecycles that the scenario declares.
func (c lifecycleChecker) checkLifecycles() {
	seen := map[string]bool{PodLifecycle: true}
	for i, l := range c.s.Lifecycles {
		path := fmt.Sprintf("lifecycles[%d]", i)
		c.checkLifecycle(path, l)
		switch name := l.Resolved().Name; {
		case l.Use == PodLifecycle:
		case name == PodLifecycle:
			c.reportAt(path+".name", "lifecycle.name: %q is recorded in every run; take another name", name)
		case seen[name]:
			c.reportAt(path, "lifecycle: name %q stands twice", clipText(name))
		default:
			seen[name] = true
		}
	}
}

func (c lifecycleChecker) checkLifecycle(path string, l Lifecycle) {
	if l.Cluster != "" {
		memberChecker(c).checkCluster(path+".cluster", "lifecycle.cluster", l.Cluster)
	}
	if l.Use == PodLifecycle {
		c.podsOf(path, l)
		return
	}
	if l.Use != "" {
		c.checkWord(path+".use", "lifecycle.use", l.Use)
		for _, name := range setFields(l, "of", "inOrder", "links", "phases") {
			c.reportAt(path+"."+name, "lifecycle.%s: use says it already", name)
		}
	} else {
		c.kindOf(path+".of", "lifecycle.of", l.Of)
	}
	if l.Use == "" || l.Name != "" {
		c.checkLabel(path+".name", "lifecycle.name", l.Name)
	}
	c.checkWhere(path, "lifecycle", l.Namespace, l.Selector)
	if l.Group != "" && len(validation.IsQualifiedName(l.Group)) > 0 {
		c.reportAt(path+".group", "lifecycle.group: %q is not the name of a label", clipText(l.Group))
	}
	if l.Use == "" {
		c.checkPhases(path, l, c.checkLinks(path, l.Links))
	}
}

// podsOf checks which members' pods are recorded.
func (c lifecycleChecker) podsOf(path string, l Lifecycle) {
	if l.Cluster == "" {
		c.reportAt(path+".use", "lifecycle.use: the pods of the plane are recorded in every run; those of members with cluster")
	}
	for _, name := range setFields(l, "name", "of", "namespace", "selector", "group", "inOrder", "links", "phases") {
		c.reportAt(path+"."+name, "lifecycle.%s: all pods are recorded alike", name)
	}
}

// checkWhere checks which objects of a resource are meant.
func (c lifecycleChecker) checkWhere(path, what, namespace, selector string) {
	if namespace != "" {
		c.checkLabel(path+".namespace", what+".namespace", namespace)
	}
	c.checkSelector(path+".selector", what+".selector", selector)
}

// kindOf checks a resource, which may be named by its kind.
func (c lifecycleChecker) kindOf(path, name, value string) {
	if _, _, ok := ParseKind(value); !ok {
		c.checkResource(path, name, value)
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

// checkLinks checks a lifecycle's links and returns their names.
func (c lifecycleChecker) checkLinks(path string, list []Link) []string {
	var known []string
	for i, l := range list {
		at := fmt.Sprintf("%s.links[%d]", path, i)
		switch {
		case !phaseName.MatchString(l.Name):
			c.reportAt(at+".name", "link.name: %q is not a letter and letters, digits and - after it", clipText(l.Name))
		case slices.Contains(known, l.Name):
			c.reportAt(at+".name", "link: name %q stands twice", l.Name)
		}
		known = append(known, l.Name)
		c.kindOf(at+".of", "link.of", l.Of)
		c.checkWhere(at, "link", l.Namespace, l.Selector)
		if l.By != "" {
			c.checkWord(at+".by", "link.by", l.By)
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
			c.reportAt(path, "link.%s: is needed with by: %s", f.name, f.by)
		case l.By != f.by && f.value != "":
			c.reportAt(path+"."+f.name, "link.%s: belongs to by: %s", f.name, f.by)
		case f.value == "":
		case f.name == "label":
			if len(validation.IsQualifiedName(f.value)) > 0 {
				c.reportAt(path+".label", "link.label: %q is not the name of a label", clipText(f.value))
			}
		default:
			if _, err := ParseKey(f.value); err != nil {
				c.reportAt(path+"."+f.name, "link.%s: %v", f.name, err)
			}
		}
	}
}

// checkPhases checks a lifecycle's phases.
func (c lifecycleChecker) checkPhases(path string, l Lifecycle, links []string) {
	if len(l.Phases) > maxPhases {
		c.reportAt(path+".phases", "lifecycle.phases: more than %d", maxPhases)
	}
	seen := map[string]bool{}
	for i, p := range l.Phases {
		at := fmt.Sprintf("%s.phases[%d]", path, i)
		c.checkPhase(at, p, links)
		switch name := p.resolvedPhase().Name; {
		case slices.Contains([]string{phaseCreated, phaseDeleting, phaseDeleted, "unknown"}, name):
			c.reportAt(at, "phase: every lifecycle has %q; take another name", name)
		case !phaseName.MatchString(name):
			c.reportAt(at+".name", "phase.name: %q is not a letter and letters, digits and - after it", clipText(name))
		case seen[name]:
			c.reportAt(at, "phase: name %q stands twice", name)
		default:
			seen[name] = true
		}
	}
}

func (c lifecycleChecker) checkPhase(path string, p Phase, links []string) {
	ways := len(setFields(p, "when", "condition", "deleted"))
	switch {
	case ways > 1:
		c.reportAt(path, "phase: at most one of when, condition and deleted")
	case ways == 0 && p.On == "":
		c.reportAt(path, "phase: when or condition is needed")
	case p.Deleted && p.On == "":
		c.reportAt(path+".deleted", "phase.deleted: belongs to on")
	}
	if p.On != "" && !slices.Contains(links, p.On) {
		c.reportAt(path+".on", "phase.on: no link is called %q%s", clipText(p.On), suggestName(p.On, links))
	}
	c.checkNotNegative(path+".count", "phase.count", p.Count)
	if p.Count > 0 && p.On == "" {
		c.reportAt(path+".count", "phase.count: belongs to on")
	}
	if p.When != "" {
		if _, err := ParseCondition(p.When); err != nil {
			c.reportAt(path+".when", "phase.when: %v", err)
		}
	}
	if p.Condition != "" && !conditionName.MatchString(p.Condition) {
		c.reportAt(path+".condition", "phase.condition: %q is not a type of a condition", clipText(p.Condition))
	}
}

var conditionName = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_./-]*[A-Za-z0-9])?$`)
