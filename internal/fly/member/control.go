package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/scenario"
)

// hollowControl is what breaks one hollow member: its process does.
type hollowControl struct {
	client *http.Client
	base   *url.URL // of the member
}

// newControl returns what breaks the members of a process.
func (r HollowReach) newControl() (hollowControl, error) {
	client, base, err := endpoint.Bearer(r.Control, r.CA, r.ControlToken).Client()
	return hollowControl{client, base}, err
}

// of returns what breaks one of them.
func (c hollowControl) of(name string) hollowControl {
	return hollowControl{c.client, c.base.JoinPath(name)}
}

// inject has the process do what a fault says. A member that is stopped breaks all of its
// connections and refuses new ones, as if its API server had been killed; what it stores stays.
func (c hollowControl) inject(ctx context.Context, _ *plane.Plane, m *Member, d *scenario.Disturbance) (func(context.Context) error, error) {
	act := func(actions ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			var errs []error
			for _, action := range actions {
				errs = append(errs, c.do(ctx, m, action, nil))
			}
			return errors.Join(errs...)
		}
	}
	slow := func(factor float64) func(context.Context) error {
		query := url.Values{"factor": {strconv.FormatFloat(factor, 'g', -1, 64)}}
		return func(ctx context.Context) error { return c.do(ctx, m, "slow", query) }
	}
	switch d.Action {
	case "kill":
		return act("start"), act("stop")(ctx)
	case "restart":
		if err := act("stop")(ctx); err != nil {
			return nil, err
		}
		return act(), act("start")(ctx)
	case "slow":
		return slow(1), slow(d.Factor)(ctx)
	case "expire":
		return act("renew"), act("expire")(ctx)
	case "rollback":
		return act("stop", "restore", "start"), act("copy")(ctx)
	}
	return nil, fmt.Errorf("%s %s: %w", d.Action, m.Name, plane.ErrNoFault)
}

// maxSaid bounds what the process says of a fault, in bytes.
const maxSaid = 4 << 10

// do asks for one action.
func (c hollowControl) do(ctx context.Context, m *Member, action string, query url.Values) error {
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
		return fmt.Errorf("%s %s: %w", action, m.Name, refused(to.Path, resp.StatusCode, said))
	}
	return nil
}

// refused is the error of an answer that says no.
func refused(path string, code int, said []byte) error {
	return fmt.Errorf("%s answers %d: %.300s", path, code, strings.Join(strings.Fields(string(said)), " "))
}
