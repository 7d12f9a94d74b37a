package tree

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
)

// manager runs a tree: it lets members join and leave, and holds what works for all of
// them.
type manager struct {
	tree    *tree
	joins   *loop.Loop
	copies  *copyController
	exports *exportController // nil unless services are imported

	mu       sync.Mutex
	stopping map[string]func() // ends a member and waits, by name
}

// Run manages until ctx ends; it returns when all has ended.
func Run(ctx context.Context, o Options) error {
	m, err := newManager(o)
	if err != nil {
		return err
	}
	return m.run(ctx)
}

func (m *manager) run(ctx context.Context) error {
	defer m.stopMembers()
	return m.tree.o.Work(ctx, func(ctx context.Context, g *process.Group) error {
		if err := m.addHandlers(); err != nil {
			return err
		}
		if err := m.tree.hub.caches.Start(ctx, &g.WaitGroup); err != nil {
			return err
		}
		g.Run(ctx, m.allLoops()...)
		return nil
	})
}

func newManager(o Options) (*manager, error) {
	t, err := newTree(o)
	if err != nil {
		return nil, err
	}
	m := &manager{tree: t, stopping: map[string]func(){}}
	m.joins = t.newLoop("join", o.JoinWorkers, m.reconcileMember)
	m.copies = newCopyController(t)
	if o.PodQueue == QueueShared {
		t.pods = t.newLoop("pods", o.PodWorkers, func(ctx context.Context, key string) error { return t.reconcileDown(ctx, nil, key) })
	}
	if o.Import != ImportOff {
		m.exports = newExportController(t)
	}
	return m, nil
}

// allLoops are those that work for all members.
func (m *manager) allLoops() []*loop.Loop {
	all := []*loop.Loop{m.joins, m.copies.queue}
	if m.tree.pods != nil {
		all = append(all, m.tree.pods)
	}
	if m.exports != nil {
		all = append(all, m.exports.queue)
	}
	return all
}

// addHandlers connects the hub's caches with the queues.
func (m *manager) addHandlers() error {
	hub := m.tree.hub
	errs := []error{
		loop.WatchEach(hub.clusters, enqueueTo(m.joins, "")), loop.WatchEach(hub.pods, m.tree.hubPodSeen),
		m.copies.addHandlers(),
	}
	if m.exports != nil {
		errs = append(errs, m.exports.addHandlers())
	}
	return errors.Join(errs...)
}

// enqueueTo returns a function that puts an object's key into a queue.
func enqueueTo(l *loop.Loop, prefix string) func(metav1.Object) {
	return func(o metav1.Object) { l.Queue.Add(prefix + loop.Key(o)) }
}

// stopMembers ends all members.
func (m *manager) stopMembers() {
	m.mu.Lock()
	all := slices.Collect(maps.Values(m.stopping))
	m.mu.Unlock()
	for _, stop := range all {
		stop()
	}
}
