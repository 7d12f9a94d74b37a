package conformance_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
	"github.com/windtunnel/windtunnel/scenario"
)

// definition is of the custom resource of the sequences.
const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.` + group + `"},
"spec":{"group":"` + group + `","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,
"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","required":["color"],"properties":{
"color":{"type":"string","enum":["red","blue"]},"size":{"type":"integer","default":1,"minimum":0,"maximum":10},
"parts":{"type":"array","maxItems":2,"items":{"type":"string"}}}},"status":{"type":"object","properties":{"ready":{"type":"integer"}}}}}}}]}}`

// calls is how many calls a sequence has.
const calls = 80

// TestSequences makes calls by chance, the same ones of a real API server and of a
// hollow cluster, and holds that the answers and the events of watches are the same.
// WINDTUNNEL_SEED is the first sequence, WINDTUNNEL_SEQUENCES how many there are.
func TestSequences(t *testing.T) {
	compareSequences(t, repotest.Times(t, "WINDTUNNEL_SEED", 1), repotest.Times(t, "WINDTUNNEL_SEQUENCES", 10))
}

func compareSequences(t *testing.T, first, n int) {
	p := repotest.Must(plane.Start(t.Context(), scenario.Plane{}, plane.Options{LogDir: t.TempDir(), Executable: repotest.Binary(t)}))(t)
	t.Cleanup(func() { _ = p.Close() })
	// Its controllers would put objects into new namespaces.
	controllers, _ := p.Component("kube-controller-manager")
	repotest.NoError(t, controllers.Kill())
	s := repotest.Must(hollow.New(hollow.Options{}))(t)
	t.Cleanup(func() { _ = s.Close() })
	c := repotest.Must(s.Cluster("one"))(t)
	real, mine := newPlayer(t, p.Endpoint("admin"), true), newPlayer(t, c.Endpoint(), false)
	for _, side := range []*player{real, mine} {
		side.call(t, repotest.Step{Name: "POST", Words: []string{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions"}, Input: definition})
		repotest.Eventually(t, "the custom resource is served", func() bool {
			return strings.HasPrefix(side.call(t, repotest.Step{Name: "GET", Words: []string{"/apis/" + group + "/v1/namespaces/default/widgets"}}), "200")
		})
	}
	for seed := first; seed < first+n; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { playSequence(t, uint64(seed), real.fresh(), mine.fresh()) })
	}
}

func newPlayer(t *testing.T, e endpoint.Endpoint, real bool) *player {
	t.Helper()
	client := repotest.Must(rest.HTTPClientFor(e.Config("conformance")))(t)
	client.Timeout = 0
	return (&player{client: client, server: e.Server(), real: real}).fresh()
}

// fresh returns a player of the same server that knows nothing yet.
func (p *player) fresh() *player {
	return &player{client: p.client, server: p.server, real: p.real, names: map[string]string{}, saved: map[string]string{}, watches: map[string]*watch{}}
}

// playSequence plays the sequence of a seed in a namespace of its own.
func playSequence(t *testing.T, seed uint64, real, mine *player) {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), namespace: fmt.Sprint("sequence-", seed)}
	steps := []repotest.Step{{Name: "POST", Words: []string{"/api/v1/namespaces"}, Input: `{"metadata":{"name":"` + g.namespace + `"}}`, Args: map[string]string{"show": "metadata.name"}}}
	for range calls {
		steps = append(steps, g.next())
	}
	steps = append(steps, g.ends()...)
	for i, step := range steps {
		want, got := real.step(t, step), mine.step(t, step)
		if want == got || declared(want, got) {
			continue
		}
		t.Errorf("call %d: %s %s %v %s\nreal:   %s\nhollow: %s", i, step.Name, strings.Join(step.Words, " "), step.Args, step.Input, want, got)
		if os.Getenv("WINDTUNNEL_ALL") == "" {
			return // what follows is of different states
		}
	}
}

// ends makes an object that every watch sees, and looks at all that they saw.
func (g *generator) ends() (out []repotest.Step) {
	for _, s := range sorts() {
		o := map[string]any{"apiVersion": s.apiVersion, "kind": s.kind, "metadata": map[string]any{"name": "last", "labels": map[string]any{"l": "1"}}}
		if s.custom {
			o["spec"] = map[string]any{"color": "red"}
		}
		raw, err := json.Marshal(o)
		if err != nil {
			panic(err) // it was made here
		}
		out = append(out, repotest.Step{Name: "POST", Words: []string{s.path(g.namespace)}, Input: string(raw), Args: map[string]string{}})
	}
	for _, id := range g.watches {
		out = append(out, repotest.Step{Name: "up-to-last", Words: []string{id}, Args: map[string]string{}})
	}
	return out
}

// declared says whether two answers differ in nothing but what docs/how-to/hollow.md
// declares: what is said of a patch whose outcome is no object.
func declared(real, hollow string) bool {
	const of = `422 {"details":{"causes":[{"field":"patch",`
	return strings.HasPrefix(real, of) && strings.HasPrefix(hollow, of)
}
