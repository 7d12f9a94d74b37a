package repotest

import (
	"testing"
	"time"
)

// patience is how long Eventually waits: longer than any machine is busy, as only
// a failure takes that long.
const patience = 2 * time.Minute

// Met waits until a condition is met, and reports whether it ever was. It looks often at
// first, for what is nearly there, and seldom later.
func Met(met func() bool) bool {
	pause := time.Millisecond
	for waited := time.Duration(0); waited < patience; waited += pause {
		if met() {
			return true
		}
		time.Sleep(pause)
		pause = min(pause*3/2, 100*time.Millisecond)
	}
	return false
}

// Eventually waits until a condition is met, and fails the test where it never
// is, with what is there instead.
func Eventually(t testing.TB, what string, met func() bool, instead ...func() any) {
	t.Helper()
	if Met(met) {
		return
	}
	for _, there := range instead {
		t.Logf("%.6000v", there())
	}
	t.Fatalf("not within %v: %s", patience, what)
}
