package hub

import (
	"fmt"
	"testing"

	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
)

// TestQueuesOfRequests holds how many queues the requests of a type have, and how many
// workers each queue: requests about one object keep their order where they wait in one
// queue that has one worker. Reports of a device always do.
func TestQueuesOfRequests(t *testing.T) {
	for _, c := range []struct {
		requests, kind  string
		queues, workers int
	}{
		{RequestsAny, message.TypePodPatch, 1, 4},
		{RequestsOrdered, message.TypePodPatch, 4, 1},
		{RequestsAny, message.TypeTwin, 3, 1},
		{RequestsOrdered, message.TypeTwin, 3, 1},
	} {
		o := Options{Requests: c.requests, Workers: counts{other: 4}, DeviceWorkers: 3, Buffer: counts{other: 8}}
		q := newUpstream(&Hub{o: o, devices: &devices{}}).channels[c.kind]
		if len(q) != c.queues || cap(q[0].working) != c.workers {
			t.Errorf("requests %s, %s: %d queues with %d workers each, want %d with %d", c.requests, c.kind, len(q), cap(q[0].working), c.queues, c.workers)
		}
		used := map[requestQueue]bool{}
		for i := range 100 {
			object := fmt.Sprintf("default/p%d", i)
			first, again := queueOf(q, object), queueOf(q, object)
			if first != again {
				t.Fatalf("%s waits in two queues", object)
			}
			used[first] = true
		}
		if len(used) != c.queues {
			t.Errorf("requests %s, %s: 100 objects use %d of %d queues", c.requests, c.kind, len(used), c.queues)
		}
	}
}
