package proxy

import (
	"errors"
	"fmt"
	"time"
)

// Shape is what the relay does to the bytes. The zero value passes them on at
// once.
type Shape struct {
	// RoundTrip is added to every round trip: half of it on each way. A new
	// connection costs one more, as the handshake of TCP does.
	RoundTrip time.Duration
	// Jitter is drawn for each read of up to 32 KiB, evenly between 0 and half
	// of it on each way, and added to the delay. Order is kept, so that what is
	// late holds up what follows, and the mean is above a quarter of it on busy
	// connections.
	Jitter time.Duration
	// BytesPerSecond is the bandwidth of each direction, shared by all
	// connections of the relay; 0 = unlimited.
	BytesPerSecond int64
	// AnswerFactor makes answers slower: an answer that the server gives after
	// t reaches the client after t x AnswerFactor (plus the rest of the shape).
	// 0 and 1 change nothing.
	//
	// t runs from when the last bytes of a request left for the server until
	// the answer's bytes came, so that an answer in many parts is stretched as
	// a whole. An answer ends when the server has been silent for 100 ms: what
	// comes unasked then, such as a watch event, is not held. Order on a
	// connection is kept: an answer also waits for those before it.
	//
	// With Options.TLS this is done for each HTTP/2 stream, however many calls
	// share a connection. Without it the relay sees only encrypted bytes and
	// takes any bytes of the client for a request and any bytes of the server for
	// its answer. That is right where a connection carries one call at a
	// time; where calls overlap, t begins with the latest of them, so that
	// answers are held too short.
	AnswerFactor float64
}

const largestFactor = 1000

func (s Shape) validate() error {
	var faults []error
	bad := func(name string, value any, why string) {
		faults = append(faults, fmt.Errorf("%s %v %s", name, value, why))
	}
	if s.RoundTrip < 0 {
		bad("round trip", s.RoundTrip, "is negative")
	}
	if s.Jitter < 0 {
		bad("jitter", s.Jitter, "is negative")
	}
	if s.BytesPerSecond < 0 {
		bad("bytes per second", s.BytesPerSecond, "is negative")
	}
	if f := s.AnswerFactor; f != 0 && !(f >= 1 && f <= largestFactor) {
		bad("answer factor", f, fmt.Sprintf("is not between 1 and %d", largestFactor))
	}
	return errors.Join(faults...)
}

// factor returns how many times as long an answer takes.
func (s Shape) factor() float64 { return max(1, s.AnswerFactor) }

// Stats says what a relay has done so far.
type Stats struct {
	Open, Total int // connections
	Up          Way // from clients to the server
	Down        Way // from the server to clients
}

// Way is one direction.
type Way struct {
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
func (r *Relay) Stats() Stats {
	s := Stats{Up: r.up.count(), Down: r.down.count()}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Open, s.Total = len(r.pairs), r.total
	return s
}
