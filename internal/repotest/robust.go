package repotest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Robust skips a proof of robustness, which takes many minutes, unless `make
// test-robust` asks for it, and returns the seed of its chances, as Seed does.
func Robust(t testing.TB) (seed uint64) {
	t.Helper()
	if os.Getenv("WINDTUNNEL_ROBUST") == "" {
		t.Skip("takes many minutes: `make test-robust`, or set WINDTUNNEL_ROBUST=1")
	}
	return Seed(t)
}

// Seed returns the seed of a test's chances: that of WINDTUNNEL_SEED, or a new one. It
// stands in the test's log, and once more beside its failures.
func Seed(t testing.TB) (seed uint64) {
	t.Helper()
	seed = uint64(rand.Uint32())
	if text := os.Getenv("WINDTUNNEL_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("WINDTUNNEL_SEED: %v", err)
		}
	}
	t.Logf("seed %d", seed)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the chances of this failure: WINDTUNNEL_SEED=%d", seed)
		}
	})
	return seed
}

// Times returns how often a proof of robustness does what it does: as an
// environment variable says, or as often as usual.
func Times(t testing.TB, variable string, usual int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s: %q is no number above 0", variable, text)
	}
	return n
}
