package kubeburner

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/interop/kubeburner/dialect"
	"github.com/windtunnel/windtunnel/internal/template"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// jobsSteps makes the steps of all jobs, one after another; jobs of one execution
// group that follow each other run at the same time.
func (im *importer) jobsSteps() []scenario.Step {
	var steps []scenario.Step
	for i := 0; i < len(im.cfg.Jobs); {
		group := im.cfg.Jobs[i].ExecutionGroup
		together := 1
		for group != "" && i+together < len(im.cfg.Jobs) && im.cfg.Jobs[i+together].ExecutionGroup == group {
			together++
		}
		var branches []scenario.Step
		for k := i; k < i+together; k++ {
			branch := im.oneJob(&im.cfg.Jobs[k])
			if together == 1 {
				steps = append(steps, branch...)
			} else {
				branches = append(branches, scenario.Step{Name: im.uniqueStep(dnsLabel(im.cfg.Jobs[k].Name), "job"), Sequence: branch})
			}
		}
		if together > 1 {
			steps = append(steps, scenario.Step{Name: im.uniqueStep(dnsLabel(group), "group"), Parallel: branches})
		}
		i += together
	}
	return append(steps, im.endSteps()...)
}

// oneJob makes the steps of one job.
func (im *importer) oneJob(j *job) []scenario.Step {
	of := jobSteps{im, j}
	if j.JobType == "kubevirt" {
		im.addUnsupported(im.lineAt(j.At+".jobType"), "job.jobType", "job "+j.Name, "operations on virtual machines need KubeVirt, which is not there: the job is left out")
		return nil
	}
	steps := of.watchersOpen()
	steps = append(steps, of.hookSteps("beforeJobExecution")...)
	if j.JobType == "create" {
		steps = append(steps, of.createSteps()...)
	} else {
		steps = append(steps, selectJob{of}.selectSteps()...)
	}
	steps = append(steps, of.hookSteps("afterJobExecution")...)
	if j.BeforeCleanup != "" {
		steps = append(steps, of.execStep("before-cleanup", []string{"/bin/sh", j.BeforeCleanup}))
	}
	done := len(steps)
	steps = append(steps, of.pauseStep(j.JobPause)...)
	if j.MetricsClosing != "afterJob" {
		done = len(steps)
	}
	for done > 1 && steps[done-1].Beside { // it ends when the run does
		done--
	}
	if done > 0 {
		im.spans = append(im.spans, span{j.Name, steps[0].Name, steps[done-1].Name})
	}
	steps = of.addWatches(steps)
	if j.GC && j.JobType == "create" {
		steps = append(steps, of.collectGarbage(j.items)...)
	}
	return steps
}

// endSteps makes the steps that come after all jobs: global.waitWhenFinished and
// global.gc.
func (im *importer) endSteps() []scenario.Step {
	var steps []scenario.Step
	g := im.cfg.Global
	for i := range im.cfg.Jobs {
		j := &im.cfg.Jobs[i]
		if g.WaitWhenFinished && j.JobType == "create" && j.IncrementalLoad == nil {
			c := jobSteps{im, j}.createJob(j.items)
			steps = append(steps, c.readySteps(j.items, "")...)
		}
	}
	for i := range im.cfg.Jobs {
		j := &im.cfg.Jobs[i]
		if g.GC && !j.GC && j.JobType == "create" && j.IncrementalLoad == nil {
			steps = append(steps, jobSteps{im, j}.collectGarbage(j.items)...)
		}
	}
	return steps
}

// jobSteps makes what steps of all kinds of jobs have.
type jobSteps struct {
	*importer
	j *job
}

// hookSteps returns the commands of a moment of a job.
func (s jobSteps) hookSteps(when string) []scenario.Step {
	var steps []scenario.Step
	for i := range s.j.Hooks {
		h := &s.j.Hooks[i]
		if h.When != when || len(h.Cmd) == 0 {
			continue
		}
		step := s.execStep(dashedName(when), h.Cmd)
		if h.Background {
			step.Beside, step.Exec.Timeout = true, unit.Duration(held)
		}
		steps = append(steps, step)
	}
	return steps
}

// besideRest has hooks in the background run beside the steps that follow them, which end
// them. One that nothing follows is waited for.
func (im *importer) besideRest(steps []scenario.Step) []scenario.Step {
	for i := range steps {
		steps[i].Sequence = im.besideRest(steps[i].Sequence)
		for k := range steps[i].Parallel {
			steps[i].Parallel[k].Sequence = im.besideRest(steps[i].Parallel[k].Sequence)
		}
	}
	for i := len(steps) - 1; i >= 0; i-- {
		if hook := &steps[i]; hook.Beside && i == len(steps)-1 {
			hook.Beside, hook.Exec.Timeout = false, unit.Duration(hookWithin)
		} else if hook.Beside {
			rest := scenario.Step{Name: im.uniqueStep(hook.Name, "rest"), Sequence: slices.Clone(steps[i+1:])}
			steps = append(steps[:i], scenario.Step{Name: im.uniqueStep(hook.Name, "background"), Parallel: []scenario.Step{*hook, rest}})
		}
	}
	return steps
}

// dashedName writes aName as a-name, and afterGC as after-gc.
func dashedName(name string) string {
	var out strings.Builder
	upper := false
	for _, r := range name {
		was := upper
		if upper = r >= 'A' && r <= 'Z'; upper && !was {
			out.WriteByte('-')
		}
		out.WriteRune(r)
	}
	return strings.ToLower(out.String())
}

// execStep runs a command.
func (s jobSteps) execStep(name string, command []string) scenario.Step {
	return scenario.Step{Name: s.uniqueStep(dnsLabel(s.j.Name), name), Exec: &scenario.Exec{Command: command, Timeout: unit.Duration(hookWithin)}}
}

// hookWithin bounds a hook, as in kube-burner.
const hookWithin = 5 * time.Minute

// hasHooks tells whether the job has hooks of a moment.
func (c *creation) hasHooks(when string) bool {
	return slices.ContainsFunc(c.j.Hooks, func(h hook) bool { return h.When == when })
}

// selectJob makes the steps of a job on objects that it finds.
type selectJob struct{ jobSteps }

// selectSteps makes the steps of a job on objects that it finds by their labels.
func (c selectJob) selectSteps() []scenario.Step {
	verb := map[string]string{"delete": "delete", "patch": "patch", "read": "get"}[c.j.JobType]
	var calls []scenario.Call
	for i := range c.j.Objects {
		o := &c.j.Objects[i]
		resource, _ := c.resourceOf(byDefault(o.APIVersion, "v1"), o.Kind)
		call := scenario.Call{Verb: verb, Resource: resource, Namespace: "*", Selector: selectorText(o.LabelSelector)}
		if verb == "patch" && !c.setPatch(o, &call) {
			continue
		}
		calls = append(calls, call)
	}
	if len(calls) < len(c.j.Objects) {
		return nil
	}
	switch {
	case verb == "delete":
		return c.deleteSteps(calls)
	case c.j.ObjectDelay > 0 || c.j.JobIterationDelay > 0 || c.j.ObjectWait:
		return c.callsApart(calls)
	case verb == "patch" && c.j.ExecutionMode != "sequential": // the calls of all objects mixed
		steps := []scenario.Step{c.requestSteps(dnsLabel(c.j.Name), c.j.JobIterations, calls)}
		return append(steps, c.waitSettled(calls)...)
	}
	var steps []scenario.Step
	for _, call := range calls {
		steps = append(steps, c.requestSteps(c.stepName(call), c.j.JobIterations, []scenario.Call{call}))
	}
	return append(steps, c.waitSettled(calls)...)
}

// stepName is what a job's step on one resource is called.
func (c selectJob) stepName(call scenario.Call) string {
	if len(c.j.Objects) == 1 {
		return dnsLabel(c.j.Name)
	}
	return dnsLabel(c.j.Name) + "-" + dnsLabel(call.Resource)
}

// requestSteps sends so many of each call to each object found.
func (c selectJob) requestSteps(name string, rounds int, mix []scenario.Call) scenario.Step {
	return scenario.Step{Name: c.uniqueStep(name), Requests: &scenario.Requests{
		Rounds: rounds, Pace: scenario.Pace{Constant: c.j.rateOf()}, Mix: mix, Timeout: unit.Duration(c.cfg.Global.RequestTimeout),
	}}
}

// setPatch gives a call its body and type.
func (c selectJob) setPatch(o *object, call *scenario.Call) bool {
	text, ok := c.readTemplate(o.ObjectTemplate, c.lineAt(o.At+".objectTemplate"), "object.objectTemplate")
	if !ok {
		return false
	}
	call.With = c.jobVariables(c.j, c.opts.RunID)
	maps.Copy(call.With, o.InputVars)
	if strings.HasSuffix(o.ObjectTemplate, "json") { // sent as it stands
		text = escapeTemplate(text)
	}
	call.Patch = patchTypes()[o.PatchType]
	call.Body = c.keepBody(bodyKey{file: o.ObjectTemplate}, text, map[string]bool{})
	t, err := template.Compile(c.pathOf(o.ObjectTemplate), c.out.Bodies[call.Body].Text, 1, dialect.New())
	if err == nil {
		if c.j.DefaultMissingKeysWithZero {
			fillMissing(t, call.With)
		}
		_, err = t.RenderPatch(nil, template.Vars{Name: call.Resource, Seed: c.opts.Seed, With: call.With})
	}
	if err != nil {
		c.addFault("", 0, err.Error())
		return false
	}
	return true
}

// deleteSteps deletes one kind after the other.
func (c selectJob) deleteSteps(calls []scenario.Call) []scenario.Step {
	var steps []scenario.Step
	for i, call := range calls {
		steps = append(steps, c.removeSelection(c.stepName(call), selection{call.Resource, c.j.Objects[i].LabelSelector}, c.j.WaitForDeletion)...)
		if c.j.ObjectDelay > 0 {
			steps = append(steps, c.pauseStep(c.j.ObjectDelay)...)
		}
	}
	return steps
}

// callsApart sends the calls of each iteration and object by a step of its own,
// because something stands between them.
func (c selectJob) callsApart(calls []scenario.Call) []scenario.Step {
	if c.j.JobIterations*(3*len(calls)+1) > maxSteps {
		c.addFaultAt(c.lineAt(c.j.At+".jobIterations"), "job %q: delays between its iterations make more than %d steps of it", c.j.Name, maxSteps)
		return nil
	}
	var steps []scenario.Step
	for i := range c.j.JobIterations {
		for k, call := range calls {
			if call.With != nil {
				call.With = maps.Clone(call.With)
				call.With["Iteration"] = int64(i)
			}
			steps = append(steps, c.requestSteps(fmt.Sprintf("%s-%d", c.stepName(call), i), 1, []scenario.Call{call}))
			if c.j.ObjectWait {
				steps = append(steps, c.settleCall(&c.j.Objects[k], call)...)
			}
			steps = append(steps, c.pauseStep(c.j.ObjectDelay)...)
		}
		if c.j.JobType == "patch" && c.j.WaitWhenFinished && !c.j.ObjectWait {
			steps = append(steps, c.waitSettled(calls)...)
		}
		steps = append(steps, c.pauseStep(c.j.JobIterationDelay)...)
	}
	return steps
}

// waitSettled waits, after a job of patches, until the objects are as their kind's
// waiter has them.
func (c selectJob) waitSettled(calls []scenario.Call) []scenario.Step {
	var steps []scenario.Step
	if c.j.JobType != "patch" || !c.j.WaitWhenFinished {
		return nil
	}
	for i, call := range calls {
		duplicate := slices.ContainsFunc(calls[:i], func(o scenario.Call) bool { return o.Resource == call.Resource && o.Selector == call.Selector })
		if !duplicate {
			steps = append(steps, c.settleCall(&c.j.Objects[i], call)...)
		}
	}
	return steps
}

// settleCall waits for what one call selects. How many objects that are nobody
// knows; there may be none.
func (c selectJob) settleCall(o *object, call scenario.Call) []scenario.Step {
	it := item{object: o, kind: o.Kind, resource: call.Resource, body: dnsLabel(filepath.Base(byDefault(o.ObjectTemplate, o.Kind)))}
	text, ok := it.waitCondition()
	if !ok || !o.Wait {
		return nil
	}
	w := scenario.Wait{Objects: call.Resource, Namespace: "*", Selector: call.Selector, Condition: text, All: true, Within: unit.Duration(c.waitLimit())}
	if !c.waitOptions(&w, it) {
		return nil
	}
	return []scenario.Step{{Name: c.uniqueStep(dnsLabel(c.j.Name), "ready", dnsLabel(w.Objects)), Wait: &w}}
}
