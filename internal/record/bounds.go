package record

import "time"

// The bounds that whoever flies and whoever judges have in common.
const (
	// Late is how much later than due a call may be sent before it counts as late.
	Late = 100 * time.Millisecond

	// StealShare is the share of all cores' time that a hypervisor may keep for other
	// machines. Beyond it, and beyond what the manifest allows to neighbours, the
	// machine was not the run's own. How much of a latency was the others' cannot be
	// known: a run that misses an objective beside them is unknown, one that holds
	// them all in spite of them has passed.
	StealShare = 0.02
)
