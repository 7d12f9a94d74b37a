package scenario

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/windtunnel/windtunnel/internal/unit"
)

// Validate checks a scenario that was not read from a file; Load and Parse
// have done so already. It joins all problems.
func (s *Scenario) Validate() error {
	f := &problems{file: s.File, fragments: s.fragments}
	s.checkAll(f)
	return f.join()
}

// fieldChecker has the rules for single values, and collects their problems.
type fieldChecker struct {
	*problems
	s *Scenario
}

// checker has the names by which one part of a scenario refers to another. The
// checker of each part embeds it.
type checker struct {
	fieldChecker
	steps         map[string]string // step name -> its path
	creates       []string          // names of the create steps so far, those of other branches too
	groups        []string          // groups that they make on the plane, and those of groups
	inside        []string          // groups that they make in members whose pods are recorded
	cluster       string            // of the step that is checked
	membersOfStep map[string]string // cluster of the create steps so far, by name
}

// fileChecker checks a whole scenario, and itself what is said once in it.
type fileChecker struct{ *checker }

// reportAt reports a fault of the value at a path, under its short name.
func (c *fieldChecker) reportAt(path, format string, args ...any) {
	c.add(c.s.lineOf(path), format, args...)
}

// isGiven tells whether the file has a value at the path.
func (c *fieldChecker) isGiven(path string) bool { _, ok := c.s.lines[path]; return ok }

// bodyNames are the names of bodies, sorted.
func (s *Scenario) bodyNames() []string { return slices.Sorted(maps.Keys(s.Bodies)) }

func (s *Scenario) checkAll(f *problems) {
	c := fileChecker{&checker{fieldChecker: fieldChecker{f, s}, steps: map[string]string{}, membersOfStep: map[string]string{}}}
	c.checkLabel("scenario", "scenario", s.Name)
	if s.lines == nil && len(s.Include)+len(s.Fragments) > 0 {
		c.reportAt("include", "include: only a file includes others: give the bodies, measures and charts themselves")
	}
	c.checkWord("failedCalls", "failedCalls", s.FailedCalls)
	c.checkAbortOn(s.AbortOn)
	c.checkPlane()
	c.checkFleet("fleet", &c.s.Fleet)
	memberChecker(c).checkMembers()
	c.checkNamespaces()
	c.checkPreflight()
	c.checkFiles("crds", "crds", s.CRDs)
	c.checkFiles("manifests", "manifests", s.Manifests)
	subjectChecker(c).checkSubjects()
	for _, name := range s.bodyNames() {
		c.checkBody(name, s.Bodies[name])
	}
	if len(s.Steps) == 0 {
		c.reportAt("steps", "scenario: no steps%s", c.allLeftOut())
	}
	for i, g := range s.Groups {
		c.checkGroup(fmt.Sprintf("groups[%d]", i), g)
	}
	stepChecker(c).checkSequence("steps", s.Steps, createdSteps{})
	upgradeChecker(c).checkSkew()
	lifecycleChecker(c).checkLifecycles()
	objectives := map[string]bool{}
	for i := range s.Objectives {
		path := fmt.Sprintf("objectives[%d]", i)
		objectiveChecker(c).checkObjective(path, &s.Objectives[i])
		o := &s.Objectives[i]
		what := fmt.Sprint(o.Name, o.SLO, o.Statistic, o.Labels) // how reports tell objectives apart
		if objectives[what] {
			c.reportAt(path, "objective: name %q stands twice", o.Name)
		}
		objectives[what] = true
	}
	for i, m := range s.Measures {
		objectiveChecker(c).checkMeasure(fmt.Sprintf("measures[%d]", i), m)
	}
	for i, d := range s.Charts {
		if d.Name == "" || d.Query == "" {
			c.reportAt(fmt.Sprintf("charts[%d]", i), "chart: name and query are needed")
		}
	}
	for i, v := range s.Map {
		if v.Name == "" || v.Query == "" {
			c.reportAt(fmt.Sprintf("map[%d]", i), "map: name and query are needed")
		}
	}
	for i, p := range s.Published {
		c.checkPublished(fmt.Sprintf("published[%d]", i), p)
	}
}

// checkPublished checks one of published.
func (c fileChecker) checkPublished(path string, p Published) {
	if p.Measure == "" || p.Source == "" {
		c.reportAt(path, "published: measure and source are needed")
	}
	sides := c.isGiven(path+".from") && c.isGiven(path+".to")
	switch {
	case p.Change == nil && (c.isGiven(path+".from") || c.isGiven(path+".to")):
		c.reportAt(path, "published: from and to are the two sides of a change, which is not there")
	case p.Change == nil:
	case c.isGiven(path+".value") || p.Value != 0:
		c.reportAt(path, "published: one of value and change is needed, not both")
	case !sides && c.s.lines != nil:
		c.reportAt(path, "published: a change needs from and to: which parameters its two sides have")
	case *p.Change <= -1:
		c.reportAt(path+".change", "published.change: %s is not above -100 %%: of what it is a share would be gone", formatValue(*p.Change))
	}
}

// checkAbortOn checks what ends a run early.
func (c *checker) checkAbortOn(a *AbortOn) {
	if a == nil {
		return
	}
	c.checkNotNegative("abortOn.failedCalls", "abortOn.failedCalls", a.FailedCalls)
	c.checkPositiveTime("abortOn.for", "abortOn.for", a.For)
	switch {
	case a.P99 < 0:
		c.reportAt("abortOn.p99", "abortOn.p99: %s is below 0s", a.P99)
	case a.P99 == 0 && a.FailedCalls == 0:
		c.reportAt("abortOn", "abortOn: failedCalls or p99 is needed")
	}
}

// checkLabel checks a DNS label.
func (c *fieldChecker) checkLabel(path, name, value string) {
	if value == "" {
		c.reportAt(path, "%s: a name is needed", name)
	} else if len(validation.IsDNS1123Label(value)) > 0 {
		c.reportAt(path, "%s: %q is not a DNS label: at most 63 of a-z, 0-9 and -, the first and the last not -", name, clipText(value))
	}
}

func (c *fieldChecker) checkOneOf(path, name, value string, allowed []string) {
	if !slices.Contains(allowed, value) {
		c.reportAt(path, "%s: %q is not one of %s%s", name, clipText(value), strings.Join(allowed, ", "), suggestName(value, allowed))
	}
}

// checkWord checks a field that takes only some values.
func (c *fieldChecker) checkWord(path, name, value string) {
	c.checkOneOf(path, name, value, fieldWords(name))
}

// minMemory is the smallest limit that a process is started in, in bytes: the kernel
// counts what it takes to start one, and in a smaller group ends whoever starts it.
const minMemory = 16 << 20

// The kernel takes no CPU limit below a millisecond in each period of 100 ms, and there is no
// machine of more cores.
const (
	minCores = 0.01
	maxCores = 100_000
)

// checkCores checks a CPU limit, in cores; 0 is none.
func (c *fieldChecker) checkCores(path, name string, cores float64) {
	if !(cores >= 0) || cores > 0 && cores < minCores || cores > maxCores {
		c.reportAt(path, "%s: %s is no CPU limit that can be enforced: %v to %d cores, or 0 for none", name, formatValue(cores), minCores, maxCores)
	}
}

// checkCapacity checks how much of a resource a node has: what an API server takes.
func (c *fieldChecker) checkCapacity(path, name, text string) {
	q, err := resource.ParseQuantity(text)
	amount, name := q.AsApproximateFloat64(), "fleet.capacity."+name
	whole := q.Cmp(*resource.NewQuantity(q.Value(), q.Format)) == 0
	switch milli := strings.HasSuffix(name, ".cpu"); {
	case err != nil || amount < 0:
		c.reportAt(path, "%s: %q is not a quantity such as 32, 500m or 256Gi", name, clipText(text))
	case milli && amount > maxCores || amount > 1<<60:
		c.reportAt(path, "%s: %s is more than any node has", name, clipText(text))
	case milli && q.Cmp(*resource.NewMilliQuantity(q.MilliValue(), q.Format)) != 0:
		c.reportAt(path, "%s: %s is not whole thousandths of a core", name, clipText(text))
	case !milli && !whole:
		c.reportAt(path, "%s: %s is not a whole number", name, clipText(text))
	}
}

// checkLimits checks what bounds a program, or the plane.
func (c *fieldChecker) checkLimits(path string, l Limits) {
	c.checkCores(path+".cpu", "limits.cpu", l.CPU)
	c.checkRunnable(path+".memory", "limits.memory", l.Memory)
}

// checkRunnable checks that a process can be started within a memory limit.
func (c *fieldChecker) checkRunnable(path, name string, limit unit.Bytes) {
	if limit > 0 && limit < minMemory {
		c.reportAt(path, "%s: %s is too little to start a process in: at least %s", name, limit.Human(), unit.Bytes(minMemory).Human())
	}
}

func (c *fieldChecker) flagName(path, name, flag string) {
	if strings.HasPrefix(flag, "-") || strings.Contains(flag, "=") || flag == "" {
		c.reportAt(path, "%s: %q is not a flag's name: no dashes before it and no value in it", name, flag)
	}
}

// checkFleet checks simulated nodes: those of the plane, or of members.
func (c *checker) checkFleet(path string, f *Fleet) {
	c.checkNotNegative(path+".nodes", "fleet.nodes", f.Nodes)
	c.checkAtMost(path+".nodes", "fleet.nodes", f.Nodes, maxNodes)
	paceChecker{c}.checkRate(path+".rate", "fleet.rate", f.Rate)
	c.checkInterval(path+".lease", "fleet.lease", f.Lease)
	c.checkInterval(path+".status", "fleet.status", f.Status)
	c.checkPositiveTime(path+".within", "fleet.within", f.Within)
	c.checkNotNegative(path+".connections", "fleet.connections", f.Connections)
	c.checkAtMost(path+".connections", "fleet.connections", f.Connections, maxConnections)
	if f.Traffic != "" {
		c.checkWord(path+".traffic", "fleet.traffic", f.Traffic)
	}
	if f.Taint != "" {
		c.checkWord("fleet.taint", "fleet.taint", f.Taint)
	}
	for i, name := range f.Stages {
		if err := checkInside(name); err != nil || name == "" {
			c.reportAt(fmt.Sprintf("%s.stages[%d]", path, i), "fleet.stages: %q is neither a built-in set nor a file in the scenario's folder", clipText(name))
		}
	}
	for i, name := range f.StorageClasses {
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			c.reportAt(fmt.Sprintf("%s.storageClasses[%d]", path, i), "fleet.storageClasses: %q is not the name of a class", clipText(name))
		}
	}
	if c.isGiven(path+".stages") && !c.isGiven(path+".nodes") {
		c.reportAt(path+".stages", "fleet.stages: without nodes nothing of it happens: set fleet.nodes")
	}
	if len(f.StorageClasses) > 0 && !slices.Contains(f.Stages, "volumes") {
		c.reportAt(path+".storageClasses", "fleet.storageClasses: the stages volumes bind claims: add volumes to fleet.stages")
	}
	for _, name := range slices.Sorted(maps.Keys(f.Spread)) {
		if n := f.Spread[name]; len(validation.IsQualifiedName(name)) > 0 || n < 1 || n > maxNodes {
			c.reportAt(path+".spread."+name, "fleet.spread: %s: %d is not a label and a number from 1 to %d", clipText(name), n, maxNodes)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Capacity)) {
		c.checkCapacity(path+".capacity."+name, name, f.Capacity[name])
	}
	for _, name := range slices.Sorted(maps.Keys(f.Labels)) {
		if value := f.Labels[name]; len(validation.IsQualifiedName(name))+len(validation.IsValidLabelValue(value)) > 0 {
			c.reportAt(path+".labels."+name, "fleet.labels: %s=%s is not a label that Kubernetes takes", clipText(name), clipText(value))
		}
	}
}

func (c fileChecker) checkNamespaces() {
	n := c.s.Namespaces
	c.checkNotNegative("namespaces.count", "namespaces.count", n.Count)
	c.checkAtMost("namespaces.count", "namespaces.count", n.Count, maxNamespaces)
	if c.isGiven("namespaces.prefix") || c.s.lines == nil {
		c.checkLabel("namespaces.prefix", "namespaces.prefix", n.Prefix)
	}
	if n.Count < 0 {
		return
	}
	if last := fmt.Sprintf("%s-%d", n.Prefix, n.Count); len(last) > 63 {
		c.reportAt("namespaces", "namespaces: %q is longer than 63 characters", last)
	}
}

func (c fileChecker) checkPreflight() {
	g := c.s.Preflight
	c.checkNotNegativeTime("preflight.wait", "preflight.wait", g.Wait)
	c.checkWord("preflight.dirty", "preflight.dirty", g.Dirty)
	for i, kind := range g.Tolerate {
		c.checkOneOf(fmt.Sprintf("preflight.tolerate[%d]", i), "preflight.tolerate", kind, PreflightFindings())
	}
}

func (c *fieldChecker) checkNotNegative(path, name string, n int) {
	if n < 0 {
		c.reportAt(path, "%s: %d is below 0", name, n)
	} else if n > maxObjects {
		c.reportAt(path, "%s: %d is above %d", name, n, maxObjects)
	}
}

// Bounds on counts: what stands above them is a slip of the pen, and would take the
// machine's memory before anything is sent.
const (
	maxObjects     = 100_000_000 // more than etcd holds
	maxNodes       = 1_000_000
	maxNamespaces  = 1_000_000
	maxConnections = 10_000
	maxRetries     = 255 // attempts are recorded in a byte
)

func (c *fieldChecker) checkAtMost(path, name string, n, limit int) {
	if n > limit && n <= maxObjects { // else it is said already
		c.reportAt(path, "%s: %d is above %d", name, n, limit)
	}
}

// maxNumber is more than anything that is counted or measured.
const maxNumber = 1e18

func (c *fieldChecker) checkNotNegativeNumber(path, name string, f float64) {
	if !(f >= 0) {
		c.reportAt(path, "%s: %s is below 0", name, formatValue(f))
	} else if f > maxNumber {
		c.reportAt(path, "%s: %s is above %v", name, formatValue(f), maxNumber)
	}
}

// minInterval is the shortest time between two of what goes on for the whole run.
const minInterval = unit.Duration(10 * time.Millisecond)

// checkInterval checks how often something is done; 0 is never.
func (c *fieldChecker) checkInterval(path, name string, d unit.Duration) {
	if d < 0 || d > 0 && d < minInterval {
		c.reportAt(path, "%s: %s is no interval: at least %s, or 0s for never", name, d, minInterval)
	}
}

func (c *fieldChecker) checkNotNegativeTime(path, name string, d unit.Duration) {
	if d < 0 {
		c.reportAt(path, "%s: %s is below 0s", name, d)
	}
}

func (c *fieldChecker) checkPositive(path, name string, f float64) {
	if !(f > 0) || math.IsInf(f, 0) {
		c.reportAt(path, "%s: %s is not above 0", name, formatValue(f))
	}
}

func (c *fieldChecker) checkPositiveTime(path, name string, d unit.Duration) {
	if d <= 0 {
		c.reportAt(path, "%s: %s is not above 0s", name, d)
	}
}

// checkSelector checks a label selector; empty selects all.
func (c *fieldChecker) checkSelector(path, name, text string) {
	if _, err := labels.Parse(text); err != nil {
		c.reportAt(path, "%s: %q is not a label selector: %v", name, clipText(text), err)
	}
}

func (c *fieldChecker) checkResource(path, name, text string) {
	if _, err := ParseResource(text); err != nil {
		c.reportAt(path, "%s: %v", name, err)
	}
}

// checkBody checks one of bodies; the template inside is checked by package template.
func (c fileChecker) checkBody(name string, b Body) {
	path := "bodies." + name
	if b.Dialect != "" {
		c.checkWord(path+".dialect", "body.dialect", b.Dialect)
	}
	given := slices.DeleteFunc([]string{b.Text, b.File, b.Exemplar}, func(text string) bool { return text == "" })
	switch {
	case len(given) != 1 || b.Text == "" && c.isGiven(path+".text"):
		c.reportAt(path, "body %q: exactly one of text, file and exemplar is needed", name)
	case b.Exemplar != "":
		c.checkWord(path+".exemplar", "body.exemplar", b.Exemplar)
		if b.Dialect != "" && b.Dialect != Dialects()[0] {
			c.reportAt(path+".dialect", "body.dialect: an exemplar is written in %s", Dialects()[0])
		}
	case b.File != "":
		if err := checkInside(b.File); err != nil {
			c.reportAt(path+".file", "body.file: %v", err)
		}
	}
}

// checkInside refuses paths that lead out of the scenario's folder; symbolic
// links are refused when the file is opened.
func checkInside(file string) error {
	if !filepath.IsLocal(filepath.FromSlash(file)) {
		return fmt.Errorf("%q leads out of the scenario's folder", clipText(file))
	}
	if strings.ContainsRune(file, 0) {
		return errors.New("a file name has no zero byte")
	}
	return nil
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// allGroups are the groups of pods on the plane and in members.
func (c *checker) allGroups() []string { return slices.Concat(c.groups, c.inside) }

// bodyVariables are the names that every template of a dialect has.
func bodyVariables(dialect string) []string {
	switch dialect {
	case "clusterloader2":
		return []string{"Name", "Namespace", "Index"}
	case "kube-burner": // inputVars win over its own, and .Name and such are none of them
		return nil
	}
	return []string{"Name", "Namespace", "Index", "Replica", "Call", "Group", "Seed"}
}

// checkGroup checks one of groups.
func (c fileChecker) checkGroup(path string, g Group) {
	if g.Name == "" || len(validation.IsValidLabelValue(g.Name)) > 0 {
		c.reportAt(path+".name", "group.name: %q is not a name: at most 63 letters, digits, -, _ and .", clipText(g.Name))
	} else if slices.Contains(c.groups, g.Name) {
		c.reportAt(path+".name", "group.name: %q stands twice", g.Name)
	}
	if g.Namespace != "" {
		c.checkLabel(path+".namespace", "group.namespace", g.Namespace)
	}
	if g.Selector == "" {
		c.reportAt(path+".selector", "group.selector: labels are needed")
	}
	c.checkSelector(path+".selector", "group.selector", g.Selector)
	c.groups = append(c.groups, g.Name)
}
