package wire

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/net/http2"
)

func (k *conn) onSettings(f *frame) error {
	if f.flags.Has(http2.FlagSettingsAck) {
		return nil
	}
	if len(f.payload)%6 != 0 {
		return fmt.Errorf("%w: settings of %d bytes", errFrame, len(f.payload))
	}
	before := k.initial
	for p := f.payload; len(p) > 0; p = p[6:] {
		s := http2.Setting{ID: http2.SettingID(binary.BigEndian.Uint16(p)), Val: binary.BigEndian.Uint32(p[2:])}
		if err := s.Valid(); err != nil {
			return fmt.Errorf("%w: %w", errFrame, err)
		}
		k.setting(s)
	}
	if k.initial != before {
		for _, open := range k.streams {
			open.window += k.initial - before
		}
	}
	if err := k.countReplyLocked(); err != nil {
		return err
	}
	k.frameHead(0, http2.FrameSettings, http2.FlagSettingsAck, 0)
	k.resumeHeldLocked()
	k.client.drainQueueLocked()
	return nil
}

func (k *conn) setting(s http2.Setting) {
	switch s.ID {
	case http2.SettingMaxConcurrentStreams:
		k.maxStreams = int(min(s.Val, 10_000))
	case http2.SettingInitialWindowSize:
		k.initial = int64(s.Val)
	case http2.SettingHeaderTableSize:
		k.encoder.SetMaxDynamicTableSizeLimit(s.Val)
	}
}

// number reads the one number of a frame of n bytes.
func (f *frame) number(n int) (uint32, error) {
	if len(f.payload) < n {
		return 0, fmt.Errorf("%w: a %v of %d bytes", errFrame, f.kind, len(f.payload))
	}
	return binary.BigEndian.Uint32(f.payload), nil
}

func (k *conn) onWindow(f *frame) error {
	n, err := f.number(4)
	if err != nil {
		return err
	}
	n &= 1<<31 - 1
	if f.stream == 0 {
		k.window += int64(n)
	} else if s := k.streams[f.stream]; s != nil {
		s.window += int64(n)
	}
	if len(k.held) > 0 {
		k.resumeHeldLocked()
	}
	return nil
}

func (k *conn) onPing(f *frame) error {
	if len(f.payload) != 8 {
		return fmt.Errorf("%w: a ping of %d bytes", errFrame, len(f.payload))
	}
	k.heard = k.now
	if !f.flags.Has(http2.FlagPingAck) {
		if err := k.countReplyLocked(); err != nil {
			return err
		}
		k.frameHead(8, http2.FramePing, http2.FlagPingAck, 0)
		k.out = append(k.out, f.payload...)
	}
	return nil
}

// onReset ends a stream that the server gave up. REFUSED_STREAM promises that
// it was not looked at: it is sent again. After a whole answer NO_ERROR only
// asks us to stop sending.
func (k *conn) onReset(f *frame) error {
	code, err := f.number(4)
	if err != nil {
		return err
	}
	s := k.streams[f.stream]
	if s == nil {
		return nil
	}
	k.drop(f.stream)
	if failure := fmt.Errorf("%w: %w: %v", ErrLost, ErrReset, http2.ErrCode(code)); k.client.lingerLocked(s, k, failure) {
		return nil
	}
	if http2.ErrCode(code) == http2.ErrCodeRefusedStream && s.solo == nil {
		again := s.prepareAgain()
		if again {
			k.client.queue.push(s)
		}
		k.client.drainQueueLocked()
		if !again {
			k.finishLocked(s, turnedAway())
		}
		return nil
	}
	k.client.drainQueueLocked()
	k.finishLocked(s, fmt.Errorf("%w: %w: %v", ErrLost, ErrReset, http2.ErrCode(code)))
	return nil
}

// onGoAway moves the streams that the server will not look at to other
// connections, and lets the rest finish here.
func (k *conn) onGoAway(f *frame) error {
	last, err := f.number(8)
	if err != nil {
		return err
	}
	c := k.client
	k.draining = true
	var failed []*stream
	for id, s := range k.streams {
		if id <= last&(1<<31-1) {
			continue
		}
		k.forget(id)
		if c.lingerLocked(s, k, turnedAway()) {
			continue
		}
		if k.answered { // the orderly end of a connection that served: it may befall a request many times
			s.turned--
		}
		if s.solo == nil && s.prepareAgain() {
			c.queue.push(s)
		} else {
			failed = append(failed, s)
		}
	}
	if len(k.streams) == 0 {
		k.breakLocked(ErrClosed)
	}
	c.drainQueueLocked()
	c.dialMissingLocked(c.options.Connections)
	if c.queue.len() > 0 {
		c.dialMoreLocked()
	}
	for _, s := range failed {
		err := turnedAway()
		if s.solo != nil {
			err = fmt.Errorf("%w: the server closes the connection", ErrLost)
		}
		k.finishLocked(s, err)
	}
	return nil
}

func turnedAway() error { return fmt.Errorf("%w: %w", ErrNotSent, errTurnedAway) }

// prepareAgain prepares a stream that was not looked at to be sent anew; false when it
// was turned away too often.
func (s *stream) prepareAgain() bool {
	s.unsent, s.body, s.pieces, s.credit, s.cost, s.read = nil, s.body[:0], nil, 0, 0, 0
	s.response = Response{}
	s.turned++
	return s.turned < maxTurned
}
