package load

import (
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/guard"
)

// sendAnew sends a slot's call on a connection of its own, which is closed after the answer.
// A balancer sees a new client. The call counts as sent when the connection is begun: what the
// server takes for it is not lateness of the load generator.
func (s *slot) sendAnew() {
	g := s.g
	began := g.options.Clock.Now()
	client, err := wire.New(g.targetOf(s.req.Member).endpoint, wire.Options{UserAgent: userAgent, Clock: g.options.Clock})
	if err != nil {
		s.countUnbuilt(err)
		return
	}
	g.closing.Add(1)
	client.Send(&s.req.Request, func(r *wire.Response) {
		if r.Sent > 0 {
			r.Sent = began
		}
		s.callback(r)
		guard.Go(func() { // Close waits for the goroutine that this is called in
			defer g.closing.Done()
			_ = client.Close() // the answer is there
		})
	})
}
