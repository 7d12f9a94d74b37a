// Package app is the app plane, a reference plane under test: KubeVela's delivery
// of applications as far as its published scalability assessment turns on it, with
// a real controller on a real API server. What is modelled and what is real,
// docs/how-to/reproducing-kubevela-assessment.md says.
//
// Its processes are hidden verbs of windtunnel, started by a scenario's subjects
// (examples/app) and by people who want to look closer.
package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
	"github.com/windtunnel/windtunnel/planes/app/internal/controller"
	"github.com/windtunnel/windtunnel/planes/app/internal/definitions"
	"github.com/windtunnel/windtunnel/planes/app/internal/webhook"
	"github.com/windtunnel/windtunnel/planes/internal/kit/cli"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
)

// Verbs returns the processes of the plane. The defaults of their flags are those
// of KubeVela v1.8.0 with the settings of its chart.
func Verbs(host cli.Host) []*cobra.Command {
	return []*cobra.Command{controllerVerb(host), webhookVerb(host), gatewayVerb(host), memberVerb(host)}
}

func controllerVerb(host cli.Host) *cobra.Command {
	p, s := cli.New(host), newSettings()
	var verb *cobra.Command
	verb = p.Verb("app-controller", "Run the controller of the app plane", "", func(ctx context.Context) error {
		if err := s.resolveProfile(verb.Flags()); err != nil {
			return err
		}
		o := s.options
		o.Config, o.Registry, o.Clock, o.Log = p.NewConfig("windtunnel-app-controller"), p.Registry, p.Clock, p.Log
		p.Registry.Times()
		return p.Serve(ctx, func() error {
			if s.install {
				all, err := definitions.All()
				if err != nil {
					return err
				}
				if err := api.Install(ctx, o.Config, all); err != nil {
					return err
				}
			}
			return controller.Run(ctx, o)
		}, instrument.Route{Path: "/limiter", Handler: o.Limiter})
	})
	s.addFlags(verb.Flags())
	return verb
}

// settings are what the flags of a controller say.
type settings struct {
	options controller.Options
	rate    limiter.Rate
	gates   gates
	profile string
	events  bool
	install bool
}

// newSettings returns the defaults.
func newSettings() *settings {
	return &settings{
		options: controller.Options{Workers: 4, Resync: 5 * time.Minute, InformerResync: 10 * time.Hour, RevisionLimit: 2, MaxDispatch: 10, Gateway: cluster.Direct{Connections: 1}},
		rate:    limiter.Rate{QPS: 400, Burst: 600}, gates: gates{}, profile: profileV18, events: true, install: true,
	}
}

// addFlags names the flags.
func (s *settings) addFlags(f *pflag.FlagSet) {
	o := &s.options
	f.StringVar(&s.profile, "profile", s.profile, "what flags and gates that are not given are: "+strings.Join(slices.Sorted(maps.Keys(flagProfiles())), ", "))
	f.IntVar(&o.Workers, "concurrent-reconciles", o.Workers, "`NUMBER` of applications reconciled in parallel")
	f.Float32Var(&s.rate.QPS, "kube-api-qps", s.rate.QPS, "client-side rate limit, requests/s; PUT /limiter changes it at run time")
	f.IntVar(&s.rate.Burst, "kube-api-burst", s.rate.Burst, "client-side burst")
	f.DurationVar(&o.Resync, "application-re-sync-period", o.Resync, "`DURATION` between two resyncs of an application without drift")
	f.DurationVar(&o.InformerResync, "informer-sync-period", o.InformerResync, "`DURATION` between two resyncs of the informers")
	f.IntVar(&o.RevisionLimit, "application-revision-limit", o.RevisionLimit, "`NUMBER` of old revisions to keep")
	f.IntVar(&o.MaxDispatch, "max-dispatch-concurrent", o.MaxDispatch, "`NUMBER` of objects of an application applied in parallel")
	f.StringVar(&o.Shard, "shard-id", "", "handle what is labelled with this shard alone; default everything")
	f.BoolVar(&o.Features.IndexTrackers, "optimize-list-op", true, "find an application's resource trackers by an index")
	f.BoolVar(&o.Features.DisableRevision, "optimize-disable-application-revision", false, "make no revisions")
	f.BoolVar(&o.Features.InMemoryContext, "optimize-enable-in-memory-workflow-context", false, "keep the state of workflows in memory")
	f.BoolVar(&o.Features.DisableDoubleCheck, "optimize-disable-resource-apply-double-check", false, "believe the first look at the health of a component")
	f.BoolVar(&o.Features.SkipEmptyPatch, "skip-empty-patch", true, "send no patch of an object that changes nothing")
	f.BoolVar(&o.Features.SkipEqualStatus, "skip-equal-status", true, "send no status that is as it was")
	f.BoolVar(&o.Features.SkipEqualRevision, "skip-equal-revision", true, "send no revision that is as it was")
	f.Var(&passes{&o.Features.TwoCollections}, "gc-passes", "`NUMBER` of garbage collections in each pass, 1 or 2, with a status each")
	f.BoolVar(&o.Features.ParsePackages, "parse-packages-anew", false, "parse the packages that templates may import for every evaluation, as before v1.6")
	f.BoolVar(&o.Features.FoldSecrets, "fold-secrets", false, "compare a Secret's stringData with its data")
	f.BoolVar(&o.Features.CompressFirst, "compress-first", false, "create revisions as they will be kept, so that none is written twice")
	f.BoolVar(&o.Features.WatchDrift, "watch-drift", false, "watch the metadata of the hub's own objects: what nobody has changed is not read again, what somebody has is put right at once")
	f.BoolVar(&o.Features.AdoptMoved, "adopt-moved", false, "take over revisions and resource trackers of an application that somebody moved to this shard by its label alone")
	f.Float64Var(&o.Features.Jitter, "resync-jitter", 0, "random `SHARE` of the resync period to add")
	f.StringVar(&o.Gateway.URL, "cluster-gateway-url", "", "connect to the gateway directly: `URL`, or "+cluster.Registered+" for the replicas that have registered; default: by the plane's API server")
	f.StringVar(&o.Gateway.CAFile, "cluster-gateway-ca-file", "", "`file` with the authority of the URL's certificate, PEM")
	f.IntVar(&o.Gateway.Connections, "cluster-gateway-connections", 1, "`NUMBER` of direct connections to the gateway, each to a random replica")
	f.Uint64Var(&o.Seed, "seed", 0, "`SEED` of random choices: the jitter of the resync, the replica of a connection")
	f.Var(s.gates, "feature-gates", "KubeVela feature `GATES`, as NAME=BOOL separated by commas: "+strings.Join(slices.Sorted(maps.Keys(gateSetters())), ", "))
	f.BoolVar(&s.events, "events", s.events, "write event objects")
	f.BoolVar(&s.install, "install", s.install, "bring kinds and definitions to the plane")
}

// resolveProfile fills in the profile once the flags are read, and says what is wrong with
// them.
func (s *settings) resolveProfile(f *pflag.FlagSet) error {
	if err := fillFromProfile(f, s.gates, s.profile); err != nil {
		return err
	}
	o := &s.options
	o.NoEvents, o.Gateway.Seed, o.Gateway.Client = !s.events, o.Seed, o.Shard
	s.gates.applyGates(&o.Features)
	if err := s.rate.Validate(); err != nil {
		return err
	}
	o.Limiter = limiter.New(s.rate)
	return o.Validate()
}

func webhookVerb(host cli.Host) *cobra.Command {
	p, o := cli.New(host), webhook.Options{}
	verb := p.Verb("app-webhook", "Run the admission webhook of the app plane", "", func(ctx context.Context) error {
		o.Config, o.Registry, o.Clock, o.Log = p.NewConfig("windtunnel-app-webhook"), p.Registry, p.Clock, p.Log
		return p.Serve(ctx, func() error {
			if err := api.Install(ctx, o.Config, nil); err != nil { // a rule for what is not served is none
				return err
			}
			return webhook.Run(ctx, o)
		})
	})
	f := verb.Flags()
	f.StringVar(&o.Listen, "admission-listen", "127.0.0.1:0", "`HOST:PORT` of the admission webhook, TLS")
	f.StringSliceVar(&o.Shards, "schedulable-shards", nil, "applications without a shard get one of these by chance; default none")
	f.Uint64Var(&o.Seed, "seed", 0, "`SEED` of the choice of shards")
	f.BoolVar(&o.Validate, "validate", true, "refuse applications that name types which nobody has defined")
	f.DurationVar(&o.Delay, "delay", 0, "added `DURATION` of each validation, as if it called another service")
	return verb
}

// passes is how often garbage is collected, as a flag.
type passes struct{ two *bool }

// String returns 1 or 2.
func (p *passes) String() string {
	if p.two != nil && *p.two {
		return "2"
	}
	return "1"
}

// Set reads 1 or 2.
func (p *passes) Set(text string) error {
	if text != "1" && text != "2" {
		return fmt.Errorf("%q: want 1 or 2", text)
	}
	*p.two = text == "2"
	return nil
}

// Type says what the flag takes.
func (p *passes) Type() string { return "int" }

// gates are KubeVela's feature gates that were set.
type gates map[string]bool

// String returns NAME=BOOL,...
func (g gates) String() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(g)) {
		out = append(out, name+"="+strconv.FormatBool(g[name]))
	}
	return strings.Join(out, ",")
}

// Set reads NAME=BOOL,...
func (g gates) Set(text string) error {
	for _, one := range strings.Split(text, ",") {
		name, value, ok := strings.Cut(one, "=")
		on, err := strconv.ParseBool(value)
		if !ok || err != nil {
			return fmt.Errorf("%q: want NAME=true or NAME=false", one)
		}
		if gateSetters()[name] == nil {
			return fmt.Errorf("gate %q: want one of %s", name, strings.Join(slices.Sorted(maps.Keys(gateSetters())), ", "))
		}
		g[name] = on
	}
	return nil
}

// Type says what the flag takes.
func (g gates) Type() string { return "GATES" }

// applyGates sets what the gates stand for, by name: where both compressions are on, it is Zstd.
func (g gates) applyGates(f *controller.Features) {
	for _, name := range slices.Sorted(maps.Keys(g)) {
		gateSetters()[name](f, g[name])
	}
}

// gateSetters are the gates that the plane has, by KubeVela's names.
func gateSetters() map[string]func(*controller.Features, bool) {
	pack := func(into *string, kind string, on bool) {
		if on {
			*into = kind
		} else if *into == kind {
			*into = api.Uncompressed
		}
	}
	return map[string]func(*controller.Features, bool){
		"PreDispatchDryRun":                             func(f *controller.Features, on bool) { f.DryRun = on },
		"InformerCacheFilterUnnecessaryFields":          func(f *controller.Features, on bool) { f.FilterFields = on },
		"SharedDefinitionStorageForApplicationRevision": func(f *controller.Features, on bool) { f.ShareDefinitions = on },
		"DisableWorkflowContextConfigMapCache":          func(f *controller.Features, on bool) { f.UncachedConfigMaps = on },
		"ApplyOnce":                                     func(f *controller.Features, on bool) { f.ApplyOnce = on },
		"ZstdResourceTracker":                           func(f *controller.Features, on bool) { pack(&f.TrackerCompression, api.Zstd, on) },
		"GzipResourceTracker":                           func(f *controller.Features, on bool) { pack(&f.TrackerCompression, api.Gzip, on) },
		"ZstdApplicationRevision":                       func(f *controller.Features, on bool) { pack(&f.RevisionCompression, api.Zstd, on) },
		"GzipApplicationRevision":                       func(f *controller.Features, on bool) { pack(&f.RevisionCompression, api.Gzip, on) },
	}
}

// The profiles.
const (
	profileV175     = "v175"
	profileV18      = "v18"
	profileImproved = "improved"
)

// flagProfiles are values of flags. The limiter is in none: a comparison is one of
// mechanisms, at the same rate.
func flagProfiles() map[string]map[string]string {
	const compressed = "PreDispatchDryRun=true,ZstdResourceTracker=true,ZstdApplicationRevision=true"
	const inMemory = ",InformerCacheFilterUnnecessaryFields=true,SharedDefinitionStorageForApplicationRevision=true,DisableWorkflowContextConfigMapCache=true"
	return map[string]map[string]string{
		profileV175: {
			"max-dispatch-concurrent": "1", "optimize-list-op": "false", "skip-empty-patch": "false", "skip-equal-status": "false",
			"skip-equal-revision": "false", "gc-passes": "2", "feature-gates": compressed,
		},
		profileV18: {"feature-gates": compressed + inMemory},
		profileImproved: {
			"feature-gates": compressed + inMemory, "fold-secrets": "true", "compress-first": "true", "resync-jitter": "0.1", "watch-drift": "true", "adopt-moved": "true",
		},
	}
}

// fillFromProfile gives the flags that nobody gave the values of a profile.
func fillFromProfile(f *pflag.FlagSet, given gates, profile string) error {
	values, ok := flagProfiles()[profile]
	if !ok {
		return fmt.Errorf("--profile %q: want one of %s", profile, strings.Join(slices.Sorted(maps.Keys(flagProfiles())), ", "))
	}
	for name, value := range values {
		if name == "feature-gates" {
			mine := gates{}
			if err := mine.Set(value); err != nil {
				return err
			}
			maps.Copy(mine, given)
			maps.Copy(given, mine)
			continue
		}
		if !f.Changed(name) {
			if err := f.Set(name, value); err != nil {
				return fmt.Errorf("profile %s: --%s: %w", profile, name, err)
			}
		}
	}
	return nil
}
