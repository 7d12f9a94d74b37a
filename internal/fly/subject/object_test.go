package subject_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/subject"
)

func TestDecode(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", ""},
		{"only comments", "# none\n---\n# none either\n---\n", ""},
		{"one", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "v1 ConfigMap /a"},
		{"several", "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: ns}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: ns}\n",
			"v1 Namespace /ns, apps/v1 Deployment ns/d"},
		{"JSON", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`, "v1 Secret /s"},
		{"a list", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A, metadata: {name: a}}\n- {apiVersion: v1, kind: B, metadata: {name: b}}\n", "v1 A /a, v1 B /b"},
		{"no kind", "apiVersion: v1\nmetadata: {name: a}\n", "f.yaml: document 1: it is no object of Kubernetes: no kind"},
		{"no name in the second", "apiVersion: v1\nkind: A\nmetadata: {name: a}\n---\napiVersion: v1\nkind: B\n", "f.yaml: document 2: it is no object of Kubernetes: no metadata.name"},
		{"no version in an item", "apiVersion: v1\nkind: List\nitems:\n- {kind: A, metadata: {name: a}}\n", "f.yaml: document 1: item 1: it is no object of Kubernetes: no apiVersion"},
		{"a text", "hello\n", "f.yaml: document 1: it is a text, and not a mapping (it is no object of Kubernetes)"},
		{"a list of texts", "[a, b]\n", "f.yaml: document 1: it is a list, and not a mapping (it is no object of Kubernetes)"},
		{"a name that is a number", "apiVersion: v1\nkind: A\nmetadata: {name: 5}\n", "f.yaml: document 1: field metadata.name: a number is not a text"},
		{"a tab", "kind: A\n\tname: b\n", "f.yaml: document 1: not YAML: line 2: found a tab character"},
		{"a key twice", "apiVersion: v1\nkind: A\nmetadata: {name: a}\nspec:\n  size: 1\n  size: 2\n", "f.yaml:6: field \"size\" stands twice in one mapping (first on line 5): only the last one would count"},
		{"a key twice in the second", "apiVersion: v1\nkind: A\nmetadata: {name: a}\n---\nkind: B\napiVersion: v1\nkind: C\nmetadata: {name: b}\n", "f.yaml:7: field \"kind\" stands twice"},
		{"a key twice in a list", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A, metadata: {name: a, name: b}}\n", "f.yaml:4: field \"name\" stands twice"},
		{"a key twice in JSON", `{"apiVersion":"v1","kind":"A","metadata":{"name":"a"},"data":{"x":"1","x":"2"}}`, "f.yaml:1: field \"x\" stands twice"},
		{"one key in two", "apiVersion: v1\nkind: A\nmetadata: {name: a}\ndata: {name: x}\n", "v1 A /a"},
		{"control characters", "\x00\x01", "f.yaml: document 1: not YAML: control characters are not allowed"},
	} {
		objects, err := subject.Decode("f.yaml", []byte(tt.text))
		var list []string
		for _, o := range objects {
			list = append(list, fmt.Sprintf("%s %s %s/%s", o.APIVersion, o.Kind, o.Namespace, o.Name))
		}
		got := strings.Join(list, ", ")
		if err != nil {
			got = err.Error()
		}
		if got != tt.want && !(err != nil && tt.want != "" && strings.HasPrefix(got, tt.want)) {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
		if strings.Contains(tt.want, "no object") && !errors.Is(err, subject.ErrNoObject) {
			t.Errorf("%s: %v is not ErrNoObject", tt.name, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A, metadata: {name: a}}\n---\n{}\n"))
	f.Add([]byte(`{"apiVersion":"v1","kind":"List","items":[null]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		objects, err := subject.Decode("f", raw)
		if err != nil && !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("an error without a place: %v", err)
		}
		for _, o := range objects {
			if o.APIVersion == "" || o.Kind == "" || o.Name == "" || len(o.Body) == 0 {
				t.Errorf("half an object: %+v", o)
			}
		}
	})
}
