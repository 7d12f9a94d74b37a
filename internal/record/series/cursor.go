package series

import (
	"math"
	"sort"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Cursor goes through the samples of a series as a server that scraped the
// same targets at the same times would hold them: one for each scrape, also
// where the value did not change, and none while the target could not be read.
// Where the series came to an end, or its target could not be read, a sample
// that is Stale says so.
type Cursor struct {
	s                        *Series
	times                    []clock.Time // of scrapes or samplings
	failed                   []clock.Time
	time, sample, fail, gone int // how many of each lie before the next sample
	now                      clock.Time
	stale                    bool
	live                     bool // there is a value that holds until something happens

	coded   []byte // of native histograms, from the next on
	decoded int    // how many were
	hist    record.Histogram
}

// Cursor returns a cursor before the first sample.
func (s *Series) Cursor() *Cursor {
	c := &Cursor{s: s}
	switch s.from {
	case scraped:
		c.times, c.failed = s.target.scrapes, s.target.failed
	case metered:
		c.times = s.target.metered
	}
	if s.native != nil {
		c.coded = s.native.coded
	}
	return c
}

// At is the time of the sample at the cursor.
func (c *Cursor) At() clock.Time { return c.now }

// Stale says that the series ends here, for now.
func (c *Cursor) Stale() bool { return c.stale }

// IsHistogram says whether the sample is a native histogram.
func (c *Cursor) IsHistogram() bool { return c.s.native != nil }

// Value is the sample's value.
func (c *Cursor) Value() float64 { return c.s.values[c.sample-1] }

// Histogram is the sample's value; it is valid until the cursor moves.
func (c *Cursor) Histogram() *record.Histogram {
	for c.decoded < c.sample {
		rest, err := record.DecodeHistogram(c.coded, &c.hist)
		if err != nil { // the store wrote it itself
			panic(err)
		}
		c.coded = rest
		c.decoded++
	}
	return &c.hist
}

// Next goes to the next sample; it is false after the last.
func (c *Cursor) Next() bool {
	for {
		t := c.nextTime()
		if t == math.MaxInt64 {
			return false
		}
		if c.stepTo(t) {
			return true
		}
	}
}

// Seek goes to the first sample at t or later that is not before the one at
// the cursor; it is false where there is none.
func (c *Cursor) Seek(t clock.Time) bool {
	if (c.sample > 0 || c.stale) && c.now >= t {
		return true
	}
	if c.sample = max(c.sample, countBefore(c.s.at, t)); c.sample > 0 {
		c.time = max(c.time, countBefore(c.times, t))
		c.fail = max(c.fail, countBefore(c.failed, t))
		c.gone = max(c.gone, countBefore(c.s.gone, t))
		last := c.s.at[c.sample-1]
		c.live, c.stale = c.gone == 0 || c.s.gone[c.gone-1] < last, false
		// Where the target could not be read just before t, the end of the
		// series is told again if that goes on.
	}
	return c.Next()
}

// countBefore is how many times are before t.
func countBefore(times []clock.Time, t clock.Time) int {
	return sort.Search(len(times), func(i int) bool { return times[i] >= t })
}

// nextTime is when something happens next.
func (c *Cursor) nextTime() clock.Time {
	t := clock.Time(math.MaxInt64)
	for _, list := range [...]struct {
		times []clock.Time
		done  int
	}{{c.times, c.time}, {c.s.at, c.sample}, {c.failed, c.fail}, {c.s.gone, c.gone}} {
		if list.done < len(list.times) {
			t = min(t, list.times[list.done])
		}
	}
	return t
}

// stepTo takes all that happens at t and says whether that is a sample.
func (c *Cursor) stepTo(t clock.Time) bool {
	was := c.live && !c.stale
	scraped := advanceList(c.times, &c.time, t)
	sampled := advanceList(c.s.at, &c.sample, t)
	failed := advanceList(c.failed, &c.fail, t)
	ended := advanceList(c.s.gone, &c.gone, t)
	switch {
	case sampled:
		c.live = true
	case ended:
		c.live = false
	}
	c.now = t
	switch {
	case c.live && (sampled || scraped):
		c.stale = false
		return true
	case was && (ended || failed):
		c.stale = true
		return true
	}
	return false
}

// advanceList goes on in a list where its next time is t.
func advanceList(times []clock.Time, done *int, t clock.Time) bool {
	if *done == len(times) || times[*done] != t {
		return false
	}
	*done++
	return true
}
