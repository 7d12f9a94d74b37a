package kubeburner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestKindsOfOthers: a kind that neither Kubernetes nor the config brings is asked of the
// cluster; without one it is unknown.
func TestKindsOfOthers(t *testing.T) {
	dir := t.TempDir()
	repotest.NoError(t, os.WriteFile(filepath.Join(dir, "o.yml"), []byte("apiVersion: scale.example.com/v1\nkind: Goose\nmetadata: {name: x}\n"), 0o600))
	take := func(namespaced bool, err error) (string, string) {
		o := Options{Served: func(string, string) (string, bool, error) { return "geese", namespaced, err }}
		s, _, err := convertConfig(filepath.Join(dir, "c.yml"), []byte("jobs:\n- name: a\n  objects:\n  - objectTemplate: o.yml\n"), o)
		if err != nil {
			return "", err.Error()
		}
		return found(t, s, "a-verify-o").Wait.Objects, ""
	}
	if got, err := take(false, nil); got != "geese.v1.scale.example.com" || err != "" {
		t.Errorf("outside of namespaces: %s %s", got, err)
	}
	if _, err := take(true, nil); !strings.Contains(err, `job.namespace: job "a" has objects that need one`) {
		t.Errorf("in namespaces: %s", err)
	}
	if _, err := take(false, errors.New("not served")); !strings.Contains(err, "c.yml:4: object.objectTemplate: the kind Goose of scale.example.com/v1 is unknown") {
		t.Errorf("unknown: %s", err)
	}
}

// TestSeveralKinds: a template may make objects of another kind for each replica, at each
// iteration, or both.
func TestSeveralKinds(t *testing.T) {
	const definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: \"parts{{.Iteration}}.example.com\"}\n" +
		"spec: {group: example.com, scope: Namespaced, names: {plural: \"parts{{.Iteration}}\", kind: \"Part{{.Iteration}}\"}}\n"
	for _, tt := range []struct{ kind, want string }{
		{"{{ sub .Replica 1 }}", "parts: parts0.v1.example.com 4, parts1.v1.example.com 4, parts2.v1.example.com 4"},
		{"{{ mod .Replica 2 }}", "parts: parts1.v1.example.com 8, parts0.v1.example.com 4"},
		{"{{ mod .Iteration 3 }}", "parts-0 parts-1 parts-2 parts-3: parts0.v1.example.com 6, parts1.v1.example.com 3, parts2.v1.example.com 3"},
		{"{{ mod (add .Iteration .Replica) 3 }}", "parts-0 parts-1 parts-2 parts-3: parts1.v1.example.com 4, parts2.v1.example.com 4, parts0.v1.example.com 4"},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{
			"crd.yml": definition, "cr.yml": "apiVersion: example.com/v1\nkind: Part" + tt.kind + "\nmetadata: {name: \"p-{{.Iteration}}-{{.Replica}}\"}\n",
		} {
			repotest.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		s, _, err := convertConfig(filepath.Join(dir, "c.yml"), []byte("jobs:\n- {name: defined, jobIterations: 3, objects: [{objectTemplate: crd.yml}]}\n"+
			"- {name: parts, namespace: n, jobIterations: 4, objects: [{objectTemplate: cr.yml, replicas: 3}]}\n"), Options{})
		if err != nil {
			t.Errorf("%s: %v", tt.kind, err)
			continue
		}
		var makes, counts []string
		objects := 0
		for step := range s.AllSteps() {
			if x := step.Create; x != nil && strings.HasPrefix(step.Name, "parts") && x.Group == "parts" {
				makes = append(makes, step.Name)
				objects += len(x.Objects) * x.Count
			}
			if strings.HasPrefix(step.Name, "parts-verify") {
				counts = append(counts, fmt.Sprint(step.Wait.Objects, " ", step.Wait.Count))
			}
		}
		if got := strings.Join(makes, " ") + ": " + strings.Join(counts, ", "); got != tt.want || objects != 12 {
			t.Errorf("%s: got %s, %d objects; want %s", tt.kind, got, objects, tt.want)
		}
	}
}
