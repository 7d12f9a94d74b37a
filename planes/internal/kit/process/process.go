// Package process is what the processes of reference planes have in common: a hidden verb
// with the flags of its options, a client's configuration, metrics, a log and a shard; and
// goroutines that begin together, say that they are ready, and end together.
//
// It does no work of a plane, and starts no process of the operating system: package
// subject does.
package process

import (
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
)

// Env is what a process works with. Options embed it.
type Env struct {
	// Config is that of a client with the user agent of the process. In a cluster that is not
	// the run's own, calls go through the run's door.
	Config        *rest.Config
	Registry      *instrument.Registry
	Clock         clock.Clock
	Log           *slog.Logger
	Shard, Shards int // the process does the Shard-th part, from 0, of Shards
}

// Now returns the wall time, as it is written into objects.
func (e *Env) Now() time.Time { return e.Clock.Wall(e.Clock.Now()) }

// InShard says whether the process does the part that a key is of.
func (e *Env) InShard(key string) bool {
	if e.Shards <= 1 {
		return true
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // a hash takes everything
	return int(h.Sum32()%uint32(e.Shards)) == e.Shard
}

// Loop returns a queue with its workers, which do not run yet.
func (e *Env) Loop(name string, threads int, reconcile func(ctx context.Context, key string) error) *loop.Loop {
	return loop.New(loop.Options{Name: name, Threads: threads, Metrics: e.Registry.Queues(), Reconcile: reconcile, Log: e.Log})
}

// Work runs a process until ctx ends, and returns when all has ended that begin started.
// The process is ready when begin returns. An error that follows from the end of ctx is none.
func (e *Env) Work(ctx context.Context, begin func(context.Context, *Group) error) error {
	g := &Group{}
	defer g.Wait()
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := begin(own, g); err != nil {
		return unlessEnded(ctx, err)
	}
	if ctx.Err() == nil {
		e.Registry.Ready()
	}
	<-ctx.Done()
	return nil
}

// unlessEnded returns an error unless it says that ctx has ended.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// Group are the goroutines of a process.
type Group struct{ sync.WaitGroup }

// Sync runs informers until ctx ends and returns when all of them hold what the server holds.
func (g *Group) Sync(ctx context.Context, informers ...cache.SharedIndexInformer) error {
	return loop.Start(ctx, &g.WaitGroup, informers...)
}

// Run runs queues' workers until ctx ends.
func (g *Group) Run(ctx context.Context, loops ...*loop.Loop) {
	for _, l := range loops {
		g.Go(func() { l.Run(ctx) })
	}
}
