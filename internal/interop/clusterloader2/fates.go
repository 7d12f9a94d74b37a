package clusterloader2

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/windtunnel/windtunnel/internal/text"
)

// fate is what becomes of a field of a config or of a parameter of a measurement.
type fate string

const (
	honored fate = "honored" // the scenario does what the field says
	inPart  fate = "in part" // it does so but for what the text says; a note follows where that matters
	noted   fate = "noted"   // the scenario does not do it; a note says so
	refused fate = "refused" // the import ends with an error
)

// field is the declared fate of one field of a config's types, or of one
// parameter of a measurement.
type field struct {
	name    string
	fate    fate
	text    string // what it becomes; of a noted one the sentence of its note
	usual   string // of a noted one: the value that asks for nothing and so has no note
	changes bool   // noted: what is left out changes the load or the verdict
	when    string // of a parameter: the only action with which ClusterLoader2 reads it
	within  string // of a noted one: the field around it, whose note is enough
}

// typeFates are the fates of the fields of one type.
type typeFates struct {
	of     reflect.Type
	path   string // where a config has it
	fields []field
}

// fateOf returns the fate of a type's field; nil where none is declared.
func (im *importer) fateOf(of reflect.Type, name string) *field {
	if im.fates == nil {
		im.fates = map[reflect.Type][]field{}
		for _, t := range configFates() {
			im.fates[t.of] = t.fields
		}
	}
	return fieldNamed(im.fates[of], name)
}

func fieldNamed(fields []field, name string) *field {
	for i := range fields {
		if fields[i].name == name {
			return &fields[i]
		}
	}
	return nil
}

// configFates are all fields of a suite, a config and a module.
func configFates() []typeFates {
	return append([]typeFates{
		{reflect.TypeFor[suiteScenario](), "suite", []field{
			{name: "identifier", fate: honored, text: "part of the scenario's name; `--set Scenario=` chooses by it"},
			{name: "configPath", fate: honored, text: "the config that is imported"},
			{name: "overridePaths", fate: honored, text: "files of variables, later ones win over earlier ones and over `--overrides`"},
		}},
		{reflect.TypeFor[config](), "", []field{
			{name: "name", fate: honored, text: "`scenario`"},
			{name: "automanagedNamespaces", fate: honored, text: "`namespaces.count`, beside a `namespace.number` of 1"},
			{name: "namespace", fate: honored, text: "`namespaces`"},
			{name: "steps", fate: honored, text: "`steps`"},
			{name: "tuningSets", fate: honored, text: "`pace` of the steps that use them"},
			{name: "chaosMonkey", fate: honored, text: "a `fault` of the fleet's nodes"},
			{name: "dependencies", fate: noted, changes: true, text: "dependencies are not installed before the run"},
		}},
		{reflect.TypeFor[dependency](), "dependencies", []field{
			{name: "name", fate: noted, within: "dependencies", changes: true, text: "the dependency is not installed"},
			{name: "method", fate: noted, within: "dependencies", changes: true, text: "the dependency is not installed"},
			{name: "timeout", fate: noted, within: "dependencies", text: "the dependency is not installed"},
			{name: "params", fate: noted, within: "dependencies", changes: true, text: "the dependency is not installed"},
		}},
		{reflect.TypeFor[namespace](), "namespace", []field{
			{name: "number", fate: honored, text: "`namespaces.count`; 0 is 1"},
			{name: "prefix", fate: honored, text: "`namespaces.prefix`; without it the scenario's name"},
			{name: "deleteStaleNamespaces", fate: noted, usual: "false", text: "namespaces of earlier tests are not deleted: the run touches only what it makes"},
			{name: "deleteAutomanagedNamespaces", fate: noted, usual: "true", text: "the namespaces that the run made are deleted at its end"},
			{name: "enableExistingNamespaces", fate: noted, usual: "false", text: "existing namespaces are not used; the run makes its own"},
			{name: "deleteNamespaceTimeout", fate: noted, text: "the deletion of the namespaces has the time limit of every run"},
		}},
		{reflect.TypeFor[chaosMonkey](), "chaosMonkey", []field{
			{name: "nodeFailure", fate: honored, text: "a `fault` of action `flap`"},
			{name: "excludedNodes", fate: noted, changes: true, text: "simulated nodes have other names; no node is excluded"},
		}},
		{reflect.TypeFor[nodeFailure](), "chaosMonkey.nodeFailure", chaosFields()},
	}, append(stepFates(), tuningFates()...)...)
}

// chaosFields are those of nodeFailure and of ChaosMonkey's parameters.
func chaosFields() []field {
	return []field{
		{name: "failureRate", fate: honored, text: "share of the nodes that fail at a time, rounded up to whole nodes"},
		{name: "interval", fate: honored, text: "`between`"},
		{name: "jitterFactor", fate: honored, text: "on average half of it is added to the interval"},
		{name: "simulatedDowntime", fate: honored, text: "`down`"},
	}
}

// stepFates are the fates of steps, phases, objects and measurements.
func stepFates() []typeFates {
	return []typeFates{
		{reflect.TypeFor[module](), "module file", []field{{name: "steps", fate: honored, text: "steps in the place of the module"}}},
		{reflect.TypeFor[step](), "steps", []field{
			{name: "name", fate: honored, text: "the step's `name`"},
			{name: "phases", fate: honored, text: "`create`, `scale`, `update` or `requests`"},
			{name: "measurements", fate: honored, text: "waits, objectives, measures, faults and commands"},
			{name: "module", fate: honored, text: "the module's steps"},
		}},
		{reflect.TypeFor[moduleRef](), "steps.module", []field{
			{name: "path", fate: honored, text: "the module's file"},
			{name: "params", fate: honored, text: "variables of its template; numbers are float64"},
		}},
		{reflect.TypeFor[phase](), "steps.phases", []field{
			{name: "namespaceRange", fate: honored, text: "`namespaces` of the step; without it outside of namespaces"},
			{name: "namespaceList", fate: honored, text: "`namespace` of the step"},
			{name: "replicasPerNamespace", fate: honored, text: "`perNamespace`, or `count` outside of namespaces"},
			{name: "tuningSet", fate: honored, text: "`pace`"},
			{name: "objectBundle", fate: honored, text: "`objects`"},
		}},
		{reflect.TypeFor[namespaceRange](), "steps.phases.namespaceRange", []field{
			{name: "min", fate: honored, text: "`from`"},
			{name: "max", fate: honored, text: "`to`"},
			{name: "basename", fate: honored, text: "`prefix`"},
		}},
		{reflect.TypeFor[object](), "steps.phases.objectBundle", []field{
			{name: "basename", fate: honored, text: "`name`"},
			{name: "objectTemplatePath", fate: honored, text: "a body of the dialect `clusterloader2`"},
			{name: "templateFillMap", fate: honored, text: "`with`; numbers are float64"},
			{name: "listUnknownObjectOptions", fate: honored, text: "deletion of the objects that the labels find"},
		}},
		{reflect.TypeFor[listUnknown](), "steps.phases.objectBundle.listUnknownObjectOptions", []field{
			{name: "labelSelector", fate: honored, text: "`selector`"},
		}},
		{reflect.TypeFor[labelSelector](), "steps.phases.objectBundle.listUnknownObjectOptions.labelSelector", []field{
			{name: "matchLabels", fate: honored, text: "`selector`"},
			{name: "matchExpressions", fate: honored, text: "`selector`"},
		}},
		{reflect.TypeFor[requirement](), "steps.phases.objectBundle.listUnknownObjectOptions.labelSelector.matchExpressions", []field{
			{name: "key", fate: honored, text: "`selector`"},
			{name: "operator", fate: honored, text: "`selector`"},
			{name: "values", fate: honored, text: "`selector`"},
		}},
		{reflect.TypeFor[measurement](), "steps.measurements", []field{
			{name: "method", fate: honored, text: "see the measurements"},
			{name: "params", fate: honored, text: "see the measurements"},
			{name: "identifier", fate: honored, text: "name of the wait, the objective or the measure"},
			{name: "instances", fate: honored, text: "one use of the measurement each"},
		}},
		{reflect.TypeFor[instance](), "steps.measurements.instances", []field{
			{name: "identifier", fate: honored, text: "as of a measurement"},
			{name: "params", fate: honored, text: "win over those of the measurement"},
		}},
	}
}

// tuningFates are the fates of tuning sets.
func tuningFates() []typeFates {
	return []typeFates{
		{reflect.TypeFor[tuningSet](), "tuningSets", []field{
			{name: "name", fate: honored, text: "phases refer to it"},
			{name: "initialDelay", fate: noted, usual: "0s", text: "initialDelay has no effect in ClusterLoader2 and none here"},
			{name: "qpsLoad", fate: honored, text: "`constant`"},
			{name: "randomizedLoad", fate: honored, text: "`constant` with `jitter: 1`"},
			{name: "steppedLoad", fate: honored, text: "`constant` with `bundle`; `burst` where stepDelay is 0"},
			{name: "timeLimitedLoad", fate: honored, text: "`within`"},
			{name: "randomizedTimeLimitedLoad", fate: honored, text: "`within` with `random`"},
			{name: "parallelismLimitedLoad", fate: honored, text: "`closed`"},
			{name: "globalQPSLoad", fate: honored, text: "`constant`, shared by the phases of a step; `steps` where it has a burst"},
			{name: "poissonLoad", fate: honored, text: "`poisson`"},
		}},
		{reflect.TypeFor[qpsLoad](), "tuningSets.qpsLoad", []field{{name: "qps", fate: honored, text: "rate of `constant`"}}},
		{reflect.TypeFor[randomizedLoad](), "tuningSets.randomizedLoad", []field{{name: "averageQPS", fate: honored, text: "rate of `constant`"}}},
		{reflect.TypeFor[steppedLoad](), "tuningSets.steppedLoad", []field{
			{name: "burstSize", fate: honored, text: "`bundle`"},
			{name: "stepDelay", fate: honored, text: "the time between two bundles"},
		}},
		{reflect.TypeFor[timeLimitedLoad](), "tuningSets.timeLimitedLoad, tuningSets.randomizedTimeLimitedLoad", []field{{name: "timeLimit", fate: honored, text: "`within`"}}},
		{reflect.TypeFor[parallelismLimitedLoad](), "tuningSets.parallelismLimitedLoad", []field{{name: "parallelismLimit", fate: honored, text: "`closed`"}}},
		{reflect.TypeFor[globalLoad](), "tuningSets.globalQPSLoad", []field{
			{name: "qps", fate: honored, text: "the rate"},
			{name: "burst", fate: honored, text: "calls that are due at once when the step begins: every step begins with a full bucket"},
		}},
		{reflect.TypeFor[poissonLoad](), "tuningSets.poissonLoad", []field{{name: "expectedActionsPerSecond", fate: honored, text: "rate of `poisson`"}}},
	}
}

// told notes a field that is given and whose fate is to be noted.
func (im *importer) told(at spot, what string, f *field, value any) {
	if f == nil || f.fate != noted || f.within != "" || value == nil || fmt.Sprint(value) == f.usual {
		return
	}
	if f.changes {
		im.differs(at, what, "%s", f.text)
	} else {
		im.note(at, what, "%s", f.text)
	}
}

// readAt says with which parameters a measurement works now: those of this use
// and those of its start, each only where ClusterLoader2 reads it.
func (c call) readAt(m method, begun *beginning) params {
	out := params{values: map[string]any{}, lines: map[string]int{}, Place: c.params.Place}
	take := func(from params, action string) {
		for name, value := range from.values {
			if f := fieldNamed(m.params, name); f == nil || f.when == "" || f.when == action {
				out.values[name], out.lines[name] = value, from.lines[name]
			}
		}
	}
	if begun != nil {
		take(begun.params, "start")
	}
	take(c.params, c.action())
	return out
}

// tellParams notes what of a use's parameters is not done, and those that
// ClusterLoader2 does not read. Measurements that are not done have one note for
// the parameters that are not listed.
func (c call) tellParams(m method, begun *beginning) {
	some := fieldNamed(m.params, "*") != nil
	for _, name := range sortedNames(c.params.values) {
		f := fieldNamed(m.params, name)
		switch what := c.method + " " + name; {
		case f == nil && some:
		case name == "action" && m.actions == "" && c.action() != gather:
			c.im.note(c.at(name), what, "%s has no actions in ClusterLoader2: it acts here, whatever action says", c.method)
		case name == "action":
		case f == nil:
			c.im.note(c.at(name), what, "ClusterLoader2 reads no such parameter and ignores it%s", text.DidYouMean(name, names(m.params)))
		case f.when != "" && f.when != c.action():
			if begun != nil && !reflect.DeepEqual(begun.params.values[name], c.params.values[name]) {
				c.im.note(c.at(name), what, "ClusterLoader2 reads it with action: %s only and ignores it here", f.when)
			}
		default:
			c.im.told(c.at(name), what, f, c.params.values[name])
			c.tellInside(m, name, c.params.values[name])
		}
	}
	if begun == nil {
		return
	}
	for _, name := range sortedNames(begun.params.values) {
		if f := fieldNamed(m.params, name); f != nil && f.when == c.action() && !c.has(name) {
			c.im.note(c.where, c.method+" "+name, "ClusterLoader2 reads it with action: %s only and ignores it elsewhere", f.when)
		}
	}
}

// tellInside does the same for the fields of a parameter that has some.
func (c call) tellInside(m method, parameter string, value any) {
	switch value := value.(type) {
	case []any:
		for _, one := range value {
			c.tellInside(m, parameter, one)
		}
	case map[string]any:
		known := fieldsOf(m.params, parameter)
		if len(known) == 0 {
			return
		}
		for _, name := range sortedNames(value) {
			what := c.method + " " + parameter + "." + name
			if f := fieldNamed(known, parameter+"."+name); f != nil {
				c.im.told(c.at(parameter), what, f, value[name])
			} else {
				c.im.note(c.at(parameter), what, "ClusterLoader2 reads no such field and ignores it")
			}
		}
	}
}

// fieldsOf are the declared fields of a parameter.
func fieldsOf(all []field, parameter string) []field {
	var out []field
	for _, f := range all {
		if strings.HasPrefix(f.name, parameter+".") {
			out = append(out, f)
		}
	}
	return out
}

// acts tells whether ClusterLoader2 knows the action of a use. A fault says
// where it does not.
func (c call) acts(m method, begun bool) bool {
	action := c.action()
	switch known := strings.Fields(m.actions); {
	case len(known) == 0:
		return true
	case action == "":
		c.im.faults.at(c.where, "%s: action is needed: %s", c.method, strings.Join(known, ", "))
	case !strings.Contains(" "+m.actions+" ", " "+action+" "):
		c.fault("action", "%q is none of %s", action, strings.Join(known, ", "))
	case m.begins && action == "gather" && !begun:
		c.im.faults.at(c.where, "%s: %q is gathered and was not started", c.method, c.identifier)
	default:
		return true
	}
	return false
}
