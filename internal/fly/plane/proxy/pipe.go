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

// pipe is one direction of one connection: one goroutine reads from the sender
// and notes when the bytes are due, one writes them then.
type pipe struct {
	proxy     *Proxy
	direction *direction
	up        bool          // from the client to the server
	calls     calls         // shared with the other direction
	begin     clock.Time    // no byte sets off before: the connection's handshake takes that long
	jitter    *rand.Rand    // the reader's
	alarm     alarm         // the writer's
	done      chan struct{} // closed when the connection has ended
	data      chan struct{} // the queue is not empty
	space     chan struct{} // the queue is not full

	mu     sync.Mutex
	queue  queue
	full   bool  // the reader waits for space
	busy   bool  // the writer has work, or the reader does it
	failed error // of the reader's handing over
}

// readUntilEnd reads until the sender ends. An error of the sender's side travels to
// the other as bytes do; so the only error is errEnded.
func (p *pipe) readUntilEnd(from io.Reader, to io.Writer) error {
	var pieces []piece
	for {
		buf, err := p.awaitBuffer()
		if err != nil {
			return err
		}
		n, err := from.Read(buf)
		now := p.proxy.options.Clock.Now()
		link := p.proxy.link.Load()
		pieces = append(pieces[:0], piece{n: n})
		if !p.up && n > 0 {
			pieces = p.calls.answerRead(now, buf[:n], pieces[:0])
		}
		p.queuePieces(p.departureTime(now, link), pieces, link.answerFactor())
		if n > 0 && err == nil {
			if err := p.passThrough(now, to); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			p.putEnd(p.departureTime(now, link), closes)
			return nil
		case err != nil:
			p.putEnd(p.departureTime(now, link), resets)
			return nil
		}
	}
}

// departureTime returns when what was read now is due, if it is not held for
// being an answer.
func (p *pipe) departureTime(now clock.Time, l *Link) clock.Time {
	due := max(now, p.begin).Add(l.RoundTrip / 2)
	if l.Jitter > 1 {
		due = due.Add(time.Duration(p.jitter.Int64N(int64(l.Jitter / 2))))
	}
	return due
}

// awaitBuffer waits until the queue is not full and returns where to read to.
func (p *pipe) awaitBuffer() ([]byte, error) {
	for {
		p.mu.Lock()
		if p.full = p.queue.size() >= p.proxy.options.Queue; !p.full {
			buf := p.queue.nextBuffer(func() *block { return p.proxy.blocks.Get().(*block) })
			p.mu.Unlock()
			return buf, nil
		}
		p.mu.Unlock()
		p.direction.full.Add(1)
		select {
		case <-p.space:
		case <-p.done:
			return nil, errEnded
		}
	}
}

// queuePieces queues what was read, in pieces; those of an answer are held for as much
// longer as the factor asks.
func (p *pipe) queuePieces(due clock.Time, pieces []piece, factor float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, part := range pieces {
		if part.n > 0 {
			p.queue.putBytes(part.n, due.Add(time.Duration((factor-1)*float64(part.took))), goesOn)
		}
	}
}

// passThrough hands over what was read just now, if it is due at once and the writer
// has nothing to do: that spares waking it.
func (p *pipe) passThrough(now clock.Time, to io.Writer) error {
	if p.proxy.stalled.Load() != nil { // the writer waits for its end
		signalOnce(p.data)
		return nil
	}
	p.mu.Lock()
	mine := !p.busy && p.queue.marks.len() > 0 && p.queue.marks.first().due <= now
	p.busy = p.busy || mine
	p.mu.Unlock()
	if !mine {
		signalOnce(p.data)
		return nil
	}
	err := p.handOver(to, false)
	p.setIdle(err)
	return err
}

// putEnd queues the end.
func (p *pipe) putEnd(due clock.Time, e end) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.putBytes(0, due, e)
	signalOnce(p.data)
}

// writeUntilEnd hands over what is due until the end of the stream is; errReset is what
// the other side shall see of it.
func (p *pipe) writeUntilEnd(to stream) error {
	defer p.alarm.close()
	for {
		next, err := p.nextMark()
		if err != nil {
			return err
		}
		if err := p.waitUntil(next.due); err != nil {
			return err
		}
		if held := p.proxy.stalled.Load(); held != nil {
			select {
			case <-*held:
			case <-p.done:
				return errEnded
			}
		}
		switch {
		case next.end == closes:
			return to.CloseWrite()
		case next.end == resets:
			return errReset
		}
		if err := p.handOver(to, true); err != nil {
			return err
		}
		p.setIdle(nil)
	}
}

// setIdle says that the one who was busy is no more.
func (p *pipe) setIdle(failed error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy, p.failed = false, failed
	if failed != nil || p.queue.marks.len() > 0 {
		signalOnce(p.data)
	}
}

// nextMark waits for a mark and returns the first. The writer is busy from then on,
// until setIdle.
func (p *pipe) nextMark() (mark, error) {
	for {
		p.mu.Lock()
		if p.failed != nil || !p.busy && p.queue.marks.len() > 0 {
			defer p.mu.Unlock()
			if p.failed != nil {
				return mark{}, p.failed
			}
			p.busy = true
			return *p.queue.marks.first(), nil
		}
		p.mu.Unlock()
		select {
		case <-p.data:
		case <-p.done:
			return mark{}, errEnded
		}
	}
}

// waitUntil waits until a time and notes how well it was kept.
func (p *pipe) waitUntil(due clock.Time) error {
	left := p.proxy.options.Clock.Until(due)
	if left <= 0 {
		return nil
	}
	if err := p.alarm.waitFor(left); err != nil {
		return err
	}
	p.direction.recordWake(-p.proxy.options.Clock.Until(due))
	return nil
}

// handOver writes all that is due by now, as fast as the bandwidth lets it; who
// may not wait for that leaves it to the writer.
func (p *pipe) handOver(to io.Writer, mayWait bool) error {
	for {
		rate := p.proxy.link.Load().BytesPerSecond
		if rate > 0 && !mayWait {
			return nil
		}
		now := p.proxy.options.Clock.Now()
		p.mu.Lock()
		bytes := p.queue.dueBytes(now, portionOf(rate))
		p.mu.Unlock()
		if len(bytes) == 0 {
			return nil
		}
		if rate > 0 {
			if err := p.waitUntil(p.direction.reserveTime(now, len(bytes), rate)); err != nil {
				return err
			}
		}
		if p.up { // before the write, since the answer may come at once
			p.calls.requestSent(p.proxy.options.Clock.Now(), bytes)
		}
		if _, err := to.Write(bytes); err != nil {
			return err
		}
		p.direction.bytes.Add(int64(len(bytes)))
		p.direction.writes.Add(1)
		p.releaseBytes(len(bytes))
	}
}

// releaseBytes frees what was handed over.
func (p *pipe) releaseBytes(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := p.queue.discardBytes(n); b != nil {
		p.proxy.blocks.Put(b)
	}
	if p.full && p.queue.size() < p.proxy.options.Queue {
		signalOnce(p.space)
	}
}

// signalOnce wakes the one who waits on c, now or the next time.
func signalOnce(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
