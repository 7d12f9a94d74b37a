package inspect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/flight/preflight"
)

// A probe write is that of a lease: small, looked at by few, and of a resource
// that every plane writes all the time.
const (
	probeWrites = 20
	probePath   = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
	probeWithin = 10 * time.Second // for one answer
	probeAtMost = 5 * time.Second  // that the server is at one
)

// errNotOurs says that probe writes are not for us to make.
var errNotOurs = errors.New("not allowed, or not served")

// AddProbeWrites makes some objects, one after another, and deletes them. Where that
// is not for us to do there are none; any other failure is something that could
// not be looked at.
func (i *Inspector) AddProbeWrites(ctx context.Context, s *preflight.State) {
	if slices.Contains(i.Tolerate, preflight.ProbeWrite) {
		return
	}
	var took []float64
	for n := range probeWrites {
		seconds, err := i.probeWrite(ctx, "windtunnel-probe-"+strconv.FormatInt(i.Clock.Epoch().UnixNano(), 36)+"-"+strconv.Itoa(n))
		if errors.Is(err, errNotOurs) {
			return
		}
		if err != nil {
			s.Unread = append(s.Unread, fmt.Sprintf("how long a creation takes could not be measured: %v", err))
			return
		}
		took = append(took, seconds)
	}
	s.ProbeWrites = took
}

// probeWrite makes one object, deletes it, and returns how many seconds its creation
// took. It carries the run's label, so that clean finds what a killed run left. One whose answer was lost may be there, or be made yet: it is deleted, too.
func (i *Inspector) probeWrite(ctx context.Context, name string) (float64, error) {
	body, err := object.Stamp{Run: i.Run}.MarkJSON(fmt.Appendf(nil, `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":%q}}`, name))
	if err != nil {
		return 0, err
	}
	created, err := i.writeOnce(ctx, &wire.Request{Method: http.MethodPost, Path: probePath + "?timeout=" + probeAtMost.String(), ContentType: "application/json",
		Body: body})
	if err == nil && (created.Code == http.StatusForbidden || created.Code == http.StatusNotFound) {
		return 0, errNotOurs
	}
	remove := func() (*wire.Response, error) {
		return i.writeOnce(context.WithoutCancel(ctx), &wire.Request{Method: http.MethodDelete, Path: probePath + "/" + name})
	}
	deleted, left := remove()
	if err != nil && left == nil && deleted.Code == http.StatusNotFound {
		_ = clock.Sleep(context.WithoutCancel(ctx), probeAtMost)
		deleted, left = remove()
	}
	if left == nil && !deleted.Success() && deleted.Code != http.StatusNotFound {
		left = deleted.Refusal()
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("create lease %s: %w", name, err)
	case created.Code != http.StatusCreated:
		return 0, fmt.Errorf("create lease %s: %w", name, created.Refusal())
	case left != nil:
		return 0, fmt.Errorf("delete lease %s: %w", name, left)
	}
	return created.Done.Sub(created.Sent).Seconds(), nil
}

// writeOnce sends one request and does not wait for its answer for ever.
func (i *Inspector) writeOnce(ctx context.Context, req *wire.Request) (*wire.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	return i.Client.Do(ctx, req)
}
