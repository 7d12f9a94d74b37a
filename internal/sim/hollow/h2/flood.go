package h2

import (
	"golang.org/x/net/http2"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// What frames count that cost a client nothing to send, in units, of which so many
// are let through at once and, after that, each second. What is sent to the client
// gives some back, so that one that acknowledges all of it is never taken for a flood.
const (
	floodUnits  = 10_000
	floodRate   = 1000
	costFrame   = 1
	costReply   = 20 // is wanted
	costReset   = 4  // after which a handler may go on
	gainedFrame = 4  // that was sent: it may have two windows updated
)

// flood is a leaky bucket of units.
type flood struct {
	clock clock.Clock
	units int
	since clock.Time // what has leaked until then is taken off
}

// addUnits counts units; the error ends the connection.
func (f *flood) addUnits(units int) error {
	if f.units += units; f.units <= floodUnits {
		return nil
	}
	now := f.clock.Now()
	f.units = max(0, f.units-int(min(now.Sub(f.since).Seconds()*floodRate, floodUnits)))
	f.since = now
	if f.units > floodUnits {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	return nil
}

func (f *flood) returnUnits(units int) { f.units = max(0, f.units-units) }
