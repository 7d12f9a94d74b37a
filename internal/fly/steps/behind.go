package steps

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/fly/steps/behind"
)

// What is said of objects that a wait was not met by.
const (
	namedBehind  = 3   // how many
	listedBehind = 500 // how many pods are looked at for them
	lookWithin   = 10 * time.Second
)

// readBehind reads objects by their names. What cannot be read is left out: they
// are for a message.
func (s *Session) readBehind(ctx context.Context, r discovery.Resource, names [][2]string) (out behind.Objects) {
	for _, at := range names {
		var one behind.Object
		if s.readJSON(ctx, r.Collection(at[0])+"/"+at[1], &one) {
			out = append(out, one)
		}
	}
	return out
}

// podsBehind are pods of a group that are not as a wait wants them.
func (s *Session) podsBehind(ctx context.Context, group, phase string) (out behind.Objects) {
	path, selector := "/api/v1/pods", object.GroupLabel+"="+group
	for _, g := range s.Workload.Scenario.Groups {
		if g.Name == group {
			if selector = g.Selector; g.Namespace != "" {
				path = "/api/v1/namespaces/" + g.Namespace + "/pods"
			}
			break
		}
	}
	var page struct{ Items behind.Objects }
	query := url.Values{"labelSelector": {selector}, "limit": {fmt.Sprint(listedBehind)}}
	if !s.readJSON(ctx, path+"?"+query.Encode(), &page) {
		return nil
	}
	for _, one := range page.Items {
		if len(out) < namedBehind && (phase == "deleted" || !one.IsInPhase(phase)) {
			out = append(out, one)
		}
	}
	return out
}

// readJSON reads a path into v, if that can be done soon.
func (s *Session) readJSON(ctx context.Context, path string, v any) bool {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	answer, err := s.Client.Do(ctx, &wire.Request{Method: http.MethodGet, Path: path, Accept: "application/json"})
	return err == nil && answer.Code == http.StatusOK && json.Unmarshal(answer.Body, v) == nil
}
