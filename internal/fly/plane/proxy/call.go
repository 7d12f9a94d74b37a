package proxy

import (
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// answerSilence is how long a server is silent when its answer is over.
const answerSilence = 100 * time.Millisecond

// piece is a part of what was read from the server, and how long after its
// request it came; 0 when it answers none.
type piece struct {
	n    int
	took time.Duration
}

// calls sees what passes on a connection and tells which bytes answer what.
// requestSent is called with all bytes in order before they are written to the
// server, answerRead with all bytes as they are read from it; from two
// goroutines.
type calls interface {
	requestSent(now clock.Time, bytes []byte)
	answerRead(now clock.Time, bytes []byte, to []piece) []piece
}

// call is one request and its answer.
type call struct {
	requestedAt clock.Time // when the last bytes of the request left
	answeredAt  clock.Time // when the last bytes of its answer came
	state       callState
}

type callState uint8

const (
	idle callState = iota
	waiting
	answering
)

func (c *call) noteRequest(now clock.Time) { c.requestedAt, c.state = now, waiting }

// answerDelay returns how long after its request an answer's bytes come.
func (c *call) answerDelay(now clock.Time) time.Duration {
	if c.state == answering && now.Sub(c.answeredAt) > answerSilence {
		c.state = idle
	}
	if c.state == idle {
		return 0
	}
	c.state, c.answeredAt = answering, now
	return now.Sub(c.requestedAt)
}

// wholeConnection takes a connection for one call after the other: all that
// can be told from encrypted bytes.
type wholeConnection struct {
	mu   sync.Mutex
	call call
}

func (w *wholeConnection) requestSent(now clock.Time, _ []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.call.noteRequest(now)
}

func (w *wholeConnection) answerRead(now clock.Time, bytes []byte, to []piece) []piece {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append(to, piece{len(bytes), w.call.answerDelay(now)})
}
