package wire

import (
	"net"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// Piece is a frame, or a piece of a DATA frame, as the cutter gives it.
type Piece struct {
	Kind    http2.FrameType
	Stream  uint32
	Payload string
	Size    int
	Last    bool
}

// Cut cuts bytes that come in pieces of a size. DATA frames are put together
// again.
func Cut(p []byte, size int) ([]Piece, error) {
	var c cutter
	var out []Piece
	var open *Piece
	var payload []byte
	for len(p) > 0 {
		n := min(max(1, size), len(p))
		copy(c.room(n), p[:n])
		c.add(n)
		p = p[n:]
		for {
			var f frame
			ok, err := c.next(&f)
			if err != nil {
				return out, err
			}
			if !ok {
				break
			}
			if open == nil {
				open = &Piece{Kind: f.kind, Stream: f.stream}
				payload = payload[:0]
			}
			payload = append(payload, f.payload...)
			open.Size += f.size
			if open.Last = f.last; f.last {
				open.Payload = string(payload)
				out = append(out, *open)
				open = nil
			}
		}
	}
	return out, nil
}

// Handle feeds a connection with what a server might send while three requests
// are open, and returns how many of them ended.
func Handle(p []byte) (ended int) {
	c := &Client{conns: make([]*conn, 1), dialing: []bool{true}, futile: make([]int, 1), renew: make(chan struct{}, 1), sooner: make(chan struct{}, 1), all: map[*conn]struct{}{}, options: Options{Connections: 1, Clock: clock.Start()}}
	k := &conn{
		client: c, in: &socket{Conn: nowhere{}}, streams: map[uint32]*stream{}, nextID: 1, kick: make(chan struct{}, 1), end: make(chan struct{}),
		maxStreams: 3, window: defaultWindow, initial: defaultWindow, writing: true,
	}
	k.encoder = hpack.NewEncoder(&k.block)
	k.decoder = hpack.NewDecoder(4096, k.header)
	c.conns[0] = k
	c.all[k] = struct{}{}
	for _, r := range []*Request{
		{Method: "GET", Path: "/", Discard: true}, {Method: "POST", Path: "/", Body: make([]byte, 100_000)},
		{Method: "GET", Path: "/", Data: func([]byte) {}, Opened: func(*Response) {}, Hold: 1},
	} {
		k.openStreamLocked(newStream(r, func(*Response) { ended++ }))
	}
	for len(p) > 0 {
		n := min(1000, len(p))
		copy(k.frames.room(n), p[:n])
		k.frames.add(n)
		p = p[n:]
		if err := k.handleAll(); err != nil {
			break
		}
	}
	left := len(k.streams) + c.queue.len()
	if ended+left != 3 {
		panic("a request was lost or ended twice")
	}
	return ended
}

// nowhere is a connection that leads nowhere.
type nowhere struct{ net.Conn }

func (nowhere) Close() error { return nil }

// Sweep does what the client does by itself, and returns when it would again.
func (c *Client) Sweep() time.Duration { return c.sweep() }

// Lingering returns how many streams have ended whose bodies are not read.
func Lingering(c *Client) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.slow {
		if s.over {
			n++
		}
	}
	return n
}
