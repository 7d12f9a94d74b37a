package hub

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// TestContentOfRequests holds which call each request of an edge is for, by the type of what it
// brings, and what is refused.
func TestContentOfRequests(t *testing.T) {
	for _, c := range []struct{ request, content, want string }{
		{"query node", `null`, "<nil>"},
		{"query lease", `null`, "<nil>"},
		{"query serviceaccounttoken", `{}`, "*v1.TokenRequest"},
		{"query serviceaccounttoken", `7`, "error"},
		{"insert node", `{"metadata":{"name":"a"}}`, "*v1.Node"},
		{"insert node", `"a string for an object"`, "error"},
		{"patch nodepatch", `"{}"`, "hub.mergePatch"},
		{"patch podpatch", `"{}"`, "hub.mergePatch"},
		{"patch podpatch", `{"no":"string"}`, "error"},
		{"update nodestatus", `{"Status":{}}`, "*v1.NodeStatus"},
		{"update nodestatus", `{}`, "error"},
		{"update podstatus", `[{"Name":"a"}]`, "[]message.PodStatus"},
		{"update podstatus", `{}`, "error"},
		{"delete pod", `{}`, "*v1.DeleteOptions"},
		{"delete pod", `7`, "error"},
		{"insert lease", `{}`, "*v1.Lease"},
		{"update lease", `[]`, "error"},
		{"dance pod", `null`, "error"},
		{"update node", `{}`, "error"},
	} {
		got, err := decodeContent(c.request, []byte(c.content))
		said := fmt.Sprintf("%T", got)
		if err != nil {
			said = "error"
		}
		repotest.Equal(t, said, c.want, "%s %s (%v)", c.request, c.content, err)
	}
}

// TestResults holds the content of answers: the bare object or error for a query, both for
// changes and leases, OK where there is neither.
func TestResults(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "a")
	const status = `{"ErrStatus":{"metadata":{},"status":"Failure","message":"nodes \"a\" not found","reason":"NotFound","details":{"name":"a","kind":"nodes"},"code":404}}`
	for _, c := range []struct {
		request string
		object  any
		err     error
		want    string
	}{
		{"query node", map[string]string{"a": "b"}, nil, `{"a":"b"}`},
		{"query node", nil, gone, status},
		{"query lease", nil, gone, `{"Object":null,"Err":` + status + `}`},
		{"patch podpatch", map[string]string{"a": "b"}, nil, `{"Object":{"a":"b"},"Err":null}`},
		{"patch podpatch", map[string]string{"a": "b"}, gone, `{"Object":null,"Err":` + status + `}`},
		{"update podstatus", nil, nil, message.OK},
		{"query node", nil, errors.New("x"), `{"ErrStatus":{"metadata":{},"status":"Failure","message":"x","reason":"InternalError","code":500}}`},
	} {
		if got, err := encodeResult(c.request, c.object, c.err); err != nil || string(got) != c.want {
			t.Errorf("%s of %v, %v: %s, %v, want %s", c.request, c.object, c.err, got, err, c.want)
		}
	}
}

// TestNodesAreMade holds which labels a node is created with, and which a second call adds.
func TestNodesAreMade(t *testing.T) {
	labels := map[string]string{"kubernetes.io/os": "linux", "node.kubernetes.io/role": "x", "example.com/a": "b", "plain": ""}
	for join, want := range map[string]struct {
		labels int
		patch  string
	}{
		JoinPatch: {2, `{"metadata":{"labels":{"kubernetes.io/os":"linux","node.kubernetes.io/role":"x"}}}`},
		JoinWhole: {4, ""},
	} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge-0", Labels: maps.Clone(labels)}}
		patch := prepareNode(n, &Options{Join: join, Address: "192.0.2.1"})
		if string(patch) != want.patch || len(n.Labels) != want.labels || n.Annotations["cloudcore"] != "192.0.2.1" {
			t.Errorf("join=%s: created %v, %v, then %s", join, n.Labels, n.Annotations, patch)
		}
	}
}
