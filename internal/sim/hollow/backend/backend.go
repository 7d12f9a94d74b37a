// Package backend does what a registry decides: it gives each write its time, repeats a
// write that lost a race, and carries out the tasks that follow, as the controllers of a
// real cluster do.
package backend

import (
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// RequestTimeout is how long a request other than a watch may take, as an API server's
// --request-timeout: for its own work, and in waiting for its client.
const RequestTimeout = time.Minute

// TimeoutError is what an API server answers when a request takes too long.
func TimeoutError() error {
	return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
}

// Backend is the registry of one cluster, with a clock and a queue of tasks. Its methods
// may be called from many goroutines.
type Backend struct {
	registry *registry.Registry
	clock    clock.Clock
	running  *guard.Group
	done     <-chan struct{}
	timeout  time.Duration // of a write

	mu      sync.Mutex
	queue   []registry.Task
	working bool // a goroutine carries out tasks: there is one only while there are tasks
}

// New returns a backend. Its goroutine is one of running, and ends when done is closed.
func New(r *registry.Registry, c clock.Clock, running *guard.Group, done <-chan struct{}) *Backend {
	return &Backend{registry: r, clock: c, running: running, done: done, timeout: RequestTimeout}
}

// Registry returns the registry.
func (b *Backend) Registry() *registry.Registry { return b.registry }

// Clock returns the clock.
func (b *Backend) Clock() clock.Clock { return b.clock }

// Now returns the wall time.
func (b *Backend) Now() time.Time { return b.clock.Wall(b.clock.Now()) }

// Done is closed when the server ends.
func (b *Backend) Done() <-chan struct{} { return b.done }

// Create stores a new object.
func (b *Backend) Create(w registry.Write, o runtime.Object) (registry.Result, error) {
	w.Now = b.Now()
	out, err := b.registry.Create(w, o)
	b.Enqueue(out.Tasks)
	return out, err
}

// Change changes an object. It calls ch.Replace again when another write came between,
// for RequestTimeout at most.
func (b *Backend) Change(ch registry.Change) (registry.Result, error) {
	began := b.clock.Now()
	ch.Now = b.clock.Wall(began)
	for {
		out, err := b.registry.Change(ch)
		b.Enqueue(out.Tasks)
		if !errors.Is(err, store.ErrChanged) {
			return out, err
		}
		if b.clock.Now().Sub(began) > b.timeout {
			return registry.Result{}, TimeoutError()
		}
	}
}

// Delete deletes an object, or marks it. It tries again when another write came between,
// for RequestTimeout at most.
func (b *Backend) Delete(w registry.Write, options *metav1.DeleteOptions) (registry.Result, error) {
	began := b.clock.Now()
	w.Now = b.clock.Wall(began)
	for {
		out, err := b.registry.Delete(w, *options)
		b.Enqueue(out.Tasks)
		if !errors.Is(err, store.ErrChanged) {
			return out, err
		}
		if b.clock.Now().Sub(began) > b.timeout {
			return registry.Result{}, TimeoutError()
		}
	}
}

// Bind assigns a pod to a node.
func (b *Backend) Bind(w registry.Write, binding *corev1.Binding) error {
	_, err := b.Change(b.registry.Bind(w, binding))
	return err
}

// Evict deletes a pod unless a disruption budget allows no disruption.
func (b *Backend) Evict(w registry.Write, options *metav1.DeleteOptions) error {
	budgets, err := b.registry.Disruptions(w)
	if err != nil {
		return err
	}
	for _, ch := range budgets {
		if _, err := b.Change(ch); err != nil {
			return err
		}
	}
	_, err = b.Delete(w, options)
	return err
}

// Load stores an object as it stands.
func (b *Backend) Load(o *unstructured.Unstructured) error {
	tasks, err := b.registry.Load(o, b.Now())
	b.Enqueue(tasks)
	return err
}

// Restore stores again what there was.
func (b *Backend) Restore(then registry.State) { b.Enqueue(b.registry.Restore(then, b.Now())) }

// RenewLease writes the lease of a node.
func (b *Backend) RenewLease(node string, seconds int32) {
	b.Enqueue(b.registry.RenewLease(node, seconds, b.Now()))
}

// Enqueue lets tasks be carried out soon, one after another, after those that were
// enqueued before.
func (b *Backend) Enqueue(tasks []registry.Task) {
	if len(tasks) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = append(b.queue, tasks...)
	if !b.working {
		b.working = true
		b.running.Go(b.doTasks)
	}
}

func (b *Backend) doTasks() {
	for {
		t, ok := b.takeTask()
		if !ok {
			return
		}
		b.Enqueue(b.registry.Do(t, b.Now()))
	}
}

// takeTask returns the next task; not ok when there is none, or the server ends. The
// goroutine then ends.
func (b *Backend) takeTask() (t registry.Task, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 || b.hasEnded() {
		b.working, b.queue = false, nil
		return registry.Task{}, false
	}
	t, b.queue = b.queue[0], b.queue[1:]
	return t, true
}

// hasEnded reports whether the server ends.
func (b *Backend) hasEnded() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}
