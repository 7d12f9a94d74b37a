package repotest

import (
	"os"
	"testing"
)

// Proof skips what holds on a quiet machine only: a bound on time, CPU or a rate
// that other work on the machine breaks. Its name begins with TestProof, so that
// `make test-accuracy` finds it. What must hold on any machine is a test.
func Proof(t testing.TB) {
	t.Helper()
	if testing.Short() || os.Getenv("WINDTUNNEL_ACCURACY") == "" {
		t.Skip("wants a quiet machine: `make test-accuracy`, or set WINDTUNNEL_ACCURACY=1")
	}
}
