package wire

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// readLoop reads frames until the connection breaks, then ends its requests.
func (k *conn) readLoop() {
	defer k.client.wait.Done()
	for {
		frame, err := k.framer.ReadFrame()
		if err == nil {
			err = k.handle(frame)
		}
		if err != nil {
			k.ended(err)
			return
		}
	}
}

// ended reports the connection's end to every request that was on it.
func (k *conn) ended(err error) {
	c := k.client
	c.mu.Lock()
	k.broken(fmt.Errorf("%w: %w", ErrLost, err))
	cause := k.err
	orphans := k.streams
	k.streams, k.unanswered = map[uint32]*stream{}, 0
	c.lost(k)
	c.mu.Unlock()
	for _, s := range orphans {
		c.finish(s, cause)
	}
	c.Flush()
}

func (k *conn) handle(frame http2.Frame) error {
	switch f := frame.(type) {
	case *http2.DataFrame:
		return k.onData(f)
	case *http2.HeadersFrame:
		return k.onHeaders(f.StreamID, f.HeaderBlockFragment(), f.HeadersEnded(), f.StreamEnded())
	case *http2.ContinuationFrame:
		return k.onContinuation(f)
	case *http2.SettingsFrame:
		return k.onSettings(f)
	case *http2.WindowUpdateFrame:
		k.onWindow(f)
	case *http2.RSTStreamFrame:
		k.onReset(f.StreamID, f.ErrCode)
	case *http2.GoAwayFrame:
		k.onGoAway(f.LastStreamID)
	case *http2.PingFrame:
		k.onPing(f)
	}
	return nil
}

// onHeaders decodes a header block. Every block must be decoded, also those of
// streams given up, or the shared table would go astray.
func (k *conn) onHeaders(id uint32, block []byte, whole, last bool) error {
	c := k.client
	c.mu.Lock()
	k.heard = c.options.Clock.Now()
	s := k.streams[id]
	k.current = s
	c.mu.Unlock()
	if !whole {
		k.fragment = append(k.fragment[:0], block...)
		if last && s != nil {
			s.response.ReceivedBytes = -1 // marks that no data follows the continuation
		}
		return nil
	}
	return k.headersDone(id, block, last)
}

func (k *conn) onContinuation(f *http2.ContinuationFrame) error {
	if len(k.fragment)+len(f.HeaderBlockFragment()) > 1<<20 {
		return errors.New("header block too large")
	}
	k.fragment = append(k.fragment, f.HeaderBlockFragment()...)
	if !f.HeadersEnded() {
		return nil
	}
	last := false
	k.client.mu.Lock()
	if s := k.streams[f.StreamID]; s != nil && s.response.ReceivedBytes < 0 {
		s.response.ReceivedBytes = 0
		last = true
	}
	k.client.mu.Unlock()
	return k.headersDone(f.StreamID, k.fragment, last)
}

func (k *conn) headersDone(id uint32, block []byte, last bool) error {
	k.decoder.SetEmitEnabled(k.current != nil)
	if _, err := k.decoder.Write(block); err != nil {
		return fmt.Errorf("header block: %w", err)
	}
	if err := k.decoder.Close(); err != nil {
		return fmt.Errorf("header block: %w", err)
	}
	if last {
		k.complete(id)
	} else if s := k.current; s != nil && s.request.Hold > 0 {
		k.opened(s)
	}
	return nil
}

// opened tells that the answer of a held watch has begun.
func (k *conn) opened(s *stream) {
	c := k.client
	now := c.options.Clock.Now()
	c.mu.Lock()
	if k.streams[s.id] != s || s.response.Code >= 400 || s.response.Code < 200 || s.deadline == 0 || s.opened {
		c.mu.Unlock()
		return
	}
	s.opened, s.deadline = true, now.Add(s.request.Hold)
	s.feeding = true
	s.response.Done = now
	c.mu.Unlock()
	if s.request.Opened != nil {
		s.request.Opened(&s.response)
	}
	_ = k.fed(s, nil)
}

// header takes one field of the answer to current. A stream's response belongs
// to the read loop until it is complete; a sweep that takes the stream away
// sets current to nil under mu, which is why it is looked at there.
func (k *conn) header(f hpack.HeaderField) {
	k.client.mu.Lock()
	defer k.client.mu.Unlock()
	s := k.current
	if s == nil {
		return
	}
	switch f.Name {
	case ":status":
		s.response.Code, _ = strconv.Atoi(f.Value)
		if s.response.Code < 400 {
			k.decoder.SetEmitEnabled(false) // nothing else is wanted of a success
		}
	case "retry-after":
		if n, err := strconv.Atoi(f.Value); err == nil && n >= 0 {
			s.response.RetryAfter = time.Duration(n) * time.Second
		}
	}
}

func (k *conn) onData(f *http2.DataFrame) error {
	c := k.client
	data := f.Data()
	c.mu.Lock()
	k.heard = c.options.Clock.Now()
	s := k.streams[f.StreamID]
	k.credit(f, s)
	if s == nil {
		c.mu.Unlock()
		return nil
	}
	s.response.ReceivedBytes += len(data)
	feed := s.feed(data)
	if feed == nil && s.keeps(len(data)) {
		s.body = append(s.body, data...)
	}
	tooLarge := len(s.body) > MaxBody
	if tooLarge {
		k.drop(f.StreamID)
		k.reset(f.StreamID, http2.ErrCodeCancel)
	}
	c.mu.Unlock()
	if tooLarge {
		c.finish(s, ErrTooLarge)
		return nil
	}
	if feed != nil {
		if err := k.fed(s, feed(data)); err != nil {
			return err
		}
	}
	if f.StreamEnded() {
		k.complete(f.StreamID)
	}
	return nil
}

// feed returns what takes the next piece of the body, if anything does, and
// keeps the stream from being taken meanwhile; callers hold mu.
func (s *stream) feed(data []byte) func([]byte) error {
	if len(data) == 0 || s.response.Code >= 400 { // the body of a refusal is kept for its message
		return nil
	}
	if s.solo != nil {
		return s.solo
	}
	if s.request.Data == nil {
		return nil
	}
	s.feeding = true
	return func(p []byte) error { s.request.Data(p); return nil }
}

// fed ends what feed began. An error ends the connection, which the stream has
// to itself.
func (k *conn) fed(s *stream, err error) error {
	k.client.mu.Lock()
	s.feeding = false
	k.client.mu.Unlock()
	return err
}

// keeps says whether the next n bytes of the body are wanted.
func (s *stream) keeps(n int) bool {
	if !s.request.Discard {
		return true
	}
	return s.response.Code >= 400 && len(s.body)+n <= maxErrorBody
}

// credit returns the room that data took to the server, in large steps.
func (k *conn) credit(f *http2.DataFrame, s *stream) {
	n := int64(f.Length)
	k.received += n
	if k.received > connWindow/4 {
		k.windowUpdate(0, int(k.received))
		k.received = 0
		k.wake()
	}
	if s == nil || f.StreamEnded() {
		return
	}
	s.credit += n
	if s.credit > streamWindow/4 {
		k.windowUpdate(s.id, int(s.credit))
		s.credit = 0
		k.wake()
	}
}

// complete hands a finished answer to its callback.
func (k *conn) complete(id uint32) {
	c := k.client
	now := c.options.Clock.Now()
	c.mu.Lock()
	s := k.streams[id]
	if s == nil {
		c.mu.Unlock()
		return
	}
	if len(s.unsent) > 0 {
		k.reset(id, http2.ErrCodeNo) // answered before all was sent
	}
	k.drop(id)
	c.drainQueue()
	c.mu.Unlock()
	s.response.Done = now
	s.response.Body = s.body
	s.done(&s.response)
	s.free()
}

func (k *conn) onSettings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	c := k.client
	c.mu.Lock()
	defer c.mu.Unlock()
	err := f.ForeachSetting(func(s http2.Setting) error {
		switch s.ID {
		case http2.SettingMaxConcurrentStreams:
			k.maxStreams = int(min(s.Val, 10_000))
		case http2.SettingInitialWindowSize:
			delta := int64(s.Val) - k.initial
			k.initial = int64(s.Val)
			for _, open := range k.streams {
				open.window += delta
			}
		case http2.SettingHeaderTableSize:
			k.encoder.SetMaxDynamicTableSizeLimit(s.Val)
		}
		return s.Valid()
	})
	k.frameHead(0, http2.FrameSettings, http2.FlagSettingsAck, 0)
	k.resume()
	c.drainQueue()
	return err
}

func (k *conn) onWindow(f *http2.WindowUpdateFrame) {
	k.client.mu.Lock()
	defer k.client.mu.Unlock()
	if f.StreamID == 0 {
		k.window += int64(f.Increment)
	} else if s := k.streams[f.StreamID]; s != nil {
		s.window += int64(f.Increment)
	}
	if len(k.held) > 0 {
		k.resume()
	}
}

func (k *conn) onPing(f *http2.PingFrame) {
	k.client.mu.Lock()
	defer k.client.mu.Unlock()
	k.heard = k.client.options.Clock.Now()
	if f.IsAck() {
		return
	}
	k.frameHead(8, http2.FramePing, http2.FlagPingAck, 0)
	k.out = append(k.out, f.Data[:]...)
	k.wake()
}

// onReset ends a stream that the server gave up. REFUSED_STREAM promises that
// it was not looked at: it is sent again. After a whole answer NO_ERROR only
// asks us to stop sending.
func (k *conn) onReset(id uint32, code http2.ErrCode) {
	c := k.client
	c.mu.Lock()
	s := k.streams[id]
	if s == nil {
		c.mu.Unlock()
		return
	}
	k.drop(id)
	if code == http2.ErrCodeRefusedStream && s.solo == nil {
		s.again()
		c.queue.push(s)
		c.drainQueue()
		c.mu.Unlock()
		return
	}
	c.drainQueue()
	c.mu.Unlock()
	c.finish(s, fmt.Errorf("%w: stream reset: %v", ErrLost, code))
}

// onGoAway moves the streams that the server will not look at to other
// connections, and lets the rest finish here.
func (k *conn) onGoAway(last uint32) {
	c := k.client
	c.mu.Lock()
	k.draining = true
	var failed []*stream
	for id, s := range k.streams {
		if id <= last {
			continue
		}
		k.forget(id)
		if s.solo == nil {
			s.again()
			c.queue.push(s)
		} else {
			failed = append(failed, s)
		}
	}
	if len(k.streams) == 0 {
		k.broken(ErrClosed)
	}
	c.drainQueue()
	c.dialMissing(c.options.Connections)
	if c.queue.len() > 0 {
		c.dialMore()
	}
	c.mu.Unlock()
	for _, s := range failed {
		c.finish(s, fmt.Errorf("%w: the server closes the connection", ErrLost))
	}
}

// again prepares a stream that was not looked at for another connection. How
// often that may happen is bounded by the request's deadline.
func (s *stream) again() {
	s.unsent, s.body, s.credit = nil, s.body[:0], 0
}
