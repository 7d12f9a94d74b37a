package workload_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/template"
)

const secretsOfMembers = `
scenario: x
members: [{name: far, count: 2, kind: hollow}]
bodies:
  secret:
    text: |
      apiVersion: v1
      kind: Secret
      metadata: {name: {{ .Name }}, namespace: {{ .Namespace }}}
      data: {of: {{ kubeconfig (printf "far-%d" (add1 .Index)) | b64enc }}}
      stringData: {first: {{ kubeconfig "far-1" | quote }}}
steps:
- name: secrets
  create: {body: secret, count: 2, pace: {constant: 10}}
`

// TestKubeconfigsInBodies holds that an object contains the kubeconfig of the member that its
// body names, also where the same body was rendered before there were members.
func TestKubeconfigsInBodies(t *testing.T) {
	w := compileText(t, secretsOfMembers)
	render := func(index int) (string, error) {
		raw, err := w.Bodies["secret"].Render(nil, template.Vars{Name: "s", Namespace: "x-1", Index: index})
		return string(raw), err
	}
	if before, err := render(0); err != nil || !strings.Contains(before, `"first":"{apiVersion: v1, kind: Config}\n"`) {
		t.Fatalf("before there are members: %s, %v", before, err)
	}
	folder := t.TempDir()
	for _, name := range []string{"far-1", "far-2"} {
		if err := os.WriteFile(filepath.Join(folder, name+".kubeconfig"), []byte("of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.Members.Use(folder, w.Bodies)
	if got, err := render(1); err != nil || !strings.Contains(got, `"of":"b2YgZmFyLTI="`) || !strings.Contains(got, `"first":"of far-1"`) {
		t.Errorf("with members: %s, %v", got, err)
	}
	if _, err := render(2); err == nil || !strings.Contains(err.Error(), `"far-3": no such member`) {
		t.Errorf("of a member that there is not: %v", err)
	}
	if err := w.CheckSharable(2); err == nil || !strings.Contains(err.Error(), "contains kubeconfigs of members") {
		t.Errorf("several workers: %v", err)
	}
}
