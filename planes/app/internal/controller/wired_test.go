package controller

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
	"github.com/windtunnel/windtunnel/planes/app/internal/definitions"
	"github.com/windtunnel/windtunnel/planes/internal/kit/install"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
)

// hub is a hollow one with the kinds and definitions of the plane.
type hub struct {
	options      Options
	applications dynamic.ResourceInterface
}

func newHub(t *testing.T) *hub {
	t.Helper()
	config := planetest.Cluster(t, "hub", hollow.Models{}).Endpoint().Config("app-test")
	all := repotest.Must(definitions.All())(t)
	repotest.NoError(t, api.Install(t.Context(), config, all))
	config.QPS = -1
	client := repotest.Must(dynamic.NewForConfig(config))(t)
	return &hub{Options{
		Env:     process.Env{Config: config, Clock: clock.Start(), Log: planetest.Log(t)},
		Limiter: limiter.Rate{QPS: 1000, Burst: 1000}, Workers: 1, Resync: time.Hour, InformerResync: 10 * time.Hour, ReadTimeout: time.Minute, MaxDispatch: 1,
		Gateway:  cluster.Direct{Connections: 1},
		Features: Features{TrackerCompression: api.Zstd, RevisionCompression: api.Zstd, SkipEqualStatus: true, SkipEqualRevision: true, IndexLists: true, UncachedConfigMaps: true},
	}, client.Resource(api.GroupVersion().WithResource(api.Resource(api.KindApplication))).Namespace("default")}
}

// prepare makes a controller of the hub that does not run yet.
func (h *hub) prepare(t *testing.T, change func(*Options)) *Controller {
	t.Helper()
	o := h.options
	o.Registry = instrument.New("")
	change(&o)
	return repotest.Must(newController(o))(t)
}

// create applies an application of one ConfigMap: what is applied has managed fields.
func (h *hub) create(t *testing.T, name string, annotations map[string]string) {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"components": []any{map[string]any{
		"name": name, "type": "k8s-objects", "properties": map[string]any{"objects": []any{map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "of-" + name}, "data": map[string]any{"a": "b"},
		}}},
	}}}}}
	o.SetGroupVersionKind(api.GroupVersion().WithKind(api.KindApplication))
	o.SetNamespace("default")
	o.SetName(name)
	o.SetAnnotations(annotations)
	repotest.NoError(t, install.Apply(t.Context(), h.applications, o, "somebody"))
}

// cached waits until a cache shows an object.
func cached[T any](t *testing.T, i cache.SharedIndexInformer, key string, ok func(T) bool) (out T) {
	t.Helper()
	repotest.Eventually(t, key+" is in the cache", func() bool {
		o, exists, err := i.GetStore().GetByKey(key)
		if err != nil || !exists {
			return false
		}
		out = o.(T)
		return ok(out)
	})
	return out
}

func running(a *api.Application) bool { return a.Status.Phase == api.Running }

func whatever(*api.Revision) bool { return true }

// TestCachesAreTransformed holds that the gates InformerCacheFilterUnnecessaryFields and
// SharedDefinitionStorageForApplicationRevision change what the caches of a running
// controller hold, each what it is for and nothing else.
func TestCachesAreTransformed(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	for _, filter := range []bool{false, true} {
		for _, share := range []bool{false, true} {
			name := fmt.Sprintf("f-%t-%t", filter, share)
			c := h.prepare(t, func(o *Options) { o.Features.FilterFields, o.Features.ShareDefinitions = filter, share })
			stop := planetest.Start(t, c.runPrepared)
			h.create(t, name+"-1", map[string]string{kubectlApplied: "{}", "kept": "yes"})
			h.create(t, name+"-2", nil)
			a := cached(t, c.applications, "default/"+name+"-1", running)
			cached(t, c.applications, "default/"+name+"-2", running)
			if got := len(a.ManagedFields) == 0; got != filter {
				t.Errorf("%s: managed fields %v", name, a.ManagedFields)
			}
			if got := a.Annotations[kubectlApplied] == ""; got != filter || a.Annotations["kept"] != "yes" {
				t.Errorf("%s: annotations %v", name, a.Annotations)
			}
			one := cached(t, c.revisions, "default/"+name+"-1-v1", whatever).Spec.ComponentDefinitions["k8s-objects"]
			two := cached(t, c.revisions, "default/"+name+"-2-v1", whatever).Spec.ComponentDefinitions["k8s-objects"]
			if one == nil || two == nil || (one == two) != share || one.Template() != two.Template() {
				t.Errorf("%s: two revisions hold the definitions %p and %p", name, one, two)
			}
			stop()
		}
	}
}

// timetable notes when a controller's queue is to give keys again.
type timetable struct {
	workqueue.TypedRateLimitingInterface[string]
	mu      sync.Mutex
	after   map[string]time.Duration // the longest, by key
	retries int                      // with back-off
}

// AddRateLimited counts a retry and adds the key.
func (q *timetable) AddRateLimited(key string) {
	q.mu.Lock()
	q.retries++
	q.mu.Unlock()
	q.TypedRateLimitingInterface.AddRateLimited(key)
}

// AddAfter notes a key and adds it.
func (q *timetable) AddAfter(key string, d time.Duration) {
	q.mu.Lock()
	q.after[key] = max(q.after[key], d)
	q.mu.Unlock()
	q.TypedRateLimitingInterface.AddAfter(key, d)
}

// TestFailedKeep holds that a pass that could not keep an object says so in the status, that the
// next one is at the resync, and with retry-keep at once, with back-off.
func TestFailedKeep(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	for _, retry := range []bool{false, true} {
		name := fmt.Sprintf("k-%t", retry)
		var fails atomic.Bool
		c := h.prepare(t, func(o *Options) {
			o.Features.RetryKeep = retry
			o.Config = rest.CopyConfig(o.Config)
			planetest.Intercept(o.Config, func(next http.RoundTripper, q *http.Request) (*http.Response, error) {
				if fails.Load() && strings.HasSuffix(q.URL.Path, "/configmaps/of-"+name) {
					return nil, errors.New("out of reach")
				}
				return next.RoundTrip(q)
			})
		})
		q := &timetable{TypedRateLimitingInterface: c.loop.Queue, after: map[string]time.Duration{}}
		c.loop.Queue = q
		stop := planetest.Start(t, c.runPrepared)
		h.create(t, name, nil)
		key := "default/" + name
		seen := func(what string, ok func() bool) {
			t.Helper()
			repotest.Eventually(t, what, func() bool {
				q.mu.Lock()
				defer q.mu.Unlock()
				return ok()
			})
		}
		seen("it rests", func() bool { return q.after[key] == c.o.Resync })
		q.mu.Lock()
		q.after, q.retries = map[string]time.Duration{}, 0
		q.mu.Unlock()
		fails.Store(true)
		q.Add(key)
		cached(t, c.applications, key, func(a *api.Application) bool {
			return slices.ContainsFunc(a.Status.Conditions, func(c api.Condition) bool {
				return c.Type == "StateKeep" && strings.Contains(c.Message, "out of reach")
			})
		})
		if retry {
			seen("it is retried", func() bool { return q.retries > 1 })
		} else {
			seen("its next pass is at the resync", func() bool { return q.after[key] == c.o.Resync && q.retries == 0 })
		}
		stop()
	}
}

// TestJitter holds that the next pass over an application at rest comes after the resync period,
// and with resync-jitter after up to that share of it more.
func TestJitter(t *testing.T) {
	for _, c := range []struct {
		jitter, random float64
		want           time.Duration
	}{{0, 0.5, time.Hour}, {0.1, 0, time.Hour}, {0.1, 0.5, 63 * time.Minute}, {1, 0.25, 75 * time.Minute}} {
		o := Options{Resync: time.Hour, Features: Features{Jitter: c.jitter}}
		repotest.Equal(t, o.restFor(c.random), c.want, "jitter %g, random number %g: the next pass is after", c.jitter, c.random)
	}
}
