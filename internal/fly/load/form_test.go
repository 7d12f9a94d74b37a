package load_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/load/informer"
)

// TestForms is a table of requests: what is asked for -> what is sent.
func TestForms(t *testing.T) {
	deployments := discovery.Resource{Name: "deployments.apps", Root: "/apis/apps/v1", Plural: "deployments", Namespaced: true}
	nodes := discovery.Resource{Name: "nodes", Root: "/api/v1", Plural: "nodes"}
	const one, many = "/apis/apps/v1/namespaces/n/deployments/x", "/apis/apps/v1/namespaces/n/deployments"
	for _, tt := range []struct {
		resource discovery.Resource
		target   load.Target
		want     string
		scope    string
	}{
		{deployments, load.Target{Verb: "get"}, "GET " + one, "resource"},
		{deployments, load.Target{Verb: "get", Subresource: "status", ResourceVersion: "0"}, "GET " + one + "/status?resourceVersion=0", "resource"},
		{nodes, load.Target{Verb: "get"}, "GET /api/v1/nodes/x", "resource"},
		{deployments, load.Target{Verb: "list"}, "GET " + many, "namespace"},
		{deployments, load.Target{Verb: "list", Limit: 500, Selector: "a=b,c in (d)", ResourceVersion: "0"}, "GET " + many + "?labelSelector=a%3Db%2Cc+in+%28d%29&limit=500&resourceVersion=0 pages", "namespace"},
		{deployments, load.Target{Verb: "list", AllNamespaces: true, FieldSelector: "metadata.name=x"}, "GET /apis/apps/v1/deployments?fieldSelector=metadata.name%3Dx", "cluster"},
		{nodes, load.Target{Verb: "list"}, "GET /api/v1/nodes", "cluster"},
		{deployments, load.Target{Verb: "watch", Hold: 90 * time.Second}, "GET " + many + "?allowWatchBookmarks=true&timeoutSeconds=150&watch=1 hold 1m30s", "namespace"},
		{nodes, load.Target{Verb: "watch", Initial: true}, "GET /api/v1/nodes?allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeoutSeconds=120&watch=1 hold 1m0s", "cluster"},
		{deployments, load.Target{Verb: "watch", Informer: informer.List, Selector: "a=b", Hold: time.Hour}, "GET " + many + "?labelSelector=a%3Db hold 1h0m0s", "namespace"},
		{nodes, load.Target{Verb: "watch", Informer: informer.WatchList}, "GET /api/v1/nodes hold 1m0s", "cluster"},
		{deployments, load.Target{Verb: "create"}, "POST " + many + " application/json", "resource"},
		{deployments, load.Target{Verb: "create", Subresource: "scale"}, "POST " + one + "/scale application/json", "resource"},
		{deployments, load.Target{Verb: "update"}, "PUT " + one + " application/json", "resource"},
		{deployments, load.Target{Verb: "patch"}, "PATCH " + one + " application/merge-patch+json", "resource"},
		{deployments, load.Target{Verb: "patch", Patch: "strategic", Subresource: "status"}, "PATCH " + one + "/status application/strategic-merge-patch+json", "resource"},
		{deployments, load.Target{Verb: "patch", Patch: "json"}, "PATCH " + one + " application/json-patch+json", "resource"},
		{deployments, load.Target{Verb: "patch", Patch: "apply"}, "PATCH " + one + "?fieldManager=windtunnel&force=true application/apply-patch+yaml", "resource"},
		{deployments, load.Target{Verb: "delete", Propagation: "orphan"}, "DELETE " + one + ` application/json {"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Orphan"}`, "resource"},
		{deployments, load.Target{Verb: "deletecollection", Selector: "a"}, "DELETE " + many + `?labelSelector=a application/json {"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`, "namespace"},
	} {
		f, err := load.NewForm(tt.resource, tt.target)
		if err != nil {
			t.Errorf("%+v: %v", tt.target, err)
			continue
		}
		var r load.Request
		f.Fill(&r, "n", "x")
		got := r.Method + " " + r.Path
		if r.Pages {
			got += " pages"
		}
		if r.Hold > 0 {
			got += fmt.Sprintf(" hold %v", r.Hold)
		}
		if r.ContentType != "" {
			got += " " + r.ContentType
		}
		if len(r.Body) > 0 {
			got += " " + string(r.Body)
		}
		if got != tt.want {
			t.Errorf("%+v:\n got %s\nwant %s", tt.target, got, tt.want)
		}
		if op := f.Op("s"); op.Scope != tt.scope || op.Verb != tt.target.Verb || op.Subresource != tt.target.Subresource || op.Source != load.Source {
			t.Errorf("%+v: operation %+v, want scope %s", tt.target, op, tt.scope)
		}
	}
	for _, bad := range []load.Target{{Verb: "put"}, {Verb: "patch", Patch: "yaml"}, {Verb: "delete", Propagation: "sideways"}} {
		if _, err := load.NewForm(nodes, bad); !errors.Is(err, load.ErrPlan) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestVersions(t *testing.T) {
	for object, want := range map[string]string{
		`{"a":{"metadata":{}},"metadata":{"name":"x"}}`: `{"a":{"metadata":{}},"metadata":{"resourceVersion":"7","name":"x"}}`,
		`{"kind":"metadata","metadata":{}}`:             `{"kind":"metadata","metadata":{"resourceVersion":"7"}}`,
		`{"a":"\"metadata\":{","metadata": { "b":1}}`:   `{"a":"\"metadata\":{","metadata": {"resourceVersion":"7", "b":1}}`,
		`{"metadata":3}`: "", `[]`: "", `"`: "", `{"a`: "",
	} {
		got, err := load.AppendVersioned(nil, []byte(object), "7")
		if (err != nil) != (want == "") || err == nil && string(got) != want {
			t.Errorf("%s: %s, %v; want %s", object, got, err, want)
		}
	}
	if got := load.ResourceVersion([]byte(`{"metadata":{"resourceVersion":"12"}}`)); got != "12" {
		t.Errorf("version %q", got)
	}
	// k8s, 2: {1: {6: "345"}}
	if got := load.ResourceVersion([]byte("k8s\x00\x12\x07\x0a\x05\x32\x03345")); got != "345" {
		t.Errorf("version of protobuf %q", got)
	}
}

func TestMixKeepsItsWeights(t *testing.T) {
	m, n := load.NewMix([]float64{1, 0, 3, -1}, 7), [4]int{}
	for i := range 20_000 {
		n[m.Pick(i)]++
	}
	if n[1] != 0 || n[3] != 0 || n[0] < 4700 || n[0] > 5300 {
		t.Errorf("picked %v of weights 1, 0, 3", n)
	}
	if got := load.NewMix(nil, 1).Pick(3); got != 0 {
		t.Errorf("of nothing: %d", got)
	}
	first := load.NewMix([]float64{1, 1}, 7)
	same, other := 0, load.NewMix([]float64{1, 1}, 8)
	for i := range 1000 {
		if first.Pick(i) == other.Pick(i) {
			same++
		}
	}
	if same < 400 || same > 600 {
		t.Errorf("two seeds agree in %d of 1000 picks", same)
	}
}
