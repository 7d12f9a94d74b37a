package compare

import (
	"maps"

	"github.com/windtunnel/windtunnel/internal/slo"
)

// Title names a measure in words, and says which way of it is the better one.
// False: it is not judged, for it says how a run was flown rather than how the
// plane did.
func Title(key string, m slo.Measure) (text string, better Better, judged bool) {
	k, ok := kindOf(key, m)
	return title(key, m), k.better, ok
}

// Doubt says why a run's figures are to be taken with care: its verdict is
// unknown, or its machine was busy. Empty when they are not.
func (r Run) Doubt() string { return r.doubt() }

// SameMachine says whether figures of two runs may be held against each other:
// whether their machines are alike in what latency, CPU and memory depend on.
func SameMachine(a, b Run) bool {
	return maps.Equal(machineFacts(a.Manifest.Machine), machineFacts(b.Manifest.Machine))
}

// SameRun says whether two are one run, or copies of it.
func SameRun(a, b Run) bool { return sameRun(a, b) }
