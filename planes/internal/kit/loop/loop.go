// Package loop is the skeleton of a reference plane's controllers: a
// rate-limiting work queue of keys, worker threads, and a function that brings
// one object nearer to what it should be. An error puts the key back with
// growing delay, success forgets its failures.
//
// It knows nothing of what is reconciled.
package loop

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Key returns namespace/name of an object, and the name of one without a namespace.
func Key(o metav1.Object) string { return cache.MetaObjectToName(o).String() }

// Watch calls changed for each event of an informer that keeps objects of type T: with the
// object as it was, nil if it is new, and as it is, nil if it is gone.
func Watch[T any](i cache.SharedIndexInformer, changed func(old, now T)) error {
	_, err := i.AddEventHandler(Handler(changed))
	return err
}

// Handler returns the handler that Watch adds.
func Handler[T any](changed func(old, now T)) cache.ResourceEventHandlerFuncs {
	var none T
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { changed(none, o.(T)) },
		UpdateFunc: func(old, now any) { changed(old.(T), now.(T)) },
		DeleteFunc: func(o any) {
			if left, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = left.Obj
			}
			if last, ok := o.(T); ok {
				changed(last, none)
			}
		},
	}
}

// WatchEach calls seen for each event of an informer: with the object as it is, or as it was
// if it is gone.
func WatchEach[T comparable](i cache.SharedIndexInformer, seen func(T)) error {
	return Watch(i, func(old, now T) { seen(cmp.Or(now, old)) })
}

// Start runs informers until ctx ends and returns when all of them hold what
// the server holds. The caller waits on wait.
func Start(ctx context.Context, wait *sync.WaitGroup, informers ...cache.SharedIndexInformer) error {
	var synced []cache.DoneChecker
	for _, i := range informers {
		wait.Go(func() { i.RunWithContext(ctx) })
		synced = append(synced, i.HasSyncedChecker())
	}
	if !cache.WaitFor(ctx, "", synced...) {
		return ctx.Err()
	}
	return nil
}
