package wire

import (
	"maps"
	"math"
	"slices"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// readCredit is from how many bytes that were read the server is told that it may send more,
// as golang.org/x/net/http2 does, which client-go uses. Its window of a stream is streamWindow,
// too.
const readCredit = 4 << 10

// readsSlowly tells whether the body waits until it is read.
func (s *stream) readsSlowly() bool {
	return s.request.Read != nil && s.request.Data != nil && s.solo == nil && s.response.Success()
}

// unread returns how many bytes wait to be read.
func (s *stream) unread() int { return len(s.body) - s.read }

// keepUnreadLocked has a piece of the body wait until it is read; callers hold mu.
func (s *stream) keepUnreadLocked(k *conn, p []byte) {
	c, now := k.client, k.now
	if s.unread() == 0 {
		s.request.Read(now, 0) // what was not there could not be read
		c.wakeSweeperLocked(now)
	}
	s.body = append(s.body, p...)
	s.listSlowLocked(k)
}

// listSlowLocked has the sweep look at a stream; callers hold mu.
func (s *stream) listSlowLocked(k *conn) {
	if k.client.slow == nil {
		k.client.slow = map[*stream]*conn{}
	}
	k.client.slow[s] = k
}

// lingerLocked keeps a stream that has ended, and of which the connection knows no more, until
// its body has been read; false when nothing is to be read of it. Callers hold mu.
func (c *Client) lingerLocked(s *stream, k *conn, err error) bool {
	if !s.reading && (c.closed || !s.readsSlowly() || s.unread() == 0) {
		delete(c.slow, s)
		return false
	}
	s.over, s.end = true, err
	s.listSlowLocked(k)
	c.wakeSweeperLocked(k.now)
	return true
}

// readSlowlyLocked reads what is to be read by now. It returns the streams that are read to
// their end, or past their deadline, and when the next ones are to be read. Callers hold mu,
// which is free while Data runs.
func (c *Client) readSlowlyLocked(now clock.Time) (ended []*stream, next clock.Time) {
	next = math.MaxInt64
	for _, s := range slices.Collect(maps.Keys(c.slow)) {
		k, listed := c.slow[s]
		if !listed { // it ended while another one was read
			continue
		}
		n, again := s.request.Read(now, s.unread())
		s.passOnLocked(k, n)
		if s.over && s.deadline <= now {
			s.body, s.read, s.end = s.body[:0], 0, nil
		}
		switch {
		case s.unread() > 0:
			next = min(next, again)
			if s.over {
				next = min(next, s.deadline)
			}
		case s.over:
			delete(c.slow, s)
			ended = append(ended, s)
		}
	}
	return ended, next
}

// passOnLocked gives the next n bytes of a body to Data and lets the server send as many more.
// Callers hold mu, which is free meanwhile.
func (s *stream) passOnLocked(k *conn, n int) {
	c := k.client
	if n <= 0 {
		return
	}
	piece := s.body[s.read : s.read+n]
	s.reading = true
	c.mu.Unlock()
	s.request.Data(piece)
	c.mu.Lock()
	s.reading = false
	s.read += n
	switch {
	case s.unread() == 0 && cap(s.body) > pieceSize:
		s.body, s.read = nil, 0
	case s.read > len(s.body)/2:
		s.body, s.read = s.body[:copy(s.body, s.body[s.read:])], 0
	}
	if s.credit += int64(n); s.credit >= readCredit && !s.over {
		k.windowUpdate(s.id, int(s.credit))
		s.credit = 0
		k.wake()
	}
}

// Unread returns how many bytes have come that are not read yet, of requests with Read.
func (c *Client) Unread() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.slow {
		n += s.unread()
	}
	return n
}
