package controller

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
)

// Options are what a controller is told.
type Options struct {
	process.Env
	Limiter        limiter.Rate  // of the calls on each kind, or of all; those that write events have as much
	LimiterScope   string        // ScopeKind, ScopeClient
	Workers        int           // concurrent reconciles
	ShardID        string        // handles what is labelled with it; empty: everything
	Resync         time.Duration // between two passes over an application that is as it should be
	InformerResync time.Duration
	ReadTimeout    time.Duration // of one object
	RevisionLimit  int           // kept of an application beside the one in use
	MaxDispatch    int           // objects of an application that are applied or kept at the same time
	Events         bool
	Webhook        bool // applications are reviewed before they are stored
	WebhookListen  string
	Install        bool           // kinds and definitions are brought to the server
	Gateway        cluster.Direct // how members are reached; without a URL by the hub's API server
	Seed           uint64         // of all that is chosen by chance
	Features       Features
	Mapper         meta.RESTMapper // nil: asks the server
}

// Features are what was, or could be, better than it was. The zero value is
// KubeVela v1.7.5 without compression.
type Features struct {
	// KubeVela's own flags and gates.
	IndexLists          bool   // optimize-list-op: an index in place of a scan of all trackers, and of a namespace's revisions
	DisableRevision     bool   // optimize-disable-application-revision
	InMemoryContext     bool   // optimize-enable-in-memory-workflow-context
	DisableDoubleCheck  bool   // optimize-disable-resource-apply-double-check
	DryRun              bool   // PreDispatchDryRun
	FilterFields        bool   // InformerCacheFilterUnnecessaryFields
	ShareDefinitions    bool   // SharedDefinitionStorageForApplicationRevision
	UncachedConfigMaps  bool   // DisableWorkflowContextConfigMapCache
	ApplyOnce           bool   // nothing is kept
	TrackerCompression  string // Zstd-, GzipResourceTracker
	RevisionCompression string // Zstd-, GzipApplicationRevision

	// What v1.8 does without a flag of its own.
	SkipEmptyPatch    bool // a patch that changes nothing is not sent
	SkipEqualStatus   bool // a status that is as it was is not sent
	SkipEqualRevision bool // a revision that is as it was is not sent
	SkipDispatched    bool // a component that waits for its health is not sent again
	Collections       int  // of garbage in a pass, with a status each: 2 is one before and one after objects are kept; 0: 1

	// What v1.6 does not any more.
	ParsePackages bool // each evaluation parses the packages that templates may import

	// What KubeVela has not.
	FoldSecrets   bool    // a Secret's stringData is compared with its data
	CompressFirst bool    // a revision is compressed, and without what the server prunes, when it is created
	WatchDrift    bool    // what the hub's own objects are kept as is read again where a watch of their metadata saw a change
	AdoptMoved    bool    // what another shard made of an application is taken over when somebody moves it here
	Jitter        float64 // share of Resync that is added by chance
	SkipOwnStatus bool    // the controller's own status starts no pass
	RetryKeep     bool    // a pass that could not keep all objects is tried again, with back-off
	KeepFailed    bool    // what a failed or ended workflow has applied is kept, too
}

// The profiles: values of options that differ from version to version, and what is better.
const (
	ProfileV175     = "v175"
	ProfileV18      = "v18" // the defaults
	ProfileImproved = words.ImprovedPreset
)

// What shares the rate limit of requests.
const (
	ScopeKind   = "kind"   // the requests on one kind, typed and untyped ones apart, and again those for members
	ScopeClient = "client" // all requests
)

// Default returns the options of KubeVela v1.8.0 with the settings of its chart.
func Default() Options { return words.DefaultsOf[Options]() }

// Validate joins all that is wrong with what a user may choose.
func (o *Options) Validate() error {
	err := errors.Join(o.Words().Check(), o.Gateway.Validate())
	if o.Webhook && o.ShardID != "" {
		err = errors.Join(err, fmt.Errorf("use-webhook with shard-id %s: want one of them; shards review nothing", o.ShardID))
	}
	return err
}

// restFor returns how long an application at rest is left alone, for a random number from 0 to 1.
func (o *Options) restFor(random float64) time.Duration {
	return o.Resync + time.Duration(random*o.Features.Jitter*float64(o.Resync))
}

// Words declares what a user may choose. The limiter is in no profile: a comparison is one
// of mechanisms, at the same rate.
func (o *Options) Words() words.Set {
	f := &o.Features
	const (
		compressed = "PreDispatchDryRun=true, ZstdResourceTracker=true, ZstdApplicationRevision=true, "
		filtered   = "InformerCacheFilterUnnecessaryFields=true, SharedDefinitionStorageForApplicationRevision=true, DisableWorkflowContextConfigMapCache=true"
		unfiltered = "InformerCacheFilterUnnecessaryFields=false, SharedDefinitionStorageForApplicationRevision=false, DisableWorkflowContextConfigMapCache=false"
	)
	v175, on, off := func(v bool) words.Value[bool] { return words.In(ProfileV175, v, "") }, words.Default(true, ""), words.Default(false, "")
	improved := words.Improved(true, "")
	return words.Set{
		words.Of(&o.Workers, "concurrent-reconciles", "`NUMBER` of applications reconciled in parallel", words.Default(4, "")).AtLeast(1),
		words.Of(&o.Limiter.QPS, "kube-api-qps", "client-side rate limit in requests/s; PUT /limiter changes it at run time", words.Default[float32](400, "")).Above(0),
		words.Of(&o.Limiter.Burst, "kube-api-burst", "`NUMBER` of requests that may exceed the client-side rate limit at once", words.Default(600, "")).AtLeast(1),
		words.Of(&o.LimiterScope, "limiter-scope", "what shares the rate limit of requests",
			words.Default(ScopeKind, "the requests on one kind, untyped ones and those for members apart"), words.Or(ScopeClient, "all requests")),
		words.Of(&o.Resync, "application-re-sync-period", "`DURATION` between two resyncs of an application without drift", words.Default(5*time.Minute, "")).Above(0),
		words.Of(&o.InformerResync, "informer-sync-period", "`DURATION` between two resyncs of the informers", words.Default(10*time.Hour, "")).Above(0),
		words.Of(&o.ReadTimeout, "read-timeout", "`DURATION` after which the read of an object fails, for example in a member that does not answer", words.Default(10*time.Second, "")).Above(0),
		words.Of(&o.RevisionLimit, "application-revision-limit", "`NUMBER` of old revisions to keep", words.Default(2, "")).AtLeast(0),
		words.Of(&o.MaxDispatch, "max-dispatch-concurrent", "`NUMBER` of objects of an application applied in parallel", words.Default(10, ""), words.In(ProfileV175, 1, "")).AtLeast(1),
		words.Of(&o.ShardID, "shard-id", "handle applications labeled with this `SHARD` only; default all"),
		words.Of(&f.IndexLists, "optimize-list-op", "find an application's resource trackers and revisions by an index", on, v175(false)),
		words.Of(&f.DisableRevision, "optimize-disable-application-revision", "create no revisions", off),
		words.Of(&f.InMemoryContext, "optimize-enable-in-memory-workflow-context", "keep the state of workflows in memory", off),
		words.Of(&f.DisableDoubleCheck, "optimize-disable-resource-apply-double-check", "check the health of a component once, not twice", off),
		words.Of(&f.SkipEmptyPatch, "skip-empty-patch", "send no patch that changes nothing", on, v175(false)),
		words.Of(&f.SkipEqualStatus, "skip-equal-status", "send no status that has not changed", on, v175(false)),
		words.Of(&f.SkipEqualRevision, "skip-equal-revision", "send no revision that has not changed", on, v175(false)),
		words.Of(&f.SkipDispatched, "skip-dispatched", "do not apply a component again that waits for its health", on, v175(false)),
		words.Of(&f.Collections, "gc-passes", "`NUMBER` of garbage collections in each pass, 1 or 2, each of which writes a status: 2 is one before and one after objects are kept",
			words.Default(1, ""), words.In(ProfileV175, 2, "")).AtLeast(1).AtMost(2),
		words.Of(&f.ParsePackages, "parse-packages-anew", "parse the packages that templates may import for every evaluation, as before v1.6", off),
		words.Of(&f.FoldSecrets, "fold-secrets", "compare a Secret's stringData with its data", off, improved),
		words.Of(&f.CompressFirst, "compress-first", "create revisions in their final form, so that none is written twice", off, improved),
		words.Of(&f.WatchDrift, "watch-drift", "watch the metadata of the hub's own objects: read no object again that nobody changed, and repair a changed one at once", off, improved),
		words.Of(&f.AdoptMoved, "adopt-moved", "take over revisions and resource trackers of an application that somebody moved to this shard by its label alone", off, improved),
		words.Of(&f.Jitter, "resync-jitter", "random `SHARE` of the resync period to add, 0 to 1", words.Default(0.0, ""), words.Improved(0.1, "")).AtLeast(0).AtMost(1),
		words.Of(&f.SkipOwnStatus, "skip-own-status", "start no pass because the controller itself wrote the application's status", off, improved),
		words.Of(&f.RetryKeep, "retry-keep", "retry a pass that could not keep all objects, with back-off; without, the next one is at the resync, or at once when the message in the status changes", off, improved),
		words.Of(&f.KeepFailed, "keep-failed", "keep what a failed or terminated workflow has applied", off, improved),
		words.Of(&o.Gateway.URL, "cluster-gateway-url", "`URL` of the gateway to connect to directly, or "+cluster.Registered+" for the replicas that have registered; default: by the plane's API server"),
		words.Of(&o.Gateway.CAFile, "cluster-gateway-ca-file", "PEM `FILE` of the authority of the URL's certificate"),
		words.Of(&o.Gateway.Connections, "cluster-gateway-connections", "`NUMBER` of direct connections to the gateway, each to a random replica", words.Default(1, "")).AtLeast(1),
		words.Of(&o.Seed, "seed", "`SEED` of random choices: the jitter of the resync, the replica of a connection", words.Default(uint64(0), "")),
		words.Custom(&gates{set: map[string]bool{}, features: f}, "feature-gates", "KubeVela feature `GATES`, as NAME=BOOL separated by commas: "+gateNames(),
			words.Default(compressed+filtered, ""), words.In(ProfileV175, compressed+unfiltered, "")),
		words.Of(&o.Webhook, "use-webhook", "review applications in this process, as vela-core does: refuse those that cannot be rendered by the definitions in its caches; not with a shard", off),
		words.Of(&o.WebhookListen, "admission-listen", "`HOST:PORT` of the webhook of --use-webhook, TLS", words.Default("127.0.0.1:0", "")),
		words.Of(&o.Events, "events", "write event objects", on),
		words.Of(&o.Install, "install", "install kinds and definitions in the plane", on),
	}
}
