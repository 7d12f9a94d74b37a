package repotest

import (
	"os"
	"strconv"
	"testing"
)

// Robust skips a proof of robustness, which takes many minutes, unless `make
// test-robust` asks for it, and returns the seed of its chances.
func Robust(t testing.TB) (seed uint64) {
	t.Helper()
	if os.Getenv("WINDTUNNEL_ROBUST") == "" {
		t.Skip("takes many minutes: `make test-robust`, or set WINDTUNNEL_ROBUST=1")
	}
	text := os.Getenv("WINDTUNNEL_SEED")
	if text == "" {
		return 1
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("WINDTUNNEL_SEED: %v", err)
	}
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
