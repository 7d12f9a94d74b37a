package hollow_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
)

// direct sends requests to a server's only cluster without a network.
type direct struct {
	t testing.TB
	s *hollow.Server
}

func directly(t testing.TB) direct {
	t.Helper()
	s := repotest.Must(hollow.New(hollow.Options{Shared: true, Token: "t"}))(t)
	t.Cleanup(func() { _ = s.Close() })
	if _, err := s.Cluster("c"); err != nil {
		t.Fatal(err)
	}
	return direct{t, s}
}

// send returns the code and the body of the answer.
func (d direct) send(method, path, media, body string) (code int, answer string) {
	d.t.Helper()
	r := httptest.NewRequest(method, "/clusters/c"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer t")
	r.Header.Set("Content-Type", media)
	w := httptest.NewRecorder()
	d.s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// must is send of what has to succeed.
func (d direct) must(method, path, media, body string) {
	d.t.Helper()
	if code, answer := d.send(method, path, media, body); code > http.StatusCreated {
		d.t.Fatalf("%s %s: %d %.300s", method, path, code, answer)
	}
}

// The bodies of requests that are small and would become large.

const mapsPath = "/api/v1/namespaces/default/configmaps"

// copyBomb is a JSON patch whose copies double the object n times.
func copyBomb(n int) string {
	b := fmt.Sprintf(`[{"op":"add","path":"/data/q","value":{"a":%q}}`, strings.Repeat("x", 1000))
	for i := range n {
		b += fmt.Sprintf(`,{"op":"copy","from":"/data/q","path":"/data/q/c%d"}`, i)
	}
	return b + "]"
}

// aliasBomb is a ConfigMap in YAML with n aliases of a text of size bytes.
func aliasBomb(size, n int) string {
	b := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\ndata:\n  k: &a " + strings.Repeat("x", size) + "\n"
	for i := range n {
		b += fmt.Sprintf("  k%d: *a\n", i)
	}
	return b
}

const boxes = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boxes.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: boxes, kind: Box}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              items:
                type: array
                items: {type: object, properties: {text: {type: string, default: DEFAULT}}}
`

func boxOf(items string) string {
	return `{"apiVersion":"example.com/v1","kind":"Box","metadata":{"name":"b","namespace":"default"},"spec":{"items":[` + items + `]}}`
}

// TestSmallRequestsStaySmall sends requests of which an answer or an object of
// gigabytes would come. The bound is on all that is allocated, also in between.
func TestSmallRequestsStaySmall(t *testing.T) {
	const (
		most      = 200 << 20
		jsonPatch = "application/json-patch+json"
		applyYAML = "application/apply-patch+yaml"
		boxesPath = "/apis/example.com/v1/namespaces/default/boxes"
	)
	d := directly(t)
	d.must("POST", mapsPath, "application/json", `{"metadata":{"name":"m"},"data":{"a":"b"}}`)
	d.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/yaml", strings.ReplaceAll(boxes, "DEFAULT", strings.Repeat("d", 10_000)))
	unknown := strings.Repeat(`{"text":"t","u":1,"v":1},`, 10_000) + `{"text":"t"}`
	for name, c := range map[string]struct {
		method, path, media, body string
		code                      int
		message                   string
	}{
		"copies of a JSON patch": {"PATCH", mapsPath + "/m", jsonPatch, copyBomb(16), 422, "the server rejected our request"},
		"a JSON patch's object":  {"PATCH", mapsPath + "/m", jsonPatch, `[{"op":"add","path":"/data/q","value":"` + strings.Repeat("x", 2<<20) + `"}]`, 500, "etcdserver: request is too large"},
		"an object":              {"POST", mapsPath, "application/json", `{"metadata":{"name":"l"},"data":{"a":"` + strings.Repeat("x", 2<<20) + `"}}`, 500, "etcdserver: request is too large"},
		"aliases of an apply":    {"PATCH", mapsPath + "/a?fieldManager=f", applyYAML, aliasBomb(100_000, 10_000), 400, "aliases"},
		"aliases of an object":   {"POST", mapsPath, "application/yaml", aliasBomb(100_000, 10_000), 400, "aliases"},
		"aliases of options":     {"DELETE", mapsPath + "/m", "application/yaml", aliasBomb(100_000, 10_000), 400, "aliases"},
		"defaults":               {"POST", boxesPath, "application/json", boxOf(strings.Repeat("{},", 30_000) + "{}"), 413, "defaults"},
		"unknown fields":         {"POST", boxesPath + "?fieldValidation=Strict", "application/json", boxOf(unknown), 400, "unknown field"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		code, answer := d.send(c.method, c.path, c.media, c.body)
		runtime.ReadMemStats(&after)
		if code != c.code || !strings.Contains(answer, c.message) {
			t.Errorf("%s: %d %.300s, want %d %s", name, code, answer, c.code, c.message)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > most || len(answer) > 64<<10 {
			t.Errorf("%s: a request of %d bytes allocates %d MiB, and its answer is %d bytes long", name, len(c.body), got>>20, len(answer))
		}
	}
	d.must("PATCH", mapsPath+"/m", jsonPatch, `[{"op":"copy","from":"/data/a","path":"/data/c"}]`)
	d.must("POST", mapsPath, "application/yaml", aliasBomb(100, 100))
}

// A strategic merge compares each element of one list with each of another.
func TestStrategicMergeOfLongLists(t *testing.T) {
	d := directly(t)
	var ports strings.Builder
	for i := range 15_000 {
		fmt.Fprintf(&ports, `{"port":%d,"name":"n"},`, i)
	}
	list := strings.TrimSuffix(ports.String(), ",")
	d.must("POST", "/api/v1/namespaces/default/services", "application/json", `{"metadata":{"name":"s"},"spec":{"ports":[`+list+`]}}`)
	code, answer := d.send("PATCH", "/api/v1/namespaces/default/services/s", "application/strategic-merge-patch+json", `{"spec":{"ports":[`+list+`]}}`)
	if code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %.300s", code, answer)
	}
}
