package steps

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/load/informer"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
	"github.com/windtunnel/windtunnel/scenario"
)

const mapBody = `
  map:
    text: |
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "{{ .Name }}", namespace: "{{ .Namespace }}", labels: {x: "1"}}
      data: {a: "{{ payload 200 }}", b: "{{ randAlpha 10 }}", c: "{{ randInt 1 1000 }}", d: "{{ .Index }}"}
  deployment:
    text: |
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: "{{ .Name }}"}
      spec: {replicas: {{ .replicas }}}
  own:
    text: |
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "own-{{ .Index }}-{{ .Group }}"}
  patch:
    text: |
      data: {e: "{{ .Index }}-{{ .e }}", f: "{{ randAlpha 5 }}"}
  nth:
    text: |
      data: {e: "{{ .Call }}"}
  space:
    text: |
      {apiVersion: v1, kind: Namespace, metadata: {name: "{{ .Name }}"}}
`

func head(namespaces int) string {
	return fmt.Sprintf("scenario: x\nnamespaces: {prefix: n, count: %d}\nbodies:%ssteps:\n", namespaces, mapBody)
}

// digest is what a plan sends: due times, paths and bodies, in order.
func digest(t *testing.T, p load.Plan) string {
	t.Helper()
	sum := sha256.New()
	for i := range p.Count {
		var req load.Request
		ok := repotest.Must(p.Build(i, &req))(t)
		fmt.Fprintf(sum, "%v %v %s %s %s\n", p.Pace.Due(i), ok, req.Method, req.Path, req.Body)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// requests returns a digest of what each step sends.
func requests(t *testing.T, file string, seed uint64) map[string]string {
	t.Helper()
	sc, err := scenario.Load(file, nil)
	repotest.NoError(t, err)
	sc.Seed = seed
	w := repotest.Must(Compile(sc, file, object.Stamp{}))(t)
	session := &Session{Workload: w, Created: NewCreated()}
	out := map[string]string{}
	for s := range sc.AllSteps() {
		var p load.Plan
		switch {
		case s.Create != nil:
			o := newObjects(w, s.Name, s.Create)
			for k := range o.items {
				o.items[k].resource = discovery.Resource{Name: "x", Root: "/api/v1", Plural: "x", Namespaced: true}
			}
			o.SetUpTo(s.Create.Count)
			session.Created.addStep(s.Name, o)
			all := o.batchOfAll()
			p, err = all.planCreation(s.Name, time.Second)
			p.Pace = pacingOf(w, s.Name, all, s.Create.Pace)
			for i := range all.count {
				o.setThere(all.ordinal(i), true)
			}
		case s.Update != nil:
			all := session.Created.find(s.Update.Step).batchOfAll()
			p, err = Update{s.Name, s.Update}.planUpdate(w, all, new(atomic.Int64))
			p.Pace = pacingOf(w, s.Name, all, s.Update.Pace)
		case s.Requests != nil:
			var sent planned
			sent, err = Requests{s.Name, s.Requests}.planCalls(t.Context(), session)
			p = sent.Plan
		default:
			continue
		}
		repotest.NoError(t, err)
		out[s.Name] = digest(t, p)
	}
	return out
}

// What is created goes as protobuf where the resource has it.
func TestBodiesArePacked(t *testing.T) {
	b := newBench(t, head(1)+"- {name: a, create: {body: map, count: 2, pace: {burst: true}}}\n")
	repotest.NoError(t, Run(t.Context(), b.Session))
	if n, maps := b.server.Packed(), b.server.Names(mapsPath); n != 2 || len(maps) != 2 {
		t.Errorf("%d bodies in protobuf, objects %v", n, maps)
	}
}

func TestSameSeedSameRequestsInTheSameOrder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "random.yaml")
	text := head(3) + `
- {name: first, create: {body: map, count: 300, pace: {poisson: 100}}}
- {name: second, create: {body: map, count: 300, pace: {poisson: 100}}}
- {name: update, update: {step: first, body: patch, with: {e: x}, pace: {within: 10s, random: true}}}
- name: mix
  requests:
    count: 300
    pace: {constant: 100, jitter: 1}
    mix: [{verb: get, of: first, pick: random, weight: 2}, {verb: patch, of: second, body: patch, with: {e: y}}, {verb: list, of: first, limit: 10}]
`
	repotest.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	first, again, other := requests(t, file, 7), requests(t, file, 7), requests(t, file, 8)
	if len(first) != 4 {
		t.Fatalf("%d steps", len(first))
	}
	for step := range first {
		if first[step] != again[step] {
			t.Errorf("%s: the same seed gave other requests", step)
		}
		if first[step] == other[step] {
			t.Errorf("%s: another seed gave the same requests", step)
		}
	}
	if density := "../../../examples/density.yaml"; fmt.Sprint(requests(t, density, 1)) != fmt.Sprint(requests(t, density, 1)) { //nolint:staticcheck // twice is the question
		t.Error("density: the same seed gave other requests")
	}
}

func TestEachStepHasArrivalsOfItsOwn(t *testing.T) {
	w := &workload.Workload{Scenario: &scenario.Scenario{Seed: 1}}
	a, b := w.PaceOf("a", scenario.Pace{Poisson: 10}, 9), w.PaceOf("b", scenario.Pace{Poisson: 10}, 9)
	if a.Due(5) == b.Due(5) {
		t.Error("two steps of random arrivals follow the same times")
	}
	if rate := w.PaceOf("c", scenario.Pace{Burst: true}, 9).Rate(); !math.IsInf(rate, 1) {
		t.Errorf("a burst asks for %v calls a second", rate)
	}
}

const (
	mapsPath  = "/api/v1/configmaps"
	spacePath = "/api/v1/namespaces"
)

// TestSteps runs steps against a server and looks at what is left there.
func TestSteps(t *testing.T) {
	for _, tt := range []struct{ name, steps, in, want string }{
		{"all namespaces in turn", "- {name: a, create: {body: map, count: 3, pace: {burst: true}}}", mapsPath, "n-1/a-0 n-1/a-2 n-2/a-1"},
		{"in each namespace", "- {name: a, create: {body: map, perNamespace: 2, pace: {burst: true}}}", mapsPath, "n-1/a-0 n-1/a-1 n-2/a-0 n-2/a-1"},
		{"one namespace", "- {name: a, create: {body: map, count: 2, namespace: own, pace: {burst: true}}}", mapsPath, "own/a-0 own/a-1"},
		{"some namespaces, so many in each", "- {name: a, create: {body: map, count: 4, namespaces: {from: 7, to: 8, prefix: m, each: 2}, pace: {burst: true}}}", mapsPath,
			"m-7/a-0 m-7/a-1 m-8/a-2 m-8/a-3"},
		{"several objects", "- {name: a, create: {count: 3, objects: [{body: map, name: x, replicas: 2}, {body: own, every: 2}], pace: {constant: 1000}}}", mapsPath,
			"n-1/own-0-a n-1/own-2-a n-1/x-0-1 n-1/x-0-2 n-1/x-2-1 n-1/x-2-2 n-2/x-1-1 n-2/x-1-2"},
		{"up and down", "- {name: a, create: {body: map, perNamespace: 2, pace: {burst: true}}}\n- {scale: {step: a, perNamespace: 3, pace: {burst: true}}}\n- {scale: {step: a, perNamespace: 1, pace: {burst: true}}}",
			mapsPath, "n-1/a-0 n-2/a-0"},
		{"down to none and up again", "- {name: a, create: {body: own, count: 3, pace: {burst: true}}}\n- {scale: {step: a, to: 0, pace: {burst: true}}}\n- {scale: {step: a, to: 2, pace: {burst: true}}}",
			mapsPath, "n-1/own-0-a n-2/own-1-a"},
		{"delete what names itself", "- {name: a, create: {body: own, count: 3, pace: {burst: true}}}\n- {delete: {step: a, pace: {burst: true}}}", mapsPath, ""},
		{"churn leaves as many", "- {name: a, create: {body: map, count: 9, pace: {burst: true}}}\n- {churn: {step: a, percent: 50, cycles: 2, pace: {burst: true}}}", mapsPath,
			"n-1/a-0 n-1/a-2 n-1/a-4 n-1/a-6 n-1/a-8 n-2/a-1 n-2/a-3 n-2/a-5 n-2/a-7"},
		{"made by a mix", "- requests: {count: 3, pace: {burst: true}, mix: [{verb: create, body: map, name: b}]}", mapsPath, "n-1/b-0 n-1/b-2 n-2/b-1"},
		{"deleted by a mix", "- {name: a, create: {body: map, count: 4, pace: {burst: true}}}\n- requests: {count: 3, pace: {closed: 1}, mix: [{verb: delete, of: a}]}", mapsPath, "n-2/a-3"},
		{"deleted where labels select", "- {name: a, create: {body: map, count: 4, pace: {burst: true}}}\n- requests: {rounds: 1, pace: {closed: 1}, mix: [{verb: delete, resource: configmaps, namespace: n-1, selector: x}]}",
			mapsPath, "n-2/a-1 n-2/a-3"},
		{"in parallel", "- parallel:\n  - {name: a, create: {body: map, count: 1, pace: {burst: true}}}\n  - sequence: [{name: b, create: {body: map, count: 2, pace: {burst: true}}}, {delete: {step: b, pace: {burst: true}}}]\n", mapsPath, "n-1/a-0"},
		{"rounds", "- repeat: {times: 2, steps: [{name: a, create: {body: map, count: 1, pace: {burst: true}}}]}", mapsPath, "n-1/a-1-0 n-1/a-2-0"},
		{"of the cluster", "- {name: a, create: {body: space, count: 2, pace: {burst: true}}}", spacePath, "a-0 a-1"},
	} {
		b := newBench(t, head(2)+tt.steps)
		if err := Run(t.Context(), b.Session); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := strings.Join(b.server.Names(tt.in), " "); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

func TestUpdates(t *testing.T) {
	for _, tt := range []struct {
		name, steps string
		want        map[string]int    // calls that begin so
		bodies      map[string]string // of the last of them
	}{
		{"a patch of each", "- update: {step: a, body: patch, with: {e: 1}, pace: {burst: true}}", map[string]int{"PATCH": 3, "GET": 0},
			map[string]string{"PATCH /api/v1/namespaces/n-1/configmaps/a-2": `{"data":{"e":"2-1","f":"`}},
		{"the object itself", "- update: {step: a, method: apply, pace: {burst: true}}", map[string]int{"PATCH": 3},
			map[string]string{"PATCH /api/v1/namespaces/n-2/configmaps/a-1": `{"apiVersion":"v1","data"`}},
		{"get and put", "- update: {step: a, method: put, pace: {closed: 2}}", map[string]int{"GET": 3, "PUT": 3}, nil},
		{"only the first", "- update: {step: a, first: 2, body: patch, with: {e: 1}, pace: {burst: true}}", map[string]int{"PATCH": 2}, nil},
		{"the number of the call", "- requests: {count: 5, pace: {closed: 1}, mix: [{verb: patch, of: a, body: nth}]}", map[string]int{"PATCH": 5},
			map[string]string{"PATCH /api/v1/namespaces/n-1/configmaps/a-0": `{"data":{"e":"3"}`, "PATCH /api/v1/namespaces/n-2/configmaps/a-1": `{"data":{"e":"4"}`, "PATCH /api/v1/namespaces/n-1/configmaps/a-2": `{"data":{"e":"2"}`}},
		{"an update of a mix", "- requests: {count: 4, pace: {closed: 1}, mix: [{verb: update, of: a, body: map}]}", map[string]int{"GET": 4, "PUT": 4}, nil},
		{"rounds through what labels select", "- requests: {rounds: 2, pace: {closed: 1}, mix: [{verb: patch, resource: configmaps, selector: x, body: patch, with: {e: 1}}]}",
			map[string]int{"PATCH": 6}, map[string]string{"PATCH /api/v1/namespaces/n-1/configmaps/a-2": `{"data":{"e":"1-1"`}},
		{"a subresource", "- requests: {count: 1, pace: {burst: true}, mix: [{verb: patch, of: a, subresource: status, body: patch, with: {e: 1}}]}",
			map[string]int{"PATCH /api/v1/namespaces/n-1/configmaps/a-0/status": 1}, nil},
		{"lists", "- requests: {count: 2, pace: {closed: 1}, mix: [{verb: list, resource: configmaps}]}\n- requests: {count: 1, pace: {burst: true}, mix: [{verb: list, resource: configmaps, namespace: \"*\"}]}",
			map[string]int{"GET /api/v1/namespaces/n-1/configmaps": 1, "GET /api/v1/namespaces/n-2/configmaps": 1, "GET /api/v1/configmaps": 1}, nil},
	} {
		b := newBench(t, head(2)+"- {name: a, create: {body: map, count: 3, pace: {burst: true}}}\n"+tt.steps)
		if err := Run(t.Context(), b.Session); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		for prefix, want := range tt.want {
			if got := b.server.Count(prefix); got != want && !(prefix == "GET" && strings.Contains(tt.steps, "selector")) {
				t.Errorf("%s: %d of %s, want %d", tt.name, got, prefix, want)
			}
		}
		for call, want := range tt.bodies {
			if got := b.server.Body(call); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s with %.60s, want %s...", tt.name, call, got, want)
			}
		}
		for _, o := range b.server.Objects(mapsPath) {
			if strings.Contains(tt.steps, "put") && o.Object["data"] == nil {
				t.Errorf("%s: %s lost its data", tt.name, o.GetName())
			}
		}
	}
}

func TestChurnOfNamespaces(t *testing.T) {
	b := newBench(t, head(0)+`
- {name: spaces, create: {body: space, count: 4, pace: {burst: true}}}
- {name: a, create: {body: map, count: 8, namespaces: {from: 0, to: 3, prefix: spaces, each: 2}, pace: {burst: true}}}
- churn: {step: a, namespaces: spaces, percent: 50, cycles: 1, perObject: true, pace: {burst: true}}
`)
	repotest.NoError(t, Run(t.Context(), b.Session))
	if got := len(b.server.Names(mapsPath)); got != 8 || b.server.Count("DELETE /api/v1/namespaces/") != 2 || b.server.Count("POST "+spacePath+"/") != 12 {
		t.Errorf("%d objects, %d deletions, %d creations", got, b.server.Count("DELETE"), b.server.Count("POST "+spacePath+"/"))
	}
}

// TestChurnOfContents deletes what is in namespaces before the namespaces.
func TestChurnOfContents(t *testing.T) {
	b := newBench(t, head(0)+`
- {name: spaces, create: {body: space, count: 4, pace: {burst: true}}}
- {name: a, create: {body: map, count: 8, namespaces: {from: 0, to: 3, prefix: spaces, each: 2}, pace: {burst: true}}}
- churn: {step: a, namespaces: spaces, contents: true, percent: 50, cycles: 1, perObject: true, pace: {burst: true}}
`)
	early, objects := 0, 0
	b.server.Inject(func(r *http.Request) *apitest.Injection {
		switch {
		case r.Method != http.MethodDelete:
		case strings.Contains(r.URL.Path, "/configmaps/"):
			objects++
		case objects < 4:
			early++
		}
		return nil
	})
	repotest.NoError(t, Run(t.Context(), b.Session))
	if got := len(b.server.Names(mapsPath)); got != 8 || objects != 4 || early != 0 || b.server.Count("DELETE /api/v1/namespaces/") != 6 {
		t.Errorf("%d objects; %d were deleted, %d namespaces before them", got, objects, early)
	}
}

// TestSelectsNothing: a step whose labels select nothing, or whose objects are gone, has not
// done what it was asked for, unless that is as good.
func TestSelectsNothing(t *testing.T) {
	b := newBench(t, head(1)+`
- {name: away, requests: {rounds: 1, pace: {burst: true}, mix: [{verb: delete, resource: configmaps, namespace: "*", selector: a=b}]}}
- {name: rest, requests: {rounds: 1, pace: {burst: true}, mix: [{verb: delete, resource: configmaps, namespace: "*", selector: a=b, optional: true}]}}
- {name: made, create: {body: map, count: 3, pace: {burst: true}}}
- {name: some, requests: {count: 3, pace: {burst: true}, mix: [{verb: get, of: made}]}}
- {name: gone, delete: {step: made, pace: {burst: true}}}
- {name: read, requests: {count: 3, pace: {burst: true}, mix: [{verb: get, of: made}, {verb: list, of: made}]}}
- {name: changed, update: {step: made, pace: {burst: true}}}
- {name: churned, churn: {step: made, percent: 50, cycles: 2, pace: {burst: true}}}
- {name: again, delete: {step: made, pace: {burst: true}}}
`)
	got := b.unmetOf(t, Run(t.Context(), b.Session))
	const none = ": none of the objects of step made is there: "
	want := []string{
		"step away " + string(record.NotDone) + ": no configmaps have the labels a=b: its calls of delete were not sent",
		"step read " + string(record.NotDone) + none + "its calls of get were not sent",
		"step changed " + string(record.NotDone) + none + "it changed none",
		"step churned " + string(record.NotDone) + none + "it churned none",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// unmetOf returns what the records of a run say of what did not come about.
func (b *bench) unmetOf(t *testing.T, flown error) (out []string) {
	t.Helper()
	repotest.NoError(t, errors.Join(flown, b.Journal.Records.Close()))
	repotest.Must(record.Read(b.Dir.File(record.StreamFile), func(*record.Stream) record.Visitor {
		return record.Visitor{Event: func(e record.Event) {
			if e.Type == record.EventUnmet {
				out = append(out, fmt.Sprintf("%s %s: %s", e.Name, e.State, e.Text))
			}
		}}
	}))(t)
	return out
}

// TestSomeAreLacking: a step that works on objects of which some could not be made has not
// done all that it was asked for, and says so. Deletions take what there is.
func TestSomeAreLacking(t *testing.T) {
	b := newBench(t, head(1)+`
- {name: made, create: {body: map, count: 4, pace: {closed: 1}}}
- {name: read, requests: {count: 8, pace: {burst: true}, mix: [{verb: get, of: made}, {verb: list, of: made}]}}
- {name: changed, update: {step: made, pace: {burst: true}}}
- {name: churned, churn: {step: made, percent: 1, cycles: 1, pace: {burst: true}}}
- {name: gone, delete: {step: made, pace: {burst: true}}}
`)
	var posts atomic.Int64
	b.server.Inject(func(r *http.Request) *apitest.Injection {
		if r.Method == http.MethodPost && posts.Add(1) == 2 {
			return &apitest.Injection{Code: http.StatusUnprocessableEntity}
		}
		return nil
	})
	got := b.unmetOf(t, Run(t.Context(), b.Session))
	for i, want := range []string{
		"step read " + string(record.NotDone) + `: its calls of get were sent only for those that are there: 1 of 4 objects of step "made" could not be made: `,
		"step changed " + string(record.NotDone) + `: it changed only those that are there: 1 of 4 objects of step "made" could not be made: `,
		"step churned " + string(record.NotDone) + `: it churned only those that are there: 1 of 4 objects of step "made" could not be made: `,
	} {
		if len(got) != 3 || !strings.HasPrefix(got[i], want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestSomeAreGone: a step whose objects were deleted before it, or by its own calls, says which
// of its calls it did not send. What is churned beside it comes back.
func TestSomeAreGone(t *testing.T) {
	const (
		fill = "- {name: made, create: {body: map, count: 4, pace: {closed: 1}}}\n"
		drop = "- {name: drop, requests: {count: 1, pace: {burst: true}, mix: [{verb: delete, of: made}]}}\n"
		gone = `1 of 4 objects of step "made" had been deleted`
	)
	state := " " + string(record.NotDone) + ": "
	for _, tt := range []struct {
		name, steps string
		want        []string
	}{
		{"read", fill + drop + "- {name: x, requests: {count: 8, pace: {burst: true}, mix: [{verb: get, of: made}, {verb: list, of: made}]}}",
			[]string{"step x" + state + "its calls of get were sent only for those that are there: " + gone}},
		{"patched by chance", fill + drop + "- {name: x, requests: {count: 1, pace: {burst: true}, mix: [{verb: patch, of: made, body: patch, with: {e: 1}, pick: random}]}}",
			[]string{"step x" + state + "its calls of patch were sent only for those that are there: " + gone}},
		{"read, as is well", fill + drop + "- {name: x, requests: {count: 8, pace: {burst: true}, mix: [{verb: get, of: made, optional: true}]}}", nil},
		{"updated", fill + drop + "- {name: x, update: {step: made, pace: {burst: true}}}", []string{"step x" + state + "it changed only those that are there: " + gone}},
		{"more than there are", fill + "- {name: x, update: {step: made, first: 5, pace: {burst: true}}}", []string{"step x" + state + `update.first is 5, and step "made" has only 4`}},
		{"as many as there are", fill + "- {name: x, update: {step: made, first: 4, pace: {burst: true}}}", nil},
		{"more than are left", fill + "- {name: away, scale: {step: made, to: 2, pace: {burst: true}}}\n- {name: x, update: {step: made, first: 3, pace: {burst: true}}}",
			[]string{"step x" + state + `update.first is 3, and step "made" has only 2`}},
		{"churned", fill + drop + "- {name: x, churn: {step: made, percent: 25, cycles: 1, pace: {burst: true}}}", []string{"step x" + state + "it churned only those that are there: " + gone}},
		{"deleted", fill + drop + "- {name: x, delete: {step: made, pace: {burst: true}}}", nil},
		{"those that are there", fill + "- {name: away, scale: {step: made, to: 2, pace: {burst: true}}}\n- {name: x, requests: {count: 8, pace: {burst: true}, mix: [{verb: get, of: made}]}}", nil},
		{"made again", fill + drop + "- {name: again, churn: {step: made, percent: 100, cycles: 1, pace: {burst: true}}}\n- {name: x, requests: {count: 8, pace: {burst: true}, mix: [{verb: get, of: made}]}}",
			[]string{"step again" + state + "it churned only those that are there: " + gone}},
		{"deleted by the step itself", fill + "- {name: x, requests: {count: 8, pace: {closed: 1}, mix: [{verb: delete, of: made}]}}",
			[]string{"step x" + state + "4 calls of delete were not sent: their objects of step made had been deleted; if that is as good, set optional"}},
		{"deleted by another entry", fill + "- {name: x, requests: {count: 400, pace: {closed: 1}, mix: [{verb: delete, of: made, optional: true}, {verb: get, of: made, weight: 99}]}}",
			[]string{"calls of get were not sent: their objects of step made had been deleted; if that is as good, set optional"}},
		{"deleted by itself, as is well", fill + "- {name: x, requests: {count: 8, pace: {closed: 1}, mix: [{verb: delete, of: made, optional: true}]}}", nil},
		{"collections with nothing in them", fill + "- {name: x, requests: {count: 2, pace: {burst: true}, mix: [{verb: deletecollection, resource: configmaps, namespace: n-1, selector: none=such}]}}",
			[]string{"step x" + state + "no configmaps with the labels none=such are there: its calls of deletecollection delete none; if that is as good, set optional"}},
		{"collections of another namespace", fill + "- {name: x, requests: {count: 1, pace: {burst: true}, mix: [{verb: deletecollection, resource: configmaps, namespace: n-2}]}}",
			[]string{"step x" + state + "no configmaps are there: its calls of deletecollection delete none; if that is as good, set optional"}},
		{"collections of fields that none has", fill + "- {name: x, requests: {count: 1, pace: {burst: true}, mix: [{verb: deletecollection, resource: configmaps, fieldSelector: metadata.name=none}]}}",
			[]string{"step x" + state + "no configmaps are there: its calls of deletecollection delete none; if that is as good, set optional"}},
		{"collections of objects that are gone", fill + "- {name: away, delete: {step: made, pace: {burst: true}}}\n- {name: x, requests: {count: 1, pace: {burst: true}, mix: [{verb: deletecollection, of: made}]}}",
			[]string{"step x" + state + "none of the objects of step made is there: its calls of deletecollection were not sent"}},
		{"collections with something in them", fill + "- {name: x, requests: {count: 2, pace: {burst: true}, mix: [{verb: deletecollection, resource: configmaps, selector: x=1}]}}", nil},
		{"collections, as is well", fill + "- {name: x, requests: {count: 1, pace: {burst: true}, mix: [{verb: deletecollection, resource: configmaps, selector: none=such, optional: true}]}}", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, head(1)+tt.steps)
			got := b.unmetOf(t, Run(t.Context(), b.Session))
			if len(got) != len(tt.want) || len(got) > 0 && !strings.HasSuffix(got[0], tt.want[0]) {
				t.Errorf("\n got %q\nwant %q", got, tt.want)
			}
		})
	}
}

// TestReadsBesideAChurn: those who read a churn's objects while they are away do not miss
// them, since they come back. What it does not make again is missed.
func TestReadsBesideAChurn(t *testing.T) {
	b := newBench(t, head(1)+"- {name: made, create: {body: map, count: 4, pace: {burst: true}}}\n")
	repotest.NoError(t, Run(t.Context(), b.Session))
	made := b.Created.find("made")
	read := func(step string) {
		t.Helper()
		mix := []scenario.Call{{Verb: "get", Of: "made", Weight: 1}}
		repotest.NoError(t, (Requests{step, &scenario.Requests{Mix: mix, Count: 8, Pace: scenario.Pace{Burst: true}}}).Do(t.Context(), b.Session))
	}
	made.BeginChurn()
	made.Set(1, false)
	read("meanwhile")
	made.EndChurn()
	read("afterwards")
	made.Set(1, true)
	read("again")
	want := []string{"step afterwards " + string(record.NotDone) + `: its calls of get were sent only for those that are there: 1 of 4 objects of step "made" had been deleted`}
	if got := b.unmetOf(t, nil); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestUpdatesOfWhatIsDeletedMeanwhile deletes objects between the plan of a change and its
// calls: those that a churn makes again are not missed.
func TestUpdatesOfWhatIsDeletedMeanwhile(t *testing.T) {
	for name, tt := range map[string]struct {
		meanwhile func(*Objects)
		want      []string
	}{
		"nothing":     {func(*Objects) {}, nil},
		"one of them": {func(o *Objects) { o.Set(1, false) }, []string{"1 object of step made had been deleted before they were to change"}},
		"all of them": {func(o *Objects) {
			for i := range 4 {
				o.Set(i, false)
			}
			o.SetUpTo(0)
		}, []string{"4 objects of step made had been deleted before they were to change"}},
		"churned": {func(o *Objects) { o.BeginChurn(); o.Set(1, false) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, head(1)+"- {name: made, create: {body: map, count: 4, pace: {burst: true}}}\n")
			repotest.NoError(t, Run(t.Context(), b.Session))
			p, err := Update{"x", &scenario.Update{Step: "made", Body: "patch", With: map[string]any{"e": 1}, Pace: scenario.Pace{Burst: true}}}.planCalls(t.Context(), b.Session)
			repotest.NoError(t, err)
			tt.meanwhile(b.Created.find("made"))
			want := tt.want
			if want != nil {
				want = []string{"step x " + string(record.NotDone) + ": " + want[0]}
			}
			if got := b.unmetOf(t, b.sendPlan(t.Context(), p)); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestBeside: watches are held until the steps beside them have ended, and no longer.
func TestBeside(t *testing.T) {
	b := newBench(t, head(1)+`
- name: both
  parallel:
  - name: watched
    sequence:
    - {name: watch, requests: {count: 3, pace: {burst: true}, mix: [{verb: watch, resource: configmaps, namespace: "*", hold: 24h}]}}
    - {name: never, pause: 24h}
    beside: true
  - name: main
    sequence:
    - {name: a, create: {body: map, count: 2, pace: {burst: true}}}
    - {name: after, pause: 200ms}
- {name: b, create: {body: map, count: 1, pace: {burst: true}}}
`)
	repotest.NoError(t, Run(t.Context(), b.Session))
	if got := b.server.Count("POST"); got != 3 {
		t.Errorf("%d objects were made: %v", got, b.server.Names(mapsPath))
	}
	if got := b.server.Count("WATCH /api/v1/configmaps"); got != 3 {
		t.Errorf("%d watches were opened", got)
	}
}

// TestInformersOfAStep: what clients that are informers are sent with, each with its own
// selector, and that they list and watch until their step ends.
func TestInformersOfAStep(t *testing.T) {
	b := newBench(t, head(1)+`
- name: informers
  clients: {count: 3}
  requests:
    count: 3
    pace: {burst: true}
    mix: [{verb: watch, resource: configmaps, informer: list, fieldSelector: "metadata.name=agent-{{.Client}}", hold: 24h}]
`)
	x := b.Workload.Scenario.Steps[0]
	p := repotest.Must(Requests{"informers", x.Requests}.planCalls(t.Context(), b.Session))(t)
	for i := range 3 {
		var req load.Request
		if _, err := p.Build(i, &req); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("/api/v1/namespaces/n-1/configmaps?fieldSelector=metadata.name%%3Dagent-%d", i); req.Path != want || req.Informer != informer.List {
			t.Errorf("request %d is %s, want %s", i, req.Path, want)
		}
		if list, watch := p.Ops[req.ListOp], p.Ops[req.Op]; list.Verb != "list" || watch.Verb != "watch" || list.Scope != "namespace" {
			t.Errorf("operations %+v and %+v", list, watch)
		}
	}
	ctx, end := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- Run(ctx, b.Session) }()
	repotest.Eventually(t, "three informers watch", func() bool { return b.server.Count("WATCH /api/v1/namespaces/n-1/configmaps") == 3 })
	end()
	if err := <-ran; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestChurnOfClients: clients that churn keep their connections from cycle to cycle, and are
// named in the records of deletions and creations.
func TestChurnOfClients(t *testing.T) {
	b := newBench(t, head(1)+`
- {name: a, create: {body: map, count: 4, pace: {burst: true}}}
- {name: x, clients: {name: agents, count: 2, as: {user: "agent-{{.Client}}"}}, churn: {step: a, percent: 100, cycles: 2, pace: {burst: true}}}
`)
	if err := Run(t.Context(), b.Session); err != nil {
		t.Fatal(err)
	}
	if b.server.Count("DELETE") != 8 || b.server.Count("POST") != 12 {
		t.Errorf("%d deletions and %d creations, want 8 and 12", b.server.Count("DELETE"), b.server.Count("POST"))
	}
	if got := b.endOf(t, "x"); got != "" {
		t.Errorf("ended with %q", got)
	}
	stream, err := record.Read(b.Dir.File(record.StreamFile), func(*record.Stream) record.Visitor { return record.Visitor{} })
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range stream.Ops {
		if (op.Clients == "agents") != (op.Step == "x") {
			t.Errorf("operation %+v", op)
		}
	}
}

// TestBesideThatWasToEnd: a step that was to reach something is not done when it is cut short.
func TestBesideThatWasToEnd(t *testing.T) {
	const cut = "the steps beside it have ended before this one was done"
	for step, want := range map[string]string{
		`wait: {objects: configmaps, of: made, condition: 'self.data.a == "never"', within: 5m}`: cut,
		`wait: {objects: configmaps, of: made, condition: has(self.data), within: 5m}`:           "",
		`requests: {for: 1h, pace: {constant: 1}, mix: [{verb: list, resource: configmaps}]}`:    "",
	} {
		b := newBench(t, head(1)+"- {name: made, create: {body: map, count: 1, pace: {burst: true}}}\n- parallel: [{name: x, beside: true, "+step+"}, {name: main, pause: 1s}]")
		if err := Run(t.Context(), b.Session); err != nil {
			t.Error(err)
		}
		if got := b.endOf(t, "x"); got != want {
			t.Errorf("%s: ended with %q, want %q", step, got, want)
		}
	}
	// The main step ends when the one beside it has made its first object.
	b := newBench(t, head(1)+`- parallel: [{name: x, beside: true, create: {body: map, count: 7, pace: {constant: 1e-4}}}, {name: main, wait: {objects: configmaps, condition: "true", count: 1}}]`)
	if err := Run(t.Context(), b.Session); err != nil {
		t.Error(err)
	}
	if got, want := b.endOf(t, "x"), cut+": 1 of 7 calls were sent"; got != want {
		t.Errorf("ended with %q, want %q", got, want)
	}
}

// TestStepsCutShort: which steps are done when the steps beside them have ended.
func TestStepsCutShort(t *testing.T) {
	some := &load.CutShortError{Sent: 1, Asked: 9, Cause: errBeside}
	for _, c := range []struct {
		step scenario.Step
		err  error
		done bool
	}{
		{scenario.Step{Create: &scenario.Create{}}, some, false},
		{scenario.Step{Create: &scenario.Create{}}, errBeside, false}, // not all are answered
		{scenario.Step{Create: &scenario.Create{}}, nil, true},
		{scenario.Step{Scale: &scenario.Scale{}}, some, false},
		{scenario.Step{Update: &scenario.Update{}}, some, false},
		{scenario.Step{Delete: &scenario.Delete{}}, some, false},
		{scenario.Step{Churn: &scenario.Churn{Cycles: 2}}, fmt.Errorf("cycle 2: %w", some), false},
		{scenario.Step{Churn: &scenario.Churn{For: 1}}, some, true},
		{scenario.Step{Requests: &scenario.Requests{Count: 9}}, some, false},
		{scenario.Step{Requests: &scenario.Requests{Count: 9}}, errBeside, true}, // all are sent, and watches are held
		{scenario.Step{Requests: &scenario.Requests{Count: 9, For: 1}}, some, true},
		{scenario.Step{Probe: &scenario.Probe{Count: 9}}, some, true},
		{scenario.Step{Settle: &scenario.Settle{}}, errBeside, false},
		{scenario.Step{Upgrade: &scenario.Upgrade{}}, context.Canceled, false},
		{scenario.Step{Exec: &scenario.Exec{}}, errBeside, true},
		{scenario.Step{Exec: &scenario.Exec{}}, errors.New("exited with code 3"), false},
		{scenario.Step{Pause: 1}, errBeside, true},
	} {
		if got := endBeside(&c.step, c.err); (got == nil) != c.done {
			t.Errorf("%s that ended with %v: %v", c.step.Verb(), c.err, got)
		}
	}
}

// TestChurnPerObject: where a churn counts objects, each body's share is rounded down but
// never none, and deletions and creations are each due one object after another.
func TestChurnPerObject(t *testing.T) {
	b := newBench(t, head(1)+`
- {name: a, create: {count: 4, objects: [{body: map, name: x, replicas: 25}, {body: own, every: 2}], pace: {burst: true}}}
- {name: c, churn: {step: a, percent: 27, perObject: true, cycles: 1, pace: {constant: 5}}}
`)
	steps := b.Workload.Scenario.Steps
	repotest.NoError(t, (Create{"a", steps[0].Create}).Do(t.Context(), b.Session))
	for _, again := range []bool{false, true} {
		p := repotest.Must(b.Session.planChurn(Churn{"c", steps[1].Churn}, Part{Step: "c", Again: again}))(t)
		if p.Count != 28 || p.Pace.Due(27) != 27*200*time.Millisecond { // 27 of 100, and 1 of 2
			t.Errorf("again %v: %d objects, the last one due after %v", again, p.Count, p.Pace.Due(p.Count-1))
		}
	}
}

// TestChurnOfWhatEndsSlowly churns objects that have their names for a while after they
// were deleted, as pods do: they are made again when they are gone.
func TestChurnOfWhatEndsSlowly(t *testing.T) {
	b := newBench(t, head(1)+`
- {name: a, create: {body: map, count: 4, pace: {burst: true}}}
- churn: {step: a, percent: 50, cycles: 1, pace: {burst: true}}
`)
	b.server.Admit(func(_ string, o *apitest.Object) { o.SetFinalizers([]string{"example.org/slow"}) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ending := func() (out []*apitest.Object) {
			for _, o := range b.server.Objects(mapsPath) {
				if o.GetDeletionTimestamp() != nil {
					out = append(out, o)
				}
			}
			return out
		}
		for tries := 0; len(ending()) < 2 && tries < 1000; tries++ {
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(200 * time.Millisecond)
		for _, o := range ending() {
			path := "/api/v1/namespaces/" + o.GetNamespace() + "/configmaps/" + o.GetName()
			apitest.Change(b.server, path, func(o *apitest.Object) { o.SetFinalizers(nil) })
			b.server.Remove(path)
		}
	}()
	err := Run(t.Context(), b.Session)
	<-ended
	if n := b.server.Count("POST"); err != nil || n != 6 || len(b.server.Names(mapsPath)) != 4 {
		t.Errorf("%d creations, and %v are there: %v", n, b.server.Names(mapsPath), err)
	}
	if refused, of, why := b.Session.Created.find("a").Refusals(); refused != 0 {
		t.Errorf("%d of %d were refused: %s", refused, of, why)
	}
}

func TestWaitsForObjects(t *testing.T) {
	fill := "- {name: a, create: {body: map, count: 3, pace: {burst: true}}}\n"
	for _, tt := range []struct{ name, steps, want string }{
		{"of a step, all of them", fill + "- wait: {objects: configmaps, of: a, condition: has(self.data.a), within: 2m}", ""},
		{"in one namespace", fill + "- wait: {objects: configmaps, namespace: n-2, condition: has(self.data.a), count: 1, within: 2m}", ""},
		{"while they change", fill + "- parallel:\n  - wait: {objects: configmaps, of: a, condition: has(self.data.e), within: 2m}\n" +
			"  - sequence: [{pause: 100ms}, {update: {step: a, body: patch, with: {e: 1}, pace: {burst: true}}}]", ""},
		{"until they are gone", fill + "- {delete: {step: a, pace: {burst: true}}}\n- wait: {objects: configmaps, deleted: true, within: 2m}", ""},
		{"until what never was is gone", fill + "- {delete: {step: a, pace: {burst: true}}}\n- wait: {objects: configmaps, selector: none=such, deleted: true, within: 2s}",
			"step failed: wait-3: no configmaps with the labels none=such were seen, before or within 2s: whether they are gone cannot be told; if none is enough, set wait.optional"},
		{"until what never was is gone, as is well", fill + "- wait: {objects: configmaps, selector: none=such, deleted: true, optional: true, within: 2m}", ""},
		{"until others are gone", fill + "- wait: {objects: deployments.apps, deleted: true, within: 2s}",
			"step failed: wait-2: no deployments.apps were seen, before or within 2s: whether they are gone cannot be told; if none is enough, set wait.optional"},
		{"until pods of no group are gone", fill + "- {name: p, create: {body: map, group: p, count: 1, pace: {burst: true}}}\n- wait: {pods: p, are: deleted, within: 2s}",
			`step failed: wait-3: no pods of group "p" were seen, before or within 2s: whether they are gone cannot be told; if none is enough, set wait.optional`},
		{"until no pods are gone", fill + "- {name: p, create: {body: map, group: p, count: 0, pace: {burst: true}}}\n- wait: {pods: p, are: deleted, within: 2m}", ""},
		{"until no objects are gone", "- {name: p, create: {body: map, count: 0, pace: {burst: true}}}\n- wait: {objects: configmaps, selector: x=1, deleted: true, within: 2m}", ""},
		{"until pods of no group are gone, as is well", fill + "- {name: p, create: {body: map, group: p, count: 1, pace: {burst: true}}}\n- wait: {pods: p, are: deleted, optional: true, within: 2m}", ""},
		{"of another kind", fill + "- wait: {objects: deployments.apps, of: a, condition: has(self.data.a), within: 2m}", `step failed: wait-2: step "a" makes no deployments.apps`},
		{"of another kind that is gone", fill + "- wait: {objects: deployments.apps, of: a, deleted: true, within: 2m}", `step failed: wait-2: step "a" makes no deployments.apps`},
		{"too few", fill + "- wait: {objects: configmaps, condition: self.data.d == '1', count: 2, within: 2s}", "step failed: wait-2: of 3 configmaps the condition held for 1 within 2s; 2 were wanted; behind: n-1/a-0; n-1/a-2"},
		{"not gone", fill + "- wait: {objects: configmaps, of: a, deleted: true, count: 1, within: 2s}", "step failed: wait-2: 3 configmaps are still there after 2s, at most 1 may be; behind: n-1/a-0; n-1/a-2; n-2/a-1"},
		{"not within its time", fill + "- wait: {objects: configmaps, of: a, condition: has(self.data.a), within: 1ns}",
			"step failed: wait-2: of 0 configmaps the condition held for 0 within 1ns; 3 were wanted"},
		{"not all", fill + "- wait: {objects: configmaps, condition: self.data.d == '1', all: true, within: 2s}",
			"step failed: wait-2: of 3 configmaps the condition held for 1 within 2s; it was wanted of all, and of 1 at least; behind: n-1/a-0; n-1/a-2"},
		{"all of none", fill + "- wait: {objects: configmaps, selector: none=such, condition: has(self.data.a), all: true, within: 2s}",
			"step failed: wait-2: of 0 configmaps the condition held for 0 within 2s; it was wanted of all, and of 1 at least"},
		{"all of none, as is well", fill + "- wait: {objects: configmaps, selector: none=such, condition: has(self.data.a), all: true, optional: true, within: 2m}", ""},
		{"of no use", fill + "- wait: {objects: configmaps, of: a, condition: self.data.d + 1 == 2, within: 2s}",
			"step failed: wait-2: of 3 configmaps the condition held for 0 within 2s; 3 were wanted (for 3 of them it could not be evaluated: n-1 a-0: condition: no such overload); behind: n-1/a-0; n-1/a-2; n-2/a-1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, head(2)+tt.steps)
			err := Run(t.Context(), b.Session)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestWaitsForWhatFinalizersKeep deletes objects that stay: the wait for their
// end must not take the answer to a deletion for it.
func TestWaitsForWhatFinalizersKeep(t *testing.T) {
	b := newBench(t, head(2)+`
- {name: a, create: {count: 3, objects: [{body: map, name: x}, {body: own}], pace: {burst: true}}}
- {delete: {step: a, pace: {burst: true}}}
- wait: {objects: configmaps, of: a, deleted: true, count: 1, within: 1s}
`)
	b.server.Inject(func(r *http.Request) *apitest.Injection {
		if r.Method == http.MethodDelete {
			return &apitest.Injection{Code: http.StatusOK} // taken, and nothing is done
		}
		return nil
	})
	const want = "step failed: wait-3: 6 configmaps are still there after 1s, at most 1 may be; behind: n-1/own-0-a; n-1/own-2-a; n-1/x-0"
	if err := Run(t.Context(), b.Session); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestObjectsOfOthersAreNotDeleted refuses a create for its rate, and then because
// the name is taken: what is there is another's, and no deletion is for it.
func TestObjectsOfOthersAreNotDeleted(t *testing.T) {
	b := newBench(t, head(1)+"- {name: a, expects: [409], create: {body: map, count: 1, pace: {burst: true}, retry: {times: 1, delay: 1ms}}}\n- {delete: {step: a, pace: {burst: true}}}\n")
	var posts atomic.Int32
	b.server.Inject(func(r *http.Request) *apitest.Injection {
		if r.Method != http.MethodPost {
			return nil
		}
		return &apitest.Injection{Code: []int{http.StatusTooManyRequests, http.StatusConflict}[posts.Add(1)-1]}
	})
	repotest.NoError(t, Run(t.Context(), b.Session))
	if n := b.server.Count("DELETE"); n != 0 || posts.Load() != 2 {
		t.Errorf("%d creations and %d deletions, want 2 and none", posts.Load(), n)
	}
}

func TestFailedCallsAreNotThere(t *testing.T) {
	b := newBench(t, head(1)+"- {name: a, create: {body: map, count: 3, pace: {burst: true}, retry: {times: 1, delay: 1ms}}}\n- {delete: {step: a, pace: {burst: true}}}\n")
	refused := map[string]int{}
	b.server.Inject(func(r *http.Request) *apitest.Injection {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.Method == http.MethodPost && strings.Contains(string(body), `"a-1"`):
			return &apitest.Injection{Code: 403} // for good
		case r.Method == http.MethodPost && strings.Contains(string(body), `"a-2"`) && refused[r.URL.Path] == 0:
			refused[r.URL.Path]++
			return &apitest.Injection{Code: 429} // once
		}
		return nil
	})
	repotest.NoError(t, Run(t.Context(), b.Session))
	if posts, deletes := b.server.Count("POST"), b.server.Count("DELETE"); posts != 4 || deletes != 2 {
		t.Errorf("%d creations and %d deletions, want 4 and 2", posts, deletes)
	}
}

// TestWhatDependsOnRefusedObjectsFails makes three objects of which the server
// refuses all, or one.
func TestWhatDependsOnRefusedObjectsFails(t *testing.T) {
	const all, one = `3 of 3 objects of step "a" could not be made: 403`, `1 of 3 objects of step "a" could not be made: 403`
	fill := "- {name: a, create: {body: map, count: 3, pace: {burst: true}}}\n"
	expected := "- {name: a, expects: [403], create: {body: map, count: 3, pace: {burst: true}}}\n"
	wait := "- {name: b, wait: {objects: configmaps, of: a, condition: has(self.data.a), within: 2m}}\n"
	for _, tt := range []struct{ name, refuse, steps, want string }{
		{"update", "a-", fill + "- {name: b, update: {step: a, body: patch, with: {e: 1}, pace: {burst: true}}}", all},
		{"update of the others", "a-1", fill + "- {name: b, update: {step: a, body: patch, with: {e: 1}, pace: {burst: true}}}", ""},
		{"delete", "a-", fill + "- {name: b, delete: {step: a, pace: {burst: true}}}", ""},
		{"scale", "a-", fill + "- {name: b, scale: {step: a, to: 1, pace: {burst: true}}}", all},
		{"churn", "a-", fill + "- {name: b, churn: {step: a, percent: 50, cycles: 1, pace: {burst: true}}}", all},
		{"requests", "a-", fill + "- {name: b, requests: {mix: [{verb: get, of: a}], count: 3, pace: {burst: true}}}", all},
		{"wait for objects", "a-", fill + wait, all},
		{"wait for objects of which one is missing", "a-1", fill + wait, one},
		{"wait for pods", "a-", fill + "- {name: b, wait: {pods: a, are: running, count: 3, within: 2m}}", all},
		{"wait for pods of which one is missing", "a-1", fill + "- {name: b, wait: {pods: a, are: running, count: 3, within: 10ms}}",
			`0 of 3 pods of group "a" were running within 10ms; ` + one},
		{"wait for what is gone", "a-1", fill + "- {delete: {step: a, pace: {burst: true}}}\n- {name: b, wait: {objects: configmaps, deleted: true, within: 2m}}", ""},
		{"as expected", "a-1", expected + wait, ""},
		{"as expected, none", "a-", expected + "- {name: b, update: {step: a, body: patch, with: {e: 1}, pace: {burst: true}}}", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, head(1)+tt.steps)
			b.server.Inject(func(r *http.Request) *apitest.Injection {
				if body, _ := io.ReadAll(r.Body); r.Method == http.MethodPost && strings.Contains(string(body), tt.refuse) {
					return &apitest.Injection{Code: http.StatusForbidden}
				}
				return nil
			})
			want := tt.want
			if want != "" {
				want = "step failed: b: " + want
			}
			err := Run(t.Context(), b.Session)
			if got := fmt.Sprint(err); !strings.HasPrefix(got, want) || (err == nil) != (want == "") {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
		})
	}
}

func TestAfterAFailureOnlyDeletionsAreRun(t *testing.T) {
	b := newBench(t, head(1)+`
- {name: a, create: {body: map, count: 2, pace: {burst: true}}}
- {name: bad, wait: {pods: a, are: ready, count: 1, within: 50ms}, onFailure: continue}
- {name: worse, wait: {pods: a, are: ready, count: 1, within: 50ms}}
- {name: b, create: {body: map, count: 1, pace: {burst: true}}}
- parallel:
  - {delete: {step: a, pace: {burst: true}}}
  - {name: c, create: {body: map, count: 1, pace: {burst: true}}}
`)
	err := Run(t.Context(), b.Session)
	if want := `step failed: worse: 0 of 1 pods of group "a" were ready within 50ms`; fmt.Sprint(err) != want || !errors.Is(err, ErrStep) {
		t.Errorf("%v, want %s", err, want)
	}
	if got := b.server.Names(mapsPath); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
	if n := b.server.Count("POST"); n != 2 {
		t.Errorf("%d objects were made, want 2", n)
	}
	repotest.NoError(t, b.Journal.Records.Close())
	var ends []string
	_, err = record.Read(b.Dir.File(record.StreamFile), func(*record.Stream) record.Visitor {
		return record.Visitor{Event: func(m record.Event) {
			if m.Type == record.EventStepEnded && m.Text != "" {
				ends = append(ends, m.Name)
			}
		}}
	})
	if got := strings.Join(ends, " "); err != nil || got != "bad worse" {
		t.Errorf("failed steps in the records: %s, %v", got, err)
	}
}

func TestPacesOfObjects(t *testing.T) {
	b := newBench(t, head(1)+"- {name: a, create: {perObject: true, pause: 10s, count: 3, objects: [{body: map, name: x}, {body: own, every: 2}], pace: {constant: 1}}}\n"+
		"- {name: b, create: {count: 3, objects: [{body: map, name: y}, {body: own}], pace: {constant: 1}}}\n"+
		"- {name: c, create: {body: map, perObject: true, pause: 10s, count: 3, namespaces: {from: 0, to: 1, prefix: p, each: 2, pause: 1m}, pace: {constant: 1}}}\n")
	for step, want := range map[string]string{"a": "0s 1s 12s 23s 24s", "b": "0s 0s 1s 1s 2s 2s", "c": "0s 11s 1m22s"} {
		var s *scenario.Step
		for one := range b.Workload.Scenario.AllSteps() {
			if one.Name == step {
				s = one
			}
		}
		o := newObjects(b.Workload, step, s.Create)
		o.SetUpTo(3)
		all, pace := Create{step, s.Create}.pacedBatch(b.Workload, o)
		var got []string
		for i := range all.count {
			got = append(got, pace.Due(i).String())
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: due at %s, want %s", step, text, want)
		}
	}
}
