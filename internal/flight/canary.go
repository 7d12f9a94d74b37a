package flight

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/flight/preflight"
)

// Canaries are leases: small, looked at by few, and of a resource that every
// plane writes all the time.
const (
	canaryCount  = 20
	canaryPath   = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
	canaryWithin = 10 * time.Second // for one answer
)

// errNotOurs says that canaries are not for us to make.
var errNotOurs = errors.New("not allowed, or not served")

// canaries makes some objects, one after another, and deletes them. Where that
// is not for us to do there are none; any other failure is something that could
// not be looked at.
func (l *looker) canaries(ctx context.Context, s *preflight.State) {
	if slices.Contains(l.r.scenario.Gate.Tolerate, preflight.Canary) {
		return
	}
	var took []float64
	for i := range canaryCount {
		seconds, err := l.canary(ctx, "windtunnel-canary-"+strconv.FormatInt(l.r.clock.Epoch().UnixNano(), 36)+"-"+strconv.Itoa(i))
		if errors.Is(err, errNotOurs) {
			return
		}
		if err != nil {
			s.Unread = append(s.Unread, fmt.Sprintf("how long a creation takes could not be measured: %v", err))
			return
		}
		took = append(took, seconds)
	}
	s.Canaries = took
}

// canary makes one object, deletes it, and returns how many seconds its creation
// took. One whose answer was lost may be there: it is deleted, too.
func (l *looker) canary(ctx context.Context, name string) (float64, error) {
	made, err := l.write(ctx, &wire.Request{Method: http.MethodPost, Path: canaryPath, ContentType: "application/json",
		Body: fmt.Appendf(nil, `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":%q}}`, name)})
	if err == nil && (made.Code == http.StatusForbidden || made.Code == http.StatusNotFound) {
		return 0, errNotOurs
	}
	gone, left := l.write(context.WithoutCancel(ctx), &wire.Request{Method: http.MethodDelete, Path: canaryPath + "/" + name})
	if left == nil && gone.Code >= http.StatusBadRequest && gone.Code != http.StatusNotFound {
		left = &wire.StatusError{Code: gone.Code, Body: gone.Body}
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("create lease %s: %w", name, err)
	case made.Code != http.StatusCreated:
		return 0, fmt.Errorf("create lease %s: %w", name, &wire.StatusError{Code: made.Code, Body: made.Body})
	case left != nil:
		return 0, fmt.Errorf("delete lease %s: %w", name, left)
	}
	return made.Done.Sub(made.Sent).Seconds(), nil
}

// write sends one request and does not wait for its answer for ever.
func (l *looker) write(ctx context.Context, req *wire.Request) (*wire.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, canaryWithin)
	defer cancel()
	return l.r.watcher.Do(ctx, req)
}
