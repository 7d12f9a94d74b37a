package wire

import (
	"slices"
	"sync"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// stream is a request on its way.
type stream struct {
	id       uint32
	request  *Request
	done     func(*Response)
	deadline clock.Time
	response Response
	body     []byte             // what was received, or its first piece
	pieces   [][]byte           // of a large body: those after the first
	unsent   []byte             // what flow control holds back of the request's body
	window   int64              // how much the server takes of this stream
	credit   int64              // bytes of data since this stream's last window update
	cost     int                // bytes of the request
	solo     func([]byte) error // the stream has its connection to itself: gets the body as it comes
	opened   bool               // a held watch whose answer has begun
	feeding  bool               // the read loop is in one of the request's functions
	turned   int                // times that the server would not look at it

	// Of a request with Read, whose body is what waits to be read:
	read    int   // bytes of body that have been read
	reading bool  // the sweep is in Data
	over    bool  // the answer has ended, and its connection knows the stream no more
	end     error // how
}

var streams = sync.Pool{New: func() any { return new(stream) }}

func newStream(req *Request, done func(*Response)) *stream {
	s := streams.Get().(*stream)
	body := s.body[:0]
	*s = stream{request: req, done: done, body: body}
	return s
}

// free gives the stream back; large bodies are left to the collector.
func (s *stream) free() {
	if cap(s.body) > 64<<10 {
		s.body = nil
	}
	s.request, s.done, s.unsent, s.solo, s.pieces, s.end = nil, nil, nil, nil, nil, nil
	s.response = Response{}
	streams.Put(s)
}

// pieceSize is the length from which a body is kept in pieces of that length. They are
// copied once, when the answer is complete: an answer without end takes no more memory than
// was accepted of it.
const pieceSize = 1 << 20

// keepBody adds to the body.
func (s *stream) keepBody(p []byte) {
	if s.pieces == nil && len(s.body)+len(p) <= pieceSize {
		if cap(s.body)-len(s.body) < len(p) {
			s.body = slices.Grow(s.body, len(s.body)+len(p)) // doubled: what append adds to a large one leaves five times as much behind
		}
		s.body = append(s.body, p...)
		return
	}
	for len(p) > 0 {
		last := len(s.pieces) - 1
		if last < 0 || len(s.pieces[last]) == pieceSize {
			s.pieces = append(s.pieces, make([]byte, 0, pieceSize))
			last++
		}
		n := min(len(p), pieceSize-len(s.pieces[last]))
		s.pieces[last] = append(s.pieces[last], p[:n]...)
		p = p[n:]
	}
}

// bodyLength returns the length of the body.
func (s *stream) bodyLength() int {
	n := len(s.body)
	if last := len(s.pieces) - 1; last >= 0 {
		n += last*pieceSize + len(s.pieces[last])
	}
	return n
}

// joinBody returns the body in one piece.
func (s *stream) joinBody() []byte {
	if s.pieces == nil {
		return s.body
	}
	return slices.Concat(append([][]byte{s.body}, s.pieces...)...)
}

// fifo is a queue of streams that reuses its memory.
type fifo struct {
	items []*stream
	head  int
}

func (q *fifo) len() int { return len(q.items) - q.head }

func (q *fifo) push(s *stream) {
	if q.head > len(q.items)/2 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, s)
}

func (q *fifo) pop() *stream {
	s := q.items[q.head]
	q.items[q.head] = nil
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return s
}

func (q *fifo) takeAll() []*stream {
	out := append([]*stream(nil), q.items[q.head:]...)
	clear(q.items)
	q.items, q.head = q.items[:0], 0
	return out
}

// takeLateLocked removes and returns the streams whose deadline has passed.
func (q *fifo) takeLate(now clock.Time) []*stream {
	var late []*stream
	kept := q.items[:q.head]
	for _, s := range q.items[q.head:] {
		if s.deadline <= now {
			late = append(late, s)
		} else {
			kept = append(kept, s)
		}
	}
	clear(q.items[len(kept):])
	q.items = kept
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return late
}
