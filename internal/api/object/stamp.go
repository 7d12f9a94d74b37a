package object

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// RunLabel is the label of all that a run makes in a cluster that is not its own;
// its value is the run's id. By it a run knows its objects, even those whose
// creation was never answered, and by it they are found when the run was killed.
const RunLabel = "windtunnel.dev/run"

// Stamp says whose the objects are that carry it.
type Stamp struct {
	Run   string // the id of a run; empty: it is not stamped
	Group string // the value of GroupLabel where an object or a template of pods has none; empty: it is not stamped
	Fleet string // when set, pods go to the nodes with this value of FleetLabel, whose taint they tolerate
	Nodes bool   // pods may go to the nodes of the run's processes, too: they tolerate the taint that package door puts on them
}

var errShape = errors.New("it has no such place")

// Mark stamps a decoded object: itself, the pods and the claims that are to be
// made of it. Only what a template of pods looks like, a spec with containers, is
// bound to the fleet.
func (s Stamp) Mark(o map[string]any) error {
	if s.Run == "" && s.Group == "" {
		return nil
	}
	if err := s.addLabels(o); err != nil {
		return err
	}
	return s.stampTemplates(o, true)
}

// MarkJSON stamps an object in JSON.
func (s Stamp) MarkJSON(raw []byte) ([]byte, error) {
	if s.Run == "" && s.Group == "" {
		return raw, nil
	}
	tree := map[string]any{}
	in := json.NewDecoder(bytes.NewReader(raw))
	in.UseNumber() // large numbers stay what they are
	if err := in.Decode(&tree); err != nil {
		return nil, err
	}
	if err := s.Mark(tree); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(tree)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// addLabels gives an object the labels.
func (s Stamp) addLabels(o map[string]any) error {
	labels, err := mapAt(o, "metadata", "labels")
	if err != nil {
		return err
	}
	if s.Run != "" {
		labels[RunLabel] = s.Run
	}
	if _, own := labels[GroupLabel]; s.Group != "" && !own {
		labels[GroupLabel] = s.Group
	}
	return nil
}

// stampTemplates looks for templates; own tells that v is the object itself.
func (s Stamp) stampTemplates(v any, own bool) error {
	switch v := v.(type) {
	case map[string]any:
		if spec, ok := v["spec"].(map[string]any); ok && isPod(spec) {
			return s.stampPod(v, spec, own)
		}
		for name, value := range v {
			if name == "volumeClaimTemplates" {
				if err := s.stampClaims(value); err != nil {
					return err
				}
				continue
			}
			if err := s.stampTemplates(value, false); err != nil {
				return err
			}
		}
	case []any:
		for _, one := range v {
			if err := s.stampTemplates(one, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// isPod tells a pod's spec from others that have containers.
func isPod(spec map[string]any) bool {
	_, ok := spec["containers"].([]any)
	return ok && spec["template"] == nil
}

// stampPod stamps a pod or a template of pods. A pod that names its node goes there.
func (s Stamp) stampPod(v, spec map[string]any, own bool) error {
	if !own {
		if err := s.addLabels(v); err != nil {
			return err
		}
	}
	if spec["nodeName"] != nil {
		return nil
	}
	if s.Nodes {
		addToleration(spec, RunLabel, s.Run)
	}
	if s.Fleet == "" {
		return nil
	}
	selector, err := mapAt(spec, "nodeSelector")
	if err != nil {
		return err
	}
	// The nodes that processes of the run make have its label, as those of the fleet have:
	// pods may be meant for either.
	if s.Nodes {
		selector[RunLabel] = s.Run
	} else {
		selector[FleetLabel] = s.Fleet
	}
	addToleration(spec, FleetLabel, s.Fleet)
	return nil
}

// addToleration lets pods go to nodes with a taint. An object that is stamped again, since
// somebody read it and writes it back, gets no second toleration.
func addToleration(spec map[string]any, key, value string) {
	tolerations, _ := spec["tolerations"].([]any)
	one := map[string]any{"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"}
	if !slices.ContainsFunc(tolerations, func(there any) bool { return reflect.DeepEqual(there, one) }) {
		spec["tolerations"] = append(tolerations, one)
	}
}

// stampClaims stamps what a StatefulSet makes and leaves behind.
func (s Stamp) stampClaims(v any) error {
	list, _ := v.([]any)
	for _, one := range list {
		if claim, ok := one.(map[string]any); ok {
			if err := s.addLabels(claim); err != nil {
				return err
			}
		}
	}
	return nil
}

// mapAt returns the map at a path, and makes it where there is none.
func mapAt(m map[string]any, path ...string) (map[string]any, error) {
	for _, name := range path {
		if m[name] == nil {
			m[name] = map[string]any{}
		}
		inner, ok := m[name].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("stamp an object: %s is no mapping: %w", name, errShape)
		}
		m = inner
	}
	return m, nil
}
