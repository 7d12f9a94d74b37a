package app_test

import (
	"maps"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/controller"
)

// TestCalls holds the profiles to the requests of the versions that they stand for:
// 44 to publish a light application, and in each pass over a stable one 7 of v1.8.0
// and 12 of v1.7.5, 23 and 33 for a heavy one; and improved to none.
func TestCalls(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.run(func(*controller.Options) {})
	r.create("light", "light")
	r.becomes("light", api.Running)
	published(t, c.sent())
	r.create("heavy", "heavy")
	r.becomes("heavy", api.Running)
	c.sent()
	stable(c, "v1.8.0 light", "light", map[string]int{"GET deployments": 2, "GET secrets": 2, "GET configmaps": 2, "PATCH secrets": 1})
	stable(c, "v1.8.0 heavy", "heavy", map[string]int{"GET deployments": 6, "GET secrets": 6, "GET configmaps": 8, "PATCH secrets": 3})
	c.stop()

	c = r.runAs("v175", func(*controller.Options) {})
	c.passesMore(0, 2) // it finds both
	c.sent()
	each := map[string]int{"PUT applicationrevisions": 1, "PATCH applications/status": 2}
	light := map[string]int{"GET deployments": 2, "GET secrets": 2, "GET configmaps": 2, "PATCH secrets": 1, "PATCH configmaps": 1, "PATCH deployments": 1}
	heavy := map[string]int{"GET deployments": 6, "GET secrets": 6, "GET configmaps": 8, "PATCH secrets": 3, "PATCH configmaps": 4, "PATCH deployments": 3}
	maps.Copy(light, each)
	maps.Copy(heavy, each)
	stable(c, "v1.7.5 light", "light", light)
	stable(c, "v1.7.5 heavy", "heavy", heavy)
	c.stop()

	c = r.runAs("improved", func(*controller.Options) {})
	c.passesMore(0, 2)
	c.rests("light")
	c.rests("heavy")
}

// published checks what publishing a light application took. How many passes find
// its Deployment unseen by the plane's controller is chance: each asks for the
// state and the Deployment, and writes the status.
func published(t *testing.T, got map[string]int) {
	t.Helper()
	want, more := publishing(got)
	counts(t, "publish light", got, want)
	sum := 0
	for _, n := range got {
		sum += n
	}
	if more == 0 && sum != 44 {
		t.Errorf("published in %d requests, want 44", sum)
	}
}

// publishing returns the calls of v1.8.0 with so many passes as there were, and how
// many those are more than three.
func publishing(got map[string]int) (want map[string]int, more int) {
	more = got["PATCH applications/status"] - 3
	want = map[string]int{
		"PUT applications": 1, "POST applicationrevisions": 1, "PUT applicationrevisions": 1, "PUT applicationrevisions/status": 1,
		"PATCH applications/status": 3 + more, "POST configmaps": 2, "PATCH configmaps": 2, "POST resourcetrackers": 1, "PUT resourcetrackers": 2,
		"POST deployments dry": 1, "POST secrets dry": 1, "POST configmaps dry": 1, "POST deployments": 1, "POST secrets": 1, "PATCH secrets": 1,
		"GET deployments": 7 + more, "GET secrets": 6, "GET configmaps": 11 + more,
	}
	if more < 0 { // it was seen at once: there is no later pass that could compare the revision
		delete(want, "PUT applicationrevisions")
	}
	return want, more
}

// stable checks what one pass over a published application takes.
func stable(c *running, what, name string, want map[string]int) {
	c.t.Helper()
	before := c.passes()
	c.touch(name)
	c.passesMore(before, 1)
	counts(c.t, what, c.sent(), want)
}

// rests waits until a pass over an application sends nothing.
func (r *running) rests(name string) {
	r.t.Helper()
	repotest.Eventually(r.t, "a pass over "+name+" sends nothing", func() bool {
		r.sent()
		before := r.passes()
		r.touch(name)
		r.passesMore(before, 1)
		return len(r.sent()) == 0
	})
}
