package plane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/fly/plane/component"
	"github.com/windtunnel/windtunnel/internal/fly/plane/proxy"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/machine/pki"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/record"
)

// memberRole is what a process is to members.
type memberRole uint8

const (
	roleNone   memberRole = iota
	roleMember            // an API server, with the member's name
	roleStore             // an etcd of members
)

// membersEtcd is the name of the etcd that members share; a member's own is
// NAME-etcd.
const membersEtcd = "members-etcd"

// memberServer is the API server of a real member.
type memberServer struct {
	authority *pki.Authority // of the server and of whose credentials stay
	clients   *pki.Authority // of whose credentials can expire
	folder    pki.Folder
	prefix    string            // of its keys in etcd
	store     endpoint.Endpoint // that etcd
}

// realMembers is what real members have in common.
type realMembers struct {
	flight
	folder string
	shared *memberStore
}

// memberStore is an etcd of members.
type memberStore struct {
	authorities authorities
	site        site
	reach       endpoint.Endpoint
}

// prepareReal finds the programs and a folder, once for all groups.
func (s *memberStart) prepareReal(ctx context.Context) error {
	if s.real != nil {
		return nil
	}
	cfg := s.options.Plane
	if cfg.Durability == "" {
		cfg.Durability = durabilityMemory
	}
	run, err := findPrograms(ctx, cfg, s.options.Options)
	if err != nil {
		return err
	}
	home, err := s.plane.privateFolder()
	if err != nil {
		return err
	}
	folder := filepath.Join(home, "members")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("make a folder for members: %w", err)
	}
	s.real = &realMembers{flight: flight{cfg: cfg, run: run, o: s.options.Options}, folder: folder}
	return nil
}

// startReal starts a group of real members.
func (g *memberGroup) startReal(ctx context.Context, fact *record.MembersFact) error {
	if err := g.prepareReal(ctx); err != nil {
		return err
	}
	fact.Etcd, fact.APIs = g.spec.Etcd, memberAPIs(g.spec.APIs)
	if g.spec.Etcd == "shared" && g.real.shared == nil {
		store, err := g.startStore(ctx, membersEtcd)
		if err != nil {
			return err
		}
		g.real.shared = store
	}
	var once sync.Once
	return g.eachMember(ctx, startedAtOnce(), func(ctx context.Context, _ int, m *Member) error {
		store := g.real.shared
		if g.spec.Etcd == "own" {
			var err error
			if store, err = g.startStore(ctx, m.Name+"-etcd"); err != nil {
				return err
			}
		}
		args, err := g.startServer(ctx, m, store)
		once.Do(func() { fact.Args = args })
		return err
	})
}

// startStore starts an etcd for members.
func (g *memberGroup) startStore(ctx context.Context, name string) (*memberStore, error) {
	ports, err := FreePorts(2)
	if err != nil {
		return nil, err
	}
	place, _, err := chooseFolder(g.real.cfg.Durability, dataFolders())
	if err != nil {
		return nil, err
	}
	now := g.options.Clock.Wall(g.options.Clock.Now())
	a, err := newAuthorities(now)
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(g.real.folder, name)
	s := site{
		folder: folder, ports: map[string]int{component.Etcd: ports[0], etcdPeer: ports[1]}, fsync: g.real.cfg.Durability == durabilityFsync,
		quota: quotaFor(place), etcd36: atLeast(g.real.run.versions[component.Etcd], 3, 6),
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make a folder for %s: %w", name, err)
	}
	if s.pki, err = pki.NewFolder(filepath.Join(folder, "pki")); err != nil {
		return nil, err
	}
	pair, err := a.etcd.Issue(pki.Subject{Name: "windtunnel:observe"}, now)
	if err := errors.Join(err, a.writeCertificates(s.pki, now)); err != nil {
		return nil, err
	}
	store := &memberStore{authorities: a, site: s, reach: endpoint.New(s.serverURL(component.Etcd), a.etcd.PEM(), endpoint.Identity{Cert: pair.Cert, Key: pair.Key})}
	return store, g.launchMember(ctx, memberProcess{
		name: name, component: component.Etcd, role: roleStore, reach: store.reach, flags: commandLine(etcdFlags(s), nil),
	})
}

// startServer makes a member's certificates and identities and starts its API
// server. It returns the server's arguments.
func (g *memberGroup) startServer(ctx context.Context, m *Member, store *memberStore) (args []string, err error) {
	now := g.options.Clock.Wall(g.options.Clock.Now())
	server := &memberServer{prefix: "/members/" + m.Name, store: store.reach}
	port, err := FreePorts(1)
	if err != nil {
		return nil, err
	}
	s := site{ports: map[string]int{component.APIServer: port[0], component.Etcd: store.site.ports[component.Etcd]}}
	if s.pki, err = pki.NewFolder(filepath.Join(g.real.folder, m.Name)); err != nil {
		return nil, err
	}
	server.folder = s.pki
	a := store.authorities
	var faults [4]error
	a.cluster, faults[0] = pki.NewAuthority("windtunnel-"+m.Name, now)
	server.clients, faults[1] = pki.NewAuthority("windtunnel-"+m.Name+"-clients", now)
	if err := errors.Join(faults[:]...); err != nil {
		return nil, err
	}
	server.authority = a.cluster
	toEtcd, err := a.etcd.Issue(pki.Subject{Name: "kube-apiserver-etcd-client"}, now)
	if err := errors.Join(err, a.writeCertificates(s.pki, now), s.pki.WritePair("apiserver-etcd-client", toEtcd), server.renewCredentials()); err != nil {
		return nil, err
	}
	m.server = server
	inside, err := g.makeIdentities(m, s, now)
	if err != nil {
		return nil, err
	}
	args = commandLine(memberFlags(s, server.prefix, memberAPIs(g.spec.APIs)), g.spec.Flags)
	err = g.launchMember(ctx, memberProcess{
		name: m.Name, component: component.APIServer, role: roleMember, reach: m.endpoints[Admin], flags: args,
	})
	if err == nil && servesRBAC(memberAPIs(g.spec.APIs)) {
		err = bindGroup(ctx, g.plane, m)
	}
	if err != nil {
		return nil, err
	}
	return args, g.linkMember(m, inside)
}

// makeIdentities makes a member's identities, and what lets a link see single calls.
func (g *memberGroup) makeIdentities(m *Member, s site, now time.Time) (*proxy.TLS, error) {
	m.endpoints = map[string]endpoint.Endpoint{}
	var all []pki.Pair
	for _, id := range []struct {
		who     string
		by      *pki.Authority
		subject pki.Subject
	}{
		{Admin, m.server.authority, pki.Subject{Name: "windtunnel:admin", Groups: []string{"system:masters"}}},
		{Observe, m.server.authority, pki.Subject{Name: "windtunnel:observe", Groups: []string{"system:masters"}}},
		{Fleet, m.server.authority, pki.Subject{Name: "windtunnel:fleet", Groups: []string{"system:nodes", group}}},
		{Load, m.server.clients, pki.Subject{Name: "windtunnel:load", Groups: []string{group}}},
		{Client, m.server.clients, pki.Subject{Name: "windtunnel:client", Groups: []string{group}}},
	} {
		pair, err := id.by.Issue(id.subject, now)
		if err != nil {
			return nil, err
		}
		m.endpoints[id.who] = endpoint.New(s.serverURL(component.APIServer), m.server.authority.PEM(), endpoint.Identity{Cert: pair.Cert, Key: pair.Key})
		all = append(all, pair)
	}
	if !g.options.TerminateTLS {
		return nil, nil
	}
	return openTLSFor(m.server.authority, all, now)
}

// memberProcess is one process of members.
type memberProcess struct {
	name, component string
	role            memberRole
	reach           endpoint.Endpoint // where it says that it is ready
	flags           []string
}

// launchMember starts a process of members and waits until it is ready.
func (g *memberGroup) launchMember(ctx context.Context, x memberProcess) error {
	path, args := g.real.run.release.Command(x.component)
	ask, err := newAsker(x.reach)
	if err != nil {
		return err
	}
	s := &supervisor{plane: g.plane, turn: make(chan struct{}, 1), role: x.role, ready: ask.isReady, within: readyWithin, spec: process.Spec{
		Name: x.name, Path: path, Args: append(args, x.flags...), Env: ownEnvironment(), Dir: g.options.BaseDir,
		LogFile: filepath.Join(g.options.LogDir, x.name+".log"),
		// It does the work of as many as there are members, and would have the share of one
		// beside their API servers: behind with that it lets calls time out, which come again.
		Ahead: x.name == membersEtcd,
	}}
	return g.plane.runMember(ctx, s)
}

// runMember starts a process of members and waits until it is ready.
func (p *Plane) runMember(ctx context.Context, s *supervisor) error {
	child, err := s.startProcess()
	if err != nil {
		return err
	}
	if err := p.addComponent(Component{Name: s.spec.Name, LogFile: child.LogFile(), supervisor: s}); err != nil {
		child.Kill()
		return err
	}
	if err := s.awaitReady(ctx, child); err != nil {
		return err
	}
	s.watchProcess(child)
	return nil
}

// bindGroup makes windtunnel's group cluster-admin in a member.
func bindGroup(ctx context.Context, p *Plane, m *Member) error {
	ask, err := newAsker(m.endpoints[Admin])
	if err != nil {
		return err
	}
	defer ask.client.CloseIdleConnections()
	return p.pollUntil(ctx, "the rights of windtunnel's users", ask.bindAdmin, func() error { return nil })
}

// stopMembers ends the members at once, and then what they stored their objects in:
// all of it is thrown away.
func (p *Plane) stopMembers() {
	for _, role := range []memberRole{roleMember, roleStore} {
		var all guard.Group
		for _, s := range p.supervisors() {
			if s.role == role {
				all.Go(func() { s.currentProcess().Kill() })
			}
		}
		all.Wait()
	}
}

// expireCredentials lets the credentials of Load and Client be refused: the API server reads
// its authorities anew when they have changed.
func (s *memberServer) expireCredentials() error { return s.writeAuthorities(s.authority.PEM()) }

// renewCredentials takes them again.
func (s *memberServer) renewCredentials() error {
	return s.writeAuthorities(slices.Concat(s.authority.PEM(), s.clients.PEM()))
}

func (s *memberServer) writeAuthorities(all []byte) error {
	if err := s.folder.Write("ca.new", all); err != nil {
		return err
	}
	if err := os.Rename(s.folder.File("ca.new"), s.folder.Cert("ca")); err != nil {
		return fmt.Errorf("change a member's authorities: %w", err)
	}
	return nil
}

// Expire lets the credentials of a member's Load and Client expire, until Renew: its
// server answers them with 401.
func (m *Member) Expire(ctx context.Context) error {
	if m.server == nil {
		return m.hollow.doAction(ctx, m, "expire", nil)
	}
	return m.server.expireCredentials()
}

// Renew undoes Expire.
func (m *Member) Renew(ctx context.Context) error {
	if m.server == nil {
		return m.hollow.doAction(ctx, m, "renew", nil)
	}
	return m.server.renewCredentials()
}

// memberAPIs are what is served beside v1; nil is what clients of many clusters use.
func memberAPIs(asked []string) []string {
	if len(asked) > 0 {
		return asked
	}
	return []string{"apps/v1", "batch/v1", "coordination.k8s.io/v1", "discovery.k8s.io/v1", "authentication.k8s.io/v1", "authorization.k8s.io/v1"}
}

// alwaysServed is what a kube-apiserver of 1.37 is not ready without: it watches
// these itself, EndpointSlices also with --enable-aggregator-routing=false.
func alwaysServed() []string {
	return []string{"api/v1", "apiregistration.k8s.io/v1", "apiextensions.k8s.io/v1", "admissionregistration.k8s.io/v1", "networking.k8s.io/v1", "discovery.k8s.io/v1"}
}

func servesRBAC(apis []string) bool {
	return slices.Contains(apis, "all") || slices.Contains(apis, "rbac.authorization.k8s.io/v1")
}

// memberFlags are those of a member's API server. What nothing feeds is off: no
// controller manager makes service accounts or takes taints from new nodes.
func memberFlags(s site, prefix string, apis []string) []flagValue {
	own := map[string]string{
		"etcd-prefix":              prefix,
		"endpoint-reconciler-type": "none",
		"enable-admission-plugins": "NamespaceLifecycle",
	}
	off := []string{"ServiceAccount", "TaintNodesByCondition"}
	if !slices.Contains(apis, "all") {
		own["runtime-config"] = "api/all=false"
		for _, api := range slices.Concat(alwaysServed(), apis) {
			own["runtime-config"] += "," + api + "=true"
		}
		if !slices.ContainsFunc(apis, func(api string) bool { return strings.HasPrefix(api, "flowcontrol.apiserver.k8s.io/") }) {
			own["enable-priority-and-fairness"] = "false"
		}
		off = defaultAdmission() // they look at resources that are not served
	}
	own["disable-admission-plugins"] = strings.Join(off, ",")
	if !servesRBAC(apis) {
		own["authorization-mode"] = "AlwaysAllow"
	}
	out := apiServerFlags(s)
	for i := range out {
		if value, ok := own[out[i].name]; ok {
			out[i].value = value
			delete(own, out[i].name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		out = append(out, flagValue{name, own[name]})
	}
	return out
}

// defaultAdmission are the admission plugins that a kube-apiserver of 1.37 has on by
// default, but that for namespaces that are being deleted.
func defaultAdmission() []string {
	return strings.Fields(`
		CertificateApproval CertificateSigning CertificateSubjectRestriction ClusterTrustBundleAttest DefaultIngressClass
		DefaultStorageClass DefaultTolerationSeconds LimitRanger MutatingAdmissionPolicy MutatingAdmissionWebhook
		PersistentVolumeClaimResize PodSecurity PodTopologyLabels Priority ResourceQuota RuntimeClass ServiceAccount
		StorageObjectInUseProtection TaintNodesByCondition ValidatingAdmissionPolicy ValidatingAdmissionWebhook`)
}
