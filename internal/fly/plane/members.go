package plane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/plane/proxy"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// Client is the identity at members of what is tested: the user in the kubeconfig of
// each. It and Load are those whose credentials a fault can let expire.
const Client = "client"

// Member is a cluster beside the plane.
type Member struct {
	Name   string
	Group  string // of the scenario's members
	Kind   string // scenario.RealMember or scenario.HollowMember
	Labels map[string]string

	roundTrip time.Duration
	proxy     *proxy.Proxy // nil: clients reach the server directly
	endpoints map[string]endpoint.Endpoint
	server    *memberServer  // nil: a hollow one
	hollow    *hollowControl // nil: a real one
}

// Endpoint returns the address and the identity who: Admin, Load, Fleet, Observe or
// Client. Admin's and Observe's ways are direct, those of the others lead through the
// member's link where it has one.
func (m *Member) Endpoint(who string) endpoint.Endpoint { return m.endpoints[who] }

// Link returns the member's link; nil where nothing is emulated.
func (m *Member) Link() *proxy.Proxy { return m.proxy }

// RoundTrip is the time that the scenario adds to the link.
func (m *Member) RoundTrip() time.Duration { return m.roundTrip }

// MemberOptions say how members are started.
type MemberOptions struct {
	Options
	Plane scenario.Plane // durability and binaries
	// Linked tells whether clients reach a member through a proxy although it has no
	// round-trip time: because a fault needs it. TLS: see Options.TerminateTLS.
	Linked func(name string) (needed bool)
	// Hollow, when set, starts a group of hollow members somewhere else and returns how
	// each is reached, by their order, and by how many workers they are shared; nil: each
	// group is a process of this machine.
	Hollow func(ctx context.Context, group HollowGroup) (reach []HollowReach, workers int, err error)
}

// Members returns the members in the scenario's order.
func (p *Plane) Members() []*Member {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.members)
}

// StartMembers starts members beside the plane and returns when all are ready. The
// error names the member that is not, with its last log lines where it died
// (*process.DeathError); the others' logs stay.
func (p *Plane) StartMembers(ctx context.Context, groups []scenario.Members, o MemberOptions) (err error) {
	if o.Options, err = o.Options.withDefaults(); err != nil {
		return err
	}
	s := &memberStart{plane: p, options: o, begin: o.Clock.Now()}
	for i := range groups {
		s.addGroup(&groups[i])
	}
	for _, group := range s.groups {
		if err := group.startGroup(ctx); err != nil {
			return fmt.Errorf("start members: %w", err)
		}
	}
	return p.writeKubeconfigs()
}

// memberStart is the start of all members.
type memberStart struct {
	plane   *Plane
	options MemberOptions
	begin   clock.Time
	real    *realMembers // nil until the first of them
	groups  []*memberGroup
}

// memberGroup is the start of one group.
type memberGroup struct {
	*memberStart
	spec    *scenario.Members
	members []*Member
}

func (s *memberStart) addGroup(spec *scenario.Members) {
	g := &memberGroup{memberStart: s, spec: spec}
	for i, name := range spec.MemberNames() {
		g.members = append(g.members, &Member{
			Name: name, Group: spec.Name, Kind: spec.Kind, Labels: spec.LabelsOf(i), roundTrip: time.Duration(spec.RoundTrip),
		})
	}
	s.groups = append(s.groups, g)
}

// startGroup starts a group.
func (g *memberGroup) startGroup(ctx context.Context) error {
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
	p := g.plane
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members = append(p.members, g.members...)
	p.memberFacts = append(p.memberFacts, fact)
	return nil
}

// MemberFacts says what the members are, for the manifest.
func (p *Plane) MemberFacts() []record.MembersFact {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.memberFacts)
}

// linkMember puts a proxy before a member where it needs one, and the endpoints of all
// but Admin and Observe behind it.
func (g *memberGroup) linkMember(m *Member, opened *proxy.TLS) error {
	if m.roundTrip == 0 && (g.options.Linked == nil || !g.options.Linked(m.Name)) {
		return nil
	}
	to, err := m.endpoints[Admin].Address()
	if err != nil {
		return err
	}
	r, err := proxy.Start(proxy.Options{To: to, Clock: g.options.Clock, Seed: g.options.Seed, TLS: opened})
	if err != nil {
		return fmt.Errorf("link of %s: %w", m.Name, err)
	}
	g.plane.mu.Lock()
	g.plane.setProxyLocked("member "+m.Name, r)
	g.plane.mu.Unlock()
	m.proxy = r
	for _, who := range []string{Load, Fleet, Client} {
		if m.endpoints[who], err = m.endpoints[who].Via(r.Addr()); err != nil {
			return err
		}
	}
	return r.Emulate(proxy.Link{RoundTrip: m.roundTrip})
}

// startedAtOnce is how many API servers start at the same time: each is busy on a
// core for seconds, and one that waits for the others is ready no sooner.
func startedAtOnce() int { return max(2, runtime.NumCPU()) }

// eachMember does something for every member, so many at the same time. The first
// error ends it.
func (g *memberGroup) eachMember(ctx context.Context, atOnce int, do func(context.Context, int, *Member) error) error {
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

// MembersFolder is where the kubeconfigs of the members are: NAME.kubeconfig of each,
// and members.kubeconfig with a context for each. The user in them is Client. It is
// empty where there are no members.
func (p *Plane) MembersFolder() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.membersFolder
}

// writeKubeconfigs writes them.
func (p *Plane) writeKubeconfigs() error {
	members := p.Members()
	if len(members) == 0 {
		return nil
	}
	home, err := p.privateFolder()
	if err != nil {
		return err
	}
	folder := filepath.Join(home, "kubeconfigs")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("make a folder for kubeconfigs: %w", err)
	}
	contexts := map[string]endpoint.Endpoint{}
	for _, m := range members {
		contexts[m.Name] = m.Endpoint(Client)
		if err := contexts[m.Name].WriteKubeconfig(filepath.Join(folder, m.Name+".kubeconfig")); err != nil {
			return err
		}
	}
	p.mu.Lock()
	p.membersFolder = folder
	p.mu.Unlock()
	return endpoint.WriteContexts(filepath.Join(folder, MembersKubeconfig), members[0].Name, contexts)
}

// MembersKubeconfig is the file that has a context for each member.
const MembersKubeconfig = "members.kubeconfig"
