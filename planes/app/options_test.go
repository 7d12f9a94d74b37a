package app_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/controller"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument/instrumenttest"
)

// TestOptions holds each option to the counter that it is for: optimisations have
// been lost before without anybody noticing.
func TestOptions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, tt := range []struct {
		name   string
		change func(*controller.Features)
		want   map[string]int // of publishing a light application, beside v1.8.0
	}{
		{"no revision", func(f *controller.Features) { f.DisableRevision = true },
			map[string]int{"POST applicationrevisions": -1, "PUT applicationrevisions": -1, "PUT applicationrevisions/status": -1}},
		{"context in memory", func(f *controller.Features) { f.InMemoryContext = true }, map[string]int{"GET configmaps": -4, "POST configmaps": -1, "PATCH configmaps": -2}},
		{"no double check", func(f *controller.Features) { f.DisableDoubleCheck = true }, map[string]int{"GET deployments": -1, "GET secrets": -1, "GET configmaps": -1}},
		{"no dry run", func(f *controller.Features) { f.DryRun = false }, map[string]int{
			"GET deployments": -1, "GET secrets": -1, "GET configmaps": -1, "POST deployments dry": -1, "POST secrets dry": -1, "POST configmaps dry": -1}},
		{"context from the cache", func(f *controller.Features) { f.UncachedConfigMaps = false }, map[string]int{"GET configmaps": -4}},
		{"revision compressed at first", func(f *controller.Features) { f.CompressFirst = true }, map[string]int{"PUT applicationrevisions": -1}},
		{"secrets folded", func(f *controller.Features) { f.FoldSecrets = true }, map[string]int{"PATCH secrets": -2}},
		{"applied once", func(f *controller.Features) { f.ApplyOnce = true },
			map[string]int{"GET deployments": -4, "GET secrets": -4, "GET configmaps": -4, "PATCH secrets": -2}},
	} {
		c := r.run(func(o *controller.Options) { tt.change(&o.Features) })
		name := fmt.Sprintf("p-%d", i)
		r.create(name, "light")
		r.becomes(name, api.Running)
		got := c.sent()
		r.delete(name)
		c.stop()
		want := publishing(t, got)
		for call, n := range tt.want {
			// What a swift publication does not send at all cannot become less.
			if want[call] = max(want[call]+n, 0); want[call] == 0 {
				delete(want, call)
			}
		}
		if strings.HasPrefix(tt.name, "context in memory") || strings.HasPrefix(tt.name, "context from") {
			want["GET configmaps"] -= got["PATCH applications/status"] - 2 // no waiting pass asks for it
		}
		counts(t, tt.name, got, want)
	}
	for _, anew := range []bool{false, true} {
		c := r.run(func(o *controller.Options) { o.Features.ParsePackages = anew })
		name := fmt.Sprintf("packages-%t", anew)
		r.create(name, "light")
		r.becomes(name, api.Running)
		if got := instrumenttest.Measured(t, c.registry, "app_template_packages_parsed_total").Value; (got > 0) != anew {
			t.Errorf("packages parsed anew, %t: %g", anew, got)
		}
		r.delete(name)
		c.stop()
	}
	inStablePass(t, r)
}

// inStablePass holds the options that change a pass over a published application.
func inStablePass(t *testing.T, r *rig) {
	t.Helper()
	c := r.run(func(*controller.Options) {})
	r.create("s", "light")
	r.becomes("s", api.Running)
	c.sent() // its last pass is over
	c.stop()
	base := map[string]int{"GET deployments": 2, "GET secrets": 2, "GET configmaps": 2, "PATCH secrets": 1}
	for _, tt := range []struct {
		name   string
		change func(*controller.Features)
		want   map[string]int
	}{
		{"skip-empty-patch", func(f *controller.Features) { f.SkipEmptyPatch = false }, map[string]int{"PATCH configmaps": 1, "PATCH deployments": 1}},
		{"skip-equal-status", func(f *controller.Features) { f.SkipEqualStatus = false }, map[string]int{"PATCH applications/status": 1}},
		{"skip-equal-revision", func(f *controller.Features) { f.SkipEqualRevision = false }, map[string]int{"PUT applicationrevisions": 1}},
		{"two collections", func(f *controller.Features) { f.Collections, f.SkipEqualStatus = 2, false }, map[string]int{"PATCH applications/status": 2}},
	} {
		c := r.run(func(o *controller.Options) { tt.change(&o.Features) })
		c.passesMore(0, 1) // it finds the application
		c.sent()
		stable(c, tt.name, "s", union(base, tt.want))
		c.stop()
	}

	// Stored in the clear a revision has lost what the server prunes, so that no pass
	// finds it as it should be.
	c = r.run(func(o *controller.Options) { o.Features.RevisionCompression = api.Uncompressed })
	r.create("u", "light")
	r.becomes("u", api.Running)
	c.sent()
	stable(c, "revision in the clear", "u", union(base, map[string]int{"PUT applicationrevisions": 1}))
}

// crowd counts a controller's requests on objects of applications that are under way at
// the same time. It holds them until there are as many as it wants, and a moment longer
// for one more to come.
type crowd struct {
	want int
	open chan struct{}

	mu        sync.Mutex
	now, most int
}

func (c *crowd) send(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	if !strings.Contains(r.URL.Path, "/namespaces/default/") || !slices.Contains([]string{"deployments", "secrets", "configmaps"}, kindOf(r)) {
		return next.RoundTrip(r)
	}
	c.mu.Lock()
	c.now++
	if c.now == c.want && c.most < c.want {
		time.AfterFunc(100*time.Millisecond, func() { close(c.open) })
	}
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.now--
	}()
	select {
	case <-c.open:
	case <-r.Context().Done():
	}
	return next.RoundTrip(r)
}

// TestDispatchedAtOnce holds that max-dispatch-concurrent is how many objects of an
// application are kept at the same time, with the same requests.
func TestDispatchedAtOnce(t *testing.T) {
	t.Parallel()
	r, _ := hollowRig(t)
	c := r.run(func(*controller.Options) {})
	r.create("heavy", "heavy")
	r.becomes("heavy", api.Running)
	// A revision with traits is written once more by the pass that first reads it.
	passes := c.passes()
	c.touch("heavy")
	c.passesMore(passes, 1)
	c.sent()
	c.stop()
	for _, limit := range []int{1, 4, 10} {
		crowd := &crowd{want: limit, open: make(chan struct{})}
		c := r.run(func(o *controller.Options) {
			o.MaxDispatch = limit
			wrapped(crowd.send)(o)
		})
		c.passesMore(0, 1) // it finds the application
		counts(t, fmt.Sprintf("%d at once", limit), c.sent(), map[string]int{"GET deployments": 6, "GET secrets": 6, "GET configmaps": 8, "PATCH secrets": 3})
		c.stop() // nothing of it runs when the count is read
		repotest.Equal(t, crowd.most, limit, "requests at the same time")
	}
}

// TestListedTrackers holds that optimize-list-op is what a pass goes through to find the
// trackers and revisions of its application: its own, or those of all.
func TestListedTrackers(t *testing.T) {
	t.Parallel()
	r, _ := hollowRig(t)
	c := r.run(func(*controller.Options) {})
	const count = 3
	for i := range count {
		r.create(fmt.Sprintf("t-%d", i), "light")
	}
	for i := range count {
		r.becomes(fmt.Sprintf("t-%d", i), api.Running)
	}
	c.sent() // their last passes are over
	c.stop()
	for profile, want := range map[string]float64{"v175": count, "v18": 1} {
		c := r.runAs(profile, func(*controller.Options) {})
		c.passesMore(0, count) // it finds the applications
		c.sent()
		seen := func() float64 {
			trackers := instrumenttest.Measured(t, c.registry, "list_resourcetracker_num").Value
			if revisions := instrumenttest.Measured(t, c.registry, "app_revisions_listed_total").Value; revisions != trackers {
				t.Errorf("%s: passes went through %g revisions and %g trackers of as many", profile, revisions, trackers)
			}
			return trackers
		}
		before, passes := seen(), c.passes()
		c.touch("t-0")
		c.passesMore(passes, 1)
		c.sent()
		if got := (seen() - before) / float64(c.passes()-passes); got != want {
			t.Errorf("%s: a pass goes through %g trackers, want %g", profile, got, want)
		}
		c.stop()
	}
}
