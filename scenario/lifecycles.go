package scenario

import (
	"slices"
	"strings"
)

// Lifecycle says which phases of a resource's objects are recorded.
// Whatever its phases, a lifecycle has created, deleting (a deletion was asked for)
// and deleted. A phase is reached when an event of windtunnel's own watch first
// shows an object for which it holds; it stays reached. The lifecycles of pods are
// recorded in every run, under the name pod, and need no entry but for members.
type Lifecycle struct {
	Name      string  `yaml:"name"`      // as objectives say it; default: what use says
	Use       string  `yaml:"use"`       // a lifecycle that is known: its resource, links and phases are then given
	Of        string  `yaml:"of"`        // a resource such as jobs.batch, or its kind with a version: batch/v1 Job
	Namespace string  `yaml:"namespace"` // default all
	Selector  string  `yaml:"selector"`  // a label selector; of labels that the objects have from their creation on. Default all
	Cluster   string  `yaml:"cluster"`   // members, as a step's cluster names them: the objects in each of these and not those on the plane, and with them all links. With use: pod their pods, which are recorded beside those of the plane; a wait for pods in members brings that with it. Default: the plane
	Group     string  `yaml:"group"`     // the label whose value is an object's group; default windtunnel.dev/group
	InOrder   bool    `yaml:"inOrder"`   // a phase is looked for only when those before it that are on the same object were reached; default: each by itself
	Links     []Link  `yaml:"links"`     // other objects that phases are seen on
	Phases    []Phase `yaml:"phases"`    // in the order in which they are shown
}

// Phase is a state that objects reach once.
type Phase struct {
	Name      string `yaml:"name"`            // default: that of condition, its first letter small
	When      string `yaml:"when" expr:"raw"` // CEL over self (or object, the same), such as self.status.phase in ["Scheduled", "Running"]; or a JSON path as kubectl wait has it, {.status.phase}=Bound. With on it may be left out: that the linked object exists
	Condition string `yaml:"condition"`       // in place of when: a type of status.conditions whose status is True
	On        string `yaml:"on"`              // a link: it is seen on the linked object
	Count     int    `yaml:"count"`           // with on: reached when it holds for so many linked objects; default 1
	Deleted   bool   `yaml:"deleted"`         // with on, in place of when: the linked object was deleted
}

// Link says which objects belong to one whose lifecycle is recorded: its pods, its
// deployments.
type Link struct {
	Name      string `yaml:"name"`           // as phases say it
	Of        string `yaml:"of"`             // the linked objects' resource, as in lifecycle
	Namespace string `yaml:"namespace"`      // default: the lifecycle's
	Selector  string `yaml:"selector"`       // a label selector; default all
	By        string `yaml:"by"`             // owner (default): an ownerReference has the object's uid; label: a label's value is its uid or its name; name: both have one name; key: an expression gives what they have in common
	Label     string `yaml:"label"`          // with by label: which
	Key       string `yaml:"key" expr:"raw"` // with by key: CEL over the linked object; objects belong together when it gives what to gives
	To        string `yaml:"to" expr:"raw"`  // with by key: CEL over the object whose lifecycle it is; default self.metadata.uid
}

// PodLifecycle is the name of the lifecycles that are recorded in every run.
const PodLifecycle = "pod"

// The phases that every declared lifecycle has.
const (
	phaseCreated  = "created"
	phaseDeleting = "deleting"
	phaseDeleted  = "deleted"
)

// Resolved returns the lifecycle with what use stands for, names and words filled in.
func (l Lifecycle) Resolved() Lifecycle {
	if known, ok := knownLifecycle(l.Use); ok {
		l.Of, l.Links, l.Phases, l.InOrder = known.Of, known.Links, known.Phases, known.InOrder
		if l.Name == "" {
			l.Name = l.Use
		}
	}
	l.Phases = slices.Clone(l.Phases)
	for i := range l.Phases {
		l.Phases[i] = l.Phases[i].resolvedPhase()
	}
	l.Links = slices.Clone(l.Links)
	for i := range l.Links {
		k := &l.Links[i]
		if k.By == "" {
			k.By = fieldWords("link.by")[0]
		}
		if k.Namespace == "" {
			k.Namespace = l.Namespace
		}
		if k.By == "key" && k.To == "" {
			k.To = "self.metadata.uid"
		}
	}
	return l
}

func (p Phase) resolvedPhase() Phase {
	if p.Condition != "" {
		p.When = `self.status.conditions.exists(c, c.type == "` + p.Condition + `" && c.status == "True")`
		if p.Name == "" {
			p.Name = strings.ToLower(p.Condition[:1]) + p.Condition[1:]
		}
		p.Condition = ""
	}
	p.Count = max(p.Count, 1)
	return p
}

// AllPhases are the names of all phases of a resolved lifecycle in their order.
func (l Lifecycle) AllPhases() []string {
	out := []string{phaseCreated}
	for _, p := range l.Phases {
		out = append(out, p.Name)
	}
	return append(out, phaseDeleting, phaseDeleted)
}

// Observed returns the lifecycles that the scenario declares, resolved; those of
// pods are not among them.
func (s *Scenario) Observed() []Lifecycle {
	var out []Lifecycle
	for _, l := range s.Lifecycles {
		if l.Use != PodLifecycle {
			out = append(out, l.Resolved())
		}
	}
	return out
}

// PodMembers returns the names of the members whose pods are recorded: those of a
// lifecycle that uses pod, and those in which a step waits for pods.
func (s *Scenario) PodMembers() map[string]bool {
	out := map[string]bool{}
	add := func(cluster string) {
		if cluster == "" {
			return
		}
		names, _ := s.MembersOf(cluster) // a faulty one is an error at its own place
		for _, name := range names {
			out[name] = true
		}
	}
	for _, l := range s.Lifecycles {
		if l.Use == PodLifecycle {
			add(l.Cluster)
		}
	}
	for step := range s.AllSteps() {
		for _, w := range step.allWaits() {
			if w.Pods != "" {
				add(step.Cluster)
			}
		}
	}
	return out
}

// PhasesOf returns the phases of a lifecycle of the scenario, in their order; nil
// when there is no such lifecycle.
func (s *Scenario) PhasesOf(lifecycle string) []string {
	if lifecycle == PodLifecycle {
		return append(Phases(), "finished", phaseDeleting, phaseDeleted)
	}
	for _, l := range s.Observed() {
		if l.Name == lifecycle {
			return l.AllPhases()
		}
	}
	return nil
}

// lifecycleNames are the names that an objective may use.
func (s *Scenario) lifecycleNames() []string {
	out := []string{PodLifecycle}
	for _, l := range s.Observed() {
		out = append(out, l.Name)
	}
	return out
}
