// Package configuration reads what kwok's controller is configured with: its
// flags, its files of several YAML documents, and its custom resources as a
// cluster serves them.
//
// It says what was written, checked and with the place of every fault, and
// does nothing: package fleet plays the stages, fleet/kubelet serves logs,
// exec, attach, port-forward and metrics.
package configuration

import (
	"errors"
	"fmt"
	"slices"

	"github.com/windtunnel/windtunnel/internal/interop/kwok"
)

// API versions of the documents.
const (
	APIVersion       = kwok.APIVersion
	ConfigAPIVersion = "config.kwok.x-k8s.io/v1alpha1"
)

// Configuration is what files and flags say together.
type Configuration struct {
	Options Options
	Objects *Objects
	Notes   []string // what was read or given and has no meaning here, a sentence each
}

// Objects are the objects that files or a cluster hold. They are not changed
// after they were read.
type Objects struct {
	Stages       []*kwok.Stage
	Logs         Rules[Log]
	Execs        Rules[Exec]
	Attaches     Rules[Attach]
	PortForwards Rules[Forward]
	Usages       Rules[Usage]
	Metrics      []*Metric
}

// Rules are the objects of one kind that are about pods, and of its Cluster form.
type Rules[T any] struct {
	Pods    []*Rule[T] // each for the pod of its own namespace and name
	Cluster []*Rule[T] // each for the pods that its selector matches, in order
}

// Rule is one object that is about pods.
type Rule[T any] struct {
	Namespace string // empty for a Cluster kind
	Name      string
	Selector  *Selector // nil matches every pod
	Entries   []T

	document kwok.Document
}

// Fault returns an error about a field of the object, such as spec.logs[0].
func (r *Rule[T]) Fault(field string, err error) error { return r.document.Fault(field, err) }

// Selector says which pods a Cluster kind is about.
type Selector struct {
	MatchNamespaces []string `yaml:"matchNamespaces"` // empty: all
	MatchNames      []string `yaml:"matchNames"`      // empty: all
}

// Matches says whether the selector is about a pod.
func (s *Selector) Matches(namespace, pod string) bool {
	return s == nil ||
		(len(s.MatchNamespaces) == 0 || slices.Contains(s.MatchNamespaces, namespace)) &&
			(len(s.MatchNames) == 0 || slices.Contains(s.MatchNames, pod))
}

// ErrNone says that no object is about what was asked for.
var ErrNone = errors.New("there is no object about it")

// entry is one entry of a rule: it names what it is for, or is for all.
type entry[K comparable] interface {
	// For returns the containers or ports that the entry is for; none: all that no
	// other entry of the rule names.
	For() []K
}

// Find returns the entry for a container or port of a pod, and the rule that it
// stands in. A rule of the pod's own name decides alone; among the Cluster
// rules the first decides that has an entry for it. The error is ErrNone,
// wrapped.
func Find[T entry[K], K comparable](rules *Rules[T], namespace, pod string, what K) (*T, *Rule[T], error) {
	for _, r := range rules.Pods {
		if r.Namespace == namespace && r.Name == pod {
			if e := entryFor(r.Entries, what); e != nil {
				return e, r, nil
			}
			return nil, nil, fmt.Errorf("%w: %s of pod %s/%s is not named in the object of that name", ErrNone, thingName(what), namespace, pod)
		}
	}
	for _, r := range rules.Cluster {
		if r.Selector.Matches(namespace, pod) {
			if e := entryFor(r.Entries, what); e != nil {
				return e, r, nil
			}
		}
	}
	return nil, nil, fmt.Errorf("%w: %s of pod %s/%s", ErrNone, thingName(what), namespace, pod)
}

func thingName(what any) string {
	if port, ok := what.(int32); ok {
		return fmt.Sprintf("port %d", port)
	}
	return fmt.Sprintf("container %v", what)
}

func entryFor[T entry[K], K comparable](entries []T, what K) *T {
	var rest *T
	for i := range entries {
		named := entries[i].For()
		switch {
		case slices.Contains(named, what):
			return &entries[i]
		case len(named) == 0 && rest == nil:
			rest = &entries[i]
		}
	}
	return rest
}

// Merge returns the objects of both, those of o first.
func (o *Objects) Merge(more *Objects) *Objects {
	return &Objects{
		Stages:       slices.Concat(o.Stages, more.Stages),
		Logs:         o.Logs.mergeRules(more.Logs),
		Execs:        o.Execs.mergeRules(more.Execs),
		Attaches:     o.Attaches.mergeRules(more.Attaches),
		PortForwards: o.PortForwards.mergeRules(more.PortForwards),
		Usages:       o.Usages.mergeRules(more.Usages),
		Metrics:      slices.Concat(o.Metrics, more.Metrics),
	}
}

func (r Rules[T]) mergeRules(more Rules[T]) Rules[T] {
	return Rules[T]{slices.Concat(r.Pods, more.Pods), slices.Concat(r.Cluster, more.Cluster)}
}

// Empty says that there is no rule.
func (r *Rules[T]) Empty() bool { return len(r.Pods)+len(r.Cluster) == 0 }
