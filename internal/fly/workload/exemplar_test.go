package workload_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/template"
	"github.com/windtunnel/windtunnel/internal/template/protobuf"
	"github.com/windtunnel/windtunnel/scenario"
)

// The sizes of the exemplars, which docs/reference/exemplars.md has. Each becomes protobuf,
// so that all of its fields are fields of its kind, and is made of segments, so that a large
// body costs the load generator no more than copying it.
func TestExemplars(t *testing.T) {
	sizes := map[string]struct {
		kind           string
		json, protobuf int
	}{
		"configmap":     {"ConfigMap", 175, 133},
		"endpointslice": {"EndpointSlice", 29686, 16495},
		"node":          {"Node", 12543, 10197},
		"pod":           {"Pod", 4115, 3226},
		"secret":        {"Secret", 142, 90},
	}
	s := scenario.Default()
	s.Bodies = map[string]scenario.Body{}
	for _, name := range scenario.Exemplars() {
		s.Bodies[name] = scenario.Body{Exemplar: name}
	}
	if len(s.Bodies) != len(sizes) {
		t.Errorf("exemplars %v, want %d", scenario.Exemplars(), len(sizes))
	}
	w := repotest.Must(workload.Compile(&s, "", object.Stamp{}))(t)
	for name, want := range sizes {
		v := template.Vars{Name: name + "-00000", Namespace: "space", Replica: 1}
		plain, err := w.Bodies[name].Render(nil, v)
		if err != nil {
			t.Fatal(name, err)
		}
		var o struct{ Kind string }
		if err := json.Unmarshal(plain, &o); err != nil || o.Kind != want.kind {
			t.Errorf("%s is a %q, want %s: %v", name, o.Kind, want.kind, err)
		}
		packed, media, err := protobuf.New(w.Bodies[name]).Render(nil, v)
		if err != nil || media != protobuf.Protobuf {
			t.Errorf("%s has a field that its kind has not: %s, %v", name, media, err)
		}
		if len(plain) != want.json || len(packed) != want.protobuf {
			t.Errorf("%s: %d bytes of JSON, %d of protobuf, want %d and %d", name, len(plain), len(packed), want.json, want.protobuf)
		}
		if w.Bodies[name].Layout(v).Holes() < 0 {
			t.Errorf("%s is rendered object by object", name)
		}
		v.Name = name + "-00001"
		if other, err := w.Bodies[name].Render(nil, v); err != nil || slices.Equal(plain, other) || len(plain) != len(other) {
			t.Errorf("%s: the next object is not the same but for its name: %v", name, err)
		}
	}
}
