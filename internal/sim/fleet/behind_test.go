package fleet

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// narrow is a server that creates a few nodes at a time, and is too slow for all others.
type narrow struct {
	*instantClient
	few int

	mu                  sync.Mutex
	underWay, refusals  int
	answered, mostLater int
}

func (c *narrow) Send(r *wire.Request, done func(*wire.Response)) {
	if r.Method != http.MethodPost || r.Path != "/api/v1/nodes" {
		c.instantClient.Send(r, done)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underWay++
	late := c.underWay > c.few
	if late {
		c.refusals++
	}
	if c.answered > 2*maxCreating {
		c.mostLater = max(c.mostLater, c.underWay)
	}
	time.AfterFunc(2*time.Millisecond, func() {
		c.mu.Lock()
		c.underWay--
		c.answered++
		c.mu.Unlock()
		if late {
			now := c.clock.Now()
			done(&wire.Response{Code: http.StatusGatewayTimeout, Sent: now, Done: now})
			return
		}
		c.instantClient.Send(r, done)
	})
}

// TestAServerThatIsBehind is asked for as many nodes at a time as it can make.
func TestAServerThatIsBehind(t *testing.T) {
	c := &narrow{instantClient: newInstant(), few: 8}
	const nodes = 1000
	f := startOn(t, c, c.clock, scenario.Fleet{Nodes: nodes})
	repotest.Eventually(t, "all nodes", func() bool { return f.Stats().Created == nodes })
	c.mu.Lock()
	defer c.mu.Unlock()
	t.Logf("%d refusals, at most %d at a time later", c.refusals, c.mostLater)
	if c.refusals == 0 || c.mostLater > maxCreating/2 {
		t.Errorf("%d refusals, and later %d creations at a time, of a server that can do %d", c.refusals, c.mostLater, c.few)
	}
}
