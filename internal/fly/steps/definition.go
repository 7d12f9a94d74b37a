package steps

import (
	"context"
	"net/http"
	"strings"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/steps/inventory"
)

// awaitAge waits until the definition of a custom resource is no longer fresh. What is
// known of none, and what may not be read, is not waited for.
func (s *Session) awaitAge(ctx context.Context, r discovery.Resource) {
	if s.member != nil || strings.Count(r.Name, ".") < 2 { // the group of a definition has a dot
		return
	}
	if _, known := s.Created.aged.LoadOrStore(r.Name, true); known {
		return
	}
	answer, err := s.Client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + r.Name})
	if err != nil || !answer.Success() {
		return
	}
	if rest := inventory.FreshTime(answer.Body, s.Clock.Wall(s.Clock.Now())); rest > 0 {
		_ = clock.Sleep(ctx, rest) // the step looks at ctx
	}
}
