package h2

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

// handleFrame takes a frame. An http2.StreamError resets a stream, any other error ends
// the connection.
func (c *conn) handleFrame(f http2.Frame) error {
	switch f := f.(type) {
	case *http2.HeadersFrame:
		return c.onHeaders(f)
	case *http2.ContinuationFrame:
		return c.onContinuation(f)
	case *http2.DataFrame:
		return c.onData(f)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch f := f.(type) {
	case *http2.WindowUpdateFrame:
		return c.onWindowLocked(f)
	case *http2.RSTStreamFrame:
		return c.onResetLocked(f)
	case *http2.SettingsFrame:
		return c.onSettingsLocked(f)
	case *http2.PingFrame:
		return c.onPingLocked(f)
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return c.flood.addUnits(costFrame) // priorities, farewells and what is unknown
}

func (c *conn) onPingLocked(f *http2.PingFrame) error {
	if !f.IsAck() {
		c.frameLocked(len(f.Data), http2.FramePing, http2.FlagPingAck, 0)
		c.out = append(c.out, f.Data[:]...)
	}
	return c.flood.addUnits(costReply)
}

func (c *conn) onSettingsLocked(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return c.flood.addUnits(costFrame)
	}
	before := c.initial
	if err := f.ForeachSetting(c.settingLocked); err != nil {
		return err
	}
	if err := c.moveWindowsLocked(c.initial - before); err != nil { // once, however often the frame has it
		return err
	}
	c.frameLocked(0, http2.FrameSettings, http2.FlagSettingsAck, 0)
	c.room.Broadcast()
	return c.flood.addUnits(costReply)
}

func (c *conn) settingLocked(s http2.Setting) error {
	if err := s.Valid(); err != nil {
		return err
	}
	switch s.ID {
	case http2.SettingHeaderTableSize:
		c.encoder.SetMaxDynamicTableSize(s.Val)
	case http2.SettingMaxFrameSize:
		c.maxFrame = int64(min(s.Val, outLimit/2)) // a larger one would need a buffer of its own
	case http2.SettingInitialWindowSize:
		c.initial = int64(s.Val)
	}
	return nil
}

// moveWindowsLocked has all streams follow a change of the initial window.
func (c *conn) moveWindowsLocked(grown int64) error {
	for _, open := range c.streams {
		if open.window += grown; open.window > maxWindow {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
	}
	return nil
}

func (c *conn) onWindowLocked(f *http2.WindowUpdateFrame) error {
	s := c.streams[f.StreamID]
	switch {
	case f.StreamID == 0:
		if c.window += int64(f.Increment); c.window > maxWindow {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
	case s != nil:
		if s.window += int64(f.Increment); s.window > maxWindow {
			return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeFlowControl}
		}
	case f.StreamID > c.lastID:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if c.waiting > 0 {
		c.room.Broadcast()
	}
	return c.flood.addUnits(costFrame)
}

func (c *conn) onResetLocked(f *http2.RSTStreamFrame) error {
	if f.StreamID > c.lastID {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if s := c.streams[f.StreamID]; s != nil {
		c.dropLocked(s)
	}
	return c.flood.addUnits(costReset)
}

// onData takes a piece of a request's body.
func (c *conn) onData(f *http2.DataFrame) error {
	whole, err := c.takeData(f)
	if whole != nil {
		c.dispatchStream(whole)
	}
	return err
}

// takeData returns the stream if its handler waits to be called and can be.
func (c *conn) takeData(f *http2.DataFrame) (whole *stream, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	size, data := int64(f.Length), f.Data()
	if c.taken -= size; c.taken < 0 {
		return nil, http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	s := c.streams[f.StreamID]
	if s == nil || s.ended {
		c.creditLocked(size)
		if f.StreamID > c.lastID {
			return nil, http2.ConnectionError(http2.ErrCodeProtocol)
		}
		return nil, http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeStreamClosed} // it may have been on its way when the stream ended
	}
	c.creditLocked(size - int64(len(data)))
	if s.taken -= size; s.taken < 0 {
		return nil, http2.StreamError{StreamID: s.id, Code: http2.ErrCodeFlowControl}
	}
	s.body = append(s.body, data...)
	s.received += int64(len(data))
	if s.declared >= 0 && (s.received > s.declared || f.StreamEnded() && s.received < s.declared) {
		return nil, http2.StreamError{StreamID: s.id, Code: http2.ErrCodeProtocol}
	}
	if f.StreamEnded() {
		return c.endLocked(s), nil
	}
	s.more.Broadcast()
	if len(data) < smallData {
		return nil, c.flood.addUnits(costFrame)
	}
	return nil, nil
}

// smallData is the length below which a frame brings next to nothing.
const smallData = 64

// endLocked says that a request has come whole. It returns the stream if its handler
// has not been called.
func (c *conn) endLocked(s *stream) *stream {
	s.ended = true
	s.more.Broadcast()
	for i, b := range c.begun {
		if b == s {
			c.begun = append(c.begun[:i], c.begun[i+1:]...)
			return s
		}
	}
	return nil
}

// creditLocked lets the client send as much again, in large steps.
func (c *conn) creditLocked(n int64) {
	if c.credit += n; c.credit >= connWindow/4 {
		c.numberLocked(http2.FrameWindowUpdate, 0, uint32(c.credit))
		c.taken += c.credit
		c.credit = 0
	}
}

// frameLocked writes the head of a frame.
func (c *conn) frameLocked(size int, kind http2.FrameType, flags http2.Flags, id uint32) {
	if c.out == nil {
		c.out = c.server.takeBuffer()
	}
	c.out = append(c.out, byte(size>>16), byte(size>>8), byte(size), byte(kind), byte(flags))
	c.out = binary.BigEndian.AppendUint32(c.out, id)
}

// numberLocked writes a frame of one number.
func (c *conn) numberLocked(kind http2.FrameType, id, n uint32) {
	c.frameLocked(4, kind, 0, id)
	c.out = binary.BigEndian.AppendUint32(c.out, n)
}
