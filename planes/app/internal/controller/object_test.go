package controller

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// TestAnswersAreComparedByBytes holds that an answer stands for a later one only
// where the server sent the same bytes again, and that what is gone is nil.
func TestAnswersAreComparedByBytes(t *testing.T) {
	answers := []string{`{"kind":"ConfigMap","apiVersion":"v1","data":{"a":"1"}}`, `{"kind":"ConfigMap","apiVersion":"v1","data":{"a":"1"}}`,
		`{"kind":"ConfigMap","apiVersion":"v1","data":{"a":"2"}}`, ``}
	paths := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths[r.URL.Path] = true
		if answers[0] == "" {
			w.WriteHeader(http.StatusNotFound)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(answers[0]))
		answers = answers[1:]
	}))
	defer server.Close()
	raw, err := rest.UnversionedRESTClientFor(dynamic.ConfigFor(&rest.Config{Host: server.URL, QPS: -1}))
	if err != nil {
		t.Fatal(err)
	}
	o := objects{raw: raw, mapper: configMaps(), known: &sync.Map{}, metrics: &metrics{
		clock: clock.Start(), requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{}, []string{"controller", "cluster", "verb", "kind", "apiVersion", "unstructured"}),
	}}
	ref := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "n", "name": "c"}}}
	var got [4]*answer
	for i := range got {
		if got[i], err = o.read(t.Context(), ref, got[max(i-1, 0)]); err != nil {
			t.Fatal(err)
		}
	}
	if got[0] == nil || got[1] != got[0] || got[2] == got[0] || got[3] != nil {
		t.Errorf("answers %v: want the first two to be one, the third another, the last none", got)
	}
	if value, _, _ := unstructured.NestedString(got[2].object.Object, "data", "a"); value != "2" {
		t.Errorf("a changed object is read as %q", value)
	}
	if len(paths) != 1 || !paths["/api/v1/namespaces/n/configmaps/c"] {
		t.Errorf("read %v", paths)
	}
}

func configMaps() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	return m
}
