package clusterloader2

import (
	"fmt"
	"iter"
	"math"
	"reflect"
	"time"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/config"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// cohort is what one create step made: so many indices of some objects in each
// namespace of a scope.
type cohort struct {
	step   string           // its name; known when the step was emitted
	create *scenario.Create // of that step
	scope  scope
	each   int // indices now
	peak   int // that there have been
	items  []item
}

// item is one object of a cohort's bundle.
type item struct {
	object *config.Object
	body   string
	with   map[string]any
	sample sample
	kind   string // as the raw template has it
	group  string
}

// op is what a phase does to one part of its objects.
type op struct {
	step    scenario.Step
	pace    func(scenario.Pace)
	actions int // indices that it is about, over all namespaces
	lane    [2]int
}

// Ops of one lane, those of a phase's parts, share the phase's pace; those of
// others, which are about other objects of the same bundles, have it too.

// reconciler makes steps of phases: what there is of an object, and what there
// ought to be, become creations, scalings and updates.
type reconciler struct{ *lowering }

// phaseSteps lowers the phases of a step, which run at the same time.
func (l reconciler) phaseSteps(s *config.Step) []scenario.Step {
	var all [][]op
	users := map[string]int{} // actions of the phases that share a tuning set
	for i := range s.Phases {
		ops := l.phaseOps(&s.Phases[i])
		all = append(all, ops)
		users[s.Phases[i].TuningSet] += countActions(ops)
	}
	var out []scenario.Step
	for i, ops := range all {
		t := l.tuningSet(s.Phases[i].TuningSet)
		part := 1.0
		if n := users[t.Name]; t.GlobalQPSLoad != nil && n > 0 {
			part = float64(countActions(ops)) / float64(n)
		}
		of := actionsByLane(ops)
		for _, o := range ops {
			if len(s.Phases) > 1 || len(ops) > 1 {
				o.step.Name = s.Name + " " + o.step.Name
			}
			o.pace(paceOf(t, part*float64(o.actions)/float64(of[o.lane])))
			out = append(out, o.step)
		}
	}
	return out
}

// actionsByLane adds up the actions of each lane.
func actionsByLane(ops []op) map[[2]int]int {
	out := map[[2]int]int{}
	for _, o := range ops {
		out[o.lane] += o.actions
	}
	return out
}

// countActions returns those of a phase: one is about a whole bundle.
func countActions(ops []op) int {
	highest := 0
	for _, n := range actionsByLane(ops) {
		highest = max(highest, n)
	}
	return highest
}

func (l reconciler) tuningSet(name string) *config.TuningSet {
	for i := range l.c.TuningSets {
		if l.c.TuningSets[i].Name == name {
			return &l.c.TuningSets[i]
		}
	}
	return &config.TuningSet{} // the check has refused it
}

// phaseOps reconciles one phase with what is there.
func (l reconciler) phaseOps(p *config.Phase) []op {
	var out []op
	for _, s := range l.scopesOf(p) {
		l.sameCounts(p, s)
		for class, objects := range l.classesOf(p, s.spaceKey()) {
			for key, part := range l.partsOf(s, objects[0]) {
				for n, o := range l.reconcilePart(key, part, objects, p.ReplicasPerNamespace) {
					o.lane = [2]int{class, n}
					out = append(out, o)
				}
				l.counts[key] = p.ReplicasPerNamespace
			}
		}
	}
	return out
}

// partsOf are the parts of a scope that the phases of an object cut, with the
// keys of what is there of the object in them.
func (l reconciler) partsOf(s scope, o *config.Object) iter.Seq2[string, scope] {
	t := l.readTemplate(o)
	k := objectKey{s.spaceKey(), o.Basename, t.kind, t.apiGroup()}
	return func(yield func(string, scope) bool) {
		for _, part := range l.cutScope(s, k) {
			if !yield(fmt.Sprint(k, part.from), part) {
				return
			}
		}
	}
}

// sameCounts finds bundles of which there are more of one object than of
// another in some namespace: ClusterLoader2 skips such a phase and fails.
func (l reconciler) sameCounts(p *config.Phase, s scope) {
	type held struct {
		name  string
		part  scope
		count int
	}
	var all []held
	for _, objects := range l.classesOf(p, s.spaceKey()) {
		if objects[0].ListUnknownObjectOptions != nil {
			continue // it counts those that are there
		}
		for key, part := range l.partsOf(s, objects[0]) {
			now := held{objects[0].Basename, part, l.counts[key]}
			for _, other := range all {
				if other.count != now.count && other.part.from <= now.part.to && now.part.from <= other.part.to {
					l.faults.addAt(p.Position(), "objectBundle: there are %d of %s and %d of %s in a namespace: ClusterLoader2 skips such a phase and fails", other.count, other.name, now.count, now.name)
					return
				}
			}
			all = append(all, now)
		}
	}
}

// reconcilePart brings one part to a number of indices in each namespace.
func (l reconciler) reconcilePart(key string, s scope, objects []*config.Object, want int) []op {
	c := l.cohorts[key]
	switch {
	case c == nil && objects[0].ListUnknownObjectOptions != nil:
		return l.deleteUnknown(s, objects, want)
	case c == nil && want == 0:
		return nil
	case c == nil:
		return l.createCohort(key, s, objects, want)
	case c.each == want:
		return l.updateCohort(c, objects)
	}
	if want > c.each {
		l.sameValues(c, objects)
	}
	return []op{l.scaleCohort(key, c, want)}
}

// createCohort makes a cohort.
func (l reconciler) createCohort(key string, s scope, objects []*config.Object, want int) []op {
	c := &cohort{scope: s, each: want, peak: want, create: &scenario.Create{Retry: retryRefused()}}
	for _, o := range objects {
		i, ok := l.newItem(o, c)
		if !ok {
			return nil
		}
		if i.sample.empty {
			l.addNote(o.At("objectTemplatePath"), o.ObjectTemplatePath, "the template gives nothing with these values: no object is made, as in ClusterLoader2")
			continue
		}
		l.placePods(o, i.sample)
		i.body = l.bodyName(l.readTemplate(o), bodiesOf(c.items))
		c.items = append(c.items, i)
	}
	if len(c.items) == 0 {
		return nil
	}
	x := c.create
	c.fillStep(l.out.Namespaces.Count)
	x.Group = l.groupOf(c)
	l.cohorts[key] = c
	l.known = append(l.known, c)
	return []op{{
		step: scenario.Step{Name: c.items[0].object.Basename, Create: x}, actions: want * s.countNamespaces(),
		pace: func(p scenario.Pace) { x.Pace = p },
	}}
}

// fillStep says what a cohort's step makes and where.
func (c *cohort) fillStep(namespaces int) {
	x := c.create
	switch s := c.scope; s.kind {
	case outside:
		x.Count = c.each
	case listedNamespace:
		x.Count, x.Namespace = c.each, s.name
	default:
		x.PerNamespace = c.each
		if s.name != "" || s.from != 1 || s.to != namespaces {
			x.Namespaces = &scenario.Range{From: s.from, To: s.to, Prefix: s.name}
		}
	}
	if len(c.items) == 1 {
		x.Body, x.Name, x.With = c.items[0].body, c.items[0].object.Basename, c.items[0].with
		return
	}
	for _, i := range c.items {
		x.Objects = append(x.Objects, scenario.Item{Body: i.body, Name: i.object.Basename, With: i.with})
	}
}

// newItem looks at one object of a bundle.
func (l reconciler) newItem(o *config.Object, c *cohort) (item, bool) {
	t := l.readTemplate(o)
	with := l.readVariables(t, o)
	s, ok := l.renderSample(t, o, with)
	if ok && !s.empty && s.kind != t.kind {
		l.noteDifference(o.At("objectTemplatePath"), o.ObjectTemplatePath, "its kind is %q as it stands and %q as it is rendered; ClusterLoader2 deletes by the first", t.kind, s.kind)
	}
	return item{object: o, with: with, sample: s, kind: t.kind, group: t.apiGroup()}, ok
}

func bodiesOf(items []item) []string {
	var out []string
	for _, i := range items {
		out = append(out, i.body)
	}
	return out
}

// retryRefused is ClusterLoader2's own way with refused calls: up to five more tries,
// each later than the one before.
func retryRefused() scenario.Retry {
	return scenario.Retry{Times: 5, Delay: unit.Duration(100 * time.Millisecond)}
}

// scaleCohort makes what is missing or deletes what is too much.
func (l reconciler) scaleCohort(key string, c *cohort, want int) op {
	x := &scenario.Scale{Step: c.step}
	if c.scope.kind == namespaceOfRange {
		x.PerNamespace = want
	} else {
		x.To = want
	}
	changed := max(want-c.each, c.each-want) * c.scope.countNamespaces()
	c.each, c.peak = want, max(c.peak, want)
	if want == 0 {
		delete(l.cohorts, key)
	}
	return op{
		step: scenario.Step{Name: c.items[0].object.Basename, Scale: x}, actions: changed,
		pace: func(p scenario.Pace) { x.Pace = p },
	}
}

// sameValues notes where objects that are added would have other values than
// those before them: a scale step makes more of the same.
func (l reconciler) sameValues(c *cohort, objects []*config.Object) {
	for _, o := range objects {
		for _, i := range c.items {
			if i.isObject(o, l.lowering) && !reflect.DeepEqual(i.with, l.readVariables(l.readTemplate(o), o)) {
				l.noteDifference(o.Position(), "basename "+o.Basename, "the objects that are added have the values of those before them; ClusterLoader2 gives them those of this phase")
			}
		}
	}
}

// isObject tells whether an item is the same object of an earlier phase.
func (i item) isObject(o *config.Object, l *lowering) bool {
	t := l.readTemplate(o)
	return i.object.Basename == o.Basename && i.kind == t.kind && i.group == t.apiGroup()
}

// updateCohort patches every object of a cohort: each whose template or values are
// others than before by its new body, and all with one step when none is.
func (l reconciler) updateCohort(c *cohort, objects []*config.Object) []op {
	changed := make([]*scenario.Update, len(c.items))
	some := false
	for n := range c.items {
		i := &c.items[n]
		changed[n] = &scenario.Update{Retry: retryRefused()}
		if len(c.items) > 1 {
			changed[n].Object = i.body
		}
		for _, o := range objects {
			if i.isObject(o, l.lowering) {
				if !l.changeItem(i, o, changed[n]) {
					return nil
				}
			}
		}
		some = some || changed[n].With != nil || changed[n].Body != ""
	}
	if !some {
		changed = []*scenario.Update{{Retry: retryRefused()}}
	}
	var out []op
	for n, u := range changed {
		u.Step, u.Method = c.step, "merge"
		out = append(out, op{
			step: scenario.Step{Name: c.items[n].object.Basename, Update: u}, actions: c.each * c.scope.countNamespaces(),
			pace: func(p scenario.Pace) { u.Pace = p },
		})
	}
	return out
}

// changeItem looks at what an item becomes.
func (l reconciler) changeItem(i *item, o *config.Object, u *scenario.Update) bool {
	next, ok := l.newItem(o, nil)
	if !ok || next.sample.empty {
		return ok
	}
	if !reflect.DeepEqual(next.with, i.with) {
		u.With = next.with
	}
	if t := l.readTemplate(o); t.text != l.out.Bodies[i.body].Text {
		u.Body = l.bodyName(t, nil)
	}
	l.placePods(o, next.sample)
	i.with, i.sample = next.with, next.sample
	return true
}

// burstWithin is how long the burst of a token bucket takes: as good as no time.
const burstWithin = time.Millisecond

// paceOf turns a tuning set into a pace; part is the share of its calls that
// this step sends.
func paceOf(t *config.TuningSet, part float64) scenario.Pace {
	rate := func(v float64) float64 { return math.Round(v*part*1e6) / 1e6 }
	switch {
	case t.QPSLoad != nil:
		return scenario.Pace{Constant: rate(t.QPSLoad.QPS)}
	case t.RandomizedLoad != nil:
		return scenario.Pace{Constant: rate(t.RandomizedLoad.AverageQPS), Jitter: 1}
	case t.SteppedLoad != nil && t.SteppedLoad.StepDelay == 0:
		return scenario.Pace{Burst: true}
	case t.SteppedLoad != nil:
		return scenario.Pace{
			Constant: math.Round(1e6/time.Duration(t.SteppedLoad.StepDelay).Seconds()) / 1e6,
			Bundle:   max(1, int(math.Round(float64(t.SteppedLoad.BurstSize)*part))),
		}
	case t.TimeLimitedLoad != nil:
		return scenario.Pace{Within: unit.Duration(t.TimeLimitedLoad.TimeLimit)}
	case t.RandomizedTimeLimitedLoad != nil:
		return scenario.Pace{Within: unit.Duration(t.RandomizedTimeLimitedLoad.TimeLimit), Random: true}
	case t.ParallelismLimitedLoad != nil:
		return scenario.Pace{Closed: max(1, int(math.Round(float64(t.ParallelismLimitedLoad.ParallelismLimit)*part)))}
	case t.GlobalQPSLoad != nil:
		burst := int(math.Round(float64(t.GlobalQPSLoad.Burst) * part))
		if burst <= 1 {
			return scenario.Pace{Constant: rate(t.GlobalQPSLoad.QPS)}
		}
		return scenario.Pace{Steps: []scenario.Stair{
			{Rate: float64(burst) / burstWithin.Seconds(), For: unit.Duration(burstWithin)}, {Rate: rate(t.GlobalQPSLoad.QPS)},
		}}
	case t.PoissonLoad != nil:
		return scenario.Pace{Poisson: rate(t.PoissonLoad.ExpectedActionsPerSecond)}
	}
	return scenario.Pace{Burst: true}
}

// deleteUnknown deletes objects that no phase made: those that a selector finds.
func (l reconciler) deleteUnknown(s scope, objects []*config.Object, want int) []op {
	var out []op
	for _, o := range objects {
		t := l.readTemplate(o)
		selector := selectorText(o.ListUnknownObjectOptions)
		switch {
		case o.ListUnknownObjectOptions == nil || selector == "":
			l.noteDifference(o.Position(), "basename "+o.Basename, "listUnknownObjectOptions without labels: nothing is deleted")
			continue
		case want > 0:
			l.noteDifference(o.Position(), "basename "+o.Basename, "objects that the run did not make can only be deleted; %d are wanted", want)
			continue
		case s.kind == namespaceOfRange && (s.name != "" || s.from != 1 || s.to != l.out.Namespaces.Count):
			l.noteDifference(o.Position(), "basename "+o.Basename, "the objects with these labels are deleted in all of the run's namespaces, not only in those of the range")
		}
		call := scenario.Call{Verb: "delete", Resource: resourceOf(t.apiVersion, t.kind), Selector: selector}
		if s.kind == listedNamespace {
			call.Namespace = s.name
		}
		x := &scenario.Requests{Rounds: 1, Mix: []scenario.Call{call}}
		out = append(out, op{
			step: scenario.Step{Name: o.Basename, Requests: x}, actions: s.countNamespaces(),
			pace: func(p scenario.Pace) {
				if p.Within > 0 { // how many there are is not known: one after another
					p = scenario.Pace{Closed: 1}
				}
				x.Pace = p
			},
		})
	}
	return out
}

// selectorText is the labels as text.
func selectorText(u *config.ListUnknown) string {
	if u == nil || u.LabelSelector == nil {
		return ""
	}
	return labelText(u)
}
