package series

import (
	"maps"
	"slices"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Labelling gives the labels that every series of a target gets beside its own,
// as the configuration of a server that scrapes a cluster does.
type Labelling func(target string) []record.Label

// Plain is the labelling of who says nothing else: instance is the target's name,
// kube-apiserver or etcd-0, and job and component are the component of which it is a
// process. Its address, which an instance often is, differs from run to run.
func Plain(target string) []record.Label {
	of, _ := component.Of(target)
	return []record.Label{{Name: componentLabel, Value: of}, {Name: "instance", Value: target}, {Name: "job", Value: of}}
}

// componentLabel is the label that series keep: that of a kube-apiserver's own says
// "apiserver", and is asked for.
const componentLabel = "component"

// OpenShift labels the components of a control plane as the monitoring of
// OpenShift does, which the metric and alert profiles of kube-burner ask for.
func OpenShift(target string) []record.Label {
	of, _ := component.Of(target)
	job := of
	switch of {
	case component.APIServer:
		job = "apiserver"
	case component.Scheduler:
		job = "scheduler"
	}
	out := append(Plain(target),
		record.Label{Name: "container", Value: of}, record.Label{Name: "namespace", Value: "openshift-" + of},
		record.Label{Name: "node", Value: target}, record.Label{Name: "pod", Value: target}, record.Label{Name: "service", Value: job})
	if of == component.APIServer {
		out = append(out, record.Label{Name: "apiserver", Value: target})
	}
	for i := range out {
		if out[i].Name == "job" {
			out[i].Value = job
		}
	}
	return out
}

// Exposed returns the labels under which a series is known to PromQL and to
// exports, sorted by name, without the metric's own name. A label of the series
// that the labelling gives too becomes exported_NAME, as Prometheus has it; only
// component stays as it is.
func (s *Series) Exposed(by Labelling) []record.Label {
	given := by(s.Target)
	out := make([]record.Label, 0, len(s.Labels)+len(given))
	for _, l := range s.Labels {
		if i := slices.IndexFunc(given, func(g record.Label) bool { return g.Name == l.Name }); i >= 0 {
			if l.Name == componentLabel {
				given = slices.Delete(given, i, i+1)
			} else {
				l.Name = "exported_" + l.Name
			}
		}
		if l.Value != "" { // an empty label is none
			out = append(out, l)
		}
	}
	out = append(out, given...)
	sortLabels(out)
	return out
}

// Names returns the names of all series, sorted.
func (s *Store) Names() []string { return slices.Sorted(maps.Keys(s.byName)) }

// Named returns the series of this name in the order of their definition.
func (s *Store) Named(name string) []*Series { return s.byName[name] }
