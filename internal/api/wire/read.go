package wire

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// readLoop reads until the connection breaks, then ends its requests.
func (k *conn) readLoop() {
	defer k.client.wait.Done()
	err := k.arrived() // something may have come behind the handshake
	if err == nil {
		err = k.in.receive(k.arrived)
	}
	k.ended(err)
	_ = k.net.NetConn().Close()
}

// arrived is called when the network brought something. It handles all frames
// that are whole, and then writes, in one go, what they gave rise to.
func (k *conn) arrived() error {
	k.now = k.client.options.Clock.Now()
	for {
		n, err := k.net.Read(k.frames.room(len(k.in.room) / 2))
		k.frames.add(n)
		if n > 0 {
			if err := k.handleAll(); err != nil {
				return err
			}
		}
		if err != nil {
			k.react()
			if _, ok := err.(emptyError); ok { //nolint:errorlint // made here, and looked at for each read
				return nil
			}
			return err
		}
	}
}

// react writes what the frames gave rise to, on this connection and on those
// that callbacks posted to.
func (k *conn) react() {
	c := k.client
	c.mu.Lock()
	defer c.mu.Unlock()
	k.flushLocked()
	for _, other := range c.conns {
		if other != nil {
			other.flushLocked()
		}
	}
}

// handleAll handles the frames that are whole. It holds mu as briefly as it can:
// whoever sends waits for it, and this goroutine's thread may have to leave the
// core at any time.
func (k *conn) handleAll() error {
	var f frame
	for {
		ok, err := k.frames.next(&f)
		if err == nil && ok {
			err = k.handle(&f)
		}
		if err != nil || !ok {
			return err
		}
	}
}

// ended reports the connection's end to every request that was on it.
func (k *conn) ended(err error) {
	c := k.client
	c.mu.Lock()
	k.breakLocked(fmt.Errorf("%w: %w", ErrLost, err))
	cause := k.err
	orphans := k.streams
	k.streams, k.unanswered = map[uint32]*stream{}, 0
	maps.DeleteFunc(orphans, func(_ uint32, s *stream) bool { return c.lingerLocked(s, k, cause) })
	c.removeConnLocked(k)
	c.mu.Unlock()
	for _, s := range orphans {
		c.finish(s, cause)
	}
	c.Flush()
}

func (k *conn) handle(f *frame) error {
	if k.continued != 0 && (f.kind != http2.FrameContinuation || f.stream != k.continued) {
		return fmt.Errorf("%w: a header block was not continued", errFrame)
	}
	switch f.kind {
	case http2.FrameData:
		return k.onData(f)
	case http2.FrameHeaders:
		return k.onHeaders(f)
	case http2.FrameContinuation:
		return k.onContinuation(f)
	}
	if err := k.idle.control(k.now, f); err != nil {
		return err
	}
	k.client.mu.Lock()
	defer k.client.mu.Unlock()
	switch f.kind {
	case http2.FrameSettings:
		return k.onSettings(f)
	case http2.FrameWindowUpdate:
		return k.onWindow(f)
	case http2.FrameRSTStream:
		return k.onReset(f)
	case http2.FrameGoAway:
		return k.onGoAway(f)
	case http2.FramePing:
		return k.onPing(f)
	}
	return nil // unknown kinds are to be ignored
}

// onHeaders decodes a header block. Every block must be decoded, also those of
// streams given up, or the shared table would go astray.
func (k *conn) onHeaders(f *frame) error {
	last := f.flags.Has(http2.FlagHeadersEndStream)
	if !f.flags.Has(http2.FlagHeadersEndHeaders) {
		k.fragment = append(k.fragment[:0], f.payload...)
		k.continued, k.continuedLast = f.stream, last
		if k.continued == 0 {
			return fmt.Errorf("%w: a header block without a stream", errFrame)
		}
		return nil
	}
	return k.headers(f.stream, f.payload, last)
}

func (k *conn) onContinuation(f *frame) error {
	if k.continued == 0 {
		return fmt.Errorf("%w: nothing to continue", errFrame)
	}
	if len(k.fragment)+len(f.payload) > maxHeader {
		return fmt.Errorf("%w: a header block of more than %d bytes", errFrame, maxHeader)
	}
	if err := k.idle.add(k.now, 0); err != nil { // each may be empty, and so without end
		return err
	}
	k.fragment = append(k.fragment, f.payload...)
	if !f.flags.Has(http2.FlagContinuationEndHeaders) {
		return nil
	}
	k.continued = 0
	return k.headers(f.stream, k.fragment, k.continuedLast)
}

// headers takes a whole header block.
func (k *conn) headers(id uint32, block []byte, last bool) error {
	c := k.client
	c.mu.Lock()
	k.heard = k.now
	s := k.streams[id]
	began := s != nil && s.response.Code >= 200
	if s != nil {
		s.feeding = true
	}
	c.mu.Unlock()
	err := k.decode(s, block)
	if err == nil && !last && (s == nil || began || s.response.Code < 200) {
		err = k.idle.add(k.now, len(block)) // a stream may get any number of them
	}
	if s == nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.feeding = false
	switch {
	case err != nil:
	case last:
		k.completeLocked(s)
	case s.request.Hold > 0:
		k.noteWatchOpenedLocked(s)
	}
	return err
}

// decode reads a header block for a stream that is not taken away meanwhile, or
// for none.
func (k *conn) decode(s *stream, block []byte) error {
	if len(block) > maxHeader {
		return fmt.Errorf("%w: a header block of %d bytes", errFrame, len(block))
	}
	k.current = s
	k.decoder.SetEmitEnabled(s != nil)
	_, err := k.decoder.Write(block)
	if err == nil {
		err = k.decoder.Close()
	}
	k.current = nil
	if err != nil {
		return fmt.Errorf("header block: %w", err)
	}
	return nil
}

// header takes one field of the answer to current.
func (k *conn) header(f hpack.HeaderField) {
	s := k.current
	if s == nil {
		return
	}
	switch f.Name {
	case ":status":
		if s.response.Code, _ = strconv.Atoi(f.Value); s.response.Success() {
			k.decoder.SetEmitEnabled(false) // nothing else is wanted of a success
		}
		if s.response.Code == http.StatusUnauthorized {
			k.client.renewSoon()
		}
	case "retry-after":
		if n, err := strconv.Atoi(f.Value); err == nil && n >= 0 {
			s.response.RetryAfter = min(time.Duration(min(n, math.MaxInt32))*time.Second, maxRetryAfter)
		}
	}
}

// maxRetryAfter is the longest time that a server may have a client wait: a slip or
// a stranger's server would have a run stand still for years.
const maxRetryAfter = time.Minute

// noteWatchOpenedLocked tells that the answer of a held watch has begun; callers hold mu.
func (k *conn) noteWatchOpenedLocked(s *stream) {
	if !s.response.Success() || s.opened || s.deadline <= k.now { // a late one is the next sweep's
		return
	}
	s.opened, s.deadline = true, k.now.Add(s.request.Hold)
	k.client.wakeSweeperLocked(k.now)
	s.response.Done = k.now
	if s.request.Opened != nil {
		k.releaseAndCallLocked(s, func() { s.request.Opened(&s.response) })
	}
}

// releaseAndCallLocked calls one of a request's functions without mu, which callers hold. The
// stream is not taken away meanwhile.
func (k *conn) releaseAndCallLocked(s *stream, f func()) {
	s.feeding = true
	k.client.mu.Unlock()
	f()
	k.client.mu.Lock()
	s.feeding = false
}

func (k *conn) onData(f *frame) error {
	c := k.client
	c.mu.Lock()
	defer c.mu.Unlock()
	k.heard = k.now
	s := k.streams[f.stream]
	k.credit(f, s)
	if f.small && !f.ended() {
		if err := k.idle.take(k.now, smallUnits); err != nil {
			return err
		}
	}
	if s == nil {
		if k.stray -= int64(f.size); k.stray < 0 {
			return fmt.Errorf("%w: data of a stream that is over", errFrame)
		}
		return nil
	}
	s.response.ReceivedBytes += len(f.payload)
	if s.bodyLength()+len(f.payload) > MaxBody {
		k.drop(f.stream)
		k.reset(f.stream, http2.ErrCodeCancel)
		if !c.lingerLocked(s, k, ErrTooLarge) {
			k.finishLocked(s, ErrTooLarge)
		}
		return nil
	}
	if err := k.feedBodyLocked(s, f.payload); err != nil {
		return err
	}
	if f.ended() {
		k.completeLocked(s)
	}
	return nil
}

// feedBodyLocked gives a piece of the body to whom it belongs. An error ends the
// connection, which the stream has to itself. Callers hold mu.
func (k *conn) feedBodyLocked(s *stream, p []byte) error {
	success := s.response.Success() // the body of a refusal is kept for its message
	switch {
	case len(p) == 0:
	case success && s.solo != nil:
		var err error
		k.releaseAndCallLocked(s, func() { err = s.solo(p) })
		return err
	case s.readsSlowly():
		s.keepUnreadLocked(k, p)
	case success && s.request.Data != nil:
		k.releaseAndCallLocked(s, func() { s.request.Data(p) })
	case s.keeps(len(p)):
		s.keepBody(p)
	}
	return nil
}

// keeps says whether the next n bytes of the body are wanted.
func (s *stream) keeps(n int) bool {
	if !s.request.Discard {
		return true
	}
	return !s.response.Success() && len(s.body)+n <= maxErrorBody
}

// credit returns the room that data took to the server, in large steps.
func (k *conn) credit(f *frame, s *stream) {
	n := int64(f.size)
	k.received += n
	if k.received > connWindow/4 {
		k.windowUpdate(0, int(k.received))
		k.received = 0
	}
	if s == nil || f.ended() {
		return
	}
	if s.readsSlowly() {
		n -= int64(len(f.payload)) // the server is told of the rest when it has been read
	}
	s.credit += n
	if s.credit > streamWindow/4 {
		k.windowUpdate(s.id, int(s.credit))
		s.credit = 0
	}
}

// completeLocked hands a finished answer to its callback; callers hold mu.
func (k *conn) completeLocked(s *stream) {
	if len(s.unsent) > 0 {
		k.reset(s.id, http2.ErrCodeNo) // answered before all was sent
	}
	k.drop(s.id)
	k.idle.answered()
	k.answered = true
	if k.place >= 0 {
		k.client.futile[k.place] = 0
	}
	k.client.drainQueueLocked()
	if k.client.lingerLocked(s, k, nil) {
		return
	}
	if s.deadline <= k.now && !s.opened && s.solo == nil { // the sweep, which looks every sweepEvery, was later
		s.response.Code, s.response.RetryAfter = 0, 0
		k.finishLocked(s, ErrTimeout)
		return
	}
	s.response.Body = s.joinBody()
	var err error
	if s.response.Code < 200 { // none, one that is no number, or an interim one that nothing followed
		err = ErrNoStatus
	}
	k.finishLocked(s, err)
}

// finishLocked calls the callback of a stream that was dropped, without mu, which
// callers hold.
func (k *conn) finishLocked(s *stream, err error) {
	k.client.mu.Unlock()
	defer k.client.mu.Lock()
	s.response.Err = err
	s.response.Done = k.now
	s.done(&s.response)
	s.free()
}
