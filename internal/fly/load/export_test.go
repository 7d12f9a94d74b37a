package load

import (
	"fmt"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load/informer"
)

// Token scans a list that comes in pieces of a size and returns the token of
// the next page.
func Token(list []byte, size int) string {
	var s scan
	s.beginPage("/", "")
	pieces(list, size, s.writePiece)
	return s.nextToken()
}

// Version scans a list that comes in pieces of a size and returns its version.
func Version(list []byte, size int) string {
	var s scan
	s.beginPage("/", "")
	pieces(list, size, s.writePiece)
	return s.version
}

// Events returns what an informer sees of a watch that comes in pieces of a size.
func Events(stream []byte, size int) (seen []string) {
	words := map[informer.Event]string{informer.Added: "added", informer.Changed: "changed", informer.Bookmark: "bookmark", informer.InitialEnd: "initial-end"}
	f := frames{see: func(head []byte, isProtobuf bool) {
		kind, version, failed := readEvent(head, isProtobuf)
		if failed != nil {
			seen = append(seen, fmt.Sprint("error ", failed.Code, " ", failed.Message))
			return
		}
		seen = append(seen, words[kind]+" "+string(version))
	}}
	pieces(stream, size, func(p []byte) { f.writePiece(p) })
	return seen
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
