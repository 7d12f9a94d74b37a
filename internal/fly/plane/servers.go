package plane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/plane/proxy"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/machine/pki"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/scenario"
)

// Role is what a process is to the clusters beside the plane.
type Role uint8

// The roles. Servers end before what they store their objects in.
const (
	NoRole     Role = iota
	ServerRole      // an API server: its death is that of one member
	StoreRole       // what several API servers need
)

// Servers starts API servers beside the plane, of the same programs, each with the etcd
// that it is told to use and with authorities of its own.
type Servers struct {
	flight
	folder string
}

// Store is an etcd of such servers.
type Store struct {
	authorities authorities
	site        site
	reach       endpoint.Endpoint
}

// ServerSpec says what server is to start.
type ServerSpec struct {
	Name  string            // of its process, and of its keys in etcd
	APIs  []string          // served beside v1, such as apps/v1; all: every one
	Flags map[string]string // the scenario's
}

// Server is a server that has started.
type Server struct {
	Args      []string                     // of the server
	Endpoints map[string]endpoint.Endpoint // as Admin, Observe, Fleet, Load and Client
	TLS       *proxy.TLS                   // what lets a proxy see single calls, with Options.TerminateTLS
	Store     endpoint.Endpoint            // the etcd
	Prefix    string                       // of the server's keys there

	authority *pki.Authority // of the server and of whose credentials stay
	clients   *pki.Authority // of whose credentials can expire
	folder    pki.Folder
}

// NewServers finds the programs, and makes a folder for the servers. The options have their
// defaults.
func NewServers(ctx context.Context, p *Plane, cfg scenario.Plane, o Options) (*Servers, error) {
	if cfg.Durability == "" {
		cfg.Durability = durabilityMemory
	}
	run, err := findPrograms(ctx, cfg, o)
	if err != nil {
		return nil, err
	}
	folder, err := p.Folder("members")
	if err != nil {
		return nil, err
	}
	return &Servers{flight: flight{plane: p, cfg: cfg, run: run, o: o}, folder: folder}, nil
}

// StartStore starts an etcd. One that many servers share is given more of the CPU than one
// process beside theirs would have: behind with its work it lets calls time out, which come
// again.
func (g *Servers) StartStore(ctx context.Context, name string, shared bool) (*Store, error) {
	ports, err := FreePorts(2)
	if err != nil {
		return nil, err
	}
	place, _, err := chooseFolder(g.cfg.Durability, dataFolders())
	if err != nil {
		return nil, err
	}
	now := g.o.Clock.Wall(g.o.Clock.Now())
	a, err := newAuthorities(now)
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(g.folder, name)
	s := site{
		folder: folder, ports: map[string]int{component.Etcd: ports[0], peerOf(component.Etcd): ports[1]}, fsync: g.cfg.Durability == durabilityFsync,
		quota: quotaFor(place), etcd36: atLeast(g.run.versions[component.Etcd], 3, 6),
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
	store := &Store{authorities: a, site: s, reach: endpoint.New(s.serverURL(component.Etcd), a.etcd.PEM(), endpoint.Identity{Cert: pair.Cert, Key: pair.Key})}
	return store, g.launchServer(ctx, serverProcess{
		name: name, component: component.Etcd, role: StoreRole, reach: store.reach, flags: commandLine(flagsOf(component.Etcd, s), nil), ahead: shared,
	})
}

// StartServer makes a server's certificates and identities, starts it, and returns when it is
// ready.
func (g *Servers) StartServer(ctx context.Context, spec ServerSpec, store *Store) (*Server, error) {
	now := g.o.Clock.Wall(g.o.Clock.Now())
	server := &Server{Prefix: "/members/" + spec.Name, Store: store.reach}
	port, err := FreePorts(1)
	if err != nil {
		return nil, err
	}
	s := site{ports: map[string]int{component.APIServer: port[0], component.Etcd: store.site.ports[component.Etcd]}}
	if s.pki, err = pki.NewFolder(filepath.Join(g.folder, spec.Name)); err != nil {
		return nil, err
	}
	server.folder = s.pki
	a := store.authorities
	var faults [2]error
	a.cluster, faults[0] = pki.NewAuthority("windtunnel-"+spec.Name, now)
	server.clients, faults[1] = pki.NewAuthority("windtunnel-"+spec.Name+"-clients", now)
	if err := errors.Join(faults[:]...); err != nil {
		return nil, err
	}
	server.authority = a.cluster
	toEtcd, err := a.etcd.Issue(pki.Subject{Name: "kube-apiserver-etcd-client"}, now)
	if err := errors.Join(err, a.writeCertificates(s.pki, now), s.pki.WritePair("apiserver-etcd-client", toEtcd), server.Renew()); err != nil {
		return nil, err
	}
	if err := server.makeIdentities(s, now, g.o.TerminateTLS); err != nil {
		return nil, err
	}
	server.Args = commandLine(serverFlags(s, server.Prefix, spec.APIs), spec.Flags)
	err = g.launchServer(ctx, serverProcess{
		name: spec.Name, component: component.APIServer, role: ServerRole, reach: server.Endpoints[Admin], flags: server.Args,
	})
	if err == nil && servesRBAC(spec.APIs) {
		err = bindGroup(ctx, g.plane.log, server.Endpoints[Admin])
	}
	return server, err
}

// makeIdentities makes the identities, and what lets a proxy see single calls if it is to.
func (v *Server) makeIdentities(s site, now time.Time, opened bool) (err error) {
	v.Endpoints = map[string]endpoint.Endpoint{}
	var all []pki.Pair
	for _, id := range []struct {
		who     string
		by      *pki.Authority
		subject pki.Subject
	}{
		{Admin, v.authority, pki.Subject{Name: "windtunnel:admin", Groups: []string{"system:masters"}}},
		{Observe, v.authority, pki.Subject{Name: "windtunnel:observe", Groups: []string{"system:masters"}}},
		{Fleet, v.authority, pki.Subject{Name: "windtunnel:fleet", Groups: []string{"system:nodes", group}}},
		{Load, v.clients, pki.Subject{Name: "windtunnel:load", Groups: []string{group}}},
		{Client, v.clients, pki.Subject{Name: "windtunnel:client", Groups: []string{group}}},
	} {
		pair, err := id.by.Issue(id.subject, now)
		if err != nil {
			return err
		}
		v.Endpoints[id.who] = endpoint.New(s.serverURL(component.APIServer), v.authority.PEM(), endpoint.Identity{Cert: pair.Cert, Key: pair.Key})
		all = append(all, pair)
	}
	if opened {
		v.TLS, err = openTLSFor(v.authority, all, now)
	}
	return err
}

// serverProcess is one process of those beside the plane.
type serverProcess struct {
	name, component string
	role            Role
	reach           endpoint.Endpoint // where it says that it is ready
	flags           []string
	ahead           bool // of others on the CPU
}

// launchServer starts such a process and waits until it is ready.
func (g *Servers) launchServer(ctx context.Context, x serverProcess) error {
	path, args := g.run.release.Command(x.component)
	ask, err := newAsker(x.reach)
	if err != nil {
		return err
	}
	s := &supervisor{plane: g.plane, turn: make(chan struct{}, 1), role: x.role, ready: ask.isReady, within: readyWithin, spec: process.Spec{
		Name: x.name, Path: path, Args: append(args, x.flags...), Env: ownEnvironment(), Dir: g.o.BaseDir,
		LogFile: filepath.Join(g.o.LogDir, x.name+".log"), Ahead: x.ahead,
	}}
	return s.launchBeside(ctx)
}

// LaunchStore starts a program that several members need and waits until it is ready. Its
// CPU and memory are measured as a component's.
func (p *Plane) LaunchStore(ctx context.Context, g Program) error {
	s := &supervisor{plane: p, turn: make(chan struct{}, 1), role: StoreRole, ready: g.Ready, within: readyWithin, spec: process.Spec{
		Name: g.Name, Path: g.Path, Args: g.Args, Env: append(ownEnvironment(), text.Pairs(g.Env)...), LogFile: g.LogFile,
	}}
	return s.launchBeside(ctx)
}

// launchBeside starts a process beside the plane and waits until it is ready.
func (s *supervisor) launchBeside(ctx context.Context) error {
	child, err := s.startProcess()
	if err != nil {
		return err
	}
	if err := s.plane.addComponent(Component{Name: s.spec.Name, LogFile: child.LogFile(), supervisor: s}); err != nil {
		child.Kill()
		return err
	}
	if err := s.awaitReady(ctx, child); err != nil {
		return err
	}
	s.watchProcess(child)
	return nil
}

// bindGroup makes windtunnel's group cluster-admin at another server.
func bindGroup(ctx context.Context, log *slog.Logger, admin endpoint.Endpoint) error {
	ask, err := newAsker(admin)
	if err != nil {
		return err
	}
	defer ask.client.CloseIdleConnections()
	return pollUntil(ctx, log, "the rights of windtunnel's users", ask.bindAdmin, func() error { return nil })
}

// stopServers ends the servers beside the plane at once, and then what they stored their
// objects in: all of it is thrown away.
func (p *Plane) stopServers() {
	for _, role := range []Role{ServerRole, StoreRole} {
		var all guard.Group
		for _, s := range p.supervisors() {
			if s.role == role {
				all.Go(func() { s.currentProcess().Kill() })
			}
		}
		all.Wait()
	}
}

// Expire lets the credentials of Load and Client be refused with 401, until Renew: the API
// server reads its authorities again when they have changed.
func (v *Server) Expire() error { return v.writeAuthorities(v.authority.PEM()) }

// Renew undoes Expire.
func (v *Server) Renew() error {
	return v.writeAuthorities(slices.Concat(v.authority.PEM(), v.clients.PEM()))
}

func (v *Server) writeAuthorities(all []byte) error {
	if err := v.folder.Write("ca.new", all); err != nil {
		return err
	}
	if err := os.Rename(v.folder.File("ca.new"), v.folder.Cert("ca")); err != nil {
		return fmt.Errorf("change a member's authorities: %w", err)
	}
	return nil
}

// alwaysServed is what a kube-apiserver of 1.37 is not ready without: it watches
// these itself, EndpointSlices also with --enable-aggregator-routing=false.
func alwaysServed() []string {
	return []string{"api/v1", "apiregistration.k8s.io/v1", "apiextensions.k8s.io/v1", "admissionregistration.k8s.io/v1", "networking.k8s.io/v1", "discovery.k8s.io/v1"}
}

func servesRBAC(apis []string) bool {
	return slices.Contains(apis, "all") || slices.Contains(apis, "rbac.authorization.k8s.io/v1")
}

// serverFlags are those of a server beside the plane. What nothing feeds is off: no
// controller manager makes service accounts or takes taints from new nodes.
func serverFlags(s site, prefix string, apis []string) []flagValue {
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
	out := flagsOf(component.APIServer, s)
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
