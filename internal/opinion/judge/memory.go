package judge

import "runtime/debug"

// judgingGC is the percentage by which the memory may grow beyond what is alive
// before garbage is collected while a run is judged. What is alive is nearly all
// lists of numbers, which cost the collector nothing, and it may be half a
// gigabyte: the usual 100 would double it.
const judgingGC = 25

// collectGarbageEarly collects garbage early until restore is called.
func collectGarbageEarly() (restore func()) {
	before := debug.SetGCPercent(judgingGC)
	return func() { debug.SetGCPercent(before) }
}
