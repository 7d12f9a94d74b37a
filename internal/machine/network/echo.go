package network

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/pace"
)

// End is one end of a path.
type End struct {
	Namespace Namespace
	Address   netip.Addr // the zero one: whichever the system takes, for the end that sends
	Own       netip.Addr // of the end that answers, what it has itself where others reach it by another one; the zero one: the same
}

// bindAddress is the address that a server binds to.
func (e End) bindAddress() netip.Addr {
	if e.Own.IsValid() {
		return e.Own
	}
	return e.Address
}

// EchoOptions say how echoes are sent.
type EchoOptions struct {
	From, To End
	Far      *Reach        // of the end that answers, where that is another process; nil: it is ours, at To
	ICMP     bool          // the kernel of the other end answers, in place of a server of ours by UDP; needs CAP_NET_RAW
	Pace     *pace.Pace    // of the echoes
	For      time.Duration // no echo is due later than this
	Size     int           // bytes of a datagram's content, at least 8, to another process 24
	Patience time.Duration // an echo that is not answered so long after it was sent is lost
	Clock    clock.Clock
}

// Echo is one datagram that was sent to be sent back.
type Echo struct {
	Due  clock.Time // when the pace wanted it sent
	Sent clock.Time // when it was handed to the system
	// Done is when the system had the answer, by the kernel's own stamp: who waits for
	// it is woken later. Of one that is lost, when it was given up.
	Done clock.Time
	Lost bool
}

const (
	echoHead = 8  // bytes: the number of an echo
	ahead    = 64 // microseconds before an echo is due at which its sender wakes, since sleep ends late
)

// Echoes sends datagrams to an echo server at the other end, its own or Far, each when it is
// due, whatever became of those before it, and hands each one to took when its
// answer is there or it is lost. It returns when all are.
func Echoes(ctx context.Context, o EchoOptions, took func(Echo)) error {
	at := netip.AddrPortFrom(o.To.Address, 0)
	var token []byte
	switch {
	case o.Far != nil:
		at, token = netip.AddrPortFrom(o.Far.Address, o.Far.Echoes), o.Far.Token
	case !o.ICMP:
		server, err := serveEchoes(o.To, nil)
		if err != nil {
			return err
		}
		defer server.end()
		at = server.at
	}
	if o.ICMP { // the kernel answers anybody
		at, token = netip.AddrPortFrom(at.Addr(), 0), nil
	}
	w := newWay(o.ICMP, at.Addr())
	fd, err := w.openSocket(o.From, at)
	if err != nil {
		return err
	}
	defer closeSocket(fd)
	e := &echoing{o: o, socket: w, fd: fd, token: token, took: took, sentAll: make(chan struct{})}
	if err := e.resolvePath(ctx); err != nil {
		return err
	}
	e.begun = o.Clock.Now()
	var receiver guard.Group
	receiver.Go(e.receiveAnswers)
	err = e.sendEchoes(ctx)
	close(e.sentAll)
	receiver.Wait()
	return err
}

// echoing is a stream of echoes under way.
type echoing struct {
	o       EchoOptions
	socket  echoSocket
	fd      int
	token   []byte // that each echo shows; empty: none is asked for
	took    func(Echo)
	begun   clock.Time
	sentAll chan struct{}

	mu      sync.Mutex
	waiting []Echo // sent and not answered, from number first on; those that were answered have no Sent
	first   uint64
}

// resolvePath sends one echo that is not counted, until it is answered or patience ends: what
// neighbours and routes ask each other first is no part of a round trip.
func (e *echoing) resolvePath(ctx context.Context) error {
	const first = ^uint64(0)
	room, packet, control := e.echoBuffer(0), make([]byte, 1<<16), make([]byte, 256)
	for until := e.o.Clock.Now().Add(e.o.Patience); e.o.Clock.Now() < until; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := sendPacket(e.fd, e.socket.encodeEcho(first, room)); err != nil && !isPacketLoss(err) {
			return fmt.Errorf("%w: send an echo: %w", ErrNetwork, err)
		}
		n, _, err := receivePacket(e.fd, packet, control)
		if number, ok := e.socket.decodeEcho(packet[:n]); err == nil && ok && number == first {
			return nil
		}
	}
	return nil
}

// echoBuffer is room for an echo of so many bytes, or as many as it needs.
func (e *echoing) echoBuffer(size int) []byte {
	room := make([]byte, icmpHead+max(size, echoHead+len(e.token)))
	copy(room[icmpHead+echoHead:], e.token)
	return room
}

// sendEchoes sends echoes until the last one is due.
func (e *echoing) sendEchoes(ctx context.Context) error {
	content := e.echoBuffer(e.o.Size)
	for n := uint64(0); ; n++ {
		due := e.o.Pace.Due(int(n))
		if due == pace.Never || due >= e.o.For {
			return nil
		}
		at := e.begun.Add(due)
		if wait := e.o.Clock.Until(at) - ahead*time.Microsecond; wait > 0 {
			if err := clock.Sleep(ctx, wait); err != nil {
				return context.Cause(ctx)
			}
		}
		packet := e.socket.encodeEcho(n, content)
		sent := e.o.Clock.Now()
		for ; sent < at; sent = e.o.Clock.Now() { // the rest of the time is too short to sleep
		}
		e.mu.Lock()
		e.waiting = append(e.waiting, Echo{Due: at, Sent: sent})
		e.mu.Unlock()
		if err := sendPacket(e.fd, packet); err != nil && !isPacketLoss(err) {
			return fmt.Errorf("%w: send an echo: %w", ErrNetwork, err)
		}
	}
}

// receiveAnswers takes answers until every echo has one or is lost.
func (e *echoing) receiveAnswers() {
	packet, control := make([]byte, 1<<16), make([]byte, 256)
	for {
		n, stamped, err := receivePacket(e.fd, packet, control)
		now := e.o.Clock.Now()
		if number, ok := e.socket.decodeEcho(packet[:n]); err == nil && ok {
			e.takeAnswer(number, now, stamped)
		}
		e.dropExpired(now)
		select {
		case <-e.sentAll:
			if e.countWaiting() == 0 {
				return
			}
		default:
		}
	}
}

// takeAnswer takes the answer to an echo that has been waiting since before.
func (e *echoing) takeAnswer(number uint64, now clock.Time, stamped time.Time) {
	e.mu.Lock()
	i := number - e.first
	if number < e.first || i >= uint64(len(e.waiting)) || e.waiting[i].Sent == 0 {
		e.mu.Unlock()
		return // doubled on its way, or after it was given up
	}
	one := e.waiting[i]
	e.waiting[i].Sent = 0
	e.mu.Unlock()
	one.Done = now
	if had := e.o.Clock.Recent(stamped); had > one.Sent && had < now { // else the kernel gave no stamp, or the wall clock was set meanwhile
		one.Done = had
	}
	one.Lost = one.Done.Sub(one.Sent) > e.o.Patience // and no look at what waits has come between
	e.took(one)
}

// dropExpired gives up what waited for too long.
func (e *echoing) dropExpired(now clock.Time) {
	var lost []Echo
	e.mu.Lock()
	for len(e.waiting) > 0 && (e.waiting[0].Sent == 0 || now.Sub(e.waiting[0].Sent) > e.o.Patience) {
		if one := e.waiting[0]; one.Sent != 0 {
			one.Done, one.Lost = now, true
			lost = append(lost, one)
		}
		e.waiting, e.first = e.waiting[1:], e.first+1
	}
	e.mu.Unlock()
	for _, one := range lost {
		e.took(one)
	}
}

func (e *echoing) countWaiting() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.waiting)
}
