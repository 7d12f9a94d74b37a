// Package models stands in for kubelets, scheduler and controllers in hollow clusters. One
// goroutine plays the models of all clusters of a process.
package models

import (
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/backend"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
	"github.com/windtunnel/windtunnel/internal/sim/stage"
	"github.com/windtunnel/windtunnel/internal/sim/stage/builtin"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
	"github.com/windtunnel/windtunnel/internal/sim/wheel"
)

// Options are the models of every cluster. The registry removes a namespace with what is
// in it, and an object with its dependents, without any model.
type Options struct {
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

// isEmpty reports whether nothing has to be played.
func (o Options) isEmpty() bool { return o.Heartbeats <= 0 && !o.Binder && len(o.Stages) == 0 }

// Engine plays the models of all clusters of a process. Notify and WriteMetrics may be
// called from many goroutines.
type Engine struct {
	clock  clock.Clock
	done   <-chan struct{}
	models Options
	typed  *stage.Set
	stages *machine.Machine
	rng    *rand.Rand
	wheel  wheel.Wheel
	later  map[subject]*delayed
	beats  map[subject]*heartbeat
	nodes  map[*backend.Backend]*nodeList
	buffer []byte
	late   lateness // of heartbeats

	mu    sync.Mutex
	queue []subject
	wake  chan struct{}
}

// subject is an object that models play on.
type subject struct {
	cluster *backend.Backend
	table   *store.Table
	key     string
}

// New compiles the models; nil where there is nothing to play. Run ends when done is
// closed.
func New(m Options, c clock.Clock, done <-chan struct{}) (*Engine, error) {
	if m.isEmpty() {
		return nil, nil
	}
	e := &Engine{
		clock: c, done: done, models: m, rng: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), wake: make(chan struct{}, 1),
		later: map[subject]*delayed{}, beats: map[subject]*heartbeat{}, nodes: map[*backend.Backend]*nodeList{},
	}
	e.wheel.Start(c.Now())
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

// Notify tells the engine of an event of a cluster. It does not block, nor call the store.
func (e *Engine) Notify(c *backend.Backend, t *store.Table, ev *store.Event) {
	switch t.Name {
	case "pods", "nodes":
	case "leases.coordination.k8s.io", "namespaces":
		return
	default:
		if e.stages == nil || len(e.stages.Stages(e.resourceOf(c, t.Name))) == 0 {
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

// resourceOf returns what stages call the objects of a table.
func (e *Engine) resourceOf(c *backend.Backend, table string) machine.Resource {
	k := c.Registry().Kinds().OfTable(table)
	if k == nil {
		return machine.Resource{}
	}
	return machine.Resource{APIVersion: k.APIVersion(), Kind: k.Kind}
}

// Run plays the models until the server ends.
func (e *Engine) Run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		e.mu.Lock()
		todo := e.queue
		e.queue = nil
		e.mu.Unlock()
		for _, s := range todo {
			if e.hasEnded() {
				return
			}
			e.lookAt(s)
			e.wheel.Advance(e.clock.Now()) // heartbeats do not wait behind a burst
		}
		e.wheel.Advance(e.clock.Now())
		wait := time.Hour
		if due, ok := e.wheel.Wake(); ok {
			wait = max(0, e.clock.Until(due))
		}
		timer.Reset(wait)
		select {
		case <-e.wake:
		case <-timer.C:
		case <-e.done:
			return
		}
	}
}

// lookAt looks at an object that was written or removed.
func (e *Engine) lookAt(s subject) {
	o := s.table.Get(s.key)
	switch s.table.Name {
	case "nodes":
		e.lookAtNode(s, o)
	case "pods":
		e.lookAtPod(s, o)
	default:
		e.playStages(s, o)
	}
}

// delayed is a stage that plays later.
type delayed struct {
	timer   wheel.Timer
	version uint64 // of the object that it was chosen for
}

// playAfter plays something on an object after a delay, unless the object changes
// before that: then its stages are chosen again.
func (e *Engine) playAfter(s subject, o *store.Object, delay time.Duration, play func()) {
	e.cancelDelayed(s)
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
	e.wheel.Set(&d.timer, e.clock.Now().Add(delay))
}

func (e *Engine) cancelDelayed(s subject) {
	if d := e.later[s]; d != nil {
		e.wheel.Stop(&d.timer)
		delete(e.later, s)
	}
}

// kindNow returns the kind of a subject; nil when it is served no more.
func (s subject) kindNow() *kind.Kind { return s.cluster.Registry().Kinds().OfTable(s.table.Name) }

func (s subject) targetOf(sub string) registry.Target {
	t := registry.Target{Kind: s.kindNow(), Sub: sub}
	t.Namespace, t.Name = kind.SplitKey(s.key)
	return t
}

func (e *Engine) clockTime() clock.Time { return e.clock.Now() }

// wallTime returns the wall time.
func (e *Engine) wallTime() time.Time { return e.clock.Wall(e.clock.Now()) }

// hasEnded reports whether the server ends.
func (e *Engine) hasEnded() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// WriteMetrics writes how late heartbeats were, in Prometheus' text format.
func (e *Engine) WriteMetrics(w io.Writer) { e.late.writeHistogram(w) }
