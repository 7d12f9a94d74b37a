package clusterloader2

import (
	"reflect"
	"strings"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/config"
	"github.com/windtunnel/windtunnel/internal/interop/kit"
	"github.com/windtunnel/windtunnel/internal/text"
)

// allFates are all fields of a suite, a config and a module.
func allFates() kit.Table { return append(suiteFates(), configFates()...) }

// suiteFates are the fields of a suite's scenario.
func suiteFates() kit.Table {
	return kit.Table{kit.Of[config.SuiteScenario]("suite", kit.Fields{
		{Name: "identifier", Fate: kit.Honored, Text: "part of the scenario's name; `--set Scenario=` chooses by it"},
		{Name: "configPath", Fate: kit.Honored, Text: "the config that is imported"},
		{Name: "overridePaths", Fate: kit.Honored, Text: "files of variables, later ones win over earlier ones and over `--overrides`"},
	})}
}

// configFates are all fields of a config and a module.
func configFates() kit.Table {
	return append(kit.Table{
		kit.Of[config.Config]("", kit.Fields{
			{Name: "name", Fate: kit.Honored, Text: "`scenario`"},
			{Name: "automanagedNamespaces", Fate: kit.Honored, Text: "`namespaces.count`, beside a `namespace.number` of 1"},
			{Name: "namespace", Fate: kit.Honored, Text: "`namespaces`"},
			{Name: "steps", Fate: kit.Honored, Text: "`steps`"},
			{Name: "tuningSets", Fate: kit.Honored, Text: "`pace` of the steps that use them"},
			{Name: "chaosMonkey", Fate: kit.Honored, Text: "a `fault` of the fleet's nodes"},
			{Name: "dependencies", Fate: kit.Noted, Changes: true, Text: "dependencies are not installed before the run"},
		}),
		kit.Of[config.Dependency]("dependencies", kit.Fields{
			{Name: "name", Fate: kit.Noted, Within: "dependencies", Changes: true, Text: "the dependency is not installed"},
			{Name: "method", Fate: kit.Noted, Within: "dependencies", Changes: true, Text: "the dependency is not installed"},
			{Name: "timeout", Fate: kit.Noted, Within: "dependencies", Text: "the dependency is not installed"},
			{Name: "params", Fate: kit.Noted, Within: "dependencies", Changes: true, Text: "the dependency is not installed"},
		}),
		kit.Of[config.Namespace]("namespace", kit.Fields{
			{Name: "number", Fate: kit.Honored, Text: "`namespaces.count`; 0 is 1"},
			{Name: "prefix", Fate: kit.Honored, Text: "`namespaces.prefix`; without it the scenario's name"},
			{Name: "deleteStaleNamespaces", Fate: kit.Noted, Usual: "false", Text: "namespaces of earlier tests are not deleted: the run touches only what it makes"},
			{Name: "deleteAutomanagedNamespaces", Fate: kit.Noted, Usual: "true", Text: "the namespaces that the run made are deleted at its end"},
			{Name: "enableExistingNamespaces", Fate: kit.Noted, Usual: "false", Text: "existing namespaces are not used; the run makes its own"},
			{Name: "deleteNamespaceTimeout", Fate: kit.Noted, Text: "the deletion of the namespaces has the time limit of every run"},
		}),
		kit.Of[config.ChaosMonkey]("chaosMonkey", kit.Fields{
			{Name: "nodeFailure", Fate: kit.Honored, Text: "a `fault` of action `flap`"},
			{Name: "excludedNodes", Fate: kit.Noted, Changes: true, Text: "simulated nodes have other names; no node is excluded"},
		}),
		kit.Of[config.NodeFailure]("chaosMonkey.nodeFailure", chaosFields()),
	}, append(stepFates(), tuningFates()...)...)
}

// chaosFields are those of nodeFailure and of ChaosMonkey's parameters.
func chaosFields() kit.Fields {
	return kit.Fields{
		{Name: "failureRate", Fate: kit.Honored, Text: "share of the nodes that fail at a time, rounded up to whole nodes"},
		{Name: "interval", Fate: kit.Honored, Text: "`between`"},
		{Name: "jitterFactor", Fate: kit.Honored, Text: "on average half of it is added to the interval"},
		{Name: "simulatedDowntime", Fate: kit.Honored, Text: "`down`"},
	}
}

// stepFates are the fates of steps, phases, objects and measurements.
func stepFates() kit.Table {
	return kit.Table{
		kit.Of[config.Module]("module file", kit.Fields{{Name: "steps", Fate: kit.Honored, Text: "steps in the place of the module"}}),
		kit.Of[config.Step]("steps", kit.Fields{
			{Name: "name", Fate: kit.Honored, Text: "the step's `name`"},
			{Name: "phases", Fate: kit.Honored, Text: "`create`, `scale`, `update` or `requests`"},
			{Name: "measurements", Fate: kit.Honored, Text: "waits, objectives, measures, faults and commands"},
			{Name: "module", Fate: kit.Honored, Text: "the module's steps"},
		}),
		kit.Of[config.ModuleRef]("steps.module", kit.Fields{
			{Name: "path", Fate: kit.Honored, Text: "the module's file"},
			{Name: "params", Fate: kit.Honored, Text: "variables of its template; numbers are float64"},
		}),
		kit.Of[config.Phase]("steps.phases", kit.Fields{
			{Name: "namespaceRange", Fate: kit.Honored, Text: "`namespaces` of the step; without it outside of namespaces"},
			{Name: "namespaceList", Fate: kit.Honored, Text: "`namespace` of the step"},
			{Name: "replicasPerNamespace", Fate: kit.Honored, Text: "`perNamespace`, or `count` outside of namespaces"},
			{Name: "tuningSet", Fate: kit.Honored, Text: "`pace`"},
			{Name: "objectBundle", Fate: kit.Honored, Text: "`objects`"},
		}),
		kit.Of[config.NamespaceRange]("steps.phases.namespaceRange", kit.Fields{
			{Name: "min", Fate: kit.Honored, Text: "`from`"},
			{Name: "max", Fate: kit.Honored, Text: "`to`"},
			{Name: "basename", Fate: kit.Honored, Text: "`prefix`"},
		}),
		kit.Of[config.Object]("steps.phases.objectBundle", kit.Fields{
			{Name: "basename", Fate: kit.Honored, Text: "`name`"},
			{Name: "objectTemplatePath", Fate: kit.Honored, Text: "a body of the dialect `clusterloader2`"},
			{Name: "templateFillMap", Fate: kit.Honored, Text: "`with`; numbers are float64"},
			{Name: "listUnknownObjectOptions", Fate: kit.Honored, Text: "deletion of the objects that the labels find"},
		}),
		kit.Of[config.ListUnknown]("steps.phases.objectBundle.listUnknownObjectOptions", kit.Fields{
			{Name: "labelSelector", Fate: kit.Honored, Text: "`selector`"},
		}),
		kit.Of[config.LabelSelector]("steps.phases.objectBundle.listUnknownObjectOptions.labelSelector", kit.Fields{
			{Name: "matchLabels", Fate: kit.Honored, Text: "`selector`"},
			{Name: "matchExpressions", Fate: kit.Honored, Text: "`selector`"},
		}),
		kit.Of[config.Requirement]("steps.phases.objectBundle.listUnknownObjectOptions.labelSelector.matchExpressions", kit.Fields{
			{Name: "key", Fate: kit.Honored, Text: "`selector`"},
			{Name: "operator", Fate: kit.Honored, Text: "`selector`"},
			{Name: "values", Fate: kit.Honored, Text: "`selector`"},
		}),
		kit.Of[config.Measurement]("steps.measurements", kit.Fields{
			{Name: "method", Fate: kit.Honored, Text: "see the measurements"},
			{Name: "params", Fate: kit.Honored, Text: "see the measurements"},
			{Name: "identifier", Fate: kit.Honored, Text: "name of the wait, the objective or the measure"},
			{Name: "instances", Fate: kit.Honored, Text: "one use of the measurement each"},
		}),
		kit.Of[config.Instance]("steps.measurements.instances", kit.Fields{
			{Name: "identifier", Fate: kit.Honored, Text: "as of a measurement"},
			{Name: "params", Fate: kit.Honored, Text: "win over those of the measurement"},
		}),
	}
}

// tuningFates are the fates of tuning sets.
func tuningFates() kit.Table {
	return kit.Table{
		kit.Of[config.TuningSet]("tuningSets", kit.Fields{
			{Name: "name", Fate: kit.Honored, Text: "phases refer to it"},
			{Name: "initialDelay", Fate: kit.Noted, Usual: "0s", Text: "initialDelay has no effect in ClusterLoader2 and none here"},
			{Name: "qpsLoad", Fate: kit.Honored, Text: "`constant`"},
			{Name: "randomizedLoad", Fate: kit.Honored, Text: "`constant` with `jitter: 1`"},
			{Name: "steppedLoad", Fate: kit.Honored, Text: "`constant` with `bundle`; `burst` where stepDelay is 0"},
			{Name: "timeLimitedLoad", Fate: kit.Honored, Text: "`within`"},
			{Name: "randomizedTimeLimitedLoad", Fate: kit.Honored, Text: "`within` with `random`"},
			{Name: "parallelismLimitedLoad", Fate: kit.Honored, Text: "`closed`"},
			{Name: "globalQPSLoad", Fate: kit.Honored, Text: "`constant`, shared by the phases of a step; `steps` where it has a burst"},
			{Name: "poissonLoad", Fate: kit.Honored, Text: "`poisson`"},
		}),
		kit.Of[config.QPSLoad]("tuningSets.qpsLoad", kit.Fields{{Name: "qps", Fate: kit.Honored, Text: "rate of `constant`"}}),
		kit.Of[config.RandomizedLoad]("tuningSets.randomizedLoad", kit.Fields{{Name: "averageQPS", Fate: kit.Honored, Text: "rate of `constant`"}}),
		kit.Of[config.SteppedLoad]("tuningSets.steppedLoad", kit.Fields{
			{Name: "burstSize", Fate: kit.Honored, Text: "`bundle`"},
			{Name: "stepDelay", Fate: kit.Honored, Text: "the time between two bundles"},
		}),
		kit.Of[config.TimeLimitedLoad]("tuningSets.timeLimitedLoad, tuningSets.randomizedTimeLimitedLoad", kit.Fields{{Name: "timeLimit", Fate: kit.Honored, Text: "`within`"}}),
		kit.Of[config.ParallelismLimitedLoad]("tuningSets.parallelismLimitedLoad", kit.Fields{{Name: "parallelismLimit", Fate: kit.Honored, Text: "`closed`"}}),
		kit.Of[config.GlobalLoad]("tuningSets.globalQPSLoad", kit.Fields{
			{Name: "qps", Fate: kit.Honored, Text: "the rate"},
			{Name: "burst", Fate: kit.Honored, Text: "calls that are due at once when the step begins: every step begins with a full bucket"},
		}),
		kit.Of[config.PoissonLoad]("tuningSets.poissonLoad", kit.Fields{{Name: "expectedActionsPerSecond", Fate: kit.Honored, Text: "rate of `poisson`"}}),
	}
}

// noteFate notes a field that is given and whose fate is to be noted.
func (im *importer) noteFate(at config.Position, what string, f *kit.Field, value any) {
	if f.Asks(value) {
		im.notes.Add(kit.Note{File: at.File, Line: at.Line, Field: what, Text: f.Text, Changes: f.Changes})
	}
}

// readAt says with which parameters a measurement works now: those of this use
// and those of its start, each only where ClusterLoader2 reads it.
func (c call) readAt(m method, begun *beginning) config.Params {
	out := config.Params{Values: map[string]any{}, Lines: map[string]int{}, Place: c.params.Place}
	take := func(from config.Params, action string) {
		for name, value := range from.Values {
			if f := m.params.Named(name); f == nil || f.When == "" || f.When == action {
				out.Values[name], out.Lines[name] = value, from.Lines[name]
			}
		}
	}
	if begun != nil {
		take(begun.params, "start")
	}
	take(c.params, c.actionOf())
	return out
}

// tellParams notes what of a use's parameters is not done, and those that
// ClusterLoader2 does not read. Measurements that are not done have one note for
// the parameters that are not listed.
func (c call) tellParams(m method, begun *beginning) {
	some := m.params.Named("*") != nil
	for _, name := range sortedNames(c.params.Values) {
		f := m.params.Named(name)
		switch what := c.method + " " + name; {
		case f == nil && some:
		case name == "action" && m.actions == "" && c.actionOf() != gather:
			c.im.addNote(c.paramPosition(name), what, "%s has no actions in ClusterLoader2: it acts here, whatever action says", c.method)
		case name == "action":
		case f == nil:
			c.im.addNote(c.paramPosition(name), what, "ClusterLoader2 reads no such parameter and ignores it%s", text.DidYouMean(name, m.params.Names()))
		case f.When != "" && f.When != c.actionOf():
			if begun != nil && !reflect.DeepEqual(begun.params.Values[name], c.params.Values[name]) {
				c.im.addNote(c.paramPosition(name), what, "ClusterLoader2 reads it with action: %s only and ignores it here", f.When)
			}
		default:
			c.im.noteFate(c.paramPosition(name), what, f, c.params.Values[name])
			c.tellInside(m, name, c.params.Values[name])
		}
	}
	if begun == nil {
		return
	}
	for _, name := range sortedNames(begun.params.Values) {
		if f := m.params.Named(name); f != nil && f.When == c.actionOf() && !c.has(name) {
			c.im.addNote(c.where, c.method+" "+name, "ClusterLoader2 reads it with action: %s only and ignores it elsewhere", f.When)
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
			if f := known.Named(parameter + "." + name); f != nil {
				c.im.noteFate(c.paramPosition(parameter), what, f, value[name])
			} else {
				c.im.addNote(c.paramPosition(parameter), what, "ClusterLoader2 reads no such field and ignores it")
			}
		}
	}
}

// fieldsOf are the declared fields of a parameter.
func fieldsOf(all kit.Fields, parameter string) kit.Fields {
	var out kit.Fields
	for _, f := range all {
		if strings.HasPrefix(f.Name, parameter+".") {
			out = append(out, f)
		}
	}
	return out
}

// checkAction tells whether ClusterLoader2 knows the action of a use. A fault says
// where it does not.
func (c call) checkAction(m method, begun bool) bool {
	action := c.actionOf()
	switch known := strings.Fields(m.actions); {
	case len(known) == 0:
		return true
	case action == "":
		c.im.faults.addAt(c.where, "%s: action is needed: %s", c.method, strings.Join(known, ", "))
	case !strings.Contains(" "+m.actions+" ", " "+action+" "):
		c.addFault("action", "%q is none of %s", action, strings.Join(known, ", "))
	case m.begins && action == "gather" && !begun:
		c.im.faults.addAt(c.where, "%s: %q is gathered and was not started", c.method, c.identifier)
	default:
		return true
	}
	return false
}
