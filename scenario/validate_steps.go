package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// createdSteps are the create steps that have ended for certain when a step begins.
type createdSteps map[string]*Create

// stepChecker checks steps in the order in which they are done.
type stepChecker struct{ *checker }

// checkSequence checks steps that follow one another and adds what they create.
func (c stepChecker) checkSequence(path string, steps []Step, before createdSteps) {
	for i := range steps {
		at := fmt.Sprintf("%s[%d]", path, i)
		if steps[i].Beside {
			c.reportAt(at+".beside", "step.beside: belongs to a step of parallel")
		}
		c.checkStep(at, &steps[i], before)
	}
}

// checkParallel checks steps of which each begins when those before all of them have
// ended.
func (c stepChecker) checkParallel(path string, steps []Step, before createdSteps) {
	for i := range steps { // a wait of one branch may be for pods of another
		for s := range steps[i].All() {
			if s.Create != nil {
				c.addGroup(s)
			}
		}
	}
	if len(steps) > 0 && !slices.ContainsFunc(steps, func(s Step) bool { return !s.Beside }) {
		c.reportAt(path, "step.beside: all steps of the parallel have it: no step ends them")
	}
	after := maps.Clone(before)
	for i := range steps {
		branch := maps.Clone(before)
		c.checkStep(fmt.Sprintf("%s[%d]", path, i), &steps[i], branch)
		maps.Copy(after, branch)
	}
	maps.Copy(before, after)
}

// checkStep checks one step in the light of those before it.
func (c stepChecker) checkStep(path string, s *Step, before createdSteps) {
	c.checkHead(path, s)
	memberChecker(c).checkStepCluster(path, s)
	clientsChecker(c).checkClients(path+".clients", s)
	switch {
	case s.Parallel != nil:
		c.checkParallel(path+".parallel", s.Parallel, before)
	case s.Sequence != nil:
		c.checkSequence(path+".sequence", s.Sequence, before)
	case s.Create != nil:
		createChecker(c).checkCreate(path+".create", s.Create)
		before[s.Name], c.membersOfStep[s.Name] = s.Create, s.Cluster
		c.creates = append(c.creates, s.Name)
		c.addGroup(s)
	}
	if s.Scale != nil {
		changeChecker(c).checkScale(path+".scale", s.Scale, before)
	}
	if s.Update != nil {
		changeChecker(c).checkUpdate(path+".update", s.Update, before)
	}
	if s.Churn != nil {
		changeChecker(c).checkChurn(path+".churn", s.Churn, before)
	}
	if s.Delete != nil {
		changeChecker(c).checkDelete(path+".delete", s.Delete, before)
	}
	if s.Requests != nil {
		requestsChecker(c).checkRequests(path+".requests", s.Requests, before)
	}
	if x := s.Probe; x != nil {
		c.checkPositive(path+".probe.keys", "probe.keys", float64(x.Keys))
		c.checkPositive(path+".probe.count", "probe.count", float64(x.Count))
		paceChecker(c).checkPace(path+".probe.pace", x.Pace, true)
		c.checkPositiveTime(path+".probe.timeout", "probe.timeout", x.Timeout)
		c.checkWord(path+".probe.connection", "probe.connection", x.Connection)
	}
	if s.Wait != nil {
		waitChecker(c).checkWait(path+".wait", s.Wait, before)
	}
	if s.Settle != nil {
		c.checkPositiveTime(path+".settle.within", "settle.within", s.Settle.Within)
	}
	if s.Fault != nil {
		disturbanceChecker(c).checkFault(path+".fault", s.Fault)
	}
	if s.Upgrade != nil {
		upgradeChecker(c).checkUpgrade(path+".upgrade", s.Upgrade)
	}
	if s.Exec != nil {
		c.checkExec(path+".exec", s.Exec)
	}
	if s.Network != nil {
		c.checkNetwork(path+".network", s.Network)
	}
}

// addGroup adds the group of pods that a create step makes. In members whose pods nobody
// records it is none.
func (c stepChecker) addGroup(s *Step) {
	if s.Cluster == "" {
		c.groups = append(c.groups, s.Create.Group)
		return
	}
	names, _ := c.s.MembersOf(s.Cluster) // a faulty one is an error at its own place
	recorded := c.s.PodMembers()
	if slices.ContainsFunc(names, func(name string) bool { return recorded[name] }) {
		c.inside = append(c.inside, s.Create.Group)
	}
}

// stepHead checks what all steps have.
func (c stepChecker) checkHead(path string, s *Step) {
	verbs := s.setVerbs()
	if c.isGiven(path+".pause") && !slices.Contains(verbs, "pause") {
		c.reportAt(path+".pause", "step.pause: 0s is not above 0s")
		verbs = append(verbs, "pause")
	}
	for _, list := range []struct {
		name  string
		given bool
	}{{"parallel", s.Parallel != nil}, {"sequence", s.Sequence != nil}} {
		if at := path + "." + list.name; (c.isGiven(at) || list.given) && !slices.Contains(verbs, list.name) {
			c.reportAt(at, "step.%s: no steps%s", list.name, c.allLeftOut())
			verbs = append(verbs, list.name)
		}
	}
	want := "exactly one of " + joinWords(stepVerbs()) + " is needed"
	switch len(verbs) {
	case 1:
		c.checkStepName(path, s)
	case 0:
		c.reportAt(path, "step %q: %s", s.Name, want)
	default:
		c.reportAt(path, "step %q: %s, not %s", s.Name, want, strings.Join(verbs, " and "))
	}
	c.checkWord(path+".onFailure", "step.onFailure", s.OnFailure)
	for _, code := range s.Expects {
		if code != 0 && (code < 400 || code > 599) {
			c.reportAt(path+".expects", "step.expects: %d is no HTTP status of a failed call: 400 to 599, or 0 for no answer", code)
		}
	}
	if len(s.Expects) > 0 && s.Pace() == nil && len(verbs) == 1 {
		c.reportAt(path+".expects", "step.expects: step %q sends no calls", s.Name)
	}
	if s.Pause < 0 {
		c.reportAt(path+".pause", "step.pause: %s is not above 0s", s.Pause)
	}
	if s.Repeat != nil {
		c.reportAt(path, "step %q: a repeat is unrolled when a file is read; a program lists its steps", s.Name)
	}
}

// joinWords joins words for a sentence: a, b and c.
func joinWords(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

func (c stepChecker) checkStepName(path string, s *Step) {
	c.checkLabel(path+".name", "step.name", s.Name)
	if first, twice := c.steps[s.Name]; twice {
		where := ""
		if line := c.s.lineOf(first); line > 0 {
			where = fmt.Sprintf(" (first on line %d)", line)
		}
		c.reportAt(path+".name", "step.name: %q stands twice%s", s.Name, where)
		return
	}
	c.steps[s.Name] = path
}

func (c stepChecker) checkExec(path string, x *Exec) {
	if len(x.Command) == 0 || x.Command[0] == "" {
		c.reportAt(path+".command", "exec.command: a command is needed")
	}
	for _, name := range slices.Sorted(maps.Keys(x.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			c.reportAt(path+".env."+name, "exec.env: %q is not the name of a variable", clipText(name))
		}
	}
	c.checkPositiveTime(path+".timeout", "exec.timeout", x.Timeout)
}
