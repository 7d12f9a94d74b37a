package proxy

import (
	"errors"
	"fmt"
	"time"
)

// Link is what the proxy emulates between a client and its server. The zero value passes them on at
// once.
type Link struct {
	// RoundTrip is added to every round trip: half of it in each direction. A new
	// connection costs one more, as the handshake of TCP does.
	RoundTrip time.Duration
	// Jitter is drawn for each read of up to 32 KiB, evenly between 0 and half
	// of it on each way, and added to the delay. Order is kept, so that what is
	// late holds up what follows, and the mean is above a quarter of it on busy
	// connections.
	Jitter time.Duration
	// BytesPerSecond is the bandwidth of each direction, shared by all
	// connections of the proxy; 0 = unlimited.
	BytesPerSecond int64
	// AnswerFactor makes answers slower: an answer that the server gives after
	// t reaches the client after t x AnswerFactor (plus the rest of the link).
	// 0 and 1 change nothing.
	//
	// t runs from when the last bytes of a request left for the server until
	// the answer's bytes came, so that an answer in many parts is stretched as
	// a whole. An answer ends when the server has been silent for 100 ms: what
	// comes unasked then, such as a watch event, is not held. Order on a
	// connection is kept: an answer also waits for those before it.
	//
	// With Options.TLS this is done for each HTTP/2 stream, however many calls
	// share a connection. Without it the proxy sees only encrypted bytes and
	// takes any bytes of the client for a request and any bytes of the server for
	// its answer. That is right where a connection carries one call at a
	// time; where calls overlap, t begins with the latest of them, so that
	// answers are held too short.
	AnswerFactor float64
}

const largestFactor = 1000

func (l Link) checkLink() error {
	var faults []error
	bad := func(name string, value any, why string) {
		faults = append(faults, fmt.Errorf("%s %v %s", name, value, why))
	}
	if l.RoundTrip < 0 {
		bad("round trip", l.RoundTrip, "is negative")
	}
	if l.Jitter < 0 {
		bad("jitter", l.Jitter, "is negative")
	}
	if l.BytesPerSecond < 0 {
		bad("bytes per second", l.BytesPerSecond, "is negative")
	}
	if f := l.AnswerFactor; f != 0 && !(f >= 1 && f <= largestFactor) {
		bad("answer factor", f, fmt.Sprintf("is not between 1 and %d", largestFactor))
	}
	return errors.Join(faults...)
}

// answerFactor returns how many times as long an answer takes.
func (l Link) answerFactor() float64 { return max(1, l.AnswerFactor) }

// Stats says what a proxy has done so far.
type Stats struct {
	Open, Total int       // connections
	Up          Direction // from clients to the server
	Down        Direction // from the server to clients
}

// Direction is one of both.
type Direction struct {
	Bytes int64 // handed over
	// Writes is how many writes handed them over.
	Writes int64
	// Timed is how many of these waited for their due time, and Late how many
	// of those woke more than 1 ms after it: then the machine was too busy for
	// the delays to be right. MaxLate is the latest.
	Timed, Late int64
	MaxLate     time.Duration
	// Full counts the times when the queue was full and the sender was held up.
	Full int64
}

// Stats returns the counts so far.
func (p *Proxy) Stats() Stats {
	s := Stats{Up: p.up.readStats(), Down: p.down.readStats()}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Open, s.Total = len(p.connections), p.total
	return s
}
