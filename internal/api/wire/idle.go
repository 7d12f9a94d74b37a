package wire

import (
	"errors"
	"fmt"

	"golang.org/x/net/http2"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// Bounds on what a server may send that answers nothing: settings, pings, window
// updates, headers of no stream, frames of no bytes. To send such a frame costs
// nothing, to read it does, and each may want a reply.
const (
	maxIdle       = 10_000 // units at once, and each second: a frame, or idleUnit bytes of it
	idleUnit      = 64
	idlePerAnswer = 10 // units that an answer makes good
	// replyUnits is what a PING or SETTINGS frame counts, an acknowledgement too:
	// one may come by itself, be read by itself and have a reply written by itself,
	// some 30 microseconds in all. No server has use for 200 of them a second.
	replyUnits = 50
	// smallUnits is what data count that bring next to nothing.
	smallUnits = 4
	// maxOwed is how many replies may wait for a server that does not read them.
	maxOwed = 10_000
	// maxHeader is how large a header block may be.
	maxHeader = 256 << 10
	// smallData is the size below which a DATA frame brings next to nothing.
	smallData = 64
)

// errFlood says that a server sends without end what answers nothing.
var errFlood = errors.New("the server floods the connection")

// idle is a leaky bucket of units.
type idle struct {
	units int
	since clock.Time // what has leaked until then is taken off
}

// add counts a frame of a size.
func (i *idle) add(now clock.Time, size int) error { return i.take(now, 1+size/idleUnit) }

// take counts units.
func (i *idle) take(now clock.Time, units int) error {
	if leaked := int(now.Sub(i.since).Seconds() * maxIdle); leaked > 0 {
		i.units, i.since = max(0, i.units-leaked), now
	}
	if i.units += units; i.units > maxIdle {
		return fmt.Errorf("%w with frames that answer nothing", errFlood)
	}
	return nil
}

// control counts a frame other than HEADERS, CONTINUATION and DATA.
func (i *idle) control(now clock.Time, f *frame) error {
	units := 1 + len(f.payload)/idleUnit
	if f.kind == http2.FramePing || f.kind == http2.FrameSettings {
		units += replyUnits
	}
	return i.take(now, units)
}

// answered counts an answer.
func (i *idle) answered() { i.units = max(0, i.units-idlePerAnswer) }

// countReplyLocked counts a reply that the server wants; callers hold mu.
func (k *conn) countReplyLocked() error {
	if k.owed++; k.owed > maxOwed {
		return fmt.Errorf("%w and reads no replies", errFlood)
	}
	return nil
}
