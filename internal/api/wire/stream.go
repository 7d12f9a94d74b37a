package wire

import (
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
	body     []byte             // what was received
	unsent   []byte             // what flow control holds back of the request's body
	window   int64              // how much the server takes of this stream
	credit   int64              // bytes of data since this stream's last window update
	cost     int                // bytes of the request
	solo     func([]byte) error // the stream has its connection to itself: gets the body as it comes
	opened   bool               // a held watch whose answer has begun
	feeding  bool               // the read loop is in one of the request's functions
	turned   int                // times that the server would not look at it
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
	s.request, s.done, s.unsent, s.solo = nil, nil, nil, nil
	s.response = Response{}
	streams.Put(s)
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

// takeLate removes and returns the streams whose deadline has passed.
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
