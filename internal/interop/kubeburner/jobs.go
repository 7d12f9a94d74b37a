package kubeburner

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/load/template"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// jobs makes the steps of all jobs, one after another; jobs of one execution
// group that follow each other run at the same time.
func (im *importer) jobs() []scenario.Step {
	var steps []scenario.Step
	for i := 0; i < len(im.cfg.Jobs); {
		group := im.cfg.Jobs[i].ExecutionGroup
		together := 1
		for group != "" && i+together < len(im.cfg.Jobs) && im.cfg.Jobs[i+together].ExecutionGroup == group {
			together++
		}
		var branches []scenario.Step
		for k := i; k < i+together; k++ {
			branch := im.job(&im.cfg.Jobs[k])
			if together == 1 {
				steps = append(steps, branch...)
			} else {
				branches = append(branches, scenario.Step{Name: im.step(label(im.cfg.Jobs[k].Name), "job"), Sequence: branch})
			}
		}
		if together > 1 {
			steps = append(steps, scenario.Step{Name: im.step(label(group), "group"), Parallel: branches})
		}
		i += together
	}
	return append(steps, im.end()...)
}

// job makes the steps of one job.
func (im *importer) job(j *job) []scenario.Step {
	var steps []scenario.Step
	switch j.JobType {
	case "create":
		steps = im.creates(j)
	case "kubevirt":
		im.unsupported(im.at(j.At+".jobType"), "job.jobType", "job "+j.Name, "operations on virtual machines need KubeVirt, which is not there: the job is left out")
	default:
		steps = im.hooks(j, "beforeJobExecution")
		steps = append(steps, im.selects(j)...)
		steps = append(steps, im.hooks(j, "afterJobExecution")...)
		steps = append(steps, im.pause(j, j.JobPause)...)
	}
	if len(steps) > 0 {
		im.spans = append(im.spans, span{j.Name, steps[0].Name, steps[len(steps)-1].Name})
	}
	return steps
}

// end makes the steps that come after all jobs: global.waitWhenFinished and
// global.gc.
func (im *importer) end() []scenario.Step {
	var steps []scenario.Step
	g := im.cfg.Global
	for i := range im.cfg.Jobs {
		j := &im.cfg.Jobs[i]
		if g.WaitWhenFinished && j.JobType == "create" && j.IncrementalLoad == nil {
			c := &creation{importer: im, j: j, name: label(j.Name), run: im.opts.RunID, iterations: j.JobIterations, items: j.items}
			steps = append(steps, c.ready(j.items, "")...)
		}
	}
	for i := range im.cfg.Jobs {
		j := &im.cfg.Jobs[i]
		if g.GC && !j.GC && j.JobType == "create" && j.IncrementalLoad == nil {
			steps = append(steps, im.collect(j, j.items)...)
		}
	}
	return steps
}

// hooks are the commands of a moment of a job.
func (im *importer) hooks(j *job, when string) []scenario.Step {
	var steps []scenario.Step
	for i := range j.Hooks {
		h := &j.Hooks[i]
		if h.When != when || len(h.Cmd) == 0 {
			continue
		}
		if h.Background {
			im.note(im.at(h.At+".background"), "hook.background", "the command is waited for before the job goes on")
		}
		steps = append(steps, im.exec(j, dashed(when), h.Cmd))
	}
	return steps
}

// dashed writes aName as a-name, and afterGC as after-gc.
func dashed(name string) string {
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

// exec runs a command, as kube-burner does for at most five minutes.
func (im *importer) exec(j *job, name string, command []string) scenario.Step {
	return scenario.Step{Name: im.step(label(j.Name), name), Exec: &scenario.Exec{Command: command, Timeout: unit.Duration(5 * time.Minute)}}
}

// has tells whether the job has hooks of a moment.
func (c *creation) has(when string) bool {
	return slices.ContainsFunc(c.j.Hooks, func(h hook) bool { return h.When == when })
}

// selects makes the steps of a job on objects that it finds by their labels.
func (im *importer) selects(j *job) []scenario.Step {
	verb := map[string]string{"delete": "delete", "patch": "patch", "read": "get"}[j.JobType]
	var calls []scenario.Call
	for i := range j.Objects {
		o := &j.Objects[i]
		resource, _ := im.resource(byDefault(o.APIVersion, "v1"), o.Kind)
		call := scenario.Call{Verb: verb, Resource: resource, Namespace: "*", Selector: selector(o.LabelSelector)}
		if verb == "patch" && !im.patch(j, o, &call) {
			continue
		}
		calls = append(calls, call)
	}
	if len(calls) < len(j.Objects) {
		return nil
	}
	switch {
	case verb == "delete":
		return im.deletes(j, calls)
	case j.ObjectDelay > 0 || j.JobIterationDelay > 0 || j.ObjectWait:
		return im.apart(j, calls)
	case verb == "patch" && j.ExecutionMode != "sequential": // the calls of all objects mixed
		steps := []scenario.Step{im.requests(j, label(j.Name), j.JobIterations, calls)}
		return append(steps, im.settled(j, calls)...)
	}
	var steps []scenario.Step
	for _, call := range calls {
		steps = append(steps, im.requests(j, im.named(j, call), j.JobIterations, []scenario.Call{call}))
	}
	return append(steps, im.settled(j, calls)...)
}

// named is what a job's step on one resource is called.
func (im *importer) named(j *job, call scenario.Call) string {
	if len(j.Objects) == 1 {
		return label(j.Name)
	}
	return label(j.Name) + "-" + label(call.Resource)
}

// requests sends so many of each call to each object found.
func (im *importer) requests(j *job, name string, rounds int, mix []scenario.Call) scenario.Step {
	return scenario.Step{Name: im.step(name), Requests: &scenario.Requests{
		Rounds: rounds, Pace: scenario.Pace{Constant: j.qps()}, Mix: mix, Timeout: unit.Duration(im.cfg.Global.RequestTimeout),
	}}
}

// patch gives a call its body and type.
func (im *importer) patch(j *job, o *object, call *scenario.Call) bool {
	text, ok := im.read(o.ObjectTemplate, im.at(o.At+".objectTemplate"), "object.objectTemplate")
	if !ok {
		return false
	}
	call.With = im.with(j, im.opts.RunID)
	maps.Copy(call.With, o.InputVars)
	if strings.HasSuffix(o.ObjectTemplate, "json") { // sent as it stands
		text = escape(text)
	}
	call.Patch = patches()[o.PatchType]
	call.Body = im.body(bodyKey{o.ObjectTemplate, 0}, text, map[string]bool{})
	t, err := template.Compile(im.path(o.ObjectTemplate), im.out.Bodies[call.Body].Text, 1, template.KubeBurner)
	if err == nil {
		if j.DefaultMissingKeysWithZero {
			missing(t, call.With)
		}
		_, err = t.RenderPatch(nil, template.Vars{Name: call.Resource, Seed: im.opts.Seed, With: call.With})
	}
	if err != nil {
		im.fault("", 0, err.Error())
		return false
	}
	return true
}

// deletes deletes one kind after the other.
func (im *importer) deletes(j *job, calls []scenario.Call) []scenario.Step {
	var steps []scenario.Step
	for i, call := range calls {
		steps = append(steps, im.remove(j, im.named(j, call), selection{call.Resource, j.Objects[i].LabelSelector}, j.WaitForDeletion)...)
		if j.ObjectDelay > 0 {
			steps = append(steps, im.pause(j, j.ObjectDelay)...)
		}
	}
	return steps
}

// apart sends the calls of each iteration and object by a step of its own,
// because something stands between them.
func (im *importer) apart(j *job, calls []scenario.Call) []scenario.Step {
	if j.JobIterations*(3*len(calls)+1) > maxSteps {
		im.add(im.at(j.At+".jobIterations"), "job %q: delays between its iterations make more than %d steps of it", j.Name, maxSteps)
		return nil
	}
	var steps []scenario.Step
	for i := range j.JobIterations {
		for k, call := range calls {
			if call.With != nil {
				call.With = maps.Clone(call.With)
				call.With["Iteration"] = int64(i)
			}
			steps = append(steps, im.requests(j, fmt.Sprintf("%s-%d", im.named(j, call), i), 1, []scenario.Call{call}))
			if j.ObjectWait {
				steps = append(steps, im.settle(j, &j.Objects[k], call)...)
			}
			steps = append(steps, im.pause(j, j.ObjectDelay)...)
		}
		if j.JobType == "patch" && j.WaitWhenFinished && !j.ObjectWait {
			steps = append(steps, im.settled(j, calls)...)
		}
		steps = append(steps, im.pause(j, j.JobIterationDelay)...)
	}
	return steps
}

// settled waits, after a job of patches, until the objects are as their kind's
// waiter has them.
func (im *importer) settled(j *job, calls []scenario.Call) []scenario.Step {
	var steps []scenario.Step
	if j.JobType != "patch" || !j.WaitWhenFinished {
		return nil
	}
	for i, call := range calls {
		duplicate := slices.ContainsFunc(calls[:i], func(o scenario.Call) bool { return o.Resource == call.Resource && o.Selector == call.Selector })
		if !duplicate {
			steps = append(steps, im.settle(j, &j.Objects[i], call)...)
		}
	}
	return steps
}

// settle waits for what one call selects. How many objects that are nobody
// knows; there may be none.
func (im *importer) settle(j *job, o *object, call scenario.Call) []scenario.Step {
	it := item{object: o, kind: o.Kind, resource: call.Resource, body: label(filepath.Base(byDefault(o.ObjectTemplate, o.Kind)))}
	text, ok := im.condition(it)
	if !ok || !o.Wait {
		return nil
	}
	w := scenario.Wait{Objects: call.Resource, Namespace: "*", Selector: call.Selector, Condition: text, All: true, Within: unit.Duration(im.limit(j))}
	if !im.waitOptions(&w, it) {
		return nil
	}
	return []scenario.Step{{Name: im.step(label(j.Name), "ready", label(w.Objects)), Wait: &w}}
}
