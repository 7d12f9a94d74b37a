package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
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
	o := readerOf(t, server.URL)
	var got [4]*answer
	for i := range got {
		got[i] = repotest.Must(o.readObject(t.Context(), aConfigMap(nil), got[max(i-1, 0)]))(t)
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

// TestFailuresNameTheMember holds what is said of a request for a member that failed:
// whether it came as far as the gateway, and that only the member's own word, or the
// gateway's, lets an object count as gone.
func TestFailuresNameTheMember(t *testing.T) {
	status := func(code int, reason, message string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":%q}`, code, reason, message)
		}
	}
	plain := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", code) }
	}
	for name, tt := range map[string]struct {
		answer  http.HandlerFunc
		want    string // empty: there is no such object
		gateway bool   // it is the gateway that is away
	}{
		"gone":        {status(404, "NotFound", "it is not there"), "", false},
		"no gateway":  {plain(404), "cluster m: the gateway cannot be reached: ", true},
		"away":        {plain(503), "cluster m: the gateway cannot be reached: ", true},
		"down":        {nil, "cluster m: the gateway cannot be reached: ", true},
		"unreachable": {status(503, "ServiceUnavailable", "cluster m cannot be reached: x"), "cluster m cannot be reached: x", false},
		"refused":     {status(403, "Forbidden", "not you"), "cluster m: not you", false},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(tt.answer)
			defer server.Close()
			if tt.answer == nil {
				server.Close() // it can be closed again
			}
			got, err := readerOf(t, server.URL).readObject(cluster.In(t.Context(), "m"), aConfigMap(nil), nil)
			if got != nil || (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("%v, %v: want %q", got, err, tt.want)
			}
			if errors.Is(err, errGateway) != tt.gateway || apierrors.IsNotFound(err) {
				t.Errorf("%v: of the gateway %v, want %v, and nothing that counts as gone", err, !tt.gateway, tt.gateway)
			}
			if _, err := readerOf(t, server.URL).readObject(t.Context(), aConfigMap(nil), nil); err != nil && strings.HasPrefix(err.Error(), "cluster m:") {
				t.Errorf("of the hub's own: %v", err)
			}
		})
	}
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	reader := readerOf(t, silent.URL)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond) // long enough for the request to leave
	defer cancel()
	if _, err := reader.readObject(cluster.In(ctx, "m"), aConfigMap(nil), nil); err == nil || !strings.HasPrefix(err.Error(), "cluster m does not answer: ") {
		t.Errorf("of a member that says nothing: %v", err)
	}
}

// TestDriftIsWhatAPatchChanges holds which patches put something right.
func TestDriftIsWhatAPatchChanges(t *testing.T) {
	is := map[string]any{"data": map[string]any{"a": encodeBase64("1")}}
	secret := map[string]any{"stringData": map[string]any{"a": "1"}}
	for _, tt := range []struct {
		is, want map[string]any
		patch    string
		drifted  bool
	}{
		{is, map[string]any{}, `{}`, false},
		{is, map[string]any{}, `{"data":{"a":"2"}}`, true},
		{is, secret, `{"stringData":{"a":"1"}}`, false},
		{is, secret, `{"metadata":{"labels":{"b":"c"}},"stringData":{"a":"1"}}`, true},
		{map[string]any{"data": map[string]any{"a": encodeBase64("2")}}, secret, `{"stringData":{"a":"1"}}`, true},
		{map[string]any{}, secret, `{"stringData":{"a":"1"}}`, true},
	} {
		repotest.Equal(t, isDrift(aConfigMap(tt.is), aConfigMap(tt.want), []byte(tt.patch)), tt.drifted, "%v to %v by %s", tt.is, tt.want, tt.patch)
	}
}

// TestWrites holds which request brings an object to what is wanted, whether it repairs,
// and whose objects are not changed.
func TestWrites(t *testing.T) {
	labeled := func(app string, fields map[string]any) *unstructured.Unstructured {
		o := aConfigMap(fields)
		if app != "" {
			o.SetLabels(map[string]string{api.LabelName: app, api.LabelNamespace: "n"})
		}
		return o
	}
	one, two := map[string]any{"data": map[string]any{"a": "1"}}, map[string]any{"data": map[string]any{"a": "2"}}
	secret := map[string]any{"kind": "Secret", "data": map[string]any{"a": encodeBase64("1")}}
	plain := map[string]any{"kind": "Secret", "stringData": map[string]any{"a": "1"}}
	for name, tt := range map[string]struct {
		is, want *unstructured.Unstructured
		f        Features
		write    string // verb, patch and repair; empty: there is nothing to change
		foreign  bool
	}{
		"as it is wanted":      {labeled("a", one), labeled("a", one), Features{SkipEmptyPatch: true}, "", false},
		"patched nevertheless": {labeled("a", one), labeled("a", one), Features{}, "Patch {}", false},
		"changed":              {labeled("a", two), labeled("a", one), Features{SkipEmptyPatch: true}, `Patch {"data":{"a":"1"}} was changed`, false},
		"stringData":           {labeled("a", secret), labeled("a", plain), Features{SkipEmptyPatch: true}, `Patch {"stringData":{"a":"1"}}`, false},
		"stringData as data":   {labeled("a", secret), labeled("a", plain), Features{SkipEmptyPatch: true, FoldSecrets: true}, "", false},
		"gone":                 {nil, labeled("a", one), Features{SkipEmptyPatch: true}, "Create was gone", false},
		"nobody's":             {labeled("", one), labeled("a", one), Features{}, "", true},
		"another's":            {labeled("b", one), labeled("a", one), Features{}, "", true},
	} {
		var is *answer
		if tt.is != nil {
			raw := repotest.Must(tt.is.MarshalJSON())(t)
			is = &answer{tt.is, raw}
		}
		w, err := tt.f.writeTo(is, tt.want, true)
		got := strings.Join(strings.Fields(w.verb+" "+string(w.patch)+" "+w.repair), " ")
		if got != tt.write || errors.Is(err, errForeign) != tt.foreign || (err != nil) != tt.foreign {
			t.Errorf("%s: %q, %v; want %q, of others %v", name, got, err, tt.write, tt.foreign)
		}
	}
}

// readerOf returns what reads ConfigMaps from a server.
func readerOf(t *testing.T, server string) objects {
	t.Helper()
	raw := repotest.Must(rest.UnversionedRESTClientFor(dynamic.ConfigFor(&rest.Config{Host: server, QPS: -1})))(t)
	return objects{raw: raw, mapper: configMaps(), known: &sync.Map{}, requests: requests{readTimeout: 10 * time.Second, metrics: &metrics{
		clock: clock.Start(), requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{}, []string{"controller", "cluster", "verb", "kind", "apiVersion", "unstructured"}),
	}}}
}

// aConfigMap returns an object with fields.
func aConfigMap(fields map[string]any) *unstructured.Unstructured {
	o := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "n", "name": "c"}}
	maps.Copy(o, fields)
	return &unstructured.Unstructured{Object: o}
}

func configMaps() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	return m
}
