package endpoint

import (
	"net"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// A connection for single requests, of metrics and profiles, reads so many bytes at
// once, and then so many each second. A server that floods it with what is no answer
// would otherwise take a core for as long as the request waits: net/http bounds the
// size of an answer's parts, not what comes instead of it.
const (
	freeBytes = 64 << 20
	mostRate  = 16 << 20

	keepAlive = 30 * time.Second // as client-go's own
)

// paced is such a connection. Read is called by one goroutine at a time.
type paced struct {
	net.Conn
	clock clock.Clock
	read  int64
}

// Read reads, and holds the reader up when it has read too much.
func (p *paced) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	p.read += int64(n)
	if over := p.read - freeBytes - int64(p.clock.Now().Seconds()*mostRate); over > 0 {
		time.Sleep(time.Duration(float64(over) / mostRate * float64(time.Second)))
	}
	return n, err
}
