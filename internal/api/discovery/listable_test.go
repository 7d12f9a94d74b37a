package discovery_test

import (
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
)

func TestListable(t *testing.T) {
	s := &server{asked: map[string]int{}, documents: map[string]string{
		"/api/v1": `{"resources":[{"name":"pods/status","kind":"Pod","namespaced":true,"verbs":["get"]},{"name":"pods","kind":"Pod","namespaced":true,"verbs":["get","list"]},
			{"name":"bindings","kind":"Binding","namespaced":true,"verbs":["create"]}]}`,
		"/apis": `{"groups":[{"name":"example.org","versions":[{"groupVersion":"example.org/v1"},{"groupVersion":"example.org/v1alpha1"}],"preferredVersion":{"groupVersion":"example.org/v1"}},
			{"name":"down.org","versions":[{"groupVersion":"down.org/v1"}],"preferredVersion":{"groupVersion":"down.org/v1"}}]}`,
		"/apis/example.org/v1":       `{"resources":[{"name":"widgets","kind":"Widget","namespaced":true,"verbs":["list"]}]}`,
		"/apis/example.org/v1alpha1": `{"resources":[{"name":"widgets","kind":"Widget","verbs":["list"]},{"name":"gadgets","kind":"Gadget","verbs":["list"]}]}`,
		"/apis/down.org/v1":          `no JSON`,
	}}
	all, err := discovery.New(s).Listable(t.Context())
	if err == nil {
		t.Error("a group that does not answer is not named")
	}
	var paths []string
	for _, r := range all {
		paths = append(paths, r.Name+" "+r.All())
	}
	want := []string{"gadgets.example.org /apis/example.org/v1alpha1/gadgets", "pods /api/v1/pods", "widgets.example.org /apis/example.org/v1/widgets"}
	if !slices.Equal(paths, want) {
		t.Errorf("got %q, want %q", paths, want)
	}
	delete(s.documents, "/apis/down.org/v1")
	if _, err := discovery.New(s).Listable(t.Context()); err != nil {
		t.Errorf("a version that is gone: %v", err)
	}
}
