package apitest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
	"github.com/windtunnel/windtunnel/scenario"
)

func TestServer(t *testing.T) {
	conform(t, apitest.New(t).Endpoint())
}

func TestHollow(t *testing.T) {
	s := repotest.Must(hollow.New(hollow.Options{}))(t)
	t.Cleanup(func() { _ = s.Close() })
	c := repotest.Must(s.Cluster("one"))(t)
	conform(t, c.Endpoint())
}

func TestReal(t *testing.T) {
	p := repotest.Must(plane.Start(t.Context(), scenario.Plane{}, plane.Options{LogDir: t.TempDir(), Executable: repotest.Binary(t)}))(t)
	t.Cleanup(func() { _ = p.Close() })
	conform(t, p.Endpoint("admin"))
}

// seen are the events of a watch.
type seen struct{ c chan string }

func (seen) ListBegin(bool, string)      {}
func (s seen) ListEnd()                  { s.c <- "listed" }
func (seen) Bookmark(clock.Time, uint64) {}
func (s seen) Event(e watch.Event) {
	var m object.Meta
	if err := object.DecodeMeta(e.Object, &m); err != nil {
		s.c <- err.Error()
	}
	s.c <- fmt.Sprintf("%d %s", e.Kind, m.Name)
}

// conform asks what the tests of this repository ask of an API server, and
// looks at code, reason and object.
func conform(t *testing.T, e endpoint.Endpoint) {
	c := clock.Start()
	client := apitest.Client(t, e, c)
	const maps, merge, strategic, jsonPatch = "/api/v1/namespaces/n/configmaps", "application/merge-patch+json", "application/strategic-merge-patch+json", "application/json-patch+json"
	saved := map[string]string{}
	do := func(method, path, kind, body, want string) {
		t.Helper()
		for name, value := range saved {
			body = strings.ReplaceAll(body, "$"+name, value)
		}
		r, err := client.Do(t.Context(), &wire.Request{Method: method, Path: path, ContentType: kind, Accept: "application/json", Body: []byte(body)})
		if err != nil && r == nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		var o struct {
			Reason   string
			Data     map[string]string
			Metadata struct {
				Name, UID, ResourceVersion, DeletionTimestamp string
				Finalizers                                    []string
			}
			Items   []struct{ Metadata struct{ Name string } }
			Details struct{ Causes []struct{ Field string } }
		}
		_ = json.Unmarshal(r.Body, &o)
		got := []string{fmt.Sprint(r.Code)}
		switch {
		case r.Code >= 400:
			got = append(got, o.Reason)
			if object.ReadStatus(r.Body).OtherUID {
				got = append(got, o.Details.Causes[0].Field)
			}
		case method == http.MethodGet && o.Items != nil:
			for _, i := range o.Items {
				got = append(got, i.Metadata.Name)
			}
		case o.Metadata.DeletionTimestamp != "":
			got = append(got, "ending")
		case method != http.MethodDelete:
			got = append(got, o.Metadata.Name)
			for _, k := range []string{"a", "b"} {
				if v, ok := o.Data[k]; ok {
					got = append(got, k+"="+v)
				}
			}
			if o.Metadata.ResourceVersion == saved["version"] {
				got = append(got, "unchanged")
			}
			saved["uid"], saved["version"] = o.Metadata.UID, o.Metadata.ResourceVersion
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s %s %s: %s, want %s", method, path, body, text, want)
		}
	}
	do("POST", "/api/v1/namespaces", "", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}`, "201 n")
	do("POST", "/api/v1/nodes", "", `{"metadata":{"name":"n"}}`, "201 n")
	do("PATCH", "/api/v1/nodes/n/status", strategic, `{"metadata":{"uid":"other"},"status":{"phase":"x"}}`, "422 Invalid metadata.uid")
	ctx, stop := context.WithCancel(t.Context())
	events, ended := seen{make(chan string, 100)}, make(chan error, 1)
	go func() {
		ended <- watch.Follow(ctx, client, watch.Options{Path: maps, Selector: "labelSelector=l%3D1", Clock: c}, events)
	}()
	defer func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	next := func() string {
		select {
		case one := <-events.c:
			return one
		case <-time.After(time.Minute):
			t.Fatal("nothing is watched")
			return ""
		}
	}
	if got := next(); got != "listed" {
		t.Fatal(got)
	}
	do("POST", maps, "", `{"metadata":{"name":"x","labels":{"l":"1"}},"data":{"a":"1"}}`, "201 x a=1")
	do("POST", maps, "", `{"metadata":{"name":"x"}}`, "409 AlreadyExists")
	do("POST", maps, "", `{"metadata":{"name":"y","finalizers":["a.b/c"]}}`, "201 y")
	do("GET", maps+"/z", "", "", "404 NotFound")
	do("GET", maps+"?labelSelector=l%3D1", "", "", "200 x")
	do("GET", maps+"?fieldSelector=metadata.name%3Dy", "", "", "200 y")
	do("PATCH", maps+"/x", merge, `{"data":{"b":"2"}}`, "200 x a=1 b=2")
	do("PATCH", maps+"/x", strategic, `{"data":{"a":null}}`, "200 x b=2")
	do("PATCH", maps+"/x", strategic, `{"data":{"b":"2"}}`, "200 x b=2 unchanged")
	do("PATCH", maps+"/x", jsonPatch, `[{"op":"add","path":"/data/a","value":"3"}]`, "200 x a=3 b=2")
	do("PATCH", maps+"/x", jsonPatch, `[{"op":"test","path":"/data/a","value":"4"}]`, "422 Invalid")
	do("PATCH", maps+"/x", merge, `{"metadata":{"uid":"other"}}`, "422 Invalid metadata.uid")
	do("PUT", maps+"/x", "", `{"metadata":{"name":"x","labels":{"l":"1"},"resourceVersion":"1"}}`, "409 Conflict")
	do("PUT", maps+"/x", "", `{"metadata":{"name":"x","resourceVersion":"$version"},"data":{"a":"5"}}`, "200 x a=5")
	do("PATCH", maps+"/x", merge, `{"metadata":{"labels":{"l":"1"}}}`, "200 x a=5")
	do("DELETE", maps+"/x", "", `{"preconditions":{"uid":"other"}}`, "409 Conflict")
	do("DELETE", maps+"/x", "", `{"preconditions":{"uid":"$uid"}}`, "200")
	do("GET", maps+"/x", "", "", "404 NotFound")
	do("DELETE", maps+"/y", "", "", "200 ending")
	do("PATCH", maps+"/y", merge, `{"metadata":{"finalizers":null}}`, "200 ending")
	do("GET", maps+"/y", "", "", "404 NotFound")
	do("POST", maps, "", `{"metadata":{"name":"last","labels":{"l":"1"}}}`, "201 last")
	// What leaves the selection is deleted to the watch, what changes nothing is not shown.
	for i, want := range strings.Split("2 x,3 x,3 x,3 x,4 x,2 x,4 x,2 last", ",") {
		if got := next(); got != want {
			t.Fatalf("event %d: %s, want %s", i, got, want)
		}
	}
}
