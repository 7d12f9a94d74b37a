package proxy

import (
	"encoding/binary"
	"sync"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// HTTP/2 as far as it matters here (RFC 9113, sections 3.4 and 4.1).
const (
	prefaceBytes   = 24
	frameHeadBytes = 9
	frameData      = 0
	frameHeaders   = 1
	frameReset     = 3
	frameContinued = 9
	flagEndStream  = 1
)

// frame is the head of one HTTP/2 frame.
type frame struct {
	typ, flags byte
	stream     uint32
}

// isCarrying says whether it is a part of a request or of an answer.
func (f frame) isCarrying() bool {
	return f.stream != 0 && (f.typ == frameData || f.typ == frameHeaders || f.typ == frameContinued)
}

// scanner finds the frames in bytes that come in parts of any size.
type scanner struct {
	skip  int // bytes until the next head begins
	head  [frameHeadBytes]byte
	have  int // bytes of the head
	frame frame
}

// nextFrame returns how many of the bytes, at least one, belong to one frame, which
// one, and whether they are its last. It is no frame while its head is not
// complete, nor is the preface.
func (s *scanner) nextFrame(bytes []byte) (n int, f frame, last bool) {
	if s.skip == 0 {
		n = copy(s.head[s.have:], bytes)
		if s.have += n; s.have < frameHeadBytes {
			return n, frame{}, false
		}
		s.have = 0
		s.skip = int(s.head[0])<<16 | int(s.head[1])<<8 | int(s.head[2])
		s.frame = frame{s.head[3], s.head[4], binary.BigEndian.Uint32(s.head[5:]) &^ (1 << 31)}
	}
	payload := min(s.skip, len(bytes)-n)
	s.skip -= payload
	return n + payload, s.frame, s.skip == 0
}

// http2 tells the calls of an HTTP/2 connection apart by their streams.
type http2 struct {
	mu       sync.Mutex
	up, down scanner
	streams  map[uint32]*call
}

func newHTTP2() *http2 {
	return &http2{up: scanner{skip: prefaceBytes}, streams: map[uint32]*call{}}
}

func (h *http2) requestSent(now clock.Time, bytes []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(bytes) > 0 {
		n, f, last := h.up.nextFrame(bytes)
		bytes = bytes[n:]
		switch {
		case f.isCarrying():
			if f.typ == frameHeaders && h.streams[f.stream] == nil {
				h.streams[f.stream] = &call{}
			}
			if c := h.streams[f.stream]; c != nil { // not yet answered to the end
				c.noteRequest(now)
			}
		case f.typ == frameReset && last:
			delete(h.streams, f.stream)
		}
	}
}

func (h *http2) answerRead(now clock.Time, bytes []byte, to []piece) []piece {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(bytes) > 0 {
		n, f, last := h.down.nextFrame(bytes)
		bytes = bytes[n:]
		p := piece{n: n}
		c := h.streams[f.stream]
		if c != nil && f.isCarrying() {
			p.took = c.answerDelay(now)
		}
		if last && (f.typ == frameReset || f.isCarrying() && f.flags&flagEndStream != 0 && f.typ != frameContinued) {
			delete(h.streams, f.stream)
		}
		to = append(to, p)
	}
	return to
}
