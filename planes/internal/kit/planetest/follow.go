package planetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// Followed are the objects of a kind as a watch of the test's own shows them.
type Followed[T any] struct {
	t        testing.TB
	informer cache.SharedIndexInformer
	changed  chan struct{} // has room for one: something has changed since the last look
}

// Follow begins to watch the objects of an informer, until the test ends. One goroutine
// at a time may await what they come to.
func Follow[T any](t testing.TB, informer cache.SharedIndexInformer) *Followed[T] {
	t.Helper()
	f := &Followed[T]{t: t, informer: informer, changed: make(chan struct{}, 1)}
	repotest.Must(informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { f.note() }, UpdateFunc: func(_, _ any) { f.note() }, DeleteFunc: func(any) { f.note() },
	}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	wait.Go(func() { informer.RunWithContext(ctx) })
	t.Cleanup(func() { cancel(); wait.Wait() })
	return f
}

func (f *Followed[T]) note() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// patience is how long Await waits: only a failure takes that long.
const patience = 2 * time.Minute

// Await waits until the objects are as ok wants them. It asks at once and after each
// change, so that nothing is polled.
func (f *Followed[T]) Await(what string, ok func(all []T) bool) {
	f.t.Helper()
	end := time.NewTimer(patience)
	defer end.Stop()
	for {
		if ok(f.All()) {
			return
		}
		select {
		case <-f.changed:
		case <-end.C:
			f.t.Fatalf("not within %v: %s\n%.6000v", patience, what, f.All())
		}
	}
}

// All returns the objects.
func (f *Followed[T]) All() (out []T) {
	for _, o := range f.informer.GetStore().List() {
		out = append(out, o.(T))
	}
	return out
}
