package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestVerifyKept runs verify, as its page says, on the bundle of each report that a plane
// reproduces. It exits with 0; only a change of what is computed of a run may turn that into 2.
func TestVerifyKept(t *testing.T) {
	folder := repotest.Path(t, "experiments", "0038-bundles-of-reports")
	bundles, err := filepath.Glob(filepath.Join(folder, "*.wtb"))
	if err != nil || len(bundles) != 4 {
		t.Fatalf("%q, %v", bundles, err)
	}
	for _, path := range bundles {
		out := &strings.Builder{}
		root := rootVerb(&environment{stdout: out, stderr: out})
		root.SetArgs([]string{"verify", path, "--signer", filepath.Join(folder, "signers")})
		err := root.ExecuteContext(t.Context())
		said := out.String()
		other := strings.Count(said, "unknown") == 1 && strings.Contains(said, "which computes something else: runs/")
		if err == nil || err.Error() != "verdict pass" && !(err.Error() == "verdict unknown" && other) {
			t.Errorf("%s: %v\n%s", filepath.Base(path), err, said)
		}
		for _, want := range []string{"lists of components of 2 of 2 executables", "Level: measured."} {
			if !strings.Contains(said, want) {
				t.Errorf("%s does not say %q:\n%s", filepath.Base(path), want, said)
			}
		}
	}
}
