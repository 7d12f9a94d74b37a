package kubeburner

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// maxSteps bounds what iterations that wait for each other may become.
const maxSteps = 10_000

// creation is one run through a create job: the whole of it, or one round of
// its incremental load.
type creation struct {
	jobSteps
	name       string // its steps and its group of pods begin with it
	run        string // RunID
	iterations int
	items      []item
	made       []string // its create steps
}

// space is the namespaces that begin with a job's namespace.
type space struct {
	owner string   // the job that made the first of them
	steps []string // that made them
	count int      // how many there are; -1: one, without a number
}

// createJob is the whole of a create job.
func (s jobSteps) createJob(items []item) *creation {
	return &creation{jobSteps: s, name: dnsLabel(s.j.Name), run: s.opts.RunID, iterations: s.j.JobIterations, items: items}
}

// createSteps makes the steps of a create job.
func (s jobSteps) createSteps() []scenario.Step {
	items := s.readItems(s.j)
	s.j.items = items
	c := s.createJob(items)
	steps := s.cleanUpEarlier(items)
	switch {
	case len(items) == 0 && c.hasHooks("onEachIteration"): // a job may have none: what it does besides is done
		steps = append(steps, c.byIterations()...)
	case len(items) == 0:
		steps = append(steps, s.pauseStep(time.Duration(c.iterations)*s.j.JobIterationDelay)...)
	case s.j.IncrementalLoad != nil:
		steps = append(steps, s.unrollRounds(items)...)
	default:
		steps = append(steps, c.createAll()...)
		steps = append(steps, c.churnSteps()...)
	}
	return steps
}

// pauseStep does nothing for so long.
func (s jobSteps) pauseStep(d time.Duration) []scenario.Step {
	if d == 0 {
		return nil
	}
	return []scenario.Step{{Name: s.uniqueStep(dnsLabel(s.j.Name), "pause"), Pause: unit.Duration(d)}}
}

// createAll makes namespaces and objects, verifies them and waits for them.
func (c *creation) createAll() []scenario.Step {
	c.out.Groups = append(c.out.Groups, scenario.Group{Name: c.name, Selector: selectorText(map[string]string{labelJob: c.j.Name, labelRun: c.run})})
	steps := c.createNamespaces()
	switch {
	case kindVaries(c.items) && (c.isGrouped() || c.j.IncrementalLoad != nil):
		c.addUnsupported(c.lineAt(c.j.At), "job.objects", "job "+c.j.Name, "kinds that differ between iterations go neither with groups of objects nor with incrementalLoad: its objects are not made")
		return nil
	case c.isGrouped():
		steps = append(steps, c.byGroups()...)
	case c.j.PodWait && !c.j.WaitWhenFinished || c.hasHooks("onEachIteration") || kindVaries(c.items):
		steps = append(steps, c.byIterations()...)
	default:
		steps = append(steps, c.createItems(c.name, c.items))
		if c.j.WaitWhenFinished {
			steps = append(steps, c.readySteps(c.items, "")...)
		}
	}
	if c.j.VerifyObjects {
		steps = append(steps, c.verifyCount()...)
	}
	c.demand.addCreation(c.items, c.iterations)
	return steps
}

// The labels by which kube-burner finds what it made.
const (
	labelJob   = "kube-burner.io/job"
	labelRun   = "kube-burner.io/runid"
	labelIndex = "kube-burner.io/index"
)

// needsNamespaces tells whether an object is to be put into a namespace that
// its template does not say.
func needsNamespaces(items []item) bool {
	return slices.ContainsFunc(items, func(it item) bool { return !it.cluster && it.fixed == "" })
}

// createNamespaces makes those that are not there yet, before the objects: kube-burner
// makes each one right before its first object, and waits for it. Calls that
// are due at their time cannot wait.
func (c *creation) createNamespaces() []scenario.Step {
	j := c.j
	if !needsNamespaces(c.items) {
		return nil
	}
	if j.Namespace == "" {
		c.lacksNamespace()
		return nil
	}
	count, base, name := -1, j.Namespace, j.Namespace
	if j.NamespacedIterations {
		count = (c.iterations + j.IterationsPerNamespace - 1) / j.IterationsPerNamespace
		base, name = base+"-", base+"-{{ .Iteration }}"
	}
	had, ok := c.spaces[base]
	if ok && (count < 0 || had.count >= count) {
		return nil
	}
	first := 0
	if ok {
		first = had.count
		name = fmt.Sprintf("%s-{{ add .Iteration %d }}", j.Namespace, first)
	} else {
		had = &space{owner: j.Name}
		c.spaces[base] = had
	}
	step := c.uniqueStep(c.name, "namespaces")
	had.steps, had.count = append(had.steps, step), count
	return []scenario.Step{{Name: step, Create: &scenario.Create{
		Body: c.namespaceBody(name), Count: max(1, count-first), With: c.jobVariables(j, c.run), Retry: retryRefused(),
		Pace: scenario.Pace{Constant: j.rateOf()}, Timeout: unit.Duration(c.cfg.Global.RequestTimeout),
	}}}
}

// lacksNamespace says which objects need the namespace that the job does not say.
func (c *creation) lacksNamespace() {
	for _, it := range c.items {
		switch {
		case it.cluster || it.fixed != "":
		case it.unknown:
			c.addFaultAt(c.lineAt(it.object.At), "object.objectTemplate: the kind %s of %s is unknown: the config brings no definition of it (--kubeconfig FILE asks a cluster that serves it); "+
				"if its objects are in namespaces, job %q needs a namespace", it.kind, it.sample.APIVersion, c.j.Name)
		default:
			c.addFaultAt(c.lineAt(c.j.At), "job.namespace: job %q has objects that need one", c.j.Name)
		}
	}
}

// namespaceBody is the template of a job's namespaces.
func (c *creation) namespaceBody(name string) string {
	labels := map[string]string{labelJob: "{{ .JobName }}", "kube-burner.io/uuid": "{{ .UUID }}", labelRun: "{{ .RunID }}"}
	for k, v := range c.j.NamespaceLabels {
		labels[k] = escapeTemplate(v)
	}
	text := "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: " + name + "\n  labels:\n"
	for _, k := range sortedKeys(labels) {
		text += fmt.Sprintf("    %s: %s\n", escapeTemplate(k), strconv.Quote(labels[k]))
	}
	if len(c.j.NamespaceAnnotations) > 0 {
		text += "  annotations:\n"
	}
	for _, k := range sortedKeys(c.j.NamespaceAnnotations) {
		text += fmt.Sprintf("    %s: %s\n", escapeTemplate(k), strconv.Quote(escapeTemplate(c.j.NamespaceAnnotations[k])))
	}
	return c.keepBody(bodyKey{file: "namespace.yml: " + text}, text, map[string]bool{})
}

// createItems is a step that makes items for every iteration, at the job's rate.
func (c *creation) createItems(name string, items []item) scenario.Step {
	x := &scenario.Create{
		Count: c.iterations, Group: c.name, With: c.jobVariables(c.j, c.run), Retry: retryRefused(),
		Pace: scenario.Pace{Constant: c.j.rateOf()}, PerObject: true, Pause: unit.Duration(c.j.JobIterationDelay),
		Timeout: unit.Duration(c.cfg.Global.RequestTimeout),
	}
	for _, it := range items {
		x.Objects = append(x.Objects, scenario.Item{Body: it.body, Name: it.name, With: it.with, Replicas: it.object.Replicas, Every: it.everyNth(c.iterations)})
	}
	c.placeObjects(x)
	name = c.uniqueStep(name)
	c.made = append(c.made, name)
	return scenario.Step{Name: name, Create: x}
}

// placeObjects says into which namespaces a step's objects go.
func (c *creation) placeObjects(x *scenario.Create) {
	switch j := c.j; {
	case !needsNamespaces(c.items):
	case !j.NamespacedIterations:
		x.Namespace = j.Namespace
	default:
		last := (c.iterations - 1) / j.IterationsPerNamespace
		x.Namespaces = &scenario.Range{Prefix: j.Namespace, From: 0, To: last, Each: j.IterationsPerNamespace, Pause: unit.Duration(j.NamespaceDelay)}
	}
}

// retryRefused is kube-burner's: objects that could not be made are tried again. It is
// part of what a config means, because an object can be refused for being early
// (a pod before its namespace has an account). Each attempt is counted.
func retryRefused() scenario.Retry {
	return scenario.Retry{Times: 6, Codes: []int{403, 429, 500, 502, 503, 504}, Delay: unit.Duration(time.Second)}
}

// isGrouped tells whether the job's objects are made group by group.
func (c *creation) isGrouped() bool {
	return slices.ContainsFunc(c.items, func(it item) bool { return it.object.Group.ID != 0 || it.object.Group.GC })
}

// byGroups makes one group of objects after the other, each for all iterations.
func (c *creation) byGroups() []scenario.Step {
	var steps []scenario.Step
	groups := map[int][]item{}
	for _, it := range c.items {
		groups[it.object.Group.ID] = append(groups[it.object.Group.ID], it)
	}
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		name := fmt.Sprintf("%s-group-%d", c.name, id)
		steps = append(steps, c.createItems(name, groups[id]))
		if c.j.PodWait || c.j.WaitWhenFinished {
			steps = append(steps, c.readySteps(groups[id], "")...)
		}
		steps = append(steps, c.collectGroup(name, groups[id])...)
	}
	return steps
}

// collectGroup deletes the objects of a group that say so.
func (c *creation) collectGroup(name string, items []item) []scenario.Step {
	var before, after time.Duration
	var steps, deletes []scenario.Step
	for _, it := range items {
		before, after = max(before, it.object.Group.PauseBeforeGC), max(after, it.object.Group.PauseAfterGC)
		if it.object.Group.GC {
			own := map[string]string{labelJob: c.j.Name, labelRun: c.run, labelIndex: strconv.Itoa(it.index)}
			deletes = append(deletes, c.removeSelection(name+"-delete-"+it.body, selection{it.resource, own}, c.j.WaitForDeletion)...)
		}
	}
	if before > 0 {
		steps = append(steps, scenario.Step{Name: c.uniqueStep(name, "pause"), Pause: unit.Duration(before)})
	}
	steps = append(steps, deletes...)
	if after > 0 && len(deletes) > 0 {
		steps = append(steps, scenario.Step{Name: c.uniqueStep(name, "pause"), Pause: unit.Duration(after)})
	}
	return steps
}

// byIterations makes the objects of each iteration by a step of its own, so
// that something can stand between two of them.
func (c *creation) byIterations() []scenario.Step {
	var steps []scenario.Step
	if c.iterations*(1+len(c.items)) > maxSteps {
		c.addFaultAt(c.lineAt(c.j.At+".jobIterations"), "job %q: podWait, a hook on each iteration or kinds that differ make more than %d steps of it", c.j.Name, maxSteps)
		return nil
	}
	if c.j.ChurnConfig.isOn() {
		c.addUnsupported(c.lineAt(c.j.ChurnConfig.At), "job.churnConfig", "churn of "+c.j.Name,
			"not beside podWait, a hook on each iteration or kinds that differ: churn is of one step's objects")
	}
	for i := range c.iterations {
		if i > 0 && i%c.j.IterationsPerNamespace == 0 && c.j.NamespacedIterations && needsNamespaces(c.items) {
			steps = append(steps, c.pauseStep(c.j.NamespaceDelay)...)
		}
		steps = append(steps, c.hookSteps("onEachIteration")...)
		one := *c
		one.iterations = 1
		var items []item
		for _, it := range c.items {
			if it.hasObjectAt(i, c.iterations) {
				it.with = maps.Clone(it.with)
				it.with["Iteration"], it.every, it.at = int64(i), 1, nil
				items = append(items, it)
			}
		}
		if len(items) > 0 {
			step := one.createItems(fmt.Sprintf("%s-%d", c.name, i), items)
			if step.Create.Namespaces != nil {
				step.Create.Namespaces = nil
				step.Create.Namespace = fmt.Sprintf("%s-%d", c.j.Namespace, i/c.j.IterationsPerNamespace)
			}
			step.Create.Pause = 0
			steps = append(steps, step)
			if c.j.PodWait && !c.j.WaitWhenFinished {
				steps = append(steps, one.readySteps(items, strconv.Itoa(i))...)
			}
		}
		steps = append(steps, c.pauseStep(c.j.JobIterationDelay)...)
	}
	c.made = nil // no single step made it all
	if c.j.WaitWhenFinished {
		steps = append(steps, c.readySteps(c.items, "")...)
	}
	return steps
}

// verifyCount says how many objects there are to be in the end, of those that no
// wait counts.
func (c *creation) verifyCount() []scenario.Step {
	var out []scenario.Step
	counted := map[string]int{} // the step that counts objects of a resource and an index
	for _, it := range c.items {
		if _, waited := it.waitCondition(); waited && it.object.Wait && (c.j.WaitWhenFinished || c.cfg.Global.WaitWhenFinished) || it.object.Group.GC {
			continue
		}
		which := it.resource + " " + c.selectOwn(it)
		if at, ok := counted[which]; ok { // replicas of one kind
			out[at].Wait.Count += it.countObjects(c.iterations)
			continue
		}
		counted[which] = len(out)
		step := scenario.Step{Name: c.uniqueStep(c.name, "verify", it.body), Wait: &scenario.Wait{
			Objects: it.resource, Namespace: "*", Selector: c.selectOwn(it), Condition: "true", Count: it.countObjects(c.iterations), Within: unit.Duration(time.Minute),
		}}
		if !c.j.ErrorOnVerify {
			step.OnFailure = "continue"
		}
		out = append(out, step)
	}
	return out
}

// selectOwn selects what the creation made of an item.
func (c *creation) selectOwn(it item) string {
	return selectorText(map[string]string{labelJob: c.j.Name, labelRun: c.run, labelIndex: strconv.Itoa(it.index)})
}

// escapeTemplate keeps a text from being read as a template.
func escapeTemplate(text string) string { return strings.ReplaceAll(text, "{{", "{{`{{`}}") }
