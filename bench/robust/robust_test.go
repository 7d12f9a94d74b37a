package robust_test

import (
	"os"
	"testing"
)

// robust skips what takes minutes.
func robust(t *testing.T) {
	t.Helper()
	if testing.Short() || os.Getenv("WINDTUNNEL_ROBUST") == "" {
		t.Skip("takes minutes: `make test-robust`, or set WINDTUNNEL_ROBUST=1")
	}
}
