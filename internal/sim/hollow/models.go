package hollow

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
	"github.com/windtunnel/windtunnel/internal/sim/stage"
	"github.com/windtunnel/windtunnel/internal/sim/stage/builtin"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
	"github.com/windtunnel/windtunnel/internal/sim/wheel"
)

// Models say what stands in for kubelets, scheduler and controllers in every
// cluster. That a namespace is removed with what is in it, and an object with what
// belongs to it, is always so.
type Models struct {
	// Nodes is how many nodes every cluster begins with, node-000000 and so on: ready,
	// and nobody's.
	Nodes int
	// Heartbeats is how often each node's lease in kube-node-lease is renewed, which
	// is made for every node that is created; 0: never.
	Heartbeats time.Duration
	// Binder binds pods that the default scheduler is to bind: in turn to nodes that
	// are ready and schedulable, whose labels the pod's node selector matches, whose
	// taints it tolerates, and that have place for one pod more.
	Binder bool
	// ServiceAccounts gives every namespace the service account default and the
	// certificate kube-root-ca.crt, also again when one is deleted or changed.
	ServiceAccounts bool
	// Stages are built-in sets and files in kwok's format, of what pods, nodes,
	// deployments and others become by themselves; files lie in StagesDir.
	Stages    []string
	StagesDir string
}

// any says whether there is a model at all.
func (m Models) any() bool { return m.Heartbeats > 0 || m.Binder || len(m.Stages) > 0 }

// engine plays the models of all clusters, in one goroutine.
type engine struct {
	server *Server
	models Models
	typed  *stage.Set
	stages *machine.Machine
	rng    *rand.Rand
	wheel  wheel.Wheel
	later  map[subject]*delayed
	beats  map[subject]*heartbeat
	nodes  map[*Cluster]*nodeList
	buffer []byte
	late   lateness // of heartbeats

	mu    sync.Mutex
	queue []subject
	wake  chan struct{}
}

// subject is an object that models play on.
type subject struct {
	cluster *Cluster
	table   *store.Table
	key     string
}

// newEngine compiles the models; nil without any.
func newEngine(s *Server, m Models) (*engine, error) {
	if !m.any() {
		return nil, nil
	}
	e := &engine{
		server: s, models: m, rng: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), wake: make(chan struct{}, 1),
		later: map[subject]*delayed{}, beats: map[subject]*heartbeat{}, nodes: map[*Cluster]*nodeList{},
	}
	e.wheel.Start(s.clock.Now())
	if len(m.Stages) == 0 {
		return e, nil
	}
	file, err := builtin.Sets(m.Stages, m.StagesDir)
	if err != nil {
		return nil, err
	}
	if e.stages, err = machine.Compile(file.Stages); err != nil {
		return nil, err
	}
	e.typed = stage.New(e.stages)
	return e, nil
}

// notify is told of each event of a cluster, under the lock of its store.
func (e *engine) notify(c *Cluster, t *store.Table, ev *store.Event) {
	switch t.Name {
	case "pods", "nodes":
	case "leases.coordination.k8s.io", "namespaces":
		return
	default:
		if e.stages == nil || len(e.stages.Stages(e.resource(c, t.Name))) == 0 {
			return
		}
	}
	e.mu.Lock()
	e.queue = append(e.queue, subject{c, t, ev.Object.Key})
	first := len(e.queue) == 1
	e.mu.Unlock()
	if first {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
}

// resource returns what stages call the objects of a table.
func (e *engine) resource(c *Cluster, table string) machine.Resource {
	k := c.registry.Kinds().OfTable(table)
	if k == nil {
		return machine.Resource{}
	}
	return machine.Resource{APIVersion: k.APIVersion(), Kind: k.Kind}
}

// run plays until the server is closed.
func (e *engine) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		e.mu.Lock()
		todo := e.queue
		e.queue = nil
		e.mu.Unlock()
		for _, s := range todo {
			if e.server.ended() {
				return
			}
			e.see(s)
			e.wheel.Advance(e.server.clock.Now()) // heartbeats do not wait behind a burst
		}
		e.wheel.Advance(e.server.clock.Now())
		wait := time.Hour
		if due, ok := e.wheel.Wake(); ok {
			wait = max(0, e.server.clock.Until(due))
		}
		timer.Reset(wait)
		select {
		case <-e.wake:
		case <-timer.C:
		case <-e.server.done:
			return
		}
	}
}

// see looks at an object that was written or removed.
func (e *engine) see(s subject) {
	o := s.table.Get(s.key)
	switch s.table.Name {
	case "nodes":
		e.node(s, o)
	case "pods":
		e.pod(s, o)
	default:
		e.other(s, o)
	}
}

// delayed is a stage that plays later.
type delayed struct {
	timer   wheel.Timer
	version uint64 // of the object that it was chosen for
}

// after plays something on an object after a delay, unless the object changes
// before that: then its stages are chosen again.
func (e *engine) after(s subject, o *store.Object, delay time.Duration, play func()) {
	e.cancel(s)
	if delay <= 0 {
		play()
		return
	}
	d := &delayed{version: o.Version}
	d.timer.Fire = func() {
		delete(e.later, s)
		if now := s.table.Get(s.key); now != nil && now.Version == d.version {
			play()
		}
	}
	e.later[s] = d
	e.wheel.Set(&d.timer, e.server.clock.Now().Add(delay))
}

func (e *engine) cancel(s subject) {
	if d := e.later[s]; d != nil {
		e.wheel.Stop(&d.timer)
		delete(e.later, s)
	}
}

// kind returns the kind of a subject; nil when it is served no more.
func (s subject) kind() *kind.Kind { return s.cluster.registry.Kinds().OfTable(s.table.Name) }

func (s subject) target(sub string) registry.Target {
	t := registry.Target{Kind: s.kind(), Sub: sub}
	t.Namespace, t.Name = kind.SplitKey(s.key)
	return t
}

func (e *engine) now() clock.Time { return e.server.clock.Now() }
