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

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/windtunnel/windtunnel/internal/unit"
)

// Validate checks a scenario that was not read from a file; Load and Parse
// have done so already. It joins all faults.
func (s *Scenario) Validate() error {
	f := &faults{file: s.File}
	s.check(f)
	return f.join()
}

// checker holds what the rules look at while they go through a scenario.
type checker struct {
	*faults
	s       *Scenario
	steps   map[string]string // step name -> its path
	creates []string          // names of the create steps so far, those of other branches too
	groups  []string          // groups that they make, and those of groups
}

// at reports a fault of the value at a path, under its short name.
func (c *checker) at(path, format string, args ...any) {
	c.add(c.s.line(path), format, args...)
}

// given tells whether the file has a value at the path.
func (c *checker) given(path string) bool { _, ok := c.s.lines[path]; return ok }

// bodyNames are the names of bodies, sorted.
func (s *Scenario) bodyNames() []string { return slices.Sorted(maps.Keys(s.Bodies)) }

func (s *Scenario) check(f *faults) {
	c := &checker{faults: f, s: s, steps: map[string]string{}}
	c.label("scenario", "scenario", s.Name)
	c.plane()
	c.fleet()
	c.namespaces()
	c.preflight()
	c.subjects()
	for _, name := range s.bodyNames() {
		c.body(name, s.Bodies[name])
	}
	if len(s.Steps) == 0 {
		c.at("steps", "scenario: no steps")
	}
	for i, g := range s.Groups {
		c.group(fmt.Sprintf("groups[%d]", i), g)
	}
	c.sequence("steps", s.Steps, made{})
	c.observed()
	objectives := map[string]bool{}
	for i := range s.Objectives {
		path := fmt.Sprintf("objectives[%d]", i)
		c.objective(path, &s.Objectives[i])
		o := &s.Objectives[i]
		what := fmt.Sprint(o.Name, o.SLO, o.Statistic, o.Labels) // how reports tell objectives apart
		if objectives[what] {
			c.at(path, "objective: name %q stands twice", o.Name)
		}
		objectives[what] = true
	}
	for i, m := range s.Measures {
		c.measure(fmt.Sprintf("measures[%d]", i), m)
	}
	for i, p := range s.Published {
		if p.Measure == "" || p.Source == "" {
			c.at(fmt.Sprintf("published[%d]", i), "published: measure and source are needed")
		}
	}
}

// label checks a DNS label.
func (c *checker) label(path, name, value string) {
	if value == "" {
		c.at(path, "%s: a name is needed", name)
	} else if len(validation.IsDNS1123Label(value)) > 0 {
		c.at(path, "%s: %q is not a DNS label: at most 63 of a-z, 0-9 and -, the first and the last not -", name, clip(value))
	}
}

func (c *checker) oneOf(path, name, value string, allowed []string) {
	if !slices.Contains(allowed, value) {
		c.at(path, "%s: %q is not one of %s%s", name, clip(value), strings.Join(allowed, ", "), hint(value, allowed))
	}
}

// word checks a field that takes only some values.
func (c *checker) word(path, name, value string) { c.oneOf(path, name, value, words(name)) }

func (c *checker) plane() {
	p := c.s.Plane
	c.word("plane.durability", "plane.durability", p.Durability)
	for _, name := range slices.Sorted(maps.Keys(p.Components)) {
		path := "plane.components." + name
		if !slices.Contains(Components(), name) {
			c.at(path, "component %q not found in plane%s", name, hint(name, Components()))
		}
		comp := p.Components[name]
		if comp.CPU < 0 {
			c.at(path+".cpu", "component.cpu: %v is below 0", comp.CPU)
		}
		for _, flag := range slices.Sorted(maps.Keys(comp.Flags)) {
			if strings.HasPrefix(flag, "-") || strings.Contains(flag, "=") || flag == "" {
				c.at(path+".flags."+flag, "component.flags: %q is not a flag's name: no dashes before it and no value in it", flag)
			}
		}
	}
}

func (c *checker) fleet() {
	f := c.s.Fleet
	c.notNegative("fleet.nodes", "fleet.nodes", f.Nodes)
	c.positive("fleet.rate", "fleet.rate", f.Rate)
	if f.Lease < 0 {
		c.at("fleet.lease", "fleet.lease: %s is below 0s", f.Lease)
	}
	if f.Status < 0 {
		c.at("fleet.status", "fleet.status: %s is below 0s", f.Status)
	}
	c.lasting("fleet.within", "fleet.within", f.Within)
	c.notNegative("fleet.connections", "fleet.connections", f.Connections)
	if f.Traffic != "" {
		c.word("fleet.traffic", "fleet.traffic", f.Traffic)
	}
	for i, name := range f.Stages {
		if err := checkInside(name); err != nil || name == "" {
			c.at(fmt.Sprintf("fleet.stages[%d]", i), "fleet.stages: %q is neither a built-in set nor a file in the scenario's folder", clip(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Spread)) {
		if n := f.Spread[name]; len(validation.IsQualifiedName(name)) > 0 || n < 1 {
			c.at("fleet.spread."+name, "fleet.spread: %s: %d is not a label and a number above 0", clip(name), n)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Capacity)) {
		if q, err := resource.ParseQuantity(f.Capacity[name]); err != nil || q.Sign() < 0 {
			c.at("fleet.capacity."+name, "fleet.capacity.%s: %q is not a quantity such as 32, 500m or 256Gi", name, clip(f.Capacity[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Labels)) {
		if value := f.Labels[name]; len(validation.IsQualifiedName(name))+len(validation.IsValidLabelValue(value)) > 0 {
			c.at("fleet.labels."+name, "fleet.labels: %s=%s is not a label that Kubernetes takes", clip(name), clip(value))
		}
	}
}

func (c *checker) namespaces() {
	n := c.s.Namespaces
	c.notNegative("namespaces.count", "namespaces.count", n.Count)
	if c.given("namespaces.prefix") || c.s.lines == nil {
		c.label("namespaces.prefix", "namespaces.prefix", n.Prefix)
	}
	if n.Count < 0 {
		return
	}
	if last := fmt.Sprintf("%s-%d", n.Prefix, n.Count); len(last) > 63 {
		c.at("namespaces", "namespaces: %q is longer than 63 characters", last)
	}
}

func (c *checker) preflight() {
	g := c.s.Preflight
	if g.Wait < 0 {
		c.at("preflight.wait", "preflight.wait: %s is below 0s", g.Wait)
	}
	c.word("preflight.dirty", "preflight.dirty", g.Dirty)
	for i, kind := range g.Tolerate {
		c.oneOf(fmt.Sprintf("preflight.tolerate[%d]", i), "preflight.tolerate", kind, PreflightFindings())
	}
}

func (c *checker) notNegative(path, name string, n int) {
	if n < 0 {
		c.at(path, "%s: %d is below 0", name, n)
	}
}

func (c *checker) positive(path, name string, f float64) {
	if !(f > 0) || math.IsInf(f, 0) {
		c.at(path, "%s: %s is not above 0", name, formatValue(f))
	}
}

func (c *checker) lasting(path, name string, d unit.Duration) {
	if d <= 0 {
		c.at(path, "%s: %s is not above 0s", name, d)
	}
}

// body checks one of bodies; the template inside is checked by package template.
func (c *checker) body(name string, b Body) {
	path := "bodies." + name
	if b.Dialect != "" {
		c.word(path+".dialect", "body.dialect", b.Dialect)
	}
	switch {
	case b.File != "" && c.given(path+".text"), b.File == "" && b.Text == "":
		c.at(path, "body %q: exactly one of text and file is needed", name)
	case b.File != "":
		if err := checkInside(b.File); err != nil {
			c.at(path+".file", "body.file: %v", err)
		}
	}
}

// checkInside refuses paths that lead out of the scenario's folder; symbolic
// links are refused when the file is opened.
func checkInside(file string) error {
	if !filepath.IsLocal(filepath.FromSlash(file)) {
		return fmt.Errorf("%q leads out of the scenario's folder", clip(file))
	}
	if strings.ContainsRune(file, 0) {
		return errors.New("a file name has no zero byte")
	}
	return nil
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// bodyVariables are the names that every template of a dialect has.
func bodyVariables(dialect string) []string {
	if dialect == "clusterloader2" {
		return []string{"Name", "Namespace", "Index"}
	}
	return []string{"Name", "Namespace", "Index", "Replica", "Group", "Seed"}
}
