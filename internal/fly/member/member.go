// Package member is the clusters beside the plane: it starts them, real ones with an API
// server each and hollow ones by the thousand in a process, says how each is reached, and
// breaks them. What they serve is package plane's or package hollow's.
package member

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/plane/proxy"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// Member is a cluster beside the plane.
type Member struct {
	Name   string
	Group  string // of the scenario's members
	Kind   string // scenario.RealMember or scenario.HollowMember
	Labels map[string]string

	link      link
	endpoints map[string]endpoint.Endpoint
	server    server
}

// server is what serves a member: a process of its own, or one that it shares with the
// hollow members of its group.
type server interface {
	// inject does what a fault says of the member, but to its link. What it returns takes
	// that back.
	inject(ctx context.Context, p *plane.Plane, m *Member, d *scenario.Disturbance) (mend func(context.Context) error, err error)
}

// Endpoint returns the address and the identity who of package plane: Admin, Load, Fleet,
// Observe or Client. Admin and Observe reach the server directly, the others through the
// member's link where it has one.
func (m *Member) Endpoint(who string) endpoint.Endpoint { return m.endpoints[who] }

// Options say how members are started.
type Options struct {
	plane.Options
	Programs scenario.Plane // durability and binaries of the plane
	// Linked tells whether clients reach a member through a proxy although it has no
	// round-trip time: because a fault needs it. TLS: see plane.Options.TerminateTLS.
	Linked func(name string) (needed bool)
	// Hollow, when set, starts a group of hollow members somewhere else and returns how
	// each is reached, by their order, and by how many workers they are shared; nil: each
	// group is a process of this machine.
	Hollow func(ctx context.Context, group HollowGroup) (reach []HollowReach, workers int, err error)
}

// Set is the members of a run, which may have none. They end with the plane that they stand
// beside.
type Set struct {
	plane   *plane.Plane
	options Options
	begin   clock.Time
	servers *plane.Servers // of real members; nil until the first of them
	shared  *plane.Store   // likewise; nil until a group shares it
	all     []*Member
	facts   []record.MembersFact
	folder  string
}

// All returns the members in the scenario's order.
func (s *Set) All() []*Member { return s.all }

// Facts says what the members are, for the manifest.
func (s *Set) Facts() []record.MembersFact { return s.facts }

// Folder is where the kubeconfigs of the members are: NAME.kubeconfig of each, and
// members.kubeconfig with a context for each. The user in them is plane.Client. It is empty
// where there are no members.
func (s *Set) Folder() string { return s.folder }

// Start starts members beside a plane and returns when all are ready. The error names the
// member that is not, with its last log lines where it died (*process.DeathError); the
// others' logs and facts stay.
func Start(ctx context.Context, p *plane.Plane, groups []scenario.Members, o Options) (*Set, error) {
	s := &Set{plane: p}
	var err error
	if o.Options, err = o.Options.WithDefaults(); err != nil {
		return s, err
	}
	s.options, s.begin = o, o.Clock.Now()
	for i := range groups {
		g := &group{Set: s, spec: &groups[i]}
		if err := g.start(ctx); err != nil {
			return s, fmt.Errorf("start members: %w", err)
		}
	}
	return s, s.writeKubeconfigs()
}

// group is the start of one group.
type group struct {
	*Set
	spec    *scenario.Members
	members []*Member
}

// start starts a group.
func (g *group) start(ctx context.Context) error {
	for i, name := range g.spec.MemberNames() {
		g.members = append(g.members, &Member{
			Name: name, Group: g.spec.Name, Kind: g.spec.Kind, Labels: g.spec.LabelsOf(i), link: link{roundTrip: time.Duration(g.spec.RoundTrip)},
		})
	}
	if len(g.members) == 0 {
		return nil
	}
	fact := record.MembersFact{
		Name: g.spec.Name, Count: len(g.members), Kind: g.spec.Kind, Labels: g.spec.Labels, Spread: g.spec.Spread,
		RoundTripSeconds: time.Duration(g.spec.RoundTrip).Seconds(),
	}
	if g.spec.Fleet != nil {
		fact.Nodes = g.spec.Fleet.Nodes
	}
	fact.Nodes += g.spec.Nodes
	start := g.startReal
	if g.spec.Kind == scenario.HollowMember {
		start = g.startHollow
	}
	if err := start(ctx, &fact); err != nil {
		return err
	}
	fact.ReadySeconds = g.options.Clock.Now().Sub(g.begin).Seconds()
	g.all, g.facts = append(g.all, g.members...), append(g.facts, fact)
	return nil
}

// linkMember puts a proxy before a member where it needs one, and the endpoints of all
// but Admin and Observe behind it.
func (g *group) linkMember(m *Member, opened *proxy.TLS) error {
	if m.link.roundTrip == 0 && (g.options.Linked == nil || !g.options.Linked(m.Name)) {
		return nil
	}
	to, err := m.endpoints[plane.Admin].Address()
	if err != nil {
		return err
	}
	r, err := proxy.Start(proxy.Options{To: to, Clock: g.options.Clock, Seed: g.options.Seed, TLS: opened})
	if err != nil {
		return fmt.Errorf("link of %s: %w", m.Name, err)
	}
	g.plane.KeepProxy("member "+m.Name, r)
	m.link.proxy = r
	for _, who := range []string{plane.Load, plane.Fleet, plane.Client} {
		if m.endpoints[who], err = m.endpoints[who].Via(r.Addr()); err != nil {
			return err
		}
	}
	return r.Emulate(proxy.Link{RoundTrip: m.link.roundTrip})
}

// eachMember does something for every member, so many at the same time. The first
// error ends it.
func (g *group) eachMember(ctx context.Context, atOnce int, do func(context.Context, int, *Member) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan int)
	var wait guard.Group
	for range min(atOnce, len(g.members)) {
		wait.Go(func() {
			for i := range queue {
				if err := do(ctx, i, g.members[i]); err != nil {
					cancel(withMemberName(g.members[i].Name, err))
				}
			}
		})
	}
	for i := range g.members {
		select {
		case queue <- i:
		case <-ctx.Done():
		}
	}
	close(queue)
	wait.Wait()
	return context.Cause(ctx)
}

// withMemberName adds a member's name to an error that does not begin with it.
func withMemberName(name string, err error) error {
	var death *process.DeathError
	if errors.As(err, &death) {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// writeKubeconfigs writes the members' kubeconfigs.
func (s *Set) writeKubeconfigs() error {
	if len(s.all) == 0 {
		return nil
	}
	folder, err := s.plane.Folder("kubeconfigs")
	if err != nil {
		return err
	}
	contexts := map[string]endpoint.Endpoint{}
	for _, m := range s.all {
		contexts[m.Name] = m.Endpoint(plane.Client)
		if err := contexts[m.Name].WriteKubeconfig(filepath.Join(folder, m.Name+".kubeconfig")); err != nil {
			return err
		}
	}
	s.folder = folder
	return endpoint.WriteContexts(filepath.Join(folder, MembersKubeconfig), s.all[0].Name, contexts)
}

// MembersKubeconfig is the file that has a context for each member.
const MembersKubeconfig = "members.kubeconfig"
