package app_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/app"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/controller"
)

// TestProfiles holds what the command makes of each profile: the features of the
// version that it stands for, and beside them the same settings in all.
func TestProfiles(t *testing.T) {
	v175 := controller.Features{DryRun: true, TrackerCompression: api.Zstd, RevisionCompression: api.Zstd, TwoCollections: true}
	v18 := controller.Features{
		IndexTrackers: true, DryRun: true, FilterFields: true, ShareDefinitions: true, UncachedConfigMaps: true,
		TrackerCompression: api.Zstd, RevisionCompression: api.Zstd, SkipEmptyPatch: true, SkipEqualStatus: true, SkipEqualRevision: true,
	}
	improved := v18
	improved.FoldSecrets, improved.CompressFirst, improved.WatchDrift, improved.AdoptMoved, improved.Jitter = true, true, true, true, 0.1
	for profile, want := range map[string]controller.Options{
		"v175":     {Features: v175, MaxDispatch: 1},
		"v18":      {Features: v18, MaxDispatch: 10},
		"improved": {Features: improved, MaxDispatch: 10},
	} {
		want.Workers, want.Resync, want.InformerResync, want.RevisionLimit, want.Gateway.Connections = 4, 5*time.Minute, 10*time.Hour, 2, 1
		got := profiled(t, profile)
		if rate := got.Limiter.Rate().String(); rate != "400/600" {
			t.Errorf("%s: rate %s", profile, rate)
		}
		got.Limiter = nil
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", profile, got, want)
		}
	}
	o, _, err := app.Options("--profile=v175", "--optimize-list-op", "--feature-gates=PreDispatchDryRun=false,GzipResourceTracker=true,ZstdResourceTracker=false")
	if f := o.Features; err != nil || !f.IndexTrackers || f.DryRun || f.TrackerCompression != api.Gzip || f.RevisionCompression != api.Zstd || f.SkipEmptyPatch {
		t.Errorf("what is given beside a profile: %v, %+v", err, f)
	}
}

// TestDocumentedProfiles holds the table of the documentation to the profiles: each
// value that it names, and that it names all in which profiles differ.
func TestDocumentedProfiles(t *testing.T) {
	rows := documentedOptions(t)
	flags, gates := regexp.MustCompile("`--([a-z-]+)`"), regexp.MustCompile(`\b[A-Z][A-Za-z]+[a-z][A-Z][A-Za-z]*\b`)
	documented := map[string]bool{}
	parsed := map[string]*pflag.FlagSet{}
	for i, profile := range rows[0] {
		if i == 0 {
			continue
		}
		_, f, err := app.Options("--profile=" + profile)
		if err != nil {
			t.Fatal(err)
		}
		parsed[profile] = f
		for _, row := range rows[2:] {
			for _, flag := range flags.FindAllStringSubmatch(row[0], -1) {
				documented[flag[1]] = true
				if got := f.Lookup(flag[1]); got == nil {
					t.Errorf("there is no --%s, of which the page speaks", flag[1])
				} else if got.Value.String() != row[i] {
					t.Errorf("%s: --%s is %s, the page says %s", profile, flag[1], got.Value, row[i])
				}
			}
			for _, gate := range gates.FindAllString(row[0], -1) {
				documented[gate] = true
				if on := slices.Contains(strings.Split(f.Lookup("feature-gates").Value.String(), ","), gate+"=true"); on != (row[i] == "true") {
					t.Errorf("%s: gate %s is %t, the page says %s", profile, gate, on, row[i])
				}
			}
		}
	}
	for profile, f := range parsed {
		f.VisitAll(func(flag *pflag.Flag) {
			switch {
			case flag.Name == "profile":
			case flag.Name == "feature-gates":
				for _, gate := range strings.Split(flag.Value.String(), ",") {
					if name, _, _ := strings.Cut(gate, "="); !documented[name] {
						t.Errorf("%s sets the gate %s, of which the page says nothing", profile, name)
					}
				}
			case flag.Changed && !documented[flag.Name]:
				t.Errorf("%s sets --%s, of which the page says nothing", profile, flag.Name)
			}
		})
	}
}

// documentedOptions returns the cells of the documentation's table of profiles.
func documentedOptions(t *testing.T) (rows [][]string) {
	t.Helper()
	page, err := os.ReadFile(repotest.Path(t, "docs", "how-to", "reproducing-kubevela-assessment.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Options\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "|") {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	if len(rows) < 3 || !slices.Equal(rows[0], []string{"", "v175", "v18", "improved"}) {
		t.Fatalf("the table begins with %q", rows)
	}
	return rows
}
