package load

import (
	"bytes"
	"encoding/binary"
)

// frames counts the events of a watch that passes by, in pieces of any size:
// lines of JSON, or protobuf behind four bytes of length.
type frames struct {
	events int // without bookmarks
	bytes  int64

	known    bool
	protobuf bool
	size     []byte // of protobuf: the bytes of the length
	left     int    // of protobuf: of the frame
	head     []byte // the frame's first bytes, which name the event's type

	see func(head []byte, protobuf bool) // of an informer: it is shown each frame, or its first bytes
}

const (
	// headSize is how many bytes hold the type of an event in both forms.
	headSize = 24
	// protobufHead and jsonHead are how many bytes an informer looks at of a frame that comes
	// in pieces: names and version come first in protobuf, and in JSON of custom resources
	// behind annotations and managed fields.
	protobufHead = 4 << 10
	jsonHead     = 64 << 10
	// restHead is what a watch keeps between two frames.
	restHead = 256
)

// writePiece takes the next piece and returns how many events and bookmarks ended in
// it.
func (f *frames) writePiece(p []byte) (events, bookmarks int) {
	f.bytes += int64(len(p))
	if !f.known && len(p) > 0 {
		f.known, f.protobuf = true, p[0] != '{'
	}
	for len(p) > 0 {
		var whole bool
		if f.protobuf {
			p, whole = f.readFrame(p)
		} else {
			p, whole = f.readLine(p)
		}
		if !whole {
			continue
		}
		if bytes.Contains(f.head[:min(len(f.head), headSize)], []byte("BOOKMARK")) {
			bookmarks++
		} else {
			events++
		}
		if f.see != nil {
			f.see(f.head, f.protobuf)
		}
		if f.head = f.head[:0]; cap(f.head) > restHead {
			f.head = nil
		}
	}
	f.events += events
	return events, bookmarks
}

// keepHead takes what is missing of the frame's first bytes.
func (f *frames) keepHead(p []byte) {
	size := headSize
	switch {
	case f.see != nil && f.protobuf:
		size = protobufHead
	case f.see != nil:
		size = jsonHead
	}
	f.head = append(f.head, p[:min(len(p), size-len(f.head))]...)
}

// readLine reads up to the end of a line, and returns what is behind it.
func (f *frames) readLine(p []byte) (rest []byte, whole bool) {
	line, rest, whole := bytes.Cut(p, []byte{'\n'})
	f.keepHead(line)
	return rest, whole && len(f.head) > 0
}

// readFrame reads up to the end of a frame, and returns what is behind it.
func (f *frames) readFrame(p []byte) (rest []byte, whole bool) {
	if f.left == 0 {
		n := min(4-len(f.size), len(p))
		f.size = append(f.size, p[:n]...)
		p = p[n:]
		if len(f.size) < 4 {
			return p, false
		}
		f.left = int(binary.BigEndian.Uint32(f.size))
		f.size = f.size[:0]
		if f.left == 0 {
			return p, false
		}
	}
	n := min(f.left, len(p))
	f.keepHead(p[:n])
	f.left -= n
	return p[n:], f.left == 0
}
