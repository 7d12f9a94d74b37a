package kubeburner

import (
	"fmt"
	"math"
	"slices"

	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// churn deletes a share of what the job made and makes it again.
func (c *creation) churn() []scenario.Step {
	x := c.j.ChurnConfig
	if !x.on() || c.made == nil && !c.grouped() { // the latter was said already
		return nil
	}
	line := c.at(x.At)
	if len(c.made) > 1 {
		c.unsupported(line, "job.churnConfig", "churn of "+c.j.Name, "not of a job with groups: churn is of one step's objects")
		return nil
	}
	step := &scenario.Churn{
		Step: c.made[0], Percent: c.percent(c.iterations), Cycles: x.Cycles, For: unit.Duration(x.Duration),
		Delay: unit.Duration(x.DeleteDelay), Rest: unit.Duration(x.Delay), Pace: scenario.Pace{Constant: c.j.qps()},
		Timeout: unit.Duration(c.cfg.Global.RequestTimeout),
	}
	if c.j.WaitWhenFinished {
		step.Wait = c.waits(c.items, "")
	}
	if x.Mode == "objects" {
		kept := slices.ContainsFunc(c.items, func(it item) bool { return !it.object.Churn })
		for _, it := range c.items {
			if kept && it.object.Churn {
				step.Objects = append(step.Objects, it.body)
			}
		}
		if kept && step.Objects == nil {
			c.note(line, "job.churnConfig", "no object is to be churned: nothing is")
			return nil
		}
	} else {
		space := c.spaceOf()
		if space == nil || len(space.steps) > 1 {
			c.note(line, "job.churnConfig", "the job makes no namespaces of its own: none are churned")
			return nil
		}
		step.Namespaces, step.Percent = space.steps[0], c.percent(max(1, space.count))
	}
	steps := c.hooks("beforeChurn")
	steps = append(steps, scenario.Step{Name: c.step(c.name, "churn"), Churn: step})
	return append(steps, c.hooks("afterChurn")...)
}

// percent is the share that is churned; none set means one of them.
func (c *creation) percent(of int) float64 {
	if c.j.ChurnConfig.Percent == 0 {
		return 100 / float64(of)
	}
	return float64(c.j.ChurnConfig.Percent)
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

// rounds unrolls an incremental load: each round makes everything from the
// first iteration on, more of them each time, and deletes it again.
func (s jobSteps) rounds(items []item) []scenario.Step {
	var steps []scenario.Step
	l := s.j.IncrementalLoad
	if s.j.ChurnConfig.on() {
		s.unsupported(s.at(s.j.ChurnConfig.At), "job.churnConfig", "churn of "+s.j.Name, "not beside incrementalLoad")
	}
	for n, iterations := range l.sizes(s.j.JobIterations) {
		round := fmt.Sprintf("round-%d", n+1)
		c := &creation{
			jobSteps: s, name: label(s.j.Name) + "-" + round, items: items, iterations: iterations,
			run: uuid(round, s.opts.Seed, []byte(s.opts.RunID)),
		}
		steps = append(steps, c.all()...)
		s.j.groups = append(s.j.groups, c.name)
		if l.HealthCheckScript != "" {
			steps = append(steps, s.exec(round+"-health", []string{"/bin/bash", l.HealthCheckScript}))
		} else {
			s.note(s.at(l.At), "job.incrementalLoad", "without healthCheckScript, nothing is asked of the cluster's health between rounds")
		}
		steps = append(steps, s.collect(items)...)
		steps = append(steps, s.pause(l.StepDelay)...)
		if len(steps) > maxSteps {
			s.add(s.at(l.At), "job %q: incrementalLoad makes more than %d steps", s.j.Name, maxSteps)
			return nil
		}
	}
	return steps
}

// sizes are the iterations of each round.
func (l *incremental) sizes(jobIterations int) []int {
	first := l.StartIterations
	if first == 0 {
		first = jobIterations
	}
	total := max(first, l.TotalIterations)
	grow := l.linear(first, total)
	if l.Pattern.Type == "exponential" {
		grow = l.exponential(first)
	}
	out := []int{first}
	for at := first; at < total && len(out) < maxSteps; {
		at = min(total, at+max(1, grow(len(out)+1)))
		out = append(out, at)
	}
	return out
}

// linear gives the increase before each round: always the same, and small
// enough for minSteps.
func (l *incremental) linear(first, total int) func(round int) int {
	step := 1
	if p := l.Pattern.Linear; p != nil {
		step = max(1, p.StepSize)
		if rest := total - first; p.MinSteps > 0 && (rest+step-1)/step < p.MinSteps {
			step = max(1, (rest+p.MinSteps-1)/p.MinSteps)
		}
	}
	return func(int) int { return step }
}

// exponential gives the increase before each round: base to the power of the
// round times the first size, after rounds of warming up with the first size.
func (l *incremental) exponential(first int) func(round int) int {
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
	return []string{label(j.Name)}
}
