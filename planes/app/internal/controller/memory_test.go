package controller

import (
	"fmt"
	"maps"
	"runtime"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/workflow"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument/instrumenttest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
)

func TestUntilWhole(t *testing.T) {
	repotest.Equal(t, untilWhole(time.Unix(10, 300e6), time.Second), 700*time.Millisecond, "to the next second")
}

// TestSharedDefinitions holds that revisions share what they copy, and that the copy
// goes with the last of them.
func TestSharedDefinitions(t *testing.T) {
	s := newDefinitionStore()
	revision := func(template string) *api.Revision {
		r := &api.Revision{}
		r.Spec.ComponentDefinitions = map[string]*api.Definition{"webservice": {Spec: api.DefinitionSpec{Schematic: &api.Schematic{CUE: &api.CUE{Template: template}}}}}
		repotest.NoError(t, s.shareDefinitions(r))
		return r
	}
	a, b, c := revision("x"), revision("x"), revision("y")
	if a.Spec.ComponentDefinitions["webservice"] != b.Spec.ComponentDefinitions["webservice"] {
		t.Error("two copies of one definition")
	}
	if a.Spec.ComponentDefinitions["webservice"] == c.Spec.ComponentDefinitions["webservice"] {
		t.Error("two definitions are one")
	}
	runtime.KeepAlive(a)
	runtime.KeepAlive(b)
	repotest.Eventually(t, "what nobody holds goes", func() bool {
		runtime.GC()
		for _, p := range s.byHash {
			if d := p.Value(); d != nil && d.Template() == "x" {
				return false
			}
		}
		return true
	})
	runtime.KeepAlive(c)
}

func TestFilter(t *testing.T) {
	o := &api.Application{ObjectMeta: metav1.ObjectMeta{
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}, Annotations: map[string]string{kubectlApplied: "{}", "kept": "yes"},
	}}
	filterFields(o)
	if len(o.ManagedFields) > 0 || !maps.Equal(o.Annotations, map[string]string{"kept": "yes"}) {
		t.Errorf("left: %+v", o.ObjectMeta)
	}
}

// TestIndex holds that an index and a scan find the same trackers, and what each goes
// through for it.
func TestIndex(t *testing.T) {
	for _, indexed := range []bool{false, true} {
		c, app := trackerStore(t, indexed, 100)
		got := c.listTrackers(app)
		if len(got) != 2 || got[0].Spec.ApplicationGeneration != 1 {
			t.Errorf("indexed %v: %d", indexed, len(got))
		}
		want := map[bool]float64{false: 200, true: 2}[indexed]
		if seen := instrumenttest.Measured(t, c.o.Registry, "list_resourcetracker_num").Value; seen != want {
			t.Errorf("indexed %v: went through %g trackers, want %g", indexed, seen, want)
		}
	}
}

// BenchmarkListTrackers is V6: 40 ms and 25 us were published of more than 50,000
// applications.
func BenchmarkListTrackers(b *testing.B) {
	for _, n := range []int{1000, 5000, 20000, 50000} {
		for _, indexed := range []bool{false, true} {
			b.Run(fmt.Sprintf("apps=%d/index=%v", n, indexed), func(b *testing.B) {
				c, app := trackerStore(b, indexed, n)
				for b.Loop() {
					if got := c.listTrackers(app); len(got) != 2 {
						b.Fatal(len(got))
					}
				}
			})
		}
	}
}

// trackerStore returns a controller whose cache holds two trackers of each of n
// applications, and one of those.
func trackerStore(t testing.TB, indexed bool, n int) (*Controller, *api.Application) {
	t.Helper()
	indices := cache.Indexers{}
	if indexed {
		indices[byApplication] = indexLabels
	}
	registry := instrument.New("")
	c := &Controller{
		o:        Options{Env: process.Env{Registry: registry}},
		metrics:  newMetrics(registry, clock.Start(), 1),
		trackers: cache.NewSharedIndexInformer(&cache.ListWatch{}, &api.Tracker{}, time.Hour, indices),
	}
	c.o.Features.IndexLists = indexed
	for i := range n {
		for generation := range 2 {
			name := fmt.Sprintf("app-%d", i)
			tracker := &api.Tracker{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("%s-v%d-n", name, generation+1), Labels: map[string]string{api.LabelName: name, api.LabelNamespace: "n", api.LabelUID: name},
			}, Spec: api.TrackerSpec{ApplicationGeneration: int64(generation + 1), ManagedResources: make([]api.ManagedResource, 3)}}
			repotest.NoError(t, c.trackers.GetStore().Add(tracker))
		}
	}
	return c, &api.Application{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "app-7", UID: "app-7"}}
}

// TestCompact holds that lists of cached objects have no room left at their end, hold
// what they held, and that one which was nil stays so.
func TestCompact(t *testing.T) {
	steps := append(make([]api.StepStatus, 0, 8), api.StepStatus{Name: "s"})
	a := &api.Application{Spec: api.ApplicationSpec{Components: append(make([]api.Component, 0, 4), api.Component{Name: "c", Traits: append(make([]api.Trait, 0, 4), api.Trait{Type: "scaler"})})}}
	a.Status.Workflow = &api.WorkflowStatus{Steps: steps}
	compactLists(a)
	c := a.Spec.Components
	if len(c) != 1 || cap(c) != 1 || cap(c[0].Traits) != 1 || c[0].Traits[0].Type != "scaler" || cap(a.Status.Workflow.Steps) != 1 || a.Status.Services != nil {
		t.Errorf("%d of %d components, %d traits, %d steps: %+v", len(c), cap(c), cap(c[0].Traits), cap(a.Status.Workflow.Steps), a)
	}
}

// TestRestingApplicationsAreForgotten holds that nothing is remembered of an application
// whose workflow has no tries and no outputs.
func TestRestingApplicationsAreForgotten(t *testing.T) {
	m := newMemories()
	m.keepWorkflow("n/a", "a-v1", workflow.Memory{Tries: map[string]int{"step": 1}})
	if got := m.workflowOf("n/a", "a-v1"); got.Tries["step"] != 1 {
		t.Errorf("remembered: %+v", got)
	}
	if got := m.workflowOf("n/a", "a-v2"); len(got.Tries) > 0 {
		t.Errorf("remembered of another revision: %+v", got)
	}
	m.keepWorkflow("n/a", "a-v1", workflow.Memory{})
	repotest.Equal(t, len(m.byKey), 0, "applications are remembered of one that rests")
}
