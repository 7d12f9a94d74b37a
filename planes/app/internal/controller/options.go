package controller

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/limiter"
)

// Options are what a controller is told.
type Options struct {
	Config         *rest.Config        // of its client; its rate limiter is replaced
	Limiter        *limiter.Reloadable // of all its calls but those that write events
	Workers        int                 // concurrent reconciles
	Shard          string              // handles what is labelled with it; empty: everything
	Resync         time.Duration       // between two passes over an application that is as it should be
	InformerResync time.Duration
	RevisionLimit  int // kept of an application beside the one in use
	MaxDispatch    int // objects of an application that are applied or kept at the same time
	NoEvents       bool
	Gateway        cluster.Direct // how members are reached; without a URL by the hub's API server
	Seed           uint64         // of all that is chosen by chance
	Features       Features
	Mapper         meta.RESTMapper // nil: asks the server
	Registry       *instrument.Registry
	Clock          clock.Clock
	Log            *slog.Logger
}

// Features are what was, or could be, better than it was. The zero value is
// KubeVela v1.7.5 without compression.
type Features struct {
	// KubeVela's own flags and gates.
	IndexTrackers       bool   // optimize-list-op: an index in place of a scan of all trackers
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
	TwoCollections    bool // garbage is collected twice in a pass, with a status each

	// What v1.6 does not any more.
	ParsePackages bool // each evaluation parses the packages that templates may import

	// What KubeVela has not.
	FoldSecrets   bool    // a Secret's stringData is compared with its data
	CompressFirst bool    // a revision is compressed, and without what the server prunes, when it is created
	WatchDrift    bool    // what the hub's own objects are kept as is read again where a watch of their metadata saw a change
	AdoptMoved    bool    // what another shard made of an application is taken over when somebody moves it here
	Jitter        float64 // share of Resync that is added by chance
}

// Validate joins all that is wrong with what a user may choose.
func (o *Options) Validate() error {
	var errs []error
	if o.Workers < 1 || o.MaxDispatch < 1 {
		errs = append(errs, fmt.Errorf("concurrent-reconciles %d, max-dispatch-concurrent %d: want at least 1 of each", o.Workers, o.MaxDispatch))
	}
	if o.Resync <= 0 || o.InformerResync <= 0 {
		errs = append(errs, fmt.Errorf("application-re-sync-period %v, informer-sync-period %v: want more than 0 of each", o.Resync, o.InformerResync))
	}
	if o.RevisionLimit < 0 {
		errs = append(errs, fmt.Errorf("application-revision-limit %d: want 0 or more", o.RevisionLimit))
	}
	errs = append(errs, o.Gateway.Validate())
	if o.Features.Jitter < 0 || o.Features.Jitter > 1 {
		errs = append(errs, fmt.Errorf("resync-jitter %g: want 0 to 1", o.Features.Jitter))
	}
	for _, kind := range []string{o.Features.TrackerCompression, o.Features.RevisionCompression} {
		if kind != api.Uncompressed && kind != api.Zstd && kind != api.Gzip {
			errs = append(errs, fmt.Errorf("compression %q: want %s or %s", kind, api.Zstd, api.Gzip))
		}
	}
	return errors.Join(errs...)
}
