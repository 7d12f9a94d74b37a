package plane

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
)

// hollowControl is what breaks one hollow member: its process does.
type hollowControl struct {
	client *http.Client
	base   *url.URL // of the member
}

// newControl returns what breaks the members of a process.
func (r HollowReach) newControl() (*hollowControl, error) {
	client, base, err := endpoint.Bearer(r.Control, r.CA, r.ControlToken).Client()
	return &hollowControl{client, base}, err
}

// controlOf returns what breaks one of them.
func (c *hollowControl) controlOf(name string) *hollowControl {
	return &hollowControl{c.client, c.base.JoinPath(name)}
}

// maxSaid bounds what the process says of a fault, in bytes.
const maxSaid = 4 << 10

func (c *hollowControl) doAction(ctx context.Context, m *Member, action string, query url.Values) error {
	if c == nil {
		return fmt.Errorf("%s %s: %w", action, m.Name, ErrNotOurs)
	}
	to := c.base.JoinPath(action)
	to.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), http.NoBody)
	if err != nil {
		return fmt.Errorf("%s %s: %w", action, m.Name, err)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", action, m.Name, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, maxSaid))
		return fmt.Errorf("%s %s: %w", action, m.Name, &statusError{to.Path, resp.StatusCode, string(said)})
	}
	return nil
}

// Stop breaks all connections of a hollow member and refuses new ones, until Start,
// as if its API server had been killed. What it stores stays.
func (m *Member) Stop(ctx context.Context) error { return m.hollow.doAction(ctx, m, "stop", nil) }

// Start undoes Stop.
func (m *Member) Start(ctx context.Context) error { return m.hollow.doAction(ctx, m, "start", nil) }

// Slow lets each answer of a hollow member take so many times as long, 1 to 1000.
func (m *Member) Slow(ctx context.Context, factor float64) error {
	return m.hollow.doAction(ctx, m, "slow", url.Values{"factor": {strconv.FormatFloat(factor, 'g', -1, 64)}})
}
