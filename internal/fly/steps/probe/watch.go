package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Server is an API server that a probe asks by its own address. Without one it is the server
// that Options.Client asks.
type Server struct {
	Name     string
	Endpoint *endpoint.Endpoint
}

func (v Server) newClient(o Options) (*wire.Client, error) {
	if v.Endpoint == nil {
		return o.Client, nil
	}
	return wire.New(*v.Endpoint, wire.Options{Clock: o.Clock})
}

// close closes a client that newClient has made.
func (v Server) close(c *wire.Client) {
	if v.Endpoint != nil {
		_ = c.Close() // its connections are gone, whatever they say
	}
}

// watches are the watches of a probe, one through each API server.
type watches struct {
	all     []*follower
	cancel  context.CancelFunc
	group   guard.Group
	clients []func()
}

// startWatches begins them, and returns when each has its first list.
func (p *probing) startWatches(ctx context.Context) (*watches, error) {
	w := &watches{}
	var watching context.Context
	watching, w.cancel = context.WithCancel(context.WithoutCancel(ctx)) // until they are closed
	for _, server := range p.Servers {
		client, err := server.newClient(p.Options)
		if err != nil {
			w.close()
			return nil, err
		}
		w.clients = append(w.clients, func() { server.close(client) })
		one := &follower{p: p, server: server.Name, listed: make(chan struct{}), changed: make(chan struct{}, 1)}
		w.all = append(w.all, one)
		w.group.Go(func() {
			one.failed = watch.Follow(watching, client, watch.Options{Path: p.path, Selector: p.selector, Clock: p.Clock, JSON: true}, one)
			one.first.Do(func() { close(one.listed) })
		})
	}
	for _, one := range w.all {
		select {
		case <-one.listed:
		case <-ctx.Done():
			w.close()
			return nil, context.Cause(ctx)
		}
		if one.reached() == 0 {
			w.close()
			return nil, fmt.Errorf("watch through %s: %w", one.server, one.failed)
		}
	}
	return w, nil
}

// end waits until each watch has come to a version, and records whether it has.
func (w *watches) end(ctx context.Context, version uint64) {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	outcomes := make([]record.Outcome, len(w.all))
	for i, one := range w.all {
		for one.reached() < version && outcomes[i] == record.OK {
			select {
			case <-one.changed:
			case <-within.Done():
				outcomes[i] = record.Unknown
			}
		}
	}
	w.close()
	for i, one := range w.all {
		one.record(record.AccessEnd, probed{}, 0, one.p.Clock.Now(), outcomes[i])
	}
}

// close ends the watches. It may be called again.
func (w *watches) close() {
	w.cancel()
	w.group.Wait()
	for _, end := range w.clients {
		end()
	}
	w.clients = nil
}

// follower records what a watch brings.
type follower struct {
	p       *probing
	server  string
	failed  error // why it ended; valid when listed is closed and nothing was listed
	first   sync.Once
	listed  chan struct{} // closed with the first list
	changed chan struct{} // something has come since
	list    []probed      // of a list under way

	mu      sync.Mutex
	version uint64
}

// reached returns the version that the watch has come to; 0: it has no list yet.
func (w *follower) reached() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.version
}

func (w *follower) record(event record.AccessEvent, o probed, version uint64, at clock.Time, outcome record.Outcome) {
	w.p.Records.Access(record.Access{Op: w.p.see, Event: event, Server: w.server, Key: o.Metadata.Name, UID: o.Metadata.UID,
		Value: o.Data["value"], Version: version, Sent: at, Done: at, Outcome: outcome})
	w.mu.Lock()
	w.version = max(w.version, version)
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// Event, ListBegin, ListVersion, ListEnd and Bookmark are those of watch.Handler and its
// abilities. A list is recorded when it is complete.
func (w *follower) Event(e watch.Event) {
	var o probed
	if json.Unmarshal(e.Object, &o) != nil {
		return // the change is missed
	}
	switch e.Kind {
	case watch.Listed:
		w.list = append(w.list, o)
	case watch.Deleted:
		w.record(record.AccessDeleted, o, e.Version, e.At, record.OK)
	default:
		w.record(record.AccessChanged, o, e.Version, e.At, record.OK)
	}
}

// ListBegin forgets a list that did not come to its end.
func (w *follower) ListBegin(bool, string) { w.list = w.list[:0] }

// ListVersion records the list.
func (w *follower) ListVersion(version uint64) {
	at := w.p.Clock.Now()
	for _, o := range w.list {
		w.record(record.AccessListed, o, versionOf(o), at, record.OK)
	}
	w.record(record.AccessList, probed{}, version, at, record.OK)
}

// ListEnd says that there is a list.
func (w *follower) ListEnd() { w.first.Do(func() { close(w.listed) }) }

// Bookmark records how far the watch has come.
func (w *follower) Bookmark(at clock.Time, version uint64) {
	w.record(record.AccessBookmark, probed{}, version, at, record.OK)
}
