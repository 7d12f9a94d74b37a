package serve

import (
	"runtime"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/windtunnel/windtunnel/internal/sim/hollow/backend"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/codec"
)

const (
	// largeFrom is the length of the longest body that does not make its request large.
	largeFrom = quickBody
	// bodiesLimit is how many bytes of large bodies a server holds at once.
	bodiesLimit = 256 << 20
)

// bodies bounds the large requests to all clusters of a server: how many bytes their
// bodies have, and how many of them are decoded at once.
type bodies struct {
	bytes atomic.Int64
	turns chan struct{} // one for each that is decoded
}

func newBodies() bodies { return bodies{turns: make(chan struct{}, max(4, runtime.GOMAXPROCS(0)))} }

// room is what a request takes of the bodies of its server.
type room struct {
	of    *bodies
	bytes int64
	turn  bool
}

// reserveBytes takes room for a body of a length; below 0: it is not known. The error says
// that there is none.
func (r *room) reserveBytes(length int64) error {
	if length < 0 {
		length = codec.Limit
	}
	if length = min(length, codec.Limit); length <= largeFrom {
		return nil
	}
	if r.of.bytes.Add(length) > bodiesLimit {
		r.of.bytes.Add(-length)
		return apierrors.NewTooManyRequests("too many requests with large bodies, please try again later", 1)
	}
	r.bytes += length
	return nil
}

// waitTurn waits until a large body may be decoded.
func (r *room) waitTurn(gone <-chan struct{}) error {
	if r.bytes == 0 || r.turn {
		return nil
	}
	late := time.NewTimer(backend.RequestTimeout)
	defer late.Stop()
	select {
	case r.of.turns <- struct{}{}:
		r.turn = true
		return nil
	case <-late.C:
	case <-gone:
	}
	return backend.TimeoutError()
}

// releaseAll gives back what the request has.
func (r *room) releaseAll() {
	r.of.bytes.Add(-r.bytes)
	if r.turn {
		<-r.of.turns
	}
	r.bytes, r.turn = 0, false
}
