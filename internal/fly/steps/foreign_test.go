package steps

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
)

const ofOthers = "/api/v1/namespaces/n-1/configmaps/a-0"

// TestObjectsOfOthersStay makes one object in a cluster of others, changes it and
// deletes it, where one of that name may stand, and the first creation may end in
// many ways.
func TestObjectsOfOthersStay(t *testing.T) {
	theirs := map[string]any{"data": map[string]any{"theirs": "1"}}
	for name, tt := range map[string]struct {
		first  apitest.Injection // of the first creation
		there  bool              // before
		after  bool              // it is made anew by somebody else between creation and deletion
		stays  bool
		failed bool // the run says that it could not be made
	}{
		"refused, and theirs is there":      {first: apitest.Injection{Code: 429}, there: true, stays: true, failed: true},
		"ill, and theirs is there":          {first: apitest.Injection{Code: 500}, there: true, stays: true, failed: true},
		"lost, and theirs is there":         {first: apitest.Injection{Done: true}, there: true, stays: true, failed: true},
		"done, and the answer lost":         {first: apitest.Injection{Done: true}},
		"done, and the server gave up":      {first: apitest.Injection{Code: 504, Done: true}},
		"ours, and replaced by one of them": {after: true, stays: true},
		"ours":                              {},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBenchOf(t, head(1)+"- {name: a, create: {body: map, count: 1, pace: {burst: true}, retry: {times: 1, delay: 1ms}}}\n"+
				"- {update: {step: a, body: patch, with: {e: x}, method: merge, pace: {burst: true}}}\n- {name: d, delete: {step: a, pace: {burst: true}}}\n", object.Stamp{Run: "r1"})
			if tt.there {
				b.server.Add(ofOthers, theirs)
			}
			var once sync.Once
			b.server.Inject(func(r *http.Request) (f *apitest.Injection) {
				if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/configmaps") {
					once.Do(func() { f = &tt.first })
				}
				if r.Method == http.MethodDelete && tt.after {
					b.server.Remove(ofOthers)
					b.server.Add(ofOthers, theirs)
				}
				return f
			})
			_ = Run(t.Context(), b.Session)
			o := b.server.Get(ofOthers)
			if (o != nil) != tt.stays {
				t.Fatalf("there is %v", o)
			}
			if o != nil && (o.Object["data"].(map[string]any)["theirs"] != "1" || len(o.Object["data"].(map[string]any)) != 1 || len(o.GetLabels()) != 0) {
				t.Errorf("it was changed: %v", o.Object)
			}
			if n := b.server.Count("PATCH") + b.server.Count("DELETE"); (n == 0) != tt.failed {
				t.Errorf("%d changes and deletions", n)
			}
		})
	}
}

// TestCallsAtWhatOthersMade checks which calls are refused in a cluster of others,
// and that those which select are narrowed.
func TestCallsAtWhatOthersMade(t *testing.T) {
	const text = `- name: calls
  requests:
    count: 6
    pace: {burst: true}
    mix:
    - {verb: deletecollection, resource: namespaces}
    - {verb: deletecollection, resource: configmaps, namespace: default, selector: a=b}
    - {verb: deletecollection, resource: configmaps}
    - {verb: list, resource: namespaces}
    - {verb: patch, resource: configmaps, namespace: default, selector: a=b, body: patch, with: {e: x}}
`
	b := newBenchOf(t, head(1)+text, object.Stamp{Run: "r1"})
	if err := b.Workload.CheckCalls(t.Context(), discovery.New(b.Client)); err != nil {
		t.Error(err)
	}
	queries := func() (out []string) {
		for i := range b.Workload.Scenario.Steps[0].Requests.Mix {
			c := &b.Workload.Scenario.Steps[0].Requests.Mix[i]
			r := repotest.Must(discovery.New(b.Client).Named(t.Context(), c.Resource))(t)
			out = append(out, b.Workload.NarrowSelector(r, c))
		}
		return out
	}
	if got, want := queries(), []string{"windtunnel.dev/run=r1", "a=b,windtunnel.dev/run=r1", "", "", "a=b,windtunnel.dev/run=r1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	b.Workload.Destructive = true
	if got, want := queries(), []string{"", "a=b", "", "", "a=b"}; !slices.Equal(got, want) {
		t.Errorf("with --allow-destructive: got %q, want %q", got, want)
	}
	for call, foreign := range map[string]bool{
		"{verb: delete, resource: nodes, name: x}":                                          true,
		"{verb: delete, resource: configmaps, name: x, namespace: kube-system}":             true,
		"{verb: patch, resource: configmaps, name: x, namespace: default, body: patch}":     true,
		"{verb: delete, resource: configmaps, name: x}":                                     false,
		"{verb: delete, resource: configmaps, name: x, namespace: n-1}":                     false,
		"{verb: get, resource: nodes, name: x}":                                             false,
		"{verb: update, resource: configmaps, name: x, namespace: n-2, body: map}":          true,
		"{verb: create, body: map, name: x, namespace: default}":                            false,
		"{verb: patch, resource: nodes, name: x, subresource: status, body: patch}":         true,
		"{verb: delete, resource: customresourcedefinitions.apiextensions.k8s.io, name: x}": true,
	} {
		b := newBenchOf(t, head(1)+"- {name: c, requests: {count: 1, pace: {burst: true}, mix: ["+call+"]}}\n", object.Stamp{Run: "r1"})
		if err := b.Workload.CheckCalls(t.Context(), discovery.New(apitest.Client(t, b.server.Endpoint(), clock.Start()))); errors.Is(err, workload.ErrForeign) != foreign {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// TestFaultsOfAClusterOfOthers names the faults that cannot be injected there.
func TestFaultsOfAClusterOfOthers(t *testing.T) {
	for fault, want := range map[string]string{
		"{component: etcd, action: kill, for: 1s}":                 "windtunnel cannot kill etcd of a cluster",
		"{component: kube-apiserver, action: pause, for: 1s}":      "windtunnel cannot pause kube-apiserver of a cluster",
		"{client: kube-scheduler, action: delay, roundTrip: 50ms}": "cannot put a proxy before kube-scheduler",
		"{client: load, action: slow, factor: 2}":                  "needs the certificates",
		"{client: load, action: delay, roundTrip: 50ms}":           "",
		"{nodes: {count: 1}, action: silent, for: 1s}":             "",
	} {
		s := newPretended(t, nil, nil, "scenario: x\nfleet: {nodes: 1}\nsteps:\n- {name: f, fault: "+fault+"}\n")
		err := s.Workload.CheckFaults()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), ":4: step \"f\": fault: ") || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", fault, err)
		}
	}
}
