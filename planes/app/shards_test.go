package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/controller"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument/instrumenttest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
)

// The shards of these tests.
const (
	shardA = "shard-0"
	shardB = "shard-1"
)

// shard runs the controller of a shard, which takes over what is moved to it.
func (r *rig) shard(id string, changes ...func(*controller.Options)) *running {
	r.t.Helper()
	return r.run(func(o *controller.Options) {
		o.ShardID, o.Features.AdoptMoved = id, true
		for _, change := range changes {
			change(o)
		}
	})
}

// createIn makes a light application that is a shard's.
func (r *rig) createIn(shard, name string) {
	r.t.Helper()
	o := application(r.t, name, "light", 1)
	o.Labels = map[string]string{api.LabelShard: shard}
	r.make(o)
}

// move gives an application to another shard, as a user does: by its label.
func (r *rig) move(name, shard string) {
	r.t.Helper()
	r.patch(name, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, api.LabelShard, shard))
}

// belongs waits until all trackers and revisions of an application are a shard's.
func (r *rig) belongs(name, shard string) {
	r.t.Helper()
	repotest.Eventually(r.t, "what there is of "+name+" is of "+shard, func() bool {
		mine, others := 0, 0
		count := func(o metav1.Object) {
			if o.GetLabels()[api.LabelShard] == shard {
				mine++
			} else {
				others++
			}
		}
		revisions, trackers := r.kept(name)
		for _, o := range revisions {
			count(o)
		}
		for _, o := range trackers {
			count(o)
		}
		return mine > 0 && others == 0
	})
}

// nothing waits until neither a tracker, a revision nor an object of an application is left.
func (r *rig) nothing(name string) {
	r.t.Helper()
	r.remains(name, left{})
	if got := holds(r.t, r.hub(), "default", name); got != [3]int{} {
		r.t.Errorf("of %s, which is gone, %v are left", name, got)
	}
}

// lists returns how often a controller asked the server for trackers and revisions
// beside its caches.
func (r *running) lists() int {
	r.t.Helper()
	return instrumenttest.Measured(r.t, r.registry, "kubevela_controller_client_request_time_seconds", "verb=List").Observed
}

// TestMovedApplication holds that a shard to which somebody moves an application, by
// its label alone, takes over what there is of it: nothing is made anew, the next
// version is the next revision, the end leaves nothing; and that the shard which
// loses it leaves it alone.
func TestMovedApplication(t *testing.T) {
	t.Parallel()
	r, _ := hollowRig(t)
	a, b := r.shard(shardA), r.shard(shardB)
	r.createIn(shardA, "m")
	r.becomes("m", api.Running)
	r.update("m", "light", 2)
	r.becomes("m", api.Running)
	r.remains("m", left{configMaps: 1, secrets: 1, revisions: 2, trackers: 1})
	a.sent()
	b.sent()

	before := b.passes()
	r.move("m", shardB)
	b.passesMore(before, 1)
	repotest.Eventually(t, "a pass over it keeps its objects", func() bool { return b.calls.Has("GET secrets") })
	counts(t, "the new shard", b.sent(), map[string]int{
		"GET applications": 1, "PATCH resourcetrackers": 1, "PATCH applicationrevisions": 2,
		"GET deployments": 2, "GET secrets": 2, "GET configmaps": 2, "PATCH secrets": 1,
	})
	counts(t, "the shard that lost it", a.sent(), nil)
	r.belongs("m", shardB)
	if got := r.get("m").Status; got.LatestRevision.Name != "m-v2" || got.Phase != api.Running {
		t.Errorf("it is %s, %+v", got.Phase, got.LatestRevision)
	}
	lists := b.lists()
	if lists != 2 || a.lists() != 0 {
		t.Errorf("%d and %d lists, want one of each kind by who takes over", lists, a.lists())
	}
	stable(b, "taken over", "m", map[string]int{"GET deployments": 2, "GET secrets": 2, "GET configmaps": 2, "PATCH secrets": 1})

	r.update("m", "light", 3)
	r.becomes("m", api.Running)
	r.remains("m", left{configMaps: 1, secrets: 1, revisions: 3, trackers: 1})
	r.move("m", shardA) // and back
	repotest.Eventually(t, "it is taken back", func() bool { return a.calls.Has("GET secrets") })
	r.belongs("m", shardA)
	r.remains("m", left{configMaps: 1, secrets: 1, revisions: 3, trackers: 1})
	r.delete("m")
	r.nothing("m")
	if got := b.lists(); got != lists {
		t.Errorf("%d lists in passes over what a shard has, want none", got-lists)
	}
}

// TestMovedAndDeleted holds that an application which is moved and deleted while
// nobody looks leaves nothing, with revisions and without.
func TestMovedAndDeleted(t *testing.T) {
	t.Parallel()
	r, _ := hollowRig(t)
	for _, without := range []bool{false, true} {
		name := fmt.Sprintf("d-%t", without)
		change := func(o *controller.Options) { o.Features.DisableRevision = without }
		a := r.shard(shardA, change)
		r.createIn(shardA, name)
		r.becomes(name, api.Running)
		a.stop()
		r.move(name, shardB)
		repotest.NoError(t, r.client.Applications.Delete(t.Context(), r.get(name)))
		b := r.shard(shardB, change)
		r.nothing(name)
		b.stop()
	}
}

// TestMovedByOthers holds the original's way, without the option: who moves an
// application moves its trackers and revisions too, and the controller asks for none.
func TestMovedByOthers(t *testing.T) {
	t.Parallel()
	r, _ := hollowRig(t)
	alone := func(o *controller.Options) { o.Features.AdoptMoved = false }
	a := r.shard(shardA, alone)
	r.createIn(shardA, "o")
	r.becomes("o", api.Running)
	a.stop()
	r.move("o", shardB)
	b := r.shard(shardB, alone)
	b.passesMore(0, 1)
	for what, labels := range map[string]func() (metav1.Object, error){
		"tracker":  func() (metav1.Object, error) { return r.client.Trackers.Get(t.Context(), "", "o-v1-default") },
		"revision": func() (metav1.Object, error) { return r.client.Revisions.Get(t.Context(), "default", "o-v1") },
	} {
		if o, err := labels(); err != nil || o.GetLabels()[api.LabelShard] != shardA {
			t.Errorf("%v: the %s is taken over by who was not told to", err, what)
		}
	}
	repotest.Equal(t, b.lists(), 0, "lists")
}

// dies breaks off every request of a controller from the one on that comes after the
// answer to a call for the n-th time, N METHOD RESOURCE.
func dies(moment string) (change func(*controller.Options), dead *atomic.Bool) {
	dead = &atomic.Bool{}
	var seen atomic.Int32
	return wrapped(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if dead.Load() {
			return nil, errKilled
		}
		answer, err := next.RoundTrip(r)
		if call := r.Method + " " + kindOf(r); strings.HasSuffix(moment, call) && fmt.Sprintf("%d %s", seen.Add(1), call) == moment {
			dead.Store(true)
		}
		return answer, err
	}), dead
}

// wrapped lets a function send what a controller sends.
func wrapped(send func(http.RoundTripper, *http.Request) (*http.Response, error)) func(*controller.Options) {
	return func(o *controller.Options) {
		o.Config = rest.CopyConfig(o.Config)
		planetest.Intercept(o.Config, send)
	}
}

// kindOf returns the resource of a write, or of a read of one object.
func kindOf(r *http.Request) string {
	for _, kind := range []string{"applicationrevisions", "resourcetrackers", "applications", "deployments", "secrets", "configmaps"} {
		if strings.Contains(r.URL.Path, "/"+kind) {
			return kind
		}
	}
	return ""
}

// TestMovedUnderway holds that what a killed shard left half done of a publication is
// finished by the shard that gets the application, and that one which is killed while
// it takes over leaves the rest to the next.
func TestMovedUnderway(t *testing.T) {
	t.Parallel()
	for _, without := range []bool{false, true} {
		for _, moment := range []string{
			"1 POST applicationrevisions", "1 PATCH applications", "1 POST resourcetrackers", "1 PUT resourcetrackers", "1 POST deployments", "2 PATCH applications",
		} {
			if without && strings.Contains(moment, "revisions") {
				continue
			}
			t.Run(fmt.Sprintf("%s without %t", moment, without), func(t *testing.T) {
				t.Parallel()
				movedUnderway(t, moment, without)
			})
		}
	}
}

func movedUnderway(t *testing.T, moment string, without bool) {
	r, _ := hollowRig(t)
	none := func(o *controller.Options) { o.Features.DisableRevision = without }
	// killed runs the shard that has an application until a moment, and returns when
	// nothing of it runs.
	killed := func(shard, moment string) {
		t.Helper()
		kill, dead := dies(moment)
		c := r.shard(shard, none, kill)
		repotest.Eventually(t, "it dies after "+moment, dead.Load)
		c.stop()
	}
	want := left{configMaps: 1, secrets: 1, revisions: 1, trackers: 1}
	if without {
		want.revisions = 0
	}
	r.createIn(shardA, "u")
	killed(shardA, moment)
	r.move("u", shardB)
	b := r.shard(shardB, none)
	r.becomes("u", api.Running)
	r.belongs("u", shardB)
	r.remains("u", want)
	r.update("u", "light", 2)
	r.becomes("u", api.Running)
	if !without {
		want.revisions++
	}
	r.remains("u", want)
	b.stop()

	r.move("u", shardA)
	if without {
		killed(shardA, "1 PATCH resourcetrackers")
	}
	for range want.revisions { // after each one, the latest too: the trackers must be its by then
		killed(shardA, "1 PATCH applicationrevisions")
	}
	a := r.shard(shardA, none)
	r.belongs("u", shardA)
	r.remains("u", want)
	r.delete("u")
	r.nothing("u")
	a.stop()
}

// TestMovedMeanwhile holds that a shard which loses an application in the middle of a
// pass does not take it back, nor make anything a second time.
func TestMovedMeanwhile(t *testing.T) {
	t.Parallel()
	r, _ := hollowRig(t)
	reached, release := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(reached) })
	a := r.shard(shardA, wrapped(func(next http.RoundTripper, q *http.Request) (*http.Response, error) {
		if q.Method == http.MethodPost && kindOf(q) == "resourcetrackers" {
			once()
			<-release
		}
		return next.RoundTrip(q)
	}))
	free := sync.OnceFunc(func() { close(release) })
	t.Cleanup(free) // before a is stopped
	r.createIn(shardA, "w")
	<-reached
	r.move("w", shardB)
	b := r.shard(shardB)
	r.becomes("w", api.Running)
	b.sent()
	a.calls.Take()
	free()
	a.sent()
	r.belongs("w", shardB)
	r.remains("w", left{configMaps: 1, secrets: 1, revisions: 1, trackers: 1})
	if got := holds(t, r.hub(), "default", "w"); got[0] != 1 {
		t.Errorf("%d Deployments, want 1", got[0])
	}
	r.delete("w")
	r.nothing("w")
}
