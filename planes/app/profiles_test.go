package app_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/controller"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
)

// TestProfiles holds what the command makes of each profile: the features of the
// version that it stands for, and beside them the same settings in all.
func TestProfiles(t *testing.T) {
	v175 := controller.Features{DryRun: true, TrackerCompression: api.Zstd, RevisionCompression: api.Zstd, Collections: 2}
	v18 := controller.Features{
		IndexLists: true, DryRun: true, FilterFields: true, ShareDefinitions: true, UncachedConfigMaps: true,
		TrackerCompression: api.Zstd, RevisionCompression: api.Zstd, SkipEmptyPatch: true, SkipEqualStatus: true, SkipEqualRevision: true, SkipDispatched: true, Collections: 1,
	}
	improved := v18
	improved.FoldSecrets, improved.CompressFirst, improved.WatchDrift, improved.AdoptMoved, improved.Jitter = true, true, true, true, 0.1
	improved.SkipOwnStatus, improved.RetryKeep, improved.KeepFailed = true, true, true
	for profile, want := range map[string]controller.Options{
		"v175":     {Features: v175, MaxDispatch: 1},
		"v18":      {Features: v18, MaxDispatch: 10},
		"improved": {Features: improved, MaxDispatch: 10},
	} {
		want.WebhookListen = "127.0.0.1:0"
		want.Workers, want.Resync, want.InformerResync, want.ReadTimeout, want.RevisionLimit, want.Gateway.Connections = 4, 5*time.Minute, 10*time.Hour, 10*time.Second, 2, 1
		want.Limiter, want.LimiterScope, want.Events, want.Install = limiter.Rate{QPS: 400, Burst: 600}, "kind", true, true
		got, _ := profiled(t, profile)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", profile, got, want)
		}
	}
	o, _ := profiled(t, "v175", "--optimize-list-op", "--feature-gates=PreDispatchDryRun=false,GzipResourceTracker=true,ZstdResourceTracker=false")
	if f := o.Features; !f.IndexLists || f.DryRun || f.TrackerCompression != api.Gzip || f.RevisionCompression != api.Zstd || f.SkipEmptyPatch {
		t.Errorf("what is given beside a profile: %+v", f)
	}
}

// TestProfilesInDocs holds that the page has the options of the controller as they are
// declared.
func TestProfilesInDocs(t *testing.T) {
	o := controller.Default()
	repotest.GoldenPart(t, repotest.Path(t, "docs", "how-to", "reproducing-kubevela-assessment.md"), "options of app-controller",
		o.Words().Table(controller.ProfileV18, controller.ProfileV175, controller.ProfileImproved))
}

// profiled returns what the command makes of a profile and arguments, and its flags.
func profiled(t testing.TB, profile string, args ...string) (controller.Options, *pflag.FlagSet) {
	t.Helper()
	o, f := controller.Default(), pflag.NewFlagSet("app-controller", pflag.ContinueOnError)
	set := o.Words()
	set.Reset()
	set.AddFlags(f)
	repotest.NoError(t, f.Parse(args))
	set.Apply(profile)
	repotest.NoError(t, o.Validate())
	return o, f
}
