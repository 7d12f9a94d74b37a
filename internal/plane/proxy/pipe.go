package proxy

import (
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

var (
	// errEnded says that the connection has ended meanwhile.
	errEnded = errors.New("connection ended")
	// errReset says that the other side of the connection was reset.
	errReset = errors.New("connection reset")
)

// stream is one side of a connection, with or without TLS on it.
type stream interface {
	io.ReadWriter
	CloseWrite() error
}

// line is one direction of one connection: one goroutine reads from the sender
// and notes when the bytes are due, one writes them then.
type line struct {
	relay  *Relay
	way    *way
	up     bool          // from the client to the server
	calls  calls         // shared with the other direction
	begin  clock.Time    // no byte sets off before: the connection's handshake takes that long
	jitter *rand.Rand    // the reader's
	alarm  alarm         // the writer's
	done   chan struct{} // closed when the connection has ended
	data   chan struct{} // the queue is not empty
	space  chan struct{} // the queue is not full

	mu     sync.Mutex
	queue  queue
	full   bool  // the reader waits for space
	busy   bool  // the writer has work, or the reader does it
	failed error // of the reader's handing over
}

// read reads until the sender ends. An error of the sender's side travels to
// the other as bytes do; so the only error is errEnded.
func (l *line) read(from io.Reader, to io.Writer) error {
	var pieces []piece
	for {
		room, err := l.room()
		if err != nil {
			return err
		}
		n, err := from.Read(room)
		now := l.relay.options.Clock.Now()
		shape := l.relay.shape.Load()
		pieces = append(pieces[:0], piece{n: n})
		if !l.up && n > 0 {
			pieces = l.calls.answered(now, room[:n], pieces[:0])
		}
		l.put(l.departure(now, shape), pieces, shape.factor())
		if n > 0 && err == nil {
			if err := l.pass(now, to); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			l.finish(l.departure(now, shape), closes)
			return nil
		case err != nil:
			l.finish(l.departure(now, shape), resets)
			return nil
		}
	}
}

// departure returns when what was read now is due, if it is not held for
// being an answer.
func (l *line) departure(now clock.Time, s *Shape) clock.Time {
	due := max(now, l.begin).Add(s.RoundTrip / 2)
	if s.Jitter > 1 {
		due = due.Add(time.Duration(l.jitter.Int64N(int64(s.Jitter / 2))))
	}
	return due
}

// room waits until the queue is not full and returns where to read to.
func (l *line) room() ([]byte, error) {
	for {
		l.mu.Lock()
		if l.full = l.queue.size() >= l.relay.options.Queue; !l.full {
			room := l.queue.room(func() *block { return l.relay.blocks.Get().(*block) })
			l.mu.Unlock()
			return room, nil
		}
		l.mu.Unlock()
		l.way.full.Add(1)
		select {
		case <-l.space:
		case <-l.done:
			return nil, errEnded
		}
	}
}

// put queues what was read, in pieces; those of an answer are held for as much
// longer as the factor asks.
func (l *line) put(due clock.Time, pieces []piece, factor float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range pieces {
		if p.n > 0 {
			l.queue.put(p.n, due.Add(time.Duration((factor-1)*float64(p.took))), goesOn)
		}
	}
}

// pass hands over what was read just now, if it is due at once and the writer
// has nothing to do: that spares waking it.
func (l *line) pass(now clock.Time, to io.Writer) error {
	l.mu.Lock()
	mine := !l.busy && l.queue.marks.len() > 0 && l.queue.marks.first().due <= now
	l.busy = l.busy || mine
	l.mu.Unlock()
	if !mine {
		signal(l.data)
		return nil
	}
	err := l.handOver(to, false)
	l.rest(err)
	return err
}

// finish queues the end.
func (l *line) finish(due clock.Time, e end) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue.put(0, due, e)
	signal(l.data)
}

// write hands over what is due until the end of the line is; errReset is what
// the other side shall see of it.
func (l *line) write(to stream) error {
	defer l.alarm.close()
	for {
		next, err := l.next()
		if err != nil {
			return err
		}
		if err := l.await(next.due); err != nil {
			return err
		}
		switch {
		case next.end == closes:
			return to.CloseWrite()
		case next.end == resets:
			return errReset
		}
		if err := l.handOver(to, true); err != nil {
			return err
		}
		l.rest(nil)
	}
}

// rest says that the one who was busy is no more.
func (l *line) rest(failed error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy, l.failed = false, failed
	if failed != nil || l.queue.marks.len() > 0 {
		signal(l.data)
	}
}

// next waits for a mark and returns the first. The writer is busy from then on,
// until it rests.
func (l *line) next() (mark, error) {
	for {
		l.mu.Lock()
		if l.failed != nil || !l.busy && l.queue.marks.len() > 0 {
			defer l.mu.Unlock()
			if l.failed != nil {
				return mark{}, l.failed
			}
			l.busy = true
			return *l.queue.marks.first(), nil
		}
		l.mu.Unlock()
		select {
		case <-l.data:
		case <-l.done:
			return mark{}, errEnded
		}
	}
}

// await waits until a time and notes how well it was kept.
func (l *line) await(due clock.Time) error {
	left := l.relay.options.Clock.Until(due)
	if left <= 0 {
		return nil
	}
	if err := l.alarm.wait(left); err != nil {
		return err
	}
	l.way.woke(-l.relay.options.Clock.Until(due))
	return nil
}

// handOver writes all that is due by now, as fast as the bandwidth lets it; who
// may not wait for that leaves it to the writer.
func (l *line) handOver(to io.Writer, mayWait bool) error {
	for {
		rate := l.relay.shape.Load().BytesPerSecond
		if rate > 0 && !mayWait {
			return nil
		}
		now := l.relay.options.Clock.Now()
		l.mu.Lock()
		bytes := l.queue.due(now, portion(rate))
		l.mu.Unlock()
		if len(bytes) == 0 {
			return nil
		}
		if rate > 0 {
			if err := l.await(l.way.through(now, len(bytes), rate)); err != nil {
				return err
			}
		}
		if l.up { // before the write, since the answer may come at once
			l.calls.asked(l.relay.options.Clock.Now(), bytes)
		}
		if _, err := to.Write(bytes); err != nil {
			return err
		}
		l.way.bytes.Add(int64(len(bytes)))
		l.way.writes.Add(1)
		l.took(len(bytes))
	}
}

// took frees what was handed over.
func (l *line) took(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.queue.take(n); b != nil {
		l.relay.blocks.Put(b)
	}
	if l.full && l.queue.size() < l.relay.options.Queue {
		signal(l.space)
	}
}

// signal wakes the one who waits on c, now or the next time.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
