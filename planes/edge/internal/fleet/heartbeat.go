package fleet

import (
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// What an edge does again and again.
const (
	doKeepalive = iota
	doLease
	doStatus
)

// armHeartbeat sets the timer of the next beat.
func (s *step) armHeartbeat() {
	e := s.e
	if e.armed {
		return // from a connection before, and soon enough
	}
	e.armed = true
	first := e.next[doKeepalive]
	if s.o.Lease > 0 {
		first = min(first, e.next[doLease])
	}
	if s.o.Status > 0 {
		first = min(first, e.next[doStatus])
	}
	s.out.timers = append(s.out.timers, timer{s.o.onGrid(first), beat{}})
}

// onGrid returns the first time of the fleet's grid that is not before t: an edge that beats
// does so with all that are due within one step of it. Otherwise each keepalive comes alone, with
// a wakeup of the fleet and one of the hub, which cost more than the keepalive
// (experiments/0020).
func (o *Options) onGrid(t clock.Time) clock.Time {
	step := clock.Time(min(o.Grid, o.Keepalive/8)) // a keepalive is never late by a part of its period that matters
	if step <= 0 {
		return t
	}
	return (t + step - 1) / step * step
}

// beat is the time of a keepalive, of a lease's renewal or of a status.
type beat struct{}

func (beat) happenTo(s *step) {
	e, o := s.e, s.o
	e.armed = false
	if !e.connected {
		return // the next connection arms it
	}
	if e.next[doKeepalive] <= s.now {
		s.sendKeepalive()
		e.next[doKeepalive] = e.next[doKeepalive].Add(o.Keepalive)
	}
	if o.Lease > 0 && e.next[doLease] <= s.now {
		if e.lease != nil {
			s.renewLease()
		}
		e.next[doLease] = s.now.Add(o.Lease + time.Duration(s.dice.Int64N(int64(o.Lease/25+1))))
	}
	if o.Status > 0 && e.next[doStatus] <= s.now {
		if e.joined {
			s.reportStatus()
		}
		e.next[doStatus] = s.now.Add(o.Status)
	}
	s.askAgain()
	s.armHeartbeat()
}

// ping is the content of a keepalive.
const ping = `"ping"`

func (s *step) sendKeepalive() {
	m := s.newMessage(message.Route{Source: message.SourceWS, Group: message.GroupCloud, Operation: message.Keepalive, Resource: "node"}, []byte(ping))
	s.sendMessage(&m)
}
