package consistency

import (
	"slices"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// longestGap returns the longest time from when a write was sent that is not acknowledged to the
// next acknowledgement of another one, or to the end of the last write.
func longestGap(writes []Access) (longest Gap) {
	var acknowledged, others []clock.Time // ends of the former, begins of the latter
	var end clock.Time
	for _, w := range writes {
		end = max(end, w.Done)
		if w.acknowledged() {
			acknowledged = append(acknowledged, w.Done)
		} else {
			others = append(others, w.Sent)
		}
	}
	slices.Sort(acknowledged)
	slices.Sort(others)
	for _, to := range append(acknowledged, end) {
		n := 0
		for n < len(others) && others[n] < to {
			n++
		}
		if n > 0 && to.Sub(others[0]) > longest.To.Sub(longest.From) {
			longest = Gap{others[0], to, n}
		}
		others = others[n:]
	}
	return longest
}
