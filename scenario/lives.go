package scenario

import (
	"slices"
	"strings"
)

// Life says which moments in the lives of a resource's objects are recorded.
// Whatever its phases, a life has created, deleting (a deletion was asked for)
// and deleted. A phase is reached when an event of windtunnel's own watch first
// shows an object for which it holds; it stays reached. The lives of pods are
// recorded in every run, under the name pod, and need no entry.
type Life struct {
	Name      string  `yaml:"name"`      // as objectives say it; default: what use says
	Use       string  `yaml:"use"`       // a life that is known: its resource, links and phases are then given
	Of        string  `yaml:"of"`        // a resource such as jobs.batch, or its kind with a version: batch/v1 Job
	Namespace string  `yaml:"namespace"` // default all
	Selector  string  `yaml:"selector"`  // a label selector; of labels that the objects have from their creation on. Default all
	Group     string  `yaml:"group"`     // the label whose value is an object's group; default windtunnel.dev/group
	InOrder   bool    `yaml:"inOrder"`   // a phase is looked for only when those before it that are on the same object were reached; default: each by itself
	Links     []Link  `yaml:"links"`     // other objects that phases are seen on
	Phases    []Phase `yaml:"phases"`    // in the order in which they are shown
}

// Phase is one moment of a life.
type Phase struct {
	Name      string `yaml:"name"`            // default: that of condition, its first letter small
	When      string `yaml:"when" expr:"raw"` // CEL over self (or object, the same), such as self.status.phase in ["Scheduled", "Running"]; or a JSON path as kubectl wait has it, {.status.phase}=Bound. With on it may be left out: that the linked object exists
	Condition string `yaml:"condition"`       // in place of when: a type of status.conditions whose status is True
	On        string `yaml:"on"`              // a link: it is seen on the linked object
	Count     int    `yaml:"count"`           // with on: reached when it holds for so many linked objects; default 1
	Gone      bool   `yaml:"gone"`            // with on, in place of when: the linked object was deleted
}

// Link says which objects belong to one whose life is recorded: its pods, its
// deployments.
type Link struct {
	Name      string `yaml:"name"`           // as phases say it
	Of        string `yaml:"of"`             // the linked objects' resource, as in life
	Namespace string `yaml:"namespace"`      // default: the life's
	Selector  string `yaml:"selector"`       // a label selector; default all
	By        string `yaml:"by"`             // owner (default): an ownerReference has the object's uid; label: a label's value is its uid or its name; name: both have one name; key: an expression gives what they have in common
	Label     string `yaml:"label"`          // with by label: which
	Key       string `yaml:"key" expr:"raw"` // with by key: CEL over the linked object; objects belong together when it gives what to gives
	To        string `yaml:"to" expr:"raw"`  // with by key: CEL over the object whose life it is; default self.metadata.uid
}

// PodLife is the name of the lives that are recorded in every run.
const PodLife = "pod"

// The phases that every declared life has.
const (
	phaseCreated  = "created"
	phaseDeleting = "deleting"
	phaseDeleted  = "deleted"
)

// Resolved returns the life with what use stands for, names and words filled in.
func (l Life) Resolved() Life {
	if known, ok := knownLife(l.Use); ok {
		l.Of, l.Links, l.Phases, l.InOrder = known.Of, known.Links, known.Phases, known.InOrder
		if l.Name == "" {
			l.Name = l.Use
		}
	}
	l.Phases = slices.Clone(l.Phases)
	for i := range l.Phases {
		l.Phases[i] = l.Phases[i].resolved()
	}
	l.Links = slices.Clone(l.Links)
	for i := range l.Links {
		k := &l.Links[i]
		if k.By == "" {
			k.By = words("link.by")[0]
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

func (p Phase) resolved() Phase {
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

// AllPhases are the names of all phases of a resolved life in their order.
func (l Life) AllPhases() []string {
	out := []string{phaseCreated}
	for _, p := range l.Phases {
		out = append(out, p.Name)
	}
	return append(out, phaseDeleting, phaseDeleted)
}

// Observed returns the scenario's lives, resolved.
func (s *Scenario) Observed() []Life {
	var out []Life
	for _, l := range s.Lives {
		out = append(out, l.Resolved())
	}
	return out
}

// PhasesOf returns the phases of a life of the scenario, in their order; nil
// when there is no such life.
func (s *Scenario) PhasesOf(life string) []string {
	if life == PodLife {
		return append(Phases(), "finished", phaseDeleting, phaseDeleted)
	}
	for _, l := range s.Observed() {
		if l.Name == life {
			return l.AllPhases()
		}
	}
	return nil
}

// lives are the names that an objective may use.
func (s *Scenario) lives() []string {
	out := []string{PodLife}
	for _, l := range s.Observed() {
		out = append(out, l.Name)
	}
	return out
}
