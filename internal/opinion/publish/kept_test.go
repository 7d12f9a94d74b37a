package publish_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/publish"
	"github.com/windtunnel/windtunnel/internal/opinion/publish/seal"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestKeptBundles verifies the bundles of this repository, each by the file signers beside
// it. A later version may compute more of a run than the version that made the bundle;
// everything else must hold, each claim too.
func TestKeptBundles(t *testing.T) {
	bundles := repotest.Must(filepath.Glob(repotest.Path(t, "experiments", "*", "*.wtb")))(t)
	for _, of := range []string{"density", "kubevirt", "kubevela", "kubeedge", "kosmos"} { // the last four are of the reports that planes reproduce
		if !slices.ContainsFunc(bundles, func(path string) bool { return filepath.Base(path) == of+".wtb" }) {
			t.Errorf("there is no bundle of %s", of)
		}
	}
	for _, path := range bundles {
		raw := repotest.Must(os.ReadFile(filepath.Join(filepath.Dir(path), "signers")))(t)
		keys := repotest.Must(seal.Fingerprints(string(raw)))(t)
		v := repotest.Must(publish.Verify(t.Context(), path, keys, "later"))(t)
		for _, c := range v.Checks {
			if c.State != publish.Holds && (c.Name != "results" || c.State != publish.Unknown) {
				t.Errorf("%s: %+v", path, c)
			}
			t.Logf("%s: %s: %s", c.State, c.Name, c.Why)
		}
		if v.Results != nil {
			for _, e := range v.Results.Executables {
				if e.Components == "" {
					t.Errorf("%s: no components of %s: %s", path, e.Name, e.Why)
				}
			}
		}
		if v.Results == nil || len(v.Results.Claims) == 0 {
			t.Errorf("%s: no claim was checked", path)
		}
	}
}
