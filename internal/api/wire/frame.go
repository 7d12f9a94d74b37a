package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/net/http2"
)

// frame is an HTTP/2 frame (RFC 9113, section 4), or a piece of a DATA frame:
// these are handed on as they come, since they may be large. It is valid until
// the next one is cut.
type frame struct {
	kind    http2.FrameType
	flags   http2.Flags
	stream  uint32
	payload []byte // without padding and priority
	size    int    // of the part of the frame that this is, padding included: what flow control counts
	last    bool   // of a DATA frame: its last piece
	small   bool   // of a DATA frame: all of it brings next to nothing
}

// ended tells whether the stream ends with the frame.
func (f *frame) ended() bool { return f.last && f.flags.Has(http2.FlagDataEndStream) }

var errFrame = errors.New("the server broke the rules of HTTP/2")

const (
	frameHead = 9
	// maxControl is how large a frame may be that is not DATA.
	maxControl = 1 << 20
)

// cutter cuts a stream of bytes, which come in pieces of any size, into frames.
type cutter struct {
	buf     []byte // not yet cut
	used    int    // of buf, by frames that were cut
	data    frame  // the DATA frame that is being handed on
	left    int    // bytes of it that are still to come
	padding int    // of them
}

// room returns where the next bytes go: at least n. What it returned before is
// no more valid, and neither is the last frame.
func (c *cutter) room(n int) []byte {
	if c.used > 0 {
		c.buf = c.buf[:copy(c.buf, c.buf[c.used:])]
		c.used = 0
	}
	if cap(c.buf)-len(c.buf) < n {
		grown := make([]byte, len(c.buf), 2*cap(c.buf)+n)
		copy(grown, c.buf)
		c.buf = grown
	}
	return c.buf[len(c.buf):cap(c.buf)]
}

// add says that n bytes were put where room said.
func (c *cutter) add(n int) { c.buf = c.buf[:len(c.buf)+n] }

// next cuts a frame; false when more bytes are wanted first.
func (c *cutter) next(f *frame) (bool, error) {
	if c.left > 0 {
		return c.piece(f), nil
	}
	b := c.buf[c.used:]
	if len(b) < frameHead {
		return false, nil
	}
	size := int(b[0])<<16 | int(b[1])<<8 | int(b[2])
	*f = frame{
		kind: http2.FrameType(b[3]), flags: http2.Flags(b[4]),
		stream: binary.BigEndian.Uint32(b[5:]) & (1<<31 - 1), size: size, last: true, small: size < smallData,
	}
	if f.kind == http2.FrameData {
		return c.begin(f, b)
	}
	if size > maxControl {
		return false, fmt.Errorf("%w: a frame of %d bytes", errFrame, size)
	}
	if len(b) < frameHead+size {
		return false, nil
	}
	f.payload = b[frameHead : frameHead+size]
	c.used += frameHead + size
	return true, f.strip()
}

// begin reads the head of a DATA frame and hands on its first piece.
func (c *cutter) begin(f *frame, b []byte) (bool, error) {
	head := frameHead
	padding := 0
	if f.flags.Has(http2.FlagDataPadded) {
		if len(b) == head && f.size > 0 {
			return false, nil
		}
		if f.size == 0 || int(b[head]) >= f.size {
			return false, fmt.Errorf("%w: more padding than frame", errFrame)
		}
		padding = int(b[head])
		head++
	}
	c.used += head
	c.left, c.padding = f.size-(head-frameHead), padding
	c.data = *f
	if c.left == 0 {
		return true, nil
	}
	c.data.size = head - frameHead // what this piece counts beside its bytes
	if c.used < len(c.buf) {
		return c.piece(f), nil
	}
	// Nothing but the head is here. Its padding length counts with the next piece.
	return false, nil
}

// piece hands on what is there of a DATA frame.
func (c *cutter) piece(f *frame) bool {
	b := c.buf[c.used:]
	if len(b) == 0 {
		return false
	}
	n := min(len(b), c.left)
	c.used += n
	c.left -= n
	*f = c.data
	c.data.size = 0
	f.size += n
	f.last = c.left == 0
	f.payload = b[:n-max(0, min(n, c.padding-c.left))]
	return true
}

// strip takes padding and priority off a HEADERS frame.
func (f *frame) strip() error {
	if f.kind == http2.FramePushPromise {
		return fmt.Errorf("%w: a push that was not asked for", errFrame)
	}
	if f.kind != http2.FrameHeaders {
		return nil
	}
	p := f.payload
	padding := 0
	if f.flags.Has(http2.FlagHeadersPadded) {
		if len(p) == 0 {
			return fmt.Errorf("%w: more padding than frame", errFrame)
		}
		padding, p = int(p[0]), p[1:]
	}
	if f.flags.Has(http2.FlagHeadersPriority) {
		if len(p) < 5 {
			return fmt.Errorf("%w: a short frame of headers", errFrame)
		}
		p = p[5:]
	}
	if padding > len(p) {
		return fmt.Errorf("%w: more padding than frame", errFrame)
	}
	f.payload = p[:len(p)-padding]
	return nil
}
