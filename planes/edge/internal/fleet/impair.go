package fleet

import (
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/edge/internal/link"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// path is one direction between an edge and its hub, where messages keep their order.
type path struct{ last clock.Time }

// retransmission is how long TCP waits at least before it sends a lost packet again.
const retransmission = 200 * time.Millisecond

// isImpaired reports whether messages take time between hub and edge.
func (o *Options) isImpaired() bool { return o.Delay > 0 || o.Loss > 0 || o.FlapEvery > 0 }

// arrival returns when a message arrives that is sent now. shift is the edge's own part of the
// period of outages; chance, from 0 to 1, decides whether a packet is lost. TCP loses nothing: a
// lost packet comes after a retransmission, and what an outage holds up comes when it is over.
func (p *path) arrival(o *Options, now clock.Time, shift time.Duration, chance float64) clock.Time {
	at := now.Add(o.Delay)
	if chance < o.Loss {
		at = at.Add(retransmission + 2*o.Delay)
	}
	if o.FlapEvery > 0 {
		if into := time.Duration(at.Add(shift)) % o.FlapEvery; into < o.FlapFor {
			at = at.Add(o.FlapFor - into)
		}
	}
	p.last = max(p.last, at)
	return p.last
}

// sendLate sends a message when it arrives, if the connection is the same then.
func (d *driver) sendLate(m *message.Message) {
	c, raw := d.conn, m.Append(nil)
	d.fleet.schedule.callAfter(d.delayOf(&d.up), func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.conn == c {
			_ = c.Send(raw) // the connection's reader tells of its end
		}
	})
}

// delayOf returns how long a message takes on a path of the edge's.
func (d *driver) delayOf(p *path) time.Duration {
	f := d.fleet
	now := f.clockNow()
	shift := f.o.drawTime(d.edge.name, f.o.FlapEvery)
	return p.arrival(&f.o, now, shift, f.dice.Float64()).Sub(now)
}

// lateHandler takes what the hub sends when it arrives.
type lateHandler struct {
	*driver
	conn connection
}

// Message lets a message come later, if the connection is the same then.
func (l lateHandler) Message(raw []byte) error {
	raw = append([]byte(nil), raw...)
	d := l.driver
	d.mu.Lock()
	after := d.delayOf(&d.down)
	d.mu.Unlock()
	d.fleet.schedule.callAfter(after, func() {
		d.mu.Lock()
		current := d.conn == l.conn
		d.mu.Unlock()
		if current {
			_ = d.Message(raw) // it never fails
		}
	})
	return nil
}

// handlerOf returns what takes the messages of an edge's connection.
func (f *Fleet) handlerOf(d *driver, c connection) link.Handler {
	if f.o.isImpaired() {
		return lateHandler{d, c}
	}
	return d
}
