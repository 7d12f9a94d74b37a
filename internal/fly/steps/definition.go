package steps

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
)

// freshFor is how long after its definition was established a custom resource is not
// created at once: an API server has each such creation sleep for two seconds, so that
// other servers hear of the definition before (apiextensions-apiserver,
// customresource_handler.go). To measure that would be to measure when the run began.
const freshFor = 2 * time.Second

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
	if rest := freshTime(answer.Body, s.Clock.Wall(s.Clock.Now())); rest > 0 {
		_ = clock.Sleep(ctx, rest) // the step looks at ctx
	}
}

// freshTime returns for how long a definition, in JSON, is still fresh: freshFor at most,
// since the server's clock may be ahead of ours.
func freshTime(definition []byte, now time.Time) time.Duration {
	var d struct {
		Status struct {
			Conditions []struct {
				Type, Status       string
				LastTransitionTime time.Time
			}
		}
	}
	if json.Unmarshal(definition, &d) != nil {
		return 0
	}
	for _, c := range d.Status.Conditions {
		if c.Type == "Established" && c.Status == "True" {
			return min(freshFor, max(0, freshFor-now.Sub(c.LastTransitionTime)))
		}
	}
	return 0
}
