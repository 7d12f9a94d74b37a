package scenario

import (
	"slices"
	"strings"
)

// Lifecycle declares the phases of a resource's objects to record. Each lifecycle also
// has created, deleting (deletion was requested) and deleted. A phase is reached when
// an event of windtunnel's own watch first shows an object for which it holds, and
// stays reached. The lifecycles of pods are recorded in every run, under the name pod;
// only pods in members need an entry.
type Lifecycle struct {
	Name      string  `yaml:"name"`      // name in objectives; default: that of use
	Use       string  `yaml:"use"`       // a predefined lifecycle, with its resource, links and phases
	Of        string  `yaml:"of"`        // a resource such as jobs.batch, or its kind with a version: batch/v1 Job
	Namespace string  `yaml:"namespace"` // default all
	Selector  string  `yaml:"selector"`  // a label selector for labels that the objects have from their creation; default all
	Cluster   string  `yaml:"cluster"`   // members, as in a step's cluster: objects and links in these members instead of the plane. With use: pod also their pods; a wait for pods in members implies that. Default: the plane
	Group     string  `yaml:"group"`     // the label whose value is an object's group; default windtunnel.dev/group
	Optional  bool    `yaml:"optional"`  // a run that sees no object of it can pass; default: its verdict is then unknown
	InOrder   bool    `yaml:"inOrder"`   // a phase counts only after the phases before it on the same object; default: phases are independent
	Links     []Link  `yaml:"links"`     // other objects that phases refer to
	Phases    []Phase `yaml:"phases"`    // phases in the order of display
}

// Phase is a state that objects reach once.
type Phase struct {
	Name      string `yaml:"name"`            // default: the condition with a small first letter
	When      string `yaml:"when" expr:"raw"` // CEL over self (or object, the same), such as self.status.phase in ["Scheduled", "Running"]; or a JSON path as in kubectl wait, {.status.phase}=Bound. With on, default: the linked object exists
	Condition string `yaml:"condition"`       // instead of when: a type of status.conditions with the status True
	On        string `yaml:"on"`              // a link: the phase is that of the linked object
	Count     int    `yaml:"count"`           // with on: number of linked objects for which it must hold; default 1
	Deleted   bool   `yaml:"deleted"`         // with on, instead of when: the linked object was deleted
}

// Link says which objects belong to an object whose lifecycle is recorded: its pods,
// its deployments.
type Link struct {
	Name      string `yaml:"name"`           // name in phases
	Of        string `yaml:"of"`             // resource of the linked objects, as in lifecycle
	Namespace string `yaml:"namespace"`      // default: the lifecycle's
	Selector  string `yaml:"selector"`       // a label selector; default all
	By        string `yaml:"by"`             // owner (default): an ownerReference has the object's uid; label: a label has its uid or name; name: equal names; key: equal values of two expressions
	Label     string `yaml:"label"`          // with by label: the label
	Key       string `yaml:"key" expr:"raw"` // with by key: CEL over the linked object; objects belong together if its value equals that of to
	To        string `yaml:"to" expr:"raw"`  // with by key: CEL over the object of the lifecycle; default self.metadata.uid
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
