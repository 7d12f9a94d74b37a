package app_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/subject/kit/instrument/instrumenttest"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/controller"
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
		{"context in memory", func(f *controller.Features) { f.InMemoryContext = true }, map[string]int{"GET configmaps": -5, "POST configmaps": -1, "PATCH configmaps": -2}},
		{"no double check", func(f *controller.Features) { f.DisableDoubleCheck = true }, map[string]int{"GET deployments": -1, "GET secrets": -1, "GET configmaps": -1}},
		{"no dry run", func(f *controller.Features) { f.DryRun = false }, map[string]int{
			"GET deployments": -1, "GET secrets": -1, "GET configmaps": -1, "POST deployments dry": -1, "POST secrets dry": -1, "POST configmaps dry": -1}},
		{"context from the cache", func(f *controller.Features) { f.UncachedConfigMaps = false }, map[string]int{"GET configmaps": -5}},
		{"revision compressed at first", func(f *controller.Features) { f.CompressFirst = true }, map[string]int{"PUT applicationrevisions": -1}},
		{"secrets folded", func(f *controller.Features) { f.FoldSecrets = true }, map[string]int{"PATCH secrets": -1}},
		{"applied once", func(f *controller.Features) { f.ApplyOnce = true },
			map[string]int{"GET deployments": -2, "GET secrets": -2, "GET configmaps": -2, "PATCH secrets": -1}},
	} {
		c := r.run(func(o *controller.Options) { tt.change(&o.Features) })
		name := fmt.Sprintf("p-%d", i)
		r.create(name, "light")
		r.becomes(name, api.Running)
		got := c.sent()
		r.delete(name)
		c.stop()
		want, _ := publishing(got)
		for call, n := range tt.want {
			// What a swift publication does not send at all cannot become less.
			if want[call] = max(want[call]+n, 0); want[call] == 0 {
				delete(want, call)
			}
		}
		if strings.HasPrefix(tt.name, "context in memory") || strings.HasPrefix(tt.name, "context from") {
			want["GET configmaps"] -= got["PATCH applications/status"] - 3 // no pass asks for it
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
		{"two collections", func(f *controller.Features) { f.TwoCollections, f.SkipEqualStatus = true, false }, map[string]int{"PATCH applications/status": 2}},
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
