package discovery_test

import (
	"context"
	"errors"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/wire"
)

// server answers from a table and counts.
type server struct {
	documents map[string]string
	asked     map[string]int
}

func (s *server) Do(_ context.Context, r *wire.Request) (*wire.Response, error) {
	s.asked[r.Path]++
	body, ok := s.documents[r.Path]
	if !ok {
		return &wire.Response{Code: 404}, nil
	}
	return &wire.Response{Code: 200, Body: []byte(body)}, nil
}

func TestDiscovery(t *testing.T) {
	s := &server{asked: map[string]int{}, documents: map[string]string{
		"/api/v1": `{"resources":[{"name":"pods/status","kind":"Pod","namespaced":true},{"name":"pods","kind":"Pod","namespaced":true},{"name":"nodes","kind":"Node"}]}`,
		"/apis": `{"groups":[{"name":"apps","preferredVersion":{"groupVersion":"apps/v1"}},
			{"name":"example.org","preferredVersion":{"groupVersion":"example.org/v1"}}]}`,
		"/apis/apps/v1":              `{"resources":[{"name":"deployments","kind":"Deployment","namespaced":true}]}`,
		"/apis/example.org/v1":       `{"resources":[{"name":"widgets","kind":"Widget","namespaced":true}]}`,
		"/apis/example.org/v1alpha1": `{"resources":[{"name":"widgets","kind":"Widget","namespaced":true}]}`,
	}}
	c := discovery.New(s)
	for name, want := range map[string]string{
		"pods": "/api/v1/pods", "nodes": "/api/v1/nodes", "deployments.apps": "/apis/apps/v1/deployments",
		"deployments.v1.apps": "/apis/apps/v1/deployments", "widgets.example.org": "/apis/example.org/v1/widgets",
		"widgets.v1alpha1.example.org": "/apis/example.org/v1alpha1/widgets",
	} {
		r, err := c.Named(t.Context(), name)
		if err != nil || r.All() != want {
			t.Errorf("%s: %s, %v; want %s", name, r.All(), err, want)
		}
	}
	r, err := c.Kind(t.Context(), "apps/v1", "Deployment")
	if err != nil || r.Name != "deployments.apps" || r.Object("ns", "a") != "/apis/apps/v1/namespaces/ns/deployments/a" {
		t.Errorf("%+v, %v", r, err)
	}
	if r, _ := c.Kind(t.Context(), "v1", "Node"); r.Object("ignored", "n") != "/api/v1/nodes/n" {
		t.Errorf("node at %s", r.Object("ignored", "n"))
	}
	if s.asked["/apis/apps/v1"] != 1 {
		t.Errorf("asked %d times for one answer", s.asked["/apis/apps/v1"])
	}
	for _, name := range []string{"gadgets", "widgets.example.com", "gadgets.v1.example.org"} {
		if _, err := c.Named(t.Context(), name); !errors.Is(err, discovery.ErrNotServed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What is installed later is found later.
	s.documents["/apis/example.org/v1"] = `{"resources":[{"name":"gadgets","kind":"Gadget","namespaced":true}]}`
	if _, err := c.Named(t.Context(), "gadgets.v1.example.org"); err != nil {
		t.Error(err)
	}
}
