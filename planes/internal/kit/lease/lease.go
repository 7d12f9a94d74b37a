// Package lease lets one of several equal processes work at a time: client-go's leader
// election, with the times that Kubernetes' own components, KubeVirt and Kosmos have.
//
// A lease is not given back: the next process works when it has expired, as after a kill.
package lease

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/windtunnel/windtunnel/planes/internal/kit/install"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
)

// The times of an election.
const (
	duration = 15 * time.Second // after the last renewal, another process takes the lease
	deadline = 10 * time.Second // without a renewal, the holder gives up
	period   = 2 * time.Second  // between renewals, and between attempts of those who wait
)

// ErrLost says that a process could not renew its lease and has ended its work.
var ErrLost = errors.New("the lease was lost")

// Lease is what processes of a name are elected by.
type Lease struct {
	Name   string       // of the processes; those of each shard have a lease of their own
	Config *rest.Config // of the client that reads and writes the lease
	Reads  bool         // it is read before each write, as by older releases of client-go
}

// Hold works as soon as it has the lease and returns when the work has: because it ended, ctx
// did, or the lease was lost, which ends the context of the work.
func (l Lease) Hold(ctx context.Context, e process.Env, work func(context.Context) error) error {
	name := l.Name
	if e.Shards > 1 {
		name = fmt.Sprintf("%s-%d", name, e.Shard+1)
	}
	if run := install.Run(); run != "" {
		name += "-" + run
	}
	client, err := coordination.NewForConfig(l.Config)
	if err != nil {
		return fmt.Errorf("lease %s: %w", name, err)
	}
	host, _ := os.Hostname() // the identity is unique without it
	var lock resourcelock.Interface = &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}, Client: client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
	}
	if l.Reads {
		lock = reading{lock}
	}
	e.Log.Info("waits for its lease", "lease", name)
	return hold(ctx, name, lock, work)
}

// hold works while it has a lock.
func hold(ctx context.Context, name string, lock resourcelock.Interface, work func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	leads := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: name, Lock: lock, LeaseDuration: duration, RenewDeadline: deadline, RetryPeriod: period,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(ctx context.Context) { leads <- ctx }, OnStoppedLeading: func() {}},
	})
	if err != nil {
		cancel()
		return fmt.Errorf("lease %s: %w", name, err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		elector.Run(ctx)
	}()
	defer func() {
		cancel()
		<-over
	}()
	select {
	case <-over:
	case lead := <-leads:
		if err := work(lead); err != nil || lead.Err() == nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("lease %s: %w", name, ErrLost)
}

// reading is a lock that is read before each write.
type reading struct{ resourcelock.Interface }

// Update reads and writes the lock.
func (r reading) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if _, _, err := r.Get(ctx); err != nil {
		return err
	}
	return r.Interface.Update(ctx, record)
}
