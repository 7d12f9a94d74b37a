package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/websocket"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/windtunnel/windtunnel/internal/guard"
)

// The protocol of port-forward, and its name inside of a WebSocket.
const (
	portForward = "portforward.k8s.io"
	tunnel      = spdy.HeaderSpdy31 + "+" + portForward
)

// Limits of one port-forward.
const (
	maxPorts = 256 // connections at once over one connection of a client
	maxError = 4 << 10
)

// Dial connects one stream to a port and copies both ways until one side ends.
// Its context ends when the client is gone. It closes nothing of the stream.
type Dial func(ctx context.Context, port int32, data io.ReadWriter) error

// Forward takes a request's connection over and calls dial for each connection
// that the client makes to a port. dial's error is told to the client. Forward
// returns when the connection is closed and every dial has returned; the error
// says why it was not taken over, which the client was told.
func Forward(w http.ResponseWriter, r *http.Request, dial Dial) error {
	switch {
	case wsstream.IsWebSocketRequestWithTunnelingProtocol(r):
		return serveTunnelled(w, r, dial)
	case wsstream.IsWebSocketRequest(r):
		return forwardChannels(w, r, dial)
	}
	if _, err := httpstream.Handshake(r, w, []string{portForward}); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	streams := make(chan offered, 2*maxPorts)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, newAcceptor(streams))
	if conn == nil {
		return fmt.Errorf("%w: not taken over", errProtocol)
	}
	forwardStreams(r.Context(), conn, streams, dial)
	return nil
}

// serveTunnelled speaks SPDY inside of the messages of a WebSocket.
func serveTunnelled(w http.ResponseWriter, r *http.Request, dial Dial) error {
	var failed error
	websocket.Server{
		Handshake: func(c *websocket.Config, r *http.Request) error {
			for _, p := range offeredSubprotocols(r) {
				if p == tunnel {
					c.Protocol = []string{p}
					return nil
				}
			}
			failed = fmt.Errorf("%w: want %s", errProtocol, tunnel)
			return failed
		},
		Handler: func(ws *websocket.Conn) {
			ws.PayloadType = websocket.BinaryFrame
			streams := make(chan offered, 2*maxPorts)
			conn, err := spdy.NewServerConnection(ws, newAcceptor(streams))
			if err != nil {
				failed = fmt.Errorf("%w: %w", errProtocol, err)
				return
			}
			forwardStreams(r.Context(), conn, streams, dial)
		},
	}.ServeHTTP(w, r)
	return failed
}

// pair is the two streams of one connection to a port: a client makes one after
// the other, with the same id.
type pair struct {
	data, fault *offered
	since       *time.Timer
}

// forwardStreams pairs a client's streams and dials for each pair.
func forwardStreams(ctx context.Context, conn httpstream.Connection, streams <-chan offered, dial Dial) {
	conn.SetIdleTimeout(idleTimeout)
	ctx, stop := contextUntilGone(ctx, conn.CloseChan())
	f := &forwarder{conn: conn, dial: dial, pairs: map[string]*pair{}, late: make(chan string, maxPorts)}
	for ctx.Err() == nil {
		select {
		case s := <-streams:
			f.takeStream(ctx, &s)
		case id := <-f.late:
			f.dropPair(id)
		case <-ctx.Done():
		}
	}
	for id := range f.pairs {
		f.dropPair(id)
	}
	_ = conn.Close()
	stop()
	f.wait.Wait()
}

// forwarder is one client's port-forward.
type forwarder struct {
	conn  httpstream.Connection
	dial  Dial
	pairs map[string]*pair // those that lack a stream, by id
	late  chan string
	wait  guard.Group
}

func (f *forwarder) takeStream(ctx context.Context, s *offered) {
	id := s.Headers().Get(idHeader)
	p := f.pairs[id]
	if p == nil {
		if len(f.pairs) == maxPorts {
			f.resetStreams(s)
			return
		}
		p = &pair{}
		p.since = time.AfterFunc(createTimeout, func() {
			select {
			case f.late <- id:
			case <-ctx.Done():
			}
		})
		f.pairs[id] = p
	}
	switch kind := s.Headers().Get(typeHeader); {
	case kind == "data" && p.data == nil:
		p.data = s
	case kind == "error" && p.fault == nil:
		p.fault = s
	default:
		f.resetStreams(s)
	}
	if p.data == nil || p.fault == nil {
		return
	}
	p.since.Stop()
	delete(f.pairs, id)
	f.wait.Go(func() { f.servePair(ctx, p) })
}

// dropPair forgets a pair that never became one.
func (f *forwarder) dropPair(id string) {
	p := f.pairs[id]
	if p == nil {
		return
	}
	p.since.Stop()
	delete(f.pairs, id)
	f.resetStreams(p.data, p.fault)
}

func (f *forwarder) resetStreams(streams ...*offered) {
	for _, s := range streams {
		if s != nil {
			_ = s.Reset()
			f.conn.RemoveStreams(s)
		}
	}
}

// servePair carries one connection to a port.
func (f *forwarder) servePair(ctx context.Context, p *pair) {
	port, err := portOf(p.data.Headers().Get(portHeader))
	if p.data.awaitReply(ctx) != nil || p.fault.awaitReply(ctx) != nil {
		return
	}
	if err == nil {
		err = f.dial(ctx, port, p.data)
	}
	if err != nil {
		writeError(p.fault, err)
	}
	_ = p.data.Close()
	_ = p.fault.Close()
	f.conn.RemoveStreams(p.data, p.fault)
	if err != nil {
		_ = p.data.Reset() // what the client still sends goes nowhere
	}
}

func writeError(to io.Writer, err error) {
	text := err.Error()
	_, _ = io.WriteString(to, text[:min(len(text), maxError)]) // nobody is left to be told of an error
}

func portOf(s string) (int32, error) {
	port, err := strconv.ParseUint(s, 10, 16)
	if err != nil || port == 0 {
		return 0, fmt.Errorf("%w: %q is no port", errProtocol, s)
	}
	return int32(port), nil
}

// forwardChannels speaks the older WebSocket form: the ports stand in the query,
// each has a channel for data and one for its error, and each channel begins
// with its port.
func forwardChannels(w http.ResponseWriter, r *http.Request, dial Dial) error {
	ports, err := portsOf(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return err
	}
	kinds := make([]wsstream.ChannelType, 0, 2*len(ports))
	for range ports {
		kinds = append(kinds, wsstream.ReadWriteChannel, wsstream.WriteChannel)
	}
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{v4: {Binary: true, Channels: kinds}, v4Base64: {Channels: kinds}})
	conn.SetIdleTimeout(idleTimeout)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	_, streams, err := conn.Open(&watched{w, cancel}, withoutLogger(r))
	if err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	var wait guard.Group
	for i, port := range ports {
		data, fault := streams[2*i], streams[2*i+1]
		wait.Go(func() {
			number := binary.LittleEndian.AppendUint16(nil, uint16(port))
			_, first := data.Write(number)
			_, second := fault.Write(number)
			err := errors.Join(first, second)
			if err == nil {
				err = dial(ctx, port, data)
			}
			if err != nil {
				writeError(fault, err)
			}
		})
	}
	wait.Wait()
	return conn.Close()
}

func portsOf(r *http.Request) ([]int32, error) {
	var out []int32
	for _, value := range r.URL.Query()[portHeader] {
		for _, one := range strings.Split(value, ",") {
			port, err := portOf(one)
			if err != nil {
				return nil, err
			}
			out = append(out, port)
		}
	}
	if len(out) == 0 || len(out) > maxPorts/2 {
		return nil, fmt.Errorf("%w: want 1 to %d ports in the query, got %d", errProtocol, maxPorts/2, len(out))
	}
	return out, nil
}
