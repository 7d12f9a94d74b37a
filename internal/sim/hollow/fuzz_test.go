package hollow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
)

// The requests of these targets are of any form above HTTP. None of them may break the
// server, allocate more than one request may, be answered with no known code, or be
// refused without a Status in the form that the client asked for. What they change is
// undone.

// fuzzMemory is how many bytes a request may allocate, also for a moment: a body has at
// most some ten thousand.
const fuzzMemory = 64 << 20

// fuzzed is a cluster with some objects.
type fuzzed struct {
	direct
	cluster *hollow.Cluster
	state   hollow.State
}

func newFuzzed(f *testing.F) *fuzzed {
	d := directly(f)
	c := repotest.Must(d.s.Cluster("c"))(f)
	for path, body := range map[string]string{
		"/api/v1/namespaces/default/pods": `{"metadata":{"name":"p","labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"A","value":"1"}],"ports":[{"containerPort":1}]}]}}`,
		mapsPath:                          `{"metadata":{"name":"m"},"data":{"a":"b","c":"d"}}`,
		"/apis/apps/v1/namespaces/default/deployments":            `{"metadata":{"name":"d"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`,
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": boxesInJSON(f),
	} {
		d.must("POST", path, "application/json", body)
	}
	d.must("POST", "/apis/example.com/v1/namespaces/default/boxes", "application/json", boxOf("{}"))
	return &fuzzed{d, c, c.Copy()}
}

func boxesInJSON(f *testing.F) string {
	f.Helper()
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"boxes.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
"names":{"plural":"boxes","kind":"Box"},"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.n","statusReplicasPath":".status.n"}},
"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"n":{"type":"integer"},
"items":{"type":"array","items":{"type":"object","properties":{"text":{"type":"string","default":"t"}}}}}},"status":{"type":"object","properties":{"n":{"type":"integer"}}}}}}}]}}`
}

// play sends a request and looks at its answer. A watch ends after a moment.
func (z *fuzzed) play(t *testing.T, method, target, media, accept, body string) {
	t.Helper()
	u, err := url.ParseRequestURI("/clusters/c/" + strings.TrimPrefix(target, "/"))
	if err != nil {
		return // HTTP does not let it through
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", strings.NewReader(body))
	r.Method, r.URL, r.RequestURI = method, u, u.RequestURI()
	r.Header.Set("Authorization", "Bearer t")
	r.Header.Set("Content-Type", media)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	z.s.ServeHTTP(w, r)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > fuzzMemory {
		t.Errorf("%s %s: %d MiB allocated", method, target, got>>20)
	}
	if http.StatusText(w.Code) == "" {
		t.Errorf("%s %s: code %d", method, target, w.Code)
	}
	if w.Code >= http.StatusBadRequest {
		if err := isRefusal(w); err != nil {
			t.Errorf("%s %s: %d %q: %v", method, target, w.Code, w.Header().Get("Content-Type"), err)
		}
	}
	z.cluster.Restore(z.state)
	z.cluster.Compact()
}

// isRefusal says how the answer to a request that was refused is no Status. Paths of no
// group and version, and of no cluster, are answered by a plain 404.
func isRefusal(w *httptest.ResponseRecorder) error {
	media, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
	var s metav1.Status
	switch media {
	case "application/json":
		if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
			return err
		}
	case object.ContentType:
		raw, _, err := object.Unwrap(w.Body.Bytes())
		if err != nil {
			return err
		}
		if err := s.Unmarshal(raw); err != nil {
			return err
		}
		s.Kind = "Status"
	case "text/plain":
		if w.Code != http.StatusNotFound || w.Body.String() != "404 page not found\n" {
			return fmt.Errorf("%.200s", w.Body)
		}
		return nil
	default:
		return fmt.Errorf("%.200s", w.Body)
	}
	if s.Kind != "Status" || s.Status != metav1.StatusFailure || int(s.Code) != w.Code {
		return fmt.Errorf("%+v", s)
	}
	return nil
}

var patchTypes = []string{"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"}

var patchTargets = []string{
	"/api/v1/namespaces/default/pods/p", "/api/v1/namespaces/default/pods/p/status", mapsPath + "/m", mapsPath + "/new", "/apis/apps/v1/namespaces/default/deployments/d",
	"/apis/apps/v1/namespaces/default/deployments/d/scale", "/apis/example.com/v1/namespaces/default/boxes/b", "/apis/example.com/v1/namespaces/default/boxes/b/scale",
	"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/boxes.example.com",
}

// FuzzPatch patches objects of all kinds, and applies to them.
func FuzzPatch(f *testing.F) {
	z := newFuzzed(f)
	for i, body := range []string{
		`[{"op":"add","path":"/metadata/labels/x","value":"y"},{"op":"copy","from":"/spec/containers/0","path":"/spec/containers/-"},{"op":"move","from":"/metadata/labels","path":"/metadata/annotations"}]`,
		`[{"op":"test","path":"","value":{}},{"op":"remove","path":"/spec/containers/-1"},{"op":"replace","path":"/spec/a~1b~0","value":null}]`,
		`{"metadata":{"labels":null,"finalizers":["a/b"]},"spec":{"replicas":3}}`,
		`{"spec":{"containers":[{"$patch":"delete","name":"c"},{"$patch":"replace"}],"$setElementOrder/containers":[{"name":"c"}],"$retainKeys":["containers"]}}`,
		`{"data":{"$patch":"merge","a":1},"metadata":{"$deleteFromPrimitiveList/finalizers":["x"]}}`,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, labels: &a {x: y}, annotations: *a}\ndata: {<<: *a, z: !!binary YQ==}\n",
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":2,"template":{"spec":{"containers":[{"name":"c","env":[{"name":"X"}]}]}}}}`,
		`{"apiVersion":"example.com/v1","kind":"Box","metadata":{"name":"b"},"spec":{"items":[{},{"text":null}],"n":1}}`,
	} {
		for kind := range patchTypes {
			f.Add(uint8(kind), uint8(i), body, kind%2 == 0)
		}
	}
	f.Fuzz(func(t *testing.T, kind, target uint8, body string, force bool) {
		query := "?fieldManager=f"
		if force {
			query += "&force=true"
		}
		z.play(t, http.MethodPatch, patchTargets[int(target)%len(patchTargets)]+query, patchTypes[int(kind)%len(patchTypes)], "", body)
	})
}

// FuzzPaths asks for anything, by any path, selector, version and page.
func FuzzPaths(f *testing.F) {
	z := newFuzzed(f)
	for _, target := range []string{
		"/api/v1/pods?labelSelector=a+in+(b,c),!d,e!%3Df&fieldSelector=spec.nodeName%3D,metadata.name!%3Dx", "/api/v1/namespaces/default/pods/p", "/api/v1/namespaces//pods", "/apis", "/api/v1",
		"/api/v1/pods?limit=1&continue=eyJydiI6MSwic3RhcnQiOiJhIn0", "/api/v1/pods?resourceVersion=1&resourceVersionMatch=Exact", "/api/v1/pods?watch=true&resourceVersion=0&timeoutSeconds=1",
		"/api/v1/watch/pods", "/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "/openapi/v3/apis/example.com/v1", "/openapi/v2",
		"/apis/example.com/v1/namespaces/default/boxes/b/scale", "/apis/example.com/v1/boxes?fieldSelector=metadata.namespace%3Ddefault", "/metrics", "/version", "/readyz/x", "/apis/a/b/c/d/e/f/g",
	} {
		for _, method := range []string{"GET", "DELETE", "HEAD"} {
			f.Add(method, target, "application/json;as=Table;g=meta.k8s.io;v=v1,application/vnd.kubernetes.protobuf")
		}
	}
	f.Fuzz(func(t *testing.T, method, target, accept string) {
		if method == "" || strings.ContainsAny(method, " \t\r\n") {
			return
		}
		z.play(t, method, target, "", accept, "")
	})
}

// FuzzObjects creates, replaces and deletes by bodies of all forms.
func FuzzObjects(f *testing.F) {
	z := newFuzzed(f)
	pod := repotest.Must((&corev1.Pod{}).Marshal())(f)
	for _, body := range []string{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","generateName":"y","deletionGracePeriodSeconds":1},"data":{"a":"b"},"unknown":[{}]}`,
		"metadata: {name: x}\ndata: {? [a] : b}\n", string(object.AppendEnvelope(nil, "v1", "Pod", pod)), "k8s\x00", `{"kind":"DeleteOptions","propagationPolicy":"Foreground","preconditions":{"uid":"u"}}`,
		boxOf(`{"text":1},{"x":{}}`), boxesInJSON(f), `{"kind":"Binding","metadata":{"name":"p"},"target":{"name":"n"}}`, `{"kind":"Eviction","apiVersion":"policy/v1","metadata":{"name":"p"}}`,
	} {
		for i, media := range []string{"application/json", "application/yaml", object.ContentType} {
			for target := range uint8(8) {
				f.Add(uint8(i), target, media, body)
			}
		}
	}
	targets := append([]string{"/api/v1/namespaces/default/pods", mapsPath, "/apis/example.com/v1/namespaces/default/boxes", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		"/api/v1/namespaces/default/pods/p/binding", "/api/v1/namespaces/default/pods/p/eviction", "/api/v1/namespaces/default/serviceaccounts/default/token", "/apis/authorization.k8s.io/v1/subjectaccessreviews"}, patchTargets...)
	f.Fuzz(func(t *testing.T, method, target uint8, media, body string) {
		z.play(t, []string{"POST", "PUT", "DELETE"}[int(method)%3], targets[int(target)%len(targets)], media, "", body)
	})
}
