package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/share/message"
	"github.com/windtunnel/windtunnel/internal/fly/share/protocol"
	"github.com/windtunnel/windtunnel/internal/fly/steps"
	"github.com/windtunnel/windtunnel/internal/share"
)

// sender is the load of a worker.
type sender struct {
	worker
	share   share.Share
	session *steps.Session
	client  *wire.Client

	mu        sync.Mutex            // parts are planned one after another
	answering map[string]*answering // the ends of paths, by step
}

// openConnections compiles the plan and makes the connections.
func (s *sender) openConnections(ctx context.Context, plan message.Plan) error {
	e, workload, err := readPlan(plan, plan.Kubeconfig, nil)
	if err != nil {
		return err
	}
	if s.client, err = wire.New(e, wire.Options{UserAgent: "windtunnel-load", Clock: s.clock}); err != nil {
		return err
	}
	generator, err := load.New(load.Options{Endpoint: e, Records: s.records, Clock: s.clock})
	if err != nil {
		return err
	}
	s.session = &steps.Session{Workload: workload, Created: steps.NewCreated(), Load: generator, Client: s.client, Clock: s.clock, Log: s.log}
	s.session.Created.TrackChanges()
	s.session.DiscoverResources(ctx)
	return nil
}

// close ends the connections and the ends of paths.
func (s *sender) close() {
	if s.session != nil {
		_ = s.session.Load.Close()
	}
	if s.client != nil {
		_ = s.client.Close()
	}
	s.endAnswers()
}

// Leave does nothing: between parts there is no load.
func (s *sender) Leave() {}

// Progress is where the load stands.
func (s *sender) Progress() any {
	g := s.session.Load
	return message.Progress{Load: g.Tally(), Unexpected: g.FailedForGood(s.session.Workload.Expects)}
}

// Prepare plans a part of the load, or begins or ends the end of a path.
func (s *sender) Prepare(ctx context.Context, body json.RawMessage) (protocol.Task, error) {
	var o message.Order
	if err := json.Unmarshal(body, &o); err != nil {
		return nil, fmt.Errorf("read what is to be sent: %w", err)
	}
	if o.Answer != nil {
		return s.answerPath(ctx, *o.Answer)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	plan, err := planPart(ctx, s.session, o)
	if err != nil {
		return nil, err
	}
	asked, err := plan.Asked()
	if err != nil {
		return nil, err
	}
	sum := message.Digest(asked, plan)
	plan.Share = s.share
	s.session.Load.Reserve(ctx, plan)
	return &sharedPart{sender: s, plan: plan, digest: sum}, nil
}

// sharedPart is a worker's share of a part of the load.
type sharedPart struct {
	*sender
	plan   load.Plan
	digest string
}

// Prepared tells the leader what was planned.
func (x *sharedPart) Prepared() any { return message.Prepared{Digest: x.digest} }

// Send sends it, and tells what the answers said of the objects.
func (x *sharedPart) Send(ctx context.Context, begin clock.Time) (any, error) {
	x.plan.Begin = max(1, begin)
	err := x.session.Load.Run(ctx, x.plan)
	return message.Sent{Seen: x.session.Created.TakeChanges()}, err
}
