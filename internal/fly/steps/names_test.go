package steps

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestNamesThatCollide: objects of one name are refused before anything starts, with the line of
// the step, where the server would refuse the second; what may succeed is not.
func TestNamesThatCollide(t *testing.T) {
	const bodies = `scenario: x
namespaces: {prefix: n, count: 2}
bodies:
  own: {text: '{apiVersion: v1, kind: ConfigMap, metadata: {name: "{{ .Name }}"}}'}
  fixed: {text: '{apiVersion: v1, kind: ConfigMap, metadata: {name: fixed}}'}
  placed: {text: '{apiVersion: v1, kind: ConfigMap, metadata: {name: "x-{{ .Index }}", namespace: default}}'}
  global: {text: '{apiVersion: v1, kind: Namespace, metadata: {name: fixed}}'}
  few: {text: '{apiVersion: v1, kind: ConfigMap, metadata: {name: "x-{{ mod .Index 10 }}"}}'}
  replica: {text: '{apiVersion: v1, kind: ConfigMap, metadata: {name: "x-{{ .Index }}"}}'}
  review: {text: '{apiVersion: authorization.k8s.io/v1, kind: SelfSubjectAccessReview, metadata: {name: fixed}, spec: {resourceAttributes: {verb: get}}}'}
  made: {text: '{apiVersion: v1, kind: ConfigMap, metadata: {generateName: x-}}'}
steps:
`
	for _, c := range []struct{ name, steps, want string }{
		{"a fixed name", "- {name: a, create: {body: fixed, count: 5, pace: {burst: true}}}", `s.yaml:13: step "a": body "fixed" makes ConfigMap "fixed" in namespace n-1 more than once`},
		{"one in each namespace", "- {name: a, create: {body: fixed, count: 2, pace: {burst: true}}}", ""},
		{"one in each namespace, listed", "- {name: a, create: {body: fixed, perNamespace: 1, pace: {burst: true}}}", ""},
		{"two in each namespace", "- {name: a, create: {body: fixed, perNamespace: 2, pace: {burst: true}}}", `ConfigMap "fixed" in namespace n-1 more than once`},
		{"without namespaces", "- {name: a, create: {body: global, count: 2, pace: {burst: true}}}", `makes Namespace "fixed" more than once`},
		{"a namespace of its own", "- {name: a, create: {body: placed, perNamespace: 1, pace: {burst: true}}}", `makes ConfigMap "x-0" in namespace default more than once`},
		{"names that recur", "- {name: a, create: {body: few, count: 100, namespace: n-1, pace: {burst: true}}}", `makes ConfigMap "x-0" in namespace n-1 more than once`},
		{"names that do not recur yet", "- {name: a, create: {body: few, count: 10, namespace: n-1, pace: {burst: true}}}", ""},
		{"replicas", "- {name: a, create: {count: 2, objects: [{body: replica, replicas: 2}], pace: {burst: true}}}", `makes ConfigMap "x-0" in namespace n-1 more than once`},
		{"as expected", "- {name: a, expects: [409], create: {body: fixed, count: 5, pace: {burst: true}}}", ""},
		{"names of ours", "- {name: a, create: {body: own, count: 5, pace: {burst: true}}}", ""},
		{"names of the server's", "- {name: a, create: {body: made, count: 5, pace: {burst: true}}}", ""},
		{"two steps", "- {name: a, create: {body: own, name: q, count: 5, pace: {burst: true}}}\n- {name: b, create: {body: own, name: q, count: 5, pace: {burst: true}}}",
			`s.yaml:14: step "b": it makes ConfigMap "q-0" in namespace n-1, and so does step "a" before it`},
		{"two steps with a deletion between them", "- {name: a, create: {body: own, name: q, count: 5, pace: {burst: true}}}\n- {name: d, delete: {step: a, pace: {burst: true}}}\n" +
			"- {name: b, create: {body: own, name: q, count: 5, pace: {burst: true}}}", ""},
		{"a mix", "- {name: a, requests: {count: 5, pace: {burst: true}, mix: [{verb: create, body: fixed}]}}", `s.yaml:13: step "a": body "fixed" makes ConfigMap "fixed" with each call`},
		{"a mix of names of ours", "- {name: a, requests: {count: 5, pace: {burst: true}, mix: [{verb: create, body: own, name: q}]}}", ""},
		{"a mix that is sent once each", "- {name: a, requests: {count: 2, pace: {burst: true}, mix: [{verb: create, body: fixed}, {verb: list, resource: configmaps}]}}", ""},
		{"what is answered and not kept", "- {name: a, requests: {count: 5, pace: {burst: true}, mix: [{verb: create, body: review}]}}", ""},
		{"a mix that deletes", "- {name: a, requests: {count: 5, pace: {burst: true}, mix: [{verb: create, body: fixed}, {verb: delete, resource: configmaps, namespace: n-1, name: fixed}]}}", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "s.yaml")
			repotest.NoError(t, os.WriteFile(file, []byte(bodies+c.steps), 0o600))
			sc, err := scenario.Load(file, nil)
			repotest.NoError(t, err)
			_, err = Compile(sc, file, object.Stamp{})
			if got := errorText(err); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// errorText is what an error says; nothing where there is none.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
