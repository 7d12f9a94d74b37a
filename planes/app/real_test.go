package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
	"github.com/windtunnel/windtunnel/planes/app/internal/controller"
	"github.com/windtunnel/windtunnel/planes/app/internal/definitions"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument/instrumenttest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
	"github.com/windtunnel/windtunnel/scenario"
)

// rig is a real plane with the kinds and the definitions of the app plane.
type rig struct {
	t        testing.TB
	endpoint endpoint.Endpoint
	config   *rest.Config
	client   *api.Client

	applications *planetest.Followed[*api.Application]
}

func newRig(t *testing.T) *rig {
	t.Helper()
	p := repotest.Must(plane.Start(t.Context(), scenario.Plane{}, plane.Options{LogDir: t.TempDir(), Executable: repotest.Binary(t)}))(t)
	t.Cleanup(func() { _ = p.Close() })
	return newRigAt(t, p.Endpoint("admin"))
}

// newRigAt brings kinds and definitions to a hub that is there.
func newRigAt(t testing.TB, at endpoint.Endpoint) *rig {
	t.Helper()
	r := &rig{t: t, endpoint: at}
	r.config = r.endpoint.Config("app-test")
	all := repotest.Must(definitions.All())(t)
	repotest.NoError(t, api.Install(t.Context(), r.config, all))
	config := rest.CopyConfig(r.config)
	config.RateLimiter = flowcontrol.NewFakeAlwaysRateLimiter()
	r.client = repotest.Must(api.NewClient(config, api.Scheme()))(t)
	r.applications = planetest.Follow[*api.Application](t, r.client.Applications.Informer("", 0, cache.Indexers{}))
	return r
}

// running is a controller under test, with what it sent.
type running struct {
	*rig
	registry *instrument.Registry
	calls    *planetest.Calls
	stop     func()
}

// run starts a controller of v1.8.0, which ends with the test if nobody stopped it before.
func (r *rig) run(change func(*controller.Options)) *running {
	r.t.Helper()
	return r.runAs("v18", change)
}

// runAs starts a controller with the options of a profile.
func (r *rig) runAs(profile string, change func(*controller.Options)) *running {
	r.t.Helper()
	out := &running{rig: r, registry: instrument.New(""), calls: &planetest.Calls{}}
	config := rest.CopyConfig(r.config)
	out.calls.Count(config, func(q *http.Request) string {
		if q.URL.Host == cluster.Service {
			return " direct"
		}
		return ""
	})
	o, _ := profiled(r.t, profile)
	o.Config, o.Limiter, o.Registry, o.Clock = config, limiter.Rate{QPS: 1000, Burst: 1000}, out.registry, clock.Start()
	o.Resync, o.Events = time.Hour, false
	o.Log = slog.New(slog.NewTextHandler(r.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	change(&o)
	out.stop = planetest.Start(r.t, func(ctx context.Context) error { return controller.Run(ctx, o) })
	return out
}

// passes returns how many passes have ended.
func (r *running) passes() int {
	r.t.Helper()
	return instrumenttest.Measured(r.t, r.registry, "application_reconcile_time_seconds").Observed
}

// passesMore waits until so many passes more than before have ended.
func (r *running) passesMore(before, more int) {
	r.t.Helper()
	repotest.Eventually(r.t, "passes", func() bool { return r.passes() >= before+more })
}

// sent waits until the controller rests, and returns how often it made each call since
// the last time. A pass may have something to send after the status that a test sees.
func (r *running) sent() map[string]int {
	r.t.Helper()
	r.awaitRest()
	return r.calls.Take()
}

// sentInOrder is sent, one call after the other.
func (r *running) sentInOrder() []string {
	r.t.Helper()
	r.awaitRest()
	return r.calls.TakeInOrder()
}

func (r *running) awaitRest() {
	r.t.Helper()
	repotest.Eventually(r.t, "the controller rests", func() bool {
		// In this order: where nothing was added since what was worked on, nothing was
		// written in between, and what its watches have not shown shows.
		worked := instrumenttest.Measured(r.t, r.registry, "workqueue_work_duration_seconds").Observed
		unseen := instrumenttest.Measured(r.t, r.registry, "app_unseen_applications").Value
		return unseen == 0 && worked == int(instrumenttest.Measured(r.t, r.registry, "workqueue_adds_total").Value)
	})
}

// touch makes an annotation of an application change, which brings it into the queue.
func (r *rig) touch(name string) {
	r.t.Helper()
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":"%d"}}}`, time.Now().UnixNano())
	o := &api.Application{}
	o.Namespace, o.Name = "default", name
	repotest.Must(r.client.Applications.Patch(r.t.Context(), o, resource.Patch{Type: types.MergePatchType, Body: body}))(r.t)
}

func (r *rig) create(name, template string) {
	r.t.Helper()
	r.make(application(r.t, name, template, 1))
}

func (r *rig) get(name string) *api.Application {
	return repotest.Must(r.client.Applications.Get(r.t.Context(), "default", name))(r.t)
}

// becomes waits until an application has a phase for its latest specification.
func (r *rig) becomes(name string, phase api.Phase) {
	r.t.Helper()
	defer func() {
		if r.t.Failed() {
			raw, _ := json.Marshal(r.get(name).Status)
			r.t.Logf("%s: %s", name, raw)
		}
	}()
	least := r.get(name).Generation // the watch may be behind
	r.applications.Await(name+" is "+string(phase), func(all []*api.Application) bool {
		return slices.ContainsFunc(all, func(o *api.Application) bool {
			if o.Name != name || o.Generation < least {
				return false
			}
			if w := o.Status.Workflow; w != nil && w.Terminated && phase == api.Running {
				r.t.Fatalf("%s: %s", name, w.Message)
			}
			return o.Status.Phase == phase && o.Status.ObservedGeneration == o.Generation
		})
	})
}

// application returns one of the published load test's, light or heavy.
func application(t testing.TB, name, template string, version int) *api.Application {
	t.Helper()
	raw := func(v any) json.RawMessage {
		return repotest.Must(json.Marshal(v))(t)
	}
	workload := func(kind, suffix string) api.Component {
		return api.Component{
			Name: fmt.Sprintf("%s%s-v%d", name, suffix, version), Type: kind, Properties: raw(map[string]any{"image": "nginx"}),
			Traits: []api.Trait{{Type: "scaler", Properties: raw(map[string]any{"replicas": 0})}},
		}
	}
	object := func(kind, name string) map[string]any {
		data := map[string]any{"id": name, "version": fmt.Sprint(version)}
		o := map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name}, "data": data}
		if kind == "Secret" {
			delete(o, "data")
			o["stringData"] = map[string]any{"id": name}
		}
		return o
	}
	objects := []any{object("Secret", "secret-"+name), object("ConfigMap", "cm-"+name)}
	components := []api.Component{workload("webservice", "")}
	if template == "heavy" {
		components = []api.Component{workload("webservice", "-c1"), workload("webservice", "-c2"), workload("worker", "-c3")}
		objects = nil
		for i := range 3 {
			objects = append(objects, object("Secret", fmt.Sprintf("%s-s%d", name, i+1)))
		}
		for i := range 4 {
			objects = append(objects, object("ConfigMap", fmt.Sprintf("%s-c%d", name, i+1)))
		}
	}
	o := &api.Application{TypeMeta: api.TypeOf(api.KindApplication)}
	o.Namespace, o.Name = "default", name
	o.Spec.Components = append(components, api.Component{Name: "secret-" + name, Type: "k8s-objects", Properties: raw(map[string]any{"objects": objects})})
	return o
}

func counts(t testing.TB, what string, got, want map[string]int) {
	t.Helper()
	if !maps.Equal(got, want) {
		var lines []string
		for _, call := range slices.Sorted(maps.Keys(union(got, want))) {
			if got[call] != want[call] {
				lines = append(lines, fmt.Sprintf("%d %s, want %d", got[call], call, want[call]))
			}
		}
		t.Errorf("%s: %s", what, strings.Join(lines, "; "))
	}
}

func union(a, b map[string]int) map[string]int {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}
