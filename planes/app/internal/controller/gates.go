package controller

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
)

// gates are KubeVela's feature gates that were set, as a flag.
type gates struct {
	set      map[string]bool
	features *Features // which they set
}

// String returns NAME=BOOL,...
func (g *gates) String() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(g.set)) {
		out = append(out, name+"="+strconv.FormatBool(g.set[name]))
	}
	return strings.Join(out, ",")
}

// Set reads NAME=BOOL,... beside what was set before. Where both compressions are on, it is
// Zstd.
func (g *gates) Set(text string) error {
	setters := gateSetters()
	for _, one := range strings.Split(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(one), "=")
		on, err := strconv.ParseBool(value)
		if !ok || err != nil {
			return fmt.Errorf("%q: want NAME=true or NAME=false", one)
		}
		if setters[name] == nil {
			return fmt.Errorf("gate %q: want one of %s", name, gateNames())
		}
		g.set[name] = on
	}
	for _, name := range slices.Sorted(maps.Keys(g.set)) {
		setters[name](g.features, g.set[name])
	}
	return nil
}

// Type says what the flag takes.
func (g *gates) Type() string { return "GATES" }

func gateNames() string { return strings.Join(slices.Sorted(maps.Keys(gateSetters())), ", ") }

// gateSetters are the gates that the plane has, by KubeVela's names.
func gateSetters() map[string]func(*Features, bool) {
	pack := func(into *string, kind string, on bool) {
		if on {
			*into = kind
		} else if *into == kind {
			*into = api.Uncompressed
		}
	}
	return map[string]func(*Features, bool){
		"PreDispatchDryRun":                             func(f *Features, on bool) { f.DryRun = on },
		"InformerCacheFilterUnnecessaryFields":          func(f *Features, on bool) { f.FilterFields = on },
		"SharedDefinitionStorageForApplicationRevision": func(f *Features, on bool) { f.ShareDefinitions = on },
		"DisableWorkflowContextConfigMapCache":          func(f *Features, on bool) { f.UncachedConfigMaps = on },
		"ApplyOnce":                                     func(f *Features, on bool) { f.ApplyOnce = on },
		"ZstdResourceTracker":                           func(f *Features, on bool) { pack(&f.TrackerCompression, api.Zstd, on) },
		"GzipResourceTracker":                           func(f *Features, on bool) { pack(&f.TrackerCompression, api.Gzip, on) },
		"ZstdApplicationRevision":                       func(f *Features, on bool) { pack(&f.RevisionCompression, api.Zstd, on) },
		"GzipApplicationRevision":                       func(f *Features, on bool) { pack(&f.RevisionCompression, api.Gzip, on) },
	}
}
