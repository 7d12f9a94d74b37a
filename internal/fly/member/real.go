package member

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// membersEtcd is the name of the etcd that members share; a member's own is NAME-etcd.
const membersEtcd = "members-etcd"

// startReal starts a group of real members.
func (g *group) startReal(ctx context.Context, fact *record.MembersFact) (err error) {
	if g.servers == nil {
		if g.servers, err = plane.NewServers(ctx, g.plane, g.options.Programs, g.options.Options); err != nil {
			return err
		}
	}
	apis := servedAPIs(g.spec.APIs)
	fact.Etcd, fact.APIs = g.spec.Etcd, apis
	if g.spec.Etcd == "shared" && g.shared == nil {
		if g.shared, err = g.servers.StartStore(ctx, membersEtcd, true); err != nil {
			return err
		}
	}
	var once sync.Once
	return g.eachMember(ctx, startedAtOnce(), func(ctx context.Context, _ int, m *Member) error {
		store := g.shared
		if g.spec.Etcd == "own" {
			var err error
			if store, err = g.servers.StartStore(ctx, m.Name+"-etcd", false); err != nil {
				return err
			}
		}
		server, err := g.servers.StartServer(ctx, plane.ServerSpec{Name: m.Name, APIs: apis, Flags: g.spec.Flags}, store)
		if err != nil {
			return err
		}
		once.Do(func() { fact.Args = server.Args })
		m.server, m.endpoints = realServer{server}, server.Endpoints
		return g.linkMember(m, server.TLS)
	})
}

// startedAtOnce is how many API servers start at the same time: each is busy on a
// core for seconds, and one that waits for the others is ready no sooner.
func startedAtOnce() int { return max(2, runtime.NumCPU()) }

// servedAPIs are what is served beside v1; nil is what clients of many clusters use.
func servedAPIs(asked []string) []string {
	if len(asked) > 0 {
		return asked
	}
	return []string{"apps/v1", "batch/v1", "coordination.k8s.io/v1", "discovery.k8s.io/v1", "authentication.k8s.io/v1", "authorization.k8s.io/v1"}
}

// realServer is a process of a member's own.
type realServer struct{ *plane.Server }

// inject does what a fault says. Answers are slowed by the link.
func (r realServer) inject(ctx context.Context, p *plane.Plane, m *Member, d *scenario.Disturbance) (func(context.Context) error, error) {
	switch d.Action {
	case "slow":
		return m.link.inject(m.Name, d)
	case "expire":
		return func(context.Context) error { return r.Renew() }, r.Expire()
	}
	c, ok := p.Component(m.Name)
	if !ok {
		return nil, fmt.Errorf("%s %s: the plane has no such component: %w", d.Action, m.Name, plane.ErrNoFault)
	}
	if d.Action != "rollback" {
		return c.Inject(ctx, d)
	}
	before, err := r.copyState(ctx)
	if err != nil {
		return nil, fmt.Errorf("copy %s: %w", m.Name, err)
	}
	return func(ctx context.Context) error {
		if err := c.Kill(); err != nil { // it is down meanwhile
			return err
		}
		if err := r.restoreState(ctx, before); err != nil {
			return fmt.Errorf("restore %s: %w", m.Name, err)
		}
		return c.Restart(ctx)
	}, nil
}
