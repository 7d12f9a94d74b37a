package pace

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Replay is calls at recorded times, counted from the begin of the step, in any
// order. It has as many calls as there are times.
func Replay(times []time.Duration) *Pace {
	sorted := slices.Clone(times)
	slices.Sort(sorted)
	if sorted == nil {
		sorted = []time.Duration{}
	}
	return &Pace{replay: sorted}
}

// Count returns how many calls a replay has; 0 for a pace without an end.
func (p *Pace) Count() int { return len(p.replay) * max(1, p.bundle) }

// ReadTimes reads due times for Replay: seconds from the begin, one number on
// each line. Empty lines and lines that begin with # are skipped. The error
// begins with the number of the line: "7: ...".
func ReadTimes(in io.Reader) ([]time.Duration, error) {
	times := []time.Duration{}
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		seconds, err := strconv.ParseFloat(text, 64)
		if due := toDuration(seconds); err != nil || math.IsNaN(seconds) || seconds < 0 || due == Never {
			return nil, fmt.Errorf("%d: %.40q is no due time: write seconds from the step's begin, such as 12.5", n, text)
		} else {
			times = append(times, due)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read due times: %w", err)
	}
	return times, nil
}

// replayedTime returns the i-th of sorted times.
func replayedTime(times []time.Duration, i int) time.Duration {
	if i >= len(times) {
		return Never
	}
	return times[i]
}

// meanRate is n-1 calls in the time from the first of n to the last; 0 of one.
func meanRate(times []time.Duration) float64 {
	if len(times) < 2 {
		return 0
	}
	return float64(len(times)-1) / (times[len(times)-1] - times[0]).Seconds()
}
