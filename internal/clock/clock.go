// Package clock is the only place that reads the wall clock and the monotonic
// clock. Every receipt time of a run is a Time of one Clock, so that two times
// of one run can always be subtracted (rule of measurement 3).
//
// It is not a scheduler: those who wait for more than Sleep does use time.Timer,
// which keeps them testable in testing/synctest bubbles. Every package that needs the time calls it.
package clock

import "time"

// Time is a moment of a run: nanoseconds since the run's clock was started,
// read from the monotonic clock. A Time means nothing outside its run; the
// manifest holds the wall time of zero.
type Time int64

// Sub returns t-u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Add returns t+d.
func (t Time) Add(d time.Duration) Time { return t + Time(d) }

// Seconds returns t in seconds since the run's clock was started.
func (t Time) Seconds() float64 { return float64(t) / float64(time.Second) }

// Clock gives the times of one run. The zero value is not useful: use Start.
type Clock struct{ start time.Time }

// Start returns a clock whose zero is now.
func Start() Clock { return Clock{start: time.Now()} }

// Now returns the time since Start, monotonic.
func (c Clock) Now() Time { return Time(time.Since(c.start)) }

// Wall returns the wall time of t, in UTC. It is for people and for API fields
// that want a timestamp, never for a measurement.
func (c Clock) Wall(t Time) time.Time { return c.start.Add(time.Duration(t)).UTC() }

// At returns the Time of a wall time that Wall has returned.
func (c Clock) At(wall time.Time) Time { return Time(wall.Sub(c.start)) }

// Until returns how long it is from now until t; negative when t has passed.
func (c Clock) Until(t Time) time.Duration { return t.Sub(c.Now()) }

// Recent returns the moment of a wall time that has just passed: now less its age,
// so that a wall clock which was set since the clock started does not matter.
func (c Clock) Recent(wall time.Time) Time {
	now := time.Now()
	return Time(now.Sub(c.start) - now.Round(0).Sub(wall.Round(0)))
}

// Epoch returns the wall time of the clock's zero, in UTC.
func (c Clock) Epoch() time.Time { return c.start.UTC() }
