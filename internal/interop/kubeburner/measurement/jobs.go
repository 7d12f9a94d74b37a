package measurement

import (
	"slices"
	"strings"

	importer "github.com/windtunnel/windtunnel/internal/interop/kubeburner"
	"github.com/windtunnel/windtunnel/scenario"
)

// job is what a document calls one: of an imported scenario what its config
// called so, of any other a create step.
type job struct {
	name        string
	since, till string   // its first and its last step
	churns      []string // its churn steps
	groups      []group  // of its pods
	config      jobConfig
}

// group is pods of a job, all of them but in an incremental load, where each
// round is one.
type group struct{ name, run string }

// listJobs returns the jobs of a scenario in their order.
func listJobs(s *scenario.Scenario) []job {
	var out []job
	for _, m := range s.Measures {
		if name, ok := strings.CutPrefix(m.Name, importer.JobMeasure); ok && m.Query == "" {
			out = append(out, job{name: name, since: m.Since, till: m.Until, config: jobConfig{Name: name, JobType: "delete"}})
		}
	}
	if len(out) > 0 {
		for i := range out {
			out[i].fillFromSteps(stepsBetween(s, out[i].since, out[i].till))
		}
		return out
	}
	for step := range s.AllSteps() {
		if step.Create != nil {
			j := job{name: step.Name, since: step.Name, till: step.Name, config: jobConfig{Name: step.Name}}
			j.fillFromSteps([]*scenario.Step{step})
			out = append(out, j)
		}
	}
	return out
}

// stepsBetween returns the steps from one to another, in the order of the file, with
// those that they hold.
func stepsBetween(s *scenario.Scenario, since, till string) []*scenario.Step {
	var out []*scenario.Step
	last := map[*scenario.Step]bool{}
	on := false
	for step := range s.AllSteps() {
		if step.Name == since {
			on = true
		}
		if on && step.Name == till {
			for inner := range step.All() {
				last[inner] = true
			}
		}
		if on && len(last) > 0 && !last[step] {
			break
		}
		if on {
			out = append(out, step)
		}
	}
	return out
}

// fillFromSteps completes a job from its steps.
func (j *job) fillFromSteps(steps []*scenario.Step) {
	for _, s := range steps {
		switch {
		case s.Create != nil:
			j.noteCreate(s)
		case s.Churn != nil:
			j.churns = append(j.churns, s.Name)
		case s.Requests != nil && s.Requests.Rounds > 0 && j.config.JobType != "create":
			c := s.Requests
			verb := c.Mix[0].Verb
			if len(j.groups) == 0 {
				j.config.JobType = map[string]string{"get": "read", "patch": "patch", "delete": "delete"}[verb]
				j.config.JobIterations, j.config.QPS = max(j.config.JobIterations, c.Rounds, countIterations(c.Mix[0].With)), c.Pace.Constant
			}
		}
	}
}

// noteCreate notes what a create step says of its job. That of the job's namespaces
// has one body, those of its objects a list.
func (j *job) noteCreate(s *scenario.Step) {
	c := s.Create
	if name, imported := c.With["JobName"].(string); imported && (name != j.name || c.Body != "") {
		return
	}
	run, _ := c.With["RunID"].(string)
	if g := (group{c.Group, run}); !slices.Contains(j.groups, g) {
		j.groups = append(j.groups, g)
	}
	j.config.JobType, j.config.QPS = "create", c.Pace.Constant
	j.config.JobIterations = max(j.config.JobIterations, c.Count, c.PerNamespace)
	for _, o := range c.Objects {
		j.config.JobIterations = max(j.config.JobIterations, countIterations(o.With))
	}
	j.config.Namespace = c.Namespace
	if r := c.Namespaces; r != nil {
		j.config.Namespace, j.config.NamespacedIterations, j.config.IterationsPerNamespace = r.Prefix, true, max(1, r.Each)
	}
}

// countIterations is how many there are at least when a step is of one of them.
func countIterations(with map[string]any) int {
	if i, ok := with["Iteration"].(int64); ok {
		return int(i) + 1
	}
	return 0
}
