// Package loop is the skeleton of a reference plane's controllers: a
// rate-limiting work queue of keys, worker threads, and a function that brings
// one object nearer to what it should be. An error puts the key back with
// growing delay, success forgets its failures.
//
// It knows nothing of what is reconciled.
package loop

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Loop is one work queue with its workers.
type Loop struct {
	Queue     workqueue.TypedRateLimitingInterface[string]
	threads   int
	reconcile func(context.Context, string) error
	log       *slog.Logger
}

// Options say what a loop is.
type Options struct {
	Name      string // of the queue, in metrics and logs
	Threads   int
	Metrics   workqueue.MetricsProvider // may be nil
	Reconcile func(ctx context.Context, key string) error
	Log       *slog.Logger
	// Retry says when a key that failed goes again; nil: client-go's default for
	// controllers, growing from 5 ms.
	Retry workqueue.TypedRateLimiter[string]
}

// New returns a loop that does not run yet; its queue takes keys already.
func New(o Options) *Loop {
	if o.Retry == nil {
		o.Retry = workqueue.DefaultTypedControllerRateLimiter[string]()
	}
	return &Loop{
		Queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			o.Retry,
			workqueue.TypedRateLimitingQueueConfig[string]{Name: o.Name, MetricsProvider: o.Metrics},
		),
		threads: o.Threads, reconcile: o.Reconcile, log: o.Log.With("queue", o.Name),
	}
}

// Run works until ctx ends and every worker has finished what it was at.
func (l *Loop) Run(ctx context.Context) {
	var wait sync.WaitGroup
	for range l.threads {
		wait.Go(func() {
			for l.handleNext(ctx) {
			}
		})
	}
	<-ctx.Done()
	l.Queue.ShutDown()
	wait.Wait()
}

// handleNext takes a key; false when there will be none.
func (l *Loop) handleNext(ctx context.Context) bool {
	key, stop := l.Queue.Get()
	if stop {
		return false
	}
	defer l.Queue.Done(key)
	err := l.reconcile(ctx, key)
	if err == nil {
		l.Queue.Forget(key)
		return true
	}
	if ctx.Err() == nil {
		l.logFailure(key, err)
		l.Queue.AddRateLimited(key)
	}
	return true
}

// logFailure logs what is worth a line: conflicts are how two writers take turns.
func (l *Loop) logFailure(key string, err error) {
	level := slog.LevelWarn
	if apierrors.IsConflict(err) || apierrors.IsInvalid(err) || apierrors.IsNotFound(err) || errors.Is(err, ErrQuiet) {
		level = slog.LevelDebug
	}
	l.log.Log(context.Background(), level, "reconcile failed, goes again", "key", key, "failures", l.Queue.NumRequeues(key), "error", err)
}

// ErrQuiet marks failures that are expected and not worth a line each.
var ErrQuiet = errors.New("expected")

// Key returns namespace/name of an object or of what is left of a deleted one.
func Key(o any) (string, bool) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o)
	return key, err == nil
}

// Each lets every event be handled alike: f gets the object, or what is left of one.
func Each(f func(any)) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{AddFunc: f, UpdateFunc: func(_, o any) { f(o) }, DeleteFunc: f}
}

// Last returns the object behind what an informer says was deleted.
func Last[T any](o any) (T, bool) {
	if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = d.Obj
	}
	out, ok := o.(T)
	return out, ok
}

// Start runs informers until ctx ends and returns when all of them hold what
// the server holds. The caller waits on wait.
func Start(ctx context.Context, wait *sync.WaitGroup, informers ...cache.SharedIndexInformer) error {
	var synced []cache.InformerSynced
	for _, i := range informers {
		wait.Go(func() { i.RunWithContext(ctx) })
		synced = append(synced, i.HasSynced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return ctx.Err()
	}
	return nil
}
