package player

import (
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
)

// TestWritesOf holds which requests apply an object: where, as whom, and what is stamped.
func TestWritesOf(t *testing.T) {
	things := discovery.Resource{Name: "things.example.org", Root: "/apis/example.org/v1", Plural: "things", Namespaced: true}
	nodes := discovery.Resource{Name: "nodes", Root: "/api/v1", Plural: "nodes"}
	for name, c := range map[string]struct {
		resource       discovery.Resource
		effect         machine.Effect
		target         string // namespace
		create, change string
		verb           string
	}{
		"in the object's namespace": {
			things, machine.Effect{Type: machine.MergePatch}, "",
			"POST /apis/example.org/v1/namespaces/own/things application/json", "PATCH /apis/example.org/v1/namespaces/own/things/x " + string(machine.MergePatch), "patch",
		},
		"in a namespace of its own, as a user": {
			things, machine.Effect{Type: machine.MergePatch, User: "u"}, "other",
			"POST /apis/example.org/v1/namespaces/other/things application/json as u", "PATCH /apis/example.org/v1/namespaces/other/things/x " + string(machine.MergePatch) + " as u", "patch",
		},
		"a part": {
			things, machine.Effect{Type: machine.MergePatch, Subresource: "status"}, "",
			"", "PATCH /apis/example.org/v1/namespaces/own/things/x/status " + string(machine.MergePatch), "patch",
		},
		"without namespaces, applied": {
			nodes, machine.Effect{Type: machine.ApplyPatch}, "",
			"POST /api/v1/nodes application/json", "PATCH /api/v1/nodes/x?fieldManager=windtunnel-fleet&force=true " + string(machine.ApplyPatch), "apply",
		},
		"a part, applied": {
			nodes, machine.Effect{Type: machine.ApplyPatch, Subresource: "status"}, "",
			"", "PATCH /api/v1/nodes/x/status?fieldManager=windtunnel-fleet&force=true " + string(machine.ApplyPatch), "apply",
		},
	} {
		c.effect.Body = []byte(`{"metadata":{"name":"x"}}`)
		target := map[string]any{"metadata": map[string]any{"name": "x", "namespace": c.target}}
		w, err := writesOf(c.effect, target, c.resource, "own", object.Stamp{Run: "r-1"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := describe(w.create); got != c.create {
			t.Errorf("%s: creates by %q, want %q", name, got, c.create)
		}
		if got := describe(w.change); got != c.change {
			t.Errorf("%s: changes by %q, want %q", name, got, c.change)
		}
		if want := (opKey{verb: c.verb, resource: c.resource.Name, subresource: c.effect.Subresource}); w.changeKey != want {
			t.Errorf("%s: is recorded as %v, want %v", name, w.changeKey, want)
		}
		if path, _, _ := strings.Cut(w.change.Path, "?"); path != w.path {
			t.Errorf("%s: looks at %s, changes %s", name, w.path, path)
		}
		if w.create != nil && !strings.Contains(string(w.create.Body), `"r-1"`) {
			t.Errorf("%s: what it creates has no stamp: %s", name, w.create.Body)
		}
		if strings.Contains(string(w.change.Body), "r-1") {
			t.Errorf("%s: what it changes is stamped: %s", name, w.change.Body)
		}
	}
	if _, err := writesOf(machine.Effect{Body: []byte("[")}, nil, nodes, "", object.Stamp{Run: "r-1"}); err == nil {
		t.Error("what is no object is stamped")
	}
}

// describe is a request without its body; empty: there is none.
func describe(r *wire.Request) string {
	if r == nil {
		return ""
	}
	out := r.Method + " " + r.Path + " " + r.ContentType
	if r.Impersonate != "" {
		out += " as " + r.Impersonate
	}
	return out
}
