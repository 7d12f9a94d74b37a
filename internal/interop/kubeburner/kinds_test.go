package kubeburner

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKindsOfOthers: a kind that neither Kubernetes nor the config brings is asked of the
// cluster; without one it is unknown.
func TestKindsOfOthers(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "o.yml"), []byte("apiVersion: scale.example.com/v1\nkind: Goose\nmetadata: {name: x}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	take := func(namespaced bool, err error) (string, string) {
		o := Options{Served: func(string, string) (string, bool, error) { return "geese", namespaced, err }}
		s, _, err := convert(filepath.Join(dir, "c.yml"), []byte("jobs:\n- name: a\n  objects:\n  - objectTemplate: o.yml\n"), o)
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
