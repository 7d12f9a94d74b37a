package query

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record/promql"
)

// parameterError says which parameter of a request is at fault.
func parameterError(name string, err error) error {
	return badData(fmt.Errorf("invalid parameter %q: %w", name, err))
}

// readTime reads a time: seconds since 1970 or RFC 3339. Without one it is that
// of the run's last sample.
func (a *api) readTime(r *http.Request, name string) (clock.Time, error) {
	text := r.FormValue(name)
	if text == "" {
		_, last, _ := a.db.Span()
		return last, nil
	}
	t, err := wallTime(text)
	if err != nil {
		return 0, parameterError(name, err)
	}
	return a.db.Moment(t), nil
}

// lastSecond is how far from 1970 a time may be, either way: clock times are
// nanoseconds.
const lastSecond = math.MaxInt64 / 4 / 1e9

func wallTime(text string) (time.Time, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if !(math.Abs(seconds) < lastSecond) {
			return time.Time{}, fmt.Errorf("%q is no time that could be asked for", text)
		}
		whole, part := math.Modf(seconds)
		return time.Unix(int64(whole), int64(math.Round(part*1000))*int64(time.Millisecond)), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || math.Abs(float64(t.Unix())) >= lastSecond {
		return time.Time{}, fmt.Errorf("%q is neither seconds nor a time as 2026-05-01T12:00:00Z", text)
	}
	return t, nil
}

// readDuration reads a duration of at least a millisecond: seconds, or as PromQL
// has them, 1m30s.
func readDuration(text string) (time.Duration, error) {
	var d time.Duration
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if !(math.Abs(seconds) < lastSecond) {
			return 0, fmt.Errorf("%q is too long", text)
		}
		d = time.Duration(seconds * float64(time.Second))
	} else if d, err = promql.ParseDuration(text); err != nil {
		return 0, err
	}
	if d < time.Millisecond {
		return 0, fmt.Errorf("%q is less than a millisecond", text)
	}
	return d, nil
}
