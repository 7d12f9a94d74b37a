package load

import (
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// Token scans a list that comes in pieces of a size and returns the token of
// the next page.
func Token(list []byte, size int) string {
	var s scan
	s.beginPage("/", "")
	pieces(list, size, s.writePiece)
	return s.nextToken()
}

// Count counts the events and the bookmarks of a watch that comes in pieces of a
// size.
func Count(stream []byte, size int) (events, bookmarks int) {
	var f frames
	pieces(stream, size, func(p []byte) {
		e, b := f.writePiece(p)
		events, bookmarks = events+e, bookmarks+b
	})
	return events, bookmarks
}

func pieces(p []byte, size int, write func([]byte)) {
	for len(p) > 0 {
		n := min(max(1, size), len(p))
		write(p[:n])
		p = p[n:]
	}
}

// MaxWaiting is how many calls wait for another try without a slot.
const MaxWaiting = maxWaiting

// Starved returns how many entries wait for a slot.
func (g *Generator) Starved() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.starved)
}

// Bucket is the token bucket of a client.
type Bucket = bucket

// Take takes a token, as calls do.
func (b *bucket) Take(now clock.Time, gap time.Duration, burst int) clock.Time {
	return b.take(now, gap, burst)
}
