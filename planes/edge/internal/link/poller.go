package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

// Poller reads many connections with one goroutine, so that one that rests has
// neither a stack nor a buffer. What their handlers do delays the others.
type Poller struct {
	epoll  int
	mu     sync.Mutex
	conns  map[int]*Conn
	closed bool // no connection is added any more
	buffer []byte
	cancel context.CancelFunc
	done   chan struct{}
}

// NewPoller returns a poller that reads until ctx ends, or Close ends it; then it
// closes the connections it has.
func NewPoller(ctx context.Context) (*Poller, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a poller: %w", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, wake, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(wake)})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a poller: %w", err), unix.Close(epoll))
	}
	p := &Poller{epoll: epoll, conns: map[int]*Conn{}, buffer: make([]byte, 64<<10), done: make(chan struct{})}
	ctx, p.cancel = context.WithCancel(ctx)
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_, _ = unix.Write(wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		close(woken)
	})
	go func() {
		defer close(p.done)
		p.run(ctx)
		if !stop() {
			<-woken // it is not to write to whose descriptor has that number next
		}
		_, _ = unix.Close(epoll), unix.Close(wake) // nothing can be done about an error
	}()
	return p, nil
}

// Close ends the poller and returns when it has ended.
func (p *Poller) Close() {
	p.cancel()
	<-p.done
}

// Add lets the poller read a connection, whose descriptor stays open until the
// poller has let go of it. When it ends, for whatever reason, its
// handler is told, once, by the poller.
func (p *Poller) Add(c *Conn) error {
	if !c.socket.acquire() {
		return net.ErrClosed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.socket.release()
		return net.ErrClosed
	}
	p.conns[c.socket.fd] = c
	err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, c.socket.fd, epollEvent(c, unix.EPOLLOUT)) // so that what came before is looked at
	if err != nil {
		delete(p.conns, c.socket.fd)
		c.socket.release()
		return fmt.Errorf("poll a connection: %w", err)
	}
	return nil
}

// Pause leaves a connection unread until Resume, as a slow peer does: what comes fills the
// kernel's buffers, and then its sender's.
func (p *Poller) Pause(c *Conn) { p.setEvents(c, 0) }

// Resume ends a Pause. Of a connection that has ended it does nothing.
func (p *Poller) Resume(c *Conn) { p.setEvents(c, unix.EPOLLIN|unix.EPOLLRDHUP) }

// setEvents says what the poller is to be told of a connection, if it still has it.
func (p *Poller) setEvents(c *Conn, events uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns[c.socket.fd] == c {
		_ = unix.EpollCtl(p.epoll, unix.EPOLL_CTL_MOD, c.socket.fd, &unix.EpollEvent{Events: events, Fd: int32(c.socket.fd)}) // it was added
	}
}

func (p *Poller) run(ctx context.Context) {
	events := make([]unix.EpollEvent, 256)
	for ctx.Err() == nil {
		n, err := unix.EpollWait(p.epoll, events, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			break // only a closed epoll can cause it
		}
		for _, e := range events[:max(n, 0)] {
			p.mu.Lock()
			c := p.conns[int(e.Fd)]
			p.mu.Unlock()
			if c == nil {
				continue // the eventfd, or one that ended meanwhile
			}
			if err := p.readConn(c, e); err != nil {
				p.removeConn(c, err)
			}
		}
	}
	p.mu.Lock()
	rest := p.conns
	p.conns, p.closed = map[int]*Conn{}, true
	p.mu.Unlock()
	for _, c := range rest {
		c.endWith(context.Cause(ctx))
		c.socket.release()
	}
}

func epollEvent(c *Conn, more uint32) *unix.EpollEvent {
	return &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | more, Fd: int32(c.socket.fd)}
}

func (p *Poller) readConn(c *Conn, e unix.EpollEvent) error {
	if e.Events&unix.EPOLLOUT != 0 {
		if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_MOD, c.socket.fd, epollEvent(c, 0)); err != nil {
			return fmt.Errorf("poll a connection: %w", err)
		}
	}
	return c.readAll(p.buffer)
}

func (p *Poller) removeConn(c *Conn, err error) {
	_ = unix.EpollCtl(p.epoll, unix.EPOLL_CTL_DEL, c.socket.fd, nil) // it was added
	p.mu.Lock()
	delete(p.conns, c.socket.fd)
	p.mu.Unlock()
	c.endWith(err)
	c.socket.release()
}
