// Package external lets the process that started windtunnel be the subject itself,
// such as a Go test with a controller in it. Both hold an end of a socket and
// say over it what the other has to know, a line of JSON each: here is the plane
// (start), I am ready, stop, I have ended.
//
// It starts no process. The verbs run and up have windtunnel's end (Caller), package windtunnel
// at the root of the module that of the test (Serve).
package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/windtunnel/windtunnel/internal/guard"
)

// ErrGone says that the other end has closed the socket.
var ErrGone = errors.New("the process that started windtunnel is gone")

// message is one line.
type message struct {
	Kind  string `json:"kind"`
	Start *Start `json:"start,omitempty"`
	PID   int    `json:"pid,omitempty"`   // with ready
	Error string `json:"error,omitempty"` // with ended: why; empty: it was asked to
}

// The kinds of messages: those of windtunnel, and those of its caller.
const (
	kindStart = "start"
	kindStop  = "stop"
	kindReady = "ready"
	kindEnded = "ended"
)

// Start says what the subject needs.
type Start struct {
	Name       string `json:"name"`
	Kubeconfig string `json:"kubeconfig"`        // path
	Metrics    string `json:"metrics,omitempty"` // the URL at which its metrics are read; empty: nobody reads them
}

// Caller is windtunnel's end.
type Caller struct {
	conn  io.ReadWriteCloser
	ready chan int
	ended chan error
	done  chan struct{} // the reader has ended

	mu      sync.Mutex
	stopped bool
	closed  bool
}

// Open takes windtunnel's end of the socket, which is a file that the caller has
// left open.
func Open(file *os.File) (*Caller, error) {
	conn, err := net.FileConn(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("the caller's socket: %w", err)
	}
	return New(conn), nil
}

// New takes windtunnel's end of any connection.
func New(conn io.ReadWriteCloser) *Caller {
	c := &Caller{conn: conn, ready: make(chan int, 1), ended: make(chan error, 1), done: make(chan struct{})}
	guard.Go(c.readMessages)
	return c
}

// readMessages hands on what the caller says until it says no more.
func (c *Caller) readMessages() {
	defer close(c.done)
	lines := json.NewDecoder(c.conn)
	for {
		var m message
		if err := lines.Decode(&m); err != nil {
			c.reportEnd(fmt.Errorf("%w: %w", ErrGone, err))
			return
		}
		switch m.Kind {
		case kindReady:
			select {
			case c.ready <- m.PID:
			default: // said twice
			}
		case kindEnded:
			err := errors.New(m.Error)
			if m.Error == "" {
				err = errors.New("it ended by itself")
			}
			c.reportEnd(err)
			return
		}
	}
}

// reportEnd says why the subject ended, unless its end was asked for. It is called
// once: the reader returns.
func (c *Caller) reportEnd(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped && !c.closed {
		c.ended <- err
	}
}

// Start tells the caller to start and returns its process's number when it is
// ready. The errors are the caller's own and ErrGone.
func (c *Caller) Start(ctx context.Context, s Start) (pid int, err error) {
	if err := json.NewEncoder(c.conn).Encode(message{Kind: kindStart, Start: &s}); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrGone, err)
	}
	select {
	case pid := <-c.ready:
		return pid, nil
	case err := <-c.ended:
		return 0, err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// Ended says, once, why the subject ended without being asked to.
func (c *Caller) Ended() <-chan error { return c.ended }

// Stop tells the caller to stop and returns when it has, or when ctx ends.
func (c *Caller) Stop(ctx context.Context) error {
	c.mu.Lock()
	again := c.stopped
	c.stopped = true
	c.mu.Unlock()
	if again {
		return nil
	}
	if err := json.NewEncoder(c.conn).Encode(message{Kind: kindStop}); err != nil {
		return nil // it has ended already
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close closes the socket and waits for the reader. It is idempotent.
func (c *Caller) Close() error {
	c.mu.Lock()
	again := c.closed
	c.closed = true
	c.mu.Unlock()
	if again {
		return nil
	}
	err := c.conn.Close()
	<-c.done
	return err
}
