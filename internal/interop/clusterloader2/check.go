package clusterloader2

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/config"
)

// checker checks a config.
type checker struct{ *importer }

// checkConfig holds a config against ClusterLoader2's own rules.
func (im checker) checkConfig(c *config.Config) {
	if c.Name == "" {
		im.faults.addAt(c.Position(), "name: a name is needed")
	}
	if c.Namespace.Number < 0 {
		im.faults.addAt(c.Namespace.At("number"), "namespace.number: %d is below 0", c.Namespace.Number)
	}
	if c.AutomanagedNamespaces < 0 {
		im.faults.addAt(c.At("automanagedNamespaces"), "automanagedNamespaces: %d is below 0", c.AutomanagedNamespaces)
	}
	sets := map[string]bool{}
	for i := range c.TuningSets {
		t := &c.TuningSets[i]
		im.tuningSet(t, fmt.Sprintf("tuningSets[%d]", i))
		sets[t.Name] = true
	}
	if len(c.Steps) == 0 {
		im.faults.addAt(c.At("steps"), "steps: no steps")
	}
	for i := range c.Steps {
		im.checkStep(&c.Steps[i], sets)
	}
}

// tuningKinds are the fields of a tuning set of which exactly one is given.
func tuningKinds() []string {
	var out []string
	t := reflect.TypeFor[config.TuningSet]()
	for i := range t.NumField() {
		if t.Field(i).Type.Kind() == reflect.Pointer {
			out = append(out, config.FieldName(t.Field(i).Name))
		}
	}
	return out
}

func (im checker) tuningSet(t *config.TuningSet, path string) {
	v := reflect.ValueOf(t).Elem()
	var kinds []string
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			kinds = append(kinds, config.FieldName(v.Type().Field(i).Name))
		}
	}
	if len(kinds) != 1 {
		got := ""
		if len(kinds) > 1 {
			got = ", not " + strings.Join(kinds, " and ")
		}
		im.faults.addAt(t.Position(), "%s: tuning set %q: exactly one of %s is needed%s", path, t.Name, strings.Join(tuningKinds(), ", "), got)
		return
	}
	at := t.At(kinds[0])
	positive := func(field string, v float64) {
		if !(v > 0) {
			im.faults.addAt(at, "%s.%s.%s: %v is not above 0", path, kinds[0], field, v)
		}
	}
	lasting := func(field string, d config.Duration) {
		if d <= 0 {
			im.faults.addAt(at, "%s.%s.%s: %s is not above 0s", path, kinds[0], field, time.Duration(d))
		}
	}
	switch {
	case t.QPSLoad != nil:
		positive("qps", t.QPSLoad.QPS)
	case t.RandomizedLoad != nil:
		positive("averageQps", t.RandomizedLoad.AverageQPS)
	case t.SteppedLoad != nil:
		positive("burstSize", float64(t.SteppedLoad.BurstSize))
		if t.SteppedLoad.StepDelay < 0 {
			im.faults.addAt(at, "%s.%s.stepDelay: %s is below 0s", path, kinds[0], time.Duration(t.SteppedLoad.StepDelay))
		}
	case t.TimeLimitedLoad != nil:
		lasting("timeLimit", t.TimeLimitedLoad.TimeLimit)
	case t.RandomizedTimeLimitedLoad != nil:
		lasting("timeLimit", t.RandomizedTimeLimitedLoad.TimeLimit)
	case t.ParallelismLimitedLoad != nil:
		positive("parallelismLimit", float64(t.ParallelismLimitedLoad.ParallelismLimit))
	case t.GlobalQPSLoad != nil:
		positive("qps", t.GlobalQPSLoad.QPS)
		positive("burst", float64(t.GlobalQPSLoad.Burst))
	case t.PoissonLoad != nil:
		positive("expectedActionsPerSecond", t.PoissonLoad.ExpectedActionsPerSecond)
	}
}

func (im checker) checkStep(s *config.Step, sets map[string]bool) {
	if (len(s.Phases) > 0) == (len(s.Measurements) > 0) {
		im.faults.addAt(s.Position(), "step %q: exactly one of phases, measurements and module is needed", s.Name)
		return
	}
	for i := range s.Phases {
		im.checkPhase(&s.Phases[i], fmt.Sprintf("phases[%d]", i), sets)
	}
	for i := range s.Measurements {
		im.checkMeasurement(&s.Measurements[i], fmt.Sprintf("measurements[%d]", i))
	}
}

func (im checker) checkPhase(p *config.Phase, path string, sets map[string]bool) {
	if r := p.NamespaceRange; r != nil {
		switch {
		case r.Min < 0:
			im.faults.addAt(r.At("min"), "%s.namespaceRange.min: %d is below 0", path, r.Min)
		case r.Max < r.Min:
			im.faults.addAt(r.At("max"), "%s.namespaceRange.max: %d is below min, %d", path, r.Max, r.Min)
		}
		if len(p.NamespaceList) > 0 {
			im.faults.addAt(p.At("namespaceList"), "%s: at most one of namespaceRange and namespaceList", path)
		}
	}
	if p.ReplicasPerNamespace < 0 {
		im.faults.addAt(p.At("replicasPerNamespace"), "%s.replicasPerNamespace: %d is below 0", path, p.ReplicasPerNamespace)
	}
	switch {
	case p.TuningSet == "":
		im.faults.addAt(p.Position(), "%s.tuningSet: a tuning set is needed", path)
	case !sets[p.TuningSet]:
		im.faults.addAt(p.At("tuningSet"), "%s.tuningSet: %q is not declared; tuningSets has %s", path, p.TuningSet, joinNames(slices.Sorted(maps.Keys(sets))))
	}
	if len(p.ObjectBundle) == 0 {
		im.addNote(p.Position(), path+".objectBundle", "no objects: the phase does nothing")
	}
	for i := range p.ObjectBundle {
		im.checkObject(&p.ObjectBundle[i], fmt.Sprintf("%s.objectBundle[%d]", path, i))
	}
}

func (im checker) checkObject(o *config.Object, path string) {
	if len(validation.IsDNS1123Subdomain(o.Basename)) > 0 {
		im.faults.addAt(o.At("basename"), "%s.basename: %q does not begin the name of an object: only a-z, 0-9, - and .", path, o.Basename)
	}
	if o.ObjectTemplatePath == "" {
		im.faults.addAt(o.Position(), "%s.objectTemplatePath: a file is needed", path)
	} else if _, err := im.read(o.ObjectTemplatePath); err != nil {
		im.faults.addAt(o.At("objectTemplatePath"), "%s.objectTemplatePath: %s: %v", path, o.ObjectTemplatePath, err)
	}
}

func (im checker) checkMeasurement(m *config.Measurement, path string) {
	if (m.Identifier == "") == (len(m.Instances) == 0) {
		im.faults.addAt(m.Position(), "%s: exactly one of identifier and instances is needed", path)
	}
	if im.findMethod(m.Method).lower == nil {
		var known []string
		for _, one := range listMethods() {
			known = append(known, one.name)
		}
		im.faults.addAt(m.At("method"), "%s.method: ClusterLoader2 has no measurement %q%s", path, m.Method, didYouMean(m.Method, known))
	}
}

// joinNames joins names for a sentence.
func joinNames(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// didYouMean returns ` (did you mean "X"?)` when one of the known names has the
// same letters but for their case or the end.
func didYouMean(got string, known []string) string {
	lower := strings.ToLower(got)
	for _, k := range known {
		if name := strings.ToLower(k); got != "" && (name == lower || strings.HasPrefix(name, lower) || strings.HasPrefix(lower, name)) {
			return fmt.Sprintf(" (did you mean %q?)", k)
		}
	}
	return ""
}
