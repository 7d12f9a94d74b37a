package network

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
)

const (
	piece     = 256 << 10 // bytes that are written and read at a time
	tokenSize = 16
	handshake = 10 * time.Second // for a connection and its token
)

// StreamOptions say how data is sent over TCP.
type StreamOptions struct {
	From, To End
	Streams  int           // at the same time; at least 1
	For      time.Duration // how long
	Every    time.Duration // of readings
	Clock    clock.Clock
}

// Reading is what all streams together have done until a moment.
type Reading struct {
	At          clock.Time
	Received    uint64        // bytes, at the receiving end
	Retransmits uint64        // segments, of the sending end's kernel
	RoundTrip   time.Duration // the sending end's smoothed estimate, mean of the streams
}

// Streams sends data for a time, as fast as the path takes it, and hands readings to
// took: at the begin, at each interval, and at the end.
func Streams(ctx context.Context, o StreamOptions, took func(Reading)) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &streaming{o: o, ends: make(chan error, 2*o.Streams)}
	if _, err := rand.Read(s.token[:]); err != nil {
		cancel()
		return fmt.Errorf("%w: %w", ErrNetwork, err)
	}
	defer s.close() // after the connections: nothing is left open, and nobody works on it
	defer cancel()
	if err := s.connect(ctx); err != nil {
		return err
	}
	for i := range s.senders {
		s.work.Go(func() { s.ends <- s.send(s.senders[i]) })
		s.work.Go(func() { s.ends <- s.receive(s.receivers[i]) })
	}
	return s.read(ctx, took)
}

// streaming is data under way.
type streaming struct {
	o                  StreamOptions
	token              [tokenSize]byte // that tells our streams from what else connects
	senders, receivers []*net.TCPConn
	received           atomic.Uint64
	ending             atomic.Bool
	ends               chan error
	work               guard.Group
}

func (s *streaming) close() {
	s.ending.Store(true)
	for _, c := range s.senders {
		_ = c.Close()
	}
	for _, c := range s.receivers {
		_ = c.Close()
	}
	s.work.Wait()
}

// connect opens all streams, one after another.
func (s *streaming) connect(ctx context.Context) error {
	var listener net.Listener
	err := s.o.To.Namespace.Do(func() (err error) {
		listener, err = new(net.ListenConfig).Listen(ctx, "tcp", netip.AddrPortFrom(s.o.To.own(), 0).String())
		return err
	})
	if err != nil {
		return fmt.Errorf("%w: receiver at %v: %w", ErrNetwork, s.o.To.own(), err)
	}
	defer listener.Close()
	for range s.o.Streams {
		ctx, cancel := context.WithTimeout(ctx, handshake)
		err := s.pair(ctx, listener)
		cancel()
		if err != nil {
			return fmt.Errorf("%w: connect %v to %v: %w", ErrNetwork, s.o.From.Address, s.o.To.Address, err)
		}
	}
	return nil
}

// pair opens one stream.
func (s *streaming) pair(ctx context.Context, listener net.Listener) error {
	dialer := net.Dialer{}
	if s.o.From.Address.IsValid() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(s.o.From.Address, 0))
	}
	var out net.Conn
	port := listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // a listener of "tcp" has no other
	to := netip.AddrPortFrom(s.o.To.Address, uint16(port))
	err := s.o.From.Namespace.Do(func() (err error) {
		out, err = dialer.DialContext(ctx, "tcp", to.String())
		return err
	})
	if err != nil {
		return err
	}
	s.senders = append(s.senders, out.(*net.TCPConn)) //nolint:forcetypeassert // a dialer of "tcp" returns no other
	if _, err := out.Write(s.token[:]); err != nil {
		return err
	}
	deadline, _ := ctx.Deadline()
	if err := listener.(*net.TCPListener).SetDeadline(deadline); err != nil { //nolint:forcetypeassert // likewise
		return err
	}
	for {
		in, err := listener.Accept()
		if err != nil {
			return err
		}
		if s.ours(in, deadline) {
			s.receivers = append(s.receivers, in.(*net.TCPConn)) //nolint:forcetypeassert // likewise
			return nil
		}
		_ = in.Close()
	}
}

// ours tells whether a connection shows the token.
func (s *streaming) ours(in net.Conn, deadline time.Time) bool {
	var shown [tokenSize]byte
	if in.SetReadDeadline(deadline) != nil {
		return false
	}
	if _, err := io.ReadFull(in, shown[:]); err != nil {
		return false
	}
	return in.SetReadDeadline(time.Time{}) == nil && subtle.ConstantTimeCompare(shown[:], s.token[:]) == 1
}

func (s *streaming) send(c net.Conn) error {
	data := make([]byte, piece)
	for {
		if _, err := c.Write(data); err != nil {
			return s.unlessEnding("send", err)
		}
	}
}

func (s *streaming) receive(c net.Conn) error {
	data := make([]byte, piece)
	for {
		n, err := c.Read(data)
		s.received.Add(uint64(n))
		if err != nil {
			return s.unlessEnding("receive", err)
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

// read hands out readings until the time is over, a stream breaks off or ctx ends.
func (s *streaming) read(ctx context.Context, took func(Reading)) error {
	begun := s.o.Clock.Now()
	took(s.reading())
	tick := time.NewTicker(s.o.Every)
	defer tick.Stop()
	end := time.NewTimer(s.o.For)
	defer end.Stop()
	for {
		select {
		case <-tick.C:
			if s.o.Clock.Now().Sub(begun) < s.o.For {
				took(s.reading())
			}
		case <-end.C:
			took(s.reading())
			return nil
		case err := <-s.ends:
			took(s.reading())
			return err
		case <-ctx.Done():
			took(s.reading())
			return context.Cause(ctx)
		}
	}
}

func (s *streaming) reading() Reading {
	r := Reading{Received: s.received.Load(), At: s.o.Clock.Now()}
	for _, c := range s.senders {
		if info, err := tcpInfo(c); err == nil {
			r.Retransmits += uint64(info.Total_retrans)
			r.RoundTrip += time.Duration(info.Rtt) * time.Microsecond / time.Duration(len(s.senders))
		}
	}
	return r
}

// tcpInfo asks the kernel about a connection.
func tcpInfo(c *net.TCPConn) (info *unix.TCPInfo, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var asked error
	err = raw.Control(func(fd uintptr) {
		info, asked = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	return info, errors.Join(err, asked)
}
