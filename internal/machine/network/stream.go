package network

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
)

const (
	piece     = 256 << 10        // bytes that are written and read at a time
	handshake = 10 * time.Second // for a connection and its token
)

// StreamOptions say how data is sent over TCP.
type StreamOptions struct {
	From, To End
	Far      *Reach        // of the receiving end, where that is another process; nil: it is ours, at To
	Streams  int           // at the same time; at least 1
	For      time.Duration // how long
	Every    time.Duration // of readings
	Clock    clock.Clock
}

// Reading is what all streams together have done until a moment.
type Reading struct {
	At          clock.Time
	Received    uint64        // bytes, at the receiving end; of one that is another process 0, since that counts them
	Arrived     uint64        // segments that the receiving end's kernel took; likewise
	Segments    uint64        // that the sending end's kernel has sent: all of them, those sent again too
	Retransmits uint64        // of these, those sent again
	RoundTrip   time.Duration // the sending end's smoothed estimate, mean of the streams
}

// Streams sends data for a time, as fast as the path takes it, and hands readings to
// took: at the begin, at each interval, and at the end.
func Streams(ctx context.Context, o StreamOptions, took func(Reading)) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &streaming{o: o, ends: make(chan error, o.Streams)}
	defer s.close() // after the connections: nothing is left open, and nobody works on it
	defer cancel()
	if err := s.openStreams(ctx); err != nil {
		return err
	}
	for i := range s.senders {
		s.work.Go(func() { s.ends <- s.sendData(s.senders[i]) })
	}
	return s.readPeriodically(ctx, took)
}

// streaming is data under way.
type streaming struct {
	o        StreamOptions
	senders  []*net.TCPConn
	receiver *receiver // nil: it is another process
	ending   atomic.Bool
	ends     chan error
	work     guard.Group
}

func (s *streaming) close() {
	s.ending.Store(true)
	for _, c := range s.senders {
		_ = c.Close()
	}
	if s.receiver != nil {
		s.receiver.close()
	}
	s.work.Wait()
}

// openStreams opens all streams, one after another.
func (s *streaming) openStreams(ctx context.Context) error {
	far := s.o.Far
	if far == nil {
		token := make([]byte, TokenSize)
		if _, err := rand.Read(token); err != nil {
			return fmt.Errorf("%w: %w", ErrNetwork, err)
		}
		var err error
		if s.receiver, err = receiveAt(ctx, s.o.To, token, s.o.Streams); err != nil {
			return err
		}
		far = &Reach{Address: s.o.To.Address, Streams: s.receiver.port(), Token: token}
	}
	for range s.o.Streams {
		ctx, cancel := context.WithTimeout(ctx, handshake)
		err := s.dialStream(ctx, far)
		cancel()
		if err != nil {
			return fmt.Errorf("%w: connect %v to %v: %w", ErrNetwork, s.o.From.Address, far.Address, err)
		}
	}
	return nil
}

// dialStream opens one stream, and waits until the receiver has taken it.
func (s *streaming) dialStream(ctx context.Context, far *Reach) error {
	dialer := net.Dialer{}
	if s.o.From.Address.IsValid() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(s.o.From.Address, 0))
	}
	var out net.Conn
	err := s.o.From.Namespace.Do(func() (err error) {
		out, err = dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(far.Address, far.Streams).String())
		return err
	})
	if err != nil {
		return err
	}
	s.senders = append(s.senders, out.(*net.TCPConn)) //nolint:forcetypeassert // a dialer of "tcp" returns no other
	stop := context.AfterFunc(ctx, func() { _ = out.SetDeadline(time.Unix(1, 0)) })
	_, err = out.Write(far.Token)
	var answer [1]byte
	if err == nil {
		_, err = io.ReadFull(out, answer[:])
	}
	switch {
	case !stop():
		return context.Cause(ctx)
	case err != nil:
		return err
	case answer[0] != accepted:
		return errors.New("the receiver is none of ours")
	}
	return nil
}

func (s *streaming) sendData(c net.Conn) error {
	data := make([]byte, piece)
	for {
		if _, err := c.Write(data); err != nil {
			return s.unlessEnding("send", err)
		}
	}
}

// unlessEnding is why a stream broke off; nil where it was to end.
func (s *streaming) unlessEnding(doing string, err error) error {
	if s.ending.Load() {
		return nil
	}
	return fmt.Errorf("%w: %s: %w", ErrNetwork, doing, err)
}

// readPeriodically hands out readings until the time is over, a stream breaks off or ctx ends.
func (s *streaming) readPeriodically(ctx context.Context, took func(Reading)) error {
	begun := s.o.Clock.Now()
	took(s.takeReading())
	tick := time.NewTicker(s.o.Every)
	defer tick.Stop()
	end := time.NewTimer(s.o.For)
	defer end.Stop()
	for {
		select {
		case <-tick.C:
			if s.o.Clock.Now().Sub(begun) < s.o.For {
				took(s.takeReading())
			}
		case <-end.C:
			took(s.takeReading())
			return nil
		case err := <-s.ends:
			took(s.takeReading())
			return err
		case <-ctx.Done():
			took(s.takeReading())
			return context.Cause(ctx)
		}
	}
}

func (s *streaming) takeReading() Reading {
	r := Reading{At: s.o.Clock.Now()}
	if s.receiver != nil {
		r.Received, r.Arrived, _ = s.receiver.countReceived()
	}
	for _, c := range s.senders {
		if info, err := tcpInfo(c); err == nil {
			r.Segments += info.segments
			r.Retransmits += info.retransmits
			r.RoundTrip += info.roundTrip / time.Duration(len(s.senders))
		}
	}
	return r
}

// connection is what the kernel knows of a connection.
type connection struct {
	segments, arrived, retransmits uint64 // sent, received, sent again
	roundTrip                      time.Duration
}
