package stats

import (
	"math/bits"
	"time"
)

// recentWindow counts durations in buckets that are an eighth of their value wide.
type recentWindow struct {
	counts [40 * 8]uint32
	total  uint64
	max    time.Duration
}

func (l *recentWindow) addDuration(d time.Duration) {
	d = max(d, 0)
	l.counts[bucketOf(d)]++
	l.total++
	l.max = max(l.max, d)
}

// bucketOf numbers buckets of microseconds: 3 bits after the leading one.
func bucketOf(d time.Duration) int {
	us := uint64(d/time.Microsecond) + 8
	shift := bits.Len64(us) - 4
	return min(shift*8+int(us>>shift)-8, 40*8-1)
}

// quantileOf returns the upper end of the bucket that holds the q-quantile; 0
// when nothing was counted.
func (l *recentWindow) quantileOf(q float64) time.Duration {
	rank := uint64(q * float64(l.total))
	var seen uint64
	for i, n := range l.counts {
		if seen += uint64(n); seen > rank && n > 0 {
			upper := uint64(i%8+9)<<(i/8) - 8
			return min(time.Duration(upper)*time.Microsecond, l.max)
		}
	}
	return l.max
}

// recentSpan is the least time that a Recent looks back; it looks back at most
// twice as far.
const recentSpan = 5 * time.Second

// Recent keeps quantiles of the latest durations in constant memory, for whoever
// looks at something that runs. It belongs to one goroutine, and its zero value
// is ready.
type Recent struct {
	windows [2]recentWindow
	since   time.Duration // of the current window, on the run's clock
}

// Add counts a duration at a time of the run.
func (r *Recent) Add(at, d time.Duration) {
	r.turnWindows(at)
	r.windows[0].addDuration(d)
}

func (r *Recent) turnWindows(at time.Duration) {
	for at-r.since >= recentSpan {
		r.windows[1] = r.windows[0]
		r.windows[0] = recentWindow{}
		if at-r.since >= 2*recentSpan {
			r.windows[1] = recentWindow{}
			r.since = at
			return
		}
		r.since += recentSpan
	}
}

// Quantile returns the upper end of the bucket (an eighth of its value wide) that
// holds the q-quantile; 0 when nothing was counted.
func (r *Recent) Quantile(at time.Duration, q float64) time.Duration {
	r.turnWindows(at)
	return max(r.windows[0].quantileOf(q), r.windows[1].quantileOf(q))
}
