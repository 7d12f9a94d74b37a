package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// releaseWithin bounds how long the nodes of a batch have to report another release.
const releaseWithin = 2 * time.Minute

// RollKubelets lets the nodes of the fleet report another release of their kubelets, so many
// at the same time, in the order of their numbers: status.nodeInfo.kubeletVersion. A batch
// begins when the server has taken all reports of the one before, and between has returned,
// which is told how many nodes of how many have reported. Nodes that a fault keeps silent,
// or that somebody deletes, are left out; nodes that are made later report it from the start.
func (f *Fleet) RollKubelets(ctx context.Context, version string, batch int, between func(done, of int) error) error {
	all := f.speakingNodes()
	for first := 0; first < len(all); first += batch {
		some := all[first:min(first+batch, len(all))]
		if first > 0 {
			if err := between(first, len(all)); err != nil {
				return err
			}
		}
		if err := f.reportRelease(ctx, version, some); err != nil {
			return fmt.Errorf("%d of %s report %s: %w", first, unit.Count(len(all), "nodes"), version, err)
		}
	}
	f.driver.mu.Lock()
	defer f.driver.mu.Unlock()
	f.nodes.template.info.KubeletVersion = version
	return nil
}

// speakingNodes returns the nodes that live and are not silent, by their numbers.
func (f *Fleet) speakingNodes() (out []*node) {
	f.driver.mu.Lock()
	defer f.driver.mu.Unlock()
	for _, n := range f.nodes.all {
		if n != nil && n.state == nodeAlive && !n.fault.isSilent() {
			out = append(out, n)
		}
	}
	return out
}

// reportRelease sends the reports of a batch.
func (f *Fleet) reportRelease(ctx context.Context, version string, batch []*node) error {
	ctx, cancel := context.WithTimeoutCause(ctx, releaseWithin, fmt.Errorf("not within %v", releaseWithin))
	defer cancel()
	errs := make([]error, len(batch))
	var all guard.Group
	for i, n := range batch {
		all.Go(func() { errs[i] = f.driver.reportRelease(ctx, version, n.name) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// reportRelease sends the report of one node until the server takes it. It needs no turn.
func (e *driver) reportRelease(ctx context.Context, version, name string) error {
	due := e.clock.Now()
	for attempt := 0; ; attempt++ {
		r, err := e.client.Do(ctx, &wire.Request{
			Method: http.MethodPatch, Path: nodesPath + "/" + name + "/status", ContentType: patchType, Accept: object.ContentType,
			Body: fmt.Appendf(nil, `{"status":{"nodeInfo":{"kubeletVersion":%q}}}`, version), Timeout: callTimeout,
		})
		switch {
		case r == nil:
			return fmt.Errorf("node %s: %w", name, context.Cause(ctx))
		case errors.Is(err, wire.ErrClosed):
			return err
		}
		if e.records != nil {
			e.records.Call(r.Call(e.ops[nodeStatus], due))
		}
		switch {
		case r.Success() || r.Code == http.StatusNotFound:
			return nil
		case !r.Retriable():
			return fmt.Errorf("node %s: %w", name, r.Refusal())
		}
		if clock.Sleep(ctx, max(r.RetryAfter, wire.CallBackoff().Pause(attempt))) != nil {
			return fmt.Errorf("node %s: %w", name, context.Cause(ctx))
		}
		due = e.clock.Now()
	}
}
