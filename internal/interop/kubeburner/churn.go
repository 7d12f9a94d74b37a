package kubeburner

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// churnSteps deletes a share of what the job made and makes it again.
func (c *creation) churnSteps() []scenario.Step {
	x := c.j.ChurnConfig
	if !x.isOn() || c.made == nil && !c.isGrouped() { // the latter was said already
		return nil
	}
	line := c.lineAt(x.At)
	if len(c.made) > 1 {
		c.addUnsupported(line, "job.churnConfig", "churn of "+c.j.Name, "not of a job with groups: churn is of one step's objects")
		return nil
	}
	step := &scenario.Churn{
		Step: c.made[0], Cycles: x.Cycles, For: unit.Duration(x.Duration), Delay: unit.Duration(x.DeleteDelay), Rest: unit.Duration(x.Delay),
		PerObject: true, Pace: scenario.Pace{Constant: c.j.rateOf()}, Timeout: unit.Duration(c.cfg.Global.RequestTimeout),
	}
	if x.Delay == 0 && x.DeleteDelay > 0 {
		step.Rest = unit.Duration(time.Millisecond) // none would be the delay's
	}
	ok := false
	if x.Mode == "objects" {
		ok = c.churnObjects(step, line)
	} else {
		ok = c.churnNamespaces(step, line)
	}
	if !ok {
		return nil
	}
	steps := c.hookSteps("beforeChurn")
	steps = append(steps, scenario.Step{Name: c.uniqueStep(c.name, "churn"), Churn: step})
	steps = append(steps, c.pauseStep(x.Delay)...) // kube-burner sleeps after the last cycle too
	return append(steps, c.hookSteps("afterChurn")...)
}

// churnObjects says which objects are churned. kube-burner takes a share of those of each
// template, one at least, and always waits for those that it made again.
func (c *creation) churnObjects(step *scenario.Churn, line int) bool {
	if step.Percent = float64(c.j.ChurnConfig.Percent); step.Percent == 0 {
		step.Percent = smallest
	}
	step.Wait = c.listWaits(c.items, "")
	if !slices.ContainsFunc(c.items, func(it item) bool { return !it.object.Churn }) {
		return true
	}
	for _, it := range c.items {
		if it.object.Churn {
			step.Objects = append(step.Objects, it.body)
		}
	}
	if step.Objects == nil {
		c.addNote(line, "job.churnConfig", "no object has churn: nothing is churned, as in kube-burner")
	}
	return step.Objects != nil
}

// smallest is a share of which only the least number of objects remains: one.
const smallest = 0.001

// churnNamespaces says which namespaces are churned: kube-burner rounds their number
// down, and takes one at least.
func (c *creation) churnNamespaces(step *scenario.Churn, line int) bool {
	space := c.spaceOf()
	switch {
	case space == nil:
		c.addNote(line, "job.churnConfig", "the job makes no namespaces: none are churned, as in kube-burner")
		return false
	case len(space.steps) > 1 || space.owner != c.j.Name:
		c.addUnsupported(line, "job.churnConfig", "churn of "+c.j.Name, "its namespaces are made by several jobs: they are not churned")
		return false
	}
	if slices.ContainsFunc(c.items, func(it item) bool { return it.cluster }) {
		c.noteChange(line, "job.churnConfig", "objects that are in no namespace are not churned with the namespaces")
	}
	count := max(1, space.count)
	step.Namespaces, step.Contents = space.steps[0], c.deletesObjects(c.j.ChurnConfig.DeletionStrategy)
	step.Percent = 100 * float64(max(1, c.j.ChurnConfig.Percent*count/100)) / float64(count)
	if c.j.WaitWhenFinished {
		step.Wait = c.listWaits(c.items, "")
	}
	return true
}

// spaceOf is the namespaces that the job's objects are in; nil for none.
func (c *creation) spaceOf() *space {
	if !needsNamespaces(c.items) {
		return nil
	}
	if c.j.NamespacedIterations {
		return c.spaces[c.j.Namespace+"-"]
	}
	return c.spaces[c.j.Namespace]
}

// unrollRounds unrolls an incremental load: each round makes everything from the
// first iteration on, more of them each time, and deletes it again.
func (s jobSteps) unrollRounds(items []item) []scenario.Step {
	var steps []scenario.Step
	l := s.j.IncrementalLoad
	if s.j.ChurnConfig.isOn() {
		s.addUnsupported(s.lineAt(s.j.ChurnConfig.At), "job.churnConfig", "churn of "+s.j.Name, "not beside incrementalLoad")
	}
	for n, iterations := range l.roundSizes(s.j.JobIterations) {
		round := fmt.Sprintf("round-%d", n+1)
		c := &creation{
			jobSteps: s, name: dnsLabel(s.j.Name) + "-" + round, items: items, iterations: iterations,
			run: newUUID(round, s.opts.Seed, []byte(s.opts.RunID)),
		}
		steps = append(steps, c.createAll()...)
		s.j.groups = append(s.j.groups, c.name)
		if l.HealthCheckScript != "" {
			steps = append(steps, s.execStep(round+"-health", []string{"/bin/bash", l.HealthCheckScript}))
		} else {
			s.addNote(s.lineAt(l.At), "job.incrementalLoad", "without healthCheckScript, nothing is asked of the cluster's health between rounds")
		}
		steps = append(steps, s.collectGarbage(items)...)
		steps = append(steps, s.pauseStep(l.StepDelay)...)
		if len(steps) > maxSteps {
			s.addFaultAt(s.lineAt(l.At), "job %q: incrementalLoad makes more than %d steps", s.j.Name, maxSteps)
			return nil
		}
	}
	return steps
}

// roundSizes returns the iterations of each round.
func (l *incremental) roundSizes(jobIterations int) []int {
	first := l.StartIterations
	if first == 0 {
		first = jobIterations
	}
	total := max(first, l.TotalIterations)
	grow := l.linearIncreases(first, total)
	if l.Pattern.Type == "exponential" {
		grow = l.exponentialIncreases(first)
	}
	out := []int{first}
	for at := first; at < total && len(out) < maxSteps; {
		at = min(total, at+max(1, grow(len(out)+1)))
		out = append(out, at)
	}
	return out
}

// linearIncreases gives the increase before each round: always the same, and small
// enough for minSteps.
func (l *incremental) linearIncreases(first, total int) func(round int) int {
	step := 1
	if p := l.Pattern.Linear; p != nil {
		step = max(1, p.StepSize)
		if rest := total - first; p.MinSteps > 0 && (rest+step-1)/step < p.MinSteps {
			step = max(1, (rest+p.MinSteps-1)/p.MinSteps)
		}
	}
	return func(int) int { return step }
}

// exponentialIncreases gives the increase before each round: base to the power of the
// round times the first size, after rounds of warming up with the first size.
func (l *incremental) exponentialIncreases(first int) func(round int) int {
	p := exponential{}
	if l.Pattern.Exponential != nil {
		p = *l.Pattern.Exponential
	}
	if p.Base <= 0 {
		p.Base = 2
	}
	return func(round int) int {
		if p.WarmupSteps > 0 && round <= p.WarmupSteps {
			return first
		}
		power := math.Min(math.Pow(p.Base, float64(round-max(0, p.WarmupSteps))), 1e9)
		more := int(power) * first
		if p.MaxIncrease > 0 {
			more = min(more, p.MaxIncrease)
		}
		return more
	}
}

// groupNames are the groups of pods that a job makes.
func (j *job) groupNames() []string {
	if len(j.groups) > 0 {
		return j.groups
	}
	return []string{dnsLabel(j.Name)}
}
